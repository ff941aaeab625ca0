/* Reads requests of HTTP/1 however their bytes are split, and writes their answers. */
#include "drive.h"

#include <stdio.h>

#include "proto/http/http_answer.h"

static const struct reply passed = {
    .ready = true,
    .body = {"weir_up 1\n", 10},
    .decision = {.allowed = true,
                 .quota = 10,
                 .remaining = 9,
                 .reset_after_ns = 200000000,
                 .window_ns = 2000000000,
                 .limit = "login"},
};

static const struct reply denied = {
    .decision = {.reason = WEIR_REASON_OVER_LIMIT,
                 .quota = 10,
                 .retry_after_ns = 1200000001,
                 .reset_after_ns = 2000000000,
                 .window_ns = 2000000000,
                 .limit = "login",
                 .rule = "a \"b\"",
                 .result = "{\"code\":1}"},
};

#define PASSED_BODY                                                                                \
	"{\"allowed\":true,\"limit\":\"login\",\"quota\":10,\"remaining\":9,\"retry_after_ms\":0,"     \
	"\"reset_after_ms\":200,\"reason\":\"ok\"}"
#define PASSED_FIELDS "RateLimit-Policy: \"login\";q=10;w=2\r\nRateLimit: \"login\";r=9;t=1\r\n"
#define PASSED                                                                                     \
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 111\r\n" PASSED_FIELDS   \
	"\r\n" PASSED_BODY
#define DENIED_BODY                                                                                \
	"{\"allowed\":false,\"limit\":\"login\",\"quota\":10,\"remaining\":0,"                         \
	"\"retry_after_ms\":1201,\"reset_after_ms\":2000,\"reason\":\"over_limit\","                   \
	"\"rule\":\"a \\\"b\\\"\",\"code\":1}"
#define DENIED_HEAD                                                                                \
	"Content-Type: application/json\r\nContent-Length: 150\r\n"                                    \
	"RateLimit-Policy: \"login\";q=10;w=2\r\nRateLimit: \"login\";r=0;t=2\r\n"
#define DENIED_REST DENIED_HEAD "Retry-After: 2\r\n\r\n" DENIED_BODY
#define HEALTHY                                                                                    \
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"

static bool exchange(const struct reply *reply, const char *bytes, const char *requests,
                     const char *out)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	return drive_all(&http_codec, &bounds, reply, slice_of(bytes), requests, out);
}

/* Sends `bytes`; the first line of what is written of `reply`, and some of the rest, are as told.
 */
static void assert_answer(const struct reply *reply, const char *bytes, const char *status,
                          const char *message, bool closes)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	struct drive drive;

	drive_open(&drive, &http_codec, &bounds, reply);
	drive_feed(&drive, slice_of(bytes));
	buffer_add(&drive.out, "", 1);
	if (strncmp(drive.out.data + 9, status, strlen(status)) != 0 ||
	    !strstr(drive.out.data, message))
		fail_msg("%s\nexpected %s and %s\nfound %s", bytes, status, message, drive.out.data);
	assert_true(!strstr(drive.out.data, "Connection: close") == !closes);
	drive_close(&drive);
}

/* The same of what is refused before anybody is asked. */
static void assert_refused(const char *bytes, const char *status, const char *message, bool closes)
{
	assert_int_equal(exchange(&passed, bytes, "", NULL), closes);
	assert_answer(&passed, bytes, status, message, closes);
}

#define HOST "Host: h\r\n"

static void post(char *room, size_t size, const char *path, const char *body)
{
	snprintf(room, size, "POST %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", path,
	         strlen(body), body);
}

