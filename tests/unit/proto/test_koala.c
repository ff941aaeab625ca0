/* Reads the requests of Koala's routes from HTTP, and writes their answers. */
#include "drive.h"

#include <stdio.h>

static const struct slice results[] = {{"{\"a\":1}", 7}, {"{\"b\":2}", 7}};
static const struct reply reply = {
    .body = {"{\"c\":3}", 7}, .results = results, .result_count = 2, .used = 5, .ready = true};

static void exchange(const struct reply *with, const char *bytes, const char *requests,
                     const char *status, const char *body)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	char expected[1024];

	bounds.attributes_max = 3;
	bounds.batch_max = 4;
	snprintf(expected, sizeof expected,
	         "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
	         status, strlen(body), body);
	assert_false(drive_all(&http_codec, &bounds, with, slice_of(bytes), requests, expected));
}

static void get(const char *target, const char *requests, const char *status, const char *body)
{
	char bytes[512];

	snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
	exchange(&reply, bytes, requests, status, body);
}

static void post(const char *target, const char *type, const char *form, const char *requests,
                 const char *status, const char *body)
{
	char bytes[512];

	snprintf(bytes, sizeof bytes, "POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Length: %zu\r\n\r\n%s",
	         target, type, strlen(form), form);
	exchange(&reply, bytes, requests, status, body);
}

#define DONE "{\"err_no\":0,\"err_msg\":\"OK\"}"
#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"

static void each_path_is_a_request_and_has_an_answer_of_its_own(void **state)
{
	(void)state;
	get("/rule/browse?a=1&_b=2", "peek browse a=1 cost 1\n", "200 OK", "{\"c\":3}");
	get("/rule/browse?_writeThrough=yes&a", "acquire browse a= cost 1\n", "200 OK", "{\"c\":3}");
	get("/rule/browse?_writeThrough=no", "peek browse cost 1\n", "200 OK", "{\"c\":3}");
	get("/rule/update?a=1", "acquire each a=1 cost 1\n", "200 OK", DONE);
	get("/rule/browse_complete?a=1", "peek complete a=1 cost 1\n", "200 OK",
	    "[{\"a\":1},{\"b\":2}]");
	get("/rule/browse_complete?_writeThrough=yes&a=1", "acquire complete a=1 cost 1\n", "200 OK",
	    "[{\"a\":1},{\"b\":2}]");
	get("/rule/feedback?a=1", "refund each erases 1 a=1 cost 1\n", "200 OK", DONE);
	get("/rule/feedback?_feedbackType=erase2", "refund each erases 2 cost 1\n", "200 OK", DONE);
	get("/rule/value?rule_no=7&a=1", "peek value named [7] rule_no=7 a=1 cost 1\n", "200 OK",
	    "{\"err_no\":0,\"err_msg\":\"\",\"cache_val\":5}");
	get("/monitor/alive", "acquire alive cost 1\n", "200 OK", "{\"errno\":0,\"errmsg\":\"OK!\"}");
}

static void parameters_stand_each_for_itself(void **state)
{
	(void)state;
	get("/rule/update?&&x&a=%3&b=%2B+c", "acquire each x= a=%3 b=+ c cost 1\n", "200 OK", DONE);
	get("/rule/browse?_x&a&b&c&_writeThrough=yes", "acquire browse a= b= c= cost 1\n", "200 OK",
	    "{\"c\":3}");
	get("/rule/update?=5&%61=1&a=2", "acquire each a=1 cost 1\n", "200 OK", DONE);
	get("/rule/update?%00=5&b%00=1&a=2", "acquire each a=2 cost 1\n", "200 OK", DONE);
	post("/rule/update?a=1", FORM, "a=2&b=%33", "acquire each a=1 b=3 cost 1\n", "200 OK", DONE);
	post("/rule/update?a=1", "", "b=2", "acquire each a=1 b=2 cost 1\n", "200 OK", DONE);
	post("/rule/update?a=1", FORM, "", "acquire each a=1 cost 1\n", "200 OK", DONE);
}

#define CHUNKED "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n"

/* drive_all gives the bytes one by one, too. */
static void bytes_that_a_user_typed_stand_for_themselves(void **state)
{
	(void)state;
	get("/rule/update?a=\xc3\xa9%C3%A9&\xff=\x80+x",
	    "acquire each a=\xc3\xa9\xc3\xa9 \xff=\x80 x cost 1\n", "200 OK", DONE);
	exchange(&reply,
	         "POST /rule/update?a=\xe4\xb8\xad HTTP/1.1\r\n" CHUNKED
	         "3\r\nb=\xff\r\n2\r\n&c\r\n0\r\n\r\n",
	         "acquire each a=\xe4\xb8\xad b=\xff c= cost 1\n", "200 OK", DONE);
}

