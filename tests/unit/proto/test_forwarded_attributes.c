/* Finds the headers, cookies and parameters of a proxied request that rules use. */
#include "drive.h"

#include <stdio.h>

#define HOST "Host: h\r\n"

static const char *const names[] = {
    "header.X-Api-Key", "header.accept",  "header.AUTHORIZATION",
    "cookie.session",   "cookie.SESSION", "query.api_key",
    "query.q r",        "query.",
};

#define COUNT (sizeof names / sizeof *names)

static struct codec_bounds limits_with(struct forwarded_attribute *items,
                                       struct forwarded_list *list)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	for (size_t i = 0; i < COUNT; i++)
		assert_true(forwarded_parse(names[i], &items[i]));
	*list = (struct forwarded_list){items, COUNT};
	bounds.forwarded_attributes = list;
	return bounds;
}

/* `found`: the attributes behind method, path and host. */
static void assert_found(const char *target, const char *headers, const char *found)
{
	static const struct reply passed = {.decision = {.allowed = true}};
	struct forwarded_attribute items[COUNT];
	struct forwarded_list list;
	struct codec_bounds bounds = limits_with(items, &list);
	char bytes[2048], request[2048];

	snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\n" HOST "%s\r\n", target, headers);
	snprintf(request, sizeof request, "acquire rules method=GET path=/p host=h%s cost 1 for []\n",
	         found);
	drive_all(&http_codec, &bounds, &passed, slice_of(bytes), request, NULL);
}

#define AT_P "X-Forwarded-Uri: /p\r\n"

static void headers_are_found_in_any_case_and_joined(void **state)
{
	(void)state;
	assert_found("/auth", AT_P "x-api-key: \tk 1 \r\n", " header.X-Api-Key=k 1");
	assert_found("/auth", "X-API-KEY:a\r\nACCEPT: x\r\n" AT_P "x-aPI-key: b\r\nX-Api-Key:\r\n",
	             " header.X-Api-Key=a, b,  header.accept=x");
	assert_found("/auth", AT_P "X-Api-Key: \r\n", " header.X-Api-Key=");
	assert_found("/auth", AT_P "authorization: Bearer a:b=\r\n",
	             " header.AUTHORIZATION=Bearer a:b=");
	assert_found("/auth", AT_P "X-Api-Keys: k\r\nX-Api: k\r\nY: X-Api-Key: k\r\n", "");
}

static void the_first_cookie_of_a_name_counts(void **state)
{
	(void)state;
	assert_found("/auth", AT_P "Cookie: a=1; session=s1; session=s2; b=\"2\"\r\n",
	             " cookie.session=s1");
	assert_found("/auth", AT_P "Cookie: a=1\r\ncookie:SESSION=S; session =\"s;x\"\r\n",
	             " cookie.session=\"s cookie.SESSION=S");
	assert_found("/auth", AT_P "Cookie: ;;=;session=;session=2\r\n", " cookie.session=");
	assert_found("/auth", AT_P "Cookie: xsession=1; sessionx=1; session%3D1\r\n", "");
}

static void the_query_is_the_visitors_and_never_weirs_own(void **state)
{
	(void)state;
	assert_found("/auth", "X-Forwarded-Uri: /p?x=1&api_key=k1&api_key=k2&&q+r=%2B+%zz\r\n",
	             " query.api_key=k1 query.q r=+ %zz");
	assert_found("/auth", "X-Original-Uri: /p?api%5Fkey=%41%00\r\n", " query.api_key=A");
	assert_found("/auth", "X-Original-Uri: /p?api_key&api_key=k\r\n", " query.api_key=");
	assert_found("/auth", "X-Original-Uri: /p?Api_Key=k&=e#api_key=k\r\n", " query.=e");
	assert_found("/auth?deny=403", AT_P, "");
	assert_found("/auth?api_key=k", "X-Original-Uri: /p?api_key=k\r\n", " query.api_key=k");
	/* Envoy asks for the visitor's own path and query. */
	assert_found("/auth/p?api_key=k", "", " query.api_key=k");
	assert_found("/auth/x?api_key=weir", "X-Forwarded-Uri: /p?api_key=k\r\n", " query.api_key=k");
}

/* So many lines of a wanted header that joining them one by one would be felt. */
static void many_lines_are_joined_in_one_go(void **state)
{
	struct forwarded_attribute items[COUNT];
	struct forwarded_list list;
	struct codec_bounds bounds = limits_with(items, &list);
	struct buffer in = {0}, expected = {0};
	const struct reply passed = {.decision = {.allowed = true}};
	struct drive drive;

	(void)state;
	buffer_add_text(&in, "GET /auth HTTP/1.1\r\n" HOST);
	buffer_add_text(&expected, "acquire rules method=GET path=/ host=h header.accept=");
	for (int i = 0; i < 1500; i++) {
		buffer_add_text(&in, "accept:\r\n");
		buffer_add_text(&expected, i > 0 ? ", " : "");
	}
	buffer_add_text(&in, "\r\n");
	buffer_add_text(&expected, " cost 1 for []\n");
	buffer_add(&expected, "", 1);
	drive_open(&drive, &http_codec, &bounds, &passed);
	drive_feed(&drive, (struct slice){in.data, in.len});
	assert_bytes(&drive.requests, expected.data, "many lines");
	drive_close(&drive);
	buffer_free(&in);
	buffer_free(&expected);
}

/* A reload changes the list under an open session. */
static void the_list_is_looked_at_anew_for_each_request(void **state)
{
	static const char bytes[] = "GET /auth HTTP/1.1\r\n" HOST "Accept: a\r\n\r\n";
	struct forwarded_attribute items[COUNT];
	struct forwarded_list list;
	struct codec_bounds bounds = limits_with(items, &list);
	const struct reply passed = {.decision = {.allowed = true}};
	struct drive drive;

	(void)state;
	drive_open(&drive, &http_codec, &bounds, &passed);
	list = (struct forwarded_list){NULL, 0};
	drive_feed(&drive, SLICE(bytes));
	list = (struct forwarded_list){items + 1, 1};
	drive_feed(&drive, SLICE(bytes));
	assert_bytes(&drive.requests,
	             "acquire rules method=GET path=/ host=h cost 1 for []\n"
	             "acquire rules method=GET path=/ host=h header.accept=a cost 1 for []\n",
	             "two requests");
	drive_close(&drive);
}

static void other_attributes_are_not_forwarded_ones(void **state)
{
	static const char *const others[] = {"", "ip", "header", "headers.x", "Header.x", "cookie"};
	struct forwarded_attribute carried;

	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_false(forwarded_parse(others[i], &carried));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(headers_are_found_in_any_case_and_joined),
	    cmocka_unit_test(the_first_cookie_of_a_name_counts),
	    cmocka_unit_test(the_query_is_the_visitors_and_never_weirs_own),
	    cmocka_unit_test(many_lines_are_joined_in_one_go),
	    cmocka_unit_test(the_list_is_looked_at_anew_for_each_request),
	    cmocka_unit_test(other_attributes_are_not_forwarded_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