static void test_queries_and_bodies_become_the_same_requests(void **state)
{
	static const struct {
		const char *path, *body, *request;
	} bodies[] = {
	    {"/v1/acquire", "{\"limit\":\"l\",\"key\":\"k\"}", "acquire limit l/k cost 1\n"},
	    {"/v1/peek", "{\"key\":42,\"limit\":\"l\",\"cost\":3}", "peek limit l/42 cost 3\n"},
	    {"/v1/refund", " {\"limit\":\"l\",\"key\":\"k\",\"wait_ms\":0,\"permit\":false} ",
	     "refund limit l/k cost 1 no wait\n"},
	    {"/v1/acquire", "{\"limit\":\"l\",\"key\":\"k\",\"wait_ms\":3600000}",
	     "acquire limit l/k cost 1 wait 3600000000000 ns\n"},
	    {"/v1/reset", "{\"attributes\":{\"ip\":\"::1\",\"n\":1.5,\"b\":true},\"cost\":0}",
	     "reset rules ip=::1 n=1.5 b=true cost 0\n"},
	    {"/v1/acquire", "{\"attributes\":{}}", "acquire rules cost 1\n"},
	    {"/v1/acquire", "{\"permit\":true,\"limit\":\"l\",\"key\":\"k\"}",
	     "acquire limit l/k cost 1 with permit\n"},
	    {"/v1/refund", "{\"cost\":2,\"permit\":\"p\",\"limit\":\"l\",\"key\":\"k\"}",
	     "refund limit l/k cost 2 of permit [p]\n"},
	    {"/v1/refund", "{\"permit\":\"p\",\"attributes\":{\"a\":\"b\"}}",
	     "refund rules a=b cost all of permit [p]\n"},
	    {"/v1/refund", "{\"permit\":\"\"}", "refund rules cost all of permit []\n"},
	    {"http://weir:8080/v1/reset#f", "{\"limit\":\"l\",\"key\":\"k\"}",
	     "reset limit l/k cost 1\n"},
	};
	static const char *const queries[][2] = {
	    {"/v1/acquire/l?key=k", "acquire limit l/k cost 1\n"},
	    {"/v1/acquire/l?key=k&wait_ms=5", "acquire limit l/k cost 1 wait 5000000 ns\n"},
	    {"/v1/acquire/l?key=k&permit=true", "acquire limit l/k cost 1 with permit\n"},
	    {"/v1/peek/l?&key=a%2Fb+c&&cost=0", "peek limit l/a/b c cost 0\n"},
	    {"/v1/peek/%6C?cost=7&key=", "peek limit l/ cost 7\n"},
	    {"http://weir:8080/v1/peek/l?key=k#f", "peek limit l/k cost 1\n"},
	};
	char bytes[512];

	(void)state;
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		post(bytes, sizeof bytes, bodies[i].path, bodies[i].body);
		assert_false(exchange(&passed, bytes, bodies[i].request, PASSED));
	}
	for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
		snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\n" HOST "\r\n", queries[i][0]);
		assert_false(exchange(&passed, bytes, queries[i][1], PASSED));
	}
}

static void test_permits_are_in_the_answer_and_reports_have_their_own(void **state)
{
	static const char handed_out[] = "\"reason\":\"ok\",\"permit\":\"p-_1\"}";
	struct reply with = {.decision = {.allowed = true}, .permit = SLICE("p-_1")};
	struct reply gone = {.status = WEIR_ENOTFOUND, .message = "not held"};
	char bytes[256];

	(void)state;
	post(bytes, sizeof bytes, "/v1/acquire", "{\"limit\":\"l\",\"key\":\"k\",\"permit\":true}");
	assert_answer(&with, bytes, "200 OK", handed_out, false);
	post(bytes, sizeof bytes, "/v1/report", "{\"permit\":\"p\",\"outcome\":\"timeout\"}");
	exchange(&passed, bytes, "acquire report cost all of permit [p] outcome 2 after 0 ms\n", NULL);
	assert_answer(&passed, bytes, "200 OK", "\r\n\r\n{\"ok\":true}", false);
	assert_answer(&gone, bytes, "404 Not Found",
	              "{\"error\":{\"code\":\"permit_not_held\",\"message\":\"not held\"}}", false);
	/* A refund that gave nothing back is no request that may be tried again. */
	post(bytes, sizeof bytes, "/v1/refund", "{\"permit\":\"p\"}");
	exchange(&denied, bytes, NULL, "HTTP/1.1 200 OK\r\n" DENIED_HEAD "\r\n" DENIED_BODY);
}

static void test_only_a_denied_acquire_has_a_status_of_its_own(void **state)
{
	static const struct {
		enum weir_reason reason;
		const char *status;
	} table[] = {
	    {WEIR_REASON_OVER_LIMIT, "429 Too"},        {WEIR_REASON_QUEUE_FULL, "429 Too"},
	    {WEIR_REASON_WAIT_TOO_LONG, "429 Too"},     {WEIR_REASON_LISTED, "429 Too"},
	    {WEIR_REASON_SHED, "503 Service"},          {WEIR_REASON_BREAKER_OPEN, "503 Service"},
	    {WEIR_REASON_STORE_FAILURE, "503 Service"}, {WEIR_REASON_NO_ROOM, "503 Service"},
	};
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	(void)state;
	exchange(&denied, "GET /v1/acquire/login?key=k HTTP/1.1\r\n" HOST "\r\n", NULL,
	         "HTTP/1.1 429 Too Many Requests\r\n" DENIED_REST);
	exchange(&denied, "GET /v1/peek/login?key=k HTTP/1.1\r\n" HOST "\r\n", NULL,
	         "HTTP/1.1 200 OK\r\n" DENIED_REST);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct reply reply = denied;
		struct drive drive;

		reply.decision.reason = table[i].reason;
		drive_open(&drive, &http_codec, &bounds, &reply);
		drive_feed(&drive, SLICE("GET /v1/acquire/l?key=k HTTP/1.1\r\n" HOST "\r\n"));
		assert_memory_equal(drive.out.data + 9, table[i].status, strlen(table[i].status));
		drive_close(&drive);
	}
}

