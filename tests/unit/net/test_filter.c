/* Passes bytes through a filter that frames them, with a handshake, partial records and errors. */
#include "lines.h"

/*
 * A filter as TLS is one, but simple. Both sides greet with "hi!". Then come frames: a
 * byte with the length, and so many bytes, changed by XOR. LEN_END ends what a side sends;
 * a frame without bytes is an error, which is answered by "no!".
 */
#define LEN_MAX 200
#define LEN_END 255
#define MASK    0x55

struct framing {
	struct net_filter filter; /* first */
	_Atomic int closed;
	size_t grows; /* each byte of a frame becomes so many for the owner; 0 means one */
};

struct frame {
	size_t greeted; /* bytes of "hi!" */
	size_t len;     /* with the length itself; 0 if none has begun */
	unsigned char bytes[1 + LEN_MAX];
	void *memory;
};

static int end_frame(const struct framing *framing, struct frame *frame, struct buffer *in)
{
	for (size_t i = 1; i < frame->len; i++)
		for (size_t n = 0; n < 1 + framing->grows; n++)
			buffer_add(in, &(char){(char)(frame->bytes[i] ^ MASK)}, 1);
	frame->len = 0;
	return NET_FILTER_READY;
}

static int read_frames(const struct net_filter *filter, void *state, struct slice bytes,
                       struct buffer *in, struct buffer *wire)
{
	struct frame *frame = state;

	if (bytes.len == 0) {
		assert_null(frame->memory); /* it begins once */
		frame->memory = malloc(1);
		buffer_add_text(wire, "hi!");
	}
	for (size_t i = 0; i < bytes.len; i++) {
		unsigned char byte = (unsigned char)bytes.data[i];

		if (frame->greeted < 3) {
			if (byte != "hi!"[frame->greeted++])
				return -1;
			continue;
		}
		if (frame->len == 0 && byte == LEN_END)
			return NET_FILTER_END;
		if (frame->len == 0 && (byte == 0 || byte > LEN_MAX)) {
			buffer_add_text(wire, "no!");
			return -1;
		}
		frame->bytes[frame->len++] = byte;
		if (frame->len == 1u + frame->bytes[0])
			end_frame((const struct framing *)filter, frame, in);
	}
	return frame->greeted < 3 ? NET_FILTER_HANDSHAKE
	       : frame->len > 0   ? NET_FILTER_PARTIAL
	                          : NET_FILTER_READY;
}

static void write_frames(const struct net_filter *filter, void *state, struct slice bytes,
                         struct buffer *wire)
{
	(void)filter;
	assert_int_equal(((struct frame *)state)->greeted, 3);
	if (bytes.len == 0)
		buffer_add(wire, &(unsigned char){LEN_END}, 1);
	for (size_t i = 0; i < bytes.len; i++) {
		if (i % LEN_MAX == 0)
			buffer_add(wire, &(unsigned char){(unsigned char)u64_min(LEN_MAX, bytes.len - i)}, 1);
		buffer_add(wire, &(char){(char)(bytes.data[i] ^ MASK)}, 1);
	}
}

static void close_frames(const struct net_filter *filter, void *state)
{
	free(((struct frame *)state)->memory);
	((struct framing *)filter)->closed++;
}

#define FRAMING ((struct framing){{sizeof(struct frame), read_frames, write_frames, close_frames}})

/* A listener of lines behind the filter, beside that without one. */
static struct fixture *filtered(const struct net_options *options, struct framing *framing)
{
	struct fixture *f = prepare(options, 10, 0);
	struct net_listener listener = {
	    .kind = {line_open, line_data, line_close, .conn_size = 1, .filter = &framing->filter},
	};

	f->address.v4.sin_port = 0;
	assert_int_equal(net_address_listen(&f->address, &listener.socket, 1, NULL), WEIR_OK);
	assert_int_equal(net_loop_listen(f->loop, &listener), WEIR_OK);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	return f;
}

