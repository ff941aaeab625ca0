/*
 * command_read.c: computes the outcomes of commands from the values that a script has read, by the
 * steps of `algo`. Replies come from outside and may be anything.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/algorithm.h"
#include "algo/rates/bucket.h"
#include "base/number.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/exchange.h"
#include "redis/commands/value.h"

/* The most tries of a command; others may change the value between two. */
#define TRIES_MAX 32

enum verdict {
	GRANTED, /* outside of a group perhaps only some of the requests */
	REFUSED,
	UNDECIDED, /* nothing was changed; another try is needed, ... */
	QUEUED,    /* ... while the key is reserved for another server */
	REWRITTEN, /* ... which first writes the state as it is now in `value` */
	INVALID,
};

/* Applies one request to the state. Returns the time by which a refund identifies it, or 0. */
static uint64_t apply_request(const struct redis_command *command, const struct algo_call *call,
                              struct value *value, struct algo_decision *out)
{
	struct algo_call rest = *call;

	if (call->op == ALGO_REFUND_REPLACED)
		rest.op = ALGO_REFUND; /* the script has returned the state without the replaced permits */
	if (command_handles_chunks(command))
		return chunk_units_step(command->limit, call, &value->time, &command->settlement.reserved,
		                        &value->state, out);
	if (command->limit->record != ALGO_RECORD_NONE)
		return uses_step(command->limit, &rest, &value->time, &value->uses, out);
	return algo_step(command->limit, call, &value->time, &value->state, out) ? value->state.until_ns
	                                                                         : 0;
}

/*
 * Applies all requests of a command. `granted` is how many the script has granted; if it is less
 * than 0, C decides. Denied requests find the same state, so they have one outcome.
 */
static void apply_requests(const struct redis_command *command, int64_t granted,
                           struct value *value, struct command_result *out)
{
	uint32_t n = 0;

	for (; n < command->request_count && (granted < 0 || n < granted); n++) {
		out->until_ns[n] = apply_request(command, &command->call, value, &out->outcomes[n]);
		if (granted >= 0)
			out->outcomes[n].allowed = true;
		else if (!out->outcomes[n].allowed && algo_op_consumes(command->call.op))
			break;
	}
	if (n == command->request_count)
		return;
	if (granted >= 0) {
		struct algo_call peek = command->call;

		peek.op = ALGO_PEEK;
		apply_request(command, &peek, value, &out->outcomes[n]);
		if (out->outcomes[n].allowed)
			algo_decision_deny(&out->outcomes[n], WEIR_REASON_OVER_LIMIT, command->limit->retry_ns);
	}
	for (uint32_t i = n; i < command->request_count; i++) {
		out->outcomes[i] = out->outcomes[n];
		out->until_ns[i] = 0;
	}
}

/* Whether C decides the command, and the next try writes the result. */
static bool is_swapped(const struct redis_command *command)
{
	return command->attempt.kind == KIND_READ || command->attempt.kind == KIND_SWAP ||
	       command->attempt.kind == KIND_WITHDRAW;
}

/* Whether a request would be granted, by a peek. */
static bool would_pass(const struct redis_command *command, struct value *value)
{
	struct algo_state before = value->state; /* a peek may reduce a state of the future */
	struct algo_call peek = command->call;
	struct algo_decision out;

	if (!algo_op_requests(peek.op))
		return true;
	peek.op = ALGO_PEEK;
	apply_request(command, &peek, value, &out);
	value->state = before;
	return out.allowed;
}

/*
 * Whether a denial also stores the state converted to the command's parameters. A state that has
 * ended stays for servers whose clocks lag.
 */
static bool denial_stores_converted(const struct redis_command *command, const struct value *value)
{
	return value->fit == VALUE_CONVERTS && algo_op_consumes(command->call.op) &&
	       value->state.until_ns > value->time.now_ns;
}

/* Whether a denial changes the state: one that no clock could have written is reduced. */
static bool denial_corrects_state(const struct redis_command *command, struct value *value)
{
	struct buffer text = {0};
	struct algo_decision out;
	bool differs;

	if (command->limit->record == ALGO_RECORD_NONE)
		return algo_step(command->limit, &command->call, &value->time, &value->state, &out);
	apply_request(command, &command->call, value, &out);
	value_write(command->limit, value, value->time.now_ns, &text);
	differs = !slice_equal((struct slice){text.data, text.len}, value->text);
	buffer_free(&text);
	return differs;
}

/*
 * Decides a command whose script has found a value under another header, which is converted first.
 * A command that only reads writes nothing; a script that handles chunks then supposes the
 * converted value.
 */
