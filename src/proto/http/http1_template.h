/*
 * http1_template.h: a message that differs from the one before it only in its target.
 *
 * Most clients send one head again and again, in which only the target changes. A message without a
 * body whose bytes before and behind the target are those of the message before means the same,
 * as long as its target has nothing but bytes that llhttp takes anywhere behind a target's '/'.
 */
#ifndef PROTO_HTTP1_FORM_H
#define PROTO_HTTP1_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define HTTP1_TEMPLATE_MAX 256 /* bytes of a head, its target not among them */

/* The head of a message without a body, its target left out. Zero: there is none. */
struct http1_template {
	uint16_t before, behind; /* bytes before the target, and behind its last byte */
	char bytes[HTTP1_TEMPLATE_MAX];
};

/** `head` is a whole one, and `target` is in it. One that is too long is not learned: no form. */
void http1_template_learn(struct http1_template *form, struct slice head, struct slice target);

/** The target of the head that `data` begins with, if it is whole and of this form; else no data.
 */
struct slice http1_template_match(const struct http1_template *form, struct slice data);

/** Bytes of a head of this form with a target of `target_len` bytes. */
static inline size_t http1_template_len(const struct http1_template *form, size_t target_len)
{
	return form->before + target_len + form->behind;
}

#endif
