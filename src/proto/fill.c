#include "proto/fill.h"

#include "base/error.h"
#include "base/number.h"

int fill_key(struct fill *fill, struct slice key)
{
	if (key.len > fill->limits->key_max)
		return error_set(&fill->error, WEIR_ELONG, "expected a key of at most %zu bytes, found %zu",
		                 fill->limits->key_max, key.len);
	fill->request->key = key;
	return 0;
}

int fill_cost(struct fill *fill, struct slice text)
{
	if (!parse_u64(text, &fill->request->cost))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected cost to be a whole number of at least 0, found '%.*s'",
		                 FILL_QUOTE(text));
	return 0;
}

int fill_wait(struct fill *fill, struct slice text)
{
	uint64_t ms;

	if (!parse_u64(text, &ms) || ms > FILL_WAIT_MAX_MS)
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected the wait to be a whole number of milliseconds from 0 to %d, "
		                 "found '%.*s'",
		                 FILL_WAIT_MAX_MS, FILL_QUOTE(text));
	fill->request->wait_ns = ms > 0 ? ms * NS_PER_MS : WEIR_ZERO;
	return 0;
}

int fill_deny(struct fill *fill, struct slice text)
{
	if (!parse_share(text, &fill->request->deny))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected deny to be a number from 0 to 1, found '%.*s'",
		                 FILL_QUOTE(text));
	return 0;
}

int fill_attribute_room(struct fill *fill, size_t n)
{
	if (n > fill->limits->attributes_max)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu attributes, found %zu",
		                 fill->limits->attributes_max, n);
	fill->attributes = arena_array(fill->arena, n, sizeof *fill->attributes);
	if (!fill->attributes)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	fill->attribute_room = n;
	fill->request->attributes = fill->attributes;
	return 0;
}

int fill_attribute(struct fill *fill, struct slice name, struct slice value)
{
	size_t n = fill->request->attribute_count;
	const char *copy;

	if (name.len == 0 || memchr(name.data, '\0', name.len))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected an attribute's name to have bytes, none of them NUL, found '%.*s'",
		                 FILL_QUOTE(name));
	for (size_t i = 0; i < n; i++)
		if (slice_equal(slice_of(fill->attributes[i].name), name))
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected attribute '%.*s' once, found it again", FILL_QUOTE(name));
	if (n >= fill->attribute_room)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu attributes",
		                 fill->attribute_room);
	copy = arena_copy(fill->arena, name);
	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	fill->attributes[n] = (struct weir_attribute){copy, value.data, value.len};
	fill->request->attribute_count = n + 1;
	return 0;
}

static int fill_limit(struct fill *fill, struct slice text)
{
	fill->request->limit = text;
	return 0;
}

static int fill_permit(struct fill *fill, struct slice text)
{
	if (slice_equal(text, SLICE("false")))
		return 0;
	return error_set(&fill->error, WEIR_EUNSUPPORTED, "permit is not supported in this version");
}

enum field { FIELD_LIMIT, FIELD_KEY, FIELD_COST, FIELD_WAIT, FIELD_PERMIT, FIELD_DENY, FIELD_COUNT };

static const struct {
	struct slice name;
	bool number;
	int (*set)(struct fill *fill, struct slice text);
} fields[] = {
    [FIELD_LIMIT] = {SLICE("limit"), false, fill_limit},
    [FIELD_KEY] = {SLICE("key"), false, fill_key},
    [FIELD_COST] = {SLICE("cost"), true, fill_cost},
    [FIELD_WAIT] = {SLICE("wait_ms"), true, fill_wait},
    [FIELD_PERMIT] = {SLICE("permit"), false, fill_permit},
    [FIELD_DENY] = {SLICE("deny"), true, fill_deny},
};

int fill_field(struct fill *fill, struct slice name, struct slice text, bool quoted)
{
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		if (!slice_equal(name, fields[i].name))
			continue;
		if (fill->seen & 1u << i)
			return error_set(&fill->error, WEIR_EINVAL, "expected %s once, found it again",
			                 fields[i].name.data);
		if (fields[i].number && quoted)
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected %s to be a number, found a string", fields[i].name.data);
		fill->seen |= 1u << i;
		return fields[i].set(fill, text);
	}
	return error_set(&fill->error, WEIR_EINVAL,
	                 "expected one of limit, key, cost, wait_ms, permit, attributes, found '%.*s'",
	                 FILL_QUOTE(name));
}

int fill_finish(struct fill *fill)
{
	unsigned direct = fill->seen & (1u << FIELD_LIMIT | 1u << FIELD_KEY);
	unsigned shed = 1u << FIELD_LIMIT | 1u << FIELD_DENY;

	if (fill->request->kind == REQUEST_SHED) {
		if (fill->seen == shed && !fill->attributes)
			return 0;
		return error_set(&fill->error, WEIR_EINVAL, "expected limit and deny, and nothing else");
	}
	if (fill->seen & 1u << FIELD_DENY)
		return error_set(&fill->error, WEIR_EINVAL, "expected deny at /v1/shed only");
	if (fill->attributes) {
		fill->request->kind = REQUEST_RULES;
		if (direct == 0)
			return 0;
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected either attributes, or limit and key, found both");
	}
	fill->request->kind = REQUEST_LIMIT;
	if (direct == (1u << FIELD_LIMIT | 1u << FIELD_KEY))
		return 0;
	return error_set(&fill->error, WEIR_EINVAL, "expected %s, found none",
	                 direct == 0                  ? "a limit and a key, or attributes"
	                 : direct & 1u << FIELD_LIMIT ? "a key beside the limit"
	                                              : "a limit beside the key");
}
