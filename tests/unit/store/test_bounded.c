/*
 * No request touches more than 10,000 cache lines, whatever it asks of whichever limit, but of those
 * named by `may_take_longer`.
 *
 * The table, rows and stores are compiled for this program so that each access to a cell is
 * counted (base/cell.h). All algorithms are taken from their list, with the greatest numbers that
 * their parameters allow, and each call is made on a key that is full, in a process of its own, so
 * that all find the same state. An access counts unless it is to one of the three lines touched last
 * (a head is looked at before each swap in its row): so one pass over a row counts each line once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/cell.h"

#define NOW   (UINT64_C(19675) * NS_PER_DAY + NS_PER_DAY / 2)
#define BOUND 10000 /* lines */
#define KEY   "key", 3

/* Records of a key. With a sanitizer a fork and a full key take long, and fewer lines tell nothing. */
#ifdef __SANITIZE_ADDRESS__
enum { MOST = 5000, HAS_ALL_STATES = false };
#else
enum { MOST = 10000, HAS_ALL_STATES = true };
#endif

/* The lines touched last, the newest first, and how many there were. */
static struct {
	uintptr_t last[3];
	uint64_t lines;
} touched;

void cell_touch(const struct cell *cell)
{
	uintptr_t line = (uintptr_t)cell / 64;

	unsigned i = 0;

	while (i < 2 && touched.last[i] != line)
		i++;
	touched.lines += touched.last[i] != line;
	for (; i > 0; i--)
		touched.last[i] = touched.last[i - 1];
	touched.last[0] = line;
}

/* A key of a limit that has all that it can have. */
static struct {
	weir_table *table;
	weir_limit *limit;
	const char *name;
	uint64_t now_ns;
	uint64_t quota;
	struct weir_permit permits[MOST];
	size_t count;
} full;

/* Of the process that made the call. */
static struct {
	uint64_t lines;
} *result;

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

static uint64_t number_of(const struct algo_parameter *row, struct variant variant)
{
	if (strcmp(row->name, "keys") == 0)
		return 40;
	if (strcmp(row->name, "minimum") == 0 && variant.number & 1) /* it trips, or never does */
		return 0;
	if (strcmp(row->name, "calls") == 0 && variant.number & 2)
		return 0;
	return row->max;
}

/* Sets a parameter to the greatest value that goes with those before it. */
static void set(const struct algo_parameter *row, struct variant variant,
                struct weir_limit_options *options, struct weir_health_options *health)
{
	struct weir_limit_options before = *options;
	struct weir_health_options health_before = *health;
	uint64_t count = variant.number & 4 ? ALGO_COUNT_MAX : MOST;

	switch (row->type) {
	case ALGO_NUMBER:
		parameter_set(row, number_of(row, variant), options);
		break;
	case ALGO_RATE:
	case ALGO_CALENDAR_RATE:
		options->rate = (struct weir_rate){u64_min(count, row->max), 1, WEIR_UNIT_HOUR};
		break;
	case ALGO_WORD:
		memcpy(parameter_place(row, options), &(unsigned){variant.number / 8}, sizeof(unsigned));
		break;
	default:
		break;
	}
	if (!is_fine(options)) {
		*options = before;
		*health = health_before;
	}
}

static struct weir_limit_options options_of(const struct algorithm *algorithm,
                                            struct variant variant,
                                            struct weir_health_options *health)
{
	struct weir_limit_options options = {.algorithm = algorithm->id};

	*health = (struct weir_health_options){0};
	if (algorithm->judges)
		options.health = health;
	for (const struct algo_parameter *row = algorithm->parameters; row->name; row++)
		if (row->required && row->type == ALGO_NUMBER)
			parameter_set(row, 1, &options);
		else if (row->required && row->type != ALGO_DECIMAL)
			options.rate = (struct weir_rate){1, 1, WEIR_UNIT_HOUR};
	for (const struct algo_parameter *row = algorithm->parameters; row->name; row++)
		set(row, variant, &options, health);
	return options;
}

