/*
 * reported_key.c: reads and stores the headers of a key whose requests end with a report or refund,
 * and finds the newest ends of its entries, which a refund without a permit releases.
 *
 * A header is the key's cell in a table; the record behind it has the entries. A limit that needed
 * wider records got a newer table. The key's entries in former tables count until they end.
 */
#include "store/wide/reported_key.h"

void reported_key_read_newest(struct reported_key *key)
{
	const struct call_target *target = key->target;

	key->limit = algo_current(key->limit); /* a reload may have replaced it since the last read */
	*target->limit = key->limit;
	key->count = 1;
	if (target->store) {
		wide_find(memory_newest(target->store, key->limit->identity), target->key, &key->states[0]);
	} else { /* a limit without keys: only the header's value has to be read */
		key->states[0] = *target->single_state;
		key->states[0].at.header = record_header(&target->single_state->at);
	}
}

void reported_key_read(struct reported_key *key)
{
	struct wide_table *former;

	reported_key_read_newest(key);
	former = key->states[0].header_table ? key->states[0].header_table->former : NULL;
	for (; __builtin_expect(former != NULL, 0) && key->count < REPORTED_KEY_STATES_MAX;
	     key->count++) {
		wide_find(former, key->target->key, &key->states[key->count]);
		former = key->states[key->count].header_table->former;
	}
}

bool reported_key_is_unchanged(const struct reported_key *key)
{
	for (size_t i = 0; i < key->count; i++)
		if (!wide_is_unchanged(&key->states[i]))
			return false;
	return true;
}

bool reported_key_is_current(const struct reported_key *key)
{
	const struct call_target *target = key->target;

	return algo_is_current(key->limit) &&
	       (!target->store ||
	        memory_newest(target->store, key->limit->identity) == key->states[0].newest_table);
}

enum header_result reported_key_store_header(struct reported_key *key, struct cell header)
{
	struct record_step step = {.limit = key->limit, .now_ns = key->now_ns};
	struct wide_state *newest = &key->states[0];

	if (!wide_store_header(newest, &step, header))
		return reported_key_is_full(key) ? HEADER_NO_CAPACITY : HEADER_CHANGED;
	newest->at.header = header;
	return newest->at.cell ? HEADER_STORED : HEADER_CHANGED;
}

void reported_key_visit(const struct reported_key *key, reported_key_ends *ends,
                        newest_visit *visit, struct newest *newest)
{
	for (size_t i = 0; i < key->count; i++)
		if (key->states[i].at.cell)
			ends(key->limit, key->now_ns, &key->states[i].at, visit, newest);
}

void reported_key_find_newest(const struct reported_key *key, reported_key_ends *ends, uint64_t n,
                              struct newest *newest)
{
	while (newest_needs_count(newest, n)) {
		reported_key_visit(key, ends, newest_count_end, newest);
		if (newest_end_count(newest))
			return;
		newest_begin(newest, n);
		reported_key_visit(key, ends, newest_add_end, newest);
	}
}
