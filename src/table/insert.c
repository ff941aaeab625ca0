/*
 * insert.c: gives a key without a cell exactly one.
 *
 * The protocol and its proof are in docs/design/key-table.md; the step numbers below are the
 * ones there.
 */
#include "table/table.h"

#include "base/os/fence.h"

/* A thread that stops between claim and state (or dies) holds a cell this long. */
#define CLAIM_NS (1 * NS_PER_MS)

static const struct cell empty = {0, 0};

/*
 * Unlike any other claim: a number of the table, and a time in nanoseconds. A counter of the
 * thread's own would not do: after a fork two processes have it.
 */
static struct cell claim_make(struct table *table, uint32_t tag, uint64_t now_ns)
{
	uint64_t number = __atomic_fetch_add(&table->header->claims, 1, __ATOMIC_RELAXED);

	return cell_make(tag, now_ns + CLAIM_NS, (uint32_t)number, CELL_CLAIM);
}

/*
 * The loss when a cell is taken, least first: none for an empty cell, then the cell that has been
 * idle for longest, then the cell that will be idle soonest. Among the latter a bucket whose
 * parameters came with the request goes first, because its sender chooses how far ahead it is. A
 * cell that is held is never taken. Claims under way come last: two keys that take each other's
 * claims get nowhere.
 */
#define LOSS_HELD       (INT64_MAX - 1)
#define LOSS_CONFIGURED (INT64_C(1) << CELL_UNTIL_BITS)

static int64_t loss(const struct table *table, struct cell cell, uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	if (cell_is_empty(cell))
		return INT64_MIN;
	if (ahead <= 0)
		return ahead;
	if (cell_is_pinned(cell))
		return table->is_wide ? LOSS_HELD : ahead; /* held, or CELL_ADHOC */
	return cell_is_claim(cell) ? INT64_MAX : ahead + LOSS_CONFIGURED;
}

/*
 * Step 1: chooses the cell to claim. If a set has spent cells, the first such set gives the one
 * of least loss, because an idle key is often asked for again and finds its cell without an
 * insertion if it is still there. If no set has a spent cell, the cell of least loss of all sets is
 * chosen, and among equals the least used.
 */
static struct observed_cell choose(const struct table *table, const struct table_position *position,
                                   uint64_t now_ns)
{
	struct cell *run = table_run(table, position);
	struct observed_cell least = {NULL, empty};
	int64_t least_loss = INT64_MAX;

	for (unsigned i = 0; i < TABLE_CANDIDATES; i++) {
		struct cell *cell = table_cell(position, run, i);
		struct observed_cell observed = {cell, cell_load(cell, table->load_is_atomic)};
		int64_t l = loss(table, observed.value, now_ns);

		if (!least.cell || l < least_loss ||
		    (l == least_loss && cell_word(observed.value) < cell_word(least.value))) {
			least = observed;
			least_loss = l;
		}
		if (least_loss <= 0 && (i + 1) % TABLE_SET_CELLS == 0)
			break;
	}
	return least;
}

/* All spots that a new key may take, by when they are spent. */
struct candidates {
	size_t count;
	struct observed_cell slots[TABLE_CANDIDATES];
};

static struct observed_cell take_soonest(const struct table *table, struct candidates *from,
                                         uint64_t now_ns)
{
	struct observed_cell soonest;
	size_t least = 0;

	for (size_t i = 1; i < from->count; i++)
		if (loss(table, from->slots[i].value, now_ns) <
		    loss(table, from->slots[least].value, now_ns))
			least = i;
	soonest = from->slots[least];
	from->slots[least] = from->slots[--from->count];
	return soonest;
}

/*
 * Step 1, where no cell is spent and a judge says how much a state is worth. Judging may read
 * other memory, so the first cell worth next to nothing is taken: in a flood of fresh keys that
 * is one of the first.
 */