/* States */

static struct weir_decision peek(void)
{
	struct weir_decision d;

	assert_int_equal(weir_peek(full.table, full.limit, KEY, 1, full.now_ns, &d), WEIR_OK);
	return d;
}

static void report(const struct weir_permit *permit, enum weir_outcome outcome)
{
	weir_report(full.table, full.limit, KEY, permit, outcome, NS_PER_MS, full.now_ns);
}

/* Takes as many permits as there are, `step_ns` apart. */
static void fill(uint64_t step_ns)
{
	uint64_t cost = u64_max(full.quota / MOST, 1);
	struct weir_decision d;

	for (full.count = 0; full.count < MOST; full.count++, full.now_ns += step_ns)
		if (weir_acquire_permit(full.table, full.limit, KEY, cost, full.now_ns, &d,
		                        &full.permits[full.count]) != WEIR_OK ||
		    !d.allowed)
			break;
}

/* Opens the limit, with some results and a key that is full. */
static void begin(const struct algorithm *algorithm, struct variant variant, bool at_once)
{
	struct weir_health_options health;
	struct weir_limit_options options = options_of(algorithm, variant, &health);
	struct weir_decision d;

	full.name = algorithm->name;
	full.now_ns = NOW;
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 100}, &full.table,
	                                 NULL), WEIR_OK);
	assert_int_equal(weir_limit_open(&options, &full.limit, NULL), WEIR_OK);
	for (unsigned i = 0; algorithm->judges && i < 1000; i++) {
		struct weir_permit permit;

		if (weir_acquire_permit(full.table, full.limit, KEY, 1, full.now_ns, &d, &permit) == 0)
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

	weir_acquire_permit(full.table, full.limit, KEY, u64_max(full.quota * share / 100, 1),
	                    full.now_ns, &d, &permit);
}

static void ask(unsigned priority)
{
	struct weir_decision d;

	weir_ask(full.table, full.limit, KEY,
	         &(struct weir_ask){.priority = priority, .now_ns = full.now_ns}, &d, NULL);
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
	weir_report(full.table, full.limit, KEY, permit_at(share), WEIR_OUTCOME_SUCCESS, 0, full.now_ns);
}

static void report_failure(unsigned share)
{
	weir_report(full.table, full.limit, KEY, permit_at(share), WEIR_OUTCOME_FAILURE, 0, full.now_ns);
}

/* A permit of all units, which is given back, whole or in part. */
static void take_and_give_back(unsigned share)
{
	struct weir_permit permit;
	struct weir_decision d;

	weir_reset(full.table, full.limit, KEY, full.now_ns, &d);
	weir_acquire_permit(full.table, full.limit, KEY, full.quota, full.now_ns, &d, &permit);
	permit.cost = u64_max(permit.cost * share / 100, 1);
	touched.lines = 0;
	weir_refund_permit(full.table, full.limit, KEY, &permit, full.now_ns, &d);
}

static const struct {
	const char *name;
	void (*make)(unsigned number);
	unsigned number;
} calls[] = {
    {"acquire of 1", acquire, 0}, {"acquire of half", acquire, 50}, {"acquire of all", acquire, 100},
    {"acquire of priority 9", ask, WEIR_PRIORITY_LOWEST}, {"entry of a batch", in_batch, 100},
    {"peek of 1", look, 0}, {"peek of all", look, 100},
    {"refund of 1", refund, 0}, {"refund of a part", refund, 37}, {"refund of all", refund, 100},
    {"reset", reset, 0},
    {"force open", force, WEIR_FORCE_OPEN}, {"force closed", force, WEIR_FORCE_CLOSED},
    {"end of a force", force, WEIR_FORCE_AUTO},
    {"refund of the first permit", give_back, 0}, {"of one between", give_back, 41},
    {"of the last", give_back, 100},
    {"report of success for the first permit", report_success, 0}, {"for one between", report_success, 41},
    {"for the last", report_success, 100},
    {"report of failure for the first permit", report_failure, 0}, {"for the last", report_failure, 100},
    {"refund of a permit for all", take_and_give_back, 100},
    {"of a part of it", take_and_give_back, 37},
};

