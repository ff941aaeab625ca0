/*
 * command_reply.c: reads the value of each command's key from the reply to a call of a script, as
 * the state from which the outcomes are computed. Replies come from outside and may be anything.
 */
#include <endian.h>
#include <string.h>

#include "algo/algorithm.h"
#include "base/number.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/value.h"

/*
 * The i-th item of a reply to `n` commands: their values, then the clock as the n-th. If all
 * requests were granted, the reply may be one text with a double below 2^53 for each item.
 */
static struct redis_reply reply_item(const struct redis_reply *reply, size_t n, size_t i)
{
	struct redis_reply item = {.type = REDIS_ERROR};
	uint64_t bits;
	double number;

	if (reply->type == REDIS_ARRAY && reply->count > n)
		return reply->items[i];
	if (reply->type != REDIS_TEXT || reply->text.len != (n + 1) * sizeof number)
		return item;
	memcpy(&bits, reply->text.data + i * sizeof bits, sizeof bits);
	bits = le64toh(bits);
	memcpy(&number, &bits, sizeof number);
	if (number >= 0 && number < 0x1p53) {
		item.type = REDIS_INTEGER;
		item.integer = (int64_t)number;
	}
	return item;
}

/* Redis's clock at the call, in nanoseconds of Unix time; 0 if the reply has none. */
uint64_t command_clock(const struct redis_reply *reply, size_t n)
{
	struct redis_reply clock = reply_item(reply, n, n);

	if (clock.type != REDIS_INTEGER || clock.integer <= 0 ||
	    (uint64_t)clock.integer > UINT64_MAX / 1000)
		return 0;
	return (uint64_t)clock.integer * 1000;
}

/*
 * Reads how many requests of the i-th command were granted. *granted_count has their number, and
 * all were granted, unless the reply has a pair for the command after the clock: its number (from
 * 1), and the count or an enum undecided. Pairs stand in the order of commands. Returns false if
 * the reply is invalid.
 */
static bool read_granted_count(const struct redis_reply *reply, size_t n, size_t i,
                               int64_t *granted_count)
{
	const struct redis_reply *partial = reply->type == REDIS_ARRAY ? reply->items + n + 1 : NULL;
	size_t low = 0, high = partial ? (reply->count - n - 1) / 2 : 0;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct redis_reply *pair = &partial[2 * middle];

		if (pair[0].type != REDIS_INTEGER || pair[1].type != REDIS_INTEGER)
			return false;
		if (pair[0].integer == (int64_t)i + 1) {
			bool is_valid =
			    pair[1].integer >= UNDECIDED_HAS_CHUNKS && pair[1].integer < *granted_count;

			*granted_count = pair[1].integer;
			return is_valid;
		}
		if (pair[0].integer <= (int64_t)i)
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}

/* Reads the state from value->text; one of other parameters is converted as of value->time. */
bool command_read_state(const struct redis_command *command, struct value *value)
{
	const struct algo_limit *limit = command->limit;
	struct slice text = {value->text.data, value->text.len - value->chunks.len};

	value->fit = value_read(limit, text, command->request_count + 1, value);
	/* Converted as of now: no server knows when the others began to use other parameters. */
	if (value->fit == VALUE_CONVERTS && value->state.until_ns > value->time.now_ns) {
		if (value->former_end_ns ==
		    0) /* otherwise nothing was granted since an earlier conversion */
			value->former_end_ns = value->state.until_ns;
		value->hidden_use_ns =
		    algo_convert_now(limit, &value->former_layout, value->time.now_ns, &value->state);
		value->hidden_use_ns -= value->state.until_ns;
	}
	if (value->fit == VALUE_OTHER) {
		value->state = (struct algo_state){0, 0};
		value->uses.count = 0;
		value->uses.until_ns = value->uses.newest_id = 0;
	}
	return value->fit != VALUE_NO_MEMORY;
}

/*
 * Reads a value that is only a number: a bucket's time in microseconds, or the count of the open
 * window.
 */
static bool read_bare_number(const struct redis_command *command, uint64_t number,
                             struct value *value)
{
	const struct algo_limit *limit = command->limit;
	unsigned less = limit->algorithm->word_less; /* the text has the word plus this */

