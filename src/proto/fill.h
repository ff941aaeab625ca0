/*
 * fill.h: what every protocol checks alike while it fills in a request.
 *
 * Each function returns 0, or a status with words in `error`: "expected …,
 * found …".
 */
#ifndef PROTO_FILL_H
#define PROTO_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <weir/engine.h>

#include "base/arena.h"
#include "base/slice.h"
#include "proto/codec.h"
#include "proto/request.h"

struct fill {
	struct request *request;
	const struct codec_bounds *bounds;
	struct arena *arena;
	struct weir_error error;
	struct weir_attribute *attributes; /* of request, still writable */
	size_t attribute_capacity;
	bool has_cost;  /* fill_cost was called */
	unsigned given; /* a bit for each field that fill_field has read */
};

#define FILL_WAIT_MAX_MS (60 * 60 * 1000)

/* For "%.*s" in messages: as much of a slice as is worth quoting. */
#define FILL_QUOTE(text) (int)((text).len < 40 ? (text).len : 40), (text).data

/** Nothing is read yet. Sets all but the text of the error, which is long. */
static inline void fill_begin(struct fill *fill, struct request *request,
                              const struct codec_bounds *bounds, struct arena *arena)
{
	fill->request = request;
	fill->bounds = bounds;
	fill->arena = arena;
	fill->error.status = WEIR_OK;
	fill->error.line = fill->error.column = 0;
	fill->error.message[0] = '\0';
	fill->attributes = NULL;
	fill->attribute_capacity = 0;
	fill->has_cost = false;
	fill->given = 0;
}

int fill_key(struct fill *fill, struct slice key);
int fill_cost(struct fill *fill, struct slice text);
/** Milliseconds, FILL_WAIT_MAX_MS at most. */
int fill_wait(struct fill *fill, struct slice text);
/** Into request->priority. */
int fill_priority(struct fill *fill, struct slice text);
int fill_deny(struct fill *fill, struct slice text);
/** Reads the permit of a refund or report. It covers all units, unless a cost is given. */
int fill_permit(struct fill *fill, struct slice text);
/** The text of an enum weir_force. */
struct slice fill_force_text(unsigned force);
int fill_outcome(struct fill *fill, struct slice text);
int fill_latency(struct fill *fill, struct slice text);
/** Makes room for `n` attributes; ELONG when that is more than accepted. */
int fill_reserve_attributes(struct fill *fill, size_t n);
/** Within the room made, of a name that is new and has no NUL. */
int fill_new_attribute(struct fill *fill, struct slice name, struct slice value);
/** The same of any name. One given twice is refused: which one would count? */
int fill_attribute(struct fill *fill, struct slice name, struct slice value);

/**
 * A field of a request in JSON, or of a query: limit, key, cost, wait_ms, priority,
 * permit, outcome, latency_ms, deny, state, until. `quoted`: it was a string where there are
 * numbers, too. Unknown fields and those given twice are refused.
 */
int fill_field(struct fill *fill, struct slice name, struct slice text, bool quoted);
/**
 * After the last one: is it a limit and a key, attributes, or a permit? Sets the request's
 * kind, but of one to shed, force or report, which take other fields.
 */
int fill_finish(struct fill *fill);

#endif
