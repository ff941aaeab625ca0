/*
 * host_lookup.c: looks up the addresses of a host in a thread of its own, and reports the end by a
 * descriptor that becomes readable.
 */
#include "redis/network/host_lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/thread.h"

/* A lookup under way. Its caller and its thread share it; the last of them frees it. */
struct lookup {
	struct redis_host host;
	char port[6];
	struct addrinfo *addresses;
	int fd;     /* an eventfd, readable when the lookup has ended */
	int status; /* of getaddrinfo; written before `fd`, and read after it */
	atomic_int user_count;
};

static void release_lookup(struct lookup *lookup)
{
	if (atomic_fetch_sub_explicit(&lookup->user_count, 1, memory_order_acq_rel) > 1)
		return;
	if (lookup->addresses)
		freeaddrinfo(lookup->addresses);
	close(lookup->fd);
	free(lookup);
}

static void look_up_addresses(struct lookup *lookup, int flags)
{
	const struct addrinfo hints = {.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

	lookup->status = getaddrinfo(lookup->host.name, lookup->port, &hints, &lookup->addresses);
}

static void signal_end(struct lookup *lookup)
{
	uint64_t one = 1;
	ssize_t written = write(lookup->fd, &one, sizeof one); /* can't fail: the counter is 0 */

	(void)written;
}

/* The function of the thread. */
static void *look_up_name(void *context)
{
	struct lookup *lookup = context;

	look_up_addresses(lookup, AI_ADDRCONFIG);
	signal_end(lookup);
	release_lookup(lookup);
	return NULL;
}

/* Returns 0 or an errno. */
static int start_thread(struct lookup *lookup)
{
	pthread_t thread;
	int error = thread_start(&thread, look_up_name, lookup);

	if (error == 0)
		pthread_detach(thread);
	return error;
}

/* Starts the thread; only an address in digits is read at once. */
static void begin_lookup(struct lookup *lookup)
{
	look_up_addresses(lookup, AI_NUMERICHOST);
	if (lookup->status != 0) {
		atomic_store_explicit(&lookup->user_count, 2, memory_order_relaxed);
		if (start_thread(lookup) == 0)
			return;
		atomic_store_explicit(&lookup->user_count, 1, memory_order_relaxed);
		lookup->status = EAI_MEMORY;
	}
	signal_end(lookup);
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
	atomic_init(&lookup->user_count, 1);
	begin_lookup(lookup);
	return lookup;
}

int lookup_fd(const struct lookup *lookup)
{
	return lookup->fd;
}

const char *lookup_result(const struct lookup *lookup, struct redis_address *out, size_t max,
                          size_t *n)
{
	uint64_t event_count;
	ssize_t len = read(lookup->fd, &event_count, sizeof event_count); /* not readable any more */

	(void)len;
	*n = 0;
	for (const struct addrinfo *found = lookup->addresses; found && *n < max;
	     found = found->ai_next) {
		out[*n] = (struct redis_address){.len = found->ai_addrlen};
		memcpy(&out[(*n)++].any, found->ai_addr, found->ai_addrlen);
	}
	return lookup->status != 0 ? gai_strerror(lookup->status) : NULL;
}

void lookup_close(struct lookup *lookup)
{
	if (lookup)
		release_lookup(lookup);
}
