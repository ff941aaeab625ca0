/*
 * resp_command.c: lists all RESP commands that the server knows, and turns the words of a command
 * into a request: a decision for the server, or a command that the codec answers by itself.
 */
#include "base/error.h"
#include "base/number.h"
#include "proto/resp/resp_call.h"
#include "proto/resp/resp_multi.h"

static int set_wants_permit(struct fill *fill, struct slice nothing)
{
	(void)nothing;
	fill->request->wants_permit = true;
	return 0;
}

#define ON(op) (1u << REQUEST_##op)

/* The options after a limit and a key. PERMIT has a value in one command alone. */
static const struct {
	struct slice name;
	unsigned ops;        /* the operations that accept it, a bit each */
	unsigned word_count; /* 1, or 2 with its value */
	int (*set)(struct fill *fill, struct slice value);
} options[] = {
    {SLICE("COST"), ON(ACQUIRE) | ON(PEEK) | ON(REFUND), 2, fill_cost},
    {SLICE("PERMIT"), ON(ACQUIRE), 1, set_wants_permit},
    {SLICE("PERMIT"), ON(REFUND), 2, fill_permit},
    {SLICE("WAIT"), ON(ACQUIRE), 2, fill_wait},
    {SLICE("PRIORITY"), ON(ACQUIRE), 2, fill_priority},
};

static const char *const options_text[] = {
    [REQUEST_ACQUIRE] = "COST n, WAIT ms, PRIORITY n or PERMIT",
    [REQUEST_PEEK] = "COST n",
    [REQUEST_REFUND] = "COST n or PERMIT p",
};

/* Reads the option with which the `n` words begin. Sets *word_count to the number of its words. */
static int read_option(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                       size_t n, size_t *word_count)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		bool is_for_op = options[i].ops & 1u << spec->op;

		if (!is_for_op || options[i].word_count > n ||
		    !slice_equal_nocase(args[0], options[i].name))
			continue;
		*word_count = options[i].word_count;
		return options[i].set(fill, args[*word_count - 1]);
	}
	return error_set(&fill->error, WEIR_ESYNTAX,
	                 "syntax error: expected %s after the key of %s, found '%.*s'",
	                 options_text[spec->op], spec->name.data, FILL_QUOTE(args[0]));
}

/* A command such as WEIR.ACQUIRE limit key [option ...] */
static int read_limit_command(struct fill *fill, const struct resp_spec *spec,
                              const struct slice *args, size_t n)
{
	size_t option_words = 1;

	fill->request->limit = args[1];
	for (size_t i = 3; i < n; i += option_words) {
		int status = read_option(fill, spec, args + i, n - i, &option_words);

		if (status != 0)
			return status;
	}
	return fill_key(fill, args[2]);
}

/* WEIR.REPORT permit outcome [latency_ms] */
static int read_report_command(struct fill *fill, const struct resp_spec *spec,
                               const struct slice *args, size_t n)
{
	int status = fill_outcome(fill, args[2]);

	(void)spec;
	if (status == 0 && n > 3)
		status = fill_latency(fill, args[3]);
	return status == 0 ? fill_permit(fill, args[1]) : status;
}

/* WEIR.CHECK attribute value [attribute value ...] */
static int read_check_command(struct fill *fill, const struct resp_spec *spec,
                              const struct slice *args, size_t n)
{
	int status;

	if (n % 2 == 0) /* the name and pairs are an odd number of words */
		return error_set(&fill->error, WEIR_ESYNTAX,
		                 "expected pairs of attribute and value after %s, found %zu words",
		                 spec->name.data, n - 1);
	status = fill_reserve_attributes(fill, n / 2);
	for (size_t i = 1; status == 0 && i < n; i += 2)
		status = fill_attribute(fill, args[i], args[i + 1]);
	return status;
}

/* WEIR.SHED limit share */
static int read_shed_command(struct fill *fill, const struct resp_spec *spec,
                             const struct slice *args, size_t n)
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

/* Begins an array of `n` elements and writes seven; the caller writes the others. */
static void write_decision(const struct reply *reply, struct buffer *out, uint64_t n)
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

static void write_limit_decision(const struct reply *reply, struct buffer *out)
{
	write_decision(reply, out, 7);
}

static void write_rules_decision(const struct reply *reply, struct buffer *out)
{
	write_decision(reply, out, 9);
	write_text(out, reply->decision.limit);
	write_text(out, reply->decision.rule);
}

static void write_ok(const struct reply *reply, struct buffer *out)
{
	(void)reply;
	buffer_add_text(out, "+OK\r\n");
}

/*
 * In order of frequency, because the search is linear. DECIDE makes the entry of a command that the
 * server decides, KEY and KEYS that of one about keys of CL.THROTTLE. The codec answers the
 * commands of RUN, and executes those of EXECUTE when they are read.
 */
