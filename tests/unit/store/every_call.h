/*
 * every_call.h: makes each call of the library on full keys, for all algorithms.
 *
 * The algorithms come from their list, with the greatest numbers that their parameters allow, and a
 * key has as many permits as possible. The cache lines that a call touches are counted by
 * test_bounded.c, and its time is taken by bench/dearest.c.
 */
#ifndef EVERY_CALL_H
#define EVERY_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"

#define NOW  (UINT64_C(19675) * NS_PER_DAY + NS_PER_DAY / 2)
#define KEY  ((struct weir_key){"key", 3})

/* Records of a key. With a sanitizer a fork and a full key take long, and fewer lines tell nothing. */
#ifdef __SANITIZE_ADDRESS__
enum { MOST = 5000, HAS_ALL_STATES = false };
#else
enum { MOST = 10000, HAS_ALL_STATES = true };
#endif

/* A key of a limit that has all that it can have. */
static struct {
	weir_table *table;
	weir_limit *limit;
	const char *name;
	uint64_t now_ns;
	uint64_t quota;
	struct weir_permit permits[MOST];
	size_t count;
	void (*start)(void); /* what is measured begins here, if not before the call */
} full;

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Options */

enum { WORDS = 5, VARIANTS = 8 * WORDS };

/* Which of the greatest numbers a limit has, and which word (a preset, a method). */
struct variant {
	unsigned number;
};

static bool is_fine(const struct weir_limit_options *options)
{
	weir_limit *limit;

	if (weir_limit_open(options, &limit, NULL) != WEIR_OK)
		return false;
	weir_limit_close(limit);
	return true;
}

static uint64_t number_of(const struct algo_parameter *parameter, struct variant variant)
{
	if (strcmp(parameter->name, "keys") == 0)
		return 40;
	if (strcmp(parameter->name, "minimum") == 0 && variant.number & 1) /* it trips, or never does */
		return 0;
	if (strcmp(parameter->name, "calls") == 0 && variant.number & 2)
		return 0;
	return parameter->max;
}

/* Sets a parameter to the greatest value that goes with those before it. */
static void set(const struct algo_parameter *parameter, struct variant variant,
                struct weir_limit_options *options, union algo_own *own)
{
	struct weir_limit_options before = *options;
	union algo_own own_before = *own;
	uint64_t count = variant.number & 4 ? ALGO_COUNT_MAX : MOST;

	switch (parameter->type) {
	case ALGO_NUMBER:
		parameter_set(parameter, number_of(parameter, variant), options);
		break;
	case ALGO_RATE:
	case ALGO_CALENDAR_RATE:
		options->rate = (struct weir_rate){u64_min(count, parameter->max), 1, WEIR_UNIT_HOUR};
		break;
	case ALGO_WORD:
		memcpy(parameter_writable(parameter, options), &(unsigned){variant.number / 8},
		       sizeof(unsigned));
		break;
	default:
		break;
	}
	if (!is_fine(options)) {
		*options = before;
		*own = own_before;
	}
}

static struct weir_limit_options options_of(const struct algorithm *algorithm,
                                            struct variant variant, union algo_own *own)
{
	struct weir_limit_options options = {.algorithm = algorithm->id};

	*own = (union algo_own){0};
	if (algorithm->own)
		parameter_set_own(algorithm->own, own, &options);
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++)
		if (parameter->required && parameter->type == ALGO_NUMBER)
			parameter_set(parameter, 1, &options);
		else if (parameter->required && parameter->type != ALGO_DECIMAL)
			options.rate = (struct weir_rate){1, 1, WEIR_UNIT_HOUR};
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++)
		set(parameter, variant, &options, own);
	return options;
}

/* States */

static struct weir_decision peek(void)
{
	struct weir_decision d;

	must(weir_peek(full.table, full.limit, KEY, 1, full.now_ns, &d) == WEIR_OK);
	return d;
}