static enum verdict judge_converted(const struct redis_command *command, struct value *value)
{
	struct algo_state state = value->state;
	bool acquires = algo_op_consumes(command->call.op);
	struct algo_decision out;

	if (command_only_reads(command) && value->chunks.len == 0)
		return would_pass(command, value) ? GRANTED : REFUSED;
	if (value->fit != VALUE_CONVERTS) /* a value of another limit counts as none */
		return acquires || (command->call.op == ALGO_RESET && value->has_text) ? REWRITTEN
		                                                                       : GRANTED;
	if (value->chunks.len > 0)
		return REWRITTEN;
	if (algo_step(command->limit, &command->call, &value->time, &state, &out) ||
	    denial_stores_converted(command, value))
		return REWRITTEN;
	return acquires ? REFUSED : GRANTED;
}

/* Tries after a denial that this server's own chunk may have caused. */
#define DENIALS_MAX 3

static enum verdict judge_chunk(const struct redis_command *command, struct value *value)
{
	const struct chunk_settlement *units = &command->settlement;

	if (value->granted_count > 0)
		return GRANTED;
	if (value->granted_count < 0)
		return value->has_text ? judge_converted(command, value) : UNDECIDED;
	return (units->all_or_nothing || units->is_outdated) && command->attempt.tries < DENIALS_MAX
	           ? UNDECIDED
	           : REFUSED;
}

/* Whether the converted value shows less than is in use. Such a value must not be written. */
static bool hides_use(const struct redis_command *command, const struct value *value)
{
	return value->hidden_use_ns > 0 && command->call.op != ALGO_RESET;
}

static enum verdict judge(const struct redis_command *command, struct value *value)
{
	if (hides_use(command, value))
		return algo_op_releases(command->call.op) ? GRANTED : REFUSED;
	if (value->has_chunks || value->granted_count == -4)
		return chunk_units_supported(command->limit) ? UNDECIDED : judge_converted(command, value);
	switch (command->attempt.kind) {
	case KIND_BUCKET_CHUNK:
	case KIND_WINDOW_CHUNK:
		return judge_chunk(command, value);
	case KIND_RESET:
		return GRANTED;
	case KIND_PEEK:
	case KIND_PEEK_PASSES:
		if (would_pass(command, value))
			return command->attempt.kind == KIND_PEEK && command->group ? UNDECIDED : GRANTED;
		return REFUSED;
	case KIND_READ:
	case KIND_SWAP:
	case KIND_WITHDRAW:
		if (value->granted_count > 0)
			return GRANTED;
		if (would_pass(command, value))
			return value->granted_count == -3 ? QUEUED : UNDECIDED;
		return denial_corrects_state(command, value) || denial_stores_converted(command, value)
		           ? REWRITTEN
		           : REFUSED;
	case KIND_LOG:
	case KIND_PLACES:
		return value->granted_count > 0 ? GRANTED : REFUSED;
	default:
		if (value->granted_count > 0)
			return GRANTED;
		if (value->granted_count < 0)
			return value->granted_count == -1 && value->has_text ? judge_converted(command, value)
			                                                     : UNDECIDED;
		return value->fit != VALUE_OURS || denial_corrects_state(command, value) ? REWRITTEN
		                                                                         : REFUSED;
	}
}

/*
 * Longer than any chunk's lifetime; the next command of a server with a chunk sets the exact one.
 */
#define CHUNKS_LIFE_MS (2 * 3600 * UINT64_C(1000))

/*
 * Adds the suffix of a converted value: its chunks, or the end that it had before. A permit from
 * before the conversion names the former end; a bucket needs none, because such a permit also has
 * its duration.
 */
static uint64_t add_suffix(const struct redis_command *command, const struct value *value,
                           struct buffer *text)
{
	if (value->chunks.len > 0) {
		buffer_add_slice(text, value->chunks);
		return CHUNKS_LIFE_MS;
	}
	if (value->former_end_ns > 0 && !algo_has_step(command->limit, bucket_step)) {
		buffer_add_text(text, "|");
		buffer_add_u64(text, value->former_end_ns);
	}
	return 0;
}

/*
 * Plans to replace the value that was read by the state in `value`; unless that has changed, by the
 * same text, which only checks it.
 */
