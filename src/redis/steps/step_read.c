/*
 * step_read.c: turns the values that a script has seen into outcomes, by the steps of `algo`.
 *
 * A reply comes from outside and may be anything.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/algorithm.h"
#include "algo/rates/bucket.h"
#include "base/number.h"
#include "redis/steps/exchange.h"
#include "redis/steps/step_own.h"
#include "redis/steps/value.h"

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

/* One step of a reply. */
struct seen {
	int64_t granted; /* requests; less than 0: not known */
	bool has_text;
	struct slice text; /* the value */
	bool has_chunks;     /* of which a script knows that is still to be called */
	struct slice chunks; /* which stand behind the state, and stay there when it is converted */
	uint64_t former_ns;  /* the end of a converted state before, by which permits name it; 0: none */
	uint64_t clock_ns;
	struct algo_time time;
	enum value_fit fit;
	uint64_t hidden_ns; /* how much sooner a converted value ends than with all that is in use */
	struct value value; /* ours, converted, or never used */
};

/* The state as it is used. */
static bool read_state(const struct redis_step *step, struct seen *seen)
{
	const struct algo_limit *limit = step->limit;
	struct slice text = {seen->text.data, seen->text.len - seen->chunks.len};

	seen->fit = value_read(limit, text, step->repeat + 1, &seen->value);
	/* As of now: no server knows when the others began to use other parameters. */
	if (seen->fit == VALUE_CONVERTS && seen->value.word.until_ns > seen->time.now_ns) {
		if (seen->former_ns == 0) /* else nothing was granted since an earlier conversion */
			seen->former_ns = seen->value.word.until_ns;
		seen->hidden_ns =
		    algo_convert_now(limit, &seen->value.from, seen->time.now_ns, &seen->value.word);
		seen->hidden_ns -= seen->value.word.until_ns;
	}
	if (seen->fit == VALUE_OTHER) {
		seen->value.word = (struct algo_state){0, 0};
		seen->value.uses.count = 0;
		seen->value.uses.until_ns = seen->value.uses.newest_id = 0;
	}
	return seen->fit != VALUE_NO_MEMORY;
}

/* A number alone: a bucket's time in microseconds, or the count of the window that is open. */
static bool read_number(const struct redis_step *step, uint64_t number, struct seen *seen)
{
	const struct algo_limit *limit = step->limit;
	unsigned less = limit->algorithm->word_less;

	seen->value = (struct value){0};
	if (step->own.kind == STEP_BUCKET) {
		seen->value.word.until_ns = number * 1000;
		return number <= INT64_MAX / 1000;
	}
	if (step->own.kind != STEP_WINDOW || !limit->cache || number < less ||
	    number - less > UINT32_MAX)
		return false;
	seen->value.word.until_ns = algo_window_at(limit, step_moment(step, seen->clock_ns).wall_ns).end_ns;
	seen->value.word.word = (uint32_t)(number - less);
	return true;
}

/* Reads the answer about chunks, which stands behind the state: others' units, this server's, ... */
static bool read_units(struct slice text, struct step_units *units)
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
static bool read_behind(struct redis_step *step, struct seen *seen)
{
	struct slice text = slice_cut(&seen->text, '|'), state;

	if (!parse_u64(seen->text, &seen->former_ns)) /* else it is others' turns */
		seen->former_ns = 0;
	seen->text = state = text;
	state = slice_cut(&text, ';');
	if (state.len == seen->text.len)
		return !step_knows_chunks(step) || seen->granted == -1;
	if (!step_knows_chunks(step)) {
		seen->has_chunks = units_apply(step->limit);
	} else if (seen->granted == -1) {
		seen->chunks = (struct slice){state.data + state.len, seen->text.len - state.len};
	} else {
		seen->text = state;
		return read_units(text, &step->units);
	}
	return true;
}

