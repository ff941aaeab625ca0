/*
 * attack: sends a flood of new keys through a table of a million, in virtual time, and measures
 * what that gains offenders.
 *
 * Offenders ask ten times what their limit grants, honest keys half of it, and each
 * key of the flood once. Beside every offender runs a limiter that forgets nothing:
 * what the table grants and this one does not is the gain of the attack.
 *
 * docs/design/key-table.md, "Under attack", says what is expected of it and why.
 * Prints `name value unit` lines; fails when the table does worse than that.
 */
#include <stdbool.h>
#include <string.h>

#include <weir/limiter.h>

#include "measure.h"

#define CAPACITY  1000000
#define OFFENDERS 1000
#define HONEST    10000
#define MINUTE_NS (60 * UINT64_C(1000000000))

/* One offender asks in each tick, one honest key in every other: 1000 and 50 a minute. */
#define TICK_NS        (MINUTE_NS / 1000 / OFFENDERS)
#define HONEST_TICKS   2
#define FLOOD_PER_TICK 200 /* 3.3 million a second */
#define START_NS       (UINT64_C(1800000000) * 1000000000)

/* Grants of more than this in a minute are more than an offender asks. */
#define ASKED_PER_MINUTE 1001

struct key {
	char kind[12];
	uint64_t number;
};

struct offender {
	weir_limiter *unforgetting;
	uint64_t granted, due;            /* by the table, by the limiter */
	uint64_t times[ASKED_PER_MINUTE]; /* of the last grants, as a ring */
};

struct scenario {
	const char *name;
	struct weir_rate flood;
	uint64_t gain; /* what an offender may get beyond its due, at most */
};

struct attack {
	weir_table *table;
	weir_limit *limit, *flood_limit;
	struct offender offenders[OFFENDERS];
	uint64_t flood_ticks, most_per_minute, honest_denied;
};

static const struct weir_limit_options per_minute = {.name = "api",
                                                     .rate = {100, 1, WEIR_UNIT_MINUTE}};

static bool ask(struct attack *attack, const char *kind, uint64_t number, uint64_t now_ns)
{
	struct key key = {.number = number};
	struct weir_decision d;

	memcpy(key.kind, kind, strnlen(kind, sizeof key.kind));
	return weir_acquire(attack->table, attack->limit, (struct weir_key){&key, sizeof key}, 1,
	                    now_ns, &d) == 0 &&
	       d.allowed;
}

static void offend(struct attack *attack, uint64_t i, uint64_t now_ns)
{
	struct offender *offender = &attack->offenders[i];
	uint64_t n = offender->granted, in_minute = 1;
	struct weir_decision d;

	weir_limiter_acquire(offender->unforgetting, 1, now_ns, &d);
	offender->due += d.allowed;
	if (!ask(attack, "offender", i, now_ns))
		return;
	while (in_minute <= n && in_minute < ASKED_PER_MINUTE &&
	       now_ns - offender->times[(n - in_minute) % ASKED_PER_MINUTE] < MINUTE_NS)
		in_minute++;
	if (in_minute > attack->most_per_minute)
		attack->most_per_minute = in_minute;
	offender->times[n % ASKED_PER_MINUTE] = now_ns;
	offender->granted = n + 1;
}

static void flood(struct attack *attack, uint64_t tick, uint64_t now_ns)
{
	struct weir_request requests[FLOOD_PER_TICK];
	struct weir_decision d[FLOOD_PER_TICK];
	struct key keys[FLOOD_PER_TICK];

	for (uint64_t i = 0; i < FLOOD_PER_TICK; i++) {
		keys[i] = (struct key){"fresh", tick * FLOOD_PER_TICK + i};
		requests[i] =
		    (struct weir_request){attack->flood_limit, {&keys[i], sizeof keys[i]}, 1, WEIR_OK};
	}
	weir_acquire_batch(attack->table, requests, FLOOD_PER_TICK, now_ns, d);
}

