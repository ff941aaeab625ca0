/*
 * command_read.c: turns the values that a script has seen into outcomes, by the steps of `algo`.
 *
 * A reply comes from outside and may be anything.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/algorithm.h"
#include "algo/rates/bucket.h"
#include "base/number.h"
#include "redis/commands/exchange.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/value.h"

/* Swaps are tried so often; others may change the value in between. */
#define TRIES_MAX 32

enum verdict {
	GRANTED, /* in part, if not in a group */
	REFUSED,
	PENDING, /* nothing was changed: it needs what is known now, ... */
	WAITING, /* ... and another server has its turn */
	MENDED,  /* the same, and before it the state as it is now in `seen` has to be written */
	BROKEN,
};

/* The state as it is used. */
static bool read_state(const struct redis_command *step, struct value *value)
{
	const struct algo_limit *limit = step->limit;
	struct slice text = {value->text.data, value->text.len - value->chunks.len};

	value->fit = value_read(limit, text, step->repeat + 1, value);
	/* As of now: no server knows when the others began to use other parameters. */
	if (value->fit == VALUE_CONVERTS && value->word.until_ns > value->time.now_ns) {
		if (value->former_ns == 0) /* else nothing was granted since an earlier conversion */
			value->former_ns = value->word.until_ns;
		value->hidden_ns = algo_convert_now(limit, &value->from, value->time.now_ns, &value->word);
		value->hidden_ns -= value->word.until_ns;
	}
	if (value->fit == VALUE_OTHER) {
		value->word = (struct algo_state){0, 0};
		value->uses.count = 0;
		value->uses.until_ns = value->uses.newest_id = 0;
	}
	return value->fit != VALUE_NO_MEMORY;
}

/* A number alone: a bucket's time in microseconds, or the count of the window that is open. */
static bool read_number(const struct redis_command *step, uint64_t number, struct value *value)
{
	const struct algo_limit *limit = step->limit;
	unsigned less = limit->algorithm->word_less;

	if (step->own.kind == STEP_BUCKET) {
		value->word.until_ns = number * 1000;
		return number <= INT64_MAX / 1000;
	}
	if (step->own.kind != STEP_WINDOW || !limit->cache || number < less ||
	    number - less > UINT32_MAX)
		return false;
	value->word.until_ns =
	    algo_window_at(limit, command_moment(step, value->clock_ns).wall_ns).end_ns;
	value->word.word = (uint32_t)(number - less);
	return true;
}

/* Reads the answer about chunks, which stands behind the state: others' units, this server's, ...
 */
static bool read_units(struct slice text, struct command_units *units)
{
	uint64_t is_old;

	if (!parse_u64(slice_cut(&text, ':'), &units->reserved.others) ||
	    !parse_u64(slice_cut(&text, ':'), &units->held) ||
	    !parse_u64(slice_cut(&text, ':'), &units->reserved.until_ns) || !parse_u64(text, &is_old))
		return false;
	units->is_old = is_old != 0;
	return true;
}

/* Takes what stands behind a state off its text. */
static bool read_behind(struct redis_command *step, struct value *value)
{
	struct slice text = slice_cut(&value->text, '|'), state;

	if (!parse_u64(value->text, &value->former_ns)) /* else it is others' turns */
		value->former_ns = 0;
	value->text = state = text;
	state = slice_cut(&text, ';');
	if (state.len == value->text.len)
		return !command_knows_chunks(step) || value->granted == -1;
	if (!command_knows_chunks(step)) {
		value->has_chunks = units_apply(step->limit);
	} else if (value->granted == -1) {
		value->chunks = (struct slice){state.data + state.len, value->text.len - state.len};
	} else {
		value->text = state;
		return read_units(text, &step->units);
	}
	return true;
}

/* Reads a script's answer about the value: the text, a number, or none (0 also means none). */
static bool read_found(struct redis_command *step, const struct redis_reply *found,
                       struct value *value)
{
	switch (found->type) {
	case REDIS_INTEGER:
		if (found->integer != 0)
			return found->integer > 0 && read_number(step, (uint64_t)found->integer, value);
		return read_state(step, value);
	case REDIS_TEXT:
		value->has_text = true;
		value->text = found->text;
		return read_behind(step, value) && read_state(step, value);
	case REDIS_NIL:
		return read_state(step, value);
	default:
		return false;
	}
}

