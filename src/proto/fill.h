/*
 * fill.h: fills in a request from texts, with the checks that all protocols share.
 *
 * Each function returns 0, or a status with a message in `error`: "expected …, found …".
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

enum fill_form { FILL_UNQUOTED, FILL_JSON_STRING };

struct fill {
	struct request *request;
	const struct codec_bounds *bounds;
	struct arena *arena;
	struct weir_error error;
	struct weir_attribute *attributes; /* of request, still writable */
	size_t attribute_capacity;
	bool has_cost;  /* fill_cost was called */
	unsigned given_fields; /* a bit for each field that fill_field has read */
};

#define FILL_WAIT_MAX_MS (60 * 60 * 1000)

/* For "%.*s" in messages: the beginning of a slice. */
#define FILL_QUOTE(text) (int)((text).len < 40 ? (text).len : 40), (text).data

/** Begins an empty request. Does not clear the message of the error, which is long. */
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
	fill->given_fields = 0;
}

int fill_key(struct fill *fill, struct slice key);
int fill_cost(struct fill *fill, struct slice text);
/** In milliseconds, at most FILL_WAIT_MAX_MS. */
int fill_wait(struct fill *fill, struct slice text);
int fill_priority(struct fill *fill, struct slice text);
int fill_deny(struct fill *fill, struct slice text);
/** Reads the permit of a refund or report, for all its units unless a cost is given. */
int fill_permit(struct fill *fill, struct slice text);
/** The name of an enum weir_force. */
struct slice fill_force_text(unsigned force);
int fill_outcome(struct fill *fill, struct slice text);
int fill_latency(struct fill *fill, struct slice text);
/** Allocates `n` attributes; ELONG if there are more than accepted. */
int fill_reserve_attributes(struct fill *fill, size_t n);
/** Adds an attribute whose name is new and has no NUL, to those that are allocated. */
int fill_new_attribute(struct fill *fill, struct slice name, struct slice value);
/** The same, but checks the name: a name that is empty, has a NUL or is repeated is refused. */
int fill_attribute(struct fill *fill, struct slice name, struct slice value);

/**
 * Reads a field of a JSON object or of a query: limit, key, cost, wait_ms, priority, permit,
 * outcome, latency_ms, deny, state or until. A JSON string is refused for a number. Unknown and
 * repeated fields are refused.
 */
int fill_field(struct fill *fill, struct slice name, struct slice text, enum fill_form form);
/**
 * Checks the fields after the last one, and sets the request's kind: REQUEST_LIMIT for a limit and
 * a key, REQUEST_RULES for attributes or a permit. REQUEST_SHED, _FORCE and _REPORT stay.
 */
int fill_finish(struct fill *fill);

#endif
