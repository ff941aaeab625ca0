/* Random dictionaries are asked what a plain list of their lines says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "rules/match/dictionary.h"
#include "rules/model.h"

#define LINES 300

static struct dictionary *dictionary_of(const char *text)
{
	struct dictionary *dictionary;
	struct weir_error error;

	if (dictionary_read(slice_of(text), NULL, &dictionary, &error) != WEIR_OK)
		fail_msg("%u: %s", error.line, error.message);
	return dictionary;
}

static bool has(const struct dictionary *dictionary, const char *word)
{
	struct ip ip;
	bool is_ip = ip_parse(slice_of(word), &ip);

	return dictionary_has(dictionary, slice_of(word), is_ip ? &ip : NULL);
}

static void lines_are_words_without_blanks(void **state)
{
	struct dictionary *dictionary =
	    dictionary_of("\xef\xbb\xbf" "ann\n  bob smith\t\r\n\n   \n# cat\n #dog\neve#\nann\n*\nlast");

	(void)state;
	assert_true(has(dictionary, "ann"));
	assert_true(has(dictionary, "bob smith"));
	assert_true(has(dictionary, "eve#"));
	assert_true(has(dictionary, "*"));
	assert_true(has(dictionary, "last"));
	assert_false(has(dictionary, ""));
	assert_false(has(dictionary, "an"));
	assert_false(has(dictionary, "cat"));
	assert_false(has(dictionary, "# cat"));
	assert_false(has(dictionary, "bob"));
	assert_int_equal(dictionary_count(dictionary), 5);
	assert_false(dictionary_has_addresses(dictionary));
	dictionary_close(dictionary);
}

static void an_address_has_many_spellings(void **state)
{
	struct dictionary *dictionary = dictionary_of(
	    "10.1.2.3\n10.1.2.3\n2001:DB8::1\n192.168.*.7\n10.2.0.0/16\n10.3.0.1-10.3.0.9\n10.4.5.*\n"
	    "2001:db8:1::/48\n10.3.0.5-10.3.0.20\n10.3.0.21\n10.2.128.0/17\n7");

	(void)state;
	assert_true(has(dictionary, "::ffff:10.1.2.3"));
	assert_true(has(dictionary, "[2001:db8:0:0::1]"));
	assert_false(has(dictionary, "2001:db8::2"));
	assert_true(has(dictionary, "192.168.200.7"));
	assert_false(has(dictionary, "192.168.200.8"));
	assert_false(has(dictionary, "192.169.200.7"));
	assert_true(has(dictionary, "10.2.255.255"));
	assert_false(has(dictionary, "10.3.0.0"));
	assert_true(has(dictionary, "10.3.0.9"));
	assert_true(has(dictionary, "10.3.0.20"));
	assert_true(has(dictionary, "10.3.0.21"));
	assert_false(has(dictionary, "10.3.0.22"));
	assert_true(has(dictionary, "10.4.5.255"));
	assert_true(has(dictionary, "2001:db8:1:ffff::"));
	assert_false(has(dictionary, "2001:db8:2::"));
	assert_false(has(dictionary, "10.2.0.0/16")); /* no address */
	assert_true(has(dictionary, "7"));
	/* Three addresses, a pattern, a word; of the ranges two are within others. */
	assert_int_equal(dictionary_count(dictionary), 4 + 1 + 4);
	assert_true(dictionary_has_addresses(dictionary));
	dictionary_close(dictionary);
}

static void refused(struct slice text, unsigned line, const char *message)
{
	struct dictionary *dictionary;
	struct weir_error error;

	assert_int_equal(dictionary_read(text, NULL, &dictionary, &error), WEIR_EINVAL);
	assert_null(dictionary);
	assert_int_equal(error.line, line);
	assert_string_equal(error.message, message);
}

