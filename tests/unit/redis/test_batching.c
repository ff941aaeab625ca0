/*
 * When a client sends: the test is the transport, and answers as Redis would. Commands are those of
 * counters.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "counters.h"

#include "base/number.h"
#include "base/os/os.h"
#include "redis/redis.h"

#define ONES_MAX 130

struct one {
	struct store_operation operation; /* first */
	char key[16];
	bool is_done;
};

struct fake {
	struct redis_transport transport; /* first */
	struct redis_attempt *attempt;
	struct store *store;
	struct store_client *client;
	struct algo_limit limit;
	uint64_t alarm_ns;
	size_t calls[ONES_MAX], first, last; /* sent, not answered: the keys of each */
	struct one ones[ONES_MAX];
	size_t asked;
};

static bool dial(struct redis_transport *transport, struct redis_attempt *attempt,
                 const struct redis_address *to, void **line)
{
	(void)to;
	((struct fake *)transport)->attempt = attempt;
	*line = transport;
	return true;
}

/* Notes how many keys each EVALSHA has. */
static void send_out(struct redis_transport *transport, void *line)
{
	struct fake *p = (struct fake *)transport;
	struct connection *connection = redis_attempt_connection(p->attempt);
	struct slice out = connection_unsent_bytes(connection), text = out;
	const char *call;

	(void)line;
	while ((call = text.len > 0 ? memmem(text.data, text.len, "EVALSHA", 7) : NULL)) {
		uint64_t n;

		text.len -= (size_t)(call + 7 + 2 + 5 + 40 + 2 - text.data);
		text.data = call + 7 + 2 + 5 + 40 + 2; /* behind the SHA */
		slice_cut(&text, '\n');
		assert_true(parse_u64(slice_cut(&text, '\r'), &n));
		p->calls[p->last++] = (size_t)n;
	}
	connection_drop_sent_bytes(connection, out.len);
}

static void hang_up(struct redis_transport *transport, void *line)
{
	(void)transport;
	(void)line;
}

static void set_alarm(struct redis_transport *transport, uint64_t at_ns)
{
	((struct fake *)transport)->alarm_ns = at_ns;
}

static const struct redis_transport_kind with_clients = {NULL,    NULL,      dial, send_out,
                                                         hang_up, set_alarm, true},
                                         without_clients = {NULL,    NULL,      dial, send_out,
                                                            hang_up, set_alarm, false};

static void done(struct store_operation *operation)
{
	((struct one *)operation)->is_done = true;
}

/* An iteration with so many requests, for different keys or for one. */
static void ask(struct fake *p, size_t n, bool is_hot)
{
	for (size_t i = 0; i < n; i++) {
		struct one *one = &p->ones[p->asked++];

		assert_true(p->asked <= ONES_MAX);
		*one = (struct one){0};
		snprintf(one->key, sizeof one->key, "%zu", is_hot ? 0 : p->asked);
		one->operation = (struct store_operation){
		    .step = {.store = p->store,
		             .limit = &p->limit,
		             .key = {.hash = is_hot ? 0 : p->asked},
		             .call = {.op = ALGO_ACQUIRE, .cost = 1}},
		    .limit_name = "l",
		    .key_name = slice_of(one->key),
		    .done = done,
		};
		p->store->kind->submit(p->client, &one->operation);
	}
	redis_client_flush(p->client);
}

/* Answers the oldest call, then ends the iteration. */
static void answer(struct fake *p)
{
	struct buffer text = {0};
	size_t n = p->calls[p->first++];

	assert_true(p->first <= p->last);
	buffer_printf(&text, "*%zu\r\n$1\r\n1\r\n", n + 1);
	for (size_t i = 0; i < n; i++)
		buffer_add_text(&text, "*3\r\n:9\r\n:4\r\n:0\r\n");
	redis_attempt_receive(p->attempt, (struct slice){text.data, text.len});
	buffer_free(&text);
	send_out(&p->transport, NULL);
	redis_client_flush(p->client);
}

static struct fake *begin(const struct redis_transport_kind *kind)
{
	struct fake *p = calloc(1, sizeof *p);

	p->transport.kind = kind;
	assert_int_equal(algo_limit_init(&p->limit,
	                                 &(struct weir_limit_options){
	                                     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {5}},
	                                 NULL),
	                 WEIR_OK);
	assert_int_equal(redis_store_open(&(struct redis_options){.url = "redis://127.0.0.1:7000",
	                                                          .prefix = "weir:",
	                                                          .timeout_ns = 3600 * NS_PER_S},
	                                  &p->store, NULL),
	                 WEIR_OK);
	assert_int_equal(redis_client_open(p->store, &p->transport, &p->client), WEIR_OK);
	ask(p, 1, false);
	redis_attempt_receive(p->attempt, SLICE("+PONG\r\n"));
	send_out(&p->transport, NULL);
	answer(p);
	assert_true(p->ones[0].is_done);
	p->asked = p->first = p->last = 0;
	return p;
}

