/*
 * http_name.h: writes names of limits and rules, which are UTF-8, into header fields, which are
 * ASCII. Bytes that a field can't have become %XX, and so does '%', so different names stay
 * different.
 */
#ifndef PROTO_HTTP_NAME_H
#define PROTO_HTTP_NAME_H

#include "base/buffer.h"

/** Appends a name as a field of its own: all but visible ASCII, and '"', '%', '\', become %XX. */
void http_name_add(struct buffer *out, const char *name);

/**
 * Appends a name as a string of structured fields (RFC 9651), in quotes. That syntax has escapes of
 * its own for '"' and '\', and allows spaces.
 */
void http_name_add_string(struct buffer *out, const char *name);

#endif
