/*
 * resp_template.h: recognizes a command that differs from the one before only in its key.
 *
 * Most clients repeat one command with the same parameters, and only the key changes. RESP states
 * the length of each part, so a command with the same bytes before and after its key has the same
 * meaning and need not be parsed again.
 */
#ifndef PROTO_RESP_TEMPLATE_H
#define PROTO_RESP_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/resp/resp.h"

#define RESP_TEMPLATE_MAX 128 /* bytes of a command without its key */

/* Zeroed: there is none. */
struct resp_template {
	uint8_t head_len, tail_len;    /* bytes before the key's '$', and after its last byte */
	uint8_t limit_offset;          /* of the limit's name in the head */
	char bytes[RESP_TEMPLATE_MAX]; /* head and tail */
	struct request request;        /* the command as a request; its slices are not valid */
};

/**
 * Stores the command `bytes`, which was parsed as `request`. Only the limit and the key of
 * `request` point into `bytes`. A command that is too long clears the template.
 */
void resp_template_learn(struct resp_template *template, struct slice bytes,
                         const struct slice *args, size_t key, const struct request *request);

/**
 * Sets *request and *consumed and returns true if `reader` is at the start of a command, `data` has
 * all of it, and it matches the template within `bounds`. Otherwise the command must be parsed.
 */
bool resp_template_match(const struct resp_template *template, const struct resp_reader *reader,
                         const struct codec_bounds *bounds, struct slice data, size_t *consumed,
                         struct request *request);

#endif
