#include "proto/resp_session.h"

#include "base/error.h"
#include "base/number.h"

/* What a request may be to its reply besides an entry of the table. */
enum {
	VERB_ERROR = -1,
};

/* WEIR.CHECK has the most words: its name and two for each attribute. */
#define ARGS_MAX (1 + 2 * WEIR_ATTRIBUTES_MAX)

/* CL.THROTTLE and THROTTLE name key max_burst count period [quantity]. */
static int read_adhoc(struct fill *fill, const struct slice *args, size_t n, unsigned min_burst)
{
	const struct {
		const char *name;
		int64_t min;
	} params[] = {{"max_burst", min_burst}, {"count", 1}, {"period", 1}, {"quantity", 0}};
	int64_t values[4] = {[3] = 1};

	for (size_t i = 0; i + 2 < n; i++)
		if (!parse_i64(args[i + 2], &values[i]) || values[i] < params[i].min)
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected %s to be a whole number of at least %lld, found '%.*s'",
			                 params[i].name, (long long)params[i].min, FILL_QUOTE(args[i + 2]));
	/* redis-cell grants one token on top of max_burst, throttlecrab does not. */
	fill->request->adhoc = (struct request_adhoc){
	    .burst = (uint64_t)values[0] + (min_burst == 0),
	    .count = (uint64_t)values[1],
	    .period_s = (uint64_t)values[2],
	};
	fill->request->cost = (uint64_t)values[3];
	return fill_key(fill, args[1]);
}

static int read_cell(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                     size_t n)
{
	(void)spec;
	return read_adhoc(fill, args, n, 0);
}

static int read_crab(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                     size_t n)
{
	(void)spec;
	return read_adhoc(fill, args, n, 1);
}

static int ask_permit(struct fill *fill, struct slice nothing)
{
	(void)nothing;
	fill->request->wants_permit = true;
	return 0;
}

#define ON(op) (1u << REQUEST_##op)

/* What may stand behind a limit and a key. */
static const struct {
	struct slice name;
	unsigned ops;
	unsigned words; /* its own and its value's */
	int (*set)(struct fill *fill, struct slice value);
} options[] = {
    {SLICE("COST"), ON(ACQUIRE) | ON(PEEK) | ON(REFUND), 2, fill_cost},
    {SLICE("PERMIT"), ON(ACQUIRE), 1, ask_permit},
    {SLICE("PERMIT"), ON(REFUND), 2, fill_permit},
    {SLICE("WAIT"), ON(ACQUIRE), 2, fill_wait},
};

static const char *const option_list[] = {
    [REQUEST_ACQUIRE] = "COST n, WAIT ms or PERMIT",
    [REQUEST_PEEK] = "COST n",
    [REQUEST_REFUND] = "COST n or PERMIT p",
};

/* Of the first of `n` words. Sets how many it takes. */
static int read_option(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                       size_t n, size_t *words)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		if (!(options[i].ops & 1u << spec->op) || options[i].words > n ||
		    !slice_equal_nocase(args[0], options[i].name))
			continue;
		*words = options[i].words;
		return options[i].set(fill, args[*words - 1]);
	}
	return error_set(&fill->error, WEIR_ESYNTAX,
	                 "syntax error: expected %s behind the key of %s, found '%.*s'",
	                 option_list[spec->op], spec->name.data, FILL_QUOTE(args[0]));
}

static int read_limit(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                      size_t n)
{
	size_t words = 1;

	fill->request->limit = args[1];
	for (size_t i = 3; i < n; i += words) {
		int status = read_option(fill, spec, args + i, n - i, &words);

		if (status != 0)
			return status;
	}
	return fill_key(fill, args[2]);
}

/* WEIR.REPORT permit outcome [latency_ms] */
static int read_report(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                       size_t n)
{
	int status = fill_outcome(fill, args[2]);

	(void)spec;
	if (status == 0 && n > 3)
		status = fill_latency(fill, args[3]);
	return status == 0 ? fill_permit(fill, args[1]) : status;
}

static int read_check(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                      size_t n)
{
	int status;

	if (n % 2 == 0)
		return error_set(&fill->error, WEIR_ESYNTAX,
		                 "expected pairs of attribute and value behind %s, found %zu words",
		                 spec->name.data, n - 1);
	status = fill_attribute_room(fill, n / 2);
	for (size_t i = 1; status == 0 && i < n; i += 2)
		status = fill_attribute(fill, args[i], args[i + 1]);
	return status;
}

static int read_shed(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                     size_t n)
{
	(void)spec;
	(void)n;
	fill->request->limit = args[1];
	return fill_deny(fill, args[2]);
}

/* Seconds, rounded up as soon as a millisecond is left. */
static uint64_t seconds_left(uint64_t ns)
{
	return ceil_div(ns / NS_PER_MS, 1000);
}

