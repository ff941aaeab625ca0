/*
 * http_fields.h: the fields of a header that Weir looks at, however they came.
 *
 * The values are offsets from the first byte of the head, so the bytes may lie elsewhere at the
 * next look: `base` is where they begin now.
 */
#ifndef PROTO_HTTP_FIELDS_H
#define PROTO_HTTP_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

/* X(name, text): the header fields that are kept. */
#define HTTP_FIELD_LIST(X)                                                                         \
	X(HOST, "host")                                                                                \
	X(AUTHORIZATION, "authorization")                                                              \
	X(WEIR_AUTHORIZATION, "weir-authorization")                                                    \
	X(EXPECT, "expect")                                                                            \
	X(TRANSFER_ENCODING, "transfer-encoding")                                                      \
	X(ORIGIN, "origin")                                                                            \
	X(FETCH_SITE, "sec-fetch-site")                                                                \
	X(LAST_EVENT_ID, "last-event-id")                                                              \
	X(FORWARDED_FOR, "x-forwarded-for")                                                            \
	X(FORWARDED_METHOD, "x-forwarded-method")                                                      \
	X(FORWARDED_URI, "x-forwarded-uri")                                                            \
	X(FORWARDED_HOST, "x-forwarded-host")                                                          \
	X(ORIGINAL_METHOD, "x-original-method")                                                        \
	X(ORIGINAL_URI, "x-original-uri")

enum http_field {
#define X(name, text) HTTP_FIELD_##name,
	HTTP_FIELD_LIST(X)
#undef X
	    HTTP_FIELD_COUNT
};

/* Lines of such fields in one message; more are refused, since none may be overlooked. */
#define HTTP_FIELD_LINES_MAX 24

struct http_span {
	uint32_t at, len; /* from the head's first byte */
};

struct http_field_line {
	enum http_field field;
	struct http_span value;
};

struct http_fields {
	struct http_field_line lines[HTTP_FIELD_LINES_MAX];
	unsigned count;
	uint32_t has; /* a bit for each enum http_field */
	bool too_many;
	bool forwarded; /* a proxy has left a field of its own, of whatever value */
};

/** Keeps the field if anybody may look for it. */
void http_fields_add(struct http_fields *fields, struct slice name, struct http_span value);
/** Keeps this field. */
static inline void http_fields_store(struct http_fields *fields, enum http_field field,
                                     struct http_span value)
{
	fields->has |= 1u << field;
	if (fields->count == HTTP_FIELD_LINES_MAX)
		fields->too_many = true;
	else
		fields->lines[fields->count++] = (struct http_field_line){field, value};
}

/** None, for the next message; the lines stay where they are. */
static inline void http_fields_clear(struct http_fields *fields)
{
	fields->count = fields->has = 0;
	fields->too_many = fields->forwarded = false;
}

/** The value of lines[index], without blanks round it. */
struct slice http_fields_line(const struct http_fields *fields, const char *base, unsigned index);

/** Whether there is a line of the field. */
static inline bool http_fields_has(const struct http_fields *fields, enum http_field field)
{
	return fields->has >> field & 1;
}

/** The value of the field's line number `nth`; data NULL if there is none. */
struct slice http_fields_value(const struct http_fields *fields, const char *base,
                               enum http_field field, unsigned nth);

/* All fields of a header, in their order. */
struct http_header {
	struct slice bytes;
	bool is_text; /* lines of HTTP/1; else as http_header_add writes them */
};

/** Adds a field. Returns where in `bytes` its value is; without memory `bytes` has failed. */
struct http_span http_header_add(struct buffer *bytes, struct slice name, struct slice value);

/** Takes the next field that has a name from *header, its value without blanks round it; false at
 * the end. */
bool http_header_next(struct http_header *header, struct slice *name, struct slice *value);

#endif
