/*
 * fill.c: fills in a request from the texts of its fields, such as a key and a cost, with the
 * checks that all protocols have in common. Each function returns 0, or a status with a message in
 * fill->error.
 */
#include "proto/fill.h"

#include "base/error.h"
#include "base/number.h"
#include "base/time/timestamp.h"

int fill_key(struct fill *fill, struct slice key)
{
	if (key.len > fill->bounds->key_max)
		return error_set(&fill->error, WEIR_ELONG, "expected a key of at most %zu bytes, found %zu",
		                 fill->bounds->key_max, key.len);
	fill->request->key = key;
	return 0;
}

int fill_cost(struct fill *fill, struct slice text)
{
	fill->has_cost = true;
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

int fill_priority(struct fill *fill, struct slice text)
{
	uint64_t priority;

	if (!parse_u64(text, &priority) || priority > WEIR_PRIORITY_LOWEST)
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected priority to be a whole number from 0, the highest, to %d, "
		                 "found '%.*s'",
		                 WEIR_PRIORITY_LOWEST, FILL_QUOTE(text));
	fill->request->priority = (uint8_t)priority;
	return 0;
}

int fill_deny(struct fill *fill, struct slice text)
{
	if (!parse_share(text, &fill->request->denied_share))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected deny to be a number from 0 to 1, found '%.*s'",
		                 FILL_QUOTE(text));
	return 0;
}

/* Allocates space for `n` attributes, which the functions below add. */
int fill_reserve_attributes(struct fill *fill, size_t n)
{
	if (n > fill->bounds->attributes_max)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu attributes, found %zu",
		                 fill->bounds->attributes_max, n);
	fill->attributes = arena_array(fill->arena, n, sizeof *fill->attributes);
	if (!fill->attributes)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	fill->attribute_capacity = n;
	fill->request->attributes = fill->attributes;
	return 0;
}

/* Adds an attribute, whose name the caller has checked. */
int fill_new_attribute(struct fill *fill, struct slice name, struct slice value)
{
	size_t n = fill->request->attribute_count;
	const char *copy;

	if (n >= fill->attribute_capacity)
		return error_set(&fill->error, WEIR_ELONG, "expected at most %zu attributes",
		                 fill->attribute_capacity);
	copy = arena_copy(fill->arena, name);
	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	fill->attributes[n] = (struct weir_attribute){copy, value.data, value.len};
	fill->request->attribute_count = n + 1;
	return 0;
}

int fill_attribute(struct fill *fill, struct slice name, struct slice value)
{
	size_t n = fill->request->attribute_count;

	if (name.len == 0 || memchr(name.data, '\0', name.len))
		return error_set(
		    &fill->error, WEIR_EINVAL,
		    "expected the name of an attribute, not empty and without NUL, found '%.*s'",
		    FILL_QUOTE(name));
	for (size_t i = 0; i < n; i++)
		if (slice_equal(slice_of(fill->attributes[i].name), name))
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected attribute '%.*s' once, found it again", FILL_QUOTE(name));
	return fill_new_attribute(fill, name, value);
}

static int fill_limit(struct fill *fill, struct slice text)
{
	fill->request->limit = text;
	return 0;
}

/* The permit, which a client got for an acquired cost, of a refund or report. */
int fill_permit(struct fill *fill, struct slice text)
{
	fill->request->permit = text.data ? text : SLICE("");
	if (!fill->has_cost)
		fill->request->cost = REQUEST_COST_ALL;
	/* A permit can only refund its own cost, so the right to ask suffices. */
	if (fill->request->class == REQUEST_CHANGE)
		fill->request->class = REQUEST_ASK;
	return 0;
}

/* The field `permit`: a report or a refund has the permit itself, an acquire true or false. */
static int fill_permit_field(struct fill *fill, struct slice text)
{
	struct request *request = fill->request;
	bool is_false = slice_equal(text, SLICE("false"));

	if (request->kind == REQUEST_REPORT || (request->op == REQUEST_REFUND && !is_false))
		return fill_permit(fill, text);
	request->wants_permit = request->op == REQUEST_ACQUIRE && slice_equal(text, SLICE("true"));
	if (is_false || request->wants_permit)
		return 0;
	return error_set(&fill->error, WEIR_EINVAL, "expected permit to be %s, found '%.*s'",
	                 request->op == REQUEST_ACQUIRE ? "true or false" : "false", FILL_QUOTE(text));
}

