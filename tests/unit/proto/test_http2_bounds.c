/* Tests each bound of docs/design/http2.md at its border. */
#include "frames.h"

#include <stdatomic.h>
#include <stdio.h>

static const struct slice no_settings = {"", 0};
static const struct codec_bounds usual = CODEC_BOUNDS_DEFAULT;

/* Frames of peer_open, which cost 1 each: the preface, the settings, and their acknowledgement. */
#define OPENING 3
#define FLOOD   "GOAWAY %u ENHANCE_YOUR_CALM\n"

/* So many frames without a request. */
static void spend(struct peer *peer, int frames)
{
	for (int i = 0; i < frames; i++)
		frame(&peer->sent, UNKNOWN_FRAME, 0, 0, no_settings);
	peer_send(peer);
}

/* The next frame without a request is too many. */
static void assert_is_spent(struct peer *peer, uint32_t last)
{
	char expected[64];

	assert_false(peer->drive.closed);
	snprintf(expected, sizeof expected, FLOOD, last);
	frame(&peer->sent, UNKNOWN_FRAME, 0, 0, no_settings);
	assert_string_equal(peer_send(peer), expected);
	assert_true(peer->drive.closed);
	peer_close(peer);
}

static void a_frame_without_a_request_costs_1(void **state)
{
	struct peer peer;

	(void)state;
	assert_int_equal(HTTP2_FLOOD_BUDGET, 16384);
	peer_open(&peer, &usual, &no_settings);
	spend(&peer, HTTP2_FLOOD_BUDGET - OPENING - 1);
	assert_is_spent(&peer, 0);
}

static void a_frame_in_single_bytes_costs_no_more(void **state)
{
	struct buffer bytes = {0};
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_request(&bytes, 1, "POST", "/v1/acquire", 0);
	frame_body(&bytes, 1, HTTP2_FLOOD_BUDGET + 1, true);
	for (size_t i = 0; i < bytes.len; i++)
		drive_feed(&peer.drive, (struct slice){bytes.data + i, 1});
	assert_string_equal(peer_look(&peer), "HEADERS 1 400\nDATA 1 JSON end\n");
	spend(&peer, HTTP2_FLOOD_BUDGET - 1);
	assert_is_spent(&peer, 1);
	buffer_free(&bytes);
}

static void a_request_restores_64_but_no_more_than_was_spent(void **state)
{
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	spend(&peer, HTTP2_FLOOD_BUDGET - OPENING - 1);
	frame_get(&peer.sent, 1, "/health");
	peer_send(&peer);
	spend(&peer, 64);
	assert_is_spent(&peer, 1);

	peer_open(&peer, &usual, &no_settings);
	frame_get(&peer.sent, 1, "/health");
	frame_get(&peer.sent, 3, "/health");
	peer_send(&peer);
	spend(&peer, HTTP2_FLOOD_BUDGET - 1);
	assert_is_spent(&peer, 3);
}

/* Asks, and resets the stream before the answer or behind it. */
static void ask_and_reset(struct peer *peer, uint32_t stream, bool answered)
{
	struct drive_taken taken;

	frame_get(&peer->sent, stream, "/health");
	assert_true(peer_take(peer, &taken));
	if (answered)
		peer_answer(peer, &taken, "");
	else
		drive_drop(&taken);
	frame_number(&peer->sent, NGHTTP2_RST_STREAM, stream, NGHTTP2_CANCEL);
	assert_false(peer_take(peer, &taken));
}

static void a_reset_costs_128_before_the_answer_and_nothing_behind_it(void **state)
{
	struct peer peer;
	uint32_t resets = 0;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	while (!peer.drive.closed)
		ask_and_reset(&peer, 1 + 2 * resets++, false);
	/* Each costs 128 and its frame, and the request of all but the first gives 64 back. */
	assert_int_equal(resets, 252);
	assert_non_null(strstr(peer_look(&peer), "GOAWAY 503 ENHANCE_YOUR_CALM\n"));
	peer_close(&peer);

	peer_open(&peer, &usual, &no_settings);
	for (uint32_t stream = 1; stream < 2000; stream += 2)
		ask_and_reset(&peer, stream, true);
	assert_false(peer.drive.closed);
	peer_close(&peer);
}

static void a_block_of_a_header_has_8_continuations(void **state)
{
	struct buffer block = {0};
	struct peer peer;

	(void)state;
	request_add(&block, "GET", SLICE("/health"));
	for (unsigned more = 8; more <= 9; more++) {
		peer_open(&peer, &usual, &no_settings);
		frame(&peer.sent, NGHTTP2_HEADERS, END, 1, (struct slice){block.data, 1});
		for (unsigned i = 1; i < more; i++)
			frame(&peer.sent, NGHTTP2_CONTINUATION, 0, 1, (struct slice){block.data + i, 1});
		frame(&peer.sent, NGHTTP2_CONTINUATION, WHOLE, 1,
		      (struct slice){block.data + more, block.len - more});
		assert_string_equal(peer_send(&peer), more == 8 ? "HEADERS 1 200\nDATA 1 OK end\n"
		                                                : "GOAWAY 1 ENHANCE_YOUR_CALM\n");
		peer_close(&peer);
	}
	buffer_free(&block);
}