static void report(const struct weir_permit *permit, enum weir_outcome outcome)
{
	weir_report(
	    full.table, full.limit, KEY, permit,
	    &(struct weir_report){.outcome = outcome, .latency_ns = NS_PER_MS, .now_ns = full.now_ns});
}

/* Takes as many permits as there are, `step_ns` apart. */
static void fill(uint64_t step_ns)
{
	uint64_t cost = u64_max(full.quota / MOST, 1);
	struct weir_decision d;

	for (full.count = 0; full.count < MOST; full.count++, full.now_ns += step_ns)
		if (weir_ask(full.table, full.limit, KEY,
		             &(struct weir_ask){
		                 .cost = cost, .now_ns = full.now_ns, .permit = &full.permits[full.count]},
		             &d) != WEIR_OK ||
		    !d.allowed)
			break;
}

static void open_limit(const char *name, const struct weir_limit_options *options)
{
	full.name = name;
	full.now_ns = NOW;
	full.count = 0;
	must(weir_table_open(&(struct weir_table_options){.capacity = 100}, &full.table, NULL) ==
	         WEIR_OK &&
	     weir_limit_open(options, &full.limit, NULL) == WEIR_OK);
}

/* Opens the limit, with some results and a key that is full. */
static void begin(const struct algorithm *algorithm, struct variant variant, bool at_once)
{
	union algo_own own;
	struct weir_limit_options options = options_of(algorithm, variant, &own);
	struct weir_decision d;

	open_limit(algorithm->name, &options);
	for (unsigned i = 0; algorithm->judges && i < 1000; i++) {
		struct weir_permit permit;

		if (weir_ask(full.table, full.limit, KEY,
		             &(struct weir_ask){.now_ns = full.now_ns, .permit = &permit}, &d) == 0)
			report(&permit, WEIR_OUTCOME_SUCCESS);
	}
	d = peek();
	full.quota = d.quota;
	fill(at_once ? 0 : u64_max(d.window_ns / (MOST + MOST / 10), 1));
}

static void end(void)
{
	weir_limit_close(full.limit);
	weir_table_close(full.table);
}

/* Calls: numbers are shares of what is there, in percent. */

static void acquire(unsigned share)
{
	struct weir_permit permit;
	struct weir_decision d;

	weir_ask(full.table, full.limit, KEY,
	         &(struct weir_ask){.cost = u64_max(full.quota * share / 100, 1),
	                            .now_ns = full.now_ns,
	                            .permit = &permit},
	         &d);
}

static void ask(unsigned priority)
{
	struct weir_decision d;

	weir_ask(full.table, full.limit, KEY,
	         &(struct weir_ask){.priority = priority, .now_ns = full.now_ns}, &d);
}

static void in_batch(unsigned share)
{
	struct weir_request request = {full.limit, KEY, u64_max(full.quota * share / 100, 1), 0};
	struct weir_decision d;

	weir_acquire_batch(full.table, &request, 1, full.now_ns, &d);
}

static void look(unsigned share)
{
	struct weir_decision d;

	weir_peek(full.table, full.limit, KEY, u64_max(full.quota * share / 100, 1), full.now_ns, &d);
}

static void refund(unsigned share)
{
	struct weir_decision d;

	weir_refund(full.table, full.limit, KEY, u64_max(full.quota * share / 100, 1), full.now_ns, &d);
}

static void reset(unsigned unused)
{
	struct weir_decision d;

	(void)unused;
	weir_reset(full.table, full.limit, KEY, full.now_ns, &d);
}

static void force(unsigned how)
{
	weir_force(full.table, full.limit, KEY, (enum weir_force)how, 0, full.now_ns);
}

static const struct weir_permit *permit_at(unsigned share)
{
	static const struct weir_permit none;

	return full.count ? &full.permits[(full.count - 1) * share / 100] : &none;
}

static void give_back(unsigned share)
{
	struct weir_decision d;

	weir_refund_permit(full.table, full.limit, KEY, permit_at(share), full.now_ns, &d);
}

static void report_success(unsigned share)
{
	weir_report(full.table, full.limit, KEY, permit_at(share),
	            &(struct weir_report){.now_ns = full.now_ns});
}

