/*
 * gate.c: passes requests from the clients to the server, with a limiter of this library around
 * each.
 *
 *     gate SERVER_PORT LIMITER TIMEOUT_MS
 *
 * A thread for each connection asks the limiter, then the server, and reports how it went. A call
 * that takes longer than TIMEOUT_MS fails, unless that is 0.
 */
#include "wire.h"

#include <pthread.h>
#include <string.h>
#include <weir/limiter.h>

#define STACK_BYTES 65536

#define BEST_FOR_16 20 /* of 16 workers, and as many more as their root */

#define MS UINT64_C(1000000)

static const struct {
	const char *name;
	struct weir_limit_options options;
} limiters[] = {
    {"none", {0}},
    {"fixed",
     {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = BEST_FOR_16, .lease_ns = 3600 * SECOND_NS}},
    {"adaptive",
     {.algorithm = WEIR_ALGORITHM_ADAPTIVE,
      .adaptive = &(struct weir_adaptive_options){.max = 1000}}},
    {"breaker",
     {.algorithm = WEIR_ALGORITHM_BREAKER,
      .breaker = &(struct weir_breaker_options){.window_ns = 2 * SECOND_NS,
                                                .sleep_ns = SECOND_NS,
                                                .slow_ns = 200 * MS,
                                                .slow_percent = 50}}},
};

struct gate {
	weir_limiter *limiter; /* or NULL */
	unsigned server_port, timeout_ms;
};

struct connection {
	const struct gate *gate;
	int client, server; /* sockets; -1 if not connected */
};

static bool begin(struct connection *connection)
{
	unsigned ms = connection->gate->timeout_ms;
	struct timeval most = {ms / 1000, ms % 1000 * 1000};

	connection->server = connect_to(connection->gate->server_port);
	if (connection->server >= 0)
		setsockopt(connection->server, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	return connection->server >= 0;
}

/*
 * Calls the server, and returns the outcome. After an error the next call connects anew. If the
 * server had closed a connection that was left from an earlier call, the same call is repeated on a
 * new one, as HTTP clients do.
 */
static enum weir_outcome call(struct connection *connection, struct frame *frame)
{
	for (;;) {
		bool kept = connection->server >= 0;

		if (!kept && !begin(connection))
			return WEIR_OUTCOME_FAILURE;
		errno = 0;
		if (send_frame(connection->server, frame) && receive_frame(connection->server, frame))
			return WEIR_OUTCOME_SUCCESS;
		close(connection->server);
		connection->server = -1;
		if (errno == EAGAIN)
			return WEIR_OUTCOME_TIMEOUT;
		if (!kept)
			return WEIR_OUTCOME_FAILURE;
	}
}

static void answer(struct connection *connection, struct frame *frame)
{
	weir_limiter *limiter = connection->gate->limiter;
	struct weir_decision decision = {.allowed = true};
	struct weir_permit permit;
	enum weir_outcome outcome;

	if (limiter)
		weir_limiter_ask(
		    limiter, &(struct weir_ask){.priority = frame->priority, .permit = &permit}, &decision);
	frame->status = STATUS_DENIED;
	if (decision.allowed) {
		outcome = call(connection, frame);
		if (limiter)
			weir_limiter_report(limiter, &permit, &(struct weir_report){.outcome = outcome});
		frame->status = outcome == WEIR_OUTCOME_SUCCESS ? STATUS_ANSWERED : STATUS_FAILED;
	}
	frame->limit = (uint32_t)decision.quota;
}

static void *serve(void *argument)
{
	struct connection *connection = argument;
	struct frame frame;

	while (receive_frame(connection->client, &frame)) {
		answer(connection, &frame);
		if (!send_frame(connection->client, &frame))
			break;
	}
	close(connection->client);
	if (connection->server >= 0)
		close(connection->server);
	free(connection);
	return NULL;
}

static bool open_gate(struct gate *gate, const char *name)
{
	struct weir_error error;

	for (size_t i = 0; i < sizeof(limiters) / sizeof(limiters[0]); i++) {
		if (strcmp(name, limiters[i].name) != 0)
			continue;
		if (i > 0 && weir_limiter_open(&limiters[i].options, &gate->limiter, &error) != 0) {
			fprintf(stderr, "%s\n", error.message);
			return false;
		}
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct gate gate = {0};
	pthread_attr_t attributes;
	pthread_t thread;
	int listener;

	if (argc != 4 || !open_gate(&gate, argv[2])) {
		fprintf(stderr, "usage: gate SERVER_PORT LIMITER TIMEOUT_MS\n");
		return 2;
	}
	gate.server_port = (unsigned)atoi(argv[1]);
	gate.timeout_ms = (unsigned)atoi(argv[3]);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	listener = listen_on(0);
	for (;;) {
		struct connection *connection = malloc(sizeof(*connection));
		int one = 1;

		if (!connection)
			die("memory");
		*connection = (struct connection){&gate, accept(listener, NULL, NULL), -1};
		setsockopt(connection->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (pthread_create(&thread, &attributes, serve, connection) != 0)
			die("thread");
	}
}
