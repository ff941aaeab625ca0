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

/* How scripts know a kind, and how many arguments a run of it has. */
static const struct kind {
	const char *name;
	enum script script;
	unsigned arguments;
} kinds[STEP_KINDS] = {
    [STEP_ASK] = {"read", SCRIPT_ANY, 0},
    [STEP_PASS] = {"pass", SCRIPT_ANY, 0},
    [STEP_READ] = {"read", SCRIPT_ANY, 0},
    [STEP_SWAP] = {"swap", SCRIPT_ANY, SWAP_ARGUMENTS},
    [STEP_LEAVE] = {"leave", SCRIPT_ANY, 2},
    [STEP_RESET] = {"reset", SCRIPT_ANY, 0},
    [STEP_BUCKET_REFUND] = {"bucket_refund", SCRIPT_BUCKET_REFUND, 1},
    [STEP_SLOTS_REFUND] = {"slots_refund", SCRIPT_SLOTS_REFUND, 1},
    [STEP_WINDOW_REFUND] = {"window_refund", SCRIPT_WINDOW_REFUND, 1},
    [STEP_BUCKET] = {"bucket", SCRIPT_BUCKET, 1},
    [STEP_DAY] = {"day", SCRIPT_DAY, 1},
    [STEP_LOG] = {"log", SCRIPT_LOG, 1},
    [STEP_PLACES] = {"places", SCRIPT_PLACES, 2},
    [STEP_SLOTS] = {"slots", SCRIPT_SLOTS, 1},
    [STEP_WINDOW] = {"window", SCRIPT_WINDOW, 1},
    [STEP_BUCKET_CHUNK] = {"bucket_chunk", SCRIPT_BUCKET_CHUNK, 1},
    [STEP_WINDOW_CHUNK] = {"window_chunk", SCRIPT_WINDOW_CHUNK, 1},
};

static bool has_first(const struct redis_command *step)
{
	return step->own.swap && step->own.mends;
}

static size_t run_arguments(const struct redis_command *step)
{
	return 2 + kinds[step->own.kind].arguments + (has_first(step) ? 2 + SWAP_ARGUMENTS : 0);
}

static void add_run(struct buffer *out, struct redis_command *const *steps, size_t n)
{
	const struct redis_command *step = steps[0];

	if (has_first(step)) {
		add_slice(out, SLICE("first"));
		add_number(out, 1);
		command_add_swap(out, step);
	}
	add_slice(out, slice_of(kinds[step->own.kind].name));
	add_number(out, n);
	command_add_arguments(out, steps, n);
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
	if (command_varies(a))
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
		command_add_arguments(out, steps, n);
	else
		add_runs(out, steps, n, ahead);
	if (!out->failed)
		return WEIR_OK;
	out->len = start;
	return WEIR_ENOMEM;
}
