/* Lists the permission that each command and route needs. A new one must be added here, too. */
#include "drive.h"

#include <stdio.h>

#include "proto/http/http_route.h"
#include "proto/resp/resp_session.h"

static const char *const classes[] = {"free", "ask", "change", "admin"};

/* One line for each: its name, for routes its methods, and its class. */
static void assert_listed(struct buffer *found, const char *expected, const char *what)
{
	assert_bytes(found, expected, what);
	buffer_free(found);
}

static void test_every_command_has_a_class(void **state)
{
	size_t n;
	const struct resp_spec *specs = resp_specs(&n);
	struct buffer found = {0};

	(void)state;
	for (size_t i = 0; i < n; i++)
		buffer_printf(&found, "%s %s\n", specs[i].name.data, classes[specs[i].class]);
	assert_listed(&found,
	              "CL.THROTTLE ask\n"
	              "WEIR.ACQUIRE ask\n"
	              "WEIR.CHECK ask\n"
	              "THROTTLE ask\n"
	              "WEIR.PEEK ask\n"
	              "WEIR.REFUND change\n"
	              "WEIR.RESET change\n"
	              "WEIR.CHECKPEEK ask\n"
	              "WEIR.REPORT ask\n"
	              "WEIR.SHED admin\n"
	              "DEL change\n"
	              "EXISTS ask\n"
	              "TTL ask\n"
	              "PTTL ask\n"
	              "PING free\n"
	              "MULTI free\n"
	              "EXEC free\n" /* its commands have classes of their own */
	              "DISCARD free\n"
	              "WATCH free\n"
	              "UNWATCH free\n"
	              "ECHO free\n"
	              "HELLO free\n"
	              "AUTH free\n"
	              "SELECT free\n"
	              "CLIENT free\n"
	              "ACL free\n"
	              "COMMAND free\n"
	              "INFO free\n"
	              "CONFIG free\n"
	              "RESET free\n"
	              "QUIT free\n",
	              "commands");
}

static void test_every_route_has_methods_and_a_class(void **state)
{
	static const struct {
		unsigned bit;
		const char *name;
	} methods[] = {{METHOD_GET, " GET"},
	               {METHOD_HEAD, " HEAD"},
	               {METHOD_POST, " POST"},
	               {METHOD_PUT, " PUT"},
	               {METHOD_OTHER, " others"}};
	size_t n;
	const struct http_route *routes = http_routes(&n);
	struct buffer found = {0};

	(void)state;
	for (size_t i = 0; i < n; i++) {
		buffer_printf(&found, "%s", routes[i].path.data);
		for (size_t j = 0; j < sizeof methods / sizeof *methods; j++)
			if (routes[i].methods & methods[j].bit)
				buffer_add_text(&found, methods[j].name);
		buffer_printf(&found, " %s\n", classes[routes[i].class]);
	}
	assert_listed(&found,
	              "/auth GET HEAD POST PUT others ask\n"
	              "/v1/acquire POST ask\n"
	              "/v1/acquire/ GET ask\n"
	              "/auth/ GET HEAD POST PUT others ask\n"
	              "/v1/peek POST ask\n"
	              "/v1/peek/ GET HEAD ask\n"
	              "/v1/refund POST change\n"
	              "/v1/reset POST change\n"
	              "/v1/report POST ask\n"
	              "/v1/shed POST admin\n"
	              "/v1/breaker POST admin\n"
	              "/v1/batch POST ask\n"
	              "/throttle POST ask\n"
	              "/health GET HEAD free\n"
	              "/healthz GET HEAD free\n"
	              "/readyz GET HEAD free\n"
	              "/metrics GET HEAD ask\n"
	              "/v1/limits GET HEAD admin\n"
	              "/v1/top GET HEAD admin\n"
	              "/v1/key POST admin\n"
	              "/v1/denials GET HEAD admin\n"
	              "/v1/status GET HEAD admin\n"
	              "/v1/reload POST admin\n"
	              "/v1/stats GET HEAD admin\n"
	              "/v1/events GET admin\n"
	              "/ GET HEAD admin\n"
	              "/rule/browse GET HEAD POST PUT ask\n"
	              "/rule/update GET HEAD POST PUT ask\n"
	              "/rule/browse_complete GET HEAD POST PUT ask\n"
	              "/rule/feedback GET HEAD POST PUT change\n"
	              "/rule/value GET HEAD POST PUT ask\n"
	              "/multi/browse GET HEAD POST PUT ask\n"
	              "/monitor/alive GET HEAD POST PUT free\n"
	              "/dump/policy GET HEAD POST PUT admin\n"
	              "/dump/counter GET HEAD POST PUT admin\n",
	              "routes");
}

