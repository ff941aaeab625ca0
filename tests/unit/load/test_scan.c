/* Finds replies of RESP and HTTP in bytes that are split anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "load/scan.h"

#define LONG_LINE                                                                                  \
	"-ERR 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234"   \
	"56789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"

struct stream {
	struct slice command; /* of RESP; empty: HTTP */
	struct slice bytes;
	const char *outcomes; /* a letter a reply, '!' where the frame is lost */
};

static const struct stream streams[] = {
    {SLICE("cl.throttle"),
     SLICE("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n*5\r\n:1\r\n:16\r\n:0\r\n:1\r\n:2\r\n"), "AD"},
    {SLICE("THROTTLE"), SLICE("*5\r\n:0\r\n:1\r\n:1\r\n:1\r\n:2\r\n*1\r\n:1\r\n"), "DA"},
    {SLICE("WEIR.ACQUIRE"),
     SLICE("*7\r\n:1\r\n:10\r\n:9\r\n:0\r\n:200\r\n$2\r\nok\r\n$0\r\n\r\n-ERR no\r\n"), "AE"},
    {SLICE("GET"), SLICE("$-1\r\n$4\r\n\r\n-x\r\n+OK\r\n:1\r\n_\r\n#t\r\n,1.5\r\n(12\r\n"),
     "aaaaaaaa"},
    {SLICE("GET"), SLICE("*0\r\n*-1\r\n*2\r\n*1\r\n+a\r\n*2\r\n$1\r\nb\r\n:1\r\n"), "aaa"},
    {SLICE("GET"), SLICE("%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n:2\r\n|1\r\n+k\r\n+v\r\n:3\r\n"), "aa"},
    {SLICE("GET"), SLICE(LONG_LINE "\r\n!3\r\nERR\r\n=7\r\ntxt:abc\r\n"), "EEa"},
    {SLICE("GET"), SLICE("+OK\r\n?\r\n"), "a!"},
    {SLICE("GET"), SLICE("\r\n"), "!"},
    {SLICE("GET"), SLICE("*x\r\n"), "!"},
    {SLICE("GET"), SLICE("$99999999999\r\n"), "!"},
    {SLICE("GET"), SLICE("*99999999\r\n"), "!"},
    {SLICE("THROTTLE"), SLICE("*1\r\n:99999999999999999999\r\n"), "!"},
    {{0},
     SLICE("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\r\n\r\nxHTTP/1.1 429 Too Many Requests\r\n"
           "X: y\r\ncontent-length:0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
           "HTTP/1.0 500 Oh\nContent-Length:   1\n\nx"),
     "ADAE"},
    {{0}, SLICE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), "!"},
    {{0}, SLICE("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "!"},
    {{0}, SLICE("HTTP/2 200 OK\r\n"), "!"},
};

/* Reads `stream` in pieces of `size` bytes. */
static void check(const struct stream *stream, size_t size)
{
	struct scan_rules rules = stream->command.len > 0 ? scan_resp(stream->command) : scan_http();
	struct scan scan = {0};
	char outcomes[32] = "";
	bool broken = false;

	for (size_t at = 0; at < stream->bytes.len && !broken; at += size) {
		size_t left = stream->bytes.len - at;
		struct slice piece = {stream->bytes.data + at, size < left ? size : left};
		enum scan_result result;

		while ((result = scan_next(&rules, &scan, &piece)) == SCAN_REPLY)
			strncat(outcomes, &"aADE"[scan.outcome], 1);
		broken = result == SCAN_BROKEN;
		if (broken)
			strcat(outcomes, "!");
		else
			assert_int_equal(piece.len, 0);
	}
	assert_string_equal(outcomes, stream->outcomes);
}

static void replies_are_counted_wherever_they_are_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
		for (size_t size = 1; size <= streams[i].bytes.len; size++)
			check(&streams[i], size);
}

static void an_error_is_quoted_from_its_beginning(void **state)
{
	struct scan_rules rules = scan_resp(SLICE("GET"));
	struct scan scan = {0};
	struct slice bytes = SLICE(LONG_LINE "\r\n");

	(void)state;
	assert_int_equal(scan_next(&rules, &scan, &bytes), SCAN_REPLY);
	assert_int_equal(strlen(scan.text), SCAN_LINE_MAX - 1);
	assert_memory_equal(scan.text, LONG_LINE + 1, SCAN_LINE_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(replies_are_counted_wherever_they_are_cut),
	    cmocka_unit_test(an_error_is_quoted_from_its_beginning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
