#include "simulate/closed_loop/gate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "base/time/timestamp.h"

#define SLOTS_INITIAL 256
#define NO_SLOT       SIZE_MAX

/* A call with a permit; the permit's ID is the slot's number plus 1. */
struct slot {
	struct request_end end;
	uint64_t granted_ns;
	size_t next_free;
};

struct gate {
	struct scenario *scenario;
	struct arena arena, brief_arena;
	struct slot *slots;
	size_t slot_count, slot_capacity, free_slot;
	size_t ip; /* index of the field that is the client's own address; the number of fields: none */
	uint64_t attempts;
	char address[sizeof "255.255.255.255"];
	bool failed;
	struct ordered_record request;
	struct slice values[FORMAT_FIELDS_MAX]; /* of `request`, whose last member is without a size */
};

_Static_assert(offsetof(struct gate, values) == offsetof(struct gate, request.values),
               "values follow the request");

struct gate *gate_open(struct scenario *scenario, const struct fields *fields,
                       const struct slice *values)
{
	struct gate *gate = calloc(1, sizeof *gate);

	if (!gate)
		return NULL;
	gate->scenario = scenario;
	gate->free_slot = NO_SLOT;
	gate->ip = fields->count;
	gate->request.cost = 1;
	gate->request.value_count = (uint16_t)fields->count;
	gate->request.outcome = RECORD_NO_END;
	for (size_t i = 0; i < fields->count; i++) {
		gate->values[i] = values[i];
		if (!values[i].data && slice_equal(fields->names[i], slice_of("ip")))
			gate->ip = i;
	}
	return gate;
}

void gate_close(struct gate *gate)
{
	if (!gate)
		return;
	arena_free(&gate->arena);
	arena_free(&gate->brief_arena);
	free(gate->slots);
	free(gate);
}

/* Returns a free slot, or NULL. */
static struct slot *take_slot(struct gate *gate)
{
	if (gate->free_slot != NO_SLOT) {
		struct slot *slot = &gate->slots[gate->free_slot];

		gate->free_slot = slot->next_free;
		return slot;
	}
	if (gate->slot_count == gate->slot_capacity) {
		size_t capacity = gate->slot_capacity ? 2 * gate->slot_capacity : SLOTS_INITIAL;
		struct slot *slots = realloc(gate->slots, capacity * sizeof *slots);

		if (!slots)
			return NULL;
		gate->slots = slots;
		gate->slot_capacity = capacity;
	}
	return &gate->slots[gate->slot_count++];
}

/* Gives an allowed attempt a permit, by which its end is reported. */
static void give_permit(struct gate *gate, const struct plan *plan, struct backend_attempt *attempt)
{
	struct slot *slot = take_slot(gate);

	gate->failed |= !slot;
	if (!slot)
		return;
	slot->end = (struct request_end){0};
	decide_fill_end(plan, &slot->end);
	slot->granted_ns = attempt->now_ns;
	attempt->permit.id = (uint64_t)(slot - gate->slots) + 1;
}

static void set_address(struct gate *gate, uint32_t client)
{
	int len;

	if (gate->ip == gate->request.value_count)
		return;
	len = snprintf(gate->address, sizeof gate->address, "10.%u.%u.%u", client >> 16 & 255,
	               client >> 8 & 255, client & 255);
	gate->values[gate->ip] = (struct slice){gate->address, (size_t)len};
}

bool gate_allows(void *context, struct backend_attempt *attempt)
{
	struct gate *gate = context;
	struct scenario *scenario = gate->scenario;
	struct weir_decision d = {0};
	struct plan plan;
	int status;

	gate->request.number = gate->attempts++;
	gate->request.time_ns = GATE_EPOCH_NS + attempt->now_ns;
	set_address(gate, attempt->client);
	status = decide_prepare(scenario, &gate->request, &gate->arena, &plan);
	if (status == WEIR_OK) {
		engine_locate(
		    &(struct decision_context){scenario->table, moment_given(gate->request.time_ns)},
		    &plan);
		gate->failed |= !decide_run(scenario, &gate->request, &plan, NULL, &d);
		if (d.allowed && plan.permit.id != 0)
			give_permit(gate, &plan, attempt);
		attempt->wait_ns = d.allowed ? d.wait_ns : 0;
	} else {
		gate->failed |= status == WEIR_ENOMEM;
		scenario->errors++;
	}
	arena_reset(&gate->arena);
	return d.allowed;
}

void gate_report(void *context, const struct weir_permit *permit, enum weir_outcome outcome,
                 uint64_t now_ns)
{
	struct gate *gate = context;
	struct slot *slot = &gate->slots[permit->id - 1];
	bool evicted;

	slot->end.outcome = outcome;
	slot->end.latency_ns = now_ns - slot->granted_ns;
	gate->failed |= !decide_report(gate->scenario, &slot->end, GATE_EPOCH_NS + now_ns,
	                               &gate->brief_arena, &evicted);
	slot->next_free = gate->free_slot;
	gate->free_slot = permit->id - 1;
}

bool gate_end(struct gate *gate, uint64_t now_ns)
{
	struct scenario *scenario = gate->scenario;

	for (size_t i = 0; i < scenario->tally_count; i++)
		if (scenario->tallies[i].phases)
			phases_end(scenario->tallies[i].phases, &scenario->tallies[i].limit->algo,
			           GATE_EPOCH_NS + now_ns);
	return !gate->failed;
}
