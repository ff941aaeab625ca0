/*
 * command_write.c: steps as calls of scripts.
 *
 * Consecutive steps that differ only in their keys are one run, whose parameters stand once.
 */
#include "redis/commands/redis_command.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "algo/rates/window.h"
#include "base/number.h"
#include "redis/commands/exchange.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/command_words.h"
#include "redis/commands/value.h"
#include "scripts.h" /* made by scripts/embed.py */

#define KEYS_HASHED 256 /* a power of two, and more than STEP_CALL_MAX */

struct moment command_moment(const struct redis_command *step, uint64_t clock_ns)
{
	return step->is_given ? step->at : moment_given(clock_ns);
}

void command_end(struct redis_command *step)
{
	free(step->own.swap);
	step->own.swap = NULL;
}

/* Kinds */

/* With shorter slots, a call would too often come after the slot that it was written for. */
#define SLOT_LEAST_NS (50 * NS_PER_MS)

/* Whether a script decides it. */
static bool has_kind(const struct redis_command *step, enum step_kind *kind)
{
	bool refund = step->call.op == ALGO_REFUND;

	if ((step->call.op != ALGO_ACQUIRE && !refund) || step->own.by_c)
		return false;
	if (algo_steps_by(step->limit, bucket_step))
		*kind = refund ? STEP_BUCKET_REFUND : STEP_BUCKET;
	else if (algo_steps_by(step->limit, window_step))
		*kind = refund ? STEP_WINDOW_REFUND : STEP_WINDOW;
	else if (step->limit->rows == ALGO_ROWS_DAY)
		*kind = STEP_DAY;
	else if (step->limit->rows == ALGO_ROWS_SLOTS &&
	         (refund || step->limit->slots.slot_ns >= SLOT_LEAST_NS))
		*kind = refund ? STEP_SLOTS_REFUND : STEP_SLOTS;
	else
		return false;
	return true;
}

static enum step_kind kind_of(const struct redis_command *step)
{
	enum step_kind kind;

	if (command_is_listed(step))
		return step->limit->rows == ALGO_ROWS_LOG ? STEP_LOG : STEP_PLACES;
	if (step->units.is_known && units_apply(step->limit))
		return algo_steps_by(step->limit, bucket_step) ? STEP_BUCKET_CHUNK : STEP_WINDOW_CHUNK;
	if (step->call.op == ALGO_RESET)
		return STEP_RESET;
	if (command_is_question(step))
		return step->group != 0 && step->own.clock_ns != 0 ? STEP_PASS : STEP_ASK;
	if (has_kind(step, &kind))
		return kind;
	if (step->own.leaves)
		return STEP_LEAVE;
	return step->own.swap && !step->own.mends ? STEP_SWAP : STEP_READ;
}

/* The arguments of a run. */

#define TIME_DIGITS_MAX 20

/* Numbers of each step, one after the other, in one text. */
static void add_column(struct buffer *out, struct redis_command *const *steps, size_t n,
                       void (*put_step)(struct numbers *numbers, const struct redis_command *step))
{
	char column[CALL_COMMANDS_MAX * sizeof(struct numbers)];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		struct numbers numbers = {0};

		put_step(&numbers, steps[i]);
		memcpy(column + len, numbers.bytes, numbers.count * sizeof(double));
		len += numbers.count * sizeof(double);
	}
	add_slice(out, (struct slice){column, len});
}

/* The most that may be in use after the request: less if it would not wait as long as others. */
static u128 depth_of(const struct bucket_params *params, const struct algo_call *call)
{
	u128 depth = parts_of(params->depth, params->q);
	u128 at_once = parts_of(params->at_once, params->q), with_wait;

	if (call->max_wait_ns == 0)
		return depth;
	with_wait = at_once;
	if (call->max_wait_ns != WEIR_ZERO)
		with_wait += (u128)call->max_wait_ns * params->q;
	return with_wait < depth ? with_wait : depth;
}

static void add_head(struct buffer *out, const struct algo_limit *limit)
{
	char head[VALUE_HEAD_MAX];

	add_slice(out, (struct slice){head, value_head(limit, head)});
}

/* A text, its length as text, and numbers, as struct.unpack takes them; one argument costs less. */
static void add_packed(struct buffer *out, struct slice text, const struct numbers *numbers)
{
	char all[VALUE_HEAD_MAX + TIME_DIGITS_MAX + 20 + sizeof numbers->bytes + 3];
	char *at = mempcpy(all, text.data, text.len);

	*at++ = '\0';
	at = format_u64(at, text.len);
	*at++ = '\0';
	at = mempcpy(at, numbers->bytes, numbers->count * sizeof(double));
	add_slice(out, (struct slice){all, (size_t)(at - all)});
}

