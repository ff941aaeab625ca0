/*
 * http_request.c: lists the routes of the HTTP interface, and turns an HTTP request, of HTTP/1 or
 * HTTP/2, into a request for the server. It finds the route by path and method, then reads the
 * route's parameters and the login of the client.
 */
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

/* Functions that read the parameters of a route return 0, or a status with an error set. */
static int http_read_body(struct http_request *http)
{
	return json_body_read(&http->fill, http->body);
}

int http_decode_parameter(struct fill *fill, struct slice *name, struct slice *value)
{
	int status = query_decode(fill->arena, *name, name);

	if (status == 0)
		status = query_decode(fill->arena, *value, value);
	return status == 0 ? 0
	                   : error_set(&fill->error, status, "expected two hex digits after every %%");
}

/* ?key=K&cost=N */
static int read_query(struct http_request *http)
{
	struct fill *fill = &http->fill;
	struct slice name, value;
	bool is_coded = query_is_coded(http->query);
	int status = 0;

	while (status == 0 && query_next(&http->query, &name, &value)) {
		if (is_coded && (status = http_decode_parameter(fill, &name, &value)) != 0)
			return status;
		status = fill_field(fill, name, value, FILL_UNQUOTED);
	}
	return status == 0 ? fill_finish(fill) : status;
}

/* /v1/acquire/LIMIT?key=K&cost=N */
static int http_read_limit_query(struct http_request *http)
{
	struct fill *fill = &http->fill;
	struct slice value;
	int status;

	if (query_decode_path(fill->arena, http->path_rest, &value) != 0)
		return request_out_of_memory(http);
	status = fill_field(fill, SLICE("limit"), value, FILL_UNQUOTED);
	return status == 0 ? read_query(http) : status;
}

/* Cuts "http://host/path", the form of requests to proxies, to "/path". */
static struct slice without_authority(struct slice target)
{
	const char *end = target.data + target.len, *p = target.data;

	if (target.len == 0 || *p == '/')
		return target;
	p = memmem(p, target.len, "://", strlen("://"));
	p = p ? memchr(p + 3, '/', (size_t)(end - p) - 3) : NULL; /* the path behind the host */
	return p ? (struct slice){p, (size_t)(end - p)} : target;
}

/* Splits the target at the first '?', without the fragment, which clients should not send. */
static void split_target(struct slice target, struct slice *path, struct slice *query)
{
	const char *fragment, *question_mark;

	*path = without_authority(target);
	*query = (struct slice){NULL, 0};
	fragment = path->len ? memchr(path->data, '#', path->len) : NULL;
	if (fragment)
		path->len = (size_t)(fragment - path->data);
	question_mark = path->len ? memchr(path->data, '?', path->len) : NULL;
	if (question_mark) {
		const char *end = path->data + path->len;

		*query = (struct slice){question_mark + 1, (size_t)(end - question_mark) - 1};
		path->len = (size_t)(question_mark - path->data);
	}
}

/*
 * Reads a value that the proxy sends in one of two fields, `a` and `b`; without either, *value
 * stays. A proxy that sets only one field may forward the other from the client. So fields that
 * differ are an error, whose message calls the value `what`.
 */