static void say_frame(int fd, const char *text)
{
	struct frame frame = {.greeted = 3};
	struct buffer wire = {0};

	write_frames(NULL, &frame, slice_of(text), &wire);
	assert_int_equal(send(fd, wire.data, wire.len, MSG_NOSIGNAL), (ssize_t)wire.len);
	buffer_free(&wire);
}

static void expect_frame(int fd, const char *text)
{
	char got[1 + LEN_MAX];
	size_t len = strlen(text);

	assert_int_equal(recv(fd, got, 1 + len, MSG_WAITALL), (ssize_t)(1 + len));
	assert_int_equal(got[0], (char)len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(got[1 + i] ^ MASK, text[i]);
}

static int greet(const struct fixture *f)
{
	int fd = dial(f);

	expect(fd, "hi!"); /* it does not wait for us */
	say(fd, "hi!");
	return fd;
}

static void frames_in_pieces_are_answered_when_they_are_whole(void **state)
{
	struct framing framing = FRAMING;
	struct fixture *f = filtered(&NET_OPTIONS_DEFAULT, &framing);
	int fd = dial(f);
	static const char one[] = {4, 'o' ^ MASK, 'n' ^ MASK, 'e' ^ MASK, '\n' ^ MASK};

	(void)state;
	expect(fd, "hi!");
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(fd, &"hi!"[i], 1, 0), 1);
	for (size_t i = 0; i < sizeof one; i++)
		assert_int_equal(send(fd, &one[i], 1, 0), 1);
	expect_frame(fd, "one\n");
	say_frame(fd, "two\nthr");
	say_frame(fd, "ee\n");
	expect_frame(fd, "two\n");
	expect_frame(fd, "three\n");
	say_frame(fd, "hold 1\n");
	say_frame(fd, "last\n");
	expect_frame(fd, "hold 1\n");
	expect_frame(fd, "last\n");
	close(fd);
	finish(f);
	assert_int_equal(framing.closed, 1);
}

static void each_side_may_end_its_output_first(void **state)
{
	struct framing framing = FRAMING;
	struct fixture *f = filtered(&NET_OPTIONS_DEFAULT, &framing);
	int theirs = greet(f), ours = greet(f);

	(void)state;
	say_frame(theirs, "one\n");
	say(theirs, "\xff"); /* LEN_END; the connection stays open */
	expect_frame(theirs, "one\n");
	expect(theirs, "\xff");
	expect_end(theirs);
	say_frame(ours, "quit\n");
	expect_frame(ours, "quit\n");
	expect(ours, "\xff");
	expect_end(ours);
	finish(f);
	assert_int_equal(framing.closed, 2);
}

static void a_handshake_a_frame_and_the_end_may_arrive_at_once(void **state)
{
	static const char all[] = {'h',        'i',         '!',          4, 'o' ^ MASK, 'n' ^ MASK,
	                           'e' ^ MASK, '\n' ^ MASK, (char)LEN_END};
	struct framing framing = FRAMING;
	struct fixture *f = filtered(&NET_OPTIONS_DEFAULT, &framing);
	int fd = dial(f);

	(void)state;
	expect(fd, "hi!");
	assert_int_equal(send(fd, all, sizeof all, 0), (ssize_t)sizeof all);
	expect_frame(fd, "one\n");
	expect(fd, "\xff");
	expect_end(fd);
	finish(f);
	assert_int_equal(framing.closed, 1);
}

static void an_error_of_the_filter_is_sent_and_ends_its_connection_only(void **state)
{
	static const char nothing = 0;
	struct framing framing = FRAMING;
	struct fixture *f = filtered(&NET_OPTIONS_DEFAULT, &framing);
	int bad = greet(f), rude = dial(f), good = greet(f);

	(void)state;
	say_frame(bad, "one\n");
	expect_frame(bad, "one\n");
	assert_int_equal(send(bad, &nothing, 1, 0), 1);
	expect(bad, "no!");
	expect_end(bad);
	say(rude, "hello\n");
	expect(rude, "hi!");
	expect_end(rude);
	say_frame(good, "good\n");
	expect_frame(good, "good\n");
	close(good);
	finish(f);
	assert_int_equal(framing.closed, 3);
}

