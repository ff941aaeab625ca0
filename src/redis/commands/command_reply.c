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
 * Finds the pair of the i-th command. Behind the clock, a reply has pairs of two integers for the
 * commands that were not granted in full: the number of the command, from 1, and its result. They
 * stand in the order of commands. Sets *result to NULL if the command has no pair. Returns false if
 * the reply is invalid.
 */
static bool find_pair(const struct redis_reply *reply, size_t n, size_t i,
                      const struct redis_reply **result)
{
	const struct redis_reply *pairs = reply->type == REDIS_ARRAY ? reply->items + n + 1 : NULL;
	size_t low = 0, high = pairs ? (reply->count - n - 1) / 2 : 0;

	*result = NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct redis_reply *pair = &pairs[2 * middle];

		if (pair[0].type != REDIS_INTEGER || pair[1].type != REDIS_INTEGER)
			return false;
		if (pair[0].integer == (int64_t)i + 1) {
			*result = &pair[1];
			return true;
		}
		if (pair[0].integer <= (int64_t)i)
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}

/*
 * Reads how many requests of the i-th command were granted: all of `request_count`, or the result
 * in the command's pair, which is less; a negative one is an enum undecided. Returns false if the
 * reply is invalid.
 */
static bool read_granted_count(const struct redis_reply *reply, size_t n, size_t i,
                               int64_t request_count, int64_t *granted_count)
{
	const struct redis_reply *result;

	if (!find_pair(reply, n, i, &result))
		return false;
	*granted_count = result ? result->integer : request_count;
	return !result || (*granted_count < request_count && *granted_count >= UNDECIDED_LEAST);
}

/* Converts a state that is still in use from the parameters that it was written under. */
static void convert_state(const struct algo_limit *limit, struct value *value)
{
	uint64_t whole_end_ns;

	/* If it has a former end, nothing was granted since an earlier conversion. */
	if (value->former_end_ns == 0)
		value->former_end_ns = value->state.until_ns;
	/* As of now: no server knows when the others began to use other parameters. */
	whole_end_ns =
	    algo_convert_now(limit, &value->former_layout, value->time.now_ns, &value->state);
	value->hidden_use_ns = whole_end_ns - value->state.until_ns; /* 0 unless the state was cut */
}

/* Reads the state from value->text, and converts it if it was written under other parameters. */
bool command_read_state(const struct redis_command *command, struct value *value)
{
	const struct algo_limit *limit = command->limit;
	struct slice text = {value->text.data, value->text.len - value->chunks.len};
	size_t added_uses_max = command->request_count + 1;

	value->fit = value_read(limit, text, added_uses_max, value);
	if (value->fit == VALUE_CONVERTS && value->state.until_ns > value->time.now_ns)
		convert_state(limit, value);
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
	unsigned less = limit->algorithm->word_less; /* a state's word is the count less this */

	if (command->attempt.kind == KIND_BUCKET) {
		value->state.until_ns = number * 1000;
		return number <= INT64_MAX / 1000;
	}
	/* The end of a window follows from the clock alone if the window is the calendar's. */
	if (command->attempt.kind != KIND_WINDOW || !algo_has_calendar(limit) || number < less ||
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
 * Reads the text of a value, `STATE;CHUNKS|END`, of which the last two parts may be missing:
 *
 * - CHUNKS are the units that servers have reserved. A script that handles chunks returns its
 * answer about them in their place. If it has decided nothing, since the value is not the one that
 * a swap expected, it returns the value as it is stored (`is_raw_value`).
 * - END is a time: the end of the state before its limit's parameters changed. In its place may be
 *   the queue of the servers that wait to swap the value, which only scripts read.
 *
 * Returns false if the text is invalid.
 */
static bool read_suffixes(struct redis_command *command, struct slice text, struct value *value)
{
	bool is_raw_value = value->granted_count == UNDECIDED_VALUE_DIFFERS;
	struct slice before_bar = slice_cut(&text, '|'), after_bar = text;
	struct slice after_state = before_bar, state = slice_cut(&after_state, ';');

	if (!parse_u64(after_bar, &value->former_end_ns)) /* it is the queue */
		value->former_end_ns = 0;
	value->text = before_bar;
	if (state.len == before_bar.len)
		return !command_handles_chunks(command) || is_raw_value;
	if (!command_handles_chunks(command)) {
		/* Otherwise the text is invalid as a state, so it counts as another limit's. */
		value->has_chunks = chunk_units_supported(command->limit);
	} else if (is_raw_value) {
		value->chunks = (struct slice){before_bar.data + state.len, before_bar.len - state.len};
	} else {
		value->text = state;
		return read_units_reply(after_state, &command->settlement);
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
		return read_suffixes(command, found->text, value) && command_read_state(command, value);
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
	/* A swap writes the value that C has made for all requests at once: it counts as one. */
	bool is_swap = command->attempt.kind == KIND_SWAP;
	int64_t count_max = is_swap ? 1 : command->request_count;
	struct redis_reply found;

	*value = (struct value){.clock_ns = command_clock(reply, n)};
	if (value->clock_ns == 0 || !read_granted_count(reply, n, i, count_max, &value->granted_count))
		return false;
	found = reply_item(reply, n, i);
	value->time = algo_time_at(command->limit, command_moment(command, value->clock_ns));
	if (!read_reply_item(command, &found, value))
		return false;
	update_refund_name(command, value);
	return true;
}