static void write_cell(const struct reply *reply, struct buffer *out)
{
	const struct weir_decision *d = &reply->decision;
	bool never = d->allowed || reply->status == WEIR_ECOST;
	int64_t values[] = {
	    !d->allowed,
	    (int64_t)d->quota,
	    (int64_t)d->remaining,
	    never ? -1 : (int64_t)u64_max(seconds_left(d->retry_after_ns), 1),
	    (int64_t)seconds_left(d->reset_after_ns),
	};

	resp_write_integers(out, 5, values, 5);
}

static void write_crab(const struct reply *reply, struct buffer *out)
{
	const struct weir_decision *d = &reply->decision;
	int64_t values[] = {
	    d->allowed,
	    (int64_t)d->quota,
	    (int64_t)d->remaining,
	    (int64_t)seconds_left(d->reset_after_ns),
	    d->allowed ? 0 : (int64_t)u64_max(seconds_left(d->retry_after_ns), 1),
	};

	resp_write_integers(out, 5, values, 5);
}

static void write_text(struct buffer *out, const char *text)
{
	resp_write_bulk(out, text ? slice_of(text) : SLICE(""));
}

static void write_elements(const struct reply *reply, struct buffer *out, uint64_t n)
{
	const struct weir_decision *d = &reply->decision;
	int64_t values[] = {
	    d->allowed,
	    (int64_t)d->quota,
	    (int64_t)d->remaining,
	    (int64_t)ceil_div(d->retry_after_ns, NS_PER_MS),
	    (int64_t)ceil_div(d->reset_after_ns, NS_PER_MS),
	};

	resp_write_integers(out, n, values, 5);
	write_text(out, weir_reason_text(d->reason));
	resp_write_bulk(out, reply->permit);
}

static void write_seven(const struct reply *reply, struct buffer *out)
{
	write_elements(reply, out, 7);
}

static void write_nine(const struct reply *reply, struct buffer *out)
{
	write_elements(reply, out, 9);
	write_text(out, reply->decision.limit);
	write_text(out, reply->decision.rule);
}

static void write_ok(const struct reply *reply, struct buffer *out)
{
	(void)reply;
	buffer_add_text(out, "+OK\r\n");
}