static void add_bucket(struct buffer *out, const struct redis_command *step)
{
	const struct bucket_params *params = &step->limit->bucket;
	char head[VALUE_HEAD_MAX];
	struct numbers numbers = {0};

	put(&numbers, params->q);
	put(&numbers, step->repeat);
	put_parts(&numbers, (u128)step->call.cost * params->p, params->q);
	put_parts(&numbers, depth_of(params, &step->call), params->q);
	put(&numbers, value_block_us(step->limit));
	add_packed(out, (struct slice){head, value_head(step->limit, head)}, &numbers);
}

/* Redis's clock as it was heard, or ours. */
static uint64_t clock_of(const struct redis_command *step)
{
	return step->own.clock_ns ? step->own.clock_ns : step->at.wall_ns;
}

uint64_t command_put_window(struct numbers *numbers, const struct redis_command *step)
{
	const struct algo_limit *limit = step->limit;

	if (limit->cache) {
		struct algo_window window =
		    algo_window_at(limit, command_moment(step, clock_of(step)).wall_ns);

		put(numbers, window.start_ns / 1000);
		put(numbers, window.end_ns / 1000);
		put(numbers, (window.end_ns + limit->period_ns + limit->period_ns / 8) / 1000);
		return window.end_ns;
	}
	put(numbers, 0);
	put_ns(numbers, limit->period_ns);
	return 0;
}

static void add_window(struct buffer *out, const struct redis_command *step)
{
	char head[VALUE_HEAD_MAX + TIME_DIGITS_MAX + 1], *at;
	struct numbers numbers = {0};
	uint64_t end_ns;

	at = head + value_head(step->limit, head);
	put(&numbers, (uint64_t)(at - head));
	put(&numbers, step->repeat);
	put(&numbers, step->call.cost);
	put(&numbers, step->limit->quota);
	end_ns = command_put_window(&numbers, step);
	if (end_ns > 0) {
		at = format_u64(at, end_ns / 1000);
		*at++ = ' ';
	}
	add_packed(out, (struct slice){head, (size_t)(at - head)}, &numbers);
}

/* The slot that Redis's clock is in, if ours is right. */
static void add_slots(struct buffer *out, const struct redis_command *step)
{
	const struct algo_limit *limit = step->limit;
	uint64_t now_ns = command_moment(step, clock_of(step)).now_ns;
	uint64_t slot = slots_number(&limit->slots, now_ns);
	uint64_t start_ns = slots_start(&limit->slots, slot);
	uint64_t until_ns = start_ns + limit->slots.period_ns;
	struct numbers numbers = {0};

	add_head(out, limit);
	add_number(out, until_ns % 1000 ? until_ns : until_ns / 1000);
	put(&numbers, step->repeat);
	put(&numbers, step->call.cost);
	put(&numbers, limit->quota);
	put_ns(&numbers, start_ns);
	put_ns(&numbers, slots_start(&limit->slots, slot + 1));
	put(&numbers, limit->slots.weighted ? limit->slots.slot_ns / 1000 : 0);
	add_numbers(out, &numbers);
}

/* A use's lifetime is renewed when its end reaches into the next block of so many microseconds. */
static uint64_t list_block_us(uint64_t life_ns)
{
	return u64_max(life_ns / 8, NS_PER_S) / 1000;
}

/* Writes the question to a list. A refund of nothing peeks, and wants nothing: so it passes. */
static void put_question(struct numbers *numbers, const struct redis_command *step)
{
	bool wants_nothing = command_is_question(step) && step->call.op == ALGO_REFUND;

	_Static_assert(ALGO_ACQUIRE == 0 && ALGO_PEEK == 1 && ALGO_REFUND == 2 && ALGO_RESET == 3,
	               "scripts/uses.lua knows them by number");
	put(numbers, command_is_question(step)
	                 ? ALGO_PEEK
	                 : step->call.op + (step->call.replaces || step->call.part ? 8u : 0));
	put(numbers, wants_nothing ? 0 : step->repeat);
	put(numbers, u64_max(step->call.cost, 1));
}

