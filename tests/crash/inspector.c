/*
 * inspector: prints the state that killed callers have left in a table's file.
 *
 *     inspector FILE RUN
 *
 * It prints a line of numbers for each key of each limit. At the time of the run: the phase, probes
 * in flight, probes that ended well, permits in flight, requests, and accepted requests. Then, as
 * soon as each permit has timed out: the permits in flight, and for a breaker how many denials and
 * probes it takes until it is closed.
 *
 * It uses internal functions, since no public call returns counts and phases.
 */
#include "permit_limits.h"

#include "engine/limit.h"
#include "records/success_counts.h"
#include "records/in_flight.h"
#include "records/breaker_record.h"
#include "records/leases.h"
#include "store/wide/wide.h"

/* A breaker that is not closed after so many calls is stuck. */
#define TRIES 20

struct place {
	struct store *store;
	const struct algo_limit *limit;
	struct store_key key;
	struct breaker_snapshot breaker;
	uint64_t in_flight, requests, accepts;
};

static uint64_t apply(struct place *place, struct algo_call call, uint64_t now_ns,
                      struct algo_decision *out)
{
	const struct algo_limit *by = place->limit;

	return memory_apply(memory_of(place->store), &by, &place->key, &call,
	                    &(struct algo_time){now_ns, 0}, out);
}

static void look(struct place *place, uint64_t now_ns)
{
	struct success_state accepts = {.now_ns = now_ns};
	struct leases_use places = LEASES_USE_NONE;
	struct in_flight_snapshot in_flight;
	struct algo_decision out;
	struct wide_state state;

	apply(place, (struct algo_call){ALGO_PEEK, 1}, now_ns, &out); /* what time has done */
	wide_find(memory_newest(memory_of(place->store), place->limit->identity), &place->key, &state);
	place->breaker = (struct breaker_snapshot){0};
	place->in_flight = place->requests = place->accepts = 0;
	if (!state.at.cell)
		return;
	switch (place->limit->record) {
	case ALGO_RECORD_BREAKER:
		breaker_record_read(place->limit, now_ns, &state.at.record, &place->breaker, NULL);
		place->in_flight = place->breaker.in_flight;
		break;
	case ALGO_RECORD_SUCCESS:
		success_record_advance(place->limit, &state.at.record, &accepts);
		success_record_read(place->limit, &state.at.record, &accepts);
		for (unsigned i = 0; i < place->limit->success.parts; i++) {
			place->requests += accepts.parts[i].requests;
			place->accepts += accepts.parts[i].accepts;
		}
		break;
	case ALGO_RECORD_LEASES:
		leases_read(place->limit, now_ns, state.at.header, &state.at.record, &places);
		place->in_flight = places.held;
		break;
	default:
		in_flight_read(place->limit, now_ns, state.at.header, &state.at.record, &in_flight);
		place->in_flight = in_flight.in_flight;
	}
}

/* All goes well from now on. */
static void close_again(struct place *place, uint64_t now_ns, unsigned *denials, unsigned *probes)
{
	for (unsigned i = 0; i < TRIES && place->breaker.state.phase != BREAKER_CLOSED; i++) {
		struct algo_decision out;
		uint64_t until_ns =
		    apply(place, (struct algo_call){ALGO_ACQUIRE, 1, .permit = i + 1}, now_ns, &out);

		if (out.allowed) {
			apply(place, (struct algo_call){ALGO_REPORT, 1, until_ns, .permit = i + 1}, now_ns,
			      &out);
			++*probes;
		} else {
			now_ns += out.retry_after_ns;
			++*denials;
		}
		look(place, now_ns);
	}
}

static void say(struct place *place, uint64_t now_ns)
{
	unsigned denials = 0, probes = 0;

	look(place, now_ns);
	printf("%d %u %u %ju %ju %ju", place->breaker.state.phase,
	       place->breaker.state.probes_in_flight, place->breaker.state.good,
	       (uintmax_t)place->in_flight, (uintmax_t)place->requests, (uintmax_t)place->accepts);
	/*
	 * Uses counted in parts end with the last use of their part, up to a fifth of their time later.
	 */
	now_ns += TIMEOUT_NS + TIMEOUT_NS / 5 + 1000;
	look(place, now_ns);
	printf(" %ju", (uintmax_t)place->in_flight);
	close_again(place, now_ns, &denials, &probes);
	printf(" %u %u %d\n", denials, probes, place->breaker.state.phase);
}

int main(int argc, char **argv)
{
	struct weir_table_options options = {.capacity = 4000};
	struct weir_table_stats stats;
	struct weir_error error;
	struct place place;
	struct run *run;

	if (argc != 3)
		fail("expected FILE RUN");
	options.path = argv[1];
	run = run_map(argv[2]);
	if (store_open(&options, &place.store, &error) != WEIR_OK)
		fail(error.message);
	store_stats(place.store, run->now_ns, &stats);
	if (stats.evictions > 0)
		fail("keys were evicted: nothing can be compared");
	for (unsigned i = 0; i < PLACES; i++) {
		struct weir_limit_options limit = options_of_limit((int)(i / KEYS));
		char name[24];
		int len = snprintf(name, sizeof name, "k%u", i % KEYS);
		weir_limit *opened;

		if (weir_limit_open(&limit, &opened, &error) != WEIR_OK)
			fail(error.message);
		place.limit = &opened->algo;
		if (store_admit(place.store, place.limit,
		                store_hash(place.store, place.limit->identity, name, (size_t)len),
		                &place.key) != WEIR_OK)
			fail("no table");
		say(&place, run->now_ns);
		weir_limit_close(opened);
	}
	store_close(place.store);
	return 0;
}
