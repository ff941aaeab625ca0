/*
 * http2: an HTTP/2 server that does the least possible with nghttp2, to compare ours with: it sends
 * a fixed answer to every request. One thread, level-triggered epoll, one read and one write for
 * each ready connection. Ends on SIGTERM.
 */
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>

#include "fixed.h"

#define EVENTS 64
#define FIELD(name, value, flags)                                                                  \
	{                                                                                              \
		(uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1,                      \
		    NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE | (flags)                 \
	}

static struct fixed fixed;

struct conn {
	int fd;
	nghttp2_session *session;
};

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t len,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
	(void)session, (void)id, (void)source, (void)context;
	fixed_check(len >= sizeof FIXED_JSON - 1, "window");
	memcpy(to, FIXED_JSON, sizeof FIXED_JSON - 1);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	return sizeof FIXED_JSON - 1;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	static const nghttp2_nv fields[] = {
	    FIELD(":status", "200", 0),
	    FIELD("content-type", "application/json", 0),
	    FIELD("content-length", FIXED_JSON_LEN, 0),
	    FIELD("ratelimit-policy", "\"bench\";q=1000000;w=1", 0),
	    /* As a server sends what is another in most answers. */
	    FIELD("ratelimit", "\"bench\";r=999999;t=1", NGHTTP2_NV_FLAG_NO_INDEX),
	};
	const nghttp2_data_provider body = {.read_callback = read_body};

	(void)context;
	if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	return nghttp2_submit_response(session, frame->hd.stream_id, fields,
	                               sizeof fields / sizeof *fields, &body);
}

static struct conn *open_conn(int fd)
{
	const nghttp2_settings_entry most = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100};
	nghttp2_session_callbacks *callbacks;
	struct conn *conn = malloc(sizeof *conn);

	fixed_check(fd >= 0 && conn && nghttp2_session_callbacks_new(&callbacks) == 0, "accept");
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	conn->fd = fd;
	fixed_check(nghttp2_session_server_new(&conn->session, callbacks, NULL) == 0 &&
	                nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, &most, 1) == 0,
	            "session");
	nghttp2_session_callbacks_del(callbacks);
	return conn;
}

/* One read, one write. False when the connection has ended. */
static int serve(struct conn *conn)
{
	ssize_t got = read(conn->fd, fixed.in, sizeof fixed.in), n;
	const uint8_t *data;
	size_t len = 0;

	if (got <= 0 ||
	    nghttp2_session_mem_recv(conn->session, (const uint8_t *)fixed.in, (size_t)got) < 0)
		return 0;
	while ((n = nghttp2_session_mem_send(conn->session, &data)) > 0) {
		fixed_check(len + (size_t)n <= sizeof fixed.out, "answers");
		memcpy(fixed.out + len, data, (size_t)n);
		len += (size_t)n;
	}
	return n == 0 && (len == 0 || write(conn->fd, fixed.out, len) == (ssize_t)len);
}

static void watch(int epoll, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	fixed_check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "watch");
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int epoll = epoll_create1(0);

	fixed_open(&fixed, argc, argv);
	watch(epoll, fixed.listener, NULL);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct conn *conn = events[i].data.ptr;

			if (!conn) {
				conn = open_conn(accept4(fixed.listener, NULL, NULL, SOCK_NONBLOCK));
				watch(epoll, conn->fd, conn);
			} else if (!serve(conn)) {
				close(conn->fd);
				nghttp2_session_del(conn->session);
				free(conn);
			}
		}
	}
}