static const struct resp_spec specs[] = {
#define DECIDE(name_, class_, min_, max_, key_, kind_, op_, fill_, write_, usage_)                 \
	{                                                                                              \
		.name = SLICE(name_), .min_words = min_, .max_words = max_, .key_index = key_,             \
		.kind = REQUEST_##kind_, .op = REQUEST_##op_, .class = REQUEST_##class_,                   \
		.fill_request = fill_, .write_reply = write_, .usage = usage_,                             \
	}
    DECIDE("CL.THROTTLE", ASK, 5, 6, 1, ADHOC, ACQUIRE, resp_read_cl_throttle,
           resp_write_cl_throttle, "key max_burst count period [quantity]"),
    DECIDE("WEIR.ACQUIRE", ASK, 3, RESP_ARGS_ANY, 2, LIMIT, ACQUIRE, read_limit_command,
           write_limit_decision, "limit key [COST n] [WAIT ms] [PRIORITY n] [PERMIT]"),
    DECIDE("WEIR.CHECK", ASK, 3, RESP_ARGS_ANY, 0, RULES, ACQUIRE, read_check_command,
           write_rules_decision, "attribute value [attribute value ...]"),
    DECIDE("THROTTLE", ASK, 5, 6, 1, ADHOC, ACQUIRE, resp_read_throttle, resp_write_throttle,
           "key max_burst count period [quantity]"),
    DECIDE("WEIR.PEEK", ASK, 3, RESP_ARGS_ANY, 2, LIMIT, PEEK, read_limit_command,
           write_limit_decision, "limit key [COST n]"),
    DECIDE("WEIR.REFUND", CHANGE, 3, RESP_ARGS_ANY, 2, LIMIT, REFUND, read_limit_command,
           write_limit_decision, "limit key [COST n] [PERMIT permit]"),
    DECIDE("WEIR.RESET", CHANGE, 3, 3, 2, LIMIT, RESET, read_limit_command, write_limit_decision,
           "limit key"),
    DECIDE("WEIR.CHECKPEEK", ASK, 3, RESP_ARGS_ANY, 0, RULES, PEEK, read_check_command,
           write_rules_decision, "attribute value [attribute value ...]"),
    DECIDE("WEIR.REPORT", ASK, 3, 4, 0, REPORT, ACQUIRE, read_report_command, write_ok,
           "permit outcome [latency_ms]"),
    DECIDE("WEIR.SHED", ADMIN, 3, 3, 0, SHED, ACQUIRE, read_shed_command, write_ok,
           "limit fraction"),
#undef DECIDE
#define KEY(name_, class_, op_, write_)                                                            \
	{                                                                                              \
		.name = SLICE(name_), .min_words = 2, .max_words = 2, .key_index = 1, .kind = REQUEST_KEY, \
		.op = REQUEST_##op_, .class = REQUEST_##class_, .fill_request = resp_read_key,             \
		.write_reply = resp_write_##write_, .usage = "key",                                        \
	}
#define KEYS(name_, class_, op_)                                                                   \
	{                                                                                              \
		.name = SLICE(name_), .min_words = 2, .max_words = RESP_ARGS_ANY, .key_index = 1,          \
		.has_many_keys = true, .kind = REQUEST_BATCH, .op = REQUEST_##op_,                         \
		.class = REQUEST_##class_, .fill_request = resp_read_keys, .usage = "key [key ...]",       \
	}
    KEYS("DEL", CHANGE, RESET),
    KEYS("EXISTS", ASK, PEEK),
    KEY("TTL", ASK, PEEK, ttl),
    KEY("PTTL", ASK, PEEK, pttl),
#undef KEY
#undef KEYS
#define RUN(name_, min_, max_, usage_, kind_, answer_, ...)                                        \
	{                                                                                              \
		.name = SLICE(name_), .min_words = min_, .max_words = max_, .usage = usage_,               \
		.kind = REQUEST_##kind_, .answer = resp_run_##answer_, __VA_ARGS__                         \
	}
#define EXECUTE(name_, min_, max_, usage_, execute_)                                               \
	{                                                                                              \
		.name = SLICE(name_), .min_words = min_, .max_words = max_, .usage = usage_,               \
		.kind = REQUEST_LOCAL, .execute_when_read = resp_execute_##execute_,                       \
	}
    RUN("PING", 1, 2, "[message]", LOCAL, ping),
    EXECUTE("MULTI", 1, 1, "", multi),
    EXECUTE("EXEC", 1, 1, "", exec),
    EXECUTE("DISCARD", 1, 1, "", discard),
    EXECUTE("WATCH", 2, RESP_ARGS_ANY, "key [key ...]", watch),
    RUN("UNWATCH", 1, 1, "", LOCAL, ok),
    RUN("ECHO", 2, 2, "message", LOCAL, echo),
    RUN("HELLO", 1, RESP_ARGS_ANY, "[protocol [AUTH user secret] [SETNAME name]]", LOCAL, hello,
        .fill_request = resp_read_hello),
    RUN("AUTH", 2, 3, "[user] secret", LOGIN, ok, .fill_request = resp_read_auth,
        .execute_when_read = resp_execute_outside_multi),
    RUN("SELECT", 2, 2, "index", LOCAL, select),
    RUN("CLIENT", 2, RESP_ARGS_ANY, "subcommand [argument ...]", LOCAL, client),
    RUN("ACL", 2, RESP_ARGS_ANY, "WHOAMI", LOCAL, acl),
    RUN("COMMAND", 1, RESP_ARGS_ANY, "[subcommand [argument ...]]", LOCAL, command,
        .execute_when_read = resp_execute_outside_multi),
    RUN("INFO", 1, RESP_ARGS_ANY, "[section ...]", LOCAL, info),
    RUN("CONFIG", 2, RESP_ARGS_ANY, "GET parameter [parameter ...]", LOCAL, config),
    RUN("RESET", 1, 1, "", LOGIN, reset, .execute_when_read = resp_execute_reset),
    EXECUTE("QUIT", 1, RESP_ARGS_ANY, "", quit),
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

/* Estimates how many bytes the codec's answer to a command will have. */
static size_t estimate_reply_bytes(const struct resp_spec *spec, const struct slice *args, size_t n)
{
	size_t echoed_bytes = 0;

	if (spec->answer == resp_run_command)
		return (SPEC_COUNT + n) * COMMAND_INFO_MAX;
	for (size_t i = 0; i < n; i++)
		echoed_bytes += args[i].len;
	return echoed_bytes;
}

int resp_copy_words_to_request(struct fill *fill, const struct slice *args, size_t n)
{
	struct slice *copy = arena_array(fill->arena, n, sizeof *copy);

	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	memcpy(copy, args, n * sizeof *copy);
	fill->request->words = copy;
	fill->request->word_count = n;
	return 0;
}

/* Whether a client of Redis calls a script, for example one that limits requests. */
static bool is_script_command(struct slice name)
{
	static const char *const commands[] = {"EVAL",   "EVALSHA",  "EVAL_RO", "EVALSHA_RO",
	                                       "SCRIPT", "FUNCTION", "FCALL",   "FCALL_RO"};

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (slice_equal_nocase(name, slice_of(commands[i])))
			return true;
	return false;
}

/* Finds the command. Returns NULL and sets fill->error if it or its number of words is invalid. */
const struct resp_spec *resp_check_words(struct fill *fill, const struct slice *args, size_t n)
{
	const struct resp_spec *spec = resp_spec_find(args[0]);

	if (!spec)
		error_set(&fill->error, WEIR_ENOTFOUND, "unknown command '%.*s'%s", FILL_QUOTE(args[0]),
		          is_script_command(args[0]) ? ": Weir runs no scripts; use WEIR.ACQUIRE or "
		                                       "CL.THROTTLE, see docs/migrating.md"
		                                     : "");
	else if (n < spec->min_words || (n > spec->max_words && spec->max_words != RESP_ARGS_ANY))
		error_set(&fill->error, WEIR_ESYNTAX,
		          "wrong number of arguments for '%s' command: expected %s%s%s", spec->name.data,
		          spec->name.data, *spec->usage ? " " : "", spec->usage);
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
	fill->request->reply_code = (int)(spec - specs); /* by which the reply finds the command */
}

/* Returns 0, or a status with fill->error set. */
int resp_read_command(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                      size_t n)
{
	if (spec->fill_request)
		return spec->fill_request(fill, spec, args, n);
	fill->request->reply_size = estimate_reply_bytes(spec, args, n);
	return resp_copy_words_to_request(fill, args, n);
}

/* Makes the request one that the codec answers, with fill->error. */
void resp_refuse(struct fill *fill)
{
	const char *text = arena_copy(fill->arena, slice_of(fill->error.message));

	fill->request->kind = REQUEST_LOCAL;
	fill->request->class = REQUEST_FREE;
	fill->request->status = (signed char)fill->error.status;
	fill->request->reply_code = RESP_REPLY_ERROR;
	fill->request->local_text = text ? slice_of(text) : SLICE("out of memory");
}

/* Fills in a request from a command that MULTI has queued; one with an error answers that error. */
void resp_read_queued_command(struct fill *fill, const struct slice *args, size_t n)
{
	const struct resp_spec *spec = resp_check_words(fill, args, n);

	*fill->request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	if (spec)
		resp_set_spec(fill, spec);
	if (!spec || resp_read_command(fill, spec, args, n) != 0)
		resp_refuse(fill);
	/* Checking a password takes long, and the other commands of the transaction would wait. */
	if (fill->request->kind == REQUEST_LOGIN) {
		error_set(&fill->error, WEIR_EUNSUPPORTED, "a login inside MULTI is not allowed");
		resp_refuse(fill);
	}
}
