/*
 * One route for each classic limiter. Every client address has its own count on
 * each; the answer is 200, or 429 with Retry-After. `/counter` counts at a Redis if
 * one is named, so that several servers share its count.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/redis.h>
#include <weir/weir.h>

#define MS_NS UINT64_C(1000000)
#define S_NS  (1000 * MS_NS)

#define SILENCE_S 5u

/* Five a minute, four ways; one each 50 ms; and every second one. A limit's name is its route. */
static const struct weir_limit_options routes[] = {
    /* A count that starts anew a minute after the first request. */
    {.name = "/counter",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {5, 1, WEIR_UNIT_MINUTE},
     .align = WEIR_ALIGN_FIRST_REQUEST},
    /* A count over the last minute, which leaves in steps of six seconds. */
    {.name = "/sliding-window",
     .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
     .rate = {5, 1, WEIR_UNIT_MINUTE},
     .slots = 10},
    /* Five at once from a full bucket, then one each time that a token has come in. */
    {.name = "/token-bucket",
     .algorithm = WEIR_ALGORITHM_TOKEN_BUCKET,
     .rate = {5, 1, WEIR_UNIT_MINUTE},
     .burst = 5},
    /* Five at once into an empty bucket, then one each time that a drop has leaked. */
    {.name = "/leaky-bucket",
     .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET,
     .rate = {5, 1, WEIR_UNIT_MINUTE},
     .burst = 5},
    /* One each 50 ms: an earlier request waits for its turn, but for 200 ms at most. */
    {.name = "/fixed-rate",
     .algorithm = WEIR_ALGORITHM_PACER,
     .rate = {20},
     .slack = WEIR_ZERO,
     .max_wait_ns = 200 * MS_NS},
    /* Denies half of all requests, each by a fair draw. */
    {.name = "/random", .algorithm = WEIR_ALGORITHM_RANDOM, .deny = 0.5},
};
#define ROUTE_COUNT (sizeof routes / sizeof *routes)
#define COUNTER     0

struct app {
	weir_table *table;
	weir_table *shared; /* of `/counter`; NULL without a Redis */
	weir_limit *limits[ROUTE_COUNT];
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *text,
                              const char *header, const char *value)
{
	struct MHD_Response *response =
	    MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
	if (header)
		MHD_add_response_header(response, header, value);
	result = MHD_queue_response(connection, code, response);
	MHD_destroy_response(response);
	return result;
}

/* Makes one decision, by the client's address, before the handler does its work. */
static enum MHD_Result limited(struct app *app, size_t route, struct MHD_Connection *connection)
{
	const struct sockaddr_in *client = (const struct sockaddr_in *)MHD_get_connection_info(
	                                       connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
	                                       ->client_addr;
	/* Each connection has a thread of its own here, so that it may sleep until its turn. */
	uint64_t deadline = routes[route].max_wait_ns > 0 ? WEIR_FOREVER : WEIR_NOW;
	struct weir_decision d;
	weir_table *table = route == COUNTER && app->shared ? app->shared : app->table;
	char text[64] = "served\n", retry_after[24];
	int status = weir_ask(table, app->limits[route],
	                      (struct weir_key){&client->sin_addr, sizeof client->sin_addr},
	                      &(struct weir_ask){.deadline_ns = deadline}, &d);

	/* Redis is away. Passing the request on is the other choice. */
	if (status == WEIR_ESTORE)
		return answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no decision\n",
		              MHD_HTTP_HEADER_RETRY_AFTER, "1");
	if (status != WEIR_OK)
		return answer(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "no decision\n", NULL, NULL);
	if (!d.allowed) {
		/* Whole seconds, rounded up: who comes back then is not too early. */
		snprintf(retry_after, sizeof retry_after, "%llu",
		         (unsigned long long)((d.retry_after_ns + S_NS - 1) / S_NS));
		return answer(connection, MHD_HTTP_TOO_MANY_REQUESTS, "too many requests\n",
		              MHD_HTTP_HEADER_RETRY_AFTER, retry_after);
	}
	if (routes[route].algorithm != WEIR_ALGORITHM_RANDOM)
		snprintf(text, sizeof text, "%llu of %llu left\n", (unsigned long long)d.remaining,
		         (unsigned long long)d.quota);
	return answer(connection, MHD_HTTP_OK, text, NULL, NULL);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_len, void **request)
{
	struct app *app = context;

	(void)version, (void)body, (void)body_len, (void)request;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "expected GET\n",
		              MHD_HTTP_HEADER_ALLOW, MHD_HTTP_METHOD_GET);
	for (size_t i = 0; i < ROUTE_COUNT; i++)
		if (strcmp(path, routes[i].name) == 0)
			return limited(app, i, connection);
	return answer(connection, MHD_HTTP_NOT_FOUND, "no such route\n", NULL, NULL);
}

static void close_app(struct app *app)
{
	for (size_t i = 0; i < ROUTE_COUNT; i++)
		weir_limit_close(app->limits[i]);
	weir_table_close(app->shared);
	weir_table_close(app->table);
}

static int open_app(struct app *app, const char *url, struct weir_error *error)
{
	int status = weir_table_open(NULL, &app->table, error);

	if (status == WEIR_OK && url)
		status = weir_redis_open(&(struct weir_redis_options){.url = url, .timeout_ns = S_NS},
		                         &app->shared, error);
	for (size_t i = 0; status == WEIR_OK && i < ROUTE_COUNT; i++)
		status = weir_limit_open(&routes[i], &app->limits[i], error);
	return status;
}

static int serve(struct app *app, in_port_t port)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct MHD_Daemon *server;
	sigset_t end;
	int signal;

	/* Before the server's thread starts, so that they come to this one. */
	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigprocmask(SIG_BLOCK, &end, NULL);
	server = MHD_start_daemon(
	    MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL, handle, app,
	    MHD_OPTION_SOCK_ADDR, &address,
	    /* A client that sends half a request occupies a thread no longer than this. */
	    MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_S, MHD_OPTION_END);
	if (!server) {
		fprintf(stderr, "port %u: expected one that is free\n", port);
		return 1;
	}
	fprintf(stderr, "listening: http 127.0.0.1:%u\n",
	        MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port);
	sigwait(&end, &signal);
	MHD_stop_daemon(server);
	return 0;
}

int main(int argc, char **argv)
{
	struct app app = {NULL};
	struct weir_error error;
	int code = 1;

	if (open_app(&app, argc > 2 ? argv[2] : NULL, &error) == WEIR_OK)
		code = serve(&app, (in_port_t)(argc > 1 ? atoi(argv[1]) : 8081));
	else
		fprintf(stderr, "%s\n", error.message);
	close_app(&app);
	return code;
}