	if (command->attempt.kind == KIND_BUCKET) {
		value->state.until_ns = number * 1000;
		return number <= INT64_MAX / 1000;
	}
	if (command->attempt.kind != KIND_WINDOW || !limit->cache || number < less ||
	    number - less > UINT32_MAX)
		return false;
	value->state.until_ns =
	    algo_window_at(limit, command_moment(command, value->clock_ns).wall_ns).end_ns;
	value->state.word = (uint32_t)(number - less);
	return true;
}

/*
 * Reads the answer about chunks after the state: units of others, units of this server, the end,
 * and whether the settlement came too late.
 */
static bool read_units_reply(struct slice text, struct chunk_settlement *units)
{
	uint64_t is_outdated;

	if (!parse_u64(slice_cut(&text, ':'), &units->reserved.others_units) ||
	    !parse_u64(slice_cut(&text, ':'), &units->held_units) ||
	    !parse_u64(slice_cut(&text, ':'), &units->reserved.ends_ns) ||
	    !parse_u64(text, &is_outdated))
		return false;
	units->is_outdated = is_outdated != 0;
	return true;
}

/*
 * Reads and removes the suffixes of a state: behind a `|` its former end or the queue for a swap,
 * and behind a `;` chunks: their entries in a value, or a script's answer about them. Returns false
 * if the text is invalid.
 */
static bool read_suffixes(struct redis_command *command, struct value *value)
{
	struct slice suffix = slice_cut(&value->text, '|'), state;
	bool is_raw_value = value->granted_count == UNDECIDED_VALUE_DIFFERS;

	if (!parse_u64(value->text, &value->former_end_ns)) /* otherwise it is the queue for a swap */
		value->former_end_ns = 0;
	value->text = suffix;
	state = slice_cut(&suffix, ';');
	if (state.len == value->text.len) /* a script that handles chunks always answers about them */
		return !command_handles_chunks(command) || is_raw_value;
	if (!command_handles_chunks(command)) {
		value->has_chunks = chunk_units_supported(command->limit);
	} else if (is_raw_value) {
		value->chunks = (struct slice){state.data + state.len, value->text.len - state.len};
	} else {
		value->text = state;
		return read_units_reply(suffix, &command->settlement);
	}
	return true;
}

/*
 * Reads a script's answer about the value: its text, a number, or no value, for which 0 also
 * stands.
 */
static bool read_reply_item(struct redis_command *command, const struct redis_reply *found,
                            struct value *value)
{
	switch (found->type) {
	case REDIS_INTEGER:
		if (found->integer != 0)
			return found->integer > 0 && read_bare_number(command, (uint64_t)found->integer, value);
		return command_read_state(command, value);
	case REDIS_TEXT:
		value->has_text = true;
		value->text = found->text;
		return read_suffixes(command, value) && command_read_state(command, value);
	case REDIS_NIL:
		return command_read_state(command, value);
	default:
		return false;
	}
}

/*
 * A refund names the use that it returns by the state's end at that time. If the state was
 * converted to other parameters since, has the refund name the present end instead.
 */
static void update_refund_name(struct redis_command *command, const struct value *value)
{
	struct algo_call *call = &command->call;

	if (algo_op_releases(call->op) && call->until_ns != 0 &&
	    call->until_ns == value->former_end_ns && value->state.until_ns > value->time.now_ns)
		call->until_ns = value->state.until_ns;
}

/* Reads the value of the i-th of `n` commands. Returns false if the reply to it is invalid. */
bool command_read_value(struct redis_command *command, size_t n, size_t i,
                        const struct redis_reply *reply, struct value *value)
{
	struct redis_reply found;

	*value = (struct value){.clock_ns = command_clock(reply, n),
	                        .granted_count =
	                            command->attempt.kind == KIND_SWAP ? 1 : command->request_count};
	if (value->clock_ns == 0 || !read_granted_count(reply, n, i, &value->granted_count))
		return false;
	found = reply_item(reply, n, i);
	value->time = algo_time_at(command->limit, command_moment(command, value->clock_ns));
	if (!read_reply_item(command, &found, value))
		return false;
	update_refund_name(command, value);
	return true;
}