/* Reads a script's answer about the value: the text, a number, or none (0 also means none). */
static bool read_found(struct redis_step *step, const struct redis_reply *found, struct seen *seen)
{
	switch (found->type) {
	case REDIS_INTEGER:
		if (found->integer != 0)
			return found->integer > 0 && read_number(step, (uint64_t)found->integer, seen);
		return read_state(step, seen);
	case REDIS_TEXT:
		seen->has_text = true;
		seen->text = found->text;
		return read_behind(step, seen) && read_state(step, seen);
	case REDIS_NIL:
		return read_state(step, seen);
	default:
		return false;
	}
}

/* A refund that names the state by its end before a conversion names it by its present end. */
static void rename_refund(struct redis_step *step, const struct seen *seen)
{
	struct algo_call *call = &step->call;

	if (call->op == ALGO_REFUND && call->until_ns != 0 && call->until_ns == seen->former_ns &&
	    seen->value.word.until_ns > seen->time.now_ns)
		call->until_ns = seen->value.word.until_ns;
}

/*
 * Looks at the i-th of `n` steps. False: nonsense, or no memory. Free with value_free in any case.
 */
static bool look(struct redis_step *step, size_t n, size_t i,
                 const struct redis_reply *reply, struct seen *seen)
{
	struct redis_reply found;

	*seen = (struct seen){.clock_ns = step_clock(reply, n),
	                      .granted = step->own.kind == STEP_SWAP ? 1 : step->repeat};
	if (seen->clock_ns == 0 ||
	    !step_granted(reply, n, i, &seen->granted))
		return false;
	found = step_item(reply, n, i);
	seen->time = algo_time_at(step->limit, step_moment(step, seen->clock_ns));
	if (!read_found(step, &found, seen))
		return false;
	rename_refund(step, seen);
	return true;
}

/* One request on the state. Returns the name of what it took; 0: nothing. */
static uint64_t apply(const struct redis_step *step, const struct algo_call *call,
                      struct algo_time time, struct value *value, struct algo_outcome *out)
{
	struct algo_call rest = *call;

	if (call->op == ALGO_REFUND)
		rest.replaces = false; /* the script has told what was left without those */
	if (step_knows_chunks(step))
		return units_step(step->limit, call, &time, &step->units.reserved, &value->word, out);
	if (step->limit->rows != ALGO_ROWS_NONE)
		return uses_step(step->limit, &rest, &time, &value->uses, out);
	return algo_step(step->limit, call, &time, &value->word, out) ? value->word.until_ns : 0;
}

/*
 * All requests of a step, of which so many were granted; less than 0: C decides. Those that were
 * denied find the same state, and so have one answer.
 */
static void apply_all(const struct redis_step *step, int64_t granted, struct algo_time time,
                      struct value *value, struct algo_outcome *outcomes, uint64_t *until_ns)
{
	uint32_t n = 0;

	for (; n < step->repeat && (granted < 0 || n < granted); n++) {
		until_ns[n] = apply(step, &step->call, time, value, &outcomes[n]);
		if (granted >= 0)
			outcomes[n].allowed = true;
		else if (!outcomes[n].allowed && step->call.op == ALGO_ACQUIRE)
			break;
	}
	if (n == step->repeat)
		return;
	if (granted >= 0) {
		struct algo_call peek = step->call;

		peek.op = ALGO_PEEK;
		apply(step, &peek, time, value, &outcomes[n]);
		if (outcomes[n].allowed)
			algo_outcome_deny(&outcomes[n], WEIR_REASON_OVER_LIMIT, step->limit->retry_ns);
	}
	for (uint32_t i = n; i < step->repeat; i++) {
		outcomes[i] = outcomes[n];
		until_ns[i] = 0;
	}
}

/* Whether C alone has to decide it, and write what comes of that. */
static bool is_swapped(const struct redis_step *step)
{
	return step->own.kind == STEP_READ || step->own.kind == STEP_SWAP ||
	       step->own.kind == STEP_LEAVE;
}

