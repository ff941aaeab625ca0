/*
 * evictions: measures how many insertions cost another key its state in a full table.
 *
 * In virtual time, as many keys begin as end: first while the table fills, then in steady state,
 * with keys of one lifetime and of many. A last run has more live keys: 80% of the cells. Prints
 * `name value unit` lines.
 */
#include <weir/weir.h>

#include "measure.h"

#define CAPACITY 1000000
#define DAY_NS   (UINT64_C(86400) * 1000000000)
#define START_NS (UINT64_C(1800000000) * 1000000000)
#define COSTS    100
#define LAPS     5 /* lives are two laps long at most */

/* Since `*before`, in percent of CAPACITY insertions. */
static double evicted(weir_table *table, uint64_t *before)
{
	struct weir_table_stats stats;
	uint64_t n;

	weir_table_stats(table, START_NS, &stats);
	n = stats.evictions - *before;
	*before = stats.evictions;
	return 100.0 * (double)n / CAPACITY;
}

/*
 * A cost of COSTS keeps a key alive for a day, less for as much less. Keys follow one
 * another so that `alive` of them come in the mean of their lives.
 */
static int change(const char *name, uint64_t least_cost, uint64_t alive)
{
	static const uint8_t secret[16] = "the same always";
	const struct weir_limit_options options = {.rate = {COSTS, 1, WEIR_UNIT_DAY}};
	uint64_t seed = UINT64_C(0x9e3779b97f4a7c15), before = 0, key = 0;
	uint64_t gap_ns = DAY_NS / COSTS * (least_cost + COSTS) / 2 / alive;
	weir_table *table = NULL;
	weir_limit *limit = NULL;
	struct weir_table_stats stats;
	struct weir_decision d;
	double percent = 0;

	if (weir_table_open(&(struct weir_table_options){.capacity = CAPACITY, .secret = secret},
	                    &table, NULL) != 0 ||
	    weir_limit_open(&options, &limit, NULL) != 0) {
		weir_table_close(table);
		return 1;
	}
	for (int lap = 0; lap < LAPS; lap++) {
		for (int i = 0; i < CAPACITY; i++, key++)
			weir_acquire(table, limit, (struct weir_key){&key, sizeof key},
			             least_cost + measure_draw_below(&seed, COSTS + 1 - least_cost),
			             START_NS + key * gap_ns, &d);
		percent = evicted(table, &before);
		if (lap == 0 && alive == CAPACITY && least_cost == COSTS)
			printf("evicted_filling %.4f %%\n", percent);
	}
	weir_table_stats(table, START_NS + key * gap_ns, &stats);
	printf("filled_%s %.2f %%\n", name, 100 * (double)stats.live / (double)stats.cells);
	printf("evicted_%s %.4f %%\n", name, percent);
	weir_limit_close(limit);
	weir_table_close(table);
	return 0;
}

int main(void)
{
	return change("lives_alike", COSTS, CAPACITY) || change("lives_mixed", 1, CAPACITY) ||
	       change("beyond_capacity", COSTS, CAPACITY / 100 * 102);
}