/* The status of a request with a header "a" of so many bytes behind a target of so many. */
static void assert_status(const struct codec_bounds *bounds, size_t target, size_t value,
                          const char *seen)
{
	char text[512];
	struct buffer block = {0};
	struct peer peer;

	memset(text, 'a', sizeof text);
	memcpy(text, "/health?", 8);
	peer_open(&peer, bounds, &no_settings);
	request_add(&block, "GET", (struct slice){text, target});
	if (value > 0)
		field_add(&block, SLICE("a"), (struct slice){text + 8, value});
	frame(&peer.sent, NGHTTP2_HEADERS, WHOLE | END, 1, (struct slice){block.data, block.len});
	assert_string_equal(peer_send(&peer), seen);
	buffer_free(&block);
	peer_close(&peer);
}

static void headers_and_bodies_have_the_bounds_of_http_1(void **state)
{
	struct codec_bounds bounds = usual;
	struct peer peer;

	(void)state;
	bounds.header_max = 300;
	bounds.request_max = 100;
	assert_status(&bounds, 300 - GET_KEPT, 0, "HEADERS 1 200\nDATA 1 OK end\n");
	assert_status(&bounds, 301 - GET_KEPT, 0, "HEADERS 1 414\nDATA 1 JSON end\n");
	assert_status(&bounds, 10, 300 - GET_KEPT - 10 - 5, "HEADERS 1 200\nDATA 1 OK end\n");
	assert_status(&bounds, 10, 301 - GET_KEPT - 10 - 5, "HEADERS 1 431\nDATA 1 JSON end\n");
	peer_open(&peer, &bounds, &no_settings);
	frame_request(&peer.sent, 1, "POST", "/v1/acquire", 0);
	frame_body(&peer.sent, 1, 100, true);
	assert_string_equal(peer_send(&peer), "HEADERS 1 400\nDATA 1 JSON end\n");
	frame_request(&peer.sent, 3, "POST", "/v1/acquire", 0);
	frame_body(&peer.sent, 3, 100, false);
	assert_string_equal(peer_send(&peer), "");
	frame_body(&peer.sent, 3, 1, false);
	assert_string_equal(peer_send(&peer),
	                    "HEADERS 3 413\nDATA 3 JSON end\nRST_STREAM 3 NO_ERROR\n");
	peer_close(&peer);
}

static void a_request_past_its_bound_is_asked_once(void **state)
{
	struct drive_taken taken;
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_request(&peer.sent, 1, "POST", "/v1/acquire", 0);
	frame_body(&peer.sent, 1, usual.request_max + 1, false);
	assert_true(peer_take(&peer, &taken));
	frame_body(&peer.sent, 1, 0, true);
	assert_false(peer_take(&peer, &(struct drive_taken){0}));
	assert_string_equal(peer_answer(&peer, &taken, ""), "HEADERS 1 413\nDATA 1 JSON end\n");
	peer_close(&peer);
}

static void unfinished_requests_have_192_kib(void **state)
{
	struct codec_bounds bounds = usual;
	_Atomic uint64_t kept = 0;
	struct peer peer;

	(void)state;
	bounds.session_bytes = &kept;
	peer_open(&peer, &bounds, &no_settings);
	for (uint32_t stream = 1; stream <= 5; stream += 2)
		frame_request(&peer.sent, stream, "POST", "/v1/acquire", 0);
	frame_body(&peer.sent, 1, bounds.request_max, false);
	frame_body(&peer.sent, 3, bounds.request_max, false);
	assert_string_equal(peer_send(&peer), "");
	/* A third request of the longest size ends its own stream; complete requests do not count. */
	frame_body(&peer.sent, 5, bounds.request_max, false);
	assert_string_equal(peer_send(&peer), "RST_STREAM 5 ENHANCE_YOUR_CALM\n");
	assert_in_range(atomic_load(&kept), 2 * bounds.request_max, HTTP2_INPUT_MAX);
	frame_get(&peer.sent, 7, "/health");
	frame_body(&peer.sent, 1, 0, true);
	assert_string_equal(peer_send(&peer),
	                    "HEADERS 7 200\nDATA 7 OK end\nHEADERS 1 400\nDATA 1 JSON end\n");
	peer_close(&peer);
	assert_int_equal(atomic_load(&kept), 0);
}

static void a_hundred_small_requests_may_be_unfinished(void **state)
{
	struct codec_bounds bounds = usual;
	_Atomic uint64_t kept = 0;
	struct peer peer;

	(void)state;
	bounds.session_bytes = &kept;
	peer_open(&peer, &bounds, &no_settings);
	for (uint32_t stream = 1; stream < 200; stream += 2) {
		frame_request(&peer.sent, stream, "POST", "/v1/acquire", 0);
		frame_body(&peer.sent, stream, 128, false);
	}
	assert_string_equal(peer_send(&peer), "");
	assert_in_range(atomic_load(&kept), 100 * 128, HTTP2_INPUT_MAX);
	peer_close(&peer);
	assert_int_equal(atomic_load(&kept), 0);
}

