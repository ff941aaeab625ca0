#include "virtual.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "redis/client_inside.h"

#define PATIENCE_MS 60000 /* for what Redis must answer, on a busy machine too */
#define CLIENTS_MAX 64
#define REUSABLE_LOG_MAX    64

/* Bytes that Redis has not read yet. */
struct kept {
	int fd; /* a duplicate: the server may close its own */
	unsigned server;
	size_t len;
	char *data;
};

static struct {
	uint64_t now_ns;
	_Atomic uint64_t *redis_ns; /* or NULL */
	unsigned acting;
	int64_t ahead_ns;
	enum virtual_fault faults[VIRTUAL_SERVERS_MAX];
	struct redis_client *clients[CLIENTS_MAX];
	unsigned owners[CLIENTS_MAX]; /* their servers */
	struct kept kept[REUSABLE_LOG_MAX];
	size_t kept_count;
} world;

static void fail(const char *what)
{
	fprintf(stderr, "virtual: %s\n", what);
	exit(3);
}

/* Time */

bool virtual_share_clock(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *map = fd < 0
	                ? MAP_FAILED
	                : mmap(NULL, sizeof *world.redis_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return false;
	world.redis_ns = map;
	return true;
}

static void set_now(uint64_t now_ns)
{
	world.now_ns = now_ns;
	if (world.redis_ns)
		*world.redis_ns = now_ns;
}

void virtual_begin(uint64_t now_ns)
{
	for (unsigned i = 0; i < VIRTUAL_SERVERS_MAX; i++)
		virtual_set_fault(i, FAULT_NONE);
	set_now(now_ns);
}

uint64_t virtual_now_ns(void)
{
	return world.now_ns;
}

void virtual_pass(uint64_t ns)
{
	set_now(sat_add(world.now_ns, ns));
}

void virtual_act(unsigned server, int64_t ahead_ns)
{
	world.acting = server;
	world.ahead_ns = ahead_ns;
}

uint64_t virtual_wall_ns(void)
{
	return world.now_ns + (uint64_t)world.ahead_ns;
}

static enum virtual_fault fault(void)
{
	return world.faults[world.acting];
}

uint64_t __wrap_os_monotonic_ns(void);
uint64_t __wrap_os_monotonic_ns(void)
{
	return world.now_ns;
}

uint64_t __wrap_os_wall_ns(void);
uint64_t __wrap_os_wall_ns(void)
{
	return virtual_wall_ns();
}

/* The processor's counter would tell the time of the machine. */
bool __wrap_os_trusts_counter(void);
bool __wrap_os_trusts_counter(void)
{
	return false;
}

static void sleep_until(const struct timespec *until)
{
	uint64_t until_ns = (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec;

	virtual_pass(sat_sub(until_ns, world.now_ns));
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *at,
                           struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *at,
                           struct timespec *left)
{
	(void)left;
	if (clock != CLOCK_MONOTONIC || flags != TIMER_ABSTIME)
		fail("an unknown sleep");
	sleep_until(at);
	return 0;
}

/* There is no other thread that could wake this one. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
	(void)cond;
	(void)lock;
	sleep_until(until);
	return ETIMEDOUT;
}

/* Lanes: what a server awaits of Redis */

int __real_redis_client_open(struct store *store, struct redis_transport *port,
                             struct store_client **out);
int __wrap_redis_client_open(struct store *store, struct redis_transport *port,
                             struct store_client **out);
int __wrap_redis_client_open(struct store *store, struct redis_transport *port,
                             struct store_client **out)
{
	int status = __real_redis_client_open(store, port, out);
	size_t i = 0;

	while (i < CLIENTS_MAX && world.clients[i])
		i++;
	if (i == CLIENTS_MAX)
		fail("too many clients");
	world.owners[i] = world.acting;
	if (status == 0)
		world.clients[i] = (struct redis_client *)*out;
	return status;
}

void __real_redis_client_close(struct store_client *client);
void __wrap_redis_client_close(struct store_client *client);
void __wrap_redis_client_close(struct store_client *client)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (world.clients[i] == (struct redis_client *)client)
			world.clients[i] = NULL;
	__real_redis_client_close(client);
}

/* Whether Redis owes the acting server an answer. */
static bool is_awaited(void)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		const struct redis_client *client =
		    world.owners[i] == world.acting ? world.clients[i] : NULL;

		for (unsigned k = 0; client && k < client->node_end; k++) {
			const struct redis_node *node = client->nodes[k];

			if (node && (node_calls(node)->first || node->ready_deadline_ns))
				return true;
		}
	}
	return false;
}