static void test_names_in_ratelimit_fields_stay_different(void **state)
{
	static const char *const table[][2] = {
	    {"a b~", "\"a b~\";q=10;w=2\r\n"},
	    {"\xc3\xa4", "\"%C3%A4\";q=10;w=2\r\n"},
	    {"\xc3\xb6", "\"%C3%B6\";q=10;w=2\r\n"},
	    {"%C3%B6", "\"%25C3%25B6\";q=10;w=2\r\n"},
	    {"\"\\?\x7f\t", "\"\\\"\\\\?%7F%09\";q=10;w=2\r\n"},
	};
	char longest[65], field[256] = "RateLimit: \"";
	struct reply reply = passed;

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		reply.decision.limit = table[i][0];
		assert_answer(&reply, "GET /v1/peek/l?key=k HTTP/1.1\r\n" HOST "\r\n", "200 OK",
		              table[i][1], false);
	}
	memset(longest, 0xff, sizeof longest - 1);
	longest[64] = '\0';
	for (int i = 0; i < 64; i++)
		strcat(field, "%FF");
	strcat(field, "\";r=0;t=2\r\n");
	reply = denied;
	reply.decision.limit = longest;
	assert_answer(&reply, "POST /auth HTTP/1.1\r\n" HOST "\r\n", "429", field, false);
}

/* The longest names and numbers fill the room that an answer reserves. */
static void test_a_decision_may_have_names_that_json_escapes(void **state)
{
	char controls[65], escaped[64 * 6 + 1] = "", body[2048];
	struct reply reply = {.decision = {.quota = UINT64_MAX,
	                                   .remaining = UINT64_MAX,
	                                   .retry_after_ns = UINT64_MAX,
	                                   .reset_after_ns = UINT64_MAX,
	                                   .limit = controls,
	                                   .rule = controls,
	                                   .degraded = true}};
	struct request request = {.kind = REQUEST_LIMIT};
	static struct http_answer answer;
	struct buffer out = {0};

	(void)state;
	memset(controls, 1, 64);
	controls[64] = '\0';
	for (int i = 0; i < 64; i++)
		strcat(escaped, "\\u0001");
	snprintf(
	    body, sizeof body,
	    "{\"allowed\":false,\"limit\":\"%s\",\"quota\":18446744073709551615,"
	    "\"remaining\":18446744073709551615,\"retry_after_ms\":18446744073710,"
	    "\"reset_after_ms\":18446744073710,\"reason\":\"ok\",\"degraded\":true,\"rule\":\"%s\"}",
	    escaped, escaped);
	http_answer_make(&answer, &request, &reply, &out);
	assert_false(out.failed);
	assert_int_equal(out.len, strlen(body));
	assert_memory_equal(out.data, body, out.len);
	buffer_free(&out);
}

static void test_a_limit_without_a_quota_has_no_ratelimit_fields(void **state)
{
	const struct reply shed = {.decision = {.reason = WEIR_REASON_SHED,
	                                        .retry_after_ns = 2000000000,
	                                        .limit = "relief"}};

	(void)state;
	exchange(&shed, "GET /v1/acquire/relief?key=k HTTP/1.1\r\n" HOST "\r\n", NULL,
	         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
	         "Content-Length: 115\r\nRetry-After: 2\r\n\r\n{\"allowed\":false,"
	         "\"limit\":\"relief\",\"quota\":0,\"remaining\":0,"
	         "\"retry_after_ms\":2000,\"reset_after_ms\":0,\"reason\":\"shed\"}");
}

static void test_where_no_limit_decided_there_are_no_ratelimit_fields(void **state)
{
	struct reply reply = {.decision = {.allowed = true}};

	(void)state;
	exchange(&reply, "GET /v1/acquire/l?key=k HTTP/1.1\r\n" HOST "\r\n", NULL,
	         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 105\r\n\r\n"
	         "{\"allowed\":true,\"limit\":null,\"quota\":0,\"remaining\":0,\"retry_after_ms\":0,"
	         "\"reset_after_ms\":0,\"reason\":\"ok\"}");
}

static void test_an_error_of_the_server_has_its_http_status(void **state)
{
	struct reply reply = {.status = WEIR_ENOTFOUND, .message = "no limit 'l'"};

	(void)state;
	exchange(
	    &reply, "GET /v1/acquire/l?key=k HTTP/1.1\r\n" HOST "\r\n", NULL,
	    "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 59\r\n\r\n"
	    "{\"error\":{\"code\":\"unknown_limit\",\"message\":\"no limit 'l'\"}}");
}