/* The class of the one request in `bytes`, and those of its items. */
static void assert_classes(const struct codec *codec, const char *bytes, const char *expected)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	void *session = malloc(codec->session_size);
	struct arena arena = {0};
	struct buffer found = {0};
	struct request request;
	size_t consumed;

	codec->open(session, &bounds, 1);
	assert_int_equal(codec->parse(session, slice_of(bytes), &consumed, &arena, &request),
	                 CODEC_REQUEST);
	buffer_add_text(&found, classes[request.class]);
	for (size_t i = 0; i < request.item_count; i++)
		buffer_printf(&found, " %s", classes[request.items[i].class]);
	assert_listed(&found, expected, bytes);
	arena_free(&arena);
	free(session);
}

static void assert_post(const char *path, const char *body, const char *expected)
{
	char bytes[512];

	snprintf(bytes, sizeof bytes, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s",
	         path, strlen(body), body);
	assert_classes(&http_codec, bytes, expected);
}

static void test_a_refund_by_permit_is_an_ask(void **state)
{
	(void)state;
	assert_classes(&resp_codec, "WEIR.REFUND l k COST 2\r\n", "change");
	assert_classes(&resp_codec, "WEIR.REFUND l k PERMIT p\r\n", "ask");
	assert_classes(&resp_codec, "WEIR.REFUND l k COST 2 PERMIT p\r\n", "ask");
	assert_post("/v1/refund", "{\"limit\":\"l\",\"key\":\"k\"}", "change");
	assert_post("/v1/refund", "{\"limit\":\"l\",\"key\":\"k\",\"permit\":false}", "change");
	assert_post("/v1/refund", "{\"permit\":\"p\"}", "ask");
	assert_post("/v1/report", "{\"permit\":\"p\",\"outcome\":\"success\"}", "ask");
}

static void test_each_item_of_a_batch_has_its_own_class(void **state)
{
	(void)state;
	assert_post("/v1/batch",
	            "[{\"limit\":\"l\",\"key\":\"k\"},"
	            "{\"op\":\"acquire\",\"limit\":\"l\",\"key\":\"k\"},"
	            "{\"op\":\"peek\",\"limit\":\"l\",\"key\":\"k\"},"
	            "{\"op\":\"refund\",\"limit\":\"l\",\"key\":\"k\"},"
	            "{\"op\":\"refund\",\"permit\":\"p\"},"
	            "{\"op\":\"reset\",\"limit\":\"l\",\"key\":\"k\"}]",
	            "ask ask ask ask change ask change");
}

static void test_errors_are_free(void **state)
{
	(void)state;
	assert_classes(&resp_codec, "NONE\r\n", "free");
	assert_classes(&resp_codec, "WEIR.SHED l more\r\n", "free");
	assert_post("/nowhere", "", "free");
	assert_post("/v1/limits", "", "free");
	assert_post("/v1/shed", "{}", "free");
	assert_post("/v1/breaker", "{}", "free");
	assert_post("/v1/batch", "[{\"op\":\"reset\"}]", "ask free");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_command_has_a_class),
	    cmocka_unit_test(test_every_route_has_methods_and_a_class),
	    cmocka_unit_test(test_a_refund_by_permit_is_an_ask),
	    cmocka_unit_test(test_each_item_of_a_batch_has_its_own_class),
	    cmocka_unit_test(test_errors_are_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