static bool plan_swap(struct redis_command *command, const struct value *value, bool has_changed)
{
	struct buffer text = {0};
	uint64_t life_ms = value_write(command->limit, value, value->time.now_ns, &text);
	struct command_swap *swap = NULL;

	if (!has_changed) {
		text.len = 0;
		buffer_add_slice(&text, value->text);
	} else if (command->attempt.swap_is_preparation && value->fit == VALUE_CONVERTS) {
		life_ms = u64_max(life_ms, add_suffix(command, value, &text));
	}
	if (!text.failed)
		swap = malloc(sizeof *swap + value->text.len + text.len);
	if (swap) {
		*swap = (struct command_swap){value->clock_ns, command_only_reads(command) ? 0 : life_ms,
		                              value->text.len, text.len};
		if (value->text.len > 0)
			memcpy(swap->text, value->text.data, value->text.len);
		if (text.len > 0)
			memcpy(swap->text + value->text.len, text.data, text.len);
	}
	buffer_free(&text);
	command->attempt.swap = swap;
	return swap != NULL;
}

/* Returns `otherwise`, unless the command has to leave the queue for a swap first. */
static enum command_end withdraw_ticket(struct redis_command *command, enum command_end otherwise)
{
	if (!command->attempt.may_be_queued)
		return otherwise;
	command_free_swap(command);
	command->attempt.must_leave_queue = true;
	return COMMAND_AGAIN;
}

/* Plans what the next try reads or writes. */
static enum command_end plan_next_try(struct redis_command *command, struct value *value,
                                      enum verdict own, struct command_result *out)
{
	bool planned = true;

	if (own == GRANTED) /* the rest of its group is undecided */
		return COMMAND_AGAIN;
	command->settlement.may_have_chunks |= value->has_chunks || value->granted_count == -4;
	command->settlement.all_or_nothing = false;
	command_free_swap(command);
	command->attempt.redis_clock_ns = value->clock_ns;
	command->attempt.swap_is_preparation = own == REWRITTEN;
	command->attempt.no_script_decides |= value->granted_count == -2;
	if (own == REWRITTEN) {
		planned = plan_swap(command, value, true);
	} else if ((own == UNDECIDED || own == QUEUED) && is_swapped(command) && !value->has_chunks) {
		struct algo_state before = value->state;

		apply_requests(command, -1, value, out);
		planned = plan_swap(command, value,
		                    command->limit->record != ALGO_RECORD_NONE ||
		                        before.until_ns != value->state.until_ns ||
		                        before.word != value->state.word);
		if (planned && !command->group &&
		    slice_equal(swap_old(command->attempt.swap), swap_new(command->attempt.swap)))
			return withdraw_ticket(command, COMMAND_DONE); /* nothing to write */
	}
	return planned ? COMMAND_AGAIN : COMMAND_FAILED;
}

/*
 * Computes the outcomes of a swap that was done, from the old value at the time at which the new
 * one was made.
 */
static bool set_outcomes_of_swap(const struct redis_command *command, struct command_result *out)
{
	const struct command_swap *swap = command->attempt.swap;
	struct value was = {.text = swap_old(swap)};
	bool read;

	was.time = algo_time_at(command->limit, command_moment(command, swap->made_at_ns));
	read = command_read_state(command, &was);
	if (read)
		apply_requests(command, -1, &was, out);
	value_free(&was);
	return read;
}

/*
 * The end of the state that a reset has deleted: 0 if nothing was in use, UINT64_MAX if it is
 * unknown because the value was another limit's.
 */
static uint64_t reset_until(const struct redis_command *command, const struct value *value)
{
	uint64_t until_ns = value->state.until_ns;

	if (value->fit == VALUE_OTHER)
		return value->has_text ? UINT64_MAX : 0;
	if (command->limit->record != ALGO_RECORD_NONE)
		until_ns = value->uses.count > 0 ? value->uses.entries[value->uses.count - 1].until_ns : 0;
	return until_ns > value->time.now_ns ? until_ns : 0;
}

/*
 * Denies all requests, and refunds nothing, until the hidden use has ended. Only a bucket knows
 * when that is.
 */
static void apply_with_hidden_use(const struct redis_command *command, struct value *value,
                                  struct command_result *out)
{
	uint64_t more_ns = algo_has_step(command->limit, bucket_step) ? value->hidden_use_ns : 0;
	bool refunds = algo_op_releases(command->call.op);
	struct redis_command none = *command;

	if (refunds)
		none.call.cost = 0;
	apply_requests(&none, -1, value, out);
	for (uint32_t i = 0; i < command->request_count; i++) {
		out->outcomes[i].reset_after_ns += more_ns;
		if (refunds)
			algo_decision_refund(&out->outcomes[i], &command->call, false);
		else
			out->outcomes[i].retry_after_ns += more_ns;
	}
}

static enum command_end complete_command(struct redis_command *command, struct value *value,
                                         struct command_result *out)
{
	uint64_t reset_until_ns = reset_until(command, value);

