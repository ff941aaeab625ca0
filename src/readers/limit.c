/* limit.c: `limits:`, a mapping of names to algorithms and their parameters. */
#include "algo/algo.h"
#include "rules/rate.h"
#include "readers/read.h"
#include "rules/show.h"

#define KIND(algorithm) (1U << (algorithm))
#define WIDE                                                                                       \
	(KIND(WEIR_SLIDING_WINDOW) | KIND(WEIR_SLIDING_COUNTER) | KIND(WEIR_SLIDING_LOG) |             \
	 KIND(WEIR_BASE) | KIND(WEIR_CONCURRENCY)) /* they have tables of their own */
#define TIMELESS (KIND(WEIR_RANDOM) | KIND(WEIR_CONCURRENCY)) /* they have no rate */

const struct node_word read_failures[] = {
    {"local", RULES_LOCAL}, {"open", RULES_OPEN}, {"closed", RULES_CLOSED}, {0}};

static const struct node_word algorithms[] = {
    [WEIR_TOKEN_BUCKET] = {"token_bucket", WEIR_TOKEN_BUCKET},
    [WEIR_LEAKY_BUCKET] = {"leaky_bucket", WEIR_LEAKY_BUCKET},
    [WEIR_FIXED_WINDOW] = {"fixed_window", WEIR_FIXED_WINDOW},
    [WEIR_RESETTING_BUCKET] = {"resetting_bucket", WEIR_RESETTING_BUCKET},
    [WEIR_SLIDING_WINDOW] = {"sliding_window", WEIR_SLIDING_WINDOW},
    [WEIR_SLIDING_LOG] = {"sliding_log", WEIR_SLIDING_LOG},
    [WEIR_PACER] = {"pacer", WEIR_PACER},
    [WEIR_LEAKY_QUEUE] = {"leaky_queue", WEIR_LEAKY_QUEUE},
    [WEIR_RANDOM] = {"random", WEIR_RANDOM},
    [WEIR_SLIDING_COUNTER] = {"sliding_counter", WEIR_SLIDING_COUNTER},
    [WEIR_BASE] = {"base", WEIR_BASE},
    [WEIR_CONCURRENCY] = {"concurrency", WEIR_CONCURRENCY},
    {0},
};

/* Of later versions: known, so that nobody looks for a typing error. */
static const char *const later_algorithms[] = {
    "breaker", "throttle", "adaptive",
};

static const struct node_word aligns[] = {
    {"calendar", WEIR_ALIGN_CALENDAR}, {"first_request", WEIR_ALIGN_FIRST_REQUEST}, {0}};

static const struct node_word weekdays[] = {
    {"monday", WEIR_MONDAY},       {"tuesday", WEIR_TUESDAY},
    {"wednesday", WEIR_WEDNESDAY}, {"thursday", WEIR_THURSDAY},
    {"friday", WEIR_FRIDAY},       {"saturday", WEIR_SATURDAY},
    {"sunday", WEIR_SUNDAY},       {0}};

static int read_rate(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	(void)key;
	if (value->type == YAML_SCALAR_NODE && rate_parse(node_slice(value), field))
		return WEIR_OK;
	return node_expected(reader, value,
	                     "a rate of whole numbers from 1 such as 5/s, 10/100ms or 100/month");
}

static int read_slots(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	uint64_t slots;
	int status = node_number(reader, key, value, &slots);

	if (status == WEIR_OK)
		*(uint32_t *)field = (uint32_t)slots;
	return status;
}

/* Options where 0 stands for the default. */
static uint64_t explicit(uint64_t value)
{
	return value == 0 ? WEIR_ZERO : value;
}

static int read_slack(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	uint64_t slack;
	int status = node_number(reader, key, value, &slack);

	if (status == WEIR_OK)
		*(uint64_t *)field = explicit(slack);
	return status;
}

