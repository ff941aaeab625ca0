/*
 * http_fields.c: stores those header fields of an HTTP request that Weir reads, with the positions
 * of their values, and goes through all fields of a header.
 */
#include "proto/http/http_fields.h"

/* Excludes most names quickly: no stored name, nor a proxy's, begins with another letter. */
static bool may_be_stored(struct slice name)
{
#define LETTER(c)     1u << ((c) - 'a')
#define X(name, text) | LETTER(*text)
	const unsigned letters = LETTER('f') | LETTER('v') | LETTER('x') HTTP_FIELD_LIST(X);
#undef X
	unsigned letter = name.len > 0 ? (*name.data | 32u) - 'a' : 26;

	return letter < 26 && (letters & 1u << letter);
#undef LETTER
}

/* Returns HTTP_FIELD_COUNT if fields with this name are not stored. */
static enum http_field find_field(struct slice name)
{
	static const struct slice names[] = {
#define X(name, text) SLICE(text),
	    HTTP_FIELD_LIST(X)
#undef X
	};
	enum http_field field = 0;

	while (field < HTTP_FIELD_COUNT && !slice_equal_nocase(name, names[field]))
		field++;
	return field;
}

/* Whether proxies add a field with this name to a request that they forward. */
static bool is_proxy_field(struct slice name)
{
	/* Whole names; those that end in '-' are prefixes. */
	static const struct slice names[] = {SLICE("x-forwarded-"), SLICE("x-real-ip"),
	                                     SLICE("forwarded"), SLICE("via")};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct slice begin = name, wanted = names[i];
		bool is_prefix = wanted.data[wanted.len - 1] == '-';

		if (is_prefix && begin.len > wanted.len)
			begin.len = wanted.len;
		if (slice_equal_nocase(begin, wanted))
			return true;
	}
	return false;
}

/* Stores the field if it is one of those that are stored. */
void http_fields_add(struct http_fields *fields, struct slice name, struct http_span value)
{
	enum http_field field;

	if (!may_be_stored(name))
		return;
	field = find_field(name);
	fields->has_proxy_field = fields->has_proxy_field || is_proxy_field(name);
	if (field < HTTP_FIELD_COUNT)
		http_fields_store(fields, field, value);
}

struct slice http_fields_line(const struct http_fields *fields, const char *head_start,
                              unsigned index)
{
	struct http_span value = fields->lines[index].value;

	return slice_trim((struct slice){head_start + value.at, value.len});
}

struct slice http_fields_value(const struct http_fields *fields, const char *head_start,
                               enum http_field field, unsigned nth)
{
	for (unsigned i = 0; i < fields->line_count; i++)
		if (fields->lines[i].field == field && nth-- == 0)
			return http_fields_line(fields, head_start, i);
	return (struct slice){NULL, 0};
}

/* The same as http_header_next, for lines of HTTP/1, without trimming the value. */
static bool next_field_line(struct slice *lines, struct slice *name, struct slice *value)
{
	struct slice line = slice_cut(lines, '\n');

	if (line.len <= 1) /* the empty line's CR */
		return false;
	line.len--;
	*name = slice_cut(&line, ':');
	*value = line;
	return true;
}

/* A field of HTTP/2 is stored as these lengths, its name and its value. */
struct lengths {
	uint32_t name, value;
};

/* Returns where the value is; without memory an empty span, and bytes->failed is set. */
struct http_span http_header_add(struct buffer *bytes, struct slice name, struct slice value)
{
	struct lengths lengths = {(uint32_t)name.len, (uint32_t)value.len};
	char *to = buffer_reserve(bytes, sizeof lengths + name.len + value.len);

	if (!to)
		return (struct http_span){0, 0};
	to = mempcpy(to, &lengths, sizeof lengths);
	if (name.len > 0)
		to = mempcpy(to, name.data, name.len);
	memcpy(to, value.data, value.len);
	bytes->len += sizeof lengths + name.len + value.len;
	return (struct http_span){(uint32_t)(bytes->len - value.len), lengths.value};
}

/* Takes the next field from `bytes`, as http_header_add has written it; false at the end. */
static bool next_stored_field(struct slice *bytes, struct slice *name, struct slice *value)
{
	struct lengths lengths;
	const char *at = bytes->data + sizeof lengths;

	if (bytes->len == 0)
		return false;
	memcpy(&lengths, bytes->data, sizeof lengths);
	*name = (struct slice){at, lengths.name};
	*value = (struct slice){at + lengths.name, lengths.value};
	at = value->data + value->len;
	*bytes = (struct slice){at, (size_t)(bytes->data + bytes->len - at)};
	return true;
}

/* Removes the next field from *header. Returns false at the end. */
bool http_header_next(struct http_header *header, struct slice *name, struct slice *value)
{
	bool is_pseudo_header; /* of HTTP/2, which is stored without its name */

	do {
		if (!(header->is_text ? next_field_line : next_stored_field)(&header->bytes, name, value))
			return false;
		is_pseudo_header = !header->is_text && name->len == 0;
	} while (is_pseudo_header);
	*value = slice_trim(*value);
	return true;
}
