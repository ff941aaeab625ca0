/*
 * load.c: plays clients that send requests to a gate, and records the answers.
 *
 *     load PORT CLIENTS THINK_US SEED SECONDS LOW AGAIN ARRIVALS ATTEMPTS BACKOFF_US
 *
 * ARRIVALS is `closed` or `open`. Each client of a closed loop thinks, asks, and waits for its
 * answer. How long it thinks is exponential, drawn for each of its requests from SEED alone, so all
 * limiters meet the same clients. A client that was denied, or whose request failed, thinks AGAIN
 * times as long.
 *
 * Open arrivals do not wait for answers: one comes each THINK_US / CLIENTS, exponential, and takes
 * an idle client. If none is idle, it has failed.
 *
 * A request that is denied or fails is asked again, ATTEMPTS times in all, after up to BACKOFF_US,
 * the next time up to twice as much. If BACKOFF_US is 0, that is at once. The first LOW clients ask
 * with a low priority; of open arrivals a share of LOW / CLIENTS does.
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
	uint64_t alone_ns; /* its service time without others, if it was answered */
	uint32_t limit;
	uint16_t inside;
	uint8_t status, priority;
};

_Static_assert(sizeof(struct record) == 32, "read by bench/closed_loop/measure.py");

struct client {
	int fd;
	uint32_t asked; /* number of requests so far */
	uint64_t at_ns; /* the end of thinking, or the start of waiting */
	uint8_t priority, attempt;
};

struct load {
	struct client *clients;
	unsigned n;
	unsigned *thinking, thinkers; /* a heap of indices, by at_ns */
	uint64_t seed, start_ns, end_ns;
	double think_ns, again, low;
	bool open;
	unsigned attempts;
	uint64_t backoff_ns, arrives_ns, arrived;
	unsigned *idle, idlers; /* of open arrivals */
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

	c->attempt = 0;
	c->at_ns = now_ns + (uint64_t)(exponential(uniform) * load->think_ns * part);
	push(load, client);
}

static void ask(struct load *load, unsigned client)
{
	struct client *c = &load->clients[client];
	struct frame frame = {.number = (uint64_t)client << 32 | c->asked++, .priority = c->priority};

	c->attempt++;
	c->at_ns = clock_ns();
	if (!send_frame(c->fd, &frame))
		die("the gate is gone");
}

static void record(struct load *load, struct record record)
{
	if (load->recorded == load->room) {
		load->room = load->room ? 2 * load->room : 65536;
		load->records = realloc(load->records, load->room * sizeof(*load->records));
		if (!load->records)
			die("memory");
	}
	load->records[load->recorded++] = record;
}

/* The next attempt, if there is one. */
static bool retry(struct load *load, unsigned client, uint64_t now_ns)
{
	struct client *c = &load->clients[client];
	double uniform = draw(load->seed ^ 1, (uint64_t)client << 32 | c->asked);

	if (c->attempt >= load->attempts)
		return false;
	c->at_ns = now_ns + (uint64_t)(uniform * (double)(load->backoff_ns << (c->attempt - 1)));
	push(load, client);
	return true;
}

static void arrive(struct load *load)
{
	uint64_t number = load->arrived++, at_ns = load->arrives_ns;
	uint8_t priority = draw(load->seed ^ 2, number) < load->low ? 9 : 0;

	load->arrives_ns += (uint64_t)(exponential(draw(~load->seed, number)) * load->think_ns / load->n) + 1;
	if (load->idlers == 0) {
		record(load, (struct record){at_ns - load->start_ns, 0, 0, 0, 0, STATUS_FAILED, priority});
		return;
	}
	unsigned client = load->idle[--load->idlers];

	load->clients[client].priority = priority;
	load->clients[client].attempt = 0;
	ask(load, client);
}

static void answered(struct load *load, unsigned client)
{
	struct client *c = &load->clients[client];
	struct frame frame;
	uint64_t now_ns = clock_ns();

	if (!receive_frame(c->fd, &frame))
		die("the gate is gone");
	record(load, (struct record){c->at_ns - load->start_ns, now_ns - c->at_ns, frame.number,
	                             frame.limit, frame.inside, frame.status, frame.priority});
	if (frame.status != STATUS_ANSWERED && retry(load, client, now_ns))
		return;
	if (load->open)
		load->idle[load->idlers++] = client;
	else
		think(load, client, now_ns, frame.status == STATUS_ANSWERED ? 1 : load->again);
}

/*
 * Reads a command. Clients that think now think faster, too, so their order stays. Returns false at
 * the end of the commands.
 */
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

		if (load->arrives_ns < until_ns)
			until_ns = load->arrives_ns;
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
		while (load->arrives_ns <= now_ns)
			arrive(load);
	}
}

int main(int argc, char **argv)
{
	struct load load = {0};
	int epoll = epoll_create1(0);

	if (argc != 11) {
		fprintf(stderr, "usage: load PORT CLIENTS THINK_US SEED SECONDS LOW AGAIN ARRIVALS "
		                "ATTEMPTS BACKOFF_US\n");
		return 2;
	}
	prctl(PR_SET_TIMERSLACK, 1);
	setvbuf(stdin, NULL, _IONBF, 0);
	load.n = (unsigned)atoi(argv[2]);
	load.think_ns = atof(argv[3]) * 1000;
	load.seed = strtoull(argv[4], NULL, 10);
	load.again = atof(argv[7]);
	load.low = atof(argv[6]) / load.n;
	load.open = strcmp(argv[8], "open") == 0;
	load.attempts = (unsigned)atoi(argv[9]);
	load.backoff_ns = strtoull(argv[10], NULL, 10) * 1000;
	load.clients = calloc(load.n, sizeof(*load.clients));
	load.thinking = calloc(load.n, sizeof(*load.thinking));
	load.idle = calloc(load.n, sizeof(*load.idle));
	if (!load.clients || !load.thinking || !load.idle)
		die("memory");
	epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO,
	          &(struct epoll_event){.events = EPOLLIN, .data.u32 = load.n});
	for (unsigned i = 0; i < load.n; i++) {
		struct client *c = &load.clients[i];

		*c =
		    (struct client){connect_to((unsigned)atoi(argv[1])), 0, 0, i < (unsigned)atoi(argv[6]) ? 9 : 0, 0};
		if (c->fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd,
		                           &(struct epoll_event){.events = EPOLLIN, .data.u32 = i}) != 0)
			die("connect");
	}
	load.start_ns = clock_ns();
	load.end_ns = load.start_ns + (uint64_t)(atof(argv[5]) * 1e9);
	load.arrives_ns = load.open ? load.start_ns : UINT64_MAX;
	for (unsigned i = 0; i < load.n; i++)
		if (load.open)
			load.idle[load.idlers++] = i;
		else
			think(&load, i, load.start_ns, 1);
	run(&load, epoll);
	fwrite(&load.start_ns, sizeof(load.start_ns), 1, stdout);
	fwrite(load.records, sizeof(*load.records), load.recorded, stdout);
	return 0;
}
