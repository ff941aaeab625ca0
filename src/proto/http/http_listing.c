/*
 * http_listing.c: reads the parameters of listings: of the most denied keys, of denials, of
 * points in time, and of events.
 */
#include "base/error.h"
#include "base/number.h"
#include "proto/fill.h"
#include "proto/http/http_request.h"
#include "proto/http/query.h"

/* /v1/top?n=10: the keys that are denied most */
int http_read_top(struct http_request *http)
{
	struct request *request = http->fill.request;
	struct slice name, value;

	request->top_count = 10;
	while (query_next(&http->query, &name, &value)) {
		if (!slice_equal(name, SLICE("n")))
			return error_set(&http->fill.error, WEIR_EINVAL,
			                 "expected only the parameter n, found '%.*s'", FILL_QUOTE(name));
		if (!parse_u64(value, &request->top_count) || request->top_count < 1 ||
		    request->top_count > REQUEST_TOP_MAX)
			return error_set(&http->fill.error, WEIR_EINVAL,
			                 "expected n to be a number from 1 to %d, found '%.*s'",
			                 REQUEST_TOP_MAX, FILL_QUOTE(value));
	}
	return 0;
}

/* Stores a parameter of /v1/denials. Returns 0, or EINVAL with a message. */
static int read_denials_parameter(struct fill *fill, struct slice name, struct slice value)
{
	struct request *request = fill->request;
	const struct {
		struct slice name, *field;
	} texts[] = {{SLICE("id"), &request->denial_id}, {SLICE("key"), &request->key},
	             {SLICE("limit"), &request->limit},  {SLICE("rule"), &request->name},
	             {SLICE("since"), &request->since},  {SLICE("until"), &request->until}};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (!slice_equal(name, texts[i].name))
			continue;
		*texts[i].field = value;
		return 0;
	}
	if (!slice_equal(name, SLICE("n")))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected id, key, limit, rule, since, until or n, found '%.*s'",
		                 FILL_QUOTE(name));
	if (parse_u64(value, &request->top_count) && request->top_count >= 1 &&
	    request->top_count <= REQUEST_DENIALS_MAX)
		return 0;
	return error_set(&fill->error, WEIR_EINVAL,
	                 "expected n to be a number from 1 to %d, found '%.*s'", REQUEST_DENIALS_MAX,
	                 FILL_QUOTE(value));
}

/* /v1/denials?id=I&key=K&limit=L&rule=R&since=1h&until=30m&n=100 */
int http_read_denials(struct http_request *http)
{
	struct fill *fill = &http->fill;
	struct slice name, value;
	int status = 0;

	fill->request->top_count = 100;
	while (status == 0 && query_next(&http->query, &name, &value)) {
		status = http_decode_parameter(fill, &name, &value);
		if (status == 0)
			status = read_denials_parameter(fill, name, value);
	}
	return status;
}

/* /v1/stats?since=1790000000: the points after that second */
int http_read_stats(struct http_request *http)
{
	struct fill *fill = &http->fill;
	struct slice name, value;
	int status = 0;

	while (status == 0 && query_next(&http->query, &name, &value)) {
		status = http_decode_parameter(fill, &name, &value);
		if (status == 0 && !slice_equal(name, SLICE("since")))
			status = error_set(&fill->error, WEIR_EINVAL,
			                   "expected only the parameter since, found '%.*s'", FILL_QUOTE(name));
		fill->request->since = value;
	}
	return status;
}

/*
 * /v1/events?denials=yes: with denials among the events. Reads the last event that the client has,
 * too; a Last-Event-ID that is no number is ignored.
 */
int http_read_events(struct http_request *http)
{
	struct request *request = http->fill.request;
	struct slice last =
	    http_fields_value(http->fields, http->head_start, HTTP_FIELD_LAST_EVENT_ID, 0);
	struct slice name, value;

	if (!last.data || !parse_u64(last, &request->after_event))
		request->after_event = 0;
	request->with_denials = false;
	while (query_next(&http->query, &name, &value)) {
		request->with_denials = slice_equal(value, SLICE("yes"));
		if (!slice_equal(name, SLICE("denials")) ||
		    (!request->with_denials && !slice_equal(value, SLICE("no"))))
			return error_set(&http->fill.error, WEIR_EINVAL,
			                 "expected only denials=yes or denials=no, found '%.*s=%.*s'",
			                 FILL_QUOTE(name), FILL_QUOTE(value));
	}
	request->close_after = true; /* the stream ends with the connection */
	return 0;
}