static void test_health_readiness_and_metrics(void **state)
{
	struct reply unready = {.ready = false};

	(void)state;
	exchange(&passed, "GET /healthz HTTP/1.1\r\n" HOST "\r\n", "acquire health cost 1\n",
	         HEALTHY "\r\nok\n");
	exchange(&unready, "GET /readyz HTTP/1.1\r\n" HOST "\r\n", "acquire ready cost 1\n",
	         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
	         "Content-Length: 10\r\n\r\nnot ready\n");
	exchange(&passed, "GET /metrics HTTP/1.1\r\n" HOST "\r\n", "acquire metrics cost 1\n",
	         "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
	         "Content-Length: 10\r\n\r\nweir_up 1\n");
}

static void test_a_head_request_is_answered_without_the_body(void **state)
{
	(void)state;
	exchange(&passed, "HEAD /healthz HTTP/1.1\r\n" HOST "\r\nHEAD /x HTTP/1.1\r\n" HOST "\r\n",
	         "acquire health cost 1\n",
	         HEALTHY "\r\nHTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
	                 "Content-Length: 76\r\n\r\n");
}

static void test_connections_stay_or_close_by_the_rules_of_both_versions(void **state)
{
#define GET(version, more) "GET /healthz HTTP/" version "\r\n" HOST more "\r\n"
	(void)state;
	assert_false(exchange(&passed, GET("1.1", "") GET("1.1", ""), NULL,
	                      HEALTHY "\r\nok\n" HEALTHY "\r\nok\n"));
	assert_true(exchange(&passed, GET("1.1", "Connection: close\r\n") GET("1.1", ""), NULL,
	                     HEALTHY "Connection: close\r\n\r\nok\n"));
	assert_true(exchange(&passed, "GET /healthz HTTP/1.0\r\n\r\n" GET("1.1", ""), NULL,
	                     HEALTHY "Connection: close\r\n\r\nok\n"));
	assert_false(exchange(&passed, GET("1.0", "Connection: keep-alive\r\n") "\r\n", NULL,
	                      HEALTHY "Connection: keep-alive\r\n\r\nok\n"));
	/* An offer to speak another protocol is passed over. */
	assert_false(exchange(&passed,
	                      GET("1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\n") GET("1.1", ""),
	                      NULL, HEALTHY "\r\nok\n" HEALTHY "\r\nok\n"));
}

static void test_chunked_bodies_are_gathered_and_their_trailers_forgotten(void **state)
{
	(void)state;
	assert_false(exchange(&passed,
	                      "POST /v1/acquire HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
	                      "9;x=y\r\n{\"limit\":\r\n00d\r\n\"l\",\"key\":\"k\"\r\n1\r\n}\r\n0\r\n"
	                      "Host: other\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n" GET("1.1", ""),
	                      "acquire limit l/k cost 1\nacquire health cost 1\n",
	                      PASSED HEALTHY "\r\nok\n"));
	exchange(&passed,
	         "POST /auth HTTP/1.1\r\n" HOST
	         "Transfer-Encoding: chunked\r\nX-Forwarded-For: a\r\n\r\n"
	         "0\r\nX-Forwarded-For: b\r\nX-Forwarded-Uri: /c\r\n\r\n",
	         "acquire rules method=POST path=/ host=h cost 1 for [a]\n", NULL);
}

static void test_expect_100_continue_is_answered(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	struct drive drive;

	(void)state;
	drive_open(&drive, &http_codec, &bounds, &passed);
	drive_feed(&drive, SLICE("POST /v1/acquire HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n"
	                         "Content-Length: 23\r\n\r\n"));
	assert_bytes(&drive.out, "HTTP/1.1 100 Continue\r\n\r\n", "interim");
	drive_feed(&drive, SLICE("{\"limit\":\"l\","));
	assert_bytes(&drive.out, "HTTP/1.1 100 Continue\r\n\r\n", "once");
	drive_feed(&drive, SLICE("\"key\":\"k\"}"));
	assert_bytes(&drive.out, "HTTP/1.1 100 Continue\r\n\r\n" PASSED, "final");
	drive_close(&drive);

	/* A body that is here already, or too long, needs no invitation. */
	exchange(&passed, "GET /healthz HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n\r\n", NULL,
	         HEALTHY "\r\nok\n");
	assert_refused("POST /v1/acquire HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
	               "Content-Length: 65537\r\n\r\n",
	               "413", "", true);
}

/* /auth */

