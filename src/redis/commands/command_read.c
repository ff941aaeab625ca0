/*
 * command_read.c: decides how a command has ended after a call of a script. From the value that the
 * script has read, it computes the outcomes of the command's requests by the steps of `algo`, or
 * plans the next try.
 *
 * Scripts decide common limits. For others C makes the new value, and the next try *swaps* it:
 * writes it if the old value has not changed since. Replies come from outside and may be anything.
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

/* The meaning of a reply for one command. */
enum verdict {
	GRANTED, /* outside of a group perhaps only some of the requests */
	REFUSED,
	UNDECIDED, /* nothing was changed; another try is needed, ... */
	QUEUED,    /* ... while the key is reserved for another server */
	REWRITTEN, /* another try is needed, which first writes the state as it is now in `value` */
	INVALID,
};

/* Applies one request to the state. Returns the time by which a refund identifies it, or 0. */
static uint64_t apply_request(const struct redis_command *command, const struct algo_call *call,
                              struct value *value, struct algo_decision *out)
{
	struct algo_call call_on_uses = *call;
	bool changed;

	if (command_handles_chunks(command))
		return chunk_units_step(command->limit, call, &value->time, &command->settlement.reserved,
		                        &value->state, out);
	if (command->limit->record == ALGO_RECORD_NONE) {
		changed = algo_step(command->limit, call, &value->time, &value->state, out);
		return changed ? value->state.until_ns : 0;
	}
	/* This refund drops the oldest uses first. The script has done that: the refund is left. */
	if (call->op == ALGO_REFUND_REPLACED)
		call_on_uses.op = ALGO_REFUND;
	return uses_step(command->limit, &call_on_uses, &value->time, &value->uses, out);
}

#define C_DECIDES (-1) /* in place of a number of granted requests */

/* The outcome of a request that the script has denied, as a peek at the state shows it. */
static void apply_denied_request(const struct redis_command *command, struct value *value,
                                 struct algo_decision *out)
{
	struct algo_call peek = command->call;

	peek.op = ALGO_PEEK;
	apply_request(command, &peek, value, out);
	if (out->allowed)
		algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, command->limit->retry_ns);
}

/*
 * Applies all requests of a command to the state, and sets their outcomes. The script has granted
 * the first `granted_count` of them; with C_DECIDES, the algorithm's step decides each. Denied
 * requests find the same state, so they have one outcome.
 */
static void apply_requests(const struct redis_command *command, int64_t granted_count,
                           struct value *value, struct command_result *out)
{
	bool c_decides = granted_count < 0;
	uint32_t n = 0;

	for (; n < command->request_count && (c_decides || n < granted_count); n++) {
		out->until_ns[n] = apply_request(command, &command->call, value, &out->outcomes[n]);
		if (!c_decides)
			out->outcomes[n].allowed = true;
		else if (!out->outcomes[n].allowed && algo_op_consumes(command->call.op))
			break;
	}
	if (n == command->request_count)
		return;
	if (!c_decides)
		apply_denied_request(command, value, &out->outcomes[n]);
	for (uint32_t i = n; i < command->request_count; i++) {
		out->outcomes[i] = out->outcomes[n];
		out->until_ns[i] = 0;
	}
}

/* Whether C decides the command, and a swap writes the result. */
static bool is_decided_by_c(const struct redis_command *command)
{
	return command->attempt.kind == KIND_READ || command->attempt.kind == KIND_SWAP ||
	       command->attempt.kind == KIND_WITHDRAW;
}