static void try_call(size_t i, const char *state)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		touched.lines = 0;
		calls[i].make(calls[i].number);
		result->lines = touched.lines;
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	if (result->lines > BOUND)
		fail_msg("%s, %s: %s touches %lu lines", full.name, state, calls[i].name,
		         (unsigned long)result->lines);
}

static void try_calls(const char *state)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		try_call(i, state);
}

/* At the end of half of the permits, and of all. */
static void try_times(const char *state)
{
	uint64_t now_ns = full.now_ns;

	try_calls(state);
	if (full.count == 0 || !HAS_ALL_STATES)
		return;
	full.now_ns = permit_at(50)->until_ns;
	try_calls("half of the permits over");
	full.now_ns = permit_at(100)->until_ns;
	try_calls("all permits over");
	full.now_ns = now_ns;
}

/* Whether no variant before has the same options. `seen` has those of all before, and is given these. */
static bool is_new(const struct algorithm *algorithm, struct variant variant,
                   struct weir_limit_options seen[VARIANTS], struct weir_health_options seen_health[VARIANTS])
{
	unsigned n = variant.number;

	seen[n] = options_of(algorithm, variant, &seen_health[n]);
	seen[n].health = NULL;
	for (unsigned i = 0; i < n; i++)
		if (memcmp(&seen[n], &seen[i], sizeof seen[n]) == 0 &&
		    memcmp(&seen_health[n], &seen_health[i], sizeof seen_health[n]) == 0)
			return false;
	return true;
}

/* Places: a refund of many units takes a step for each record. */
static bool may_take_longer(const struct algorithm *algorithm)
{
	return algorithm->rows == ALGO_ROWS_PLACES;
}

static void test_every_call_is_bounded(void **state)
{
	static struct weir_limit_options seen[VARIANTS];
	static struct weir_health_options seen_health[VARIANTS];
	const struct algorithm *algorithm;

	(void)state;
	for (size_t i = 0; (algorithm = algorithm_listed(i)); i++) {
		for (unsigned n = 0; n < VARIANTS; n++) {
			struct variant variant = {n};

			if (may_take_longer(algorithm) || !is_new(algorithm, variant, seen, seen_health))
				continue;
			for (unsigned at_once = 0; at_once <= HAS_ALL_STATES; at_once++) {
				begin(algorithm, variant, at_once);
				try_times(at_once ? "taken at once" : "full");
				end();
			}
		}
	}
}

/* A full log that goes on in the widest row, from one of 4,096 cells. */
static void test_a_wider_row_is_bounded(void **state)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                     .rate = {4090, 1, WEIR_UNIT_HOUR}};
	weir_limit *before;

	(void)state;
	full.now_ns = NOW;
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 100}, &full.table,
	                                 NULL), WEIR_OK);
	assert_int_equal(weir_limit_open(&options, &full.limit, NULL), WEIR_OK);
	full.quota = options.rate.count;
	fill(1);
	assert_int_equal(full.count, options.rate.count);
	before = full.limit;
	options.rate.count = MOST;
	assert_int_equal(weir_limit_open(&options, &full.limit, NULL), WEIR_OK);
	touched.lines = 0;
	acquire(0);
	assert_in_range(touched.lines, 4096 / 4, BOUND); /* all is copied */
	assert_int_equal(peek().remaining, MOST - 4090 - 1);
	weir_limit_close(before);
	end();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_call_is_bounded),
	    cmocka_unit_test(test_a_wider_row_is_bounded),
	};

	result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests_name("store/bounded", tests, NULL, NULL);
}
