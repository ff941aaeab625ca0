/* resp_command.c: the table of RESP commands, and functions that turn their words into requests. */
#include "base/error.h"
#include "base/number.h"
#include "proto/resp/resp_call.h"
#include "proto/resp/resp_multi.h"

static int ask_permit(struct fill *fill, struct slice nothing)
{
	(void)nothing;
	fill->request->wants_permit = true;
	return 0;
}

#define ON(op) (1u << REQUEST_##op)

/* The options after a limit and a key. */
static const struct {
	struct slice name;
	unsigned ops;
	unsigned words; /* with its value */
	int (*set)(struct fill *fill, struct slice value);
} options[] = {
    {SLICE("COST"), ON(ACQUIRE) | ON(PEEK) | ON(REFUND), 2, fill_cost},
    {SLICE("PERMIT"), ON(ACQUIRE), 1, ask_permit},
    {SLICE("PERMIT"), ON(REFUND), 2, fill_permit},
    {SLICE("WAIT"), ON(ACQUIRE), 2, fill_wait},
    {SLICE("PRIORITY"), ON(ACQUIRE), 2, fill_priority},
};

static const char *const option_list[] = {
    [REQUEST_ACQUIRE] = "COST n, WAIT ms, PRIORITY n or PERMIT",
    [REQUEST_PEEK] = "COST n",
    [REQUEST_REFUND] = "COST n or PERMIT p",
};

/* Reads the option that begins the `n` words. Sets *words to the number of its words. */
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
	                 "syntax error: expected %s after the key of %s, found '%.*s'",
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
		                 "expected pairs of attribute and value after %s, found %zu words",
		                 spec->name.data, n - 1);
	status = fill_reserve_attributes(fill, n / 2);
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

