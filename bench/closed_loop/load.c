/*
 * load.c: clients in a closed loop.
 *
 *     load PORT CLIENTS THINK_US SEED SECONDS LOW AGAIN
 *
 * Each client thinks, asks, and waits for its answer. How long it thinks is exponential, drawn for
 * each of its requests from SEED alone, so all limiters meet the same clients. The first LOW ask
 * with a low priority. A client that was denied, or whose request failed, thinks AGAIN times as
 * long.
 *
 * Commands by standard input: `faster F`: from here on, all think a part of the time.
 * Output, binary: the start (of CLOCK_MONOTONIC, 8 bytes), then a struct record for each request.
 */
#include "wire.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

struct record {
	uint64_t asked_ns; /* from the start */
	uint64_t took_ns;
	uint64_t alone_ns; /* what it takes by itself, if it was answered */
	uint32_t limit;
	uint16_t inside;
	uint8_t status, priority;
};

_Static_assert(sizeof(struct record) == 32, "read by bench/closed_loop/measure.py");

struct client {
	int fd;
	uint32_t asked; /* so many times */
	uint64_t at_ns; /* thinks until, or waits since */
	uint8_t priority;
};

struct load {
	struct client *clients;
	unsigned n;
	unsigned *thinking, thinkers; /* a heap of indices: who asks first */
	uint64_t seed, start_ns, end_ns;
	double think_ns, again;
	struct record *records;
	size_t recorded, room;
};

static uint64_t at(const struct load *load, unsigned i)
{
	return load->clients[load->thinking[i]].at_ns;
}

static void swap(struct load *load, unsigned i, unsigned j)
{
	unsigned kept = load->thinking[i];

	load->thinking[i] = load->thinking[j];
	load->thinking[j] = kept;
}

static void push(struct load *load, unsigned client)
{
	unsigned i = load->thinkers++;

	load->thinking[i] = client;
	for (; i > 0 && at(load, i) < at(load, (i - 1) / 2); i = (i - 1) / 2)
		swap(load, i, (i - 1) / 2);
}

static unsigned pop(struct load *load)
{
	unsigned first = load->thinking[0], i = 0, child;

	load->thinking[0] = load->thinking[--load->thinkers];
	while ((child = 2 * i + 1) < load->thinkers) {
		if (child + 1 < load->thinkers && at(load, child + 1) < at(load, child))
			child++;
		if (at(load, i) <= at(load, child))
			break;
		swap(load, i, child);
		i = child;
	}
	return first;
}

static void think(struct load *load, unsigned client, uint64_t now_ns, double part)
{
	struct client *c = &load->clients[client];
	double uniform = draw(~load->seed, (uint64_t)client << 32 | c->asked);

	c->at_ns = now_ns + (uint64_t)(exponential(uniform) * load->think_ns * part);
	push(load, client);
}

static void ask(struct load *load, unsigned client)
{
	struct client *c = &load->clients[client];
	struct frame frame = {.number = (uint64_t)client << 32 | c->asked++, .priority = c->priority};

	c->at_ns = clock_ns();
	if (!send_frame(c->fd, &frame))
		die("the gate is gone");
}

static void answered(struct load *load, unsigned client)
{
	struct client *c = &load->clients[client];
	struct frame frame;
	uint64_t now_ns = clock_ns();

	if (!receive_frame(c->fd, &frame))
		die("the gate is gone");
	if (load->recorded == load->room) {
		load->room = load->room ? 2 * load->room : 65536;
		load->records = realloc(load->records, load->room * sizeof(*load->records));
		if (!load->records)
			die("memory");
	}
	load->records[load->recorded++] = (struct record){c->at_ns - load->start_ns,
	                                                  now_ns - c->at_ns,
	                                                  frame.number,
	                                                  frame.limit,
	                                                  frame.inside,
	                                                  frame.status,
	                                                  frame.priority};
	think(load, client, now_ns, frame.status == STATUS_ANSWERED ? 1 : load->again);
}

/* Also for those that think just then: their order stays. false: there will be no more commands. */
static bool faster(struct load *load)
{
	char line[64];
	double by;
	uint64_t now_ns = clock_ns();

	if (!fgets(line, sizeof(line), stdin) || sscanf(line, "faster %lf", &by) != 1)
		return false;
	load->think_ns /= by;
	for (unsigned i = 0; i < load->thinkers; i++) {
		uint64_t *at_ns = &load->clients[load->thinking[i]].at_ns;

		if (*at_ns > now_ns)
			*at_ns = now_ns + (uint64_t)((double)(*at_ns - now_ns) / by);
	}
	return true;
}

static void run(struct load *load, int epoll)
{
	struct epoll_event events[64];
	uint64_t now_ns;

	while ((now_ns = clock_ns()) < load->end_ns) {
		uint64_t until_ns =
		    load->thinkers && at(load, 0) < load->end_ns ? at(load, 0) : load->end_ns;
		uint64_t rest_ns = until_ns > now_ns ? until_ns - now_ns : 0;
		struct timespec rest = {(time_t)(rest_ns / SECOND_NS), (long)(rest_ns % SECOND_NS)};
		int n = epoll_pwait2(epoll, events, 64, &rest, NULL);

		for (int i = 0; i < n; i++) {
			if (events[i].data.u32 != load->n)
				answered(load, events[i].data.u32);
			else if (!faster(load))
				epoll_ctl(epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
		}
		now_ns = clock_ns();
		while (load->thinkers > 0 && at(load, 0) <= now_ns)
			ask(load, pop(load));
	}
}

int main(int argc, char **argv)
{
	struct load load = {0};
	int epoll = epoll_create1(0);

	if (argc != 8) {
		fprintf(stderr, "usage: load PORT CLIENTS THINK_US SEED SECONDS LOW AGAIN\n");
		return 2;
	}
	prctl(PR_SET_TIMERSLACK, 1);
	setvbuf(stdin, NULL, _IONBF, 0);
	load.n = (unsigned)atoi(argv[2]);
	load.think_ns = atof(argv[3]) * 1000;
	load.seed = strtoull(argv[4], NULL, 10);
	load.again = atof(argv[7]);
	load.clients = calloc(load.n, sizeof(*load.clients));
	load.thinking = calloc(load.n, sizeof(*load.thinking));
	if (!load.clients || !load.thinking)
		die("memory");
	epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO,
	          &(struct epoll_event){.events = EPOLLIN, .data.u32 = load.n});
	for (unsigned i = 0; i < load.n; i++) {
		struct client *c = &load.clients[i];

		*c =
		    (struct client){connect_to((unsigned)atoi(argv[1])), 0, 0, i < (unsigned)atoi(argv[6]) ? 9 : 0};
		if (c->fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd,
		                           &(struct epoll_event){.events = EPOLLIN, .data.u32 = i}) != 0)
			die("connect");
	}
	load.start_ns = clock_ns();
	load.end_ns = load.start_ns + (uint64_t)(atof(argv[5]) * 1e9);
	for (unsigned i = 0; i < load.n; i++)
		think(&load, i, load.start_ns, 1);
	run(&load, epoll);
	fwrite(&load.start_ns, sizeof(load.start_ns), 1, stdout);
	fwrite(load.records, sizeof(*load.records), load.recorded, stdout);
	return 0;
}
