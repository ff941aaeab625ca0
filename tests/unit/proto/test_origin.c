/* Reads by which name, from which page and through which proxy a request of HTTP was sent. */
#include "drive.h"

#include <stdio.h>

/* The origin of a request, as these header fields tell it. */
static void assert_origin(const char *path, const char *fields, const char *expected)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	void *session = malloc(http_codec.session_size);
	struct buffer found = {0};
	struct arena arena = {0};
	struct request_origin origin;
	struct request request;
	char bytes[512];
	size_t consumed;

	snprintf(bytes, sizeof bytes, "GET %s HTTP/1.0\r\n%s\r\n", path, fields);
	http_codec.open(session, &bounds, 1);
	assert_int_equal(http_codec.parse(session, slice_of(bytes), &consumed, &arena, &request),
	                 CODEC_REQUEST);
	origin = request.origin ? *request.origin : (struct request_origin){0};
	if (origin.host.data)
		buffer_printf(&found, "[%.*s]", (int)origin.host.len, origin.host.data);
	buffer_add_text(&found, origin.is_from_foreign_page ? " foreign" : "");
	buffer_add_text(&found, origin.forwarded ? " forwarded" : "");
	if (origin.login.user.data) {
		buffer_add_text(&found, " user ");
		buffer_add_slice(&found, origin.login.user);
	}
	if (origin.login.secret.data) {
		buffer_add_text(&found, " secret ");
		buffer_add_slice(&found, origin.login.secret);
	}
	assert_bytes(&found, expected, bytes);
	buffer_free(&found);
	arena_free(&arena);
	free(session);
}

