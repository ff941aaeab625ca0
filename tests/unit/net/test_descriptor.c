/* Polls descriptors that belong to a library. */
#include <fcntl.h>
#include <sys/eventfd.h>

#include "lines.h"

/* A library that reads a byte and writes one. */
struct library {
	struct fixture *f;
	struct net_descriptor *watch;
	int fd;
	char said[8]; /* what it was told, a letter each */
	size_t told;
};

static void library_ready(void *context, unsigned events)
{
	struct library *l = context;
	char byte;

	assert_true(l->told < sizeof l->said - 1);
	l->said[l->told++] = events == NET_READABLE ? 'r' : 'w';
	switch (l->told) {
	case 1: /* the second byte is left alone */
		assert_int_equal(read(l->fd, &byte, 1), 1);
		net_descriptor_set_events(l->watch, NET_WRITABLE);
		break;
	case 2:
		assert_int_equal(write(l->fd, "x", 1), 1);
		net_descriptor_set_events(l->watch, 0);
		break;
	}
}

static void a_descriptor_reports_the_requested_events_and_is_not_closed(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct library l = {.f = f};
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	l.fd = pair[0];
	say(pair[1], "ab");
	assert_int_equal(net_descriptor_open(&l.watch, f->loop, l.fd, library_ready, &l), WEIR_OK);
	net_descriptor_set_events(l.watch, NET_READABLE);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	expect(pair[1], "x");
	stop(f);
	net_descriptor_close(l.watch);
	close_fixture(f);
	assert_string_equal(l.said, "rw");
	say(l.fd, "z"); /* it is still open */
	expect(pair[1], "z");
	fcntl(l.fd, F_SETFL, 0);
	expect(l.fd, "b");
	close(pair[0]);
	close(pair[1]);
}

static void stop_at_error(void *context, unsigned events)
{
	struct library *l = context;

	assert_int_equal(events, NET_READABLE | NET_WRITABLE);
	net_descriptor_set_events(l->watch, 0);
	l->told++;
	net_loop_stop(l->f->loop);
}

static void an_error_is_reported_as_all_requested_events(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct library l = {.f = f};
	struct net_address nobody = {0};
	int reserved, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	(void)state;
	assert_int_equal(net_address_parse(SLICE("127.0.0.1:0"), &nobody, NULL), WEIR_OK);
	reserved = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(reserved, &nobody.any, net_address_size(&nobody)), 0);
	assert_int_equal(getsockname(reserved, &nobody.any, &(socklen_t){sizeof nobody}), 0);
	assert_int_equal(net_descriptor_open(&l.watch, f->loop, fd, stop_at_error, &l), WEIR_OK);
	connect(fd, &nobody.any, net_address_size(&nobody)); /* refused: it listens to nobody */
	net_descriptor_set_events(l.watch, NET_READABLE | NET_WRITABLE);
	net_loop_run(f->loop);
	assert_int_equal(l.told, 1);
	net_descriptor_close(l.watch); /* after the loop has ended */
	close(fd);
	close(reserved);
	close_fixture(f);
}

static void a_descriptor_that_cannot_be_watched_is_refused(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct net_descriptor *watch;
	FILE *file = tmpfile();

	(void)state;
	assert_int_equal(net_descriptor_open(&watch, f->loop, fileno(file), library_ready, NULL),
	                 WEIR_EIO);
	assert_null(watch);
	fclose(file);
	close_fixture(f);
}

/* A connection that asked for nothing gets output each time that the descriptor is ready. */
struct news {
	struct net_descriptor *watch;
	int fd;
	struct net_conn *conn;
	size_t size, times;
};

static struct news news;

static void tell(void *context, unsigned events)
{
	struct buffer *out;
	eventfd_t times;
	char *to;

	(void)context, (void)events;
	eventfd_read(news.fd, &times);
	if (news.times > 0)
		eventfd_write(news.fd, 1);
	if (news.times == 0 || net_conn_output_space(news.conn) < news.size)
		return;
	out = net_conn_output(news.conn);
	to = buffer_reserve(out, news.size);
	memset(to, 'n', news.size);
	out->len += news.size;
	news.times--;
}