/* A bound on requests that is higher than that of a connection leaves room for one. */
static void one_request_fits_always(void **state)
{
	struct codec_bounds bounds = usual;
	struct peer peer;

	(void)state;
	bounds.request_max = 2 * HTTP2_INPUT_MAX;
	peer_open(&peer, &bounds, &no_settings);
	frame_request(&peer.sent, 1, "POST", "/v1/acquire", 0);
	frame_body(&peer.sent, 1, bounds.request_max, true);
	assert_string_equal(peer_send(&peer), "HEADERS 1 400\nDATA 1 JSON end\n");
	peer_close(&peer);
}

static void answers_that_wait_have_256_kib(void **state)
{
	static const struct slice no_window = {"\0\4\0\0\0\0", 6};
	static char body[65536];
	struct codec_bounds bounds = usual;
	_Atomic uint64_t kept = 0;
	struct peer peer;

	(void)state;
	bounds.session_bytes = &kept;
	peer_open(&peer, &bounds, &no_window);
	peer.drive.reply.body = (struct slice){body, sizeof body};
	for (uint32_t stream = 1; stream <= 11; stream += 2)
		frame_get(&peer.sent, stream, "/metrics");
	/* The fifth finds exactly 256 KiB that wait, the sixth more. */
	assert_string_equal(peer_send(&peer),
	                    "HEADERS 1 200\nHEADERS 3 200\nHEADERS 5 200\nHEADERS 7 200\n"
	                    "HEADERS 9 200\nRST_STREAM 11 REFUSED_STREAM\n");
	assert_int_equal(atomic_load(&kept), 5 * sizeof body);
	/* Two windows let 65,535 bytes go, and one byte is still too many. */
	frame_number(&peer.sent, NGHTTP2_WINDOW_UPDATE, 1, sizeof body);
	peer_send(&peer);
	frame_get(&peer.sent, 13, "/health");
	assert_string_equal(peer_send(&peer), "RST_STREAM 13 REFUSED_STREAM\n");
	frame_number(&peer.sent, NGHTTP2_WINDOW_UPDATE, 0, 1);
	assert_string_equal(peer_send(&peer), "DATA 1  end\n");
	frame_get(&peer.sent, 15, "/health");
	assert_string_equal(peer_send(&peer), "HEADERS 15 200\n");
	peer_close(&peer);
	assert_int_equal(atomic_load(&kept), 0);
}

/* Before the client has seen the settings, a stream too many is refused; then it ends the
 * connection. */
static void a_connection_has_100_streams(void **state)
{
	struct drive_taken taken[101];
	struct peer peer;

	(void)state;
	for (int knows = 0; knows <= 1; knows++) {
		peer_open(&peer, &usual, knows ? &no_settings : NULL);
		if (!knows)
			frame(&peer.sent, NGHTTP2_SETTINGS, 0, 0, no_settings);
		for (uint32_t i = 0; i < 100; i++) {
			frame_get(&peer.sent, 1 + 2 * i, "/metrics");
			assert_true(peer_take(&peer, &taken[i]));
		}
		frame_get(&peer.sent, 201, "/health");
		assert_false(peer_take(&peer, &taken[100]));
		assert_string_equal(peer_look(&peer), knows ? "GOAWAY 199 PROTOCOL_ERROR\n"
		                                            : "RST_STREAM 201 REFUSED_STREAM\n");
		assert_int_equal(peer.drive.closed, knows);
		assert_string_equal(peer_answer(&peer, &taken[0], "it"),
		                    knows ? "" : "HEADERS 1 200\nDATA 1 it end\n");
		frame_get(&peer.sent, 203, "/health");
		assert_string_equal(peer_send(&peer), knows ? "" : "HEADERS 203 200\nDATA 203 OK end\n");
		for (uint32_t i = 1; i < 100; i++)
			drive_drop(&taken[i]);
		peer_close(&peer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_frame_without_a_request_costs_1),
	    cmocka_unit_test(a_frame_in_single_bytes_costs_no_more),
	    cmocka_unit_test(a_request_restores_64_but_no_more_than_was_spent),
	    cmocka_unit_test(a_reset_costs_128_before_the_answer_and_nothing_behind_it),
	    cmocka_unit_test(a_block_of_a_header_has_8_continuations),
	    cmocka_unit_test(headers_and_bodies_have_the_bounds_of_http_1),
	    cmocka_unit_test(a_request_past_its_bound_is_asked_once),
	    cmocka_unit_test(unfinished_requests_have_192_kib),
	    cmocka_unit_test(a_hundred_small_requests_may_be_unfinished),
	    cmocka_unit_test(one_request_fits_always),
	    cmocka_unit_test(answers_that_wait_have_256_kib),
	    cmocka_unit_test(a_connection_has_100_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