/* A refund that names the state by its end before a conversion names it by its present end. */
static void rename_refund(struct redis_command *step, const struct value *value)
{
	struct algo_call *call = &step->call;

	if (call->op == ALGO_REFUND && call->until_ns != 0 && call->until_ns == value->former_ns &&
	    value->word.until_ns > value->time.now_ns)
		call->until_ns = value->word.until_ns;
}

/*
 * Looks at the i-th of `n` steps. False: nonsense, or no memory. Free with value_free in any case.
 */
static bool look(struct redis_command *step, size_t n, size_t i, const struct redis_reply *reply,
                 struct value *value)
{
	struct redis_reply found;

	*value = (struct value){.clock_ns = command_clock(reply, n),
	                        .granted = step->own.kind == STEP_SWAP ? 1 : step->repeat};
	if (value->clock_ns == 0 || !command_granted(reply, n, i, &value->granted))
		return false;
	found = command_item(reply, n, i);
	value->time = algo_time_at(step->limit, command_moment(step, value->clock_ns));
	if (!read_found(step, &found, value))
		return false;
	rename_refund(step, value);
	return true;
}

/* One request on the state. Returns the name of what it took; 0: nothing. */
static uint64_t apply(const struct redis_command *step, const struct algo_call *call,
                      struct value *value, struct algo_outcome *out)
{
	struct algo_call rest = *call;

	if (call->op == ALGO_REFUND)
		rest.replaces = false; /* the script has told what was left without those */
	if (command_knows_chunks(step))
		return units_step(step->limit, call, &value->time, &step->units.reserved, &value->word,
		                  out);
	if (step->limit->rows != ALGO_ROWS_NONE)
		return uses_step(step->limit, &rest, &value->time, &value->uses, out);
	return algo_step(step->limit, call, &value->time, &value->word, out) ? value->word.until_ns : 0;
}

/*
 * All requests of a step, of which so many were granted; less than 0: C decides. Those that were
 * denied find the same state, and so have one answer.
 */
static void apply_all(const struct redis_command *step, int64_t granted, struct value *value,
                      struct command_result *out)
{
	uint32_t n = 0;

	for (; n < step->repeat && (granted < 0 || n < granted); n++) {
		out->until_ns[n] = apply(step, &step->call, value, &out->outcomes[n]);
		if (granted >= 0)
			out->outcomes[n].allowed = true;
		else if (!out->outcomes[n].allowed && step->call.op == ALGO_ACQUIRE)
			break;
	}
	if (n == step->repeat)
		return;
	if (granted >= 0) {
		struct algo_call peek = step->call;

		peek.op = ALGO_PEEK;
		apply(step, &peek, value, &out->outcomes[n]);
		if (out->outcomes[n].allowed)
			algo_outcome_deny(&out->outcomes[n], WEIR_REASON_OVER_LIMIT, step->limit->retry_ns);
	}
	for (uint32_t i = n; i < step->repeat; i++) {
		out->outcomes[i] = out->outcomes[n];
		out->until_ns[i] = 0;
	}
}

/* Whether C alone has to decide it, and write what comes of that. */
static bool is_swapped(const struct redis_command *step)
{
	return step->own.kind == STEP_READ || step->own.kind == STEP_SWAP ||
	       step->own.kind == STEP_LEAVE;
}

/* As a peek, which changes nothing that is written. */
static bool would_pass(const struct redis_command *step, struct value *value)
{
	struct algo_state before = value->word; /* which a peek may cut back */
	struct algo_call peek = step->call;
	struct algo_outcome out;

	if (peek.op == ALGO_ACQUIRE)
		peek.op = ALGO_PEEK;
	else if (peek.op != ALGO_PEEK)
		return true;
	apply(step, &peek, value, &out);
	value->word = before;
	return out.allowed;
}

/* Whether a denial stores a state of other parameters as these have it. One that is over stays for
 * clocks that lag. */
static bool keeps_converted(const struct redis_command *step, const struct value *value)
{
	return value->fit == VALUE_CONVERTS && step->call.op == ALGO_ACQUIRE &&
	       value->word.until_ns > value->time.now_ns;
}

/* Whether a denial leaves another state: of one that no clock could have written, cut back. */
static bool is_mended(const struct redis_command *step, struct value *value)
{
	struct buffer text = {0};
	struct algo_outcome out;
	bool differs;

	if (step->limit->rows == ALGO_ROWS_NONE)
		return algo_step(step->limit, &step->call, &value->time, &value->word, &out);
	apply(step, &step->call, value, &out);
	value_write(step->limit, value, value->time.now_ns, &text);
	differs = !slice_equal((struct slice){text.data, text.len}, value->text);
	buffer_free(&text);
	return differs;
}

