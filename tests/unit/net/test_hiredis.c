/* Runs hiredis in our loop, against a server whose echo of a command is a reply: an array. */
#include "lines.h"

#include <hiredis/async.h>

enum { COMMANDS = 1000 };

struct client {
	struct fixture *f;
	redisAsyncContext *redis; /* NULL once hiredis has freed it */
	struct net_descriptor *watch;
	unsigned events;
	size_t replies;
	bool disconnected;
};

static void on_ready(void *context, unsigned events)
{
	struct client *c = context;

	if (events & NET_READABLE)
		redisAsyncHandleRead(c->redis);
	if (c->redis && (events & NET_WRITABLE))
		redisAsyncHandleWrite(c->redis);
}

static void watch(struct client *c, unsigned events)
{
	c->events = events;
	net_descriptor_set_events(c->watch, events);
}

static void add_read(void *c)
{
	watch(c, ((struct client *)c)->events | NET_READABLE);
}

static void del_read(void *c)
{
	watch(c, ((struct client *)c)->events & ~NET_READABLE);
}

static void add_write(void *c)
{
	watch(c, ((struct client *)c)->events | NET_WRITABLE);
}

static void del_write(void *c)
{
	watch(c, ((struct client *)c)->events & ~NET_WRITABLE);
}

static void cleanup(void *context)
{
	struct client *c = context;

	net_descriptor_close(c->watch);
	c->redis = NULL;
}

static void on_disconnect(const redisAsyncContext *redis, int status)
{
	struct client *c = redis->data;

	assert_int_equal(status, REDIS_OK);
	c->disconnected = true;
	net_loop_stop(c->f->loop);
}

static void on_reply(redisAsyncContext *redis, void *reply, void *number)
{
	struct client *c = redis->data;
	redisReply *array = reply;

	assert_non_null(array);
	assert_int_equal(array->elements, 2);
	assert_int_equal(strtol(array->element[1]->str, NULL, 10), (long)(intptr_t)number);
	assert_int_equal(c->replies++, (intptr_t)number);
	if (c->replies == COMMANDS)
		redisAsyncDisconnect(redis);
}

static void hiredis_runs_in_our_loop(void **state)
{
	struct fixture *f = prepare(&NET_OPTIONS_DEFAULT, 1, 0);
	struct client c = {.f = f};

	(void)state;
	c.redis = redisAsyncConnect("127.0.0.1", ntohs(f->address.v4.sin_port));
	assert_int_equal(c.redis->err, 0);
	assert_int_equal(net_descriptor_open(&c.watch, f->loop, c.redis->c.fd, on_ready, &c), WEIR_OK);
	c.redis->data = c.redis->ev.data = &c;
	c.redis->ev.addRead = add_read;
	c.redis->ev.delRead = del_read;
	c.redis->ev.addWrite = add_write;
	c.redis->ev.delWrite = del_write;
	c.redis->ev.cleanup = cleanup;
	redisAsyncSetDisconnectCallback(c.redis, on_disconnect);
	for (intptr_t i = 0; i < COMMANDS; i++)
		assert_int_equal(redisAsyncCommand(c.redis, on_reply, (void *)i, "ECHO %d", (int)i),
		                 REDIS_OK);
	net_loop_run(f->loop);
	assert_int_equal(c.replies, COMMANDS);
	assert_true(c.disconnected);
	close_fixture(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hiredis_runs_in_our_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