int fill_outcome(struct fill *fill, struct slice text)
{
	static const struct slice names[] = {
#define NAME(name, text) SLICE(text),
	    WEIR_OUTCOME_LIST(NAME)
#undef NAME
	};

	for (int i = 0; i < WEIR_OUTCOME_COUNT; i++)
		if (slice_equal(text, names[i])) {
			fill->request->outcome = (enum weir_outcome)i;
			return 0;
		}
	return error_set(&fill->error, WEIR_EINVAL,
	                 "expected outcome to be success, failure, timeout or ignored, found '%.*s'",
	                 FILL_QUOTE(text));
}

int fill_latency(struct fill *fill, struct slice text)
{
	if (!parse_u64(text, &fill->request->latency_ms))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected latency_ms to be a whole number of at least 0, found '%.*s'",
		                 FILL_QUOTE(text));
	return 0;
}

/* The phases of a breaker that an operator can force; "auto" ends a forced phase. */
static const struct slice forces[] = {[WEIR_FORCE_AUTO] = SLICE("auto"),
                                      [WEIR_FORCE_OPEN] = SLICE("open"),
                                      [WEIR_FORCE_CLOSED] = SLICE("closed")};

struct slice fill_force_text(unsigned force)
{
	return forces[force];
}

static int fill_state(struct fill *fill, struct slice text)
{
	for (size_t i = 0; i < sizeof forces / sizeof *forces; i++)
		if (slice_equal(text, forces[i])) {
			fill->request->force = (unsigned char)i;
			return 0;
		}
	return error_set(&fill->error, WEIR_EINVAL,
	                 "expected state to be open, closed or auto, found '%.*s'", FILL_QUOTE(text));
}

static int fill_until(struct fill *fill, struct slice text)
{
	if (!timestamp_parse(text, &fill->request->until_ns))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected until to be Unix seconds or a time such as "
		                 "2026-05-01T12:00:00Z, found '%.*s'",
		                 FILL_QUOTE(text));
	return 0;
}

enum field {
	FIELD_LIMIT,
	FIELD_KEY,
	FIELD_COST,
	FIELD_WAIT,
	FIELD_PRIORITY,
	FIELD_PERMIT,
	FIELD_OUTCOME,
	FIELD_LATENCY,
	FIELD_DENY,
	FIELD_STATE,
	FIELD_UNTIL,
	FIELD_COUNT
};

static const struct {
	struct slice name;
	bool is_number;
	int (*set)(struct fill *fill, struct slice text);
} fields[] = {
    [FIELD_LIMIT] = {SLICE("limit"), false, fill_limit},
    [FIELD_KEY] = {SLICE("key"), false, fill_key},
    [FIELD_COST] = {SLICE("cost"), true, fill_cost},
    [FIELD_WAIT] = {SLICE("wait_ms"), true, fill_wait},
    [FIELD_PRIORITY] = {SLICE("priority"), true, fill_priority},
    [FIELD_PERMIT] = {SLICE("permit"), false, fill_permit_field},
    [FIELD_OUTCOME] = {SLICE("outcome"), false, fill_outcome},
    [FIELD_LATENCY] = {SLICE("latency_ms"), true, fill_latency},
    [FIELD_DENY] = {SLICE("deny"), true, fill_deny},
    [FIELD_STATE] = {SLICE("state"), false, fill_state},
    [FIELD_UNTIL] = {SLICE("until"), false, fill_until},
};

/* The fields that a request of this kind may have, for the message about another field. */
static const char *expected_fields(const struct request *request)
{
	switch ((enum request_kind)request->kind) {
	case REQUEST_SHED:
		return "one of limit, deny, until";
	case REQUEST_FORCE:
		return "one of limit, key, state, until";
	case REQUEST_REPORT:
		return "one of permit, outcome, latency_ms";
	case REQUEST_DIGEST:
		return "key alone";
	default:
		return "one of limit, key, cost, wait_ms, priority, permit, attributes";
	}
}