/* For a list: the most that may be in use, and the time that a use counts. */
static void put_life(struct numbers *numbers, const struct redis_command *step, uint64_t life_ns)
{
	put(numbers, step->limit->quota);
	put_ns(numbers, life_ns);
	put(numbers, list_block_us(life_ns));
}

static void add_log(struct buffer *out, const struct redis_command *step)
{
	struct numbers numbers = {0};

	add_head(out, step->limit);
	put_question(&numbers, step);
	put_life(&numbers, step, step->limit->log.period_ns);
	put_ns(&numbers, step->call.until_ns);
	add_numbers(out, &numbers);
}

static void add_places(struct buffer *out, const struct redis_command *step)
{
	struct numbers numbers = {0};

	add_head(out, step->limit);
	put_life(&numbers, step, step->limit->places.lease_ns);
	add_numbers(out, &numbers);
}

static void put_place(struct numbers *numbers, const struct redis_command *step)
{
	put_question(numbers, step);
	put(numbers, places_word(step->call.permit));
	put_ns(numbers, step->call.until_ns);
}

static void add_bucket_refund(struct buffer *out, const struct redis_command *step)
{
	const struct bucket_params *params = &step->limit->bucket;
	uint64_t cost = u64_min(step->call.cost, params->burst);
	struct numbers numbers = {0};

	add_head(out, step->limit);
	put_ns(&numbers, step->call.until_ns);
	put(&numbers, params->q);
	put_parts(&numbers, (u128)cost * params->p, params->q);
	put(&numbers, bucket_refunds_newest(params));
	add_numbers(out, &numbers);
}

static void add_window_refund(struct buffer *out, const struct redis_command *step)
{
	struct numbers numbers = {0};

	add_head(out, step->limit);
	put_ns(&numbers, step->call.until_ns);
	put(&numbers, step->call.cost);
	command_put_window(&numbers, step);
	add_numbers(out, &numbers);
}

static void add_slots_refund(struct buffer *out, const struct redis_command *step)
{
	struct numbers numbers = {0};

	add_head(out, step->limit);
	put_ns(&numbers, step->call.until_ns);
	put(&numbers, step->call.cost);
	put_ns(&numbers, step->limit->slots.period_ns);
	add_numbers(out, &numbers);
}

/* Adds the day, also for a refund. */
static void add_day(struct buffer *out, const struct redis_command *step)
{
	const struct day_params *day = &step->limit->day;
	struct algo_window today =
	    algo_window_at(step->limit, command_moment(step, clock_of(step)).wall_ns);
	struct numbers numbers = {0};

	add_head(out, step->limit);
	put(&numbers, step->call.op == ALGO_REFUND);
	put(&numbers, step->repeat);
	put(&numbers, step->call.cost);
	put(&numbers, day->free);
	put(&numbers, day->count);
	put(&numbers, today.start_ns / 1000);
	put(&numbers, today.end_ns / 1000);
	put_ns(&numbers, day->period_ns);
	put_ns(&numbers, step->call.until_ns);
	add_numbers(out, &numbers);
}

static void add_swap(struct buffer *out, const struct redis_command *step)
{
	const struct command_swap *swap = step->own.swap;

	add_slice(out, swap_old(swap));
	add_slice(out, swap_new(swap));
	add_number(out, swap->life_ms);
	/* Limits that follow each other in a group could wait for one another. */
	add_number(out, step->group ? 0 : step->turn);
	add_number(out, step->turn_us);
}

static void add_leave(struct buffer *out, const struct redis_command *step)
{
	add_number(out, step->turn);
	add_number(out, step->turn_us);
}

