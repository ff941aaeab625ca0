/* cpu.c: reads the use of processors from control groups (version 2 or 1) or from /proc/stat. */
#include "base/os/cpu.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/os/os.h"
#include "base/time/clock.h"

#define INTERVAL_NS (500 * NS_PER_MS)
#define FULL        1000 /* thousandths */

/*
 * How much time the processors have worked and could have worked since a common start. The unit is
 * nanoseconds for a group and ticks for the host; only quotients are used.
 */
struct use {
	uint64_t busy, possible;
};

struct cpu {
	char root[PATH_MAX];
	char group[PATH_MAX], group1[PATH_MAX]; /* this process's, of version 2 and 1, or "" for none */
	_Atomic uint64_t read_ns;               /* the last reading, monotonic; 0 means never */
	_Atomic uint64_t busy, possible;        /* at the last reading */
	_Atomic uint32_t smoothed;
};

/* Reads a short file as a text. Returns false if it can't be read or is empty. */
static bool read_file_text(char *text, size_t size, const char *root, const char *directory,
                           const char *group, const char *name)
{
	char path[3 * PATH_MAX + 64];
	ssize_t len;
	int fd;

	snprintf(path, sizeof path, "%s%s%s/%s", root, directory, group, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, size - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len > 0;
}

static bool read_file_number(const struct cpu *cpu, const char *directory, const char *group,
                             const char *name, int64_t *out)
{
	char text[32];

	if (!read_file_text(text, sizeof text, cpu->root, directory, group, name))
		return false;
	*out = strtoll(text, NULL, 10);
	return true;
}

/* The directory of a version's groups, and the readers of their files. */
struct version {
	const char *directory;
	bool (*quota)(const struct cpu *cpu, const char *group, int64_t *quota, int64_t *period);
	bool (*usage)(const struct cpu *cpu, const char *group, uint64_t *busy_ns);
};

#define UNIFIED "/sys/fs/cgroup"
#define CPU     "/sys/fs/cgroup/cpu"
#define CPUACCT "/sys/fs/cgroup/cpuacct"

static bool quota_of_2(const struct cpu *cpu, const char *group, int64_t *quota, int64_t *period)
{
	char text[64], *end;

	if (!read_file_text(text, sizeof text, cpu->root, UNIFIED, group, "cpu.max"))
		return false;
	*quota = strtoll(text, &end, 10); /* "max": 0 */
	*period = strtoll(end, NULL, 10);
	return true;
}

static bool usage_of_2(const struct cpu *cpu, const char *group, uint64_t *busy_ns)
{
	static const char name[] = "usage_usec ";
	char text[1024];
	const char *at;

	if (!read_file_text(text, sizeof text, cpu->root, UNIFIED, group, "cpu.stat"))
		return false;
	at = strstr(text, name);
	*busy_ns = at ? strtoull(at + sizeof name - 1, NULL, 10) * 1000 : 0;
	return at != NULL;
}

static bool quota_of_1(const struct cpu *cpu, const char *group, int64_t *quota, int64_t *period)
{
	return read_file_number(cpu, CPU, group, "cpu.cfs_quota_us", quota) && /* -1 means no quota */
	       read_file_number(cpu, CPU, group, "cpu.cfs_period_us", period);
}

static bool usage_of_1(const struct cpu *cpu, const char *group, uint64_t *busy_ns)
{
	int64_t value = 0;
	bool found = read_file_number(cpu, CPUACCT, group, "cpuacct.usage", &value);

	*busy_ns = (uint64_t)value;
	return found;
}

static const struct version versions[] = {{UNIFIED, quota_of_2, usage_of_2},
                                          {CPU, quota_of_1, usage_of_1}};

/*
 * Finds the group with the least quota, from the process's own up to the root. Returns false if
 * none has a quota.
 */
static bool find_quota(const struct cpu *cpu, const struct version *version, const char *own,
                       char group[PATH_MAX], int64_t *quota, int64_t *period)
{
	char at[PATH_MAX];
	bool found = false;
	char *end = at + strlen(own);

	memcpy(at, own, strlen(own) + 1);
	for (;;) {
		int64_t q, p;

		if (version->quota(cpu, at, &q, &p) && q > 0 && p > 0 &&
		    (!found || (__int128)q * *period < (__int128)*quota * p)) {
			found = true;
			*quota = q;
			*period = p;
			memcpy(group, at, sizeof at);
		}
		if (end == at)
			return found;
		while (end > at && *--end != '/')
			;
		*end = '\0';
	}
}

static bool use_of_group(const struct cpu *cpu, uint64_t now_ns, struct use *use)
{
	const char *own[] = {cpu->group, cpu->group1};

	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		char group[PATH_MAX];
		int64_t quota = 0, period = 1;

		if (!find_quota(cpu, &versions[i], own[i], group, &quota, &period) ||
		    !versions[i].usage(cpu, group, &use->busy))
			continue;
		use->possible = (uint64_t)((u128)now_ns * (uint64_t)quota / (uint64_t)period);
		return true;
	}
	return false;
}

