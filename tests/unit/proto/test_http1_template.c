/* Compares messages that are read by the template of the one before with messages read alone. */
#include "drive.h"

#include <stdio.h>

static const struct reply passed = {.decision = {.allowed = true, .limit = "l"},
                                    .policy = "default-src 'none'"};

/* A request shows only the header fields that Weir looks at. */
static const char *const heads[] = {
    "Host: h\r\n\r\n",
    "Host: weir.example:8080\r\n\r\n",
    "Host: h\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Uri: /a?b\r\n\r\n",
    "Host: h\r\nX-Forwarded-Uri: /b\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
    "Host: h\r\nAccept: */*\r\nX-Forwarded-Host: a.b\r\n\r\n",
    "Host: h\r\nConnection: close\r\n\r\n",
    "Host: h\r\nConnection: keep-alive\r\n\r\n",
    "Host: h\r\nContent-Length: 0\r\n\r\n",
    "Host: h\r\nContent-Length: 3\r\n\r\na=b",
    "Host: h\r\nExpect: 100-continue\r\n\r\n",
    "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n",
    "Host: h\r\nHost: h\r\n\r\n",
    "Host: h\r\n folded\r\n\r\n",
    "\r\n",
};
static const char *const methods[] = {"GET", "HEAD", "POST"};
static const char *const versions[] = {"HTTP/1.1", "HTTP/1.0", "HTTP/1.2"};
static const char *const targets[] = {
    "/auth",
    "/auth?deny=418",
    "/auth/a/b?c",
    "/rule/browse?a=b",
    "/health",
    "/rule/browse?_writeThrough=yes&uid=1234567890123",
    "/v1/peek/l?key=k",
    "/auth#a",
    "http://h/auth",
    "*",
    "/rule/value?rule_no=1",
    "/auth HTTP/1.1",
    "",
    "/\x7f",
    "/\x80",
};

#define PAD "0123456789012345678901234567890123456789012345678901234567890123456789"

#define PICK(list, seed) ((list)[draw(seed) % (sizeof(list) / sizeof *(list))])

static unsigned draw(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1;
	return (unsigned)(*seed >> 40);
}

/* Mostly a client sends one head again and again. */
struct head {
	const char *method, *version, *pad, *fields;
};

static struct head draw_head(uint64_t *seed)
{
	bool usual = draw(seed) % 2 > 0;

	return (struct head){
	    usual ? "GET" : PICK(methods, seed), usual ? "HTTP/1.1" : PICK(versions, seed),
	    draw(seed) % 8 == 0 ? "X-Pad: " PAD PAD PAD PAD "\r\n" : "", PICK(heads, seed)};
}

/* Feeds it in up to two parts. */
static void feed(struct drive *drive, struct slice bytes, uint64_t *seed)
{
	size_t cut = draw(seed) % 4 == 0 ? draw(seed) % bytes.len : bytes.len;

	drive_feed(drive, (struct slice){bytes.data, cut});
	drive_feed(drive, (struct slice){bytes.data + cut, bytes.len - cut});
}

/* The requests and answers of messages on one connection are those of a connection for each. */
static void messages_mean_the_same_on_any_connection(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	size_t answered = 0;

	(void)state;
	for (uint64_t round = 1; round <= 2000; round++) {
		uint64_t seed = round;
		struct drive one, alone;
		struct buffer out = {0}, requests = {0};
		struct head two[] = {draw_head(&seed), draw_head(&seed)}, head = two[0];

		bounds.header_max = round % 4 == 0 ? 80 + draw(&seed) % 40 : 8192;
		drive_open(&one, &http_codec, &bounds, &passed);
		for (int i = 0; i < 12 && !one.closed && one.pending.len == 0; i++) {
			char bytes[1024];

			if (draw(&seed) % 4 == 0)
				head = two[draw(&seed) % 2];
			snprintf(bytes, sizeof bytes, "%s %s %s\r\n%s%s", head.method, PICK(targets, &seed),
			         head.version, head.pad, head.fields);
			feed(&one, slice_of(bytes), &seed);
			drive_open(&alone, &http_codec, &bounds, &passed);
			drive_feed(&alone, slice_of(bytes));
			buffer_add(&out, alone.out.data, alone.out.len);
			buffer_add(&requests, alone.requests.data, alone.requests.len);
			assert_int_equal(alone.pending.len, one.pending.len);
			assert_int_equal(alone.closed, one.closed);
			drive_close(&alone);
			answered++;
		}
		buffer_add(&out, "", 1);
		buffer_add(&requests, "", 1);
		assert_bytes(&one.requests, requests.data, "requests");
		assert_bytes(&one.out, out.data, "answers");
		drive_close(&one);
		buffer_free(&out);
		buffer_free(&requests);
	}
	assert_true(answered > 3000);
}