	command->is_converted = value->fit == VALUE_CONVERTS;
	if (command->attempt.kind == KIND_SWAP && value->granted_count > 0)
		return set_outcomes_of_swap(command, out) ? COMMAND_DONE : COMMAND_FAILED;
	if (command->attempt.kind < KIND_BUCKET || command_only_reads(command) ||
	    !algo_op_consumes(command->call.op))
		value->granted_count = -1;
	if (hides_use(command, value))
		apply_with_hidden_use(command, value, out);
	else
		apply_requests(command, value->granted_count, value, out);
	command->settlement.state = value->state;
	if (command->call.op == ALGO_RESET)
		out->until_ns[0] = reset_until_ns;
	return COMMAND_DONE;
}

/*
 * Whether the value shows everything that decides the command. A script that could not decide may
 * return less.
 */
static bool reply_shows_state(const struct redis_command *command, const struct value *value)
{
	return !value->has_chunks &&
	       (is_swapped(command) || command_only_reads(command) || value->granted_count == -2);
}

/*
 * Another command of the group was refused, so this one takes nothing, even if `own` needs a
 * further try.
 */
static enum command_end withhold(struct redis_command *command, struct value *value,
                                 enum verdict own, struct command_result *out)
{
	struct redis_command peek = *command;

	peek.call.op = ALGO_PEEK;
	if (algo_op_releases(command->call.op))
		peek.call.cost = 0; /* an older permit may have taken more than the limit grants now */
	apply_requests(&peek, -1, value, out);
	command->settlement.state = value->state;
	return own == GRANTED || (reply_shows_state(command, value) && out->outcomes[0].allowed)
	           ? COMMAND_WITHHELD
	           : COMMAND_UNASKED;
}

/* The verdict on the whole group: the most severe of its commands'. */
static enum verdict judge_group(struct redis_command *const *commands, size_t n, size_t i,
                                const struct redis_reply *reply)
{
	static const unsigned char weight[] = {[GRANTED] = 0, [UNDECIDED] = 1, [REWRITTEN] = 1,
	                                       [QUEUED] = 2,  [REFUSED] = 3,   [INVALID] = 4};
	enum verdict worst = GRANTED;
	size_t first = i;

	while (first > 0 && commands[first - 1]->group == commands[i]->group)
		first--;
	for (size_t j = first; j < n && commands[j]->group == commands[i]->group; j++) {
		struct value value;
		enum verdict verdict = command_read_value(commands[j], n, j, reply, &value)
		                           ? judge(commands[j], &value)
		                           : INVALID;

		value_free(&value);
		if (weight[verdict] > weight[worst])
			worst = verdict;
	}
	return worst;
}

static enum command_end end_try(struct redis_command *command, struct value *value,
                                enum verdict all, struct command_result *out)
{
	enum verdict own = judge(command, value);
	enum command_end end;

	switch (command->group ? all : own) {
	case INVALID:
		return COMMAND_FAILED;
	case UNDECIDED:
	case REWRITTEN:
		if (command->attempt.tries++ == TRIES_MAX)
			return COMMAND_FAILED;
		return plan_next_try(command, value, own, out);
	case QUEUED: /* without a bound on tries, because reservations end by themselves */
		end = plan_next_try(command, value, own, out);
		return end == COMMAND_AGAIN ? COMMAND_LATER : end;
	case REFUSED:
		if (own != REFUSED)
			return withhold(command, value, own, out);
		if (command->attempt.may_be_queued)
			return withdraw_ticket(command, COMMAND_AGAIN);
		break;
	case GRANTED:
		break;
	}
	return complete_command(command, value, out);
}

/* Records whether the key may be reserved for this command. */
static void update_ticket(struct redis_command *command, const struct value *value)
{
	if (command->attempt.kind == KIND_SWAP)
		command->attempt.may_be_queued =
		    value->granted_count < 0 && command->queue_ticket != 0 && command->group == 0;
	else if (command->attempt.kind == KIND_WITHDRAW)
		command->attempt.may_be_queued = command->attempt.must_leave_queue = false;
}

enum command_end command_read(struct redis_command *const *commands, size_t n, size_t i,
                              const struct redis_reply *reply, struct command_result *out)
{
	struct redis_command *command = commands[i];
	struct value value;

	out->end = COMMAND_FAILED;
	if (command->exchange) {
		out->outcomes[0] = (struct algo_decision){.allowed = true};
		out->until_ns[0] = 0;
		return out->end =
		           exchange_read_answer(command->exchange, reply) ? COMMAND_DONE : COMMAND_FAILED;
	}
	if (command_read_value(command, n, i, reply, &value)) {
		enum verdict all = command->group ? judge_group(commands, n, i, reply) : GRANTED;

		update_ticket(command, &value);
		out->end = end_try(command, &value, all, out);
	}
	value_free(&value);
	return out->end;
}