static void assert_auth(const char *target, const char *headers, const char *request)
{
	char bytes[512];

	snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\n%s\r\n", target, headers);
	exchange(&passed, bytes, request,
	         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" PASSED_FIELDS "\r\n");
}

static void test_a_proxy_sends_method_path_host_and_addresses(void **state)
{
	(void)state;
	assert_auth("/auth", HOST "X-Original-URI: /login?user=1\r\n",
	            "acquire rules method=GET path=/login host=h cost 1 for []\n");
	assert_auth("/auth",
	            HOST "X-Forwarded-Uri: /a\r\nX-Forwarded-Method: PUT\r\n"
	                 "X-Forwarded-Host: Shop.Example.:8443\r\nX-Forwarded-For: 1.1.1.1\r\n",
	            "acquire rules method=PUT path=/a host=shop.example cost 1 for [1.1.1.1]\n");
	assert_auth("/auth",
	            HOST "X-Original-Method: POST\r\nX-Forwarded-For: a\r\n"
	                 "x-forwarded-for: b, c\t \r\nX-FORWARDED-FOR:\r\n",
	            "acquire rules method=POST path=/ host=h cost 1 for [a,b, c,]\n");
	assert_auth("/auth/shop/x?deny=abc", "Host: [::1]:80\r\n",
	            "acquire rules method=GET path=/shop/x host=[::1] cost 1 for []\n");
	assert_auth("/auth", "Host:\r\nX-Forwarded-Uri:\r\nX-Original-Uri: /a\r\n",
	            "acquire rules method=GET path=/a cost 1 for []\n");
	assert_auth("/auth", HOST "X-Forwarded-Uri: /a\r\nX-Original-Uri: /a\r\n",
	            "acquire rules method=GET path=/a host=h cost 1 for []\n");
}

static void test_a_path_is_the_one_that_a_proxy_would_choose_by(void **state)
{
	static const char *const table[][2] = {
	    {"/login", "/login"},
	    {"//login", "/login"},
	    {"/./login", "/login"},
	    {"/a/../login", "/login"},
	    {"/%6cogin", "/login"},
	    {"/a/%2e%2E/login", "/login"},
	    {"/../../login", "/login"},
	    {"/login/", "/login/"},
	    {"/login//", "/login/"},
	    {"/login/.", "/login/"},
	    {"/login/x/..", "/login/"},
	    {"/login/...", "/login/..."},
	    {"/.login", "/.login"},
	    {"/100%", "/100%"},
	    {"/a+b%zz", "/a+b%zz"},
	    {"http://h/login", "/login"},
	    {"/login#x", "/login"},
	    {"*", "/*"},
	    {"?x", "/"},
	};
	char headers[128], request[128];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		snprintf(headers, sizeof headers, HOST "X-Original-URI: %s\r\n", table[i][0]);
		snprintf(request, sizeof request, "acquire rules method=GET path=%s host=h cost 1 for []\n",
		         table[i][1]);
		assert_auth("/auth", headers, request);
	}
}

static void test_a_client_cannot_contradict_its_proxy(void **state)
{
	(void)state;
	assert_refused("GET /auth HTTP/1.1\r\n" HOST "X-Forwarded-Uri: /harmless\r\n"
	               "X-Original-URI: /login\r\n\r\n",
	               "400", "to agree on the URI, found '/harmless' and '/login'", false);
	assert_refused("GET /auth HTTP/1.1\r\n" HOST "X-Original-URI: /a\r\nX-Original-URI: /b\r\n\r\n",
	               "400", "to agree on the URI", false);
	assert_refused("GET /auth HTTP/1.1\r\n" HOST "X-Forwarded-Method: GET\r\n"
	               "X-Original-Method: POST\r\n\r\n",
	               "400", "to agree on the method", false);
}

static void test_auth_answers_any_method_and_denies_as_asked(void **state)
{
	(void)state;
	exchange(&denied, "GET /auth HTTP/1.1\r\n" HOST "\r\n", NULL,
	         "HTTP/1.1 429 Too Many Requests\r\n" DENIED_REST);
	exchange(&denied, "PROPFIND /auth?deny=403 HTTP/1.1\r\n" HOST "\r\n",
	         "acquire rules method=PROPFIND path=/ host=h cost 1 for []\n",
	         "HTTP/1.1 403 Denied\r\n" DENIED_REST);
	assert_refused("GET /auth?deny=399 HTTP/1.1\r\n" HOST "\r\n", "400", "from 400 to 599", false);
	assert_refused("GET /auth?deny=600 HTTP/1.1\r\n" HOST "\r\n", "400", "found '600'", false);
	assert_refused("GET /auth?deny= HTTP/1.1\r\n" HOST "\r\n", "400", "found ''", false);
	assert_refused("GET /auth?dney=403 HTTP/1.1\r\n" HOST "\r\n", "400", "found 'dney'", false);
}

static void test_an_unchanged_query_behind_a_proxy_is_the_visitors(void **state)
{
	(void)state;
	exchange(&denied,
	         "GET /auth?n=1&deny=7 HTTP/1.1\r\n" HOST "X-Forwarded-Uri: /a?n=1&deny=7\r\n\r\n",
	         "acquire rules method=GET path=/a host=h cost 1 for []\n",
	         "HTTP/1.1 429 Too Many Requests\r\n" DENIED_REST);
	exchange(&denied, "GET /auth?deny=403 HTTP/1.1\r\n" HOST "X-Forwarded-Uri: /a?deny=404\r\n\r\n",
	         "acquire rules method=GET path=/a host=h cost 1 for []\n",
	         "HTTP/1.1 403 Denied\r\n" DENIED_REST);
}