/* As a peek, which changes nothing that is written. */
static bool would_pass(const struct redis_step *step, struct seen *seen)
{
	struct algo_state before = seen->value.word; /* which a peek may cut back */
	struct algo_call peek = step->call;
	struct algo_outcome out;

	if (peek.op == ALGO_ACQUIRE)
		peek.op = ALGO_PEEK;
	else if (peek.op != ALGO_PEEK)
		return true;
	apply(step, &peek, seen->time, &seen->value, &out);
	seen->value.word = before;
	return out.allowed;
}

/* Whether a denial stores a state of other parameters as these have it. One that is over stays for clocks that lag. */
static bool keeps_converted(const struct redis_step *step, const struct seen *seen)
{
	return seen->fit == VALUE_CONVERTS && step->call.op == ALGO_ACQUIRE &&
	       seen->value.word.until_ns > seen->time.now_ns;
}

/* Whether a denial leaves another state: of one that no clock could have written, cut back. */
static bool is_mended(const struct redis_step *step, struct seen *seen)
{
	struct buffer text = {0};
	struct algo_outcome out;
	bool differs;

	if (step->limit->rows == ALGO_ROWS_NONE)
		return algo_step(step->limit, &step->call, &seen->time, &seen->value.word, &out);
	apply(step, &step->call, seen->time, &seen->value, &out);
	value_write(step->limit, &seen->value, seen->time.now_ns, &text);
	differs = !slice_equal((struct slice){text.data, text.len}, seen->text);
	buffer_free(&text);
	return differs;
}

/*
 * A script has found a value that is not ours, which is converted before the step is taken. A
 * question writes nothing: a script that counts chunks supposes the converted value before them.
 */
static enum verdict judge_other(const struct redis_step *step, struct seen *seen)
{
	struct algo_state state = seen->value.word;
	bool acquires = step->call.op == ALGO_ACQUIRE;
	struct algo_outcome out;

	if (step_is_question(step) && seen->chunks.len == 0)
		return would_pass(step, seen) ? GRANTED : REFUSED;
	if (seen->fit != VALUE_CONVERTS) /* nothing is in use */
		return acquires || (step->call.op == ALGO_RESET && seen->has_text) ? MENDED : GRANTED;
	if (seen->chunks.len > 0)
		return MENDED;
	if (algo_step(step->limit, &step->call, &seen->time, &state, &out) || keeps_converted(step, seen))
		return MENDED;
	return acquires ? REFUSED : GRANTED;
}

/* Times that a denial is looked into: it may be of units that this server itself holds. */
#define DENIALS_MAX 3

static enum verdict judge_chunk(const struct redis_step *step, struct seen *seen)
{
	const struct step_units *units = &step->units;

	if (seen->granted > 0)
		return GRANTED;
	if (seen->granted < 0)
		return seen->has_text ? judge_other(step, seen) : PENDING;
	return (units->is_whole || units->is_old) && step->own.tries < DENIALS_MAX ? PENDING : REFUSED;
}

/* A value that does not show all that is in use is not to be written. */
static bool is_hidden(const struct redis_step *step, const struct seen *seen)
{
	return seen->hidden_ns > 0 && step->call.op != ALGO_RESET;
}

