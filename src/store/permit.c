/*
 * permit.c: records which permits are outstanding, so that each is redeemed (reported or refunded)
 * once at most: one cell for each, in the table of one-word states.
 *
 *     key      the permit's id and keys, under IDENTITY
 *     until    1 ns before the permit's expiry, so that the permit's cell is evicted before the
 *              states that it has taken from, whose loss would be worse
 *     word     the low half of the id: with the tag, 64 bits distinguish permits
 *
 * An expired cell still shows that its permit is outstanding, until another key overwrites it.
 * Under other parameters the use of the permit may count longer than its cell.
 */
#include "store/permit.h"

#include "store/apply_step.h"

/* The identity of no limit: theirs are hashes. */
#define IDENTITY UINT64_C(0x7065726d69747320)

/* Attempts against faster threads. No permit has so many. */
#define TRIES 100

static struct table_position position_of_permit(const struct store *store, struct permit permit)
{
	return table_position(&memory_of(store)->table,
	                      memory_hash(memory_of(store), IDENTITY, &permit, sizeof permit));
}

static bool find_permit(const struct store *store, struct permit permit,
                        const struct table_position *position, uint64_t now_ns,
                        struct observed_cell *observed)
{
	*observed = memory_find_all(memory_of(store), position, NULL, now_ns);
	return observed->cell && cell_generation(observed->value) == 0 &&
	       cell_word(observed->value) == (uint32_t)permit.id;
}

/* If no cell can be had, the permit is not recorded, and can't be redeemed. */
void permit_record(struct store *store, struct permit permit, uint64_t until_ns, uint64_t now_ns)
{
	struct table_position position = position_of_permit(store, permit);
	struct cell cell = cell_make(position.tag, until_ns - 1, (uint32_t)permit.id, 0);

	for (unsigned tries = 0; tries < TRIES && until_ns > now_ns + 1; tries++)
		if (table_store(&memory_of(store)->table, &position,
		                table_find(&memory_of(store)->table, &position), cell, now_ns, NULL))
			return;
}

bool permit_is_outstanding(const struct store *store, struct permit permit, uint64_t now_ns)
{
	struct table_position position = position_of_permit(store, permit);
	struct observed_cell observed;

	return find_permit(store, permit, &position, now_ns, &observed);
}

/* Removes the permit's record. Returns false if it has none: it ended, or was redeemed before. */
bool permit_redeem(struct store *store, struct permit permit, uint64_t now_ns)
{
	struct table_position position = position_of_permit(store, permit);
	struct observed_cell observed;

	while (find_permit(store, permit, &position, now_ns, &observed))
		if (cell_swap(observed.cell, observed.value, (struct cell){0, 0}))
			return true;
	return false;
}