/* Errors */

static void test_bad_requests_are_clear_errors_that_close_nothing(void **state)
{
	static const struct {
		const char *target, *status, *message;
	} table[] = {
	    {"GET /none", "404", "not_found"},
	    {"POST /", "405", "Allow: GET"},
	    {"GET /v1", "404", "'/v1'"},
	    {"GET /healthz/", "404", ""},
	    {"PUT /v1/acquire", "405", "Allow: POST\r\n"},
	    {"GET /v1/peek", "405", "expected POST, found GET"},
	    {"POST /v1/acquire/l", "405", "Allow: GET\r\n"},
	    {"HEAD /v1/acquire/l?key=k", "405", "Allow: GET\r\n"},
	    {"GET /v1/refund", "405", "Allow: POST\r\n"},
	    {"GET /v1/report?permit=p&outcome=failure", "405", "Allow: POST\r\n"},
	    {"GET /v1/reset", "405", "Allow: POST\r\n"},
	    {"HEAD /v1/reset", "405", "Allow: POST\r\n"},
	    {"GET /v1/shed", "405", "Allow: POST\r\n"},
	    {"GET /v1/batch", "405", "Allow: POST\r\n"},
	    {"GET /v1/reset/l?key=k", "404", "'/v1/reset/l'"},
	    {"GET /v1/refund/l?key=k", "404", "'/v1/refund/l'"},
	    {"DELETE /metrics", "405", "Allow: GET, HEAD\r\n"},
	    {"GET /v1/acquire/l", "400", "a key beside the limit"},
	    {"GET /v1/acquire/l?key=k&cost=-1", "400", "found '-1'"},
	    {"GET /v1/acquire/l?key=k&cost=18446744073709551616", "400", "whole number"},
	    {"GET /v1/acquire/l?key=k&key=j", "400", "expected key once"},
	    {"GET /v1/acquire/l?key=k&limit=m", "400", "expected limit once"},
	    {"GET /v1/acquire/l?key=%zz", "400", "two hex digits"},
	    {"GET /v1/acquire/l?key=k&x=1", "400", "found 'x'"},
	    {"GET /v1/acquire/l?key=k&wait_ms=3600001", "400", "from 0 to 3600000, found '3600001'"},
	    {"GET /v1/acquire/l?key=k&permit=yes", "400", "permit to be true or false, found 'yes'"},
	    {"GET /v1/peek/l?key=k&permit=true", "400", "permit to be false, found 'true'"},
	    {"GET /v1/acquire/l?key=k&outcome=failure", "400", "outcome at /v1/report only"},
	};
	char bytes[256];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		snprintf(bytes, sizeof bytes, "%s HTTP/1.1\r\n" HOST "\r\n", table[i].target);
		assert_refused(bytes, table[i].status, table[i].message, false);
	}
}

static void test_bad_bodies_are_clear_errors_that_close_nothing(void **state)
{
	static const char *const table[][2] = {
	    {"", "expected a JSON object, line 1 column 1: expected a value of JSON, found the end"},
	    {"{", "expected a JSON object, line 1 column 2: expected a field's name in quotes, found "
	          "the end"},
	    {"[]", "found an array"},
	    {"{\"limit\":\"l\",\"key\":\"k\"}x",
	     "line 1 column 24: expected nothing behind the object or list, found 'x'"},
	    {"{\"limit\":\"l\",\"limit\":\"m\"}", "expected limit once, found it again"},
	    {"{\"attributes\":{\"a\":1},\"attributes\":{}}", "expected attributes once"},
	    {"{\"attributes\":{\"a\":1,\"\\u0061\":2}}", "expected attribute 'a' once"},
	    {"{\"attributes\":{\"\\u0000\":2}}", "not empty and without NUL"},
	    {"{\"limit\":\"\\ud800\"}", "expected both halves of a character, found 'ud800"},
	    {"7", "expected a JSON object, found a number"},
	    {"{\"limit\":\"l\"}", "a key beside the limit"},
	    {"{\"key\":\"l\"}", "a limit beside the key"},
	    {"{}", "a limit and a key, or attributes"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"attributes\":{}}", "found both"},
	    {"{\"limit\":\"l\",\"key\":null}",
	     "'key' to be a string, a number, true or false, found null"},
	    {"{\"limit\":\"l\",\"key\":{}}", "found an object"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"cost\":1.5}", "found '1.5'"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"cost\":-1}", "found '-1'"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"cost\":\"1\"}", "found a string"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"cost\":1e999}", "found '1e999'"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"wait_ms\":1.5}", "found '1.5'"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"permit\":1}", "permit to be true or false, found '1'"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"surprise\":1}", "found 'surprise'"},
	    {"{\"attributes\":[]}", "expected attributes to be an object"},
	    {"{\"attributes\":{\"a\":[]}}", "found an array"},
	    {"{\"attributes\":{\"\":1}}", "not empty and without NUL"},
	    {"{\"limit\":\"l\",\"key\":\"\xff\"}", "expected text in UTF-8, found the byte 0xff"},
	};
	char bytes[256];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		post(bytes, sizeof bytes, "/v1/acquire", table[i][0]);
		assert_refused(bytes, "400", table[i][1], false);
	}
}

