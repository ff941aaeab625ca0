#include "proto/http/http_request.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text/base64.h"
#include "proto/fill.h"
#include "proto/http/query.h"
#include "proto/json_body.h"

static int request_out_of_memory(struct http_request *http)
{
	return error_set(&http->fill.error, WEIR_ENOMEM, "out of memory");
}

static int read_body(struct http_request *http)
{
	return json_body_read(&http->fill, http->body);
}

/* ?key=K&cost=N */
static int read_query(struct http_request *http)
{
	struct fill *fill = &http->fill;
	struct slice name, value;
	bool coded = query_is_coded(http->query);
	int status = 0;

	while (status == 0 && query_next(&http->query, &name, &value)) {
		if (coded && ((status = query_decode(fill->arena, name, &name)) != 0 ||
		              (status = query_decode(fill->arena, value, &value)) != 0))
			return error_set(&fill->error, status, "expected two hex digits after every %%");
		status = fill_field(fill, name, value, false);
	}
	return status == 0 ? fill_finish(fill) : status;
}

/* /v1/acquire/LIMIT?key=K&cost=N */
static int read_limit_query(struct http_request *http)
{
	struct fill *fill = &http->fill;
	struct slice value;
	int status;

	if (query_decode_path(fill->arena, http->rest, &value) != 0)
		return request_out_of_memory(http);
	status = fill_field(fill, SLICE("limit"), value, false);
	return status == 0 ? read_query(http) : status;
}

/* Cuts "http://host/path", the form of requests to proxies, to "/path". */
static struct slice without_authority(struct slice target)
{
	const char *end = target.data + target.len, *p = target.data;

	if (target.len == 0 || *p == '/')
		return target;
	p = memmem(p, target.len, "://", 3);
	p = p ? memchr(p + 3, '/', (size_t)(end - p) - 3) : NULL;
	return p ? (struct slice){p, (size_t)(end - p)} : target;
}

/* Splits the target at the first '?', without the fragment, which clients should not send. */
static void split_target(struct slice target, struct slice *path, struct slice *query)
{
	const char *mark;

	*path = without_authority(target);
	*query = (struct slice){NULL, 0};
	mark = path->len ? memchr(path->data, '#', path->len) : NULL;
	if (mark)
		path->len = (size_t)(mark - path->data);
	mark = path->len ? memchr(path->data, '?', path->len) : NULL;
	if (mark) {
		*query = (struct slice){mark + 1, (size_t)(path->data + path->len - mark) - 1};
		path->len = (size_t)(mark - path->data);
	}
}

/*
 * Reads a value that the proxy sends in one of two fields; without either, *value stays. A proxy
 * that sets only one field may forward the other from the client. So fields that differ are an
 * error.
 */
static int read_proxy_field(struct http_request *http, enum http_field a, enum http_field b,
                            const char *what, struct slice *value)
{
	bool found = false;

	for (unsigned i = 0; i < http->fields->count; i++) {
		enum http_field field = http->fields->lines[i].field;
		struct slice line;

		if (field != a && field != b)
			continue;
		line = http_fields_line(http->fields, http->base, i);
		if (line.len == 0)
			continue;
		if (found && !slice_equal(line, *value))
			return error_set(&http->fill.error, WEIR_EINVAL,
			                 "expected the X-Forwarded and X-Original headers to agree on the %s, "
			                 "found '%.*s' and '%.*s'",
			                 what, FILL_QUOTE(*value), FILL_QUOTE(line));
		*value = line;
		found = true;
	}
	return 0;
}

/* Reads USER:SECRET in Base64. Without a colon the secret is empty, which no user has. */
static int read_basic(struct http_request *http, struct slice text, struct request_login *login)
{
	size_t capacity = text.len / 4 * 3 + 3;
	char *bytes = arena_alloc(http->fill.arena, capacity);

	if (!bytes)
		return request_out_of_memory(http);
	login->secret = (struct slice){bytes, base64_decode(text, (uint8_t *)bytes, capacity)};
	login->user = slice_cut(&login->secret, ':');
	return 0;
}