static const struct kind {
	const char *name;
	unsigned arguments;
	void (*add)(struct buffer *out, const struct redis_command *step);
	enum script script;
	/* Writes the numbers of one step of a run, besides its key; NULL: there are none. */
	void (*put)(struct numbers *numbers, const struct redis_command *step);
} kinds[STEP_KINDS] = {
    [STEP_ASK] = {"read", 0, NULL, SCRIPT_ANY},
    [STEP_PASS] = {"pass", 0, NULL, SCRIPT_ANY},
    [STEP_READ] = {"read", 0, NULL, SCRIPT_ANY},
    [STEP_SWAP] = {"swap", 5, add_swap, SCRIPT_ANY},
    [STEP_LEAVE] = {"leave", 2, add_leave, SCRIPT_ANY},
    [STEP_RESET] = {"reset", 0, NULL, SCRIPT_ANY},
    [STEP_BUCKET_REFUND] = {"bucket_refund", 2, add_bucket_refund, SCRIPT_BUCKET_REFUND},
    [STEP_SLOTS_REFUND] = {"slots_refund", 2, add_slots_refund, SCRIPT_SLOTS_REFUND},
    [STEP_WINDOW_REFUND] = {"window_refund", 2, add_window_refund, SCRIPT_WINDOW_REFUND},
    [STEP_BUCKET] = {"bucket", 1, add_bucket, SCRIPT_BUCKET},
    [STEP_DAY] = {"day", 2, add_day, SCRIPT_DAY},
    [STEP_LOG] = {"log", 2, add_log, SCRIPT_LOG},
    [STEP_PLACES] = {"places", 3, add_places, SCRIPT_PLACES, put_place},
    [STEP_SLOTS] = {"slots", 3, add_slots, SCRIPT_SLOTS},
    [STEP_WINDOW] = {"window", 1, add_window, SCRIPT_WINDOW},
    [STEP_BUCKET_CHUNK] = {"bucket_chunk", 1, command_add_bucket_chunk, SCRIPT_BUCKET_CHUNK},
    [STEP_WINDOW_CHUNK] = {"window_chunk", 1, command_add_window_chunk, SCRIPT_WINDOW_CHUNK},
};

static bool has_first(const struct redis_command *step)
{
	return step->own.swap && step->own.mends;
}

static size_t run_arguments(const struct redis_command *step)
{
	return 2 + kinds[step->own.kind].arguments + (has_first(step) ? 7 : 0);
}

/* The arguments of so many steps that are one run. */
static void add_arguments(struct buffer *out, struct redis_command *const *steps, size_t n)
{
	const struct kind *kind = &kinds[steps[0]->own.kind];

	if (kind->add)
		kind->add(out, steps[0]);
	if (kind->put)
		add_column(out, steps, n, kind->put);
}

static void add_run(struct buffer *out, struct redis_command *const *steps, size_t n)
{
	const struct redis_command *step = steps[0];

	if (has_first(step)) {
		add_slice(out, SLICE("first"));
		add_number(out, 1);
		add_swap(out, step);
	}
	add_slice(out, slice_of(kinds[step->own.kind].name));
	add_number(out, n);
	add_arguments(out, steps, n);
}

/* Calls */

static bool is_same_call(const struct algo_call *a, const struct algo_call *b)
{
	return a->op == b->op && a->until_ns == b->until_ns && a->replaces == b->replaces;
}

static bool is_alike(const struct redis_command *a, const struct redis_command *b)
{
	if (a->limit != b->limit || a->own.kind != b->own.kind || a->group != 0 || b->group != 0 ||
	    command_knows_chunks(a))
		return false;
	if (kinds[a->own.kind].put)
		return true;
	return a->call.op != ALGO_REFUND && !a->own.swap && !b->own.swap && a->repeat == b->repeat &&
	       a->call.cost == b->call.cost &&
	       (!command_is_listed(a) || is_same_call(&a->call, &b->call)) &&
	       a->call.max_wait_ns == b->call.max_wait_ns && !a->own.clock_ns && !b->own.clock_ns;
}

/* The end of the run, or of the group, that begins at `first`. */
static size_t end_of(struct redis_command *const *steps, size_t n, size_t first)
{
	uint32_t group = steps[first]->group;
	size_t end = first + 1;

	while (end < n && (group ? steps[end]->group == group : is_alike(steps[first], steps[end])))
		end++;
	return end;
}

/* Not of all its bytes: of its length, both ends and the middle. */
static size_t hash_name(struct slice name)
{
	uint64_t words[3] = {0}, hash = name.len;

	for (size_t i = 0; i < 3; i++) {
		size_t len = name.len < sizeof *words ? name.len : sizeof *words;

		memcpy(&words[i], name.data + (name.len - len) * i / 2, len);
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	}
	return (size_t)(hash >> 32) % KEYS_HASHED;
}

/* Whether all values can be read before the first step, and some are: lists are not. */
static bool can_read_ahead(struct redis_command *const *steps, size_t n)
{
	struct slice seen[KEYS_HASHED];
	bool has_text = false;

	memset(seen, 0, sizeof seen);
	for (size_t i = 0; i < n; i++) {
		size_t at = hash_name(steps[i]->key);

		for (; seen[at].data; at = (at + 1) % KEYS_HASHED)
			if (slice_equal(seen[at], steps[i]->key))
				return false;
		seen[at] = steps[i]->key;
		if (steps[i]->own.swap)
			return false;
		has_text |= !command_is_listed(steps[i]);
	}
	return has_text;
}