static void test_bad_reports_and_refunds_are_clear_errors(void **state)
{
	static const char *const table[][3] = {
	    {"/v1/refund", "{}", "a limit and a key, or attributes"},
	    {"/v1/report", "{\"permit\":\"p\"}", "expected permit, outcome and optionally latency_ms"},
	    {"/v1/report", "{\"permit\":\"p\",\"outcome\":\"good\"}",
	     "timeout or ignored, found 'good'"},
	    {"/v1/report", "{\"permit\":\"p\",\"outcome\":\"failure\",\"latency_ms\":-1}",
	     "found '-1'"},
	    {"/v1/report", "{\"permit\":\"p\",\"outcome\":\"failure\",\"key\":\"k\"}",
	     "and no other field"},
	    {"/v1/report", "{\"permit\":\"p\",\"for\":\"1h\"}",
	     "expected one of permit, outcome, latency_ms, found 'for'"},
	    {"/v1/shed", "{\"limit\":\"a\",\"for\":\"1h\"}",
	     "expected one of limit, deny, until, found 'for'"},
	    {"/v1/breaker", "{\"limit\":\"a\",\"for\":\"1h\"}",
	     "expected one of limit, key, state, until, found 'for'"},
	    {"/v1/key", "{\"limt\":\"a\"}", "expected key alone, found 'limt'"},
	    {"/v1/acquire", "{\"limt\":\"a\"}",
	     "expected one of limit, key, cost, wait_ms, priority, permit, attributes, found 'limt'"},
	};
	char bytes[256];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		post(bytes, sizeof bytes, table[i][0], table[i][1]);
		assert_refused(bytes, "400", table[i][2], false);
	}
}

