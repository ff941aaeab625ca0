/* Reads replies of HTTP that are split anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/http_reply.h"

#define BODY_MAX 8

/* A reply, its status and body if it is good; otherwise the error, also at the end. */
static const struct example {
	struct slice bytes;
	int status;
	const char *body;
	int error;
} examples[] = {
    {SLICE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc"), 200, "ab", WEIR_OK},
    {SLICE("HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\n\r\n"), 429, "", WEIR_OK},
    {SLICE("HTTP/1.1 204 No Content\r\n\r\n"), 204, "", WEIR_OK},
    {SLICE("HTTP/1.0 200 OK\r\n\r\nabc"), 200, "abc", WEIR_OK},
    {SLICE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
           "1\r\na\r\n2;x=y\r\nbc\r\n0\r\nX: y\r\n\r\n"),
     200, "abc", WEIR_OK},
    {SLICE("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"),
     200, "a", WEIR_OK},
    {SLICE("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12345678"), 200, "12345678", WEIR_OK},
    {SLICE("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789"), 0, NULL, WEIR_ELONG},
    {SLICE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"), 0, NULL, WEIR_EIO},
    {SLICE("HTTP/1.1 200 OK\r\nContent-Le"), 0, NULL, WEIR_EIO},
    {SLICE("HTTP/1.1 100 Continue\r\n\r\n"), 0, NULL, WEIR_EIO},
    {SLICE(""), 0, NULL, WEIR_EIO},
    {SLICE("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), 0, NULL,
     WEIR_ESYNTAX},
    {SLICE("-ERR no\r\n"), 0, NULL, WEIR_ESYNTAX},
    {SLICE("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 0, NULL,
     WEIR_ESYNTAX},
};

static int read_in_pieces(struct http_reply *reply, const struct example *example, size_t size,
                          struct weir_error *error)
{
	int status = WEIR_OK;

	http_reply_open(reply, BODY_MAX);
	for (size_t at = 0; status == WEIR_OK && at < example->bytes.len; at += size) {
		size_t left = example->bytes.len - at;
		struct slice piece = {example->bytes.data + at, size < left ? size : left};

		status = http_reply_read(reply, piece, error);
	}
	return status == WEIR_OK ? http_reply_end(reply, error) : status;
}

static void a_reply_is_read_in_pieces_of_any_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
		for (size_t size = 1; size <= examples[i].bytes.len + 1; size++) {
			const struct example *example = &examples[i];
			struct weir_error error = {0};
			struct http_reply reply;

			assert_int_equal(read_in_pieces(&reply, example, size, &error), example->error);
			assert_int_equal(reply.has_ended, example->error == WEIR_OK);
			assert_int_equal(*error.message != '\0', example->error != WEIR_OK);
			if (reply.has_ended) {
				assert_int_equal(reply.status, example->status);
				assert_int_equal(reply.body.len, strlen(example->body));
				if (reply.body.len > 0)
					assert_memory_equal(reply.body.data, example->body, reply.body.len);
			}
			http_reply_free(&reply);
		}
}

/* Repeats `piece` until there is an error, which must be soon. */
static void assert_bounded(const char *head, const char *piece)
{
	struct http_reply reply;
	size_t sent = 0;
	int status;

	http_reply_open(&reply, BODY_MAX);
	status = http_reply_read(&reply, slice_of(head), NULL);
	while (status == WEIR_OK && sent < 4 * HTTP_REPLY_HEAD_MAX) {
		status = http_reply_read(&reply, slice_of(piece), NULL);
		sent += strlen(piece);
	}
	assert_int_equal(status, WEIR_ELONG);
	http_reply_free(&reply);
}

static void what_is_not_the_body_is_bounded(void **state)
{
	(void)state;
	assert_bounded("HTTP/1.1 200 OK\r\nX: ", "x");
	assert_bounded("HTTP/1.1 200 OK\r\n", "X: y\r\n");
	assert_bounded("", "HTTP/1.1 100 Continue\r\n\r\n");
	assert_bounded("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x");
	assert_bounded("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_reply_is_read_in_pieces_of_any_size),
	    cmocka_unit_test(what_is_not_the_body_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