static int read_duration(struct reader *reader, const struct node_key *key,
                         const yaml_node_t *value, void *field)
{
	uint64_t ns;

	if (value->type != YAML_SCALAR_NODE || !duration_parse(node_slice(value), &ns) ||
	    ns < key->min || ns > key->max)
		return node_expected(reader, value, key->min ? "a time from 1ms to a year such as 1s or 100ms"
		                                              : "a time of a year at most such as 30s or 100ms");
	*(uint64_t *)field = explicit(ns);
	return WEIR_OK;
}

enum {
	LIMIT_ALGORITHM,
	LIMIT_BASE,
	LIMIT_RATE,
	LIMIT_BURST,
	LIMIT_CAPACITY,
	LIMIT_ALIGN,
	LIMIT_TIMEZONE,
	LIMIT_WEEK_START,
	LIMIT_SLOTS,
	LIMIT_SLACK,
	LIMIT_MAX_WAIT,
	LIMIT_DENY,
	LIMIT_MAX,
	LIMIT_QUEUE,
	LIMIT_LEASE,
	LIMIT_RETRY,
	LIMIT_KEYS,
};

#define OPTION(name) offsetof(struct rules_limit, options.name)

static const struct node_key limit_keys[] = {
    [LIMIT_ALGORITHM] = {"algorithm", .offset = OPTION(algorithm), .words = algorithms},
    [LIMIT_BASE] = {"base", node_number, OPTION(base), KIND(WEIR_BASE), .required = true, .min = 1,
                    .max = ALGO_COUNT_MAX},
    [LIMIT_RATE] = {"rate", read_rate, OPTION(rate), ~TIMELESS, .required = true},
    [LIMIT_BURST] = {"burst", node_number, OPTION(burst), KIND(WEIR_TOKEN_BUCKET), .min = 1,
                     .max = ALGO_COUNT_MAX},
    [LIMIT_CAPACITY] = {"capacity", node_number, OPTION(burst),
                        KIND(WEIR_LEAKY_BUCKET) | KIND(WEIR_LEAKY_QUEUE), .min = 1,
                        .max = ALGO_COUNT_MAX},
    [LIMIT_ALIGN] = {"align", node_word, OPTION(align), KIND(WEIR_FIXED_WINDOW), .words = aligns},
    [LIMIT_TIMEZONE] = {"timezone", node_text, OPTION(timezone),
                        KIND(WEIR_FIXED_WINDOW) | KIND(WEIR_BASE), .min = 1, .max = NODE_NAME_MAX},
    [LIMIT_WEEK_START] = {"week_start", node_word, OPTION(week_start), KIND(WEIR_FIXED_WINDOW),
                          .words = weekdays},
    [LIMIT_SLOTS] = {"slots", read_slots, OPTION(slots), KIND(WEIR_SLIDING_WINDOW), .min = 1,
                     .max = ALGO_SLOTS_MAX},
    [LIMIT_SLACK] = {"slack", read_slack, OPTION(slack), KIND(WEIR_PACER), .max = ALGO_SLACK_MAX},
    [LIMIT_MAX_WAIT] = {"max_wait", read_duration, OPTION(max_wait_ns),
                        KIND(WEIR_PACER) | KIND(WEIR_LEAKY_QUEUE) | KIND(WEIR_CONCURRENCY),
                        .max = ALGO_PERIOD_MAX_NS},
    [LIMIT_DENY] = {"deny", node_share, OPTION(deny), KIND(WEIR_RANDOM), .required = true},
    [LIMIT_MAX] = {"max", node_number, OPTION(max), KIND(WEIR_CONCURRENCY), .min = 1,
                   .max = ALGO_PERMITS_MAX, .required = true},
    [LIMIT_QUEUE] = {"queue", node_number, OPTION(queue), KIND(WEIR_CONCURRENCY),
                     .max = ALGO_QUEUE_MAX},
    [LIMIT_LEASE] = {"lease", read_duration, OPTION(lease_ns), KIND(WEIR_CONCURRENCY),
                     .min = NS_PER_MS, .max = ALGO_PERIOD_MAX_NS},
    [LIMIT_RETRY] = {"retry", read_duration, OPTION(retry_ns), TIMELESS, .min = NS_PER_MS,
                     .max = ALGO_PERIOD_MAX_NS},
    [LIMIT_KEYS] = {"keys", node_number, OPTION(keys), WIDE, .min = 1, .max = WEIR_CAPACITY_MAX},
    {"on_store_failure", node_word, offsetof(struct rules_limit, on_store_failure),
     .words = read_failures},
};