static void test_broken_framing_is_an_error_that_closes(void **state)
{
#define POST "POST /v1/acquire HTTP/1.1\r\n"
	static const struct {
		const char *bytes, *status;
	} table[] = {
	    {"\x16\x03\x01\r\n\r\n", "400"},
	    {"GET / HTTP/9.9\r\n\r\n", "505"},
	    {"GET / HTTP/2.0\r\n" HOST "\r\n", "505"},
	    /* Bytes from 0x80 on stand for themselves in a query, and nowhere else. */
	    {"GET /\xff HTTP/1.1\r\n" HOST "\r\n", "400"},
	    {"GET /\xff?a HTTP/1.1\r\n" HOST "\r\n", "400"},
	    {"GET http://h\xff/?a HTTP/1.1\r\n" HOST "\r\n", "400"},
	    {"GET /?\xff\x01 HTTP/1.1\r\n" HOST "\r\n", "400"},
	    {"GET /?\xff HTTP/1.1\xff\r\n" HOST "\r\n", "505"},
	    {"GET /?\xff HTTP\xff/1.1\r\n" HOST "\r\n", "400"},
	    {"GET\xff /?\xff HTTP/1.1\r\n" HOST "\r\n", "400"},
	    {"GET /?\xff HTTP/1.1\r\n" HOST "X\xff: a\r\n\r\n", "400"},
	    {"GET /?\xff HTTP/1.1\n" HOST "\r\n", "400"},
	    {"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n", "505"},
	    {"GET / HTTP/1.1\r\n\r\n", "400"},
	    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", "400"},
	    {"GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", "400"},
	    {"GET / HTTP/1.1\n" HOST "\r\n", "400"},
	    {"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", "400"},
	    {"GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", "400"},
	    {"GET / HTTP/1.1\r\n" HOST "X : y\r\n\r\n", "400"},
	    {"GET / HTTP/1.1\r\n" HOST "\n", "400"},
	    {POST HOST "Content-Length: -1\r\n\r\n", "400"},
	    {POST HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "400"},
	    {POST HOST "Content-Length: 99999999999999999999\r\n\r\n", "400"},
	    {POST HOST "Content-Length: 65537\r\n\r\n", "413"},
	    {POST HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
	    {POST HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400"},
	    {POST HOST "Transfer-Encoding: gzip\r\n\r\n", "501"},
	    {POST HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
	    {POST HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", "400"},
	    {POST HOST "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "501"},
	    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
	    {POST HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
	    {POST HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "400"},
	    {POST HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "400"},
	    {POST HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		assert_refused(table[i].bytes, table[i].status, "", true);
}

static void test_the_body_of_a_connect_is_not_the_next_request(void **state)
{
	(void)state;
	exchange(&passed,
	         "CONNECT h:1 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	         "21\r\nGET /v1/acquire/l?key=k HTTP/1.1\n\r\n0\r\n\r\n" GET("1.1", ""),
	         "acquire health cost 1\n", NULL);
}

/* `n` bytes of `filler` between two texts, under small bounds. */
static void assert_too_long(const char *before, const char *filler, size_t n, const char *after,
                            const char *status, bool closes)
{
	struct codec_bounds bounds = {16, 512, 256, 2};
	struct buffer bytes = {0};
	struct drive drive;

	buffer_add_text(&bytes, before);
	for (size_t i = 0; i < n; i++)
		buffer_add_text(&bytes, filler);
	buffer_add_text(&bytes, after);
	buffer_add(&bytes, "", 1);
	bytes.len--;
	assert_int_equal(
	    drive_all(&http_codec, &bounds, &passed, (struct slice){bytes.data, bytes.len}, NULL, NULL),
	    closes);
	drive_open(&drive, &http_codec, &bounds, &passed);
	drive_feed(&drive, (struct slice){bytes.data, bytes.len});
	assert_memory_equal(drive.out.data + 9, status, 3);
	drive_close(&drive);
	buffer_free(&bytes);
}

static void test_the_part_that_is_too_long_is_named_and_memory_is_bounded(void **state)
{
	(void)state;
	assert_too_long("GET /healthz HTTP/1.1\r\n" HOST "X: ", "x", 217, "\r\n\r\n", "200", false);
	assert_too_long("GET /healthz HTTP/1.1\r\n" HOST "X: ", "x", 218, "\r\n\r\n", "431", true);
	assert_too_long("GET /", "x", 300, " HTTP/1.1\r\n" HOST "\r\n", "414", true);
	assert_too_long("GET /auth HTTP/1.1\r\n" HOST, "Expect:\r\n", 24, "\r\n", "431", true);
	assert_too_long(POST HOST "Content-Length: 512\r\n\r\n", " ", 512, "", "400", false);
	assert_too_long(POST HOST "Content-Length: 513\r\n\r\n", " ", 513, "", "413", true);
	assert_too_long(POST HOST "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", 80, "0\r\n\r\n",
	                "400", false);
	assert_too_long(POST HOST "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", 90, "0\r\n\r\n",
	                "413", true);
	assert_too_long("GET /v1/peek/l?key=", "k", 16, " HTTP/1.1\r\n" HOST "\r\n", "200", false);
	assert_too_long("GET /v1/peek/l?key=", "k", 17, " HTTP/1.1\r\n" HOST "\r\n", "400", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_queries_and_bodies_become_the_same_requests),
	    cmocka_unit_test(test_permits_are_in_the_answer_and_reports_have_their_own),
	    cmocka_unit_test(test_only_a_denied_acquire_has_a_status_of_its_own),
	    cmocka_unit_test(test_names_in_ratelimit_fields_stay_different),
	    cmocka_unit_test(test_a_decision_may_have_names_that_json_escapes),
	    cmocka_unit_test(test_a_limit_without_a_quota_has_no_ratelimit_fields),
	    cmocka_unit_test(test_where_no_limit_decided_there_are_no_ratelimit_fields),
	    cmocka_unit_test(test_an_error_of_the_server_has_its_http_status),
	    cmocka_unit_test(test_health_readiness_and_metrics),
	    cmocka_unit_test(test_a_head_request_is_answered_without_the_body),
	    cmocka_unit_test(test_connections_stay_or_close_by_the_rules_of_both_versions),
	    cmocka_unit_test(test_chunked_bodies_are_gathered_and_their_trailers_forgotten),
	    cmocka_unit_test(test_expect_100_continue_is_answered),
	    cmocka_unit_test(test_a_proxy_sends_method_path_host_and_addresses),
	    cmocka_unit_test(test_a_path_is_the_one_that_a_proxy_would_choose_by),
	    cmocka_unit_test(test_a_client_cannot_contradict_its_proxy),
	    cmocka_unit_test(test_auth_answers_any_method_and_denies_as_asked),
	    cmocka_unit_test(test_an_unchanged_query_behind_a_proxy_is_the_visitors),
	    cmocka_unit_test(test_bad_requests_are_clear_errors_that_close_nothing),
	    cmocka_unit_test(test_bad_bodies_are_clear_errors_that_close_nothing),
	    cmocka_unit_test(test_bad_reports_and_refunds_are_clear_errors),
	    cmocka_unit_test(test_broken_framing_is_an_error_that_closes),
	    cmocka_unit_test(test_the_body_of_a_connect_is_not_the_next_request),
	    cmocka_unit_test(test_the_part_that_is_too_long_is_named_and_memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