/* The first line of /proc/stat is "cpu  user nice system idle iowait irq softirq steal …". */
static bool use_of_host(const struct cpu *cpu, struct use *use)
{
	char text[256], *at = text + sizeof "cpu" - 1;

	*use = (struct use){0, 0};
	if (!read_file_text(text, sizeof text, cpu->root, "/proc", "", "stat") ||
	    strncmp(text, "cpu ", 4))
		return false;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t ticks = strtoull(at, &at, 10);

		use->possible += ticks;
		use->busy += i == 3 || i == 4 ? 0 : ticks;
	}
	return true;
}

/* Finds each version's line in /proc/self/cgroup, such as "0::/a/b" (2) or "4:cpu,cpuacct:/a" (1).
 */
static void find_groups(struct cpu *cpu)
{
	char text[8 * PATH_MAX];
	char *line, *rest = text;

	if (!read_file_text(text, sizeof text, cpu->root, "/proc/self", "", "cgroup"))
		return;
	while ((line = strsep(&rest, "\n"))) {
		char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
		bool first = line[0] == '0' && controllers == line + 1 && path == controllers + 1;
		char padded[64];

		if (!path || strlen(path + 1) >= PATH_MAX)
			continue;
		snprintf(padded, sizeof padded, ",%.*s,", (int)(path - controllers - 1), controllers + 1);
		if (first || strstr(padded, ",cpu,"))
			strcpy(first ? cpu->group : cpu->group1, strcmp(path + 1, "/") ? path + 1 : "");
	}
}

/*
 * Forgets a group whose directory is missing: in a container its path may be one of the host, of
 * which the container sees only the end.
 */
static void drop_missing(struct cpu *cpu, char *group, const char *directory)
{
	char path[3 * PATH_MAX];

	snprintf(path, sizeof path, "%s%s%s", cpu->root, directory, group);
	if (access(path, R_OK) != 0)
		group[0] = '\0';
}

struct cpu *cpu_open(const char *root)
{
	struct cpu *cpu = calloc(1, sizeof *cpu);

	if (!cpu)
		return NULL;
	snprintf(cpu->root, sizeof cpu->root, "%s", root);
	find_groups(cpu);
	drop_missing(cpu, cpu->group, UNIFIED);
	drop_missing(cpu, cpu->group1, CPU);
	return cpu;
}

void cpu_close(struct cpu *cpu)
{
	free(cpu);
}

uint32_t cpu_smooth(uint32_t smoothed, unsigned thousandths)
{
	return (uint32_t)((95 * (uint64_t)smoothed + UINT64_C(5) * 1000 * thousandths) / 100);
}

/* Only one thread at a time gets here: the one that has set cpu->read_ns. */
static void update_use(struct cpu *cpu, bool is_first, uint64_t now_ns)
{
	uint64_t busy = atomic_load_explicit(&cpu->busy, memory_order_relaxed);
	uint64_t possible = atomic_load_explicit(&cpu->possible, memory_order_relaxed);
	uint32_t smoothed = atomic_load_explicit(&cpu->smoothed, memory_order_relaxed);
	struct use use;

	if (!use_of_group(cpu, now_ns, &use) && !use_of_host(cpu, &use))
		return;
	atomic_store_explicit(&cpu->busy, use.busy, memory_order_relaxed);
	atomic_store_explicit(&cpu->possible, use.possible, memory_order_relaxed);
	if (is_first || use.busy < busy ||
	    use.possible <= possible) /* or it was moved to another group */
		return;
	smoothed = cpu_smooth(
	    smoothed, (unsigned)u64_min((use.busy - busy) * FULL / (use.possible - possible), FULL));
	atomic_store_explicit(&cpu->smoothed, smoothed, memory_order_relaxed);
}

uint32_t cpu_smoothed_at(struct cpu *cpu, uint64_t monotonic_ns)
{
	uint64_t before = atomic_load_explicit(&cpu->read_ns, memory_order_relaxed);

	if ((before == 0 || monotonic_ns - before >= INTERVAL_NS) &&
	    atomic_compare_exchange_strong(&cpu->read_ns, &before, monotonic_ns))
		update_use(cpu, before == 0, monotonic_ns);
	return atomic_load_explicit(&cpu->smoothed, memory_order_relaxed);
}

uint32_t cpu_smoothed(struct cpu *cpu)
{
	return cpu_smoothed_at(cpu, os_monotonic_ns());
}