/*
 * A script has found a value that is not ours, which is converted before the step is taken. A
 * question writes nothing: a script that counts chunks supposes the converted value before them.
 */
static enum verdict judge_other(const struct redis_command *step, struct value *value)
{
	struct algo_state state = value->word;
	bool acquires = step->call.op == ALGO_ACQUIRE;
	struct algo_outcome out;

	if (command_is_question(step) && value->chunks.len == 0)
		return would_pass(step, value) ? GRANTED : REFUSED;
	if (value->fit != VALUE_CONVERTS) /* nothing is in use */
		return acquires || (step->call.op == ALGO_RESET && value->has_text) ? MENDED : GRANTED;
	if (value->chunks.len > 0)
		return MENDED;
	if (algo_step(step->limit, &step->call, &value->time, &state, &out) ||
	    keeps_converted(step, value))
		return MENDED;
	return acquires ? REFUSED : GRANTED;
}

/* Times that a denial is looked into: it may be of units that this server itself holds. */
#define DENIALS_MAX 3

static enum verdict judge_chunk(const struct redis_command *step, struct value *value)
{
	const struct command_units *units = &step->units;

	if (value->granted > 0)
		return GRANTED;
	if (value->granted < 0)
		return value->has_text ? judge_other(step, value) : PENDING;
	return (units->is_whole || units->is_old) && step->own.tries < DENIALS_MAX ? PENDING : REFUSED;
}

/* A value that does not show all that is in use is not to be written. */
static bool is_hidden(const struct redis_command *step, const struct value *value)
{
	return value->hidden_ns > 0 && step->call.op != ALGO_RESET;
}

static enum verdict judge(const struct redis_command *step, struct value *value)
{
	if (is_hidden(step, value))
		return step->call.op == ALGO_REFUND ? GRANTED : REFUSED;
	if (value->has_chunks || value->granted == -4)
		return units_apply(step->limit) ? PENDING : judge_other(step, value);
	switch (step->own.kind) {
	case STEP_BUCKET_CHUNK:
	case STEP_WINDOW_CHUNK:
		return judge_chunk(step, value);
	case STEP_RESET:
		return GRANTED;
	case STEP_ASK:
	case STEP_PASS:
		if (would_pass(step, value))
			return step->own.kind == STEP_ASK && step->group ? PENDING : GRANTED;
		return REFUSED;
	case STEP_READ:
	case STEP_SWAP:
	case STEP_LEAVE:
		if (value->granted > 0)
			return GRANTED;
		if (would_pass(step, value))
			return value->granted == -3 ? WAITING : PENDING;
		return is_mended(step, value) || keeps_converted(step, value) ? MENDED : REFUSED;
	case STEP_LOG:
	case STEP_PLACES:
		return value->granted > 0 ? GRANTED : REFUSED;
	default:
		if (value->granted > 0)
			return GRANTED;
		if (value->granted < 0)
			return value->granted == -1 && value->has_text ? judge_other(step, value) : PENDING;
		return value->fit != VALUE_OURS || is_mended(step, value) ? MENDED : REFUSED;
	}
}

/* Longer than any lease; the next step of a server that holds units says it better. */
#define CHUNKS_LIFE_MS (2 * 3600 * UINT64_C(1000))

/*
 * What stands behind a converted value: the chunks that stood there. A bucket takes back what a
 * permit of before names, since such a permit says how long it counts. Other states need the former
 * end.
 */
static uint64_t add_behind(const struct redis_command *step, const struct value *value,
                           struct buffer *text)
{
	if (value->chunks.len > 0) {
		buffer_add_slice(text, value->chunks);
		return CHUNKS_LIFE_MS;
	}
	if (value->former_ns > 0 && !algo_steps_by(step->limit, bucket_step)) {
		buffer_add_text(text, "|");
		buffer_add_u64(text, value->former_ns);
	}
	return 0;
}

/* Puts the value that is in `seen` in the place of its text, or that text again, with the next try.
 */