static void errors_have_a_line(void **state)
{
	char longest[DICTIONARY_WORD_MAX + 2];
	struct dictionary *dictionary;

	(void)state;
	refused(SLICE("a\n\n10.0.0.0/33\n"), 3,
	        "expected a range of addresses such as 10.0.0.0/8 or 10.0.0.1-10.0.0.9, found 10.0.0.0/33");
	refused(SLICE("10.0.0.9-10.0.0.1"), 1,
	        "expected a range of addresses such as 10.0.0.0/8 or 10.0.0.1-10.0.0.9, found "
	        "10.0.0.9-10.0.0.1");
	refused(SLICE("a\nb\0c\n"), 2, "expected a word, found a control character in it");
	memset(longest, 'x', sizeof longest);
	refused((struct slice){longest, sizeof longest - 1}, 1,
	        "expected a word of at most 1024 bytes, found a longer one");
	longest[DICTIONARY_WORD_MAX] = '\0';
	dictionary = dictionary_of(longest);
	assert_true(has(dictionary, longest));
	assert_false(has(dictionary, longest + 1));
	dictionary_close(dictionary);
	dictionary = dictionary_of("1.2.3.4/x\n1.2.3.4-beta\n5-10"); /* words that only look alike */
	assert_int_equal(dictionary_count(dictionary), 3);
	dictionary_close(dictionary);
}

static void a_config_opens_a_file_once(void **state)
{
	char path[] = "/tmp/weir-dictionary-XXXXXX";
	struct weir_config *config = weir_private_config_new();
	const struct dictionary *one, *other;
	struct weir_error error;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "a\nb\n", 4), 4);
	close(fd);
	assert_int_equal(weir_private_config_dictionary(config, path, NULL, &one, &error), WEIR_OK);
	assert_int_equal(weir_private_config_dictionary(config, path, NULL, &other, &error), WEIR_OK);
	assert_ptr_equal(one, other);
	assert_int_equal(dictionary_count(one), 2);
	unlink(path);
	assert_int_equal(weir_private_config_dictionary(config, "/no/such", NULL, &other, &error), WEIR_EIO);
	assert_null(other);
	assert_string_equal(config->files->path, path);
	assert_string_equal(config->files->next->path, "/no/such"); /* it may come yet */
	assert_null(config->files->next->next);
	weir_config_close(config);
}

struct line {
	char text[160];
	bool is_range, is_pattern; /* an address is a range of one */
	struct ip_range range;
	struct ip_pattern pattern;
};

static int below(int n)
{
	return rand() % n;
}

/* Few values, so that they meet. */
static void random_address(char *text, size_t size)
{
	if (below(3))
		snprintf(text, size, "10.%d.%d.%d", below(2), below(4), below(256));
	else
		snprintf(text, size, below(2) ? "2001:db8::%x" : "2001:db8:%x::", below(300));
}

static void random_word(char *text, size_t size)
{
	switch (below(4)) {
	case 0:
		random_address(text, size);
		break;
	case 1:
		snprintf(text, size, "%d", below(400));
		break;
	case 2: /* as long as what addresses are stored as */
		snprintf(text, size, "%016d", below(400));
		break;
	default:
		snprintf(text, size, "%.*s%x", below(50),
		         "a long word which has many more letters than others", (unsigned)below(200));
	}
}

static void random_line(struct line *line)
{
	char first[64], last[64];

	random_address(first, sizeof first);
	random_address(last, sizeof last);
	switch (below(6)) {
	case 0:
		snprintf(line->text, sizeof line->text, "%s/%d", first,
		         strchr(first, ':') ? 112 + below(16) : 24 + below(8));
		break;
	case 1:
		snprintf(line->text, sizeof line->text, "10.%d.%d.*", below(2), below(4));
		break;
	case 2:
		snprintf(line->text, sizeof line->text, "10.*.%d.%d", below(4), below(256));
		break;
	case 3:
		snprintf(line->text, sizeof line->text, "%s-%s", first, last);
		if (ip_range_parse(slice_of(line->text), &line->range))
			break;
		__attribute__((fallthrough));
	default:
		random_word(line->text, sizeof line->text);
	}
	line->is_range = ip_range_parse(slice_of(line->text), &line->range);
	line->is_pattern = !line->is_range && ip_pattern_parse(slice_of(line->text), &line->pattern);
}

static bool line_has(const struct line *line, const char *word)
{
	struct ip ip;

	if (!ip_parse(slice_of(word), &ip))
		return strcmp(line->text, word) == 0;
	return line->is_pattern ? ip_matches_pattern(&ip, &line->pattern)
	                        : line->is_range && ip_in_range(&ip, &line->range);
}