static void a_greeting_or_a_frame_that_does_not_end_times_out(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct framing framing = FRAMING;
	struct fixture *f;
	int silent, half, part;

	(void)state;
	options.request_timeout_ms = 1;
	options.tick_ms = 10;
	f = filtered(&options, &framing);
	silent = dial(f);
	expect(silent, "hi!");
	expect_end(silent);
	half = dial(f);
	say(half, "h");
	expect(half, "hi!");
	expect_end(half);
	part = greet(f);
	say(part, "\x05only");
	expect_end(part);
	finish(f);
	assert_int_equal(framing.closed, 3);
}

static void a_filter_may_not_pass_the_bound_of_input(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct framing framing = FRAMING;
	char line[LEN_MAX + 1] = {0};
	struct fixture *f;
	int fd;

	(void)state;
	options.input_max = 1 << 14;
	framing.grows = 1000;
	f = filtered(&options, &framing);
	memset(line, 'x', LEN_MAX);
	fd = greet(f);
	say_frame(fd, line);
	assert_int_equal(swallow(fd, 1), 0); /* reset, or ended */
	close(fd);
	finish(f);
	assert_int_equal(framing.closed, 1);
}

/* Ours, to the listener of lines: all passes two filters. */
struct caller {
	struct buffer said, got;
	size_t sent;
};

static struct caller *caller;

static void call(struct net_conn *conn)
{
	size_t len = u64_min(net_conn_output_space(conn), caller->said.len - caller->sent);

	buffer_add(net_conn_output(conn), caller->said.data + caller->sent, len);
	caller->sent += len;
}

static void caller_open(void *context, struct net_conn *conn)
{
	(void)context;
	assert_int_equal(net_conn_output_space(conn), 0); /* all that may wait for the greeting does */
}

static size_t caller_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct fixture *f = context;

	buffer_add_slice(&caller->got, bytes);
	call(conn);
	if (caller->got.len == caller->said.len) {
		net_conn_finish(conn);
		net_loop_stop(f->loop);
	}
	return bytes.len;
}

static void caller_close(void *context, struct net_conn *conn)
{
	(void)context;
	assert_null(net_conn_error(conn));
}

static void both_ends_in_one_loop_pass_more_than_may_wait(void **state)
{
	enum { LINES = 200000 };
	struct framing framing = FRAMING, other = FRAMING;
	struct caller c = {0};
	struct net_kind kind = {caller_open, caller_data, caller_close, .filter = &other.filter};
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 10, 0);
	struct net_listener listener = {
	    .kind = {line_open, line_data, line_close, .conn_size = 1, .filter = &framing.filter},
	};

	(void)state;
	caller = &c;
	for (int i = 0; i < LINES; i++)
		buffer_printf(&c.said, "%07d\n", i);
	f->address.v4.sin_port = 0;
	assert_int_equal(net_address_listen(&f->address, &listener.socket, 1, NULL), WEIR_OK);
	assert_int_equal(net_loop_listen(f->loop, &listener), WEIR_OK);
	call(net_loop_dial(f->loop, &kind, &f->address, 20000));
	net_loop_run(f->loop);
	assert_int_equal(c.got.len, c.said.len);
	assert_memory_equal(c.got.data, c.said.data, c.said.len);
	close_fixture(f);
	assert_int_equal(framing.closed, 1);
	assert_int_equal(other.closed, 1);
	buffer_free(&c.said);
	buffer_free(&c.got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames_in_pieces_are_answered_when_they_are_whole),
	    cmocka_unit_test(each_side_may_end_its_output_first),
	    cmocka_unit_test(a_handshake_a_frame_and_the_end_may_arrive_at_once),
	    cmocka_unit_test(an_error_of_the_filter_is_sent_and_ends_its_connection_only),
	    cmocka_unit_test(a_greeting_or_a_frame_that_does_not_end_times_out),
	    cmocka_unit_test(a_filter_may_not_pass_the_bound_of_input),
	    cmocka_unit_test(both_ends_in_one_loop_pass_more_than_may_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