static void a_form_is_read_whatever_the_method(void **state)
{
	(void)state;
	exchange(&reply, "GET /rule/update?a=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\na=2&b=3",
	         "acquire each a=1 b=3 cost 1\n", "200 OK", DONE);
	exchange(&reply,
	         "GET /rule/update?a=1 HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n"
	         "Content-Length: 3\r\n\r\nb=3",
	         "", "400 Bad Request",
	         "{\"err_no\":-1,\"err_msg\":\"expected a body of application/x-www-form-urlencoded, "
	         "found 'text/plain'\"}");
}

static void blanks_round_a_value_have_no_meaning(void **state)
{
	(void)state;
	get("/rule/update?a=%2066%20&b=+%09%0B%0Dx+y%0D&c=%0A", "acquire each a=66 b=x y c=\n cost 1\n",
	    "200 OK", DONE);
	get("/rule/browse?_writeThrough=yes+&a=+%09", "acquire browse a= cost 1\n", "200 OK",
	    "{\"c\":3}");
	post("/rule/update", FORM, "a=%0B66", "acquire each a=66 cost 1\n", "200 OK", DONE);
	get("/multi/browse?argsJson=%5B%7B%22Arg%22:%22a%253D%252066%22%7D%5D",
	    "acquire batch argsJson=[{\"Arg\":\"a%3D%2066\"}] cost 1\npeek browse a=66 cost 1\n",
	    "200 OK", "[{\"ID\":\"\",\"Id\":\"\",\"Result\":{\"c\":3}}]");
}

static void asks(const char *bytes, const char *requests, bool closes)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;

	assert_int_equal(drive_all(&http_codec, &bounds, &reply, slice_of(bytes), requests, NULL),
	                 closes);
}

/* Koala's own SDK for Go sends no Host. A request elsewhere needs one, whatever the one before it
 * was. */
static void a_host_is_not_needed_here(void **state)
{
	(void)state;
	asks("GET /rule/browse?a=1 HTTP/1.1\r\n\r\nGET //rule/browse/?a=2 HTTP/1.1\r\n\r\n"
	     "POST /rule/browse HTTP/1.1\r\nContent-Length: 3\r\n\r\na=3"
	     "GET http://h/rule/browse HTTP/1.1\r\n\r\n",
	     "peek browse a=1 cost 1\npeek browse a=2 cost 1\npeek browse a=3 cost 1\npeek browse cost "
	     "1\n",
	     false);
	asks("GET /rule/browse?a=1 HTTP/1.1\r\n\r\nGET /v1/peek/x?key=k HTTP/1.1\r\n\r\n",
	     "peek browse a=1 cost 1\n", true);
	asks("GET /v1/peek/x?key=k HTTP/1.1\r\n\r\n", NULL, true);
	asks("GET /rule HTTP/1.1\r\n\r\n", NULL, true);
}

static void paths_and_methods_are_as_there(void **state)
{
	(void)state;
	get("/rule/browse/?a=1", "peek browse a=1 cost 1\n", "200 OK", "{\"c\":3}");
	get("//rule/browse//", "peek browse cost 1\n", "200 OK", "{\"c\":3}");
	exchange(&reply, "PUT /rule/update?a=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nb=2",
	         "acquire each a=1 b=2 cost 1\n", "200 OK", DONE);
	asks("HEAD /rule/update?a=1 HTTP/1.1\r\nHost: h\r\n\r\n", "acquire each a=1 cost 1\n", false);
}

static void a_job_may_lack_its_id_and_have_any_bytes(void **state)
{
	(void)state;
	get("/multi/browse?argsJson=%5B%7B%22id%22:1,%22ARG%22:%22a%3D\xc4\xe3%22%7D%5D",
	    "acquire batch argsJson=[{\"id\":1,\"ARG\":\"a=\xc4\xe3\"}] cost 1\n"
	    "peek browse named [1] a=\xef\xbf\xbd\xef\xbf\xbd cost 1\n",
	    "200 OK", "[{\"ID\":\"1\",\"Id\":\"1\",\"Result\":{\"c\":3}}]");
}