/* Reads credentials. Those in an unknown form are an empty secret, which no user has. */
static int read_login(struct http_request *http, enum http_field field, struct request_login *login)
{
	struct slice rest = http_fields_value(http->fields, http->base, field, 0), scheme;

	login->secret = SLICE("");
	if (http_fields_value(http->fields, http->base, field, 1).data)
		return 0;
	scheme = slice_cut(&rest, ' ');
	rest = slice_trim(rest);
	if (slice_equal_nocase(scheme, SLICE("basic")))
		return read_basic(http, rest, login);
	if (slice_equal_nocase(scheme, SLICE("bearer")))
		login->secret = rest;
	return 0;
}

/* Joins the lines of X-Forwarded-For, in the order in which proxies append to it. */
static int join_forwarded_for(struct http_request *http)
{
	struct slice *joined = &http->fill.request->forwarded_for;
	struct slice line;
	char *to = NULL;

	*joined = http_fields_value(http->fields, http->base, HTTP_FIELD_FORWARDED_FOR, 0);
	for (unsigned nth = 1;
	     (line = http_fields_value(http->fields, http->base, HTTP_FIELD_FORWARDED_FOR, nth)).data;
	     nth++) {
		to = arena_alloc(http->fill.arena, joined->len + 1 + line.len);
		if (!to)
			return request_out_of_memory(http);
		memcpy(to, joined->data, joined->len);
		to[joined->len] = ',';
		memcpy(to + joined->len + 1, line.data, line.len);
		*joined = (struct slice){to, joined->len + 1 + line.len};
	}
	return 0;
}

/* Cuts "Login.Example.com.:8080" to "Login.Example.com". */
static struct slice without_port(struct slice host)
{
	const char *colon = host.len ? memrchr(host.data, ':', host.len) : NULL;

	if (colon && !memchr(colon, ']', (size_t)(host.data + host.len - colon)))
		host.len = (size_t)(colon - host.data);
	if (host.len > 0 && host.data[host.len - 1] == '.')
		host.len--;
	return host;
}

/* Whether the port after `name`, the beginning of the Host, is absent, empty, or at most 65535. */
static bool has_good_port(struct slice host, struct slice name)
{
	struct slice port = {name.data + name.len, host.len - name.len};
	uint64_t number;

	slice_skip(&port, SLICE("."));
	return !slice_skip(&port, SLICE(":")) || port.len == 0 ||
	       (parse_u64(port, &number) && number <= UINT16_MAX);
}

/* Reduces "A, Login.Example.com.:8080" to "login.example.com": the last proxy's value, no port. */
static int normalize_host(struct http_request *http, struct slice *host)
{
	const char *mark = host->len ? memrchr(host->data, ',', host->len) : NULL;
	char *copy;

	if (mark)
		*host = (struct slice){mark + 1, (size_t)(host->data + host->len - mark) - 1};
	*host = without_port(slice_trim(*host));
	copy = arena_copy(http->fill.arena, *host);
	if (!copy)
		return request_out_of_memory(http);
	for (size_t i = 0; i < host->len; i++)
		if (copy[i] >= 'A' && copy[i] <= 'Z')
			copy[i] |= 32;
	host->data = copy;
	return 0;
}

/* Reads the proxy's own login from Weir-Authorization, since Authorization is the visitor's. */
static int read_proxy_login(struct http_request *http)
{
	struct request_origin *origin;

	if (!http_fields_has(http->fields, HTTP_FIELD_WEIR_AUTHORIZATION))
		return 0;
	origin = arena_alloc(http->fill.arena, sizeof *origin);
	if (!origin)
		return request_out_of_memory(http);
	http->fill.request->origin = origin;
	return read_login(http, HTTP_FIELD_WEIR_AUTHORIZATION, &origin->login);
}

/*
 * Reads the attributes, except the address, of the visitor's request on whose behalf a proxy asks.
 * `path` and *query are the visitor's unless the proxy sends others; *query returns which hold.
 */
