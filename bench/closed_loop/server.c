/*
 * server.c: plays a server that can be overloaded.
 *
 *     server PORT SERVICE MEAN_US WORKERS SEED
 *
 * Workers are threads, each of which sleeps for as long as its request takes, so the server needs
 * little of the processors and its capacity does not follow from them. Requests wait first come,
 * first served. With more in it than workers it thrashes: each request takes longer by STRAIN for
 * each WORKERS beyond.
 *
 * A worker that was woken late begins the next request when it should have: a busy machine does not
 * lower the capacity.
 *
 * Commands by standard input: `workers N`, of which at most WORKERS; `slower F`: all takes F times
 * as long.
 */
#include "simulate/closed_loop/service.h"
#include "wire.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#define STRAIN      0.1
#define WORKERS_MAX 256

struct request {
	int fd;
	struct frame frame;
	uint64_t arrived_ns;
};

/* `busy`: its request is here. A connection that its client closed meanwhile is closed after it. */
struct connection {
	bool busy, gone;
};

struct server {
	pthread_mutex_t lock;
	pthread_cond_t more;                   /* for those at work, */
	pthread_cond_t resume;                 /* and for the others */
	struct request queue[CONNECTIONS_MAX]; /* a ring */
	unsigned first, waiting, inside;
	struct connection connections[CONNECTIONS_MAX];
	service_time *service;
	double mean_ns;
	unsigned workers;  /* at work, */
	uint64_t since_ns; /* since then */
	uint64_t seed;
};

struct worker {
	struct server *server;
	unsigned index;
};

/* The strain on a request that finds so many others. */
static double strain(const struct server *server)
{
	return server->inside > server->workers
	           ? 1 + STRAIN * (server->inside - server->workers) / server->workers
	           : 1;
}

/* The next one, when there is one and this worker is at work. */
static struct request next(struct server *server, unsigned index)
{
	struct request request;

	while (server->waiting == 0 || index >= server->workers) {
		if (index < server->workers) {
			pthread_cond_wait(&server->more, &server->lock);
		} else { /* it may have been called for what another has to do */
			pthread_cond_signal(&server->more);
			pthread_cond_wait(&server->resume, &server->lock);
		}
	}
	request = server->queue[server->first];
	server->first = (server->first + 1) % CONNECTIONS_MAX;
	server->waiting--;
	return request;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void sleep_until(uint64_t until_ns)
{
	struct timespec until = {(time_t)(until_ns / SECOND_NS), (long)(until_ns % SECOND_NS)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct server *server = worker->server;
	uint64_t free_ns = 0;

	prctl(PR_SET_TIMERSLACK, 1);
	pthread_mutex_lock(&server->lock);
	for (;;) {
		struct request request = next(server, worker->index);

		double takes_ns =
		    server->mean_ns * server->service(draw(server->seed, request.frame.number));

		request.frame.number = (uint64_t)takes_ns;
		free_ns = latest(latest(free_ns, server->since_ns), request.arrived_ns) +
		          (uint64_t)(takes_ns * strain(server));
		pthread_mutex_unlock(&server->lock);
		sleep_until(free_ns);
		pthread_mutex_lock(&server->lock);
		server->inside--;
		server->connections[request.fd].busy = false;
		if (server->connections[request.fd].gone)
			close(request.fd);
		else
			send_frame(request.fd, &request.frame);
	}
	return NULL;
}

static void arrive(struct server *server, int fd)
{
	struct request request = {.fd = fd, .arrived_ns = clock_ns()};
	struct connection *connection = &server->connections[fd];
	bool whole = receive_frame(fd, &request.frame);

	pthread_mutex_lock(&server->lock);
	if (whole && !connection->busy) {
		connection->busy = true;
		request.frame.inside = (uint16_t)server->inside++;
		request.frame.status = STATUS_ANSWERED;
		server->queue[(server->first + server->waiting++) % CONNECTIONS_MAX] = request;
		pthread_cond_signal(&server->more);
	} else if (connection->busy) {
		connection->gone = true;
	} else {
		close(fd);
	}
	pthread_mutex_unlock(&server->lock);
}

static void join(struct server *server, int epoll, int listener)
{
	int fd = accept(listener, NULL, NULL), one = 1;

	if (fd < 0)
		die("accept");
	if (fd >= CONNECTIONS_MAX) { /* full of requests that their clients have given up */
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	server->connections[fd] = (struct connection){0};
	epoll_ctl(epoll, EPOLL_CTL_ADD, fd,
	          &(struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = fd});
}

/* false: its end. */
static bool obey(struct server *server)
{
	char line[64];
	double value;

	if (!fgets(line, sizeof(line), stdin))
		return false;
	pthread_mutex_lock(&server->lock);
	if (sscanf(line, "workers %lf", &value) == 1)
		server->workers = (unsigned)value, server->since_ns = clock_ns();
	else if (sscanf(line, "slower %lf", &value) == 1)
		server->mean_ns *= value;
	pthread_cond_broadcast(&server->more);
	pthread_cond_broadcast(&server->resume);
	pthread_mutex_unlock(&server->lock);
	return true;
}

static void serve(struct server *server, int listener)
{
	int epoll = epoll_create1(0);
	struct epoll_event events[64];

	for (int i = 0; i < 2; i++) {
		int fd = i == 0 ? listener : STDIN_FILENO;

		epoll_ctl(epoll, EPOLL_CTL_ADD, fd,
		          &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
	}
	for (;;) {
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				join(server, epoll, listener);
			else if (events[i].data.fd != STDIN_FILENO)
				arrive(server, events[i].data.fd);
			else if (!obey(server))
				return;
		}
	}
}

int main(int argc, char **argv)
{
	static struct server server = {.lock = PTHREAD_MUTEX_INITIALIZER,
	                               .more = PTHREAD_COND_INITIALIZER,
	                               .resume = PTHREAD_COND_INITIALIZER};
	static struct worker workers[WORKERS_MAX];
	pthread_t thread;

	if (argc == 6)
		server.service = service_named(argv[2]);
	if (!server.service || (unsigned)atoi(argv[4]) > WORKERS_MAX) {
		fprintf(stderr, "usage: server PORT SERVICE MEAN_US WORKERS SEED\n");
		return 2;
	}
	server.mean_ns = atof(argv[3]) * 1000;
	server.workers = (unsigned)atoi(argv[4]);
	server.seed = strtoull(argv[5], NULL, 10);
	setvbuf(stdin, NULL, _IONBF, 0);
	for (unsigned i = 0; i < server.workers; i++) {
		workers[i] = (struct worker){&server, i};
		if (pthread_create(&thread, NULL, work, &workers[i]) != 0)
			die("thread");
	}
	serve(&server, listen_on((unsigned)atoi(argv[1])));
	return 0;
}
