/*
 * os.c: asks Linux for memory, the time, random bytes, the id of this boot, whether the processor's
 * counter can serve as a clock, and what this process has used of memory and processor time.
 */
#include "base/os/os.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/number.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE      ((size_t)4096)

/* Whether so many bytes may become resident at once: at most an eighth of the machine's memory. */
static bool is_small(size_t size)
{
	return size <= (size_t)sysconf(_SC_PHYS_PAGES) * PAGE / 8;
}

void *os_pages_reserve(size_t size)
{
	/* Without a reservation, pages that are never touched take only address space. */
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

/* Maps zeroed pages, from a multiple of HUGE_PAGE on: only there can the system use huge pages. */
void *os_pages_map(size_t size)
{
	size_t spare = size >= HUGE_PAGE ? HUGE_PAGE : 0, before;
	char *pages = os_pages_reserve(size + spare);

	if (!pages || spare == 0)
		return pages;
	/* Unmap the spare bytes before the first multiple, and those behind the end. */
	before = -(uintptr_t)pages % HUGE_PAGE;
	if (before > 0)
		munmap(pages, before);
	pages += before;
	size = (size + PAGE - 1) / PAGE * PAGE;
	if (spare > before)
		munmap(pages + size, spare - before);
	/*
	 * Not for larger memory, of which huge pages would make all resident for a few scattered keys.
	 * If the advice fails, nothing changes.
	 */
	if (is_small(size))
		madvise(pages, size, MADV_HUGEPAGE);
	return pages;
}

/* Advises the system not to read ahead: access will be random. */
void os_pages_scatter(void *pages, size_t size)
{
	if (!is_small(size))
		madvise(pages, size, MADV_RANDOM);
}

bool os_pages_forget_in_child(void *pages, size_t size)
{
	return madvise(pages, size, MADV_WIPEONFORK) == 0;
}

void os_pages_unmap(void *pages, size_t size)
{
	if (pages)
		munmap(pages, size);
}

int os_pages_sync(void *pages, size_t size)
{
	return msync(pages, size, MS_SYNC) == 0 ? WEIR_OK : WEIR_EIO;
}

int os_random(void *out, size_t len)
{
	unsigned char *p = out;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return WEIR_EIO;
		p += n;
		len -= (size_t)n;
	}
	return WEIR_OK;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t os_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t os_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_usec * 1000;
}

/* The first two numbers of /proc/self/statm are the virtual and the resident size, in pages. */
struct os_usage os_usage(void)
{
	struct os_usage usage = {0};
	unsigned long size, resident;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct rusage cpu;
	FILE *statm = fopen("/proc/self/statm", "re");

	if (getrusage(RUSAGE_SELF, &cpu) == 0)
		usage.cpu_ns = timeval_ns(&cpu.ru_utime) + timeval_ns(&cpu.ru_stime);
	if (!statm)
		return usage;
	if (fscanf(statm, "%lu %lu", &size, &resident) == 2) {
		usage.virtual_bytes = size * page;
		usage.resident_bytes = resident * page;
	}
	fclose(statm);
	return usage;
}

#if defined(__x86_64__)
#define COUNTER_SOURCE "tsc"

/* Whether the counter runs at a constant rate, whatever the core's frequency and sleep states. */
static bool counter_is_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1 << 8) != 0;
}
#elif defined(__aarch64__)
#define COUNTER_SOURCE "arch_sys_counter"

static bool counter_is_invariant(void)
{
	return true; /* all cores read one counter, which is outside of them */
}
#else
#define COUNTER_SOURCE ""

static bool counter_is_invariant(void)
{
	return false;
}
#endif

/* Whether the system's clock uses the processor's counter, and it runs at a constant rate. */
bool os_trusts_counter(void)
{
	char source[32] = "";
	FILE *file;

	if (!counter_is_invariant())
		return false;
	file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	if (!file)
		return false;
	if (fscanf(file, "%31s", source) != 1)
		source[0] = '\0';
	fclose(file);
	return strcmp(source, COUNTER_SOURCE) == 0;
}

uint64_t os_boot_id(void)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned int a, b, c; /* the first 64 bits of a random UUID */
	uint64_t id = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%8x-%4x-%4x", &a, &b, &c) == 3)
		id = (uint64_t)a << 32 | b << 16 | c;
	fclose(file);
	return id;
}