#define LIMIT_ROWS (sizeof limit_keys / sizeof *limit_keys)

static int later_algorithm(struct reader *reader, const yaml_node_t *value, const char *name)
{
	struct node_words known = {0};

	for (const struct node_word *word = algorithms; word->name; word++)
		node_words_add(&known, slice_of(word->name));
	return node_error(reader, value,
	                  "expected algorithm to be one of %s, found \"%s\", which is not supported yet",
	                  known.text, name);
}

static int read_algorithm(struct reader *reader, const yaml_node_t *limit,
                          struct weir_limit_options *options)
{
	static const struct node_key key = {"algorithm", .words = algorithms};
	const yaml_node_t *value = node_find(reader, limit, key.name);

	if (!value)
		return node_error(reader, limit, "expected algorithm in a limit, found none");
	for (size_t i = 0; i < sizeof later_algorithms / sizeof *later_algorithms; i++)
		if (value->type == YAML_SCALAR_NODE &&
		    slice_equal(node_slice(value), slice_of(later_algorithms[i])))
			return later_algorithm(reader, value, later_algorithms[i]);
	return node_word(reader, &key, value, &options->algorithm);
}

/*
 * Ranges and zones are the algorithms' to judge. Their messages begin with the
 * parameter's name, "rate: expected …"; what has none is about the zone.
 */
static int check_limit(struct reader *reader, const struct rules_limit *limit,
                       const yaml_node_t *node, const yaml_node_t *const values[NODE_KEYS_MAX])
{
	const yaml_node_t *at = values[LIMIT_TIMEZONE] ? values[LIMIT_TIMEZONE] : node;
	struct algo_limit algo;
	struct weir_error error = {0};
	const char *message = error.message;
	int status = algo_limit_init(&algo, &limit->options, &error);

	if (status == WEIR_OK) {
		algo_limit_free(&algo);
		return WEIR_OK;
	}
	if (status == WEIR_ENOMEM)
		return node_no_memory(reader);
	for (size_t i = 0; i < LIMIT_ROWS; i++) {
		size_t len = strlen(limit_keys[i].name);

		if (strncmp(message, limit_keys[i].name, len) == 0 &&
		    strncmp(message + len, ": ", 2) == 0) {
			at = values[i] ? values[i] : node;
			message += len + 2;
			break;
		}
	}
	return node_error(reader, at, "%s", message);
}

static int read_limit(struct reader *reader, const yaml_node_t *name, const yaml_node_t *node,
                      struct rules_limit *limit)
{
	struct node_table table = {NULL, limit_keys, LIMIT_ROWS};
	const yaml_node_t *values[NODE_KEYS_MAX];
	int status;

	limit->line = (unsigned)name->start_mark.line + 1;
	limit->column = (unsigned)name->start_mark.column + 1;
	status = node_name(reader, name, &limit->options.name);
	if (status == WEIR_OK && rules_reserved_name(slice_of(limit->options.name)))
		return node_error(reader, name, "expected a name that is no command's, found \"%s\"",
		                  limit->options.name);
	if (status == WEIR_OK)
		status = node_expect(reader, node, YAML_MAPPING_NODE,
		                     "a limit such as { algorithm: token_bucket, rate: 5/s }");
	if (status == WEIR_OK)
		status = read_algorithm(reader, node, &limit->options);
	if (status != WEIR_OK)
		return status;
	table.what = algorithms[limit->options.algorithm].name;
	status = node_mapping(reader, node, &table, KIND(limit->options.algorithm), limit, values);
	return status == WEIR_OK ? check_limit(reader, limit, node, values) : status;
}

