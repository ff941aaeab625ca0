/*
 * dictionary.c: reads a file with a word or address in each line, up to millions of them, and looks
 * words up in it. Ranges and patterns of addresses stand for each address in them.
 */
#include "rules/match/dictionary.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/read_file.h"
#include "rules/match/spans.h"
#include "rules/match/spans4.h"
#include "rules/match/words.h"

struct dictionary {
	struct words words; /* texts; also patterns, and single IPv6 addresses, as their bytes */
	struct spans4 v4_addresses; /* single addresses */
	struct spans4 v4_ranges;    /* empty if `is_mixed` */
	struct spans other_ranges;  /* of IPv6; all ranges if `is_mixed` */
	bool is_mixed;              /* a range has addresses of both kinds, or is next to the others */
	uint32_t pattern_masks;     /* bit m is set if a pattern has the mask m, see address_v4 */
	bool has_v6;                /* a single address of IPv6 */
	struct dictionary_texts texts;
};

/* A word that stands for addresses, in the set of words. */
struct address {
	char bytes[16];
	size_t len;
};

/*
 * Encodes an IPv4 pattern such as 10.*.0.* for the set of words: its four bytes, and a mask, whose
 * bit i says that byte i counts. The others are 0.
 */
static struct address address_v4(const uint8_t bytes[4], unsigned mask)
{
	struct address address = {.len = 5};

	address.bytes[4] = (char)mask;
	for (unsigned i = 0; i < 4; i++)
		address.bytes[i] = (char)(mask >> i & 1 ? bytes[i] : 0);
	return address;
}

static struct address address_v6(const struct ip *ip)
{
	struct address address = {.len = sizeof ip->bytes};

	memcpy(address.bytes, ip->bytes, sizeof ip->bytes);
	return address;
}

static struct slice address_slice(const struct address *address)
{
	return (struct slice){address->bytes, address->len};
}

struct entry {
	enum { ENTRY_WORD, ENTRY_V4, ENTRY_ADDRESS, ENTRY_RANGE } kind; /* V4: one of IPv4 */
	struct slice word;
	struct address address;
	struct ip_range range;
};

/* The first letter of an address, or of what people write for many. */
static bool may_be_address(char letter)
{
	return (letter >= '0' && letter <= '9') || ((letter | 32) >= 'a' && (letter | 32) <= 'f') ||
	       letter == ':' || letter == '[' || letter == '*';
}

/* Finds out what a word stands for. */
static void entry_parse(struct slice word, struct entry *entry)
{
	struct ip_pattern pattern;
	unsigned mask = 0;

	*entry = (struct entry){.kind = ENTRY_WORD, .word = word};
	if (!may_be_address(word.data[0]))
		return;
	if (ip_range_parse(word, &entry->range)) {
		if (memcmp(&entry->range.first, &entry->range.last, sizeof(struct ip)) != 0)
			entry->kind = ENTRY_RANGE;
		else
			entry->kind = ip_is_v4(&entry->range.first) ? ENTRY_V4 : ENTRY_ADDRESS;
		entry->address = address_v6(&entry->range.first);
	} else if (ip_pattern_parse(word, &pattern)) {
		for (unsigned i = 0; i < sizeof pattern.mask; i++)
			mask |= (pattern.mask[i] & 1u) << i;
		entry->kind = ENTRY_ADDRESS;
		entry->address = address_v4(pattern.bytes, mask);
	}
}

/* Counts of single IPv4 addresses, of IPv4 ranges and of other ranges. */
struct ranges {
	size_t singles, v4, others;
	bool is_mixed; /* one has addresses of both, or lies next to them: they might become one */
};

static bool is_v4(const struct ip_range *range)
{
	return ip_is_v4(&range->first) && ip_is_v4(&range->last);
}

static void count_range(struct ranges *ranges, const struct ip_range *range)
{
	/* ::fffe:ffff:ffff and ::1:0:0:0, the neighbours of the IPv4 addresses ::ffff:0:0/96 */
	static const struct ip before_v4 = {{[10] = 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff}},
	                       behind_v4 = {{[9] = 1}};

	if (is_v4(range)) {
		ranges->v4++;
		return;
	}
	ranges->others++;
	ranges->is_mixed |= memcmp(&range->first, &behind_v4, sizeof behind_v4) <= 0 &&
	                    memcmp(&range->last, &before_v4, sizeof before_v4) >= 0;
}