static size_t subscribe(void *context, struct net_conn *conn, struct slice bytes)
{
	(void)context;
	news.conn = conn;
	news.times = 10;
	tell(NULL, 0);
	return bytes.len;
}

/* The loop's own timer is far away: nothing else makes it take a turn. */
static void output_that_answers_no_request_is_written_at_once_and_never_runs_out(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct net_kind kind = {line_open, subscribe, line_close, .conn_size = 1};
	struct net_listener listener = {.kind = kind};
	struct net_address address;
	struct fixture *f;
	int fd;

	(void)state;
	options.tick_ms = 3600 * 1000;
	f = prepare(&options, 1, 0);
	assert_int_equal(net_address_parse(SLICE("127.0.0.1:0"), &address, NULL), WEIR_OK);
	assert_int_equal(net_address_listen(&address, &listener.socket, 1, NULL), WEIR_OK);
	assert_int_equal(net_loop_listen(f->loop, &listener), WEIR_OK);
	f->address = address;
	news.fd = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(net_descriptor_open(&news.watch, f->loop, news.fd, tell, NULL), WEIR_OK);
	net_descriptor_set_events(news.watch, NET_READABLE);
	news.size = NET_OUT_MAX / 4; /* in all more than may wait */
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	fd = dial(f);
	say(fd, "x");
	assert_int_equal(swallow(fd, 10 * news.size), 10 * news.size);
	close(fd);
	stop(f);
	net_descriptor_close(news.watch);
	close_fixture(f);
	close(news.fd);
}

/* The connection that is told, and the one that leaves. */
static struct net_conn *stays;

static size_t stay(void *context, struct net_conn *conn, struct slice bytes)
{
	(void)context;
	if (begins(bytes, "stay"))
		stays = conn;
	buffer_add_text(net_conn_output(conn), "ok\n");
	return bytes.len;
}

static void tell_that_stays(void *context, struct net_conn *conn)
{
	if (conn == stays)
		stays = NULL;
	if (stays)
		buffer_add_text(net_conn_output(stays), "it left\n");
	line_close(context, conn);
}

static struct fixture *prepare_telling(int *fds, size_t n)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct net_kind kind = {line_open, stay, tell_that_stays, .conn_size = 1};
	struct net_listener listener = {.kind = kind};
	struct fixture *f;

	options.tick_ms = 3600 * 1000;
	f = prepare(&options, n, 0);
	f->address.v4.sin_port = 0;
	assert_int_equal(net_address_listen(&f->address, &listener.socket, 1, NULL), WEIR_OK);
	assert_int_equal(net_loop_listen(f->loop, &listener), WEIR_OK);
	for (size_t i = 0; i < n; i++) {
		fds[i] = dial(f);
		say(fds[i], i == 1 ? "stay" : "leave");
	}
	return f;
}

static void a_connection_learns_that_another_has_ended(void **state)
{
	int fds[2];
	struct fixture *f = prepare_telling(fds, 2);

	(void)state;
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	expect(fds[0], "ok\n");
	expect(fds[1], "ok\n");
	close(fds[0]);
	expect(fds[1], "it left\n");
	close(fds[1]);
	finish(f);
}

/* All leave in one turn, two before and behind the one that is told, in whatever order. */
static void output_to_an_ended_connection_is_ignored(void **state)
{
	int fds[3], other;
	struct fixture *f = prepare_telling(fds, 3);

	(void)state;
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	other = dial(f);
	say(other, "x");
	expect(other, "ok\n");
	close(other);
	finish(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_descriptor_reports_the_requested_events_and_is_not_closed),
	    cmocka_unit_test(an_error_is_reported_as_all_requested_events),
	    cmocka_unit_test(a_descriptor_that_cannot_be_watched_is_refused),
	    cmocka_unit_test(output_that_answers_no_request_is_written_at_once_and_never_runs_out),
	    cmocka_unit_test(a_connection_learns_that_another_has_ended),
	    cmocka_unit_test(output_to_an_ended_connection_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