/* Reads the field with this name, of a JSON object or a query. */
int fill_field(struct fill *fill, struct slice name, struct slice text, enum fill_form form)
{
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		if (!slice_equal(name, fields[i].name))
			continue;
		if (fill->given_fields & 1u << i)
			return error_set(&fill->error, WEIR_EINVAL, "expected %s once, found it again",
			                 fields[i].name.data);
		if (fields[i].is_number && form == FILL_JSON_STRING)
			return error_set(&fill->error, WEIR_EINVAL,
			                 "expected %s to be a number, found a string", fields[i].name.data);
		fill->given_fields |= 1u << i;
		return fields[i].set(fill, text);
	}
	return error_set(&fill->error, WEIR_EINVAL, "expected %s, found '%.*s'",
	                 expected_fields(fill->request), FILL_QUOTE(name));
}

#define BIT(field) (1u << FIELD_##field)

/* Checks that the request has the `required` fields, and no others but the `accepted` ones. */
static int check_fields(struct fill *fill, unsigned required, unsigned accepted,
                        const char *expected)
{
	bool has_required = (fill->given_fields & required) == required;
	bool has_others = (fill->given_fields & ~accepted) || fill->attributes;

	if (has_required && !has_others)
		return 0;
	return error_set(&fill->error, WEIR_EINVAL, "expected %s, and no other field", expected);
}

/* Checks a request that forces a breaker's phase. Auto ends that, so `until` means nothing then. */
static int check_force_fields(struct fill *fill)
{
	unsigned required = BIT(LIMIT) | BIT(KEY) | BIT(STATE);

	if (fill->given_fields & BIT(UNTIL) && fill->request->force == WEIR_FORCE_AUTO)
		return error_set(&fill->error, WEIR_EINVAL, "expected no until with state auto");
	if (!(fill->given_fields & BIT(KEY)) && !fill->attributes)
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected limit, key, state and optionally until, found no key; if the "
		                 "limit has no keys, give \"\" as its key");
	return check_fields(fill, required, required | BIT(UNTIL),
	                    "limit, key, state and optionally until");
}

/*
 * Checks a request for a decision, and sets its kind: on a named limit and a key, or on the limits
 * that the rules choose by attributes or by a permit.
 */
static int finish_decision(struct fill *fill)
{
	struct request *request = fill->request;
	unsigned limit_and_key = fill->given_fields & (BIT(LIMIT) | BIT(KEY));
	const char *missing;

	if (fill->given_fields & (BIT(DENY) | BIT(STATE) | BIT(UNTIL)))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected deny, state and until at /v1/shed and /v1/breaker only");
	if (fill->given_fields & (BIT(OUTCOME) | BIT(LATENCY)))
		return error_set(&fill->error, WEIR_EINVAL, "expected outcome at /v1/report only");
	if (fill->attributes || (request->permit.data && limit_and_key == 0)) {
		request->kind = REQUEST_RULES;
		if (limit_and_key == 0)
			return 0;
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected either attributes, or limit and key, found both");
	}
	request->kind = REQUEST_LIMIT;
	if (limit_and_key == (BIT(LIMIT) | BIT(KEY)))
		return 0;
	if (limit_and_key == 0)
		missing = "a limit and a key, or attributes";
	else
		missing = limit_and_key == BIT(LIMIT) ? "a key beside the limit" : "a limit beside the key";
	return error_set(&fill->error, WEIR_EINVAL, "expected %s, found none", missing);
}

/* Checks the fields of the whole request, once all are read. */
int fill_finish(struct fill *fill)
{
	switch ((enum request_kind)fill->request->kind) {
	case REQUEST_SHED:
		return check_fields(fill, BIT(LIMIT) | BIT(DENY), BIT(LIMIT) | BIT(DENY) | BIT(UNTIL),
		                    "limit, deny and optionally until");
	case REQUEST_FORCE:
		return check_force_fields(fill);
	case REQUEST_REPORT:
		return check_fields(fill, BIT(PERMIT) | BIT(OUTCOME),
		                    BIT(PERMIT) | BIT(OUTCOME) | BIT(LATENCY),
		                    "permit, outcome and optionally latency_ms");
	case REQUEST_DIGEST:
		return check_fields(fill, BIT(KEY), BIT(KEY), "key");
	default:
		return finish_decision(fill);
	}
}