static void report_failure(unsigned share)
{
	weir_report(full.table, full.limit, KEY, permit_at(share),
	            &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE, .now_ns = full.now_ns});
}

/* A permit of all units, which is given back, whole or in part. */
static void take_and_give_back(unsigned share)
{
	struct weir_permit permit;
	struct weir_decision d;

	weir_reset(full.table, full.limit, KEY, full.now_ns, &d);
	weir_ask(full.table, full.limit, KEY,
	         &(struct weir_ask){.cost = full.quota, .now_ns = full.now_ns, .permit = &permit}, &d);
	permit.cost = u64_max(permit.cost * share / 100, 1);
	full.start();
	weir_refund_permit(full.table, full.limit, KEY, &permit, full.now_ns, &d);
}

static const struct {
	const char *name;
	void (*make)(unsigned number);
	unsigned number;
} calls[] = {
    {"acquire of 1", acquire, 0},
    {"acquire of half", acquire, 50},
    {"acquire of all", acquire, 100},
    {"acquire of priority 9", ask, WEIR_PRIORITY_LOWEST},
    {"entry of a batch", in_batch, 100},
    {"peek of 1", look, 0},
    {"peek of all", look, 100},
    {"refund of 1", refund, 0},
    {"refund of a part", refund, 37},
    {"refund of all", refund, 100},
    {"reset", reset, 0},
    {"force open", force, WEIR_FORCE_OPEN},
    {"force closed", force, WEIR_FORCE_CLOSED},
    {"end of a force", force, WEIR_FORCE_AUTO},
    {"refund of the first permit", give_back, 0},
    {"of one between", give_back, 41},
    {"of the last", give_back, 100},
    {"report of success for the first permit", report_success, 0},
    {"for one between", report_success, 41},
    {"for the last", report_success, 100},
    {"report of failure for the first permit", report_failure, 0},
    {"for the last", report_failure, 100},
    {"refund of a permit for all", take_and_give_back, 100},
    {"of a part of it", take_and_give_back, 37},
};

#define CALLS (sizeof calls / sizeof *calls)

/* Visits all calls, and those at the end of half of the permits, and of all. */
static void every_time(void (*visit)(size_t call, const char *state), const char *state)
{
	const char *const states[] = {state, "half of the permits over", "all permits over"};
	uint64_t now_ns = full.now_ns;

	for (unsigned i = 0; i < (full.count > 0 && HAS_ALL_STATES ? 3 : 1); i++) {
		if (i > 0)
			full.now_ns = permit_at(50 * i)->until_ns;
		for (size_t call = 0; call < CALLS; call++)
			visit(call, states[i]);
	}
	full.now_ns = now_ns;
}

static bool is_new(const struct algorithm *algorithm, struct variant variant,
                   struct weir_limit_options *seen, union algo_own *seen_own)
{
	unsigned n = variant.number;

	seen[n] = options_of(algorithm, variant, &seen_own[n]);
	if (algorithm->own)
		parameter_set_own(algorithm->own, NULL, &seen[n]);
	for (unsigned i = 0; i < n; i++)
		if (memcmp(&seen[n], &seen[i], sizeof seen[n]) == 0 &&
		    memcmp(&seen_own[n], &seen_own[i], sizeof seen_own[n]) == 0)
			return false;
	return true;
}

/* Visits all calls of an algorithm on keys that are full. */
static void every_call(const struct algorithm *algorithm,
                       void (*visit)(size_t call, const char *state))
{
	static struct weir_limit_options seen[VARIANTS];
	static union algo_own seen_own[VARIANTS];

	for (struct variant variant = {0}; variant.number < VARIANTS; variant.number++) {
		if (!is_new(algorithm, variant, seen, seen_own))
			continue;
		for (unsigned at_once = 0; at_once <= HAS_ALL_STATES; at_once++) {
			begin(algorithm, variant, at_once);
			every_time(visit, at_once ? "taken at once" : "full");
			end();
		}
	}
}

#endif