/* Whether a request would be granted now; other operations always pass. */
static bool would_pass(const struct redis_command *command, struct value *value)
{
	/* Restored at the end: a peek shortens a state whose end is further ahead than clocks differ.
	 */
	struct algo_state before = value->state;
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
 * Whether a denial also has to store the state that was converted to the command's parameters. A
 * state that has ended is left to servers whose clocks lag.
 */
static bool denial_stores_converted(const struct redis_command *command, const struct value *value)
{
	return value->fit == VALUE_CONVERTS && algo_op_consumes(command->call.op) &&
	       value->state.until_ns > value->time.now_ns;
}

/*
 * Applies a denied request to the state. Returns whether that changed the state, so that it has to
 * be stored: an end too far ahead for any right clock is reduced. A change of uses shows only in
 * their text.
 */
static bool denial_changes_state(const struct redis_command *command, struct value *value)
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
 * Decides a command whose script has found a value under another header. `value` has the state
 * converted to the command's parameters, or none if the value is another limit's. REWRITTEN has the
 * next try store this state before it decides. If the command only reads, nothing is stored: its
 * script answers as if the state were.
 */
static enum verdict judge_converted(const struct redis_command *command, struct value *value)
{
	struct algo_state state = value->state;
	bool acquires = algo_op_consumes(command->call.op);
	bool resets_text = command->call.op == ALGO_RESET && value->has_text, changes_state;
	struct algo_decision out;

	if (command_only_reads(command) && value->chunks.len == 0)
		return would_pass(command, value) ? GRANTED : REFUSED;
	if (value->fit != VALUE_CONVERTS) /* another limit's: a refund has nothing to return */
		return acquires || resets_text ? REWRITTEN : GRANTED;
	if (value->chunks.len > 0) /* only the script knows how many units they hold */
		return REWRITTEN;
	changes_state = algo_step(command->limit, &command->call, &value->time, &state, &out);
	if (changes_state || denial_stores_converted(command, value))
		return REWRITTEN;
	return acquires ? REFUSED : GRANTED; /* an acquire that takes nothing is denied */
}

/* The most tries after a denial that this server's own chunk may have caused. */
#define DENIALS_MAX 3

/* The verdict on a command whose script handles chunks. */
static enum verdict judge_with_chunks(const struct redis_command *command, struct value *value)
{
	const struct chunk_settlement *settlement = &command->settlement;
	bool own_chunk_may_deny = settlement->all_or_nothing || settlement->is_outdated;

	if (value->granted_count > 0)
		return GRANTED;
	if (value->granted_count < 0)
		return value->has_text ? judge_converted(command, value) : UNDECIDED;
	return own_chunk_may_deny && command->attempt.tries < DENIALS_MAX ? UNDECIDED : REFUSED;
}

/* The verdict on a peek, whose value only was read. */
static enum verdict judge_peek(const struct redis_command *command, struct value *value)
{
	if (!would_pass(command, value))
		return REFUSED;
	/* The rest of its group may be refused: the next try tells the script that this one passes. */
	return command->attempt.kind == KIND_PEEK && command->group ? UNDECIDED : GRANTED;
}

/* The verdict on a command that C decides: granted only when the swap has been done. */
static enum verdict judge_swap(const struct redis_command *command, struct value *value)
{
	if (value->granted_count > 0)
		return GRANTED;
	if (would_pass(command, value))
		return value->granted_count == UNDECIDED_RESERVED ? QUEUED : UNDECIDED;
	return denial_changes_state(command, value) || denial_stores_converted(command, value)
	           ? REWRITTEN
	           : REFUSED;
}

/* The verdict on a command that a script decides. */
static enum verdict judge_scripted(const struct redis_command *command, struct value *value)
{
	if (value->granted_count > 0)
		return GRANTED;
	if (value->granted_count == UNDECIDED_VALUE_DIFFERS && value->has_text)
		return judge_converted(command, value);
	if (value->granted_count < 0)
		return UNDECIDED;
	return value->fit != VALUE_OURS || denial_changes_state(command, value) ? REWRITTEN : REFUSED;
}

/* Whether the converted value shows less than is in use. Such a value must not be written. */
static bool hides_use(const struct redis_command *command, const struct value *value)
{
	return value->hidden_use_ns > 0 && command->call.op != ALGO_RESET;
}

/* The verdict on one command by its value, without regard to its group. */
static enum verdict judge(const struct redis_command *command, struct value *value)
{
	bool needs_chunk_script = value->has_chunks || value->granted_count == UNDECIDED_HAS_CHUNKS;

	if (hides_use(command, value)) /* a refund succeeds, but returns nothing */
		return algo_op_releases(command->call.op) ? GRANTED : REFUSED;
	if (needs_chunk_script && chunk_units_supported(command->limit))
		return UNDECIDED;
	if (needs_chunk_script) /* the chunks show that the value is another limit's */
		return judge_converted(command, value);
	switch (command->attempt.kind) {
	case KIND_BUCKET_CHUNK:
	case KIND_WINDOW_CHUNK:
		return judge_with_chunks(command, value);
	case KIND_RESET:
		return GRANTED;
	case KIND_PEEK:
	case KIND_PEEK_PASSES:
		return judge_peek(command, value);
	case KIND_READ:
	case KIND_SWAP:
	case KIND_WITHDRAW:
		return judge_swap(command, value);
	case KIND_LOG:
	case KIND_PLACES:
		return value->granted_count > 0 ? GRANTED : REFUSED;
	default:
		return judge_scripted(command, value);
	}
}

/*
 * The lifetime of a converted value with chunks: longer than any chunk's. The next command of a
 * server with a chunk sets the exact one.
 */
#define CHUNKS_LIFE_MS (2 * 3600 * UINT64_C(1000))

/*
 * Adds the suffix of a converted value: its chunks, or the end that it had before. A permit from
 * before the conversion names the former end; a bucket needs none, because such a permit also has
 * its duration. Returns the least lifetime that the suffix needs, in milliseconds.
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

/* Makes a swap of two texts. Returns NULL if there is no memory. */
static struct command_swap *make_swap(struct slice old_text, struct slice new_text)
{
	struct command_swap *swap = malloc(sizeof *swap + old_text.len + new_text.len);

	if (!swap)
		return NULL;
	*swap = (struct command_swap){.old_len = old_text.len, .new_len = new_text.len};
	if (old_text.len > 0)
		memcpy(swap->text, old_text.data, old_text.len);
	if (new_text.len > 0)
		memcpy(swap->text + old_text.len, new_text.data, new_text.len);
	return swap;
}

/*
 * Has the next try replace the value that was read by the state in `value`. If `has_changed` is
 * false, by the same text, so that the swap only checks that nobody has changed it. Returns false
 * if there is no memory.
 */
static bool plan_swap(struct redis_command *command, const struct value *value, bool has_changed)
{
	struct buffer text = {0};
	uint64_t life_ms = value_write(command->limit, value, value->time.now_ns, &text);
	struct command_swap *swap = NULL;

	if (has_changed && command->attempt.swap_is_preparation && value->fit == VALUE_CONVERTS)
		life_ms = u64_max(life_ms, add_suffix(command, value, &text));
	if (!text.failed)
		swap =
		    make_swap(value->text, has_changed ? (struct slice){text.data, text.len} : value->text);
	if (swap) {
		swap->made_at_ns = value->clock_ns;
		/* With 0 the script decides by the new value, but does not store it. */
		swap->life_ms = command_only_reads(command) ? 0 : life_ms;
	}
	buffer_free(&text);
	command->attempt.swap = swap;
	return swap != NULL;
}

/* Has the next try leave the key's queue for a swap. */
static enum command_end leave_queue(struct redis_command *command)
{
	command_free_swap(command);
	command->attempt.must_leave_queue = true;
	return COMMAND_AGAIN;
}

/* Records what the reply shows: by that command_kind_of chooses how the next try is made. */
static void record_for_next_try(struct redis_command *command, const struct value *value,
                                enum verdict own)
{
	command->settlement.may_have_chunks |=
	    value->has_chunks || value->granted_count == UNDECIDED_HAS_CHUNKS;
	command->settlement.all_or_nothing = false; /* the next try settles this server's chunk */
	command_free_swap(command);
	command->attempt.redis_clock_ns = value->clock_ns;
	command->attempt.swap_is_preparation = own == REWRITTEN;
	command->attempt.no_script_decides |= value->granted_count == UNDECIDED_BY_SCRIPT;
}

/*
 * Decides the command by the value, and has the next try swap the value for the new state. A
 * command outside of groups that writes nothing is done: `out` has its outcomes.
 */
static enum command_end decide_and_plan_swap(struct redis_command *command, struct value *value,
                                             struct command_result *out)
{
	struct algo_state before = value->state;
	bool may_have_changed, writes_nothing;

	apply_requests(command, C_DECIDES, value, out);
	may_have_changed = command->limit->record != ALGO_RECORD_NONE ||
	                   before.until_ns != value->state.until_ns || before.word != value->state.word;
	if (!plan_swap(command, value, may_have_changed))
		return COMMAND_FAILED;
	writes_nothing = slice_equal(swap_old(command->attempt.swap), swap_new(command->attempt.swap));
	if (command->group || !writes_nothing)
		return COMMAND_AGAIN;
	return command->attempt.may_be_queued ? leave_queue(command) : COMMAND_DONE;
}

/* Plans what the next try of an undecided command reads or writes, unless there is none to make. */
static enum command_end plan_next_try(struct redis_command *command, struct value *value,
                                      enum verdict own, struct command_result *out)
{
	if (own == GRANTED) /* the rest of its group is undecided */
		return COMMAND_AGAIN;
	record_for_next_try(command, value, own);
	if (own == REWRITTEN)
		return plan_swap(command, value, true) ? COMMAND_AGAIN : COMMAND_FAILED;
	if (is_decided_by_c(command) && !value->has_chunks)
		return decide_and_plan_swap(command, value, out);
	return COMMAND_AGAIN;
}

/*
 * Computes the outcomes of a swap that was done, from the old value at the time at which the new
 * one was made.
 */
static bool set_outcomes_of_swap(const struct redis_command *command, struct command_result *out)
{
	const struct command_swap *swap = command->attempt.swap;
	struct value before = {.text = swap_old(swap)};
	bool could_read;

	before.time = algo_time_at(command->limit, command_moment(command, swap->made_at_ns));
	could_read = command_read_state(command, &before);
	if (could_read)
		apply_requests(command, C_DECIDES, &before, out);
	value_free(&before);
	return could_read;
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
 * Sets the outcomes while the converted value shows less than is in use. It was cut to the most use
 * that the limit allows, so the steps deny all requests; and refunds return nothing. That lasts
 * until the hidden use has ended. Only a bucket knows when that is.
 */
static void apply_with_hidden_use(const struct redis_command *command, struct value *value,
                                  struct command_result *out)
{
	uint64_t hidden_ns = algo_has_step(command->limit, bucket_step) ? value->hidden_use_ns : 0;
	bool refunds = algo_op_releases(command->call.op);
	const bool has_returned_units = false;
	struct redis_command without_cost = *command;

	if (refunds)
		without_cost.call.cost = 0;
	apply_requests(&without_cost, C_DECIDES, value, out);
	for (uint32_t i = 0; i < command->request_count; i++) {
		out->outcomes[i].reset_after_ns += hidden_ns;
		if (refunds)
			algo_decision_refund(&out->outcomes[i], &command->call, has_returned_units);
		else
			out->outcomes[i].retry_after_ns += hidden_ns;
	}
}

/* Sets the outcomes of a command that needs no further try. */
static enum command_end complete_command(struct redis_command *command, struct value *value,
                                         struct command_result *out)
{
	uint64_t reset_until_ns = reset_until(command, value); /* before the reset is applied */
	bool script_has_granted = algo_op_consumes(command->call.op) && !command_only_reads(command) &&
	                          !is_decided_by_c(command);

	command->is_converted = value->fit == VALUE_CONVERTS;
	if (command->attempt.kind == KIND_SWAP && value->granted_count > 0)
		return set_outcomes_of_swap(command, out) ? COMMAND_DONE : COMMAND_FAILED;
	if (hides_use(command, value))
		apply_with_hidden_use(command, value, out);
	else
		apply_requests(command, script_has_granted ? value->granted_count : C_DECIDES, value, out);
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
	return !value->has_chunks && (is_decided_by_c(command) || command_only_reads(command) ||
	                              value->granted_count == UNDECIDED_BY_SCRIPT);
}

/*
 * Ends a command that takes nothing because another one of its group was refused. The outcomes are
 * those of a peek, as far as the reply shows them; a further try of its own is not made.
 */
static enum command_end withhold(struct redis_command *command, struct value *value,
                                 enum verdict own, struct command_result *out)
{
	struct redis_command peek = *command;
	bool would_be_granted;

	peek.call.op = ALGO_PEEK;
	if (algo_op_releases(command->call.op))
		peek.call.cost = 0; /* an older permit may have taken more than the limit grants now */
	apply_requests(&peek, C_DECIDES, value, out);
	command->settlement.state = value->state;
	would_be_granted =
	    own == GRANTED || (reply_shows_state(command, value) && out->outcomes[0].allowed);
	return would_be_granted ? COMMAND_WITHHELD : COMMAND_UNDECIDED;
}

/* Whether the commands of a call at i and j are of one group. */
static bool are_of_group(struct redis_command *const *commands, size_t i, size_t j)
{
	return commands[i]->group != 0 && commands[i]->group == commands[j]->group;
}

/* The verdict on the whole group that begins at i: the most severe of its commands'. */
static enum verdict judge_group(struct redis_command *const *commands, size_t n, size_t i,
                                const struct redis_reply *reply)
{
	static const unsigned char severity[] = {[GRANTED] = 0, [UNDECIDED] = 1, [REWRITTEN] = 1,
	                                         [QUEUED] = 2,  [REFUSED] = 3,   [INVALID] = 4};
	enum verdict worst = GRANTED;

	for (size_t j = i; j < n && are_of_group(commands, i, j); j++) {
		struct value value;
		enum verdict verdict = command_read_value(commands[j], n, j, reply, &value)
		                           ? judge(commands[j], &value)
		                           : INVALID;

		value_free(&value);
		if (severity[verdict] > severity[worst])
			worst = verdict;
	}
	return worst;
}

/*
 * The verdict on the group of the i-th command. The first command's holds for all: ending its try
 * changes what it would be judged by.
 */
static enum verdict verdict_on_group(struct redis_command *const *commands, size_t n, size_t i,
                                     const struct redis_reply *reply)
{
	bool is_first = i == 0 || !are_of_group(commands, i - 1, i);
	enum verdict verdict = is_first ? judge_group(commands, n, i, reply)
	                                : (enum verdict)commands[i - 1]->attempt.group_verdict;

	commands[i]->attempt.group_verdict = (unsigned char)verdict;
	return verdict;
}

/* Ends one try of a command. `of_group` is the verdict on its group, if it has one. */
static enum command_end end_try(struct redis_command *command, struct value *value,
                                enum verdict of_group, struct command_result *out)
{
	enum verdict own = judge(command, value);
	enum command_end end;

	switch (command->group ? of_group : own) {
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
			return leave_queue(command);
		break;
	case GRANTED:
		break;
	}
	return complete_command(command, value, out);
}

/* Records whether the client may be in the key's queue: a swap that comes too late joins it. */
static void update_queue_state(struct redis_command *command, const struct value *value)
{
	if (command->attempt.kind == KIND_SWAP)
		command->attempt.may_be_queued =
		    value->granted_count < 0 && command->queue_ticket != 0 && command->group == 0;
	else if (command->attempt.kind == KIND_WITHDRAW)
		command->attempt.may_be_queued = command->attempt.must_leave_queue = false;
}

/* Reads the reply to the i-th of the `n` commands of a call, and sets its outcomes in *out. */
enum command_end command_read(struct redis_command *const *commands, size_t n, size_t i,
                              const struct redis_reply *reply, struct command_result *out)
{
	struct redis_command *command = commands[i];
	enum verdict of_group = verdict_on_group(commands, n, i, reply);
	struct value value;

	out->end = COMMAND_FAILED;
	if (command->exchange) {
		out->outcomes[0] = (struct algo_decision){.allowed = true};
		out->until_ns[0] = 0;
		return out->end =
		           exchange_read_answer(command->exchange, reply) ? COMMAND_DONE : COMMAND_FAILED;
	}
	if (command_read_value(command, n, i, reply, &value)) {
		update_queue_state(command, &value);
		out->end = end_try(command, &value, of_group, out);
	}
	value_free(&value);
	return out->end;
}