static void end(struct fake *p)
{
	redis_client_close(p->client);
	redis_store_close(p->store);
	algo_limit_free(&p->limit);
	free(p);
}

static size_t on_the_way(const struct fake *p)
{
	return p->last - p->first;
}

static void few_requests_are_sent_at_once(void **state)
{
	struct fake *p = begin(&without_clients);

	(void)state;
	for (size_t i = 0; i < 8; i++)
		ask(p, 1, false);
	assert_int_equal(on_the_way(p), 8);
	for (size_t i = 0; i < 8; i++) {
		answer(p);
		assert_true(p->ones[i].is_done);
	}
	end(p);
}

static void requests_for_one_key_are_gathered(void **state)
{
	struct fake *p = begin(&without_clients);

	(void)state;
	for (size_t i = 0; i < 4; i++)
		ask(p, 1, true);
	assert_int_equal(on_the_way(p), 1);
	answer(p);
	assert_int_equal(on_the_way(p), 1);
	answer(p);
	assert_true(p->ones[3].is_done);
	end(p);
}

static void many_requests_are_gathered_until_calls_are_answered(void **state)
{
	struct fake *p = begin(&without_clients);

	(void)state;
	ask(p, 8, false);
	for (size_t i = 0; i < 5; i++)
		ask(p, 1, i > 0);
	assert_int_equal(on_the_way(p), 1);
	assert_int_equal(p->calls[0], 8);
	answer(p);
	assert_int_equal(on_the_way(p), 1);
	assert_int_equal(p->calls[1], 2); /* commands: one, and one for four equal requests */
	answer(p);
	assert_true(p->ones[12].is_done);
	end(p);
}

static void a_node_gets_further_calls_when_it_has_answered(void **state)
{
	struct fake *p = begin(&without_clients);
	static const size_t calls[] = {48, 48, 14};

	(void)state;
	ask(p, 110, false);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(on_the_way(p), 1);
		assert_int_equal(p->calls[i], calls[i]);
		answer(p);
	}
	assert_int_equal(on_the_way(p), 0);
	for (size_t i = 0; i < 110; i++)
		assert_true(p->ones[i].is_done);
	end(p);
}

static void a_call_of_dear_commands_is_full_sooner(void **state)
{
	static const struct {
		struct weir_limit_options options;
		unsigned keys;
	} cases[] = {
	    {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 5}, 12},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {5}}, 6},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {5}, .slots = 10}, 6},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {5}}, 16},
	    {{.algorithm = WEIR_ALGORITHM_BASE, .base = 3, .rate = {2}}, 24},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fake *p = begin(&without_clients);

		algo_limit_free(&p->limit);
		assert_int_equal(algo_limit_init(&p->limit, &cases[i].options, NULL), WEIR_OK);
		ask(p, 40, false);
		assert_int_equal(on_the_way(p), 1);
		assert_int_equal(p->calls[0], cases[i].keys);
		end(p);
	}
}

static void clients_that_were_answered_are_awaited(void **state)
{
	struct fake *p = begin(&with_clients);

	(void)state;
	ask(p, 6, true);
	answer(p);
	for (size_t i = 0; i < 5; i++)
		ask(p, 1, true);
	assert_int_equal(on_the_way(p), 0);
	ask(p, 1, true);
	assert_int_equal(on_the_way(p), 1);
	answer(p);
	assert_true(p->ones[11].is_done);
	end(p);
}

static void without_load_no_client_is_awaited(void **state)
{
	struct fake *p = begin(&with_clients);

	(void)state;
	ask(p, 3, false);
	answer(p);
	ask(p, 1, true);
	assert_int_equal(on_the_way(p), 1);
	end(p);
}

/* Only until an alarm; and each time in vain makes it rarer. */
static void the_wait_for_clients_is_bounded(void **state)
{
	struct fake *p = begin(&with_clients);
	size_t waits = 0;

	(void)state;
	for (size_t i = 0; i < 16; i++) {
		ask(p, 6, true);
		answer(p);
		ask(p, 1, true);
		if (on_the_way(p) == 0) {
			uint64_t until_ns = p->alarm_ns;

			waits++;
			p->alarm_ns = 0;
			redis_client_tick(p->client, until_ns - 1); /* another alarm */
			assert_int_equal(on_the_way(p), 0);
			assert_int_equal(p->alarm_ns, until_ns);
			redis_client_tick(p->client, until_ns);
		}
		assert_int_equal(on_the_way(p), 1);
		answer(p);
	}
	assert_int_equal(waits, 4); /* the first, the third, the seventh, ... */
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(few_requests_are_sent_at_once),
	    cmocka_unit_test(requests_for_one_key_are_gathered),
	    cmocka_unit_test(many_requests_are_gathered_until_calls_are_answered),
	    cmocka_unit_test(a_node_gets_further_calls_when_it_has_answered),
	    cmocka_unit_test(a_call_of_dear_commands_is_full_sooner),
	    cmocka_unit_test(clients_that_were_answered_are_awaited),
	    cmocka_unit_test(without_load_no_client_is_awaited),
	    cmocka_unit_test(the_wait_for_clients_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
