/*
 * rules: what it costs to load and to ask a dictionary of a million entries.
 *
 * Prints `name value unit` lines, medians. Each lookup needs the answer of the one before, as a
 * dependent read does. Words are written into registers, so that fetching them is not measured.
 */
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/number.h"
#include "rules/dictionary.h"

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
	    dictionary_read((struct slice){text->data, text->len}, &bench->dictionary, NULL) != 0)
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

int main(int argc, char **argv)
{
	bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
	struct bench bench = {.entries = quick ? 100000 : 1000000, .seed = 88172645463325252};

	measure_words(&bench);
	measure_addresses(&bench, "%d.%d.%d.%d\n", "addresses");
	measure_addresses(&bench, "%d.%d.%d.%d/26\n", "networks");
	return 0;
}