/* Offenders arrive one after another while the flood runs, and stay a minute after it. */
static void run(struct attack *attack, const struct scenario *scenario)
{
	uint64_t ticks = attack->flood_ticks + MINUTE_NS / TICK_NS, start_ns = measure_now_ns();
	struct weir_table_stats stats;

	for (uint64_t tick = 0; tick < ticks; tick++) {
		uint64_t now_ns = START_NS + tick * TICK_NS, offender = tick % OFFENDERS;
		uint64_t arrived = attack->flood_ticks * offender / OFFENDERS;

		if (tick >= arrived)
			offend(attack, offender, now_ns);
		if (tick % HONEST_TICKS == 0)
			attack->honest_denied += !ask(attack, "honest", tick / HONEST_TICKS % HONEST, now_ns);
		if (tick < attack->flood_ticks)
			flood(attack, tick, now_ns);
		if (tick == attack->flood_ticks) {
			uint64_t requests = tick * FLOOD_PER_TICK;

			printf("attack_%s_flood_request %.2f ns\n", scenario->name,
			       (double)(measure_now_ns() - start_ns) / (double)requests);
			weir_table_stats(attack->table, now_ns, &stats);
			printf("attack_%s_fill %.2f %%\n", scenario->name,
			       100 * (double)stats.live / (double)stats.cells);
			printf("attack_%s_evicted %.2f %%\n", scenario->name,
			       100 * (double)stats.evictions / (double)requests);
		}
	}
}

/* Whether it came out as promised. */
static bool judge(const struct attack *attack, const struct scenario *scenario)
{
	uint64_t gain = 0;

	for (int i = 0; i < OFFENDERS; i++)
		if (attack->offenders[i].granted > attack->offenders[i].due + gain)
			gain = attack->offenders[i].granted - attack->offenders[i].due;
	printf("attack_%s_offender_most %llu /minute\n", scenario->name,
	       (unsigned long long)attack->most_per_minute);
	printf("attack_%s_offender_gain %llu grants\n", scenario->name, (unsigned long long)gain);
	printf("attack_%s_honest_denied %llu requests\n", scenario->name,
	       (unsigned long long)attack->honest_denied);
	fflush(stdout);
	return gain <= scenario->gain && attack->honest_denied == 0;
}

static bool play(const struct scenario *scenario, uint64_t fresh_keys)
{
	static const uint8_t secret[16] = "the same always";
	const struct weir_limit_options flood_options = {.name = "flood", .rate = scenario->flood};
	struct attack *attack = calloc(1, sizeof *attack);
	bool ready, good = false;

	if (!attack)
		return false;
	attack->flood_ticks = fresh_keys / FLOOD_PER_TICK;
	ready = weir_table_open(&(struct weir_table_options){.capacity = CAPACITY, .secret = secret},
	                        &attack->table, NULL) == 0 &&
	        weir_limit_open(&per_minute, &attack->limit, NULL) == 0 &&
	        weir_limit_open(&flood_options, &attack->flood_limit, NULL) == 0;
	for (int i = 0; i < OFFENDERS; i++)
		ready =
		    ready && weir_limiter_open(&per_minute, &attack->offenders[i].unforgetting, NULL) == 0;
	if (ready) {
		run(attack, scenario);
		good = judge(attack, scenario);
	}
	for (int i = 0; i < OFFENDERS; i++)
		weir_limiter_close(attack->offenders[i].unforgetting);
	weir_limit_close(attack->flood_limit);
	weir_limit_close(attack->limit);
	weir_table_close(attack->table);
	free(attack);
	return good;
}

int main(int argc, char **argv)
{
	/* The flood's states reach 0.6 s ahead, less than an offender's from its second grant on;
	 * or a day, and nothing is promised. */
	static const struct scenario scenarios[] = {
	    {"short", {100, 1, WEIR_UNIT_MINUTE}, 1},
	    {"long", {1, 1, WEIR_UNIT_DAY}, UINT64_MAX},
	};
	bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0, good = true;

	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
		good &= play(&scenarios[i], quick ? 5000000 : 100000000);
	if (!good)
		fputs("the attack gained more than docs/design/key-table.md says\n", stderr);
	return !good;
}