static struct observed_cell choose_lightest(const struct table *table,
                                            const struct table_position *position, uint64_t now_ns,
                                            const struct eviction_policy *judge)
{
	struct cell *run = table_run(table, position);
	struct observed_cell lightest = {NULL, empty};
	struct candidates candidates = {.count = 0};
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < TABLE_CANDIDATES; i++) {
		struct cell *cell = table_cell(position, run, i);
		struct observed_cell observed = {cell, cell_load(cell, table->load_is_atomic)};

		if (loss(table, observed.value, now_ns) < LOSS_HELD)
			candidates.slots[candidates.count++] = observed;
	}
	while (candidates.count > 0 && least > 1) {
		struct observed_cell observed = take_soonest(table, &candidates, now_ns);
		uint64_t weight = loss(table, observed.value, now_ns) <= 0
		                      ? 0
		                      : judge->weight(judge, observed.cell, observed.value);

		if (!lightest.cell || weight < least) {
			lightest = observed;
			least = weight;
		}
	}
	return lightest;
}

static bool claim(struct table *table, const struct table_position *position,
                  struct observed_cell *observed, uint64_t now_ns,
                  const struct eviction_policy *judge)
{
	struct observed_cell victim = choose(table, position, now_ns);
	int64_t lost = loss(table, victim.value, now_ns);
	struct cell mine;

	if (judge && lost > 0 && lost < LOSS_HELD) {
		struct observed_cell lightest = choose_lightest(table, position, now_ns, judge);

		victim = lightest.cell ? lightest : victim;
	}

	if (loss(table, victim.value, now_ns) == LOSS_HELD)
		return false;
	mine = claim_make(table, position->tag, now_ns);
	if (!cell_swap(victim.cell, victim.value, mine))
		return false;
	fence_behind_swap(); /* all see the claim before step 2 looks */
	if (loss(table, victim.value, now_ns) > 0 && !cell_is_claim(victim.value))
		__atomic_fetch_add(&table->header->evictions, 1, __ATOMIC_RELAXED);
	*observed = (struct observed_cell){victim.cell, mine};
	return true;
}

/* For a cell with the tag of `slot`, a claim: whether it is our own, or out of its way by now. */
static bool remove_other(const struct table *table, struct observed_cell observed,
                         struct cell *cell)
{
	struct cell value = cell_load(cell, table->load_is_atomic);

	if (cell == observed.cell || cell_tag(value) != cell_tag(observed.value))
		return true;
	if (!cell_is_claim(value) || cell < observed.cell) {
		cell_swap(observed.cell, observed.value, empty); /* 2a, 2b: ours gives way */
		return false;
	}
	return cell_swap(cell, value, empty); /* 2c */
}

/* Step 2: no other cell of this tag is left, or false. */
static bool alone(const struct table *table, const struct table_position *position,
                  struct observed_cell observed)
{
	struct cell *run = table_run(table, position);

	for (unsigned i = 0; i < TABLE_CANDIDATES; i += TABLE_SET_CELLS) {
		struct cell *set = table_cell(position, run, i);

		for (unsigned hits = table_hits(set, position->tag); hits != 0; hits &= hits - 1)
			if (!remove_other(table, observed, &set[__builtin_ctz(hits)]))
				return false;
	}
	return true;
}

bool table_store_slow(struct table *table, const struct table_position *position,
                      struct observed_cell observed, struct cell after, uint64_t now_ns,
                      const struct eviction_policy *judge)
{
	if (!observed.cell && !claim(table, position, &observed, now_ns, judge))
		return false;
	return alone(table, position, observed) &&
	       cell_swap(observed.cell, observed.value, after); /* 3 */
}

bool table_is_full(const struct table *table, const struct table_position *position,
                   uint64_t now_ns)
{
	struct cell *run = table_run(table, position);
	bool held = false;

	for (unsigned i = 0; i < TABLE_CANDIDATES; i++) {
		struct cell cell = cell_load(table_cell(position, run, i), table->load_is_atomic);

		if (loss(table, cell, now_ns) < LOSS_HELD)
			return false;
		held |= table->is_wide && cell_is_pinned(cell);
	}
	return held;
}
