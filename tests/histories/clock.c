/*
 * clock.c: the wall clock of a redis-server, as a file says. Loaded into it by LD_PRELOAD.
 *
 * The file that WEIR_TEST_CLOCK names holds nanoseconds since 1970. The monotonic clock stays the
 * system's, so the server's own timers run.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic uint64_t *given;

static __attribute__((constructor)) void map(void)
{
	const char *path = getenv("WEIR_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	given = mmap(NULL, sizeof *given, PROT_READ, MAP_SHARED, fd, 0);
	if (given == MAP_FAILED)
		abort();
	close(fd);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *at)
{
	uint64_t now_ns;

	if (clock != CLOCK_REALTIME || !given)
		return (int)syscall(SYS_clock_gettime, clock, at);
	now_ns = *given;
	*at = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
	return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict at,
                                                        void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
