/*
 * reporter: acquires permits from a table's file and reports them, until it is killed.
 *
 *     reporter FILE RUN NUMBER SEED
 *
 * It writes each step, before and after it, to its part of RUN (permit_limits.h). So the permits
 * that it held when it was killed are known, except for its last step. It ends by itself if a
 * permit that it holds can't be reported, or if one can that has timed out.
 *
 * The backends fail in turns, each at its own time. One permit in thousands is reported too late.
 */
#include "permit_limits.h"

#define FAILING_NS (40 * MS)
#define LATE_NS    (TIMEOUT_NS / 4)

struct calls {
	weir_table *table;
	weir_limit *limits[LIMITS];
	struct run *run;
	struct caller *own;
	unsigned seed;
};

static unsigned chance(struct calls *calls, unsigned most)
{
	return (unsigned)rand_r(&calls->seed) % most;
}

static uint64_t tick(struct calls *calls)
{
	uint64_t step = chance(calls, 4000);

	return atomic_fetch_add(&calls->run->now_ns, step) + step;
}

static size_t name_of(char name[24], unsigned place)
{
	return (size_t)snprintf(name, 24, "k%u", place % KEYS);
}

static void acquire(struct calls *calls, unsigned i)
{
	struct caller *own = calls->own;
	unsigned place = chance(calls, PLACES);
	struct weir_decision d;
	char name[24];
	size_t len = name_of(name, place);

	own->permits[i].place = place;
	own->permits[i].step = ASKING;
	if (place / KEYS == THROTTLE)
		own->counts[place % KEYS].asked++;
	if (weir_ask(calls->table, calls->limits[place / KEYS], (struct weir_key){name, len},
	             &(struct weir_ask){.now_ns = tick(calls), .permit = &own->permits[i].permit},
	             &d) != WEIR_OK)
		fail("no decision");
	if (place / KEYS == THROTTLE)
		own->counts[place % KEYS].answered++;
	if (d.reason == WEIR_REASON_NO_ROOM)
		fail("no room");
	own->permits[i].step = d.allowed ? HELD : FREE;
}

static enum weir_outcome outcome_of(struct calls *calls, unsigned place, uint64_t now_ns)
{
	bool failing = (now_ns / FAILING_NS + place) % 2;

	if (chance(calls, 10) < (failing ? 8 : 1))
		return chance(calls, 2) ? WEIR_OUTCOME_FAILURE : WEIR_OUTCOME_TIMEOUT;
	if (place / KEYS == THROTTLE || chance(calls, 8))
		return WEIR_OUTCOME_SUCCESS;
	return WEIR_OUTCOME_IGNORED;
}

static void report(struct calls *calls, unsigned i)
{
	struct caller *own = calls->own;
	unsigned place = own->permits[i].place;
	struct weir_permit permit = own->permits[i].permit;
	uint64_t now_ns = tick(calls);
	enum weir_outcome outcome = outcome_of(calls, place, now_ns);
	bool succeeds = place / KEYS == THROTTLE && outcome == WEIR_OUTCOME_SUCCESS;
	char name[24];
	size_t len = name_of(name, place);
	int status;

	own->permits[i].step = REPORTING;
	if (succeeds)
		own->counts[place % KEYS].succeeds++;
	status = weir_report(calls->table, calls->limits[place / KEYS], (struct weir_key){name, len},
	                     &permit, &(struct weir_report){.outcome = outcome, .now_ns = now_ns});
	if (succeeds && status != WEIR_OK)
		own->counts[place % KEYS].succeeds--;
	else if (succeeds)
		own->counts[place % KEYS].succeeded++;
	if (status == WEIR_OK ? now_ns >= permit.until_ns : status != WEIR_ENOTFOUND)
		fail("a report that is too late counted");
	/* The table forgets a permit a nanosecond before; others may have a later time. */
	if (status == WEIR_ENOTFOUND && calls->run->now_ns + 1 < permit.until_ns) {
		fprintf(stderr, "place %u, %ju ns before its end: ", place,
		        (uintmax_t)(permit.until_ns - now_ns));
		fail("a permit is lost");
	}
	/* One that is too late flies until the last one that is counted with it is over. */
	own->permits[i].step = status == WEIR_OK || now_ns >= permit.until_ns + LATE_NS ? FREE : HELD;
}

/* Each permit is held for some calls, and few until it is too late. */
static void call(struct calls *calls)
{
	unsigned i = chance(calls, PERMITS);
	const struct weir_permit *permit = &calls->own->permits[i].permit;
	uint64_t now_ns = calls->run->now_ns;

	if (calls->own->permits[i].step == FREE)
		acquire(calls, i);
	else if ((permit->id % 4096 != 0 && now_ns < permit->until_ns) ||
	         now_ns >= permit->until_ns + LATE_NS)
		report(calls, i);
	else
		tick(calls);
}

int main(int argc, char **argv)
{
	struct weir_table_options options = {.capacity = 4000};
	struct calls calls = {0};
	struct weir_error error;

	if (argc != 5)
		fail("expected FILE RUN NUMBER SEED");
	options.path = argv[1];
	calls.run = run_map(argv[2]);
	calls.own = &calls.run->callers[atoi(argv[3])];
	calls.seed = (unsigned)strtoul(argv[4], NULL, 10);
	if (weir_table_open(&options, &calls.table, &error) != WEIR_OK)
		fail(error.message);
	for (int i = 0; i < LIMITS; i++) {
		struct weir_limit_options limit = options_of_limit(i);

		if (weir_limit_open(&limit, &calls.limits[i], &error) != WEIR_OK)
			fail(error.message);
	}
	for (;;)
		call(&calls);
}
