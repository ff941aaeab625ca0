/* fake_nodes.h: a client whose transport is the test, which decides the reply of each node. */
#ifndef TEST_REDIS_FAKE_NODES_H
#define TEST_REDIS_FAKE_NODES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/number.h"
#include "base/os/os.h"
#include "redis/network/connection.h"
#include "redis/network/redis_address.h"
#include "redis/redis.h"

#define LINES_MAX 16

struct line {
	struct redis_attempt *attempt; /* NULL after it was closed */
	unsigned port;
};

/* A name being looked up; NULL after the lookup was stopped. */
struct look_up {
	struct redis_dialer *dialer;
	unsigned port;
};

struct fake {
	struct redis_transport transport; /* first */
	struct line lines[LINES_MAX];
	size_t count; /* that were dialled */
	struct look_up look_ups[LINES_MAX];
	size_t look_up_count;
	struct store *store;
	struct store_client *client;
	struct algo_limit limit;
	size_t away, back; /* the number of reports */
	char why[200];     /* the last time */
};

struct one {
	struct store_operation operation; /* first */
	char key[16];
	bool is_done;
};

static inline void *look_up(struct redis_transport *transport, struct redis_dialer *dialer,
                            const struct redis_host *host)
{
	struct fake *p = (struct fake *)transport;
	struct look_up *new = &p->look_ups[p->look_up_count++];

	assert_true(p->look_up_count <= LINES_MAX);
	*new = (struct look_up){dialer, host->port};
	return new;
}

static inline void stop_look_up(struct redis_transport *transport, void *look_up)
{
	(void)transport;
	((struct look_up *)look_up)->dialer = NULL;
}

static inline struct redis_address address_of(unsigned port)
{
	return (struct redis_address){.len = sizeof(struct sockaddr_in),
	                              .v4 = {.sin_family = AF_INET,
	                                     .sin_port = htons((uint16_t)port),
	                                     .sin_addr = {htonl(INADDR_LOOPBACK)}}};
}

/* Names that are looked up have one address. */
static inline void find_names(struct fake *p)
{
	for (size_t i = 0; i < p->look_up_count; i++) {
		struct look_up found = p->look_ups[i];
		const struct redis_address address = address_of(found.port);

		p->look_ups[i].dialer = NULL;
		if (found.dialer)
			redis_dialer_found(found.dialer, &address, 1, NULL);
	}
	p->look_up_count = 0;
}

static inline bool dial(struct redis_transport *transport, struct redis_attempt *attempt,
                        const struct redis_address *to, void **line)
{
	struct fake *p = (struct fake *)transport;
	struct line *new = &p->lines[p->count++];

	assert_true(p->count <= LINES_MAX);
	*new = (struct line){.attempt = attempt, .port = ntohs(to->v4.sin_port)};
	*line = new;
	return true;
}

static inline void nothing_to_do(struct redis_transport *transport, void *line)
{
	(void)transport;
	(void)line;
}

static inline void hang_up(struct redis_transport *transport, void *line)
{
	(void)transport;
	((struct line *)line)->attempt = NULL;
}

static inline void no_alarm(struct redis_transport *transport, uint64_t at_ns)
{
	(void)transport;
	(void)at_ns;
}

static const struct redis_transport_kind fake_kind = {look_up,       stop_look_up, dial,
                                                      nothing_to_do, hang_up,      no_alarm};

static inline void switched(void *context, const struct store *store, const char *why)
{
	struct fake *p = context;

	assert_ptr_equal(store, p->store);
	*(why ? &p->away : &p->back) += 1;
	if (why)
		snprintf(p->why, sizeof p->why, "%s", why);
}

static inline struct fake *fake_open(const char *url, uint64_t timeout_ns)
{
	struct fake *p = calloc(1, sizeof *p);

	p->transport.kind = &fake_kind;
	assert_int_equal(algo_limit_init(&p->limit,
	                                 &(struct weir_limit_options){
	                                     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {5}},
	                                 NULL),
	                 WEIR_OK);
	assert_int_equal(redis_store_open(&(struct redis_options){.url = url,
	                                                          .prefix = "weir:",
	                                                          .timeout_ns = timeout_ns,
	                                                          .switched = switched,
	                                                          .context = p},
	                                  &p->store, NULL),
	                 WEIR_OK);
	assert_int_equal(redis_client_open(p->store, &p->transport, &p->client), WEIR_OK);
	return p;
}

static inline void end(struct fake *p)
{
	redis_client_close(p->client);
	redis_store_close(p->store);
	algo_limit_free(&p->limit);
	free(p);
}

static inline void done(struct store_operation *operation)
{
	((struct one *)operation)->is_done = true;
}

static inline void make_one(struct fake *p, struct one *one, const char *key, uint64_t hash)
{
	*one = (struct one){0};
	snprintf(one->key, sizeof one->key, "%s", key);
	one->operation = (struct store_operation){
	    .step = {.store = p->store,
	             .limit = &p->limit,
	             .key = {.hash = hash},
	             .call = {.op = ALGO_ACQUIRE, .cost = 1}},
	    .limit_name = "l",
	    .key_name = slice_of(one->key),
	    .done = done,
	};
}

static inline void submit(struct fake *p, struct one *one)
{
	p->store->kind->submit(p->client, &one->operation);
}

/* The last one to a node, by its port. */
static inline struct line *line_to(struct fake *p, unsigned port)
{
	find_names(p);
	for (size_t i = p->count; i-- > 0;)
		if (p->lines[i].port == port && p->lines[i].attempt)
			return &p->lines[i];
	fail_msg("no line to %u", port);
	return NULL;
}

/* The names of the commands that were sent since, such as "CLUSTER EVALSHA ". */
static inline const char *sent(struct fake *p, unsigned port)
{
	static char names[200];
	struct line *line = line_to(p, port);
	struct connection *connection = redis_attempt_connection(line->attempt);
	struct slice out = connection_unsent_bytes(connection);

	names[0] = '\0';
	while (out.len > 0) {
		uint64_t words, len;
		struct slice head = slice_cut(&out, '\n');

		assert_true(parse_u64((struct slice){head.data + 1, head.len - 2}, &words));
		for (uint64_t i = 0; i < words; i++) {
			head = slice_cut(&out, '\n');
			assert_true(parse_u64((struct slice){head.data + 1, head.len - 2}, &len));
			if (i == 0)
				snprintf(names + strlen(names), sizeof names - strlen(names), "%.*s ", (int)len,
				         out.data);
			out = (struct slice){out.data + len + 2, out.len - len - 2};
		}
	}
	connection_drop_sent_bytes(connection, connection_unsent_bytes(connection).len);
	return names;
}

static inline void answer(struct fake *p, unsigned port, const char *text)
{
	redis_attempt_receive(line_to(p, port)->attempt, slice_of(text));
}

/* Opens a connection, up to the bytes that are sent on it. */
static inline void accept_line(struct fake *p, unsigned port, const char *names)
{
	assert_string_equal(sent(p, port), "PING ");
	answer(p, port, "+PONG\r\n");
	assert_string_equal(sent(p, port), names);
}

static inline void assert_granted(const struct one *one)
{
	assert_true(one->is_done);
	assert_int_equal(one->operation.status, WEIR_OK);
	assert_true(one->operation.outcome.allowed);
}

static inline void assert_failed(const struct one *one)
{
	assert_true(one->is_done);
	assert_int_equal(one->operation.status, WEIR_ESTORE);
}

#endif
