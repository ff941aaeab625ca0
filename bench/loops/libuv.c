/*
 * libuv: the bare server on libuv, in two ways: by its streams, or by its
 * polling of sockets that the program reads and writes itself.
 *
 *     libuv stream|poll resp|http
 */
#include <uv.h>

#include "fixed.h"

static struct fixed fixed;

static void on_closed(uv_handle_t *handle)
{
	free(handle);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	(void)handle, (void)suggested;
	*buf = uv_buf_init(fixed.in, sizeof fixed.in);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
	size_t len = got > 0 ? fixed_answer(&fixed, (size_t)got) : 0;
	uv_buf_t out = uv_buf_init(fixed.out, (unsigned)len);

	(void)buf;
	if (got < 0 || (len > 0 && uv_try_write(stream, &out, 1) != (int)len))
		uv_close((uv_handle_t *)stream, on_closed);
}

static void open_stream(uv_loop_t *loop, int fd)
{
	uv_tcp_t *tcp = malloc(sizeof *tcp);

	fixed_check(tcp && uv_tcp_init(loop, tcp) == 0 && uv_tcp_open(tcp, fd) == 0 &&
	                uv_read_start((uv_stream_t *)tcp, on_alloc, on_read) == 0,
	            "accept");
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	int fd;

	(void)status, (void)events;
	uv_fileno((uv_handle_t *)poll, &fd);
	if (fixed_serve(&fixed, fd))
		return;
	uv_close((uv_handle_t *)poll, on_closed);
	close(fd);
}

static void open_poll(uv_loop_t *loop, int fd)
{
	uv_poll_t *poll = malloc(sizeof *poll);

	fixed_check(poll && uv_poll_init(loop, poll, fd) == 0 &&
	                uv_poll_start(poll, UV_READABLE, on_readable) == 0,
	            "accept");
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	void (*open)(uv_loop_t *, int) = poll->data;

	(void)status, (void)events;
	open(poll->loop, accept4(fixed.listener, NULL, NULL, SOCK_NONBLOCK));
}

int main(int argc, char **argv)
{
	int streams = argc > 1 && strcmp(argv[1], "stream") == 0;
	uv_loop_t *loop = uv_default_loop();
	uv_poll_t listen = {.data = streams ? open_stream : open_poll};

	fixed_open(&fixed, argc - 1, argv + 1);
	fixed_check(uv_poll_init(loop, &listen, fixed.listener) == 0 &&
	                uv_poll_start(&listen, UV_READABLE, on_acceptable) == 0,
	            "watch");
	return uv_run(loop, UV_RUN_DEFAULT);
}