static void invalid_requests_are_refused(void **state)
{
	(void)state;
	get("/rule/browse?a&b&c&d", "", "400 Bad Request",
	    "{\"err_no\":-1,\"err_msg\":\"expected at most 3 attributes, found more\"}");
	get("/rule/browse?a&a&a&a", "", "400 Bad Request",
	    "{\"err_no\":-1,\"err_msg\":\"expected at most 3 attributes, found more\"}");
	post("/rule/browse", "Content-Type: text/plain\r\n", "a=1", "", "400 Bad Request",
	     "{\"err_no\":-1,\"err_msg\":\"expected a body of application/x-www-form-urlencoded, found "
	     "'text/plain'\"}");
	get("/rule/feedback?_feedbackType=erase3", "", "400 Bad Request",
	    "{\"err_no\":-1,\"err_msg\":\"expected _feedbackType to be erase1 or erase2, found "
	    "'erase3'\"}");
	get("/rule/value?rule_no=", "", "400 Bad Request",
	    "{\"err_no\":-1,\"err_msg\":\"expected rule_no, the return of a rule\"}");
	get("/multi/browse?a=1", "", "400 Bad Request",
	    "{\"err_no\":-1,\"err_msg\":\"expected argsJson, a JSON array\"}");
}

/* [{"Id":"0","Arg":"a%3D%2526"},{"Id":1,"Arg":"_writeThrough%3Dyes"},{"Id":"\""},7] */
#define MANY                                                                                       \
	"/multi/browse?argsJson=%5B%7B%22Id%22:%220%22,%22Arg%22:%22a%253D%252526%22%7D,"              \
	"%7B%22Id%22:1,%22Arg%22:%22_writeThrough%253Dyes%22%7D,%7B%22Id%22:%22%5C%22%22%7D,7%5D"

static void many_are_asked_at_once_and_answered_under_both_names(void **state)
{
	(void)state;
	get(MANY,
	    "acquire batch argsJson=[{\"Id\":\"0\",\"Arg\":\"a%3D%2526\"},{\"Id\":1,\"Arg\":"
	    "\"_writeThrough%3Dyes\"},{\"Id\":\"\\\"\"},7] cost 1\n"
	    "peek browse named [0] a=& cost 1\n"
	    "acquire browse named [1] cost 1\n"
	    "acquire local named [\"] cost 1\n"
	    "acquire local cost 1\n",
	    "200 OK",
	    "[{\"ID\":\"0\",\"Id\":\"0\",\"Result\":{\"c\":3}},"
	    "{\"ID\":\"1\",\"Id\":\"1\",\"Result\":{\"c\":3}},"
	    "{\"ID\":\"\\\"\",\"Id\":\"\\\"\",\"Result\":{\"err_no\":-1,"
	    "\"err_msg\":\"expected an object with Id and Arg, found no Arg\"}},"
	    "{\"ID\":\"\",\"Id\":\"\",\"Result\":{\"err_no\":-1,"
	    "\"err_msg\":\"expected an object with Id and Arg, found no Arg\"}}]");
}

static void errors_of_the_server_have_koalas_numbers(void **state)
{
	const struct reply unknown = {.status = WEIR_ENOTFOUND, .message = "none"};
	const struct reply away = {.status = WEIR_ESTORE, .message = "away"}, down = {.ready = false};

	(void)state;
	exchange(&unknown, "GET /rule/value?rule_no=1 HTTP/1.1\r\nHost: h\r\n\r\n", NULL,
	         "400 Bad Request", "{\"err_no\":-2,\"err_msg\":\"none\"}");
	exchange(&away, "GET /rule/update HTTP/1.1\r\nHost: h\r\n\r\n", NULL, "200 OK",
	         "{\"err_no\":-1,\"err_msg\":\"away\"}");
	exchange(&down, "GET /monitor/alive HTTP/1.1\r\nHost: h\r\n\r\n", NULL,
	         "500 Internal Server Error", "{\"errno\":-1,\"errmsg\":\"redis-error!\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_path_is_a_request_and_has_an_answer_of_its_own),
	    cmocka_unit_test(parameters_stand_each_for_itself),
	    cmocka_unit_test(bytes_that_a_user_typed_stand_for_themselves),
	    cmocka_unit_test(a_form_is_read_whatever_the_method),
	    cmocka_unit_test(blanks_round_a_value_have_no_meaning),
	    cmocka_unit_test(a_host_is_not_needed_here),
	    cmocka_unit_test(paths_and_methods_are_as_there),
	    cmocka_unit_test(a_job_may_lack_its_id_and_have_any_bytes),
	    cmocka_unit_test(invalid_requests_are_refused),
	    cmocka_unit_test(many_are_asked_at_once_and_answered_under_both_names),
	    cmocka_unit_test(errors_of_the_server_have_koalas_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