static uint32_t number_of(const struct ip *ip)
{
	const uint8_t *bytes = ip->bytes + 12;

	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int check_word(struct slice word, const struct entry *entry, struct weir_error *error,
                      unsigned line)
{
	if (word.len > DICTIONARY_WORD_MAX)
		return error_set_at(error, WEIR_EINVAL, line, 1,
		                    "expected a word of at most %d bytes, found a longer one",
		                    DICTIONARY_WORD_MAX);
	for (size_t i = 0; i < word.len; i++)
		if ((unsigned char)word.data[i] < ' ' || word.data[i] == 0x7f)
			return error_set_at(error, WEIR_EINVAL, line, 1,
			                    "expected a word, found a control character in it");
	/* As a mere word it would match nothing, and its writer would not notice. */
	if (entry->kind == ENTRY_WORD && may_be_address(word.data[0]) && ip_range_is_wrong(word))
		return error_set_at(error, WEIR_EINVAL, line, 1,
		                    "expected a range of addresses such as 10.0.0.0/8 or "
		                    "10.0.0.1-10.0.0.9, found %.*s",
		                    (int)word.len, word.data);
	return WEIR_OK;
}

/* Cuts the next word off *rest, and counts lines up to it. Returns false if there are no more. */
static bool next_word(struct slice *rest, unsigned *line, struct slice *word)
{
	while (rest->len > 0) {
		*word = slice_cut(rest, '\n');
		++*line;
		if (word->len > 0 && word->data[word->len - 1] == '\r')
			word->len--;
		*word = slice_trim(*word);
		if (word->len > 0 && word->data[0] != '#')
			return true;
	}
	return false;
}

static void count_text(struct dictionary_texts *texts, unsigned line, struct slice word)
{
	if (texts->count++ > 0)
		return;
	texts->line = line;
	texts->first_len = u64_min(word.len, sizeof texts->first);
	memcpy(texts->first, word.data, texts->first_len);
}

/*
 * First pass: counts the entries of each kind, and checks each line. Returns EINVAL if a line is
 * wrong; all such lines are reported, or only the first without a reporter.
 */
static int count_entries(struct dictionary *dictionary, struct slice text, struct ranges *ranges,
                         const struct dictionary_reporter *reporter, struct weir_error *error)
{
	struct weir_error wrong;
	unsigned line = 0;
	struct slice word;
	struct entry entry;
	int status = WEIR_OK;

	while (next_word(&text, &line, &word)) {
		entry_parse(word, &entry);
		if (check_word(word, &entry, &wrong, line) != WEIR_OK) {
			if (status == WEIR_OK && error)
				*error = wrong;
			status = WEIR_EINVAL;
			if (!reporter)
				break;
			reporter->report(reporter->context, &wrong);
		} else if (entry.kind == ENTRY_WORD) {
			words_count(&dictionary->words, WORDS_TEXT, word);
			count_text(&dictionary->texts, line, word);
		} else if (entry.kind == ENTRY_ADDRESS) {
			words_count(&dictionary->words, WORDS_ADDRESS, address_slice(&entry.address));
		}
		ranges->singles += entry.kind == ENTRY_V4;
		if (entry.kind == ENTRY_RANGE)
			count_range(ranges, &entry.range);
	}
	return status;
}

/* Allocates the sets for as many entries as were counted. Returns 0 or ENOMEM. */
static int allocate_sets(struct dictionary *dictionary, const struct ranges *ranges)
{
	size_t v4 = ranges->is_mixed ? 0 : ranges->v4;
	int status = words_allocate(&dictionary->words);

	dictionary->is_mixed = ranges->is_mixed;
	if (status == WEIR_OK)
		status = spans4_open(&dictionary->v4_addresses, ranges->singles);
	if (status == WEIR_OK)
		status = spans4_open(&dictionary->v4_ranges, v4);
	if (status == WEIR_OK)
		status = spans_open(&dictionary->other_ranges, ranges->v4 - v4 + ranges->others);
	return status;
}

static void add_range(struct dictionary *dictionary, const struct ip_range *range)
{
	if (is_v4(range) && !dictionary->is_mixed)
		spans4_add(&dictionary->v4_ranges, number_of(&range->first), number_of(&range->last));
	else
		spans_add(&dictionary->other_ranges, range);
}

/* Second pass: adds the entries to the sets. */
static void add_entries(struct dictionary *dictionary, struct slice text)
{
	unsigned line = 0;
	struct slice word;
	struct entry entry;

	while (next_word(&text, &line, &word)) {
		entry_parse(word, &entry);
		if (entry.kind == ENTRY_WORD) {
			words_add(&dictionary->words, WORDS_TEXT, word);
		} else if (entry.kind == ENTRY_RANGE) {
			add_range(dictionary, &entry.range);
		} else if (entry.kind == ENTRY_V4) {
			spans4_add(&dictionary->v4_addresses, number_of(&entry.range.first),
			           number_of(&entry.range.first));
		} else {
			words_add(&dictionary->words, WORDS_ADDRESS, address_slice(&entry.address));
			if (entry.address.len == 16)
				dictionary->has_v6 = true;
			else
				dictionary->pattern_masks |= 1u << (unsigned char)entry.address.bytes[4];
		}
	}
}

static size_t count_lines(struct slice text)
{
	size_t lines = 0;

	while (text.len > 0) {
		slice_cut(&text, '\n');
		lines++;
	}
	return lines;
}

static int read_words(struct dictionary *dictionary, struct slice text,
                      const struct dictionary_reporter *reporter, struct weir_error *error)
{
	struct ranges ranges = {0};
	int status = words_open(&dictionary->words, count_lines(text));

	if (status == WEIR_OK)
		status = count_entries(dictionary, text, &ranges, reporter, error);
	if (status == WEIR_EINVAL) /* `error` is set */
		return status;
	if (status == WEIR_OK)
		status = allocate_sets(dictionary, &ranges);
	if (status == WEIR_OK) {
		add_entries(dictionary, text);
		status = spans4_sort(&dictionary->v4_addresses, SPANS4_APART);
	}
	if (status == WEIR_OK)
		status = spans4_sort(&dictionary->v4_ranges, SPANS4_JOIN);
	if (status == WEIR_OK)
		status = spans_sort(&dictionary->other_ranges);
	return status == WEIR_OK ? status : error_set(error, status, "%s", weir_strerror(status));
}

int dictionary_read(struct slice text, const struct dictionary_reporter *reporter,
                    struct dictionary **out, struct weir_error *error)
{
	struct dictionary *dictionary = calloc(1, sizeof *dictionary);
	int status;

	*out = NULL;
	if (!dictionary)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	if (text.len > 0)
		slice_skip(&text, SLICE("\xef\xbb\xbf")); /* a byte order mark */
	status = read_words(dictionary, text, reporter, error);
	if (status == WEIR_OK)
		*out = dictionary;
	else
		dictionary_close(dictionary);
	return status;
}

int dictionary_open(const char *path, const struct dictionary_reporter *reporter,
                    struct dictionary **out, struct weir_error *error)
{
	struct buffer text = {0};
	int status = file_read(path, DICTIONARY_BYTES_MAX, &text, error);

	*out = NULL;
	if (status == WEIR_OK)
		status = dictionary_read((struct slice){text.data, text.len}, reporter, out, error);
	buffer_free(&text);
	return status;
}

void dictionary_close(struct dictionary *dictionary)
{
	if (!dictionary)
		return;
	words_close(&dictionary->words);
	spans4_close(&dictionary->v4_addresses);
	spans4_close(&dictionary->v4_ranges);
	spans_close(&dictionary->other_ranges);
	free(dictionary);
}

bool dictionary_has_addresses(const struct dictionary *dictionary)
{
	return dictionary->v4_addresses.count > 0 || dictionary->pattern_masks != 0 ||
	       dictionary->has_v6 || dictionary->v4_ranges.count > 0 ||
	       dictionary->other_ranges.count > 0;
}

const struct dictionary_texts *dictionary_texts(const struct dictionary *dictionary)
{
	return &dictionary->texts;
}

/*
 * A single address, or a pattern: for each mask, looks up the pattern that the address would match.
 */
static bool has_v4(const struct dictionary *dictionary, const struct ip *ip)
{
	if (dictionary->v4_addresses.count > 0 && spans4_have(&dictionary->v4_addresses, number_of(ip)))
		return true;
	for (uint32_t rest = dictionary->pattern_masks; rest != 0; rest &= rest - 1) {
		struct address address = address_v4(ip->bytes + 12, (unsigned)__builtin_ctz(rest));

		if (words_have(&dictionary->words, WORDS_ADDRESS, address_slice(&address)))
			return true;
	}
	return false;
}

static bool has_address(const struct dictionary *dictionary, const struct ip *ip)
{
	struct address address;

	if (ip_is_v4(ip))
		return has_v4(dictionary, ip);
	address = address_v6(ip);
	return dictionary->has_v6 &&
	       words_have(&dictionary->words, WORDS_ADDRESS, address_slice(&address));
}

static bool has_range(const struct dictionary *dictionary, const struct ip *ip)
{
	if (dictionary->v4_ranges.count > 0 && ip_is_v4(ip))
		return spans4_have(&dictionary->v4_ranges, number_of(ip));
	return dictionary->other_ranges.count > 0 && spans_have(&dictionary->other_ranges, ip);
}

bool dictionary_has(const struct dictionary *dictionary, struct slice word, const struct ip *ip)
{
	if (!ip)
		return words_have(&dictionary->words, WORDS_TEXT, word);
	return has_address(dictionary, ip) || has_range(dictionary, ip);
}

size_t dictionary_count(const struct dictionary *dictionary)
{
	return dictionary->words.count + dictionary->v4_addresses.count + dictionary->v4_ranges.count +
	       dictionary->other_ranges.count;
}

size_t dictionary_size(const struct dictionary *dictionary)
{
	return sizeof *dictionary + dictionary->words.starts_size + dictionary->words.pool_size +
	       spans4_size(&dictionary->v4_addresses) + spans4_size(&dictionary->v4_ranges) +
	       dictionary->other_ranges.size + dictionary->other_ranges.levels_size;
}