static bool plan_swap(struct redis_command *step, const struct value *value, bool has_changed)
{
	struct buffer text = {0};
	uint64_t life_ms = value_write(step->limit, value, value->time.now_ns, &text);
	struct command_swap *swap = NULL;

	if (!has_changed) {
		text.len = 0;
		buffer_add_slice(&text, value->text);
	} else if (step->own.mends && value->fit == VALUE_CONVERTS) {
		life_ms = u64_max(life_ms, add_behind(step, value, &text));
	}
	if (!text.failed)
		swap = malloc(sizeof *swap + value->text.len + text.len);
	if (swap) {
		*swap = (struct command_swap){value->clock_ns, command_is_question(step) ? 0 : life_ms,
		                              value->text.len, text.len};
		if (value->text.len > 0)
			memcpy(swap->text, value->text.data, value->text.len);
		if (text.len > 0)
			memcpy(swap->text + value->text.len, text.data, text.len);
	}
	buffer_free(&text);
	step->own.swap = swap;
	return swap != NULL;
}

/* Returns `otherwise`, unless others wait for a swap of this step. */
static enum command_end leave(struct redis_command *step, enum command_end otherwise)
{
	if (!step->own.in_line)
		return otherwise;
	command_end(step);
	step->own.leaves = true;
	return COMMAND_AGAIN;
}

/* Tells what the next try must read or write. */
static enum command_end again(struct redis_command *step, struct value *value, enum verdict own,
                              struct command_result *out)
{
	bool planned = true;

	if (own == GRANTED) /* and others of its group are not known yet */
		return COMMAND_AGAIN;
	step->units.is_known |= value->has_chunks || value->granted == -4;
	step->units.is_whole = false;
	command_end(step);
	step->own.clock_ns = value->clock_ns;
	step->own.mends = own == MENDED;
	step->own.by_c |= value->granted == -2;
	if (own == MENDED) {
		planned = plan_swap(step, value, true);
	} else if ((own == PENDING || own == WAITING) && is_swapped(step) && !value->has_chunks) {
		struct algo_state before = value->word;

		apply_all(step, -1, value, out);
		planned = plan_swap(step, value,
		                    step->limit->rows != ALGO_ROWS_NONE ||
		                        before.until_ns != value->word.until_ns ||
		                        before.word != value->word.word);
		if (planned && !step->group &&
		    slice_equal(swap_old(step->own.swap), swap_new(step->own.swap)))
			return leave(step, COMMAND_DONE); /* there is nothing to write */
	}
	return planned ? COMMAND_AGAIN : COMMAND_FAILED;
}

/* A swap was done: by the state and at the time that it was made of. */
static bool explain_swap(const struct redis_command *step, struct command_result *out)
{
	const struct command_swap *swap = step->own.swap;
	struct value was = {.text = swap_old(swap)};
	bool read;

	was.time = algo_time_at(step->limit, command_moment(step, swap->at_ns));
	read = read_state(step, &was);
	if (read)
		apply_all(step, -1, &was, out);
	value_free(&was);
	return read;
}

/* The end of what a reset has forgotten, if that said anything; of another limit's it is not known.
 */
static uint64_t forgotten_until(const struct redis_command *step, const struct value *value)
{
	uint64_t until_ns = value->word.until_ns;

	if (value->fit == VALUE_OTHER)
		return value->has_text ? UINT64_MAX : 0;
	if (step->limit->rows != ALGO_ROWS_NONE)
		until_ns = value->uses.count > 0 ? value->uses.uses[value->uses.count - 1].until_ns : 0;
	return until_ns > value->time.now_ns ? until_ns : 0;
}

/* Nothing passes, or comes back, until what a cut hides has ended. Only a bucket tells when. */
static void apply_hidden(const struct redis_command *step, struct value *value,
                         struct command_result *out)
{
	uint64_t more_ns = algo_steps_by(step->limit, bucket_step) ? value->hidden_ns : 0;
	bool refunds = step->call.op == ALGO_REFUND;
	struct redis_command none = *step;

	if (refunds)
		none.call.cost = 0;
	apply_all(&none, -1, value, out);
	for (uint32_t i = 0; i < step->repeat; i++) {
		out->outcomes[i].reset_after_ns += more_ns;
		if (refunds)
			algo_outcome_refund(&out->outcomes[i], &step->call, false);
		else
			out->outcomes[i].retry_after_ns += more_ns;
	}
}

static enum command_end done(struct redis_command *step, struct value *value,
                             struct command_result *out)
{
	uint64_t forgotten_ns = forgotten_until(step, value);