static int read_proxied(struct http_request *http, struct slice path, struct slice *query)
{
	struct slice method = http->method, uri = {NULL, 0};
	struct slice host = http_fields_value(http->fields, http->base, HTTP_FIELD_HOST, 0);
	const struct {
		enum http_field a, b;
		const char *what;
		struct slice *value;
	} sources[] = {
	    {HTTP_FIELD_FORWARDED_METHOD, HTTP_FIELD_ORIGINAL_METHOD, "method", &method},
	    {HTTP_FIELD_FORWARDED_URI, HTTP_FIELD_ORIGINAL_URI, "URI", &uri},
	    {HTTP_FIELD_FORWARDED_HOST, HTTP_FIELD_FORWARDED_HOST, "host", &host},
	};
	struct fill *fill = &http->fill;
	const struct forwarded_list *wanted = fill->bounds->forwarded_attributes;
	int status = 0;

	for (size_t i = 0; status == 0 && i < sizeof sources / sizeof *sources; i++)
		status =
		    read_proxy_field(http, sources[i].a, sources[i].b, sources[i].what, sources[i].value);
	if (status != 0 || (status = normalize_host(http, &host)) != 0 ||
	    (status = join_forwarded_for(http)) != 0)
		return status;
	if (uri.data)
		split_target(uri, &path, query);
	if (query_normalize(fill->arena, path, &path) != 0)
		return request_out_of_memory(http);
	fill->request->from_proxy = true;
	if ((status = read_proxy_login(http)) != 0 ||
	    (status = fill_reserve_attributes(fill, 3 + (wanted ? wanted->count : 0))) != 0 ||
	    (status = fill_attribute(fill, SLICE("method"), method)) != 0 ||
	    (status = fill_attribute(fill, SLICE("path"), path)) != 0 ||
	    (host.len > 0 && (status = fill_attribute(fill, SLICE("host"), host)) != 0) || !wanted)
		return status;
	return http_forwarded_attributes(fill, wanted, &http->header, *query);
}

/* /auth?deny=403 */
static int read_auth(struct http_request *http)
{
	struct slice visitors_query = {NULL, 0}, name, value;
	uint64_t code;
	int status = read_proxied(http, SLICE("/"), &visitors_query);

	/* Caddy replaces only the path, so the query may be the visitor's, which sets no option. */
	if (status != 0 || slice_equal(http->query, visitors_query))
		return status;
	while (query_next(&http->query, &name, &value)) {
		if (!slice_equal(name, SLICE("deny")))
			return error_set(&http->fill.error, WEIR_EINVAL,
			                 "expected only the parameter deny, found '%.*s'", FILL_QUOTE(name));
		if (!parse_u64(value, &code) || code < 400 || code > 599)
			return error_set(&http->fill.error, WEIR_EINVAL,
			                 "expected deny to be a status from 400 to 599, found '%.*s'",
			                 FILL_QUOTE(value));
		http->fill.request->detail = (int)code;
	}
	return 0;
}

/*
 * Reads a request of Envoy, which appends the visitor's path and query to /auth. Denials have
 * status 429, because Envoy takes any 5xx for a failure of Weir and may then let the request pass.
 */
static int read_auth_below(struct http_request *http)
{
	struct slice path = {http->rest.data - 1, http->rest.len + 1}, query = http->query;

	http->fill.request->detail = 429;
	return read_proxied(http, path, &query);
}

void http_refuse_as(struct fill *fill, enum http_error error)
{
	const char *text = arena_copy(fill->arena, slice_of(fill->error.message));

	fill->request->kind = REQUEST_LOCAL;
	fill->request->class = REQUEST_FREE;
	fill->request->status = (signed char)fill->error.status;
	fill->request->reply_code = error;
	fill->request->local_text = text ? slice_of(text) : SLICE("out of memory");
}

void http_refuse(struct fill *fill)
{
	int status = fill->error.status;

	http_refuse_as(fill, fill->request->flags & HTTP_THROTTLECRAB
	                         ? http_throttlecrab_error_of(status)
	                         : http_error_of(status));
}

static int read_batch(struct http_request *http)
{
	int status = json_body_read_items(&http->fill, http->body, http_refuse);

	http->fill.request->reply_size = http->fill.request->item_count * HTTP_ITEM_SIZE;
	return status;
}

/* /v1/top?n=10 */
static int read_top(struct http_request *http)
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

/* Reads the last event that the client has; a Last-Event-ID that is no number is ignored. */
static int read_events(struct http_request *http)
{
	struct request *request = http->fill.request;
	struct slice last = http_fields_value(http->fields, http->base, HTTP_FIELD_LAST_EVENT_ID, 0);

	if (!last.data || !parse_u64(last, &request->after_event))
		request->after_event = 0;
	request->close_after = true; /* the stream ends with the connection */
	return 0;
}

static int read_throttle(struct http_request *http)
{
	http->fill.request->flags |= HTTP_THROTTLECRAB;
	return json_body_read_throttle(&http->fill, http->body);
}

