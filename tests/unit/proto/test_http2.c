/* Reads requests of HTTP/2 from frames, and writes their answers, resets and flow control included.
 */
#include "frames.h"

#include <stdio.h>

static const struct slice no_settings = {"", 0};
static const struct codec_bounds usual = CODEC_BOUNDS_DEFAULT;

static void frames_may_be_split_anywhere(void **state)
{
	static const char body[] = "{\"limit\":\"l\",\"key\":\"k\"}";
	struct buffer bytes = {0}, block = {0};
	struct reply reply = {.ready = true, .decision = {.allowed = true}};

	(void)state;
	buffer_add_slice(&bytes, HTTP2_PREFACE);
	frame(&bytes, NGHTTP2_SETTINGS, 0, 0, no_settings);
	frame_get(&bytes, 1, "/v1/acquire/l?key=one");
	frame(&bytes, NGHTTP2_PING, 0, 0, SLICE("12345678"));
	frame_request(&bytes, 3, "POST", "/v1/acquire", 0);
	frame(&bytes, NGHTTP2_DATA, 0, 3, (struct slice){body, 5});
	frame_get(&bytes, 5, "/nothing");
	/* Padded: its length before, three bytes behind. */
	frame(&bytes, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 3, SLICE("\3it\0\0\0"));
	frame(&bytes, UNKNOWN_FRAME, 0, 0, SLICE("unknown"));
	frame(&bytes, NGHTTP2_DATA, END, 3, (struct slice){body + 7, strlen(body) - 7});
	/* A block of a header in three parts, and a trailer. */
	request_add(&block, "POST", SLICE("/v1/peek"));
	frame(&bytes, NGHTTP2_HEADERS, 0, 7, (struct slice){block.data, 1});
	frame(&bytes, NGHTTP2_CONTINUATION, 0, 7, (struct slice){block.data + 1, 30});
	frame(&bytes, NGHTTP2_CONTINUATION, WHOLE, 7, (struct slice){block.data + 31, block.len - 31});
	frame(&bytes, NGHTTP2_DATA, 0, 7, slice_of(body));
	block.len = 0;
	field_add(&block, SLICE("x-trailer"), SLICE("1"));
	frame(&bytes, NGHTTP2_HEADERS, WHOLE | END, 7, (struct slice){block.data, block.len});
	frame_request(&bytes, 9, "POST", "/v1/acquire", 0);
	frame_number(&bytes, NGHTTP2_RST_STREAM, 9, NGHTTP2_CANCEL);
	frame_get(&bytes, 11, "/metrics");
	assert_true(bytes.len < 4096); /* or drive_all would not cut it */
	assert_false(
	    drive_all(&http_codec, &usual, &reply, (struct slice){bytes.data, bytes.len},
	              "acquire limit l/one cost 1\nacquire limit l/k cost 1\npeek limit l/k cost 1\n"
	              "acquire metrics cost 1\n",
	              NULL));
	buffer_free(&bytes);
	buffer_free(&block);
}

static void answers_go_in_any_order(void **state)
{
	struct drive_taken first, second, third;
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	for (uint32_t stream = 1; stream <= 5; stream += 2)
		frame_get(&peer.sent, stream, "/metrics");
	assert_true(peer_take(&peer, &first));
	assert_true(peer_take(&peer, &second));
	assert_true(peer_take(&peer, &third));
	assert_string_equal(peer_answer(&peer, &third, "third"), "HEADERS 5 200\nDATA 5 third end\n");
	assert_string_equal(peer_answer(&peer, &first, "first"), "HEADERS 1 200\nDATA 1 first end\n");
	assert_string_equal(peer_answer(&peer, &second, "second"),
	                    "HEADERS 3 200\nDATA 3 second end\n");
	peer_close(&peer);
}

/* The requests that were cancelled since the last look. */
static const char *cancelled(struct peer *peer)
{
	struct buffer *requests = &peer->drive.requests;
	const char *first;

	buffer_add(requests, "", 1);
	first = strstr(requests->data, "cancelled");
	requests->len = 0;
	return first ? first : "";
}

