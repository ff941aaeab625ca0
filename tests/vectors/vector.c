#include "vector.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algorithm.h"

#define FORMAT 1

/* The place of the reader, for messages. */
struct reader {
	const char *path;
	unsigned line;
};

static struct reader reader;

static _Noreturn void fail(const char *format, ...)
{
	va_list list;

	fprintf(stderr, "%s:%u: ", reader.path, reader.line);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(2);
}

static json_t *field(const json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);

	if (!value)
		fail("expected \"%s\"", name);
	return value;
}

uint64_t vector_number(const json_t *object, const char *name)
{
	const json_t *value = field(object, name);
	const char *text = json_string_value(value);
	unsigned long long number;
	char *end;

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return (uint64_t)json_integer_value(value);
	errno = 0;
	number = strtoull(text ? text : "", &end, 10);
	if (!text || end == text || *end || errno || *text == '-')
		fail("%s: expected a whole number", name);
	return number;
}

static uint64_t number_or_0(const json_t *object, const char *name)
{
	return json_object_get(object, name) ? vector_number(object, name) : 0;
}

static const char *text(const json_t *object, const char *name)
{
	const char *value = json_string_value(field(object, name));

	if (!value)
		fail("%s: expected a text", name);
	return value;
}

static unsigned word(const json_t *object, const char *name, const char *const *words, size_t n)
{
	const char *found = text(object, name);

	for (unsigned i = 0; i < n; i++)
		if (words[i] && strcmp(words[i], found) == 0)
			return i;
	fail("%s: expected another word, found \"%s\"", name, found);
}

#define WORD(object, name, words) word(object, name, words, sizeof(words) / sizeof *(words))

static struct weir_rate rate_of(const json_t *rate)
{
	static const char *const units[] = {"s", "ns", "ms", "m", "h", "d", "w", "month", "year"};

	return (struct weir_rate){vector_number(rate, "count"), vector_number(rate, "period"),
	                          WORD(rate, "unit", units)};
}

static void read_decision(const json_t *object, struct weir_decision *d)
{
	static const char *const reasons[] = {
#define REASON(name, text) text,
	    WEIR_REASON_LIST(REASON)
#undef REASON
	};

	*d = (struct weir_decision){
	    .allowed = json_is_true(field(object, "allowed")),
	    .reason = WORD(object, "reason", reasons),
	    .quota = vector_number(object, "quota"),
	    .remaining = vector_number(object, "remaining"),
	    .retry_after_ns = vector_number(object, "retry_after_ns"),
	    .reset_after_ns = vector_number(object, "reset_after_ns"),
	    .wait_ns = vector_number(object, "wait_ns"),
	};
}

/* The parameter of that name, which ends in _ns if it is a time. */
static const struct algo_parameter *parameter_named(const struct algorithm *algorithm,
                                                    const char *name)
{
	for (const struct algo_parameter *each = algorithm->parameters; each->name; each++) {
		size_t length = strlen(each->name);
		const char *unit = each->type == ALGO_TIME ? "_ns" : "";

		if (strncmp(name, each->name, length) == 0 && strcmp(name + length, unit) == 0)
			return each;
	}
	fail("expected a parameter of %s, found %s", algorithm->name, name);
}

static unsigned word_value(const json_t *object, const char *name, const struct word *words)
{
	const char *found = text(object, name);

	for (; words->name; words++)
		if (strcmp(words->name, found) == 0)
			return words->value;
	fail("%s: expected another word, found \"%s\"", name, found);
}

static void read_parameter(const char *name, const json_t *parameters,
                           const struct algorithm *algorithm, struct weir_limit_options *options)
{
	const struct algo_parameter *parameter = parameter_named(algorithm, name);
	void *at = parameter_writable(parameter, options);

	switch (parameter->type) {
	case ALGO_NUMBER:
	case ALGO_PERCENT:
	case ALGO_TIME:
		parameter_set(parameter, vector_number(parameters, name), options);
		break;
	case ALGO_DECIMAL:
		*(double *)at = json_number_value(field(parameters, name));
		break;
	case ALGO_WORD:
		parameter_set(parameter, word_value(parameters, name, parameter->words), options);
		break;
	case ALGO_TEXT:
		*(const char **)at = text(parameters, name);
		break;
	case ALGO_RATE:
	case ALGO_CALENDAR_RATE:
		*(struct weir_rate *)at = rate_of(field(parameters, name));
		break;
	}
}