/* Each byte anywhere in a target is taken or refused as if the message came alone. */
static void bytes_of_a_target_mean_the_same(void **state)
{
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	char bytes[64];

	(void)state;
	for (unsigned at = 0; at < 20; at++) {
		for (unsigned byte = 1; byte < 256; byte++) {
			struct drive formed, alone;
			char target[] = "/health?abcdefghijkl";

			target[at] = (char)byte;
			snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
			drive_open(&formed, &http_codec, &bounds, &passed);
			drive_feed(&formed, SLICE("GET /health HTTP/1.1\r\nHost: h\r\n\r\n"));
			buffer_consume(&formed.out, formed.out.len);
			drive_feed(&formed, slice_of(bytes));
			drive_open(&alone, &http_codec, &bounds, &passed);
			drive_feed(&alone, slice_of(bytes));
			buffer_add(&alone.out, "", 1);
			assert_bytes(&formed.out, alone.out.data, bytes);
			assert_int_equal(formed.closed, alone.closed);
			drive_close(&formed);
			drive_close(&alone);
		}
	}
}

/* Fields of the head tell who sent a request. */
static void a_proxy_is_seen_in_each_message(void **state)
{
	static const struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	static const char *const messages[] = {
	    "GET /readyz HTTP/1.1\r\nHost: a.example:80\r\nVia: p\r\n\r\n",
	    "GET /v1/limits HTTP/1.1\r\nHost: a.example:80\r\nVia: p\r\n\r\n",
	    "GET /v1/limits?a HTTP/1.1\r\nHost: a.example:80\r\nVia: p\r\n\r\n",
	};
	void *session = malloc(http_codec.session_size);

	(void)state;
	http_codec.open(session, &bounds, 7);
	for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
		struct arena arena = {0};
		struct request request;
		size_t consumed;

		assert_int_equal(
		    http_codec.parse(session, slice_of(messages[i]), &consumed, &arena, &request),
		    CODEC_REQUEST);
		assert_int_equal(consumed, strlen(messages[i]));
		assert_true(request.origin->forwarded);
		assert_true(slice_equal(request.origin->host, SLICE("a.example")));
		arena_free(&arena);
	}
	free(session);
}

/* The reader keeps a message's form up to the next message, which may have a body. */
static void a_body_between_two_messages_changes_neither(void **state)
{
	static const char ask[] = "GET /auth HTTP/1.1\r\nX-Forwarded-For: 1.2.3.4\r\nHost: h\r\n\r\n";
	static const char post[] =
	    "POST /rule/browse HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na=b";
	struct codec_bounds bounds = CODEC_BOUNDS_DEFAULT;
	struct drive drive;

	(void)state;
	drive_open(&drive, &http_codec, &bounds, &passed);
	drive_feed(&drive, slice_of(ask));
	drive_feed(&drive, slice_of(post));
	drive_feed(&drive, slice_of(ask));
	assert_bytes(&drive.requests,
	             "acquire rules method=GET path=/ host=h cost 1 for [1.2.3.4]\n"
	             "peek browse a=b cost 1\n"
	             "acquire rules method=GET path=/ host=h cost 1 for [1.2.3.4]\n",
	             "requests");
	drive_close(&drive);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(messages_mean_the_same_on_any_connection),
	    cmocka_unit_test(bytes_of_a_target_mean_the_same),
	    cmocka_unit_test(a_body_between_two_messages_changes_neither),
	    cmocka_unit_test(a_proxy_is_seen_in_each_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
