/*
 * loop.c: runs an event loop of libuv for its owner, the server or client above it. It opens and
 * iterates the loop, wakes it from other threads, and when it is stopped lets it answer the
 * requests that have arrived before it ends.
 */
#include "net/internal.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/number.h"

/* Closes everything that keeps libuv's loop running, so that net_loop_run returns. */
static void end_loop(struct net_loop *loop)
{
	loop->phase = LOOP_ENDED;
	accept_close_listeners(loop);
	LIST_EACH (&loop->conns, struct net_conn, conns_node, conn)
		conn_kill(conn);
	uv_close((uv_handle_t *)&loop->check, NULL);
	uv_close((uv_handle_t *)&loop->poll_again, NULL);
	uv_close((uv_handle_t *)&loop->tick, NULL);
	uv_close((uv_handle_t *)&loop->wake, NULL);
	uv_close((uv_handle_t *)&loop->alarm, NULL);
}

void net_loop_delay_end(struct net_loop *loop, bool delay)
{
	loop->end_delayed = delay;
}

/*
 * Closes a client's connection if nothing on it is left to answer or to write. Returns false if it
 * stays open, perhaps only until its last output is written.
 */
static bool close_if_answered(struct net_conn *conn)
{
	if (!conn_is_idle(conn) || conn_append_last_output(conn))
		return false;
	conn_kill(conn);
	return true;
}

/*
 * Closes the connections that have nothing left to answer. Returns whether the loop may end: all
 * is answered and written, or the timeout of stopping is over.
 */
static bool drain_connections(struct net_loop *loop)
{
	bool drained = !loop->end_delayed;

	LIST_EACH (&loop->conns, struct net_conn, conns_node, conn) {
		if (conn->is_dialled) /* stays open: clients' answers may need it */
			drained &= !conn_has_unsent(conn);
		else
			drained &= close_if_answered(conn);
	}
	return drained || uv_now(&loop->uv) >= loop->stop_at_ms;
}

/* Runs before a poll that does not block; on_polled follows. */
static void on_poll_again(uv_idle_t *idle)
{
	deliver_backlogs(idle->data);
}

/*
 * Ends each iteration, after a poll: the sockets that were ready have been read, so the owner
 * answers the batch. Then a loop that is stopped takes its next step towards the end.
 */
static void on_polled(uv_check_t *check)
{
	struct net_loop *loop = check->data;

	loop_process(loop);
	fairness_begin(loop); /* the next iteration: its shares of each connection are unused */
	if (loop->retry_accept)
		accept_resume(loop);
	/* All input is read, and the owner has nothing more to do: the next poll may wait. */
	if (!loop->backlogs.first && !loop->wants_run_again)
		uv_idle_stop(&loop->poll_again);
	switch (loop->phase) {
	case LOOP_RUNNING:
	case LOOP_ENDED:
		break;
	case LOOP_STOPPING: /* one more poll reads what has arrived by now */
		loop->phase = LOOP_DRAINING;
		net_loop_wake(loop);
		break;
	case LOOP_DRAINING:
		if (drain_connections(loop))
			end_loop(loop);
		break;
	}
}

/* Another thread has called net_loop_wake or net_loop_stop. */
static void on_wake(uv_poll_t *wake, int status, int events)
{
	struct net_loop *loop = wake->data;
	eventfd_t wakes;

	(void)status, (void)events;
	eventfd_read(loop->wake_fd, &wakes);
	if (loop->phase == LOOP_RUNNING &&
	    atomic_load_explicit(&loop->stop_requested, memory_order_acquire)) {
		loop->phase = LOOP_STOPPING;
		loop->stop_at_ms = uv_now(&loop->uv) + loop->options.stop_timeout_ms;
		accept_close_listeners(loop);
	}
}

/* Only clears the alarm: the owner's `process` follows each poll anyway. */
static void on_alarm(uv_poll_t *alarm, int status, int events)
{
	struct net_loop *loop = alarm->data;
	uint64_t expirations;

	(void)status, (void)events;
	if (read(loop->alarm_fd, &expirations, sizeof expirations) == sizeof expirations)
		loop->alarm_ns = 0;
}

