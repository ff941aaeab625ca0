/*
 * insert.c: inserts a key into the key table, so that threads which insert the same key at once end
 * with one cell.
 *
 * A key may be in any cell of a few sets, its candidates; its cell has its tag, a part of its hash.
 * A thread first reserves a cell by a *claim* with the tag (1), removes other claims of the tag
 * (2), then replaces its claim by the key's state (3). If no cell is free, it evicts another key.
 * The protocol and its proof are in docs/design/key-table.md ("Insertion"); the step numbers below
 * are the ones there.
 */
#include "table/table.h"

#include "base/os/fence.h"

/* A claim expires after this time, because its thread may have stopped or died before step 3. */
#define CLAIM_NS (1 * NS_PER_MS)

static const struct cell empty = {0, 0};

/*
 * Makes a claim that differs from every other: it has the table's next number and a time in
 * nanoseconds. A counter of each thread would not do, because after a fork two processes have it.
 */
static struct cell claim_make(struct table *table, uint32_t tag, uint64_t now_ns)
{
	uint64_t number = __atomic_fetch_add(&table->header->claims, 1, __ATOMIC_RELAXED);

	return cell_make(tag, now_ns + CLAIM_NS, (uint32_t)number, CELL_CLAIM);
}

/*
 * The loss if a cell is overwritten, least first: an empty cell, the cell that expired longest ago,
 * the live cell that expires soonest. Among live cells a bucket whose parameters came with the
 * request goes first, because its sender chooses how far ahead it expires. A pinned cell is never
 * overwritten. Live claims come last, because two keys that overwrite each other's claims make no
 * progress.
 */
#define LOSS_CLAIM      INT64_MAX
#define LOSS_PINNED     (INT64_MAX - 1)
#define LOSS_CONFIGURED (INT64_C(1) << CELL_UNTIL_BITS)

/* Whether a cell is a pinned state. Among one-word states that generation means CELL_ADHOC. */
static bool is_pinned_state(const struct table *table, struct cell cell)
{
	return table->is_wide && cell_is_pinned(cell);
}

/* Returns how much is lost if the cell is overwritten; the cell of least loss is evicted. */
static int64_t eviction_loss(const struct table *table, struct cell cell, uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	if (cell_is_empty(cell))
		return INT64_MIN;
	if (ahead <= 0)
		return ahead;
	if (cell_is_claim(cell))
		return LOSS_CLAIM;
	if (is_pinned_state(table, cell))
		return LOSS_PINNED;
	return cell_generation(cell) == CELL_ADHOC ? ahead : ahead + LOSS_CONFIGURED;
}

/* Whether this is the loss of a live state that may be evicted. */
static bool loss_is_of_state(int64_t loss)
{
	return loss > 0 && loss < LOSS_PINNED;
}

/*
 * Step 1: chooses the cell to claim. The first set with empty or expired cells gives the one of
 * least loss. (An expired key often returns, and if its cell is still there it needs no insertion.)
 * Without such a set, the cell of least loss in all sets is chosen, and among equals the one with
 * the least word, which counts units in many states.
 */
static struct observed_cell choose_victim(const struct table *table,
                                          const struct table_position *position, uint64_t now_ns)
{
	struct cell *run = table_run(table, position);
	struct observed_cell least = {NULL, empty};
	int64_t least_loss = LOSS_CLAIM;

	for (unsigned i = 0; i < TABLE_CANDIDATES; i++) {
		struct cell *cell = table_cell(position, run, i);
		struct observed_cell candidate = {cell, cell_load(cell, table->load_is_atomic)};
		int64_t loss = eviction_loss(table, candidate.value, now_ns);
		bool has_less_in_use =
		    loss == least_loss && cell_word(candidate.value) < cell_word(least.value);

		if (!least.cell || loss < least_loss || has_less_in_use) {
			least = candidate;
			least_loss = loss;
		}
		if (least_loss <= 0 && (i + 1) % TABLE_SET_CELLS == 0)
			break; /* the set has an empty or expired cell */
	}
	return least;
}

/* The cells that a new key may overwrite. */
struct candidates {
	size_t count;
	struct observed_cell cells[TABLE_CANDIDATES];
};

/* Removes the candidate of least loss, and returns it. */
static struct observed_cell pop_least_loss(const struct table *table, struct candidates *from,
                                           uint64_t now_ns)
{
	struct observed_cell popped;
	size_t least = 0;

	for (size_t i = 1; i < from->count; i++)
		if (eviction_loss(table, from->cells[i].value, now_ns) <
		    eviction_loss(table, from->cells[least].value, now_ns))
			least = i;
	popped = from->cells[least];
	from->cells[least] = from->cells[--from->count];
	return popped;
}

/*
 * Step 1, if no cell was expired and an eviction policy weighs states. Weighing may read other
 * memory. Candidates are therefore weighed from the least loss on, and the first of weight 0 or 1
 * is chosen: in a flood of new keys that is one of the first. A cell that was emptied or has
 * expired meanwhile has weight 0. Returns no cell if all are pinned or claimed.
 */
