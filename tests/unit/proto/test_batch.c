/* Reads /v1/batch, /v1/limits and /v1/top from HTTP, and writes their answers. */
#include "drive.h"

#include <stdio.h>

#define ANSWER                                                                                     \
	"{\"allowed\":false,\"limit\":\"l\",\"quota\":3,\"remaining\":0,\"retry_after_ms\":1,"         \
	"\"reset_after_ms\":2,\"reason\":\"over_limit\"}"

static const struct reply reply = {
    .decision = {.reason = WEIR_REASON_OVER_LIMIT,
                 .quota = 3,
                 .retry_after_ns = 1,
                 .reset_after_ns = 1000001,
                 .limit = "l"},
    .body = {"[]", 2},
};

static void exchange(const char *body, const char *requests, const char *status, const char *out)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	char bytes[1024], expected[1024];

	bounds.batch_max = 4;
	bounds.key_max = 8;
	snprintf(bytes, sizeof bytes,
	         "POST /v1/batch HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
	         body);
	snprintf(expected, sizeof expected,
	         "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
	         status, strlen(out), out);
	assert_false(drive_all(&http_codec, &bounds, &reply, slice_of(bytes), requests, expected));
}

static void a_batch_is_its_requests_and_their_answers_in_order(void **state)
{
	(void)state;
	exchange("[]", "acquire batch cost 1\n", "200 OK", "[]");
	exchange("[{\"limit\":\"l\",\"key\":\"k\",\"cost\":2},"
	         "{\"attributes\":{\"a\":1},\"op\":\"peek\"},"
	         "{\"op\":\"refund\",\"limit\":\"l\",\"key\":3},"
	         "{\"op\":\"reset\",\"limit\":\"l\",\"key\":\"k\"}]",
	         "acquire batch cost 1\nacquire limit l/k cost 2\npeek rules a=1 cost 1\n"
	         "refund limit l/3 cost 1\nreset limit l/k cost 1\n",
	         "200 OK", "[" ANSWER "," ANSWER "," ANSWER "," ANSWER "]");
}

static void an_op_may_be_written_with_escapes(void **state)
{
	(void)state;
	exchange("[{\"\\u006fp\":\"peek\",\"limit\":\"l\",\"key\":\"k\"},"
	         "{\"op\":\"re\\u0066und\",\"limit\":\"l\",\"key\":\"k\"}]",
	         "acquire batch cost 1\npeek limit l/k cost 1\nrefund limit l/k cost 1\n", "200 OK",
	         "[" ANSWER "," ANSWER "]");
}

static void an_invalid_item_is_an_error_of_this_item_only(void **state)
{
	static const char *const table[][2] = {
	    {"7", "expected a JSON object in the batch"},
	    {"[{}]", "expected a JSON object in the batch"},
	    {"{}", "expected a limit and a key, or attributes, found none"},
	    {"{\"limit\":\"l\"}", "expected a key beside the limit, found none"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"op\":\"take\"}",
	     "expected op to be acquire, peek, refund or reset"},
	    {"{\"op\":\"peek\",\"limit\":\"l\",\"key\":\"k\",\"op\":\"peek\"}",
	     "expected op once, found it again"},
	    {"{\"op\":\"peek\",\"limit\":\"l\",\"key\":\"k\",\"\\u006fp\":\"peek\"}",
	     "expected op once, found it again"},
	    {"{\"limit\":\"l\",\"key\":\"k\",\"op\":1}",
	     "expected op to be acquire, peek, refund or reset"},
	};
	char body[256], out[512];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		snprintf(body, sizeof body, "[{\"limit\":\"l\",\"key\":1},%s,{\"limit\":\"l\",\"key\":2}]",
		         table[i][0]);
		snprintf(out, sizeof out,
		         "[" ANSWER ",{\"error\":{\"code\":\"bad_request\",\"message\":\"%s\"}}," ANSWER
		         "]",
		         table[i][1]);
		exchange(body,
		         "acquire batch cost 1\nacquire limit l/1 cost 1\nacquire local cost 1\n"
		         "acquire limit l/2 cost 1\n",
		         "200 OK", out);
	}
	exchange("[{\"limit\":\"l\",\"key\":\"123456789\"}]", NULL, "200 OK",
	         "[{\"error\":{\"code\":\"too_long\",\"message\":\"expected a key of at most 8 bytes, "
	         "found 9\"}}]");
}

static void an_invalid_batch_is_refused_as_a_whole(void **state)
{
	(void)state;
	exchange("{}", "", "400 Bad Request",
	         "{\"error\":{\"code\":\"bad_request\",\"message\":\"expected a JSON array, found an "
	         "object\"}}");
	exchange(
	    "[{\"limit\":\"l\",\"key\":\"k\"}", "", "400 Bad Request",
	    "{\"error\":{\"code\":\"bad_request\",\"message\":\"expected a JSON array, line 1 column "
	    "25: expected a comma or the end of the list, found the end\"}}");
	exchange("[1,2,3,4,5]", "", "400 Bad Request",
	         "{\"error\":{\"code\":\"too_long\",\"message\":\"expected a batch of at most 4, found "
	         "5\"}}");
}

static void listings_are_asked_for_by_number(void **state)
{
	static const struct {
		const char *target, *requests, *status;
	} table[] = {
	    {"/v1/limits", "acquire limits cost 1\n", "200 OK"},
	    {"/v1/top", "acquire top 10 cost 1\n", "200 OK"},
	    {"/v1/top?n=100", "acquire top 100 cost 1\n", "200 OK"},
	    {"/v1/top?n=101", "", "400 Bad Request"},
	    {"/v1/top?n=0", "", "400 Bad Request"},
	    {"/v1/top?n=", "", "400 Bad Request"},
	    {"/v1/top?m=1", "", "400 Bad Request"},
	};
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct drive drive;
		char bytes[128];

		snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", table[i].target);
		drive_open(&drive, &http_codec, &bounds, &reply);
		drive_feed(&drive, slice_of(bytes));
		assert_bytes(&drive.requests, table[i].requests, bytes);
		assert_memory_equal(drive.out.data + 9, table[i].status, strlen(table[i].status));
		drive_close(&drive);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_batch_is_its_requests_and_their_answers_in_order),
	    cmocka_unit_test(an_op_may_be_written_with_escapes),
	    cmocka_unit_test(an_invalid_item_is_an_error_of_this_item_only),
	    cmocka_unit_test(an_invalid_batch_is_refused_as_a_whole),
	    cmocka_unit_test(listings_are_asked_for_by_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
