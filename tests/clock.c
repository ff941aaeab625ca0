/*
 * clock.c: another wall clock for a server, loaded into it by LD_PRELOAD.
 *
 * The file that WEIR_TEST_CLOCK names holds nanoseconds since 1970, or the clock is as many
 * seconds ahead as WEIR_TEST_CLOCK_AHEAD says. The monotonic clock stays the system's, so the
 * server's own timers run. Nothing else is replaced: ThreadSanitizer must see each wait for a lock.
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
static time_t ahead_s;

static __attribute__((constructor)) void map(void)
{
	const char *ahead = getenv("WEIR_TEST_CLOCK_AHEAD");
	const char *path = getenv("WEIR_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (ahead)
		ahead_s = atoll(ahead);
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
	int failed;

	if (clock != CLOCK_REALTIME || !given) {
		failed = (int)syscall(SYS_clock_gettime, clock, at);
		if (!failed && clock == CLOCK_REALTIME)
			at->tv_sec += ahead_s;
		return failed;
	}
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