static enum verdict judge(const struct redis_step *step, struct seen *seen)
{
	if (is_hidden(step, seen))
		return step->call.op == ALGO_REFUND ? GRANTED : REFUSED;
	if (seen->has_chunks || seen->granted == -4)
		return units_apply(step->limit) ? PENDING : judge_other(step, seen);
	switch (step->own.kind) {
	case STEP_BUCKET_CHUNK:
	case STEP_WINDOW_CHUNK:
		return judge_chunk(step, seen);
	case STEP_RESET:
		return GRANTED;
	case STEP_ASK:
	case STEP_PASS:
		if (would_pass(step, seen))
			return step->own.kind == STEP_ASK && step->group ? PENDING : GRANTED;
		return REFUSED;
	case STEP_READ:
	case STEP_SWAP:
	case STEP_LEAVE:
		if (seen->granted > 0)
			return GRANTED;
		if (would_pass(step, seen))
			return seen->granted == -3 ? WAITING : PENDING;
		return is_mended(step, seen) || keeps_converted(step, seen) ? MENDED : REFUSED;
	case STEP_LOG:
	case STEP_PLACES:
		return seen->granted > 0 ? GRANTED : REFUSED;
	default:
		if (seen->granted > 0)
			return GRANTED;
		if (seen->granted < 0)
			return seen->granted == -1 && seen->has_text ? judge_other(step, seen) : PENDING;
		return seen->fit != VALUE_OURS || is_mended(step, seen) ? MENDED : REFUSED;
	}
}

/* Longer than any lease; the next step of a server that holds units says it better. */
#define CHUNKS_LIFE_MS (2 * 3600 * UINT64_C(1000))

/*
 * What stands behind a converted value: the chunks that stood there. A bucket takes back what a permit
 * of before names, since such a permit says how long it counts. Other states need the former end.
 */
static uint64_t add_behind(const struct redis_step *step, const struct seen *seen, struct buffer *text)
{
	if (seen->chunks.len > 0) {
		buffer_add_slice(text, seen->chunks);
		return CHUNKS_LIFE_MS;
	}
	if (seen->former_ns > 0 && !algo_steps_by(step->limit, bucket_step)) {
		buffer_add_text(text, "|");
		buffer_add_u64(text, seen->former_ns);
	}
	return 0;
}

/* Puts the value that is in `seen` in the place of its text, or that text again, with the next try. */
static bool plan_swap(struct redis_step *step, const struct seen *seen, bool has_changed)
{
	struct buffer text = {0};
	uint64_t life_ms = value_write(step->limit, &seen->value, seen->time.now_ns, &text);
	struct step_swap *swap = NULL;

	if (!has_changed) {
		text.len = 0;
		buffer_add_slice(&text, seen->text);
	} else if (step->own.mends && seen->fit == VALUE_CONVERTS) {
		life_ms = u64_max(life_ms, add_behind(step, seen, &text));
	}
	if (!text.failed)
		swap = malloc(sizeof *swap + seen->text.len + text.len);
	if (swap) {
		*swap = (struct step_swap){seen->clock_ns, step_is_question(step) ? 0 : life_ms,
		                           seen->text.len, text.len};
		if (seen->text.len > 0)
			memcpy(swap->text, seen->text.data, seen->text.len);
		if (text.len > 0)
			memcpy(swap->text + seen->text.len, text.data, text.len);
	}
	buffer_free(&text);
	step->own.swap = swap;
	return swap != NULL;
}

/* Returns `otherwise`, unless others wait for a swap of this step. */
static enum step_end leave(struct redis_step *step, enum step_end otherwise)
{
	if (!step->own.in_line)
		return otherwise;
	step_end(step);
	step->own.leaves = true;
	return STEP_AGAIN;
}

/* Tells what the next try must read or write. */
static enum step_end again(struct redis_step *step, struct seen *seen, enum verdict own,
                           struct algo_outcome *outcomes, uint64_t *until_ns)
{
	bool planned = true;

