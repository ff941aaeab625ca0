/*
 * koala_file.c: reads a rule file of Koala, a rate limiter whose files Weir understands. Splits the
 * file into its sections [dicts], [rules] and [result], has each line parsed, and adds the rules
 * with their limits and answers to the configuration.
 */
#include "readers/koala/koala.h"

#include "base/error.h"
#include "rules/remark.h"

enum section { BEFORE_SECTIONS, DICTS, RULES, RESULT, SECTIONS };

static const struct slice section_headers[SECTIONS] = {
    [DICTS] = SLICE("[dicts]"),
    [RULES] = SLICE("[rules]"),
    [RESULT] = SLICE("[result]"),
};

#define EXPECTED_SECTIONS "the sections [dicts], [rules] and [result], each once and in this order"

/* Returns the section whose header the line is, or SECTIONS. */
static enum section find_header(struct slice line)
{
	enum section section = DICTS;
	struct slice rest = line, header = slice_cut(&rest, ']');
	bool has_bracket = rest.data > header.data + header.len;

	if (has_bracket)
		header.len++;
	while (section < SECTIONS &&
	       !(slice_equal_nocase(header, section_headers[section]) && koala_is_end_of_line(rest)))
		section++;
	return section;
}

static struct slice without_plural_s(struct slice word)
{
	word.len -= word.len > 0 && (word.data[word.len - 1] | 32) == 's';
	return word;
}

/* Returns the section that a misspelled header means, such as [rules or [results], or SECTIONS. */
static enum section find_misspelled_header(struct slice line)
{
	struct slice word = slice_trim(slice_cut(&line, '#'));
	bool has_bracket = slice_skip(&word, SLICE("["));
	enum section section = DICTS;

	if (word.len > 0 && word.data[word.len - 1] == ']') {
		word.len--;
		has_bracket = true;
	}
	word = slice_trim(word);
	for (; section < SECTIONS; section++) {
		struct slice name = {section_headers[section].data + 1, section_headers[section].len - 2};

		if (slice_equal(word, name) ||
		    (has_bracket && slice_equal_nocase(without_plural_s(word), without_plural_s(name))))
			break;
	}
	return section;
}

/* Returns the section that typically has such lines, or BEFORE_SECTIONS if that is unclear. */
static enum section guess_by_content(struct slice line)
{
	struct slice before_colon = slice_trim(slice_cut(&line, ':'));
	uint64_t number;

	line = slice_trim(line);
	if (slice_equal_nocase(before_colon, SLICE("rule")) && slice_skip(&line, SLICE("[")))
		return RULES;
	return parse_u64(before_colon, &number) && slice_skip(&line, SLICE("{")) ? RESULT
	                                                                         : BEFORE_SECTIONS;
}

/*
 * Returns the section to which a line belongs, where `current` is that of the line before. Reports
 * an error if the header of a section is misspelled, missing or out of order. Sets *is_header if
 * the line is a header, right or not.
 */
static enum section section_of_line(struct koala *koala, struct slice line, enum section current,
                                    bool *is_header)
{
	enum section next = find_header(line);
	bool is_valid_header = next < SECTIONS && next > current; /* and in order */

	if (next == SECTIONS)
		next = find_misspelled_header(line);
	*is_header = next < SECTIONS;
	if (!*is_header) {
		/* The header of a later section may be missing. */
		next = guess_by_content(line);
		if (next <= current)
			return current;
	}
	if (!is_valid_header)
		koala_expected(koala, line, EXPECTED_SECTIONS);
	if (next == RULES)
		koala->rules_line = koala->line_number;
	if (next == RESULT)
		koala->result_line = koala->line_number;
	return next;
}

static void read_line(struct koala *koala, struct slice line, enum section section)
{
	switch (section) {
	case DICTS:
		koala_read_dictionary(koala, line);
		break;
	case RULES:
		koala->has_rules = true;
		koala_read_rule(koala, line);
		break;
	case RESULT:
		koala_read_result(koala, line);
		break;
	default:
		if (!koala->has_lines_before_sections)
			koala_expected(koala, line, EXPECTED_SECTIONS);
		koala->has_lines_before_sections = true;
		break;
	}
}

/*
 * Finds the first byte that is not UTF-8 or is a control character. Returns NULL if there is none.
 */