static bool lines_have(const struct line *lines, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (line_has(&lines[i], word))
			return true;
	return false;
}

static void random_dictionaries_have_what_their_lines_say(void **state)
{
	const char *seed_text = getenv("WEIR_TEST_SEED");
	unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : 20261122, found = 0;

	(void)state;
	printf("WEIR_TEST_SEED=%u\n", seed);
	srand(seed);
	for (int round = 0; round < 40; round++) {
		static struct line lines[LINES];
		size_t n = (size_t)below(LINES);
		struct dictionary *dictionary;
		struct buffer text = {0};
		char word[64];

		for (size_t i = 0; i < n; i++) {
			random_line(&lines[i]);
			buffer_printf(&text, "%s\n", lines[i].text);
		}
		buffer_add(&text, "", 1);
		dictionary = dictionary_of(text.data);
		for (int i = 0; i < 1000; i++) {
			bool expected;

			random_word(word, sizeof word);
			expected = lines_have(lines, n, word);
			found += expected;
			if (has(dictionary, word) != expected)
				fail_msg("round %d: %s is %sin it", round, word, expected ? "" : "not ");
		}
		for (size_t i = 0; i < n; i++)
			assert_true(lines[i].is_range || lines[i].is_pattern || has(dictionary, lines[i].text));
		dictionary_close(dictionary);
		buffer_free(&text);
	}
	assert_in_range(found, 4000, 36000);
}

/* As many ranges as need several levels of the index, and each of their ends. */
static void many_ranges_have_ends(void **state)
{
	struct dictionary *dictionary;
	struct buffer text = {0};
	enum { RANGES = 20000 };

	(void)state;
	for (int i = RANGES - 1; i >= 0; i--) /* 10.x.y.0-10.x.y.z in a descending order */
		buffer_printf(&text, "%d.%d.%d.3-%d.%d.%d.%d\n", 1 + i / 65536, i / 256 % 256, i % 256,
		              1 + i / 65536, i / 256 % 256, i % 256, 3 + i % 7);
	buffer_add(&text, "", 1);
	dictionary = dictionary_of(text.data);
	assert_int_equal(dictionary_count(dictionary), RANGES);
	for (unsigned i = 0; i < RANGES; i++) {
		struct ip ip = {{[10] = 0xff, [11] = 0xff, [12] = 1, [13] = (uint8_t)(i / 256), [14] = (uint8_t)i}};

		for (unsigned last = 2; last < 12; last++) {
			ip.bytes[15] = (uint8_t)last;
			assert_int_equal(dictionary_has(dictionary, SLICE("x"), &ip),
			                 last >= 3 && last <= 3 + i % 7);
		}
	}
	dictionary_close(dictionary);
	buffer_free(&text);
}

/* Ranges of IPv4 alone are kept apart from those that reach beyond; nobody sees that. */
static void ranges_may_reach_beyond_ipv4(void **state)
{
	static const struct {
		const char *lines, *in, *out;
		size_t count;
	} cases[] = {
	    {"0.0.0.0/0", "255.255.255.255 0.0.0.0 10.1.2.3", "::1 ::fffe:ffff:ffff ::1:0:0:0", 1},
	    {"0.0.0.0/0\n10.0.0.0/8", "255.255.255.255 11.0.0.0", "::1", 1},
	    {"::/0\n10.0.0.0/8", "10.0.0.1 200.1.1.1 2001:db8::1", "", 1},
	    {"::fffe:ffff:0/112\n0.0.0.0/8", "0.1.2.3 ::fffe:ffff:1", "1.0.0.0 ::fffe:fffe:ffff", 1},
	    {"255.0.0.0/8\n::1:0:0:0/112", "255.255.255.255 ::1:0:0:5", "254.0.0.0 ::1:0:1:0", 1},
	    {"::fffe:0:0/112\n0.0.0.0/8", "0.1.2.3 ::fffe:0:1", "1.0.0.0 ::ffff:1:0:0", 2},
	    {"2001:db8::/32\n10.0.0.0/9\n10.128.0.0/9", "10.200.1.1 2001:db8::5", "11.0.0.0 ::", 2},
	    {"255.255.255.255\n0.0.0.0\n0.0.0.1\n0.0.0.1", "255.255.255.255 0.0.0.0 0.0.0.1",
	     "0.0.0.2 255.255.255.254 ::", 3},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dictionary *dictionary = dictionary_of(cases[i].lines);
		struct slice in = slice_of(cases[i].in), out = slice_of(cases[i].out);
		char text[IP_TEXT_MAX + 1];

		assert_int_equal(dictionary_count(dictionary), cases[i].count);
		while (in.len > 0 || out.len > 0) {
			bool holds = in.len > 0;
			struct slice word = slice_cut(holds ? &in : &out, ' ');

			snprintf(text, sizeof text, "%.*s", (int)word.len, word.data);
			if (has(dictionary, text) != holds)
				fail_msg("%s: expected %s to be %s", cases[i].lines, text, holds ? "in" : "out");
		}
		dictionary_close(dictionary);
	}
}

