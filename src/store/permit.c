/*
 * permit.c: a cell for each permit that is held.
 *
 *     key      its id and its keys, of the limit below
 *     until    a little before that of the permit: where cells are scarce it makes room
 *              before the states that it is of, which would be worth more than it
 *     word     the id's low half: with the tag, 64 bits tell permits apart
 *
 * A cell whose time is over still says that its permit was not given back, until it makes room for
 * another key. What the permit is of may end later by then, under other parameters.
 */
#include "store/permit.h"

#include "store/apply_step.h"

/* The identity of no limit: theirs are hashes. */
#define IDENTITY UINT64_C(0x7065726d69747320)

/* Tries against faster threads, before it gives up; no permit meets so many. */
#define TRIES 100

static struct table_position position_of(const struct store *store, struct permit permit)
{
	return table_position(&memory_of(store)->table,
	                      memory_hash(memory_of(store), IDENTITY, &permit, sizeof permit));
}

static bool find(const struct store *store, struct permit permit,
                 const struct table_position *position, uint64_t now_ns,
                 struct observed_cell *observed)
{
	*observed = memory_find_all(memory_of(store), position, NULL, now_ns);
	return observed->cell && cell_generation(observed->value) == 0 &&
	       cell_word(observed->value) == (uint32_t)permit.id;
}

/* If there is no room, and none can be made, the permit is not held. */
void permit_record(struct store *store, struct permit permit, uint64_t until_ns, uint64_t now_ns)
{
	struct table_position position = position_of(store, permit);
	struct cell cell = cell_make(position.tag, until_ns - 1, (uint32_t)permit.id, 0);

	for (unsigned tries = 0; tries < TRIES && until_ns > now_ns + 1; tries++)
		if (table_store(&memory_of(store)->table, &position,
		                table_find(&memory_of(store)->table, &position), cell, now_ns, NULL))
			return;
}

bool permit_is_outstanding(const struct store *store, struct permit permit, uint64_t now_ns)
{
	struct table_position position = position_of(store, permit);
	struct observed_cell observed;

	return find(store, permit, &position, now_ns, &observed);
}

bool permit_redeem(struct store *store, struct permit permit, uint64_t now_ns)
{
	struct table_position position = position_of(store, permit);
	struct observed_cell observed;

	while (find(store, permit, &position, now_ns, &observed))
		if (cell_swap(observed.cell, observed.value, (struct cell){0, 0}))
			return true;
	return false;
}