/* Network */

ssize_t __real_send(int fd, const void *data, size_t len, int flags);

static void deliver(struct kept *kept)
{
	struct pollfd reply = {.fd = kept->fd, .events = POLLIN};

	/* Redis must have done it before time goes on. */
	if (__real_send(kept->fd, kept->data, kept->len, MSG_NOSIGNAL) == (ssize_t)kept->len &&
	    poll(&reply, 1, PATIENCE_MS) != 1)
		fail("Redis did not answer what it was asked before");
	close(kept->fd);
	free(kept->data);
}

void virtual_set_fault(unsigned server, enum virtual_fault fault)
{
	size_t left = 0;

	world.faults[server] = fault;
	for (size_t i = 0; i < world.kept_count; i++)
		if (fault == FAULT_HANG || world.kept[i].server != server)
			world.kept[left++] = world.kept[i];
		else
			deliver(&world.kept[i]);
	world.kept_count = left;
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	if (fault() != FAULT_DOWN)
		return __real_connect(fd, address, len);
	errno = ECONNREFUSED;
	return -1;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
	struct kept *kept = &world.kept[world.kept_count];

	if (fault() == FAULT_DOWN) {
		errno = ECONNRESET;
		return -1;
	}
	if (fault() != FAULT_HANG)
		return __real_send(fd, data, len, flags);
	if (world.kept_count == REUSABLE_LOG_MAX)
		fail("too much is on its way to Redis");
	*kept = (struct kept){dup(fd), world.acting, len, malloc(len)};
	memcpy(kept->data, data, len);
	world.kept_count++;
	return (ssize_t)len;
}

ssize_t __real_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
	return fault() == FAULT_NONE ? __real_recv(fd, data, len, flags) : 0;
}

static int poll_for(struct pollfd *fds, nfds_t n, int ms)
{
	int ready;

	do
		ready = poll(fds, n, ms);
	while (ready < 0 && errno == EINTR);
	return ready;
}

static bool is_readable(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & ~POLLOUT)
			return true;
	return false;
}

/* Waits until Redis has answered, or a connection can send. */
static int await(struct pollfd *fds, nfds_t n, bool may_block)
{
	int ready = poll_for(fds, n, 0);

	if (ready == 0 && n > 0 && may_block && is_awaited()) {
		ready = poll_for(fds, n, PATIENCE_MS);
		if (ready == 0)
			fail("Redis does not answer");
	}
	return ready;
}

/* What Redis has answered does not arrive; what is to be sent is sent. */
static int poll_out(struct pollfd *fds, nfds_t n)
{
	int ready = 0;

	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = fds[i].events & POLLOUT;
		ready += fds[i].revents != 0;
	}
	return ready;
}

static int poll_now(struct pollfd *fds, nfds_t n, bool may_block)
{
	switch (fault()) {
	case FAULT_DOWN:
		for (nfds_t i = 0; i < n; i++)
			fds[i].revents = fds[i].events;
		return (int)n;
	case FAULT_HANG:
		return poll_out(fds, n);
	case FAULT_LATE:
		await(fds, n, may_block); /* Redis has done it, before time goes on */
		return is_readable(fds, n) ? poll_out(fds, n) : poll_for(fds, n, 0);
	case FAULT_NONE:
	case FAULT_CUT:
	case FAULT_COUNT:
		break;
	}
	return await(fds, n, may_block);
}

/* Without anything to move, the time passes for which it was to wait. */
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *wait, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *wait, const sigset_t *mask)
{
	uint64_t wait_ns = (uint64_t)wait->tv_sec * NS_PER_S + (uint64_t)wait->tv_nsec;
	int ready = poll_now(fds, n, wait_ns > 0);

	(void)mask;
	if (ready == 0)
		virtual_pass(wait_ns);
	return ready;
}

/* As the hardened C library calls it. */
int __wrap___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *wait,
                       const sigset_t *mask, size_t size);
int __wrap___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *wait,
                       const sigset_t *mask, size_t size)
{
	(void)size;
	return __wrap_ppoll(fds, n, wait, mask);
}