	if (own == GRANTED) /* and others of its group are not known yet */
		return STEP_AGAIN;
	step->units.is_known |= seen->has_chunks || seen->granted == -4;
	step->units.is_whole = false;
	step_end(step);
	step->own.clock_ns = seen->clock_ns;
	step->own.mends = own == MENDED;
	step->own.by_c |= seen->granted == -2;
	if (own == MENDED) {
		planned = plan_swap(step, seen, true);
	} else if ((own == PENDING || own == WAITING) && is_swapped(step) && !seen->has_chunks) {
		struct algo_state before = seen->value.word;

		apply_all(step, -1, seen->time, &seen->value, outcomes, until_ns);
		planned = plan_swap(step, seen, step->limit->rows != ALGO_ROWS_NONE ||
		                                    before.until_ns != seen->value.word.until_ns ||
		                                    before.word != seen->value.word.word);
		if (planned && !step->group &&
		    slice_equal(step_old(step->own.swap), step_new(step->own.swap)))
			return leave(step, STEP_DONE); /* there is nothing to write */
	}
	return planned ? STEP_AGAIN : STEP_FAILED;
}

/* A swap was done: by the state and at the time that it was made of. */
static bool explain_swap(const struct redis_step *step, struct algo_outcome *outcomes,
                         uint64_t *until_ns)
{
	const struct step_swap *swap = step->own.swap;
	struct seen was = {.text = step_old(swap)};
	bool read;

	was.time = algo_time_at(step->limit, step_moment(step, swap->at_ns));
	read = read_state(step, &was);
	if (read)
		apply_all(step, -1, was.time, &was.value, outcomes, until_ns);
	value_free(&was.value);
	return read;
}

/* The end of what a reset has forgotten, if that said anything; of another limit's it is not known.
 */
static uint64_t forgotten_until(const struct redis_step *step, const struct seen *seen)
{
	const struct value *value = &seen->value;
	uint64_t until_ns = value->word.until_ns;

	if (seen->fit == VALUE_OTHER)
		return seen->has_text ? UINT64_MAX : 0;
	if (step->limit->rows != ALGO_ROWS_NONE)
		until_ns = value->uses.count > 0 ? value->uses.uses[value->uses.count - 1].until_ns : 0;
	return until_ns > seen->time.now_ns ? until_ns : 0;
}

/* Nothing passes, or comes back, until what a cut hides has ended. Only a bucket tells when. */
static void apply_hidden(const struct redis_step *step, struct seen *seen,
                         struct algo_outcome *outcomes, uint64_t *until_ns)
{
	uint64_t more_ns = algo_steps_by(step->limit, bucket_step) ? seen->hidden_ns : 0;
	bool refunds = step->call.op == ALGO_REFUND;
	struct redis_step none = *step;

	if (refunds)
		none.call.cost = 0;
	apply_all(&none, -1, seen->time, &seen->value, outcomes, until_ns);
	for (uint32_t i = 0; i < step->repeat; i++) {
		outcomes[i].reset_after_ns += more_ns;
		if (refunds)
			algo_outcome_refund(&outcomes[i], &step->call, false);
		else
			outcomes[i].retry_after_ns += more_ns;
	}
}

static enum step_end done(struct redis_step *step, struct seen *seen, struct algo_outcome *outcomes,
                          uint64_t *until_ns)
{
	uint64_t forgotten_ns = forgotten_until(step, seen);

	step->is_converted = seen->fit == VALUE_CONVERTS;
	if (step->own.kind == STEP_SWAP && seen->granted > 0)
		return explain_swap(step, outcomes, until_ns) ? STEP_DONE : STEP_FAILED;
	if (step->own.kind < STEP_BUCKET || step_is_question(step) || step->call.op != ALGO_ACQUIRE)
		seen->granted = -1;
	if (is_hidden(step, seen))
		apply_hidden(step, seen, outcomes, until_ns);
	else
		apply_all(step, seen->granted, seen->time, &seen->value, outcomes, until_ns);
	step->units.state = seen->value.word;
	if (step->call.op == ALGO_RESET)
		until_ns[0] = forgotten_ns;
	return STEP_DONE;
}

/* Whether `seen` has all that decides the step. A script that could not decide may show less. */
static bool is_seen(const struct redis_step *step, const struct seen *seen)
{
	return !seen->has_chunks && (is_swapped(step) || step_is_question(step) || seen->granted == -2);
}