static void on_tick(uv_timer_t *tick)
{
	struct net_loop *loop = tick->data;
	uint64_t now = uv_now(&loop->uv);

	LIST_EACH (&loop->conns, struct net_conn, conns_node, conn)
		conn_check_timeout(conn, now);
	conn_limit_report_capacity(loop);
	accept_resume(loop);
}

/* Returns false if `fd` can not be polled, or was not opened (-1). */
static bool poll_readable(struct net_loop *loop, uv_poll_t *poll, int fd, uv_poll_cb callback)
{
	poll->data = loop;
	return fd >= 0 && uv_poll_init(&loop->uv, poll, fd) == 0 &&
	       uv_poll_start(poll, UV_READABLE, callback) == 0;
}

static void close_handle(uv_handle_t *handle, void *context)
{
	(void)context;
	uv_close(handle, NULL);
}

/* All handles of libuv must be closed already. */
static void free_loop(struct net_loop *loop)
{
	uv_loop_close(&loop->uv);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	if (loop->alarm_fd >= 0)
		close(loop->alarm_fd);
	free(loop);
}

/* Returns 0, or an error code of weir.h. */
int net_loop_open(struct net_loop **out, const struct net_options *options,
                  const struct net_owner *owner, void *context, struct net_conn_limit *limit)
{
	struct net_loop *loop = calloc(1, sizeof *loop);

	*out = NULL;
	if (!loop || uv_loop_init(&loop->uv)) {
		free(loop);
		return WEIR_ENOMEM;
	}
	loop->options = *options;
	loop->owner = owner;
	loop->context = context;
	loop->conn_limit = limit;
	loop->is_accepting = true;
	loop->on_poll_again = on_poll_again;
	loop->iteration = 1; /* new connections have 0, not read in any iteration */
	loop->check.data = loop->tick.data = loop->poll_again.data = loop;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!poll_readable(loop, &loop->wake, loop->wake_fd, on_wake) ||
	    !poll_readable(loop, &loop->alarm, loop->alarm_fd, on_alarm)) {
		/* libuv frees handles only while its loop runs. */
		uv_walk(&loop->uv, close_handle, NULL);
		uv_run(&loop->uv, UV_RUN_DEFAULT);
		free_loop(loop);
		return WEIR_EIO;
	}
	uv_check_init(&loop->uv, &loop->check);
	uv_check_start(&loop->check, on_polled);
	uv_idle_init(&loop->uv, &loop->poll_again);
	uv_timer_init(&loop->uv, &loop->tick);
	uv_timer_start(&loop->tick, on_tick, options->tick_ms, options->tick_ms);
	*out = loop;
	return WEIR_OK;
}

/* Runs until net_loop_stop, and until the requests that have arrived by then are answered. */
void net_loop_run(struct net_loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void net_loop_close(struct net_loop *loop)
{
	if (!loop)
		return;
	if (loop->phase != LOOP_ENDED)
		end_loop(loop);
	uv_run(&loop->uv, UV_RUN_DEFAULT); /* completes the closing of descriptors and connections */
	while (loop->listeners) {
		struct listen_handle *handle = loop->listeners;

		loop->listeners = handle->next;
		free(handle);
	}
	buffer_free(&loop->out);
	buffer_free(&loop->filter_output);
	free_loop(loop);
}

/*
 * Does not use uv_async_send(), whose receiver spins until the sender has returned from the write
 * that woke it. If the sender is descheduled there, for example because the woken thread gets its
 * processor, the loop and all its connections stall until the sender runs again.
 */
void net_loop_wake(struct net_loop *loop)
{
	eventfd_write(loop->wake_fd, 1);
}

/*
 * Has `process` called at `at_ns` of the monotonic clock; 0 cancels that. Does not use
 * uv_timer_start(), whose clock is that of the last iteration, in milliseconds.
 */
void net_loop_alarm(struct net_loop *loop, uint64_t at_ns)
{
	struct itimerspec at = {
	    .it_value = {(time_t)(at_ns / NS_PER_S), (long)(at_ns % NS_PER_S)},
	};

	if (at_ns == loop->alarm_ns)
		return;
	loop->alarm_ns = at_ns;
	timerfd_settime(loop->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void net_loop_stop(struct net_loop *loop)
{
	atomic_store_explicit(&loop->stop_requested, true, memory_order_release);
	net_loop_wake(loop);
}