static void test_host_is_the_name_alone(void **state)
{
	static const char *const table[][2] = {
	    {"", ""},
	    {"Host:\r\n", ""},
	    {"Host: localhost\r\n", "[localhost]"},
	    {"Host: Weir.Example.com.:8080\r\n", "[Weir.Example.com]"},
	    {"host: 127.0.0.1:8080\r\n", "[127.0.0.1]"},
	    {"Host: [::1]:8080\r\n", "[[::1]]"},
	    {"Host: [::1]\r\n", "[[::1]]"},
	    {"Host: 127.0.0.1.example.com:80\r\n", "[127.0.0.1.example.com]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		assert_origin("/metrics", table[i][0], table[i][1]);
}

static void test_a_page_of_another_origin_is_foreign(void **state)
{
#define SELF "Host: weir:8080\r\n"
	static const char *const own[] = {
	    SELF "Origin: http://weir:8080\r\n",    SELF "Origin: https://Weir:8080\r\n",
	    SELF "Sec-Fetch-Site: same-origin\r\n", SELF "Sec-Fetch-Site: none\r\n",
	    SELF "Sec-Fetch-Site: same-site\r\n",
	};
	static const char *const others[] = {
	    SELF "Origin: http://weir\r\n",
	    SELF "Origin: http://weir:3000\r\n",
	    SELF "Origin: http://weir:8080.example.com\r\n",
	    SELF "Origin: http://example.com/weir:8080\r\n",
	    SELF "Origin: weir:8080\r\n",
	    SELF "Origin: null\r\n",
	    SELF "Origin:\r\n",
	    SELF "ORIGIN: http://weir:8080\r\nOrigin: http://example.com\r\n",
	    SELF "Sec-Fetch-Site: cross-site\r\n",
	    SELF "Origin: http://weir:8080\r\nsec-fetch-site: Cross-Site\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		assert_origin("/v1/acquire/l?key=k", own[i], "[weir]");
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_origin("/v1/acquire/l?key=k", others[i], "[weir] foreign");
	assert_origin("/v1/acquire/l?key=k", "Origin: http://weir:8080\r\n", " foreign");
}

static void test_a_field_that_proxies_add_marks_the_request_as_forwarded(void **state)
{
	static const char *const proxied[] = {
	    "X-Forwarded-For: 10.0.0.1\r\n", "x-forwarded-host:\r\n",
	    "X-Forwarded-Prefix: /\r\n",     "X-Real-IP: ::1\r\n",
	    "Forwarded: for=_a\r\n",         "Via: 1.1 a\r\n",
	};
	static const char *const plain[] = {
	    "X-Forwarded: 1\r\n",
	    "X-Real: 1\r\n",
	    "Forwarder: 1\r\n",
	    "Viaduct: 1\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof proxied / sizeof *proxied; i++)
		assert_origin("/v1/top", proxied[i], " forwarded");
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		assert_origin("/v1/top", plain[i], "");
}

static void test_at_auth_the_header_belongs_to_the_visitors_request(void **state)
{
	static const char visitor[] = "Host: shop.example.com\r\nOrigin: http://example.com\r\n"
	                              "Sec-Fetch-Site: cross-site\r\nX-Forwarded-For: 10.0.0.1\r\n";

	(void)state;
	assert_origin("/auth", visitor, "");
	assert_origin("/auth/login", visitor, "");
}

static void test_the_next_request_starts_without_the_former_origin(void **state)
{
	static const char bytes[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nOrigin: b\r\nVia: c\r\n\r\n"
	                            "GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n";
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	void *session = malloc(http_codec.session_size);
	struct slice rest = slice_of(bytes);
	struct arena arena = {0};
	struct request request;
	size_t consumed;

	(void)state;
	http_codec.open(session, &bounds, 1);
	http_codec.parse(session, rest, &consumed, &arena, &request);
	assert_true(request.origin->is_from_foreign_page && request.origin->forwarded);
	rest = (struct slice){rest.data + consumed, rest.len - consumed};
	http_codec.parse(session, rest, &consumed, &arena, &request);
	assert_false(request.origin->is_from_foreign_page || request.origin->forwarded);
	assert_true(slice_equal(request.origin->host, SLICE("d")));
	arena_free(&arena);
	free(session);
}

static void test_a_login_is_read_from_authorization(void **state)
{
	static const char *const table[][2] = {
	    {"Authorization: Basic c2hvcDpzZWNyZXQ=\r\n", " user shop secret secret"},
	    {"authorization: basic   c2hvcDpzZWNyZXQ\r\n", " user shop secret secret"},
	    {"Authorization: Basic c2hvcDphOmI6Yw==\r\n", " user shop secret a:b:c"},
	    {"Authorization: Basic OnRva2Vu\r\n", " user  secret token"},
	    {"Authorization: Bearer abc.def\r\n", " secret abc.def"},
	    {"Authorization: BEARER abc\r\n", " secret abc"},
	    /* Invalid credentials are a secret that no user has. */
	    {"Authorization: Basic c2hvcA==\r\n", " user shop secret "},
	    {"Authorization: Basic !\r\n", " user  secret "},
	    {"Authorization: Basic\r\n", " user  secret "},
	    {"Authorization: Digest username=shop\r\n", " secret "},
	    {"Authorization:\r\n", " secret "},
	    {"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", " secret "},
	    /* It is a visitor's where a proxy asks, and nobody's elsewhere. */
	    {"Weir-Authorization: Bearer abc\r\n", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		assert_origin("/metrics", table[i][0], table[i][1]);
	assert_origin("/auth", "Authorization: Bearer abc\r\n", "");
	assert_origin("/auth", "Authorization: Bearer a\r\nWeir-Authorization: Bearer b\r\n",
	              " secret b");
	assert_origin("/auth/x", "Weir-Authorization: Basic c2hvcDpzZWNyZXQ=\r\n",
	              " user shop secret secret");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_host_is_the_name_alone),
	    cmocka_unit_test(test_a_login_is_read_from_authorization),
	    cmocka_unit_test(test_a_page_of_another_origin_is_foreign),
	    cmocka_unit_test(test_a_field_that_proxies_add_marks_the_request_as_forwarded),
	    cmocka_unit_test(test_at_auth_the_header_belongs_to_the_visitors_request),
	    cmocka_unit_test(test_the_next_request_starts_without_the_former_origin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