/* Another of its group was refused, so it takes nothing, even where `own` asks for a further try. */
static enum step_end withhold(struct redis_step *step, struct seen *seen, enum verdict own,
                              struct algo_outcome *outcomes, uint64_t *until_ns)
{
	struct redis_step peek = *step;

	peek.call.op = ALGO_PEEK;
	if (step->call.op == ALGO_REFUND)
		peek.call.cost = 0; /* a permit of before may have taken more than the limit grants now */
	apply_all(&peek, -1, seen->time, &seen->value, outcomes, until_ns);
	step->units.state = seen->value.word;
	return own == GRANTED || (is_seen(step, seen) && outcomes[0].allowed) ? STEP_WITHHELD : STEP_UNASKED;
}

/* How its group ends: REFUSED if any of it is refused, else PENDING if any of it is. */
static enum verdict judge_group(struct redis_step *const *steps, size_t n, size_t i,
                                const struct redis_reply *reply)
{
	static const unsigned char weight[] = {[GRANTED] = 0, [PENDING] = 1, [MENDED] = 1,
	                                       [WAITING] = 2, [REFUSED] = 3, [BROKEN] = 4};
	enum verdict worst = GRANTED;
	size_t first = i;

	while (first > 0 && steps[first - 1]->group == steps[i]->group)
		first--;
	for (size_t j = first; j < n && steps[j]->group == steps[i]->group; j++) {
		struct seen seen;
		enum verdict verdict = look(steps[j], n, j, reply, &seen) ? judge(steps[j], &seen) : BROKEN;

		value_free(&seen.value);
		if (weight[verdict] > weight[worst])
			worst = verdict;
	}
	return worst;
}

static enum step_end finish(struct redis_step *step, struct seen *seen, enum verdict all,
                            struct algo_outcome *outcomes, uint64_t *until_ns)
{
	enum verdict own = judge(step, seen);
	enum step_end end;

	switch (step->group ? all : own) {
	case BROKEN:
		return STEP_FAILED;
	case PENDING:
	case MENDED:
		if (step->own.tries++ == TRIES_MAX)
			return STEP_FAILED;
		return again(step, seen, own, outcomes, until_ns);
	case WAITING: /* as long as it takes: turns end by themselves */
		end = again(step, seen, own, outcomes, until_ns);
		return end == STEP_AGAIN ? STEP_LATER : end;
	case REFUSED:
		if (own != REFUSED)
			return withhold(step, seen, own, outcomes, until_ns);
		if (step->own.in_line)
			return leave(step, STEP_AGAIN);
		break;
	case GRANTED:
		break;
	}
	return done(step, seen, outcomes, until_ns);
}

/* Whether others may wait for this step. */
static void see_line(struct redis_step *step, const struct seen *seen)
{
	if (step->own.kind == STEP_SWAP)
		step->own.in_line = seen->granted < 0 && step->turn != 0 && step->group == 0;
	else if (step->own.kind == STEP_LEAVE)
		step->own.in_line = step->own.leaves = false;
}

enum step_end step_read(struct redis_step *const *steps, size_t n, size_t i,
                        const struct redis_reply *reply, struct algo_outcome *outcomes,
                        uint64_t *until_ns)
{
	struct seen seen;
	enum step_end end = STEP_FAILED;

	if (steps[i]->exchange) {
		outcomes[0] = (struct algo_outcome){.allowed = true};
		until_ns[0] = 0;
		return exchange_heard(steps[i]->exchange, reply) ? STEP_DONE : STEP_FAILED;
	}
	if (look(steps[i], n, i, reply, &seen)) {
		enum verdict all = steps[i]->group ? judge_group(steps, n, i, reply) : GRANTED;

		see_line(steps[i], &seen);
		end = finish(steps[i], &seen, all, outcomes, until_ns);
	}
	value_free(&seen.value);
	return end;
}
