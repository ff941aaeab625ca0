/*
 * gate.h: the limits of a scenario in front of the modelled backend: decides each attempt by the
 * engine, and reports how the call behind it ended.
 */
#ifndef SIMULATE_GATE_H
#define SIMULATE_GATE_H

#include "simulate/closed_loop/backend.h"
#include "simulate/decide.h"

#define GATE_EPOCH_NS                                                                              \
	(UINT64_C(1767225600) * NS_PER_S) /* 2026-01-01T00:00:00Z, an arbitrary time */

struct gate;

/**
 * Opens a gate whose requests have these values, one for each field; where a value has no data,
 * the field `ip` is the client's own address, and others are missing. NULL if out of memory.
 */
struct gate *gate_open(struct scenario *scenario, const struct fields *fields,
                       const struct slice *values);
void gate_close(struct gate *gate);

/** The functions of a struct backend_limit, whose context is the gate. */
bool gate_allows(void *gate, struct backend_attempt *attempt);
void gate_report(void *gate, const struct weir_permit *permit, enum weir_outcome outcome,
                 uint64_t now_ns);

/** Ends the timelines of breakers. Returns false if memory was short at any time. */
bool gate_end(struct gate *gate, uint64_t now_ns);

#endif