static struct observed_cell choose_lightest(const struct table *table,
                                            const struct table_position *position, uint64_t now_ns,
                                            const struct eviction_policy *policy)
{
	struct cell *run = table_run(table, position);
	struct observed_cell lightest = {NULL, empty};
	struct candidates candidates = {.count = 0};
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < TABLE_CANDIDATES; i++) {
		struct cell *cell = table_cell(position, run, i);
		struct observed_cell candidate = {cell, cell_load(cell, table->load_is_atomic)};

		if (eviction_loss(table, candidate.value, now_ns) < LOSS_PINNED)
			candidates.cells[candidates.count++] = candidate;
	}
	while (candidates.count > 0 && least > 1) {
		struct observed_cell candidate = pop_least_loss(table, &candidates, now_ns);
		uint64_t weight = eviction_loss(table, candidate.value, now_ns) <= 0
		                      ? 0
		                      : policy->weight(policy, candidate.cell, candidate.value);

		if (!lightest.cell || weight < least) {
			lightest = candidate;
			least = weight;
		}
	}
	return lightest;
}

/*
 * Step 1: claims a cell, and sets it in `observed`. Returns false if all candidates are pinned or
 * claimed, and one at least is pinned, or if the cell has changed meanwhile. If all are claimed,
 * one of them is overwritten.
 */
static bool claim_victim(struct table *table, const struct table_position *position,
                         struct observed_cell *observed, uint64_t now_ns,
                         const struct eviction_policy *policy)
{
	struct observed_cell victim = choose_victim(table, position, now_ns);
	int64_t loss = eviction_loss(table, victim.value, now_ns);
	struct cell claim;

	if (policy && loss_is_of_state(loss)) {
		struct observed_cell lightest = choose_lightest(table, position, now_ns, policy);

		victim = lightest.cell ? lightest : victim;
		loss = eviction_loss(table, victim.value, now_ns);
	}
	if (loss == LOSS_PINNED)
		return false;
	claim = claim_make(table, position->tag, now_ns);
	if (!cell_swap(victim.cell, victim.value, claim))
		return false;
	fence_behind_swap(); /* all threads see the claim before step 2 reads */
	if (loss_is_of_state(loss))
		__atomic_fetch_add(&table->header->evictions, 1, __ATOMIC_RELAXED);
	*observed = (struct observed_cell){victim.cell, claim};
	return true;
}

/*
 * Resolves a conflict between our claim `observed` and another cell that had its tag. Returns false
 * if our claim was withdrawn, or the other cell changed meanwhile: then the insertion starts over.
 */
static bool remove_other_claim(const struct table *table, struct observed_cell observed,
                               struct cell *cell)
{
	struct cell value = cell_load(cell, table->load_is_atomic);

	if (cell == observed.cell || cell_tag(value) != cell_tag(observed.value))
		return true;
	if (!cell_is_claim(value) || cell < observed.cell) {
		cell_swap(observed.cell, observed.value, empty); /* 2a, 2b: our claim is withdrawn */
		return false;
	}
	return cell_swap(cell, value, empty); /* 2c */
}

/* Step 2: removes all other claims of this tag. Returns false if the insertion must start over. */
static bool remove_other_claims(const struct table *table, const struct table_position *position,
                                struct observed_cell observed)
{
	struct cell *run = table_run(table, position);

	for (unsigned i = 0; i < TABLE_CANDIDATES; i += TABLE_SET_CELLS) {
		struct cell *set = table_cell(position, run, i);

		for (unsigned hits = table_hits(set, position->tag); hits != 0; hits &= hits - 1)
			if (!remove_other_claim(table, observed, &set[__builtin_ctz(hits)]))
				return false;
	}
	return true;
}

/*
 * Stores the state `after`, in the observed cell or by an insertion. Returns false if another
 * thread was faster, or the table is full: the caller starts over.
 */
bool table_store_slow(struct table *table, const struct table_position *position,
                      struct observed_cell observed, struct cell after, uint64_t now_ns,
                      const struct eviction_policy *policy)
{
	if (!observed.cell && !claim_victim(table, position, &observed, now_ns, policy))
		return false;
	return remove_other_claims(table, position, observed) &&
	       cell_swap(observed.cell, observed.value, after); /* 3 */
}

/*
 * Whether a new key finds no cell because its candidates are pinned or claimed. Returns false if
 * all are claimed, because a claim may be overwritten.
 */
bool table_is_full(const struct table *table, const struct table_position *position,
                   uint64_t now_ns)
{
	struct cell *run = table_run(table, position);
	bool has_pinned = false;

	for (unsigned i = 0; i < TABLE_CANDIDATES; i++) {
		struct cell cell = cell_load(table_cell(position, run, i), table->load_is_atomic);

		if (eviction_loss(table, cell, now_ns) < LOSS_PINNED)
			return false;
		has_pinned |= is_pinned_state(table, cell);
	}
	return has_pinned;
}
