#include "proto/http/http_fields.h"

/* Excludes most names quickly, by the first letters of all names that matter. */
static bool may_matter(struct slice name)
{
#define LETTER(c)     1u << ((c) - 'a')
#define X(name, text) | LETTER(*text)
	const unsigned letters = LETTER('f') | LETTER('v') | LETTER('x') HTTP_FIELD_LIST(X);
#undef X
	unsigned letter = name.len > 0 ? (*name.data | 32u) - 'a' : 26;

	return letter < 26 && (letters & 1u << letter);
#undef LETTER
}

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

/* Whether proxies add a field with this name. */
static bool is_forwarded(struct slice name)
{
	/* Whole names; those that end in '-' are prefixes. */
	static const struct slice names[] = {SLICE("x-forwarded-"), SLICE("x-real-ip"),
	                                     SLICE("forwarded"), SLICE("via")};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct slice found = name, mark = names[i];

		if (mark.data[mark.len - 1] == '-' && found.len > mark.len)
			found.len = mark.len;
		if (slice_equal_nocase(found, mark))
			return true;
	}
	return false;
}

void http_fields_add(struct http_fields *fields, struct slice name, struct http_span value)
{
	enum http_field field;

	if (!may_matter(name))
		return;
	field = find_field(name);
	fields->forwarded = fields->forwarded || is_forwarded(name);
	if (field < HTTP_FIELD_COUNT)
		http_fields_store(fields, field, value);
}

struct slice http_fields_line(const struct http_fields *fields, const char *base, unsigned index)
{
	struct http_span value = fields->lines[index].value;

	return slice_trim((struct slice){base + value.at, value.len});
}

struct slice http_fields_value(const struct http_fields *fields, const char *base,
                               enum http_field field, unsigned nth)
{
	for (unsigned i = 0; i < fields->count; i++)
		if (fields->lines[i].field == field && nth-- == 0)
			return http_fields_line(fields, base, i);
	return (struct slice){NULL, 0};
}

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

/* http_header_add writes these before the name and the value of a field. */
struct lengths {
	uint32_t name, value;
};

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

static bool next_field(struct slice *bytes, struct slice *name, struct slice *value)
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

bool http_header_next(struct http_header *header, struct slice *name, struct slice *value)
{
	do {
		if (!(header->is_text ? next_field_line : next_field)(&header->bytes, name, value))
			return false;
	} while (!header->is_text && name->len == 0);
	*value = slice_trim(*value);
	return true;
}