/* What is asked most stands first: the search is in order, by length and then letters. */
static const struct resp_spec specs[] = {
#define DECIDE(name, class, min, max, key, kind, op, read, write)                                  \
	{SLICE(name), min, max, key, REQUEST_##kind, REQUEST_##op, REQUEST_##class,                    \
	 read_##read, write_##write, NULL}
    DECIDE("CL.THROTTLE", ASK, 5, 6, 1, ADHOC, ACQUIRE, cell, cell),
    DECIDE("WEIR.ACQUIRE", ASK, 3, RESP_ARGS_ANY, 2, LIMIT, ACQUIRE, limit, seven),
    DECIDE("WEIR.CHECK", ASK, 3, RESP_ARGS_ANY, 0, RULES, ACQUIRE, check, nine),
    DECIDE("THROTTLE", ASK, 5, 6, 1, ADHOC, ACQUIRE, crab, crab),
    DECIDE("WEIR.PEEK", ASK, 3, RESP_ARGS_ANY, 2, LIMIT, PEEK, limit, seven),
    DECIDE("WEIR.REFUND", CHANGE, 3, RESP_ARGS_ANY, 2, LIMIT, REFUND, limit, seven),
    DECIDE("WEIR.RESET", CHANGE, 3, 3, 2, LIMIT, RESET, limit, seven),
    DECIDE("WEIR.REPORT", ASK, 3, 4, 0, REPORT, ACQUIRE, report, ok),
    DECIDE("WEIR.SHED", ADMIN, 3, 3, 0, SHED, ACQUIRE, shed, ok),
#undef DECIDE
#define RUN(name, min, max, run)                                                                   \
	{SLICE(name), min, max, 0, REQUEST_LOCAL, REQUEST_ACQUIRE, REQUEST_FREE,                       \
	 NULL, NULL, resp_run_##run}
    RUN("PING", 1, 2, ping),
    RUN("ECHO", 2, 2, echo),
    RUN("HELLO", 1, RESP_ARGS_ANY, hello),
    RUN("AUTH", 2, 3, auth),
    RUN("SELECT", 2, 2, select),
    RUN("CLIENT", 2, RESP_ARGS_ANY, client),
    RUN("COMMAND", 1, RESP_ARGS_ANY, command),
    RUN("INFO", 1, RESP_ARGS_ANY, info),
    RUN("CONFIG", 2, RESP_ARGS_ANY, config),
    RUN("RESET", 1, 1, reset),
    RUN("QUIT", 1, RESP_ARGS_ANY, quit),
#undef RUN
};

#define SPEC_COUNT (sizeof specs / sizeof *specs)

const struct resp_spec *resp_specs(size_t *n)
{
	*n = SPEC_COUNT;
	return specs;
}

const struct resp_spec *resp_spec_find(struct slice name)
{
	for (size_t i = 0; i < SPEC_COUNT; i++)
		if (slice_equal_nocase(name, specs[i].name))
			return &specs[i];
	return NULL;
}

/* An element of what COMMAND tells of one command. */
#define COMMAND_INFO_MAX 128

/* About; of one that is answered on the spot, from its own size. */
static size_t reply_size(const struct resp_spec *spec, size_t n, size_t size)
{
	return spec->run == resp_run_command ? (SPEC_COUNT + n) * COMMAND_INFO_MAX : size;
}

static int read_command(struct fill *fill, const struct resp_command *command)
{
	const struct resp_spec *spec = resp_spec_find(command->args[0]);
	size_t n = command->count;
	struct slice *args;

	if (!spec)
		return error_set(&fill->error, WEIR_ENOTFOUND, "unknown command '%.*s'",
		                 FILL_QUOTE(command->args[0]));
	if (n < spec->min || (n > spec->max && spec->max != RESP_ARGS_ANY))
		return error_set(&fill->error, WEIR_ESYNTAX, "wrong number of arguments for '%s' command",
		                 spec->name.data);
	if (n > command->capacity)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu arguments, found %zu",
		                 command->capacity - 1, n - 1);
	fill->request->kind = spec->kind;
	fill->request->op = spec->op;
	fill->request->class = spec->class;
	fill->request->verb = (int)(spec - specs);
	if (spec->read)
		return spec->read(fill, spec, command->args, n);
	args = arena_array(fill->arena, n, sizeof *args);
	if (!args)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	memcpy(args, command->args, n * sizeof *args);
	fill->request->args = args;
	fill->request->arg_count = n;
	fill->request->close = spec->run == resp_run_quit;
	return 0;
}

/* To be answered by fill->error. */
static void refuse(struct fill *fill)
{
	const char *text = arena_copy(fill->arena, slice_of(fill->error.message));

	fill->request->kind = REQUEST_LOCAL;
	fill->request->class = REQUEST_FREE;
	fill->request->refused = fill->error.status;
	fill->request->verb = VERB_ERROR;
	fill->request->text = text ? slice_of(text) : SLICE("out of memory");
}

static void read_fresh(struct resp_session *session, struct slice data, struct fill *fill,
                       const struct resp_command *command)
{
	const struct resp_spec *spec;

	if (read_command(fill, command) != 0) {
		refuse(fill);
		return;
	}
	spec = &specs[fill->request->verb];
	if (spec->run)
		fill->request->reply_size = reply_size(spec, command->count, data.len);
	if (spec->key != 0 && data.data[0] == '*' && !fill->request->permit.data)
		resp_form_learn(&session->form, data, command->args, spec->key, fill->request);
}

__attribute__((noinline)) static enum codec_result
parse_slow(struct resp_session *session, struct slice data, size_t *consumed, struct arena *arena,
           struct request *request)
{
	struct slice args[ARGS_MAX];
	struct resp_command command = {.args = args, .capacity = ARGS_MAX};
	struct fill fill = {.request = request, .limits = &session->limits, .arena = arena};
	enum resp_result result =
	    resp_read(&session->reader, session->limits.request_max, data, arena, &command, consumed);

	if (result == RESP_MORE)
		return CODEC_MORE;
	if (result == RESP_SKIPPED || (result == RESP_COMMAND && command.count == 0))
		return CODEC_SKIPPED;
	*request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	if (result == RESP_BROKEN) {
		error_set(&fill.error, WEIR_ESYNTAX, "%s", command.error);
		refuse(&fill);
		request->close = true;
	} else if (result == RESP_TOO_LONG) {
		error_set(&fill.error, WEIR_ELONG,
		          "expected a command of at most %zu bytes, found a longer one",
		          session->limits.request_max);
		refuse(&fill);
	} else {
		read_fresh(session, (struct slice){data.data, *consumed}, &fill, &command);
	}
	return CODEC_REQUEST;
}

static enum codec_result parse(void *state, struct slice data, size_t *consumed,
                               struct arena *arena, struct request *request)
{
	struct resp_session *session = state;

	if (resp_form_match(&session->form, &session->reader, &session->limits, data, consumed,
	                    request))
		return CODEC_REQUEST;
	return parse_slow(session, data, consumed, arena, request);
}

static void reply(void *state, const struct request *request, const struct reply *answer,
                  struct buffer *out)
{
	const struct resp_spec *spec;

	if (request->verb == VERB_ERROR) {
		resp_write_error(out, "ERR", request->text);
		return;
	}
	spec = &specs[request->verb];
	if (spec->run)
		spec->run(&(struct resp_call){state, request->args, request->arg_count, out});
	else if (answer->status == 0 ||
	         (answer->status == WEIR_ECOST && request->kind == REQUEST_ADHOC))
		spec->write(answer, out);
	else
		resp_write_error(
		    out, answer->status == WEIR_EPERM ? "NOPERM" : "ERR",
		    slice_of(answer->message ? answer->message : weir_strerror(answer->status)));
}

static void open_session(void *state, const struct codec_limits *limits)
{
	*(struct resp_session *)state = (struct resp_session){.limits = *limits, .protocol = 2};
}

const struct codec resp_codec = {
    .name = "resp",
    .session_size = sizeof(struct resp_session),
    .open = open_session,
    .parse = parse,
    .reply = reply,
};
