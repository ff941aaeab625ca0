/*
 * resp_template.h: a command that differs from the one before it only in its key.
 *
 * Most clients send one command with one set of parameters, and only the key
 * changes. RESP says how long each part is, so bytes that are the same before
 * the key and behind it mean the same, and need not be understood again.
 */
#ifndef PROTO_RESP_FORM_H
#define PROTO_RESP_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/resp/resp.h"

#define RESP_TEMPLATE_MAX 128 /* bytes of a command, its key not among them */

/* Zero: none learned yet. */
struct resp_template {
	uint8_t head, tail;            /* bytes before the key's '$', and behind its last byte */
	uint8_t limit;                 /* where the limit's name is in the head */
	char bytes[RESP_TEMPLATE_MAX]; /* head and tail */
	struct request request;        /* what they mean; its slices are those of another time */
};

/**
 * `bytes` is a command that was understood as `request`, which points into it
 * with its limit and key and with nothing else. One that is too long is not learned.
 */
void resp_template_learn(struct resp_template *form, struct slice bytes, const struct slice *args,
                         size_t key, const struct request *request);

/**
 * Whether `reader` is at the start of another such command, which `data` has
 * whole and within `bounds`: then *request and *consumed are set. If not, read it.
 */
bool resp_template_match(const struct resp_template *form, const struct resp_reader *reader,
                         const struct codec_bounds *bounds, struct slice data, size_t *consumed,
                         struct request *request);

#endif