static void a_reset_cancels_the_request_and_leaves_its_place(void **state)
{
	struct drive_taken gone, stays, later;
	char expected[32];
	unsigned place;
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_get(&peer.sent, 1, "/metrics");
	frame_get(&peer.sent, 3, "/metrics");
	assert_true(peer_take(&peer, &gone));
	assert_true(peer_take(&peer, &stays));
	place = gone.request.stream;
	assert_int_not_equal(stays.request.stream, place);
	frame_number(&peer.sent, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
	assert_false(peer_take(&peer, &later));
	snprintf(expected, sizeof expected, "cancelled %u\n", place);
	assert_string_equal(cancelled(&peer), expected);
	drive_drop(&gone);
	frame_get(&peer.sent, 5, "/metrics");
	assert_true(peer_take(&peer, &later));
	assert_int_equal(later.request.stream, place);
	assert_string_equal(peer_answer(&peer, &later, "later"), "HEADERS 5 200\nDATA 5 later end\n");
	assert_string_equal(peer_answer(&peer, &stays, "stays"), "HEADERS 3 200\nDATA 3 stays end\n");
	/* They are answered: a reset comes too late to cancel. */
	frame_number(&peer.sent, NGHTTP2_RST_STREAM, 5, NGHTTP2_CANCEL);
	assert_false(peer_take(&peer, &later));
	assert_string_equal(cancelled(&peer), "");
	peer_close(&peer);
}

static void the_end_of_the_session_cancels_all_that_wait(void **state)
{
	struct drive_taken taken;
	struct peer peer;
	const char *found;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	for (uint32_t stream = 1; stream <= 5; stream += 2) {
		frame_get(&peer.sent, stream, "/metrics");
		assert_true(peer_take(&peer, &taken));
		drive_drop(&taken);
	}
	frame(&peer.sent, NGHTTP2_DATA, 0, 0, no_settings); /* an error of the connection */
	assert_false(peer_take(&peer, &taken));
	assert_true(peer.drive.closed);
	found = cancelled(&peer);
	for (unsigned place = 1; place <= 3; place++) {
		char expected[32];

		snprintf(expected, sizeof expected, "cancelled %u\n", place);
		assert_non_null(strstr(found, expected));
	}
	peer_close(&peer);
}

static void look_ahead(struct peer *peer, const struct buffer *bytes, size_t len)
{
	char *copy = malloc(len); /* so that the address sanitizer sees its end */

	memcpy(copy, bytes->data, len);
	peer->drive.codec->find_cancellations(peer->drive.session, (struct slice){copy, len});
	drive_cancelled(&peer->drive);
	free(copy);
}

static void a_look_ahead_finds_resets_behind_other_frames(void **state)
{
	struct drive_taken taken;
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_get(&peer.sent, 1, "/metrics");
	assert_true(peer_take(&peer, &taken));
	drive_drop(&taken);
	cancelled(&peer);
	frame_get(&peer.sent, 3, "/metrics");
	frame_number(&peer.sent, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
	frame_number(&peer.sent, NGHTTP2_RST_STREAM, 7, NGHTTP2_CANCEL); /* there is no such stream */
	for (size_t len = 1; len < peer.sent.len - 13; len++)
		look_ahead(&peer, &peer.sent, len);
	assert_string_equal(cancelled(&peer), "");
	look_ahead(&peer, &peer.sent, peer.sent.len - 13);
	assert_string_equal(cancelled(&peer), "cancelled 1\n");
	look_ahead(&peer, &peer.sent, peer.sent.len);
	assert_string_equal(cancelled(&peer), "");
	peer.sent.len -= 13;
	assert_string_equal(peer_send(&peer), "HEADERS 3 200\nDATA 3 up\n end\n");
	assert_null(strstr(cancelled(&peer), "cancelled")); /* once */
	peer_close(&peer);
}

static void a_request_that_was_put_back_can_be_cancelled(void **state)
{
	struct drive_taken taken;
	struct buffer bytes = {0};
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_get(&peer.sent, 1, "/metrics");
	assert_true(peer_take(&peer, &taken));
	peer.drive.codec->repeat_request(peer.drive.session);
	buffer_add(&bytes, taken.bytes, 9 + (unsigned char)taken.bytes[2]);
	drive_drop(&taken);
	frame_number(&bytes, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
	look_ahead(&peer, &bytes, bytes.len);
	assert_string_equal(cancelled(&peer), "cancelled 1\n");
	frame_get(&bytes, 3, "/metrics");
	buffer_add(&peer.sent, bytes.data, bytes.len);
	assert_string_equal(peer_send(&peer), "HEADERS 3 200\nDATA 3 up\n end\n");
	buffer_free(&bytes);
	peer_close(&peer);
}

static void a_request_that_was_put_back_is_returned_again(void **state)
{
	struct drive_taken taken, again;
	unsigned place;
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_get(&peer.sent, 1, "/v1/acquire/l?key=1");
	frame_get(&peer.sent, 3, "/v1/acquire/l?key=3");
	assert_true(peer_take(&peer, &taken));
	place = taken.request.stream;
	/* Its bytes stay with the owner. */
	peer.drive.codec->repeat_request(peer.drive.session);
	buffer_add(&peer.sent, taken.bytes, 9 + (unsigned char)taken.bytes[2]);
	buffer_add(&peer.sent, peer.drive.pending.data, peer.drive.pending.len);
	peer.drive.pending.len = 0;
	drive_drop(&taken);
	assert_true(peer_take(&peer, &again));
	assert_int_equal(again.request.stream, place);
	assert_string_equal(peer_answer(&peer, &again, ""), "HEADERS 1 200\nDATA 1 JSON end\n");
	assert_string_equal(peer_send(&peer), "HEADERS 3 200\nDATA 3 JSON end\n");
	assert_bytes(&peer.drive.requests,
	             "acquire limit l/1 cost 1\nacquire limit l/1 cost 1\nacquire limit l/3 cost 1\n",
	             "put back");
	peer_close(&peer);
}

static void the_oldest_unfinished_request_is_known(void **state)
{
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	for (uint32_t stream = 1; stream <= 5; stream += 2)
		frame_request(&peer.sent, stream, "POST", "/v1/acquire", 0);
	peer_send(&peer);
	for (uint32_t stream = 1; stream <= 5; stream += 2) {
		assert_int_equal(peer.drive.codec->unfinished_request(peer.drive.session), stream);
		frame_body(&peer.sent, stream, 1, true);
		peer_send(&peer);
	}
	assert_int_equal(peer.drive.codec->unfinished_request(peer.drive.session), 0);
	peer_close(&peer);
}

static void the_end_names_the_last_stream(void **state)
{
	struct peer peer;

	(void)state;
	peer_open(&peer, &usual, &no_settings);
	frame_get(&peer.sent, 1, "/health");
	frame_get(&peer.sent, 3, "/health");
	peer_send(&peer);
	peer.drive.codec->append_goodbye(peer.drive.session, &peer.drive.out);
	assert_string_equal(peer_look(&peer), "GOAWAY 3 NO_ERROR\n");
	peer_close(&peer);
}

static void a_stream_that_was_passed_over_may_not_be_opened(void **state)
{
	static const uint32_t late[] = {3, 5};
	struct peer peer;

	(void)state;
	for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
		peer_open(&peer, &usual, &no_settings);
		frame_get(&peer.sent, 1, "/health");
		frame_get(&peer.sent, 7, "/health");
		frame_get(&peer.sent, 9, "/health");
		peer_send(&peer);
		frame_get(&peer.sent, late[i], "/health");
		assert_string_equal(peer_send(&peer), "GOAWAY 9 PROTOCOL_ERROR\n");
		assert_true(peer.drive.closed);
		peer_close(&peer);
	}
}

/* However late: the client may not have seen the reset when it sent this. */
static void a_trailer_of_a_stream_that_we_have_reset_is_ignored(void **state)
{
	struct buffer block = {0};
	struct peer peer;

	(void)state;
	field_add(&block, SLICE("x-trailer"), SLICE("1"));
	peer_open(&peer, &usual, &no_settings);
	frame_request(&peer.sent, 1, "POST", "/v1/acquire", 0);
	frame_body(&peer.sent, 1, usual.request_max + 1, false);
	assert_string_equal(peer_send(&peer),
	                    "HEADERS 1 413\nDATA 1 JSON end\nRST_STREAM 1 NO_ERROR\n");
	for (uint32_t stream = 3; stream < 1000; stream += 2)
		frame_get(&peer.sent, stream, "/health");
	peer_send(&peer);
	frame(&peer.sent, NGHTTP2_HEADERS, WHOLE | END, 1, (struct slice){block.data, block.len});
	frame_get(&peer.sent, 1001, "/health");
	assert_string_equal(peer_send(&peer), "HEADERS 1001 200\nDATA 1001 OK end\n");
	peer_close(&peer);
	buffer_free(&block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames_may_be_split_anywhere),
	    cmocka_unit_test(answers_go_in_any_order),
	    cmocka_unit_test(a_reset_cancels_the_request_and_leaves_its_place),
	    cmocka_unit_test(the_end_of_the_session_cancels_all_that_wait),
	    cmocka_unit_test(a_look_ahead_finds_resets_behind_other_frames),
	    cmocka_unit_test(a_request_that_was_put_back_can_be_cancelled),
	    cmocka_unit_test(a_request_that_was_put_back_is_returned_again),
	    cmocka_unit_test(the_oldest_unfinished_request_is_known),
	    cmocka_unit_test(the_end_names_the_last_stream),
	    cmocka_unit_test(a_stream_that_was_passed_over_may_not_be_opened),
	    cmocka_unit_test(a_trailer_of_a_stream_that_we_have_reset_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