static const char *find_invalid_byte(struct slice line)
{
	const char *p = line.data, *end = p + line.len;

	while (p < end) {
		size_t n = utf8_sequence((const unsigned char *)p, (size_t)(end - p));

		if (n == 0 || ((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return p;
		p += n;
	}
	return NULL;
}

static void read_lines(struct koala *koala, struct slice text)
{
	enum section section = BEFORE_SECTIONS;

	while (text.len > 0 && !koala->no_memory) {
		struct slice line;
		const char *invalid;
		bool is_header;

		koala->line = slice_cut(&text, '\n');
		koala->line_number++;
		line = koala->line;
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		invalid = find_invalid_byte(line);
		if (invalid) {
			koala_error(koala, invalid,
			            "expected text in UTF-8 without control characters, found the byte 0x%02x",
			            (unsigned char)*invalid);
			/* The line may have been a rule or a result, so report none as missing. */
			koala->has_rules = koala->may_lack_conditions = koala->may_lack_results = true;
			continue;
		}
		line = slice_trim(line);
		if (koala_is_end_of_line(line))
			continue;
		section = section_of_line(koala, line, section, &is_header);
		if (!is_header)
			read_line(koala, line, section);
	}
	if (koala->result_line == 0)
		koala_error(koala, NULL, "expected the section [result], found none");
}

static void warn_of_no_rules(struct koala *koala)
{
	if (koala->has_rules || koala->has_lines_before_sections)
		return;
	if (koala->rules_line == 0)
		koala_warning(koala, NULL, "expected the section [rules], found none");
	else if (remark_add(koala->config, REMARK_WARNING(koala->file, koala->rules_line, 1),
	                    "expected rules in the section [rules], found none") != WEIR_OK)
		koala->no_memory = true;
}

/*
 * Sets the answers to requests that no rule denies: result 0 if no rule applies, result 1 if none
 * of the rules that apply denies.
 */
static void set_default_answers(struct koala *koala)
{
	const char **const fields[] = {&koala->config->koala.unmatched,
	                               &koala->config->koala.unexceeded};
	static const char *const uses[] = {"no rule applies to", "no rule denies"};

	for (uint64_t number = 0; number < sizeof fields / sizeof *fields; number++) {
		const struct koala_result *result = koala_result(koala, number);

		if (result)
			*fields[number] = result->json;
		else if (koala->result_line > 0 && !koala->may_lack_results &&
		         remark_add(koala->config, REMARK_ERROR(koala->file, koala->result_line, 1),
		                    "expected result %u, the answer to a request that %s, found none",
		                    (unsigned)number, uses[number]) != WEIR_OK)
			koala->no_memory = true;
	}
}

/* Makes the JSON with which the rule answers: the result that it names, with the rule's code. */
static void set_answer(struct koala *koala, struct koala_rule *rule)
{
	const struct koala_result *result = koala_result(koala, rule->result);
	struct buffer text = {0};

	if (!result) {
		if (koala->result_line > 0 && !koala->may_lack_results &&
		    remark_add(koala->config,
		               REMARK_ERROR(koala->file, rule->result_line, rule->result_column),
		               "expected a result that the section [result] has, found %llu",
		               (unsigned long long)rule->result) != WEIR_OK)
			koala->no_memory = true;
		return;
	}
	buffer_add_slice(&text, result->before_code);
	buffer_add_u64(&text, rule->code);
	buffer_add_slice(&text, result->after_code);
	if (text.failed)
		koala->no_memory = true;
	else
		rule->rule.result = koala_copy(koala, (struct slice){text.data, text.len});
	buffer_free(&text);
}

/* Copies an array to the arena, with space for `more` elements behind. NULL without memory. */
static void *copy_longer(struct arena *arena, const void *old, size_t old_count, size_t more,
                         size_t size)
{
	char *all = arena_array(arena, old_count + more, size);

	if (all && old_count)
		memcpy(all, old, old_count * size);
	return all;
}

/* Appends the rules of this file, and a limit for each rule that counts, to those of the config. */
static void append_to_config(struct koala *koala)
{
	struct weir_config *config = koala->config;
	struct koala_rule *rules_read = (void *)koala->rules.data;
	size_t count = koala->rules.len / sizeof *rules_read;
	struct rules_rule *rules =
	    copy_longer(&config->arena, config->rules, config->rule_count, count, sizeof *rules);
	struct rules_limit *limits =
	    copy_longer(&config->arena, config->limits, config->limit_count, count, sizeof *limits);
	size_t *indexes = arena_array(&config->arena, count, sizeof *indexes);

	if (!rules || !limits || !indexes) {
		koala->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count && !koala->no_memory; i++) {
		set_answer(koala, &rules_read[i]);
		if (rules_read[i].limit.options.name) {
			indexes[i] = config->limit_count;
			limits[config->limit_count++] = rules_read[i].limit;
			rules_read[i].rule.limits = &indexes[i];
			rules_read[i].rule.limit_count = 1;
		}
		rules[config->rule_count++] = rules_read[i].rule;
	}
	config->limits = limits;
	config->rules = rules;
}

int koala_read(struct weir_config *config, const struct source *source)
{
	struct koala koala = {.config = config, .file = source->file, .directory = source->directory};
	struct slice text = source->text;

	slice_skip(&text, SLICE("\xef\xbb\xbf"));
	read_lines(&koala, text);
	set_default_answers(&koala);
	append_to_config(&koala);
	koala_warn_of_unused_dictionaries(&koala);
	warn_of_no_rules(&koala);
	config->order = RULES_FIRST;
	koala.no_memory |= koala.dictionaries.failed || koala.rules.failed || koala.results.failed;
	buffer_free(&koala.dictionaries);
	buffer_free(&koala.rules);
	buffer_free(&koala.results);
	return koala.no_memory ? WEIR_ENOMEM : WEIR_OK;
}
