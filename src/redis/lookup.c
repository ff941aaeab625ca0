#include "redis/lookup.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of two that share it, the one that comes last frees it. */
struct lookup {
	struct gaicb request;
	struct addrinfo hints;
	struct redis_host host;
	char port[6];
	int fd;     /* the caller's: -1 when it has left */
	int status; /* where it ended at once; else EAI_INPROGRESS */
	atomic_int users;
};

static void drop(struct lookup *lookup)
{
	if (atomic_fetch_sub_explicit(&lookup->users, 1, memory_order_acq_rel) > 1)
		return;
	if (lookup->request.ar_result)
		freeaddrinfo(lookup->request.ar_result);
	close(lookup->fd);
	free(lookup);
}

static void finish(struct lookup *lookup)
{
	uint64_t one = 1;
	ssize_t written = write(lookup->fd, &one, sizeof one); /* a counter at 0 takes it */

	(void)written;
}

/* On a thread of the system's. */
static void looked_up(union sigval value)
{
	finish(value.sival_ptr);
	drop(value.sival_ptr);
}

static void begin(struct lookup *lookup)
{
	struct gaicb *requests[] = {&lookup->request};
	struct sigevent event = {
	    .sigev_notify = SIGEV_THREAD,
	    .sigev_notify_function = looked_up,
	    .sigev_value.sival_ptr = lookup,
	};

	lookup->status = EAI_INPROGRESS;
	atomic_store_explicit(&lookup->users, 2, memory_order_relaxed);
	if (getaddrinfo_a(GAI_NOWAIT, requests, 1, &event) == 0)
		return;
	lookup->status = EAI_AGAIN;
	atomic_store_explicit(&lookup->users, 1, memory_order_relaxed);
	finish(lookup);
}

struct lookup *lookup_open(const struct redis_host *host)
{
	struct lookup *lookup = calloc(1, sizeof *lookup);

	if (!lookup)
		return NULL;
	lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lookup->fd < 0) {
		free(lookup);
		return NULL;
	}
	lookup->host = *host;
	snprintf(lookup->port, sizeof lookup->port, "%u", (unsigned)host->port);
	lookup->hints = (struct addrinfo){.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	                                  .ai_socktype = SOCK_STREAM};
	lookup->request = (struct gaicb){.ar_name = lookup->host.name,
	                                 .ar_service = lookup->port,
	                                 .ar_request = &lookup->hints};
	atomic_init(&lookup->users, 1);
	lookup->status = getaddrinfo(lookup->host.name, lookup->port, &lookup->hints,
	                             &lookup->request.ar_result);
	if (lookup->status == 0) {
		finish(lookup);
	} else {
		lookup->hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
		begin(lookup);
	}
	return lookup;
}

int lookup_fd(const struct lookup *lookup)
{
	return lookup->fd;
}

int lookup_result(const struct lookup *lookup, const struct addrinfo **addresses)
{
	int status = lookup->status;

	if (status == EAI_INPROGRESS)
		status = gai_error((struct gaicb *)&lookup->request);
	*addresses = status == 0 ? lookup->request.ar_result : NULL;
	return status;
}

void lookup_close(struct lookup *lookup)
{
	if (lookup)
		drop(lookup);
}