static enum script script_of(struct redis_command *const *steps, size_t n)
{
	enum script script = kinds[steps[0]->own.kind].script;

	bool knows_chunks = false;

	for (size_t i = 0; i < n; i++) {
		knows_chunks |= command_knows_chunks(steps[i]);
		if (kinds[steps[i]->own.kind].script != script || has_first(steps[i]))
			script = SCRIPT_ANY;
	}
	return script == SCRIPT_ANY && knows_chunks ? SCRIPT_EVERY : script;
}

/* Whether all steps are one run, of a kind that has a script for that alone. */
static bool is_alone(struct redis_command *const *steps, size_t n, enum script script, bool ahead)
{
	return script < SCRIPT_ANY && (ahead || command_is_listed(steps[0])) && !steps[0]->group &&
	       end_of(steps, n, 0) == n;
}

/* For tests: in front of the arguments. */
static void add_time(struct buffer *out, const struct redis_command *step)
{
	char text[1 + TIME_DIGITS_MAX] = "@";

	if (step->is_given)
		add_slice(out, (struct slice){text, (size_t)(format_u64(text + 1, step->at.now_ns) - text)});
}

/* How many words the runs of a call have. */
static size_t count_words(struct redis_command *const *steps, size_t n)
{
	size_t words = 0, end;

	for (size_t i = 0; i < n; i = end) {
		end = end_of(steps, n, i);
		words += steps[i]->group ? 2 : run_arguments(steps[i]);
		for (size_t j = i; j < end && steps[i]->group; j++)
			words += run_arguments(steps[j]);
	}
	return words;
}

static void add_runs(struct buffer *out, struct redis_command *const *steps, size_t n, bool ahead)
{
	size_t end;

	add_slice(out, ahead ? SLICE("") : SLICE("1"));
	for (size_t i = 0; i < n; i = end) {
		end = end_of(steps, n, i);
		if (!steps[i]->group) {
			add_run(out, steps + i, end - i);
			continue;
		}
		add_slice(out, SLICE("group"));
		add_number(out, end - i);
		for (size_t j = i; j < end; j++)
			add_run(out, steps + j, 1);
	}
}

const struct script_text *command_probe(void)
{
	return &script_probe;
}

/* A call of its own. */
static void add_exchange(const struct redis_command *step, const struct script_text *call,
                         struct buffer *out)
{
	buffer_add_text(out, "*");
	buffer_add_u64(out, 3 + EXCHANGE_KEYS + step->is_given + exchange_words(step->exchange));
	buffer_add_text(out, "\r\n$7\r\nEVALSHA\r\n");
	add_slice(out, slice_of(call->sha));
	add_number(out, EXCHANGE_KEYS);
	exchange_write_keys(step->key, out);
	add_time(out, step);
	exchange_write(step->exchange, out);
}

int command_write(struct redis_command *const *steps, size_t n, struct buffer *out,
                  struct script_text *call)
{
	size_t start = out->len;
	const struct kind *kind;
	enum script script;
	bool ahead, alone;

	if (steps[0]->exchange) {
		*call = steps[0]->exchange->subject == EXCHANGE_REPORTS ? script_reports : script_fleet;
		add_exchange(steps[0], call, out);
		if (!out->failed)
			return WEIR_OK;
		out->len = start;
		return WEIR_ENOMEM;
	}
	ahead = can_read_ahead(steps, n);
	for (size_t i = 0; i < n; i++)
		steps[i]->own.kind = (unsigned char)kind_of(steps[i]);
	kind = &kinds[steps[0]->own.kind];
	script = script_of(steps, n);
	alone = is_alone(steps, n, script, ahead);
	*call = alone ? scripts_alone[script] : scripts_of_runs[script];
	buffer_add_text(out, "*");
	buffer_add_u64(out, 3 + n + steps[0]->is_given + (alone ? kind->arguments : 1 + count_words(steps, n)));
	buffer_add_text(out, "\r\n$7\r\nEVALSHA\r\n");
	add_slice(out, slice_of(call->sha));
	add_number(out, n);
	for (size_t i = 0; i < n; i++)
		add_slice(out, steps[i]->key);
	add_time(out, steps[0]);
	if (alone)
		add_arguments(out, steps, n);
	else
		add_runs(out, steps, n, ahead);
	if (!out->failed)
		return WEIR_OK;
	out->len = start;
	return WEIR_ENOMEM;
}