static int read_proxy_field(struct http_request *http, enum http_field a, enum http_field b,
                            const char *what, struct slice *value)
{
	bool found = false;

	for (unsigned i = 0; i < http->fields->line_count; i++) {
		enum http_field field = http->fields->lines[i].field;
		struct slice line;

		if (field != a && field != b)
			continue;
		line = http_fields_line(http->fields, http->head_start, i);
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

/* Reads the credentials USER:SECRET in Base64. Without a colon the secret is empty, as no user's
 * is. */
static int read_basic_login(struct http_request *http, struct slice text,
                            struct request_login *login)
{
	size_t capacity = text.len / 4 * 3 + 3;
	char *bytes = arena_alloc(http->fill.arena, capacity);

	if (!bytes)
		return request_out_of_memory(http);
	login->secret = (struct slice){bytes, base64_decode(text, (uint8_t *)bytes, capacity)};
	login->user = slice_cut(&login->secret, ':');
	return 0;
}

/*
 * Reads the credentials in a field, such as "Bearer SECRET". In an unknown form, or in several
 * lines, they are an empty secret, which no user has.
 */
static int read_login(struct http_request *http, enum http_field field, struct request_login *login)
{
	struct slice rest = http_fields_value(http->fields, http->head_start, field, 0), scheme;
	bool has_several_lines = http_fields_value(http->fields, http->head_start, field, 1).data;

	login->secret = SLICE("");
	if (has_several_lines)
		return 0;
	scheme = slice_cut(&rest, ' ');
	rest = slice_trim(rest);
	if (slice_equal_nocase(scheme, SLICE("basic")))
		return read_basic_login(http, rest, login);
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

	*joined = http_fields_value(http->fields, http->head_start, HTTP_FIELD_FORWARDED_FOR, 0);
	for (unsigned nth = 1;
	     (line = http_fields_value(http->fields, http->head_start, HTTP_FIELD_FORWARDED_FOR, nth))
	         .data;
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
static bool has_valid_port(struct slice host, struct slice name)
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
	const char *comma = host->len ? memrchr(host->data, ',', host->len) : NULL;
	char *copy;

	if (comma)
		*host = (struct slice){comma + 1, (size_t)(host->data + host->len - comma) - 1};
	*host = without_port(slice_trim(*host));
	copy = arena_copy(http->fill.arena, *host);
	if (!copy)
		return request_out_of_memory(http);
	for (size_t i = 0; i < host->len; i++)
		if (copy[i] >= 'A' && copy[i] <= 'Z')
			copy[i] |= 'a' - 'A';
	host->data = copy;
	return 0;
}

/* Reads the proxy's own login from Weir-Authorization, because Authorization is the visitor's. */
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

static int fill_proxied_attributes(struct http_request *http, struct slice method,
                                   struct slice path, struct slice host, struct slice query)
{
	struct fill *fill = &http->fill;
	const struct forwarded_list *wanted = fill->bounds->forwarded_attributes;
	int status = fill_reserve_attributes(fill, 3 + (wanted ? wanted->count : 0));

	if (status == 0)
		status = fill_attribute(fill, SLICE("method"), method);
	if (status == 0)
		status = fill_attribute(fill, SLICE("path"), path);
	if (status == 0 && host.len > 0)
		status = fill_attribute(fill, SLICE("host"), host);
	return status == 0 && wanted ? http_forwarded_attributes(fill, wanted, &http->header, query)
	                             : status;
}

/*
 * Reads the request of a visitor, for whom a proxy asks whether it may pass: all its attributes but
 * the visitor's address. The proxy sends method, URI and host in fields of their own; without such
 * a URI, `path` and *query hold. *query is set to the visitor's query.
 */
static int read_proxied(struct http_request *http, struct slice path, struct slice *query)
{
	struct slice method = http->method, uri = {NULL, 0};
	struct slice host = http_fields_value(http->fields, http->head_start, HTTP_FIELD_HOST, 0);
	const struct {
		enum http_field a, b;
		const char *what;
		struct slice *value;
	} sources[] = {
	    {HTTP_FIELD_FORWARDED_METHOD, HTTP_FIELD_ORIGINAL_METHOD, "method", &method},
	    {HTTP_FIELD_FORWARDED_URI, HTTP_FIELD_ORIGINAL_URI, "URI", &uri},
	    {HTTP_FIELD_FORWARDED_HOST, HTTP_FIELD_FORWARDED_HOST, "host", &host},
	};
	int status = 0;

	for (size_t i = 0; status == 0 && i < sizeof sources / sizeof *sources; i++)
		status =
		    read_proxy_field(http, sources[i].a, sources[i].b, sources[i].what, sources[i].value);
	if (status != 0 || (status = normalize_host(http, &host)) != 0 ||
	    (status = join_forwarded_for(http)) != 0)
		return status;
	if (uri.data)
		split_target(uri, &path, query);
	if (query_normalize_path(http->fill.arena, path, &path) != 0)
		return request_out_of_memory(http);
	http->fill.request->from_proxy = true;
	status = read_proxy_login(http);
	return status == 0 ? fill_proxied_attributes(http, method, path, host, *query) : status;
}

/* A proxy's request to /auth?deny=403, which may set the status of denials. */
static int http_read_auth(struct http_request *http)
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
		http->fill.request->detail = (int)code; /* the status of a denial */
	}
	return 0;
}

/*
 * Reads a request of Envoy, a proxy which appends the visitor's path and query to /auth. Denials
 * have status 429, because Envoy takes any 5xx for a failure of Weir and may then let the request
 * pass.
 */
static int http_read_auth_with_path(struct http_request *http)
{
	struct slice path = {http->path_rest.data - 1, http->path_rest.len + 1}; /* with its '/' */
	struct slice query = http->query;

	http->fill.request->detail = 429;
	return read_proxied(http, path, &query);
}

/* Makes the request one that is answered with `error`, and the message of fill->error. */
void http_refuse_as(struct fill *fill, enum http_error error)
{
	const char *text = arena_copy(fill->arena, slice_of(fill->error.message));

	fill->request->kind = REQUEST_LOCAL;
	fill->request->class = REQUEST_FREE;
	fill->request->status = (signed char)fill->error.status;
	fill->request->reply_code = error;
	fill->request->local_text = text ? slice_of(text) : SLICE("out of memory");
}

/* The same with the error that the status of fill->error stands for. */
void http_refuse_by_status(struct fill *fill)
{
	int status = fill->error.status;

	http_refuse_as(fill, fill->request->flags & HTTP_THROTTLECRAB
	                         ? http_throttlecrab_error_of(status)
	                         : http_error_of(status));
}

/* /v1/batch: an array of requests; one with an error is answered with that error. */
static int http_read_batch(struct http_request *http)
{
	int status = json_body_read_items(&http->fill, http->body, http_refuse_by_status);

	http->fill.request->reply_size = http->fill.request->item_count * HTTP_ITEM_SIZE;
	return status;
}

/* throttlecrab's /throttle, whose limit is in the request */
static int http_read_throttle(struct http_request *http)
{
	http->fill.request->flags |= HTTP_THROTTLECRAB;
	return json_body_read_throttle(&http->fill, http->body);
}

static int http_read_health(struct http_request *http)
{
	http->fill.request->local_text = SLICE("OK");
	return 0;
}

static int http_read_nothing(struct http_request *http)
{
	(void)http;
	return 0;
}

/* Searched from the first on: frequent routes come first. The last part are those of Koala. */
static const struct http_route routes[] = {
#define ROUTE(path, class, methods, kind, op, read)                                                \
	{                                                                                              \
		SLICE(path), REQUEST_##class, METHOD_##methods, REQUEST_##kind, REQUEST_##op,              \
		    http_read_##read                                                                       \
	}
    ROUTE("/auth", ASK, ANY, RULES, ACQUIRE, auth),
    ROUTE("/v1/acquire", ASK, POST, LIMIT, ACQUIRE, body),
    ROUTE("/v1/acquire/", ASK, GET, LIMIT, ACQUIRE, limit_query),
    ROUTE("/auth/", ASK, ANY, RULES, ACQUIRE, auth_with_path),
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
    ROUTE("/v1/key", ADMIN, POST, DIGEST, ACQUIRE, body),
    ROUTE("/v1/denials", ADMIN, READ, DENIALS, ACQUIRE, denials),
    ROUTE("/v1/status", ADMIN, READ, STATUS, ACQUIRE, nothing),
    ROUTE("/v1/reload", ADMIN, POST, RELOAD, ACQUIRE, nothing),
    ROUTE("/v1/stats", ADMIN, READ, STATS, ACQUIRE, stats),
    ROUTE("/v1/events", ADMIN, GET, EVENTS, ACQUIRE, events),
    ROUTE("/", ADMIN, READ, DASHBOARD, ACQUIRE, nothing),
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

/* Returns NULL if there is none. A route whose path ends in '/' is for all paths below it, but for
 * the root. */
static const struct http_route *find_route(struct slice path)
{
	struct slice koala_path = without_slashes(path);

	for (size_t i = 0; i < ROUTE_COUNT; i++) {
		struct slice wanted = routes[i].path, found = routes[i].is_koala ? koala_path : path;
		bool is_prefix = wanted.len > 1 && wanted.data[wanted.len - 1] == '/';
		bool has_len = is_prefix ? found.len >= wanted.len : found.len == wanted.len;

		if (has_len && memcmp(found.data, wanted.data, wanted.len) == 0)
			return &routes[i];
	}
	return NULL;
}

/* Koala's clients may omit the Host that HTTP/1.1 requires. */
bool http_may_lack_host(struct slice target)
{
	struct slice path, query;
	const struct http_route *route;

	split_target(target, &path, &query);
	route = find_route(path);
	return route && route->is_koala;
}

static unsigned method_bit(struct slice method)
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
	const char *name = origin.len ? memmem(origin.data, origin.len, "://", 3) : NULL;

	if (!name)
		return true;
	name += 3;
	return !slice_equal_nocase((struct slice){name, (size_t)(origin.data + origin.len - name)},
	                           host);
}

/*
 * Reads the host that the request was sent to, its login, and whether a page of another host made a
 * browser send it. Browsers do not let a page set the fields that show this.
 */
static int read_origin(struct http_request *http)
{
	struct request_origin *origin = arena_alloc(http->fill.arena, sizeof *origin);
	struct slice host = http_fields_value(http->fields, http->head_start, HTTP_FIELD_HOST, 0);

	if (!origin)
		return request_out_of_memory(http);
	*origin = (struct request_origin){.forwarded = http->fields->has_proxy_field};
	if (host.len > 0) {
		origin->host = without_port(host);
		if (!has_valid_port(host, origin->host))
			return error_set(&http->fill.error, WEIR_ESYNTAX,
			                 "expected a Host with a port from 0 to 65535, found '%.*s'",
			                 FILL_QUOTE(host));
	}
	for (unsigned i = 0; i < http->fields->line_count; i++) {
		enum http_field field = http->fields->lines[i].field;
		struct slice value = http_fields_line(http->fields, http->head_start, i);

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

/* Fills in the request, or the error with which it is answered. */
void http_read_request(struct http_request *http)
{
	struct fill *fill = &http->fill;
	const struct http_route *route;
	struct slice path;
	unsigned method = method_bit(http->method);

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
	http->path_rest = (struct slice){path.data + route->path.len, path.len - route->path.len};
	fill->request->kind = route->kind;
	fill->request->op = route->op;
	fill->request->class = route->class;
	/* With from_proxy, Host and Origin may be those of the visitor's request. */
	if (route->read(http) != 0 || (!fill->request->from_proxy && read_origin(http) != 0))
		http_refuse_by_status(fill);
}
