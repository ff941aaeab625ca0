/*
 * weighted_slots.h: computes how many units of a sliding counter are in use, and when enough of
 * them are free.
 *
 * A sliding counter has two *weighted* slots: the units of the slot of now, and those of the slot
 * before, which fade to 0 while the slot of now goes by.
 */
#ifndef ALGO_RATES_WEIGHTED_SLOTS_H
#define ALGO_RATES_WEIGHTED_SLOTS_H

#include "algo/record_kinds.h"
#include "base/number.h"

struct weighted_slots {
	uint64_t start_ns; /* of the slot of now */
	uint64_t slot_units, fading_units;
};

/* Makes the slots of now the next ones if those that were read are a slot old. */
static inline struct weighted_slots weighted_slots_at(const struct slots_params *params,
                                                      struct weighted_slots read, uint64_t now_ns)
{
	uint64_t next_start_ns = read.start_ns + params->slot_ns;

	if ((int64_t)(now_ns - next_start_ns) >= 0)
		return (struct weighted_slots){next_start_ns, 0, read.slot_units};
	return read;
}

/* The units in use, rounded up. */
static inline uint64_t weighted_units_in_use(const struct slots_params *params,
                                             const struct weighted_slots *slots, uint64_t now_ns)
{
	uint64_t left_ns = params->slot_ns - sat_sub(now_ns, slots->start_ns);

	return slots->slot_units + slots_fading(slots->fading_units, left_ns, params->slot_ns);
}

/* When `units`, which fade to 0 within a slot, are down to `rest`: (1 - rest / units) of a slot. */
static inline uint64_t ns_until_faded(const struct slots_params *params, uint64_t units,
                                      uint64_t rest)
{
	if (units <= rest)
		return 0;
	return (uint64_t)(((u128)(units - rest) * params->slot_ns + units - 1) / units);
}

/*
 * How long until `cost` units are free: in this slot if its own units leave that many, otherwise in
 * the next, in which those units fade.
 */
static inline uint64_t weighted_ns_until_capacity(const struct slots_params *params,
                                                  const struct weighted_slots *slots,
                                                  uint64_t now_ns, uint64_t cost)
{
	uint64_t units_max = params->count - cost;

	if (slots->slot_units <= units_max)
		return slots->start_ns +
		       ns_until_faded(params, slots->fading_units, units_max - slots->slot_units) - now_ns;
	return slots->start_ns + params->slot_ns +
	       ns_until_faded(params, slots->slot_units, units_max) - now_ns;
}

#endif
