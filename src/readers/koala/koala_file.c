/* koala_file.c: splits a file into sections and lines, and makes the rule model from them. */
#include "readers/koala/koala.h"

#include "base/error.h"
#include "rules/remark.h"

enum section { BEFORE, DICTS, RULES, RESULT, SECTIONS };

static const struct slice headers[SECTIONS] = {
    [DICTS] = SLICE("[dicts]"),
    [RULES] = SLICE("[rules]"),
    [RESULT] = SLICE("[result]"),
};

#define ORDER "the sections [dicts], [rules] and [result], each once and in this order"

static enum section section_named(struct slice line)
{
	enum section section = DICTS;

	while (section < SECTIONS) {
		struct slice rest = line, header = slice_cut(&rest, ']');

		header.len += rest.data > header.data + header.len; /* the bracket */
		if (slice_equal_nocase(header, headers[section]) && koala_ends(rest))
			break;
		section++;
	}
	return section;
}

static struct slice singular(struct slice word)
{
	word.len -= word.len > 0 && (word.data[word.len - 1] | 32) == 's';
	return word;
}

/* The section that a mistyped header means, such as [rules or [results]; or SECTIONS, for none. */
static enum section section_meant(struct slice line)
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
		struct slice name = {headers[section].data + 1, headers[section].len - 2};

		if (slice_equal(word, name) ||
		    (has_bracket && slice_equal_nocase(singular(word), singular(name))))
			break;
	}
	return section;
}

/* The section that has lines like this, if that shows; else BEFORE. */
static enum section section_like(struct slice line)
{
	struct slice head = slice_trim(slice_cut(&line, ':'));
	uint64_t number;

	line = slice_trim(line);
	if (slice_equal_nocase(head, SLICE("rule")) && slice_skip(&line, SLICE("[")))
		return RULES;
	return parse_u64(head, &number) && slice_skip(&line, SLICE("{")) ? RESULT : BEFORE;
}

/* The section of a line, whose header may be missing. `*is_header`: the line is one. */
static enum section find_section(struct koala *koala, struct slice line, enum section now,
                                 bool *is_header)
{
	enum section next = section_named(line);
	bool is_right = next > now;

	if (next == SECTIONS) {
		is_right = false;
		next = section_meant(line);
	}
	*is_header = next < SECTIONS;
	if (!*is_header) {
		next = section_like(line);
		if (next <= now)
			return now;
	}
	if (!is_right)
		koala_expected(koala, line, ORDER);
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
		if (!koala->has_strays)
			koala_expected(koala, line, ORDER);
		koala->has_strays = true;
		break;
	}
}

/*
 * Finds the first byte of `line` that is no UTF-8 or a control character. Returns NULL if there is
 * none.
 */
static const char *find_strange(struct slice line)
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
	enum section section = BEFORE;

	while (text.len > 0 && !koala->no_memory) {
		struct slice line;
		const char *strange;
		bool is_header;

		koala->line = slice_cut(&text, '\n');
		koala->line_number++;
		line = koala->line;
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		strange = find_strange(line);
		if (strange) {
			koala_error(koala, strange,
			            "expected text in UTF-8 without control characters, found the byte 0x%02x",
			            (unsigned char)*strange);
			koala->has_rules = koala->lost_conditions = koala->lost_result = true;
			continue;
		}
		line = slice_trim(line);
		if (koala_ends(line))
			continue;
		section = find_section(koala, line, section, &is_header);
		if (!is_header)
			read_line(koala, line, section);
	}
	if (koala->result_line == 0)
		koala_error(koala, NULL, "expected the section [result], found none");
}

static void warn_of_no_rules(struct koala *koala)
{
	if (koala->has_rules || koala->has_strays)
		return;
	if (koala->rules_line == 0)
		koala_warning(koala, NULL, "expected the section [rules], found none");
	else if (remark_add(koala->config, REMARK_WARNING(koala->file, koala->rules_line, 1),
	                    "expected rules in the section [rules], found none") != WEIR_OK)
		koala->no_memory = true;
}

/* Takes the results that answer a browse which no rule denies. */
static void take_results(struct koala *koala)
{
	const char **const fields[] = {&koala->config->koala.unmatched,
	                               &koala->config->koala.unexceeded};
	static const char *const uses[] = {"no rule applies to", "no rule denies"};

	for (uint64_t number = 0; number < sizeof fields / sizeof *fields; number++) {
		const struct koala_result *result = koala_result(koala, number);

		if (result)
			*fields[number] = result->whole;
		else if (koala->result_line > 0 && !koala->lost_result &&
		         remark_add(koala->config, REMARK_ERROR(koala->file, koala->result_line, 1),
		                    "expected result %u, the answer to a request that %s, found none",
		                    (unsigned)number, uses[number]) != WEIR_OK)
			koala->no_memory = true;
	}
}

static void take_result(struct koala *koala, struct koala_rule *rule)
{
	const struct koala_result *result = koala_result(koala, rule->result);
	struct buffer text = {0};

	if (!result) {
		if (koala->result_line > 0 && !koala->lost_result &&
		    remark_add(koala->config,
		               REMARK_ERROR(koala->file, rule->result_line, rule->result_column),
		               "expected a result that the section [result] has, found %llu",
		               (unsigned long long)rule->result) != WEIR_OK)
			koala->no_memory = true;
		return;
	}
	buffer_add_slice(&text, result->head);
	buffer_add_u64(&text, rule->code);
	buffer_add_slice(&text, result->tail);
	if (text.failed)
		koala->no_memory = true;
	else
		rule->rule.result = koala_copy(koala, (struct slice){text.data, text.len});
	buffer_free(&text);
}

/* Copies an array into a longer one, with space for `more` elements behind. */
static void *joined(struct arena *arena, const void *old, size_t old_count, size_t more,
                    size_t size)
{
	char *all = arena_array(arena, old_count + more, size);

	if (all && old_count)
		memcpy(all, old, old_count * size);
	return all;
}

/* All that was read goes behind what the config has. */
static void add_to_config(struct koala *koala)
{
	struct weir_config *config = koala->config;
	struct koala_rule *read = (void *)koala->rules.data;
	size_t count = koala->rules.len / sizeof *read;
	struct rules_rule *rules =
	    joined(&config->arena, config->rules, config->rule_count, count, sizeof *rules);
	struct rules_limit *limits =
	    joined(&config->arena, config->limits, config->limit_count, count, sizeof *limits);
	size_t *indexes = arena_array(&config->arena, count, sizeof *indexes);

	if (!rules || !limits || !indexes) {
		koala->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count && !koala->no_memory; i++) {
		take_result(koala, &read[i]);
		if (read[i].limit.options.name) {
			indexes[i] = config->limit_count;
			limits[config->limit_count++] = read[i].limit;
			read[i].rule.limits = &indexes[i];
			read[i].rule.limit_count = 1;
		}
		rules[config->rule_count++] = read[i].rule;
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
	take_results(&koala);
	add_to_config(&koala);
	koala_warn_of_unused(&koala);
	warn_of_no_rules(&koala);
	config->order = RULES_FIRST;
	koala.no_memory |= koala.dictionaries.failed || koala.rules.failed || koala.results.failed;
	buffer_free(&koala.dictionaries);
	buffer_free(&koala.rules);
	buffer_free(&koala.results);
	return koala.no_memory ? WEIR_ENOMEM : WEIR_OK;
}
