/*
 * rules: measures loading a dictionary of a million entries, lookups in it, and finding the three
 * rules that apply to a request among ten and ten thousand.
 *
 * Prints `name value unit` lines, medians. Each lookup needs the answer of the one before, as a
 * dependent read does. Words are written into registers, so that fetching them is not measured.
 */
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/number.h"
#include "engine/rules/rule_match.h"
#include "rules/match/dictionary.h"

#include "measure.h"

#define LOOKUPS 1000000

struct bench {
	struct dictionary *dictionary;
	uint64_t entries, seed, found;
};

/* Eight digits of base 16, the least first, in one word. */
static uint64_t digits(uint32_t number)
{
	uint64_t spread = number;

	spread = (spread | spread << 16) & UINT64_C(0x0000ffff0000ffff);
	spread = (spread | spread << 8) & UINT64_C(0x00ff00ff00ff00ff);
	spread = (spread | spread << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return spread + UINT64_C(0x6161616161616161);
}

struct word {
	char bytes[20];
};

static struct word word_of(uint64_t number)
{
	struct word word = {"account:        :uid"};
	uint64_t text = digits((uint32_t)number);

	memcpy(word.bytes + 8, &text, sizeof text);
	return word;
}

/* Spread over all addresses; of a network one within. */
static struct ip address_of(uint64_t number)
{
	uint32_t address = __builtin_bswap32((uint32_t)number * 4096 + 7);
	struct ip ip = {{[10] = 0xff, [11] = 0xff}};

	memcpy(ip.bytes + 12, &address, sizeof address);
	return ip;
}

static double per_lookup(uint64_t start_ns)
{
	return (double)(measure_now_ns() - start_ns) / LOOKUPS;
}

static void read_dictionary(struct bench *bench, struct buffer *text, const char *name)
{
	uint64_t resident = measure_resident_bytes(), start = measure_now_ns();

	if (text->failed ||
	    dictionary_read((struct slice){text->data, text->len}, NULL, &bench->dictionary, NULL) != 0)
		exit(1);
	printf("%s_load %.2f ms\n", name, (double)(measure_now_ns() - start) / 1e6);
	printf("%s_memory %.2f bytes\n", name,
	       (double)(measure_resident_bytes() - resident) / (double)bench->entries);
	buffer_free(text);
}

static double words(struct bench *bench, uint64_t from)
{
	uint64_t start = measure_now_ns();

	for (int i = 0; i < LOOKUPS; i++) {
		struct word word = word_of(from + measure_draw_below(&bench->seed, bench->entries));
		bool found = dictionary_has(bench->dictionary,
		                            (struct slice){word.bytes, sizeof word.bytes}, NULL);

		bench->found += found;
		bench->seed += found;
	}
	return per_lookup(start);
}

static double word_found(void *context)
{
	return words(context, 0);
}

static double word_missing(void *context)
{
	return words(context, 1 << 24);
}

static double address(void *context)
{
	struct bench *bench = context;
	uint64_t start = measure_now_ns();

	for (int i = 0; i < LOOKUPS; i++) {
		struct ip ip = address_of(measure_draw_below(&bench->seed, bench->entries));
		bool found = dictionary_has(bench->dictionary, SLICE(""), &ip);

		bench->found += found;
		bench->seed += found;
	}
	return per_lookup(start);
}

static void measure_words(struct bench *bench)
{
	struct buffer text = {0};

	for (uint64_t i = 0; i < bench->entries; i++) {
		struct word word = word_of(i);

		buffer_add(&text, word.bytes, sizeof word.bytes);
		buffer_add(&text, "\n", 1);
	}
	read_dictionary(bench, &text, "dictionary");
	measure_print("dictionary_word", word_found, bench);
	measure_print("dictionary_no_word", word_missing, bench);
	dictionary_close(bench->dictionary);
}

static void measure_addresses(struct bench *bench, const char *format, const char *name)
{
	struct buffer text = {0};
	char of_lookups[64];

	for (uint64_t i = 0; i < bench->entries; i++) {
		const uint8_t *bytes = (struct ip[]){address_of(i)}[0].bytes + 12;

		buffer_printf(&text, format, bytes[0], bytes[1], bytes[2], bytes[3]);
	}
	read_dictionary(bench, &text, name);
	snprintf(of_lookups, sizeof of_lookups, "%s_lookup", name);
	measure_print(of_lookups, address, bench);
	dictionary_close(bench->dictionary);
}

/* Rules of `act` and `uid`, of which three each have one user; all have one act. */
struct rule_bench {
	struct arena arena, turn;
	struct match *match;
	uint64_t users, asked, seed, found;
};

#define USER_TEXT 20

static struct slice user_text(uint64_t user, char text[USER_TEXT])
{
	return (struct slice){text, (size_t)(format_u64(text, 200000000 + user) - text)};
}

static void open_rules(struct rule_bench *bench, size_t n)
{
	struct rules_rule *rules = arena_array(&bench->arena, n, sizeof *rules);
	struct weir_config *config = arena_alloc(&bench->arena, sizeof *config);

	for (size_t i = 0; i < n; i++) {
		struct rules_condition *conditions = arena_array(&bench->arena, 2, sizeof *conditions);
		struct rules_value *values = arena_array(&bench->arena, 2, sizeof *values);
		char text[USER_TEXT];
		struct slice user = user_text(i / 3, text);

		values[0] = (struct rules_value){.text = SLICE("ask")};
		values[1] = (struct rules_value){.text = {arena_copy(&bench->arena, user), user.len}};
		conditions[0] = (struct rules_condition){.attribute = "act", &values[0], 1};
		conditions[1] = (struct rules_condition){.attribute = "uid", &values[1], 1};
		rules[i] = (struct rules_rule){.conditions = conditions, .condition_count = 2};
	}
	config->rules = rules;
	config->rule_count = n;
	bench->users = n / 3;
	bench->match = match_new(config, &(struct hash_key){1, 2}, &bench->arena);
	if (!bench->match)
		exit(1);
}

static double match_requests(void *context)
{
	struct rule_bench *bench = context;
	uint64_t start = measure_now_ns();

	for (int i = 0; i < LOOKUPS; i++) {
		char text[USER_TEXT];
		struct slice user = user_text(measure_draw_below(&bench->seed, bench->asked), text);
		const struct weir_attribute attributes[] = {{"act", "ask", 3}, {"uid", user.data, user.len}};
		struct match_found found;

		if (match_rules(bench->match, match_values(bench->match, attributes, 2, &bench->turn),
		                &bench->turn, &found))
			bench->found += found.count;
		arena_reset(&bench->turn);
	}
	return per_lookup(start);
}

/* They take turns, so that a machine that is slower for a while is so for all. */
static void measure_matching(void)
{
	static const struct {
		const char *name;
		size_t rules;
		uint64_t users; /* at most */
	} cases[] = {{"match_10_rules", 10, UINT64_MAX},
	             {"match_10000_rules_3_users", 10000, 3},
	             {"match_10000_rules", 10000, UINT64_MAX}};
	enum { CASES = sizeof cases / sizeof *cases };
	struct rule_bench benches[CASES] = {0};
	double ns[CASES][MEASURE_ROUNDS];

	for (int i = 0; i < CASES; i++) {
		benches[i].seed = 88172645463325252;
		open_rules(&benches[i], cases[i].rules);
		benches[i].asked = u64_min(cases[i].users, benches[i].users);
	}
	for (int round = 0; round < MEASURE_ROUNDS; round++)
		for (int i = 0; i < CASES; i++)
			ns[i][round] = match_requests(&benches[i]);
	for (int i = 0; i < CASES; i++) {
		measure_print_median(cases[i].name, ns[i]);
		if (benches[i].found != 3ull * LOOKUPS * MEASURE_ROUNDS)
			exit(1);
		arena_free(&benches[i].turn);
		arena_free(&benches[i].arena);
	}
}

int main(int argc, char **argv)
{
	bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
	struct bench bench = {.entries = quick ? 100000 : 1000000, .seed = 88172645463325252};

	measure_matching();
	measure_words(&bench);
	measure_addresses(&bench, "%d.%d.%d.%d\n", "addresses");
	measure_addresses(&bench, "%d.%d.%d.%d/26\n", "networks");
	return 0;
}