static void begin_trace(const json_t *line, struct vector_file *file)
{
	struct vector_trace *trace;
	json_t *parameters = field(line, "parameters"), *value;
	const char *name;

	file->traces = realloc(file->traces, (file->count + 1) * sizeof *file->traces);
	trace = &file->traces[file->count++];
	*trace = (struct vector_trace){.name = text(line, "trace"),
	                               .options = {.algorithm = file->algorithm->id},
	                               .own = calloc(1, sizeof *trace->own),
	                               .seed = number_or_0(line, "seed"),
	                               .seeded = json_object_get(line, "seed") != NULL};
	if (file->algorithm->own)
		parameter_set_own(file->algorithm->own, trace->own, &trace->options);
	json_object_foreach (parameters, name, value)
		read_parameter(name, parameters, file->algorithm, &trace->options);
}

static enum weir_outcome outcome_of(const json_t *line)
{
	static const char *const outcomes[] = {
#define OUTCOME(name, text) text,
	    WEIR_OUTCOME_LIST(OUTCOME)
#undef OUTCOME
	};

	return WORD(line, "outcome", outcomes);
}

static void add_step(const json_t *line, struct vector_trace *trace)
{
	static const char *const operations[] = {[ALGO_ACQUIRE] = "acquire",
	                                         [ALGO_PEEK] = "peek",
	                                         [ALGO_REFUND] = "refund",
	                                         [ALGO_RESET] = "reset",
	                                         [ALGO_REPORT] = "report"};
	unsigned operation = WORD(line, "operation", operations);
	const json_t *permit = json_object_get(line, "permit");
	bool bounded = json_object_get(line, "max_wait_ns") != NULL;
	uint64_t max_wait_ns = number_or_0(line, "max_wait_ns");
	struct vector_step *step;

	trace->steps = realloc(trace->steps, (trace->count + 1) * sizeof *trace->steps);
	step = &trace->steps[trace->count];
	*step = (struct vector_step){
	    .line = reader.line,
	    .call = {.op = operation,
	             .cost = number_or_0(line, "cost"),
	             .draw = number_or_0(line, "draw"),
	             .permit = permit ? vector_number(permit, "id") : 0,
	             .max_wait_ns = bounded && max_wait_ns == 0 ? WEIR_ZERO : max_wait_ns},
	    .time = {vector_number(line, "now_ns"), number_or_0(line, "window_end_ns")},
	    .before = trace->count ? step[-1].after : json_null(),
	    .after = field(line, "state"),
	    .draws = json_object_get(line, "draw") != NULL,
	};
	if (operation == ALGO_REPORT) {
		step->call.outcome = outcome_of(line);
		step->call.latency_ns = number_or_0(line, "latency_ns");
	}
	if (permit && algo_op_releases(operation))
		step->call.until_ns = vector_number(permit, "until_ns");
	else if (permit)
		step->taken_until_ns = vector_number(permit, "until_ns");
	read_decision(field(line, "decision"), &step->decision);
	trace->count++;
}

static void read_line(const json_t *line, struct vector_file *file)
{
	if (json_object_get(line, "trace"))
		begin_trace(line, file);
	else if (file->count > 0)
		add_step(line, &file->traces[file->count - 1]);
	else
		fail("expected a trace before the first step");
}

static void read_header(const json_t *line, struct vector_file *file)
{
	if (vector_number(line, "format") != FORMAT)
		fail("expected format %d", FORMAT);
	file->algorithm = algorithm_of(word_value(line, "algorithm", algorithm_words()));
}

void vector_read(const char *path, struct vector_file *file)
{
	FILE *stream = fopen(path, "r");
	size_t size = 0;
	char *text = NULL;

	*file = (struct vector_file){.path = path, .lines = json_array()};
	reader = (struct reader){.path = path};
	if (!stream)
		fail("expected a file of vectors: %s", strerror(errno));
	while (getline(&text, &size, stream) > 0) {
		json_error_t error;
		json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);

		reader.line++;
		if (!line)
			fail("%s", error.text);
		json_array_append_new(file->lines, line);
		if (reader.line == 1)
			read_header(line, file);
		else
			read_line(line, file);
	}
	if (file->count == 0)
		fail("expected traces");
	free(text);
	fclose(stream);
}

void vector_close(struct vector_file *file)
{
	for (size_t i = 0; i < file->count; i++) {
		free(file->traces[i].steps);
		free(file->traces[i].own);
	}
	free(file->traces);
	json_decref(file->lines);
}
