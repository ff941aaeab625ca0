/*
 * http1_template.h: recognizes a message that differs from the one before only in its target.
 *
 * Most clients repeat one head, in which only the target changes. So a message without a body is
 * not parsed again if the bytes before and behind its target are those of the message before. The
 * target must consist of bytes that llhttp accepts anywhere after the '/' of a target.
 */
#ifndef PROTO_HTTP1_TEMPLATE_H
#define PROTO_HTTP1_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define HTTP1_TEMPLATE_MAX 256 /* bytes of a head, its target not among them */

/* The head of a message without a body, without its target. Zeroed: there is none. */
struct http1_template {
	uint16_t before_len, behind_len; /* bytes before the target, and behind its last byte */
	char bytes[HTTP1_TEMPLATE_MAX];
};

/** Stores a complete `head`, which contains `target`. A head that is too long clears the template.
 */
void http1_template_learn(struct http1_template *template, struct slice head, struct slice target);

/** The target of the head at the beginning of `data`, if the head is complete and matches; or NULL.
 */
struct slice http1_template_match(const struct http1_template *template, struct slice data);

/** Bytes of a matching head with a target of `target_len` bytes. */
static inline size_t http1_template_len(const struct http1_template *template, size_t target_len)
{
	return template->before_len + target_len + template->behind_len;
}

#endif