static int read_health(struct http_request *http)
{
	http->fill.request->local_text = SLICE("OK");
	return 0;
}

static int read_nothing(struct http_request *http)
{
	(void)http;
	return 0;
}

static const struct http_route routes[] = {
#define ROUTE(path, class, methods, kind, op, read)                                                \
	{                                                                                              \
		SLICE(path), REQUEST_##class, METHOD_##methods, REQUEST_##kind, REQUEST_##op, read_##read  \
	}
    ROUTE("/auth", ASK, ANY, RULES, ACQUIRE, auth),
    ROUTE("/v1/acquire", ASK, POST, LIMIT, ACQUIRE, body),
    ROUTE("/v1/acquire/", ASK, GET, LIMIT, ACQUIRE, limit_query),
    ROUTE("/auth/", ASK, ANY, RULES, ACQUIRE, auth_below),
    ROUTE("/v1/peek", ASK, POST, LIMIT, PEEK, body),
    ROUTE("/v1/peek/", ASK, READ, LIMIT, PEEK, limit_query),
    ROUTE("/v1/refund", CHANGE, POST, LIMIT, REFUND, body),
    ROUTE("/v1/reset", CHANGE, POST, LIMIT, RESET, body),
    ROUTE("/v1/report", ASK, POST, REPORT, ACQUIRE, body),
    ROUTE("/v1/shed", ADMIN, POST, SHED, ACQUIRE, body),
    ROUTE("/v1/breaker", ADMIN, POST, FORCE, ACQUIRE, body),
    ROUTE("/v1/batch", ASK, POST, BATCH, ACQUIRE, batch), /* its items have classes of their own */
    ROUTE("/throttle", ASK, POST, ADHOC, ACQUIRE, throttle),
    ROUTE("/health", FREE, READ, HEALTH, ACQUIRE, health),
    ROUTE("/healthz", FREE, READ, HEALTH, ACQUIRE, nothing),
    ROUTE("/readyz", FREE, READ, READY, ACQUIRE, nothing),
    ROUTE("/metrics", ASK, READ, METRICS, ACQUIRE, nothing),
    ROUTE("/v1/limits", ADMIN, READ, LIMITS, ACQUIRE, nothing),
    ROUTE("/v1/top", ADMIN, READ, TOP, ACQUIRE, top),
    ROUTE("/v1/events", ADMIN, GET, EVENTS, ACQUIRE, events),
#undef ROUTE
#define ROUTE(path, class, kind, op, read)                                                         \
	{                                                                                              \
		SLICE(path), REQUEST_##class, METHOD_KOALA, REQUEST_##kind, REQUEST_##op,                  \
		    http_read_##read, true                                                                 \
	}
    ROUTE("/rule/browse", ASK, BROWSE, PEEK, browse),
    ROUTE("/rule/update", ASK, EACH_LIMIT, ACQUIRE, update),
    ROUTE("/rule/browse_complete", ASK, BROWSE_ALL, PEEK, browse),
    ROUTE("/rule/feedback", CHANGE, EACH_LIMIT, REFUND, feedback),
    ROUTE("/rule/value", ASK, VALUE, PEEK, value),
    ROUTE("/multi/browse", ASK, BATCH, ACQUIRE, multi_browse),
    ROUTE("/monitor/alive", FREE, ALIVE, ACQUIRE, alive),
    ROUTE("/dump/policy", ADMIN, POLICY, ACQUIRE, dump),
    ROUTE("/dump/counter", ADMIN, COUNTERS, ACQUIRE, dump),
#undef ROUTE
};

#define ROUTE_COUNT (sizeof routes / sizeof *routes)

const struct http_route *http_routes(size_t *n)
{
	*n = ROUTE_COUNT;
	return routes;
}

/* Cuts "//rule/browse/" to "/rule/browse". */
static struct slice without_slashes(struct slice path)
{
	while (path.len > 1 && path.data[0] == '/' && path.data[1] == '/')
		slice_skip(&path, SLICE("/"));
	while (path.len > 1 && path.data[path.len - 1] == '/')
		path.len--;
	return path;
}

static const struct http_route *find_route(struct slice path)
{
	struct slice bare = without_slashes(path);

	for (size_t i = 0; i < ROUTE_COUNT; i++) {
		struct slice want = routes[i].path, found = routes[i].is_koala ? bare : path;
		bool begins = want.data[want.len - 1] == '/';

		if ((begins ? found.len >= want.len : found.len == want.len) &&
		    memcmp(found.data, want.data, want.len) == 0)
			return &routes[i];
	}
	return NULL;
}