int read_limits(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                void *field)
{
	struct weir_config *config = reader->config;
	const yaml_node_pair_t *pairs;
	struct rules_limit *limits;
	struct node_name *names;
	size_t count;
	int status = node_expect(reader, value, YAML_MAPPING_NODE, "a mapping of names to limits");

	(void)key;
	(void)field;
	if (status != WEIR_OK)
		return status;
	count = node_pair_count(value);
	pairs = value->data.mapping.pairs.start;
	limits = arena_array(&config->arena, count, sizeof *limits);
	names = arena_array(&config->arena, count, sizeof *names);
	if (!limits || !names)
		return node_no_memory(reader);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const yaml_node_t *name = node_at(reader, pairs[i].key);

		names[i] = (struct node_name){node_slice(name), name, i};
		status = read_limit(reader, name, node_at(reader, pairs[i].value), &limits[i]);
	}
	config->limits = limits;
	config->limit_count = count;
	reader->limits = names;
	return status == WEIR_OK ? node_names_sort(reader, names, count, "limit") : status;
}

/* Whether the row says anything about this limit. */
static bool applies(size_t row, const struct weir_limit_options *options)
{
	unsigned variants = limit_keys[row].variants;
	bool calendar = options->align == WEIR_ALIGN_CALENDAR;

	if (variants && !(variants & KIND(options->algorithm)))
		return false;
	if (row == LIMIT_MAX_WAIT)
		return options->max_wait_ns > 0;
	if (row == LIMIT_KEYS)
		return options->keys > 0;
	if (row == LIMIT_WEEK_START)
		return calendar && options->rate.unit == WEIR_WEEK;
	return row != LIMIT_TIMEZONE || calendar;
}

static uint64_t shown(const void *field)
{
	uint64_t value = *(const uint64_t *)field;

	return value == WEIR_ZERO ? 0 : value;
}

static void show(const struct node_key *key, const void *field, struct buffer *out)
{
	const struct node_word *word = key->words;

	if (key->read == node_share) {
		char text[SHARE_TEXT_MAX];

		format_share(text, *(const double *)field);
		buffer_add_text(out, text);
		return;
	}
	if (key->read == node_number || key->read == read_slots || key->read == read_slack) {
		buffer_add_u64(out, key->read == read_slots   ? *(const uint32_t *)field
		                    : key->read == read_slack ? shown(field)
		                                              : *(const uint64_t *)field);
		return;
	}
	buffer_add(out, "\"", 1);
	if (key->read == read_rate)
		rate_add(out, field);
	else if (key->read == read_duration)
		duration_add(out, shown(field));
	else if (key->read == node_text)
		buffer_add_json(out, slice_of(*(const char *const *)field));
	for (; word && word->name; word++)
		if (word->value == *(const unsigned *)field)
			buffer_add_text(out, word->name);
	buffer_add(out, "\"", 1);
}

void rules_show_limit(const struct rules_limit *limit, struct buffer *out)
{
	struct rules_limit shown = *limit;
	struct weir_limit_options *options = &shown.options;

	if (!options->burst)
		options->burst = options->rate.count;
	if (!options->timezone)
		options->timezone = "UTC";
	if (!options->slots)
		options->slots = ALGO_SLOTS_DEFAULT;
	if (!options->slack)
		options->slack = ALGO_SLACK_DEFAULT;
	if (!options->max_wait_ns && options->algorithm != WEIR_LEAKY_QUEUE)
		options->max_wait_ns = ALGO_WAIT_DEFAULT_NS;
	if (!options->retry_ns)
		options->retry_ns = ALGO_RETRY_DEFAULT_NS;
	if (!options->lease_ns)
		options->lease_ns = ALGO_LEASE_DEFAULT_NS;
	for (size_t i = 0; i < LIMIT_ROWS; i++) {
		if (!applies(i, options))
			continue;
		buffer_printf(out, "%s\"%s\":", i > 0 ? "," : "", limit_keys[i].name);
		show(&limit_keys[i], (const char *)&shown + limit_keys[i].offset, out);
	}
}