	step->is_converted = value->fit == VALUE_CONVERTS;
	if (step->own.kind == STEP_SWAP && value->granted > 0)
		return explain_swap(step, out) ? COMMAND_DONE : COMMAND_FAILED;
	if (step->own.kind < STEP_BUCKET || command_is_question(step) || step->call.op != ALGO_ACQUIRE)
		value->granted = -1;
	if (is_hidden(step, value))
		apply_hidden(step, value, out);
	else
		apply_all(step, value->granted, value, out);
	step->units.state = value->word;
	if (step->call.op == ALGO_RESET)
		out->until_ns[0] = forgotten_ns;
	return COMMAND_DONE;
}

/* Whether `seen` has all that decides the step. A script that could not decide may show less. */
static bool is_seen(const struct redis_command *step, const struct value *value)
{
	return !value->has_chunks &&
	       (is_swapped(step) || command_is_question(step) || value->granted == -2);
}

/* Another of its group was refused, so it takes nothing, even where `own` asks for a further try.
 */
static enum command_end withhold(struct redis_command *step, struct value *value, enum verdict own,
                                 struct command_result *out)
{
	struct redis_command peek = *step;

	peek.call.op = ALGO_PEEK;
	if (step->call.op == ALGO_REFUND)
		peek.call.cost = 0; /* a permit of before may have taken more than the limit grants now */
	apply_all(&peek, -1, value, out);
	step->units.state = value->word;
	return own == GRANTED || (is_seen(step, value) && out->outcomes[0].allowed) ? COMMAND_WITHHELD
	                                                                            : COMMAND_UNASKED;
}

/* How its group ends: REFUSED if any of it is refused, else PENDING if any of it is. */
static enum verdict judge_group(struct redis_command *const *steps, size_t n, size_t i,
                                const struct redis_reply *reply)
{
	static const unsigned char weight[] = {
	    [GRANTED] = 0, [PENDING] = 1, [MENDED] = 1, [WAITING] = 2, [REFUSED] = 3, [BROKEN] = 4};
	enum verdict worst = GRANTED;
	size_t first = i;

	while (first > 0 && steps[first - 1]->group == steps[i]->group)
		first--;
	for (size_t j = first; j < n && steps[j]->group == steps[i]->group; j++) {
		struct value value;
		enum verdict verdict =
		    look(steps[j], n, j, reply, &value) ? judge(steps[j], &value) : BROKEN;

		value_free(&value);
		if (weight[verdict] > weight[worst])
			worst = verdict;
	}
	return worst;
}

static enum command_end finish(struct redis_command *step, struct value *value, enum verdict all,
                               struct command_result *out)
{
	enum verdict own = judge(step, value);
	enum command_end end;

	switch (step->group ? all : own) {
	case BROKEN:
		return COMMAND_FAILED;
	case PENDING:
	case MENDED:
		if (step->own.tries++ == TRIES_MAX)
			return COMMAND_FAILED;
		return again(step, value, own, out);
	case WAITING: /* as long as it takes: turns end by themselves */
		end = again(step, value, own, out);
		return end == COMMAND_AGAIN ? COMMAND_LATER : end;
	case REFUSED:
		if (own != REFUSED)
			return withhold(step, value, own, out);
		if (step->own.in_line)
			return leave(step, COMMAND_AGAIN);
		break;
	case GRANTED:
		break;
	}
	return done(step, value, out);
}

/* Whether others may wait for this step. */
static void see_line(struct redis_command *step, const struct value *value)
{
	if (step->own.kind == STEP_SWAP)
		step->own.in_line = value->granted < 0 && step->turn != 0 && step->group == 0;
	else if (step->own.kind == STEP_LEAVE)
		step->own.in_line = step->own.leaves = false;
}

enum command_end command_read(struct redis_command *const *steps, size_t n, size_t i,
                              const struct redis_reply *reply, struct command_result *out)
{
	struct redis_command *step = steps[i];
	struct value value;

	out->end = COMMAND_FAILED;
	if (step->exchange) {
		out->outcomes[0] = (struct algo_outcome){.allowed = true};
		out->until_ns[0] = 0;
		return out->end = exchange_heard(step->exchange, reply) ? COMMAND_DONE : COMMAND_FAILED;
	}
	if (look(step, n, i, reply, &value)) {
		enum verdict all = step->group ? judge_group(steps, n, i, reply) : GRANTED;

		see_line(step, &value);
		out->end = finish(step, &value, all, out);
	}
	value_free(&value);
	return out->end;
}