bool http_may_lack_host(struct slice target)
{
	struct slice path, query;
	const struct http_route *route;

	split_target(target, &path, &query);
	route = find_route(path);
	return route && route->is_koala;
}

static unsigned method_of(struct slice method)
{
	return slice_equal(method, SLICE("GET"))    ? METHOD_GET
	       : slice_equal(method, SLICE("HEAD")) ? METHOD_HEAD
	       : slice_equal(method, SLICE("POST")) ? METHOD_POST
	       : slice_equal(method, SLICE("PUT"))  ? METHOD_PUT
	                                            : METHOD_OTHER;
}

/* For messages, by the set of methods that a route accepts. */
static const char *const method_names[] = {
    [METHOD_GET] = "GET",
    [METHOD_READ] = "GET or HEAD",
    [METHOD_POST] = "POST",
    [METHOD_KOALA] = "GET, HEAD, POST or PUT",
};

/* Whether `origin`, such as "http://a.example:8080" or "null", is not that of a page of `host`. */
static bool is_foreign(struct slice origin, struct slice host)
{
	const char *mark = origin.len ? memmem(origin.data, origin.len, "://", 3) : NULL;

	if (!mark)
		return true;
	mark += 3;
	return !slice_equal_nocase((struct slice){mark, (size_t)(origin.data + origin.len - mark)},
	                           host);
}

/* Reads where the request comes from, by fields that browsers do not let a page set. */
static int read_origin(struct http_request *http)
{
	struct request_origin *origin = arena_alloc(http->fill.arena, sizeof *origin);
	struct slice host = http_fields_value(http->fields, http->base, HTTP_FIELD_HOST, 0);

	if (!origin)
		return request_out_of_memory(http);
	*origin = (struct request_origin){.forwarded = http->fields->forwarded};
	if (host.len > 0) {
		origin->host = without_port(host);
		if (!has_good_port(host, origin->host))
			return error_set(&http->fill.error, WEIR_ESYNTAX,
			                 "expected a Host with a port from 0 to 65535, found '%.*s'",
			                 FILL_QUOTE(host));
	}
	for (unsigned i = 0; i < http->fields->count; i++) {
		enum http_field field = http->fields->lines[i].field;
		struct slice value = http_fields_line(http->fields, http->base, i);

		if (field == HTTP_FIELD_ORIGIN)
			origin->is_from_foreign_page |= is_foreign(value, host);
		else if (field == HTTP_FIELD_FETCH_SITE)
			origin->is_from_foreign_page |= slice_equal_nocase(value, SLICE("cross-site"));
	}
	http->fill.request->origin = origin;
	return http_fields_has(http->fields, HTTP_FIELD_AUTHORIZATION)
	           ? read_login(http, HTTP_FIELD_AUTHORIZATION, &origin->login)
	           : 0;
}

void http_read(struct http_request *http)
{
	struct fill *fill = &http->fill;
	const struct http_route *route;
	struct slice path;
	unsigned method = method_of(http->method);

	if (method == METHOD_HEAD)
		fill->request->flags |= HTTP_NO_BODY;
	split_target(http->target, &path, &http->query);
	route = find_route(path);
	if (!route) {
		error_set(&fill->error, WEIR_ENOTFOUND, "expected a known path, found '%.*s'",
		          FILL_QUOTE(path));
		http_refuse_as(fill, HTTP_ERROR_NOT_FOUND);
		return;
	}
	if (!(route->methods & method)) {
		error_set(&fill->error, WEIR_EINVAL, "expected %s, found %.*s",
		          method_names[route->methods], FILL_QUOTE(http->method));
		http_refuse_as(fill, HTTP_ERROR_METHOD);
		fill->request->detail = (int)route->methods;
		return;
	}
	http->rest = (struct slice){path.data + route->path.len, path.len - route->path.len};
	fill->request->kind = route->kind;
	fill->request->op = route->op;
	fill->request->class = route->class;
	/* With from_proxy, Host and Origin may be those of the visitor's request. */
	if (route->read(http) != 0 || (!fill->request->from_proxy && read_origin(http) != 0))
		http_refuse(fill);
}