/* In order of frequency, because the search is linear. */
static const struct resp_spec specs[] = {
#define DECIDE(text, may, least, most, key_at, what, how, reader, writer)                          \
	{                                                                                              \
		.name = SLICE(text), .min = least, .max = most, .key = key_at, .kind = REQUEST_##what,     \
		.op = REQUEST_##how, .class = REQUEST_##may, .read = reader, .write = writer,              \
	}
    DECIDE("CL.THROTTLE", ASK, 5, 6, 1, ADHOC, ACQUIRE, resp_read_cl_throttle,
           resp_write_cl_throttle),
    DECIDE("WEIR.ACQUIRE", ASK, 3, RESP_ARGS_ANY, 2, LIMIT, ACQUIRE, read_limit, write_seven),
    DECIDE("WEIR.CHECK", ASK, 3, RESP_ARGS_ANY, 0, RULES, ACQUIRE, read_check, write_nine),
    DECIDE("THROTTLE", ASK, 5, 6, 1, ADHOC, ACQUIRE, resp_read_throttle, resp_write_throttle),
    DECIDE("WEIR.PEEK", ASK, 3, RESP_ARGS_ANY, 2, LIMIT, PEEK, read_limit, write_seven),
    DECIDE("WEIR.REFUND", CHANGE, 3, RESP_ARGS_ANY, 2, LIMIT, REFUND, read_limit, write_seven),
    DECIDE("WEIR.RESET", CHANGE, 3, 3, 2, LIMIT, RESET, read_limit, write_seven),
    DECIDE("WEIR.CHECKPEEK", ASK, 3, RESP_ARGS_ANY, 0, RULES, PEEK, read_check, write_nine),
    DECIDE("WEIR.REPORT", ASK, 3, 4, 0, REPORT, ACQUIRE, read_report, write_ok),
    DECIDE("WEIR.SHED", ADMIN, 3, 3, 0, SHED, ACQUIRE, read_shed, write_ok),
#undef DECIDE
#define KEY(text, may, how, writer)                                                                \
	{                                                                                              \
		.name = SLICE(text), .min = 2, .max = 2, .key = 1, .kind = REQUEST_KEY,                    \
		.op = REQUEST_##how, .class = REQUEST_##may, .read = resp_read_key,                        \
		.write = resp_write_##writer,                                                              \
	}
#define KEYS(text, may, how)                                                                       \
	{                                                                                              \
		.name = SLICE(text), .min = 2, .max = RESP_ARGS_ANY, .key = 1, .keys = true,               \
		.kind = REQUEST_BATCH, .op = REQUEST_##how, .class = REQUEST_##may,                        \
		.read = resp_read_keys,                                                                    \
	}
    KEYS("DEL", CHANGE, RESET),
    KEYS("EXISTS", ASK, PEEK),
    KEY("TTL", ASK, PEEK, ttl),
    KEY("PTTL", ASK, PEEK, pttl),
#undef KEY
#undef KEYS
#define RUN(text, least, most, what, reply, ...)                                                   \
	{                                                                                              \
		.name = SLICE(text), .min = least, .max = most, .kind = REQUEST_##what,                    \
		.run = resp_run_##reply, __VA_ARGS__                                                       \
	}
#define EXECUTE(text, least, most, how)                                                            \
	{                                                                                              \
		.name = SLICE(text), .min = least, .max = most, .kind = REQUEST_LOCAL,                     \
		.execute = resp_execute_##how,                                                             \
	}
    RUN("PING", 1, 2, LOCAL, ping),
    EXECUTE("MULTI", 1, 1, multi),
    EXECUTE("EXEC", 1, 1, exec),
    EXECUTE("DISCARD", 1, 1, discard),
    EXECUTE("WATCH", 2, RESP_ARGS_ANY, watch),
    RUN("UNWATCH", 1, 1, LOCAL, ok),
    RUN("ECHO", 2, 2, LOCAL, echo),
    RUN("HELLO", 1, RESP_ARGS_ANY, LOCAL, hello, .read = resp_read_hello),
    RUN("AUTH", 2, 3, LOGIN, ok, .read = resp_read_auth, .execute = resp_execute_outside_multi),
    RUN("SELECT", 2, 2, LOCAL, select),
    RUN("CLIENT", 2, RESP_ARGS_ANY, LOCAL, client),
    RUN("ACL", 2, RESP_ARGS_ANY, LOCAL, acl),
    RUN("COMMAND", 1, RESP_ARGS_ANY, LOCAL, command, .execute = resp_execute_outside_multi),
    RUN("INFO", 1, RESP_ARGS_ANY, LOCAL, info),
    RUN("CONFIG", 2, RESP_ARGS_ANY, LOCAL, config),
    RUN("RESET", 1, 1, LOGIN, reset, .execute = resp_execute_reset),
    EXECUTE("QUIT", 1, RESP_ARGS_ANY, quit),
#undef RUN
#undef EXECUTE
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

/* Bytes of the description of one command in the reply to COMMAND. */
#define COMMAND_INFO_MAX 128

/* Estimates the reply to a command that the codec answers, by the command's size. */
static size_t estimate_reply(const struct resp_spec *spec, const struct slice *args, size_t n)
{
	size_t size = 0;

	if (spec->run == resp_run_command)
		return (SPEC_COUNT + n) * COMMAND_INFO_MAX;
	for (size_t i = 0; i < n; i++)
		size += args[i].len;
	return size;
}

int resp_store_words(struct fill *fill, const struct slice *args, size_t n)
{
	struct slice *copy = arena_array(fill->arena, n, sizeof *copy);

	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	memcpy(copy, args, n * sizeof *copy);
	fill->request->words = copy;
	fill->request->word_count = n;
	return 0;
}

const struct resp_spec *resp_check_words(struct fill *fill, const struct slice *args, size_t n)
{
	const struct resp_spec *spec = resp_spec_find(args[0]);

	if (!spec)
		error_set(&fill->error, WEIR_ENOTFOUND, "unknown command '%.*s'", FILL_QUOTE(args[0]));
	else if (n < spec->min || (n > spec->max && spec->max != RESP_ARGS_ANY))
		error_set(&fill->error, WEIR_ESYNTAX, "wrong number of arguments for '%s' command",
		          spec->name.data);
	else if (n > RESP_WORDS_MAX)
		error_set(&fill->error, WEIR_ELONG, "expected at most %d arguments, found %zu",
		          RESP_WORDS_MAX - 1, n - 1);
	else
		return spec;
	return NULL;
}

void resp_set_spec(struct fill *fill, const struct resp_spec *spec)
{
	fill->request->kind = spec->kind;
	fill->request->op = spec->op;
	fill->request->class = spec->class;
	fill->request->reply_code = (int)(spec - specs);
}

int resp_read_command(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                      size_t n)
{
	if (spec->read)
		return spec->read(fill, spec, args, n);
	fill->request->reply_size = estimate_reply(spec, args, n);
	return resp_store_words(fill, args, n);
}

void resp_refuse(struct fill *fill)
{
	const char *text = arena_copy(fill->arena, slice_of(fill->error.message));

	fill->request->kind = REQUEST_LOCAL;
	fill->request->class = REQUEST_FREE;
	fill->request->status = (signed char)fill->error.status;
	fill->request->reply_code = RESP_REPLY_ERROR;
	fill->request->local_text = text ? slice_of(text) : SLICE("out of memory");
}

void resp_read_words(struct fill *fill, const struct slice *args, size_t n)
{
	const struct resp_spec *spec = resp_check_words(fill, args, n);

	*fill->request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	if (spec)
		resp_set_spec(fill, spec);
	if (!spec || resp_read_command(fill, spec, args, n) != 0)
		resp_refuse(fill);
	/* A password takes long to check, and the other commands would have to wait. */
	if (fill->request->kind == REQUEST_LOGIN) {
		error_set(&fill->error, WEIR_EUNSUPPORTED, "a login inside MULTI is not allowed");
		resp_refuse(fill);
	}
}
