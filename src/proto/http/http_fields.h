/*
 * http_fields.h: stores the header fields that Weir reads, for HTTP/1 and HTTP/2.
 *
 * Values are stored as offsets from the first byte of the head. The head may be at another address
 * later; functions get its present address as `head_start`.
 */
#ifndef PROTO_HTTP_FIELDS_H
#define PROTO_HTTP_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

/* X(name, text): the header fields that are stored. */
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

/* Lines of such fields in a message; with more the message is refused, since all of them count. */
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
	unsigned line_count;
	uint32_t present_bits; /* a bit for each enum http_field */
	bool too_many;
	bool has_proxy_field; /* there is a field that proxies add, such as Via */
};

/** Stores the field if it is in HTTP_FIELD_LIST. */
void http_fields_add(struct http_fields *fields, struct slice name, struct http_span value);
static inline void http_fields_store(struct http_fields *fields, enum http_field field,
                                     struct http_span value)
{
	fields->present_bits |= 1u << field;
	if (fields->line_count == HTTP_FIELD_LINES_MAX)
		fields->too_many = true;
	else
		fields->lines[fields->line_count++] = (struct http_field_line){field, value};
}

/** Removes all fields. The content of `lines` stays, see http1_template.h. */
static inline void http_fields_clear(struct http_fields *fields)
{
	fields->line_count = fields->present_bits = 0;
	fields->too_many = fields->has_proxy_field = false;
}

/** The value of lines[index], without blanks around it. */
struct slice http_fields_line(const struct http_fields *fields, const char *head_start,
                              unsigned index);

/** Whether there is a line of the field. */
static inline bool http_fields_has(const struct http_fields *fields, enum http_field field)
{
	return fields->present_bits >> field & 1;
}

/** The value of the field's `nth` line, from 0; data NULL if there is none. */
struct slice http_fields_value(const struct http_fields *fields, const char *head_start,
                               enum http_field field, unsigned nth);

/* All fields of a header, in order. */
struct http_header {
	struct slice bytes;
	bool is_text; /* lines of HTTP/1; otherwise in the form that http_header_add writes */
};

/** Appends a field. Returns where its value is in `bytes`, whose `failed` is set without memory. */
struct http_span http_header_add(struct buffer *bytes, struct slice name, struct slice value);

/** Removes the next field with a name from *header; trims its value. False at the end. */
bool http_header_next(struct http_header *header, struct slice *name, struct slice *value);

#endif