/* Ranges of any size, many of them in a few networks, and each of their ends. */
static void ranges_of_any_size_have_ends(void **state)
{
	enum { RANGES = 400, ROUNDS = 40 };

	(void)state;
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint32_t first[RANGES], last[RANGES];
		uint64_t seed = round * UINT64_C(0x9e3779b97f4a7c15);
		struct dictionary *dictionary;
		struct buffer text = {0};
		size_t n = round * 10;

		for (size_t i = 0; i < n; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			first[i] = (uint32_t)(seed >> 32) >> (seed >> 20) % 16;
			last[i] = (uint32_t)u64_min(first[i] + ((seed >> 28) % 4096 >> (seed >> 24) % 16),
			                            UINT32_MAX);
			buffer_printf(&text, "%u.%u.%u.%u-%u.%u.%u.%u\n", first[i] >> 24, first[i] >> 16 & 255,
			              first[i] >> 8 & 255, first[i] & 255, last[i] >> 24, last[i] >> 16 & 255,
			              last[i] >> 8 & 255, last[i] & 255);
		}
		buffer_add(&text, "", 1);
		dictionary = dictionary_of(text.data);
		for (size_t i = 0; i < 4 * n; i++) {
			uint32_t ends[] = {first[i / 4] - 1, first[i / 4], last[i / 4], last[i / 4] + 1},
			         at = ends[i % 4];
			struct ip ip = {{[10] = 0xff,
			                 0xff,
			                 (uint8_t)(at >> 24),
			                 (uint8_t)(at >> 16),
			                 (uint8_t)(at >> 8),
			                 (uint8_t)at}};
			bool holds = false;

			for (size_t j = 0; j < n; j++)
				holds |= first[j] <= at && at <= last[j];
			if (dictionary_has(dictionary, SLICE("x"), &ip) != holds)
				fail_msg("round %d: %08x: expected %d", (int)round, at, holds);
		}
		dictionary_close(dictionary);
		buffer_free(&text);
	}
}

/* Many more words than a bucket holds, and memory within what is promised. */
static void many_words_take_little_room(void **state)
{
	struct dictionary *dictionary;
	struct buffer text = {0};
	enum { WORDS = 200000 };
	char word[64];

	(void)state;
	for (int i = 0; i < WORDS; i++)
		buffer_printf(&text, "00000000-0000-4000-8000-%012d\n", i);
	buffer_add(&text, "", 1);
	dictionary = dictionary_of(text.data);
	assert_int_equal(dictionary_count(dictionary), WORDS);
	assert_in_range(dictionary_size(dictionary), 36 * WORDS, 64 * WORDS);
	for (int i = -1000; i < WORDS + 1000; i++) {
		snprintf(word, sizeof word, "00000000-0000-4000-8000-%012d", i);
		assert_int_equal(has(dictionary, word), i >= 0 && i < WORDS);
	}
	dictionary_close(dictionary);
	buffer_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_words_without_blanks),
	    cmocka_unit_test(an_address_has_many_spellings),
	    cmocka_unit_test(errors_have_a_line),
	    cmocka_unit_test(a_config_opens_a_file_once),
	    cmocka_unit_test(random_dictionaries_have_what_their_lines_say),
	    cmocka_unit_test(many_ranges_have_ends),
	    cmocka_unit_test(ranges_may_reach_beyond_ipv4),
	    cmocka_unit_test(ranges_of_any_size_have_ends),
	    cmocka_unit_test(many_words_take_little_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
