/*
 * cpu.c: measures how busy the processors are that this process may use, from the files of its
 * control groups (cgroups, version 2 or 1) if these limit its processor time, or from /proc/stat.
 */
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
#define THOUSANDTHS 1000 /* of a whole */

/*
 * How much time the processors have worked and could have worked since a common start. The unit is
 * nanoseconds for a group and ticks for the host; only quotients are used.
 */
struct use {
	uint64_t busy, possible;
};

struct cpu {
	char root[PATH_MAX];
	/* The paths of this process's groups; "" if it has none. */
	char group_v2[PATH_MAX], group_v1[PATH_MAX];
	_Atomic uint64_t last_read_ns;   /* the last reading, monotonic; 0 means never */
	_Atomic uint64_t busy, possible; /* at the last reading */
	_Atomic uint32_t smoothed;       /* the use in millionths, smoothed over readings */
};

/*
 * Reads the short file `root` `directory` `group`/`name` as a text. Returns false if it can't be
 * read or is empty.
 */
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

/* How one version of cgroups presents its groups: their directory, and readers of their files. */
struct group_version {
	const char *directory;
	bool (*read_quota)(const struct cpu *cpu, const char *group, int64_t *quota, int64_t *period);
	bool (*read_usage)(const struct cpu *cpu, const char *group, uint64_t *busy_ns);
};

#define V2_DIRECTORY         "/sys/fs/cgroup"
#define V1_CPU_DIRECTORY     "/sys/fs/cgroup/cpu"
#define V1_CPUACCT_DIRECTORY "/sys/fs/cgroup/cpuacct"

/* A group may use `quota` µs of processor time in each `period` µs. A quota of 0 means no limit. */
static bool read_quota_v2(const struct cpu *cpu, const char *group, int64_t *quota, int64_t *period)
{
	char text[64], *end;

	if (!read_file_text(text, sizeof text, cpu->root, V2_DIRECTORY, group, "cpu.max"))
		return false;
	*quota = strtoll(text, &end, 10); /* 0 for the text "max" */
	*period = strtoll(end, NULL, 10);
	return true;
}

static bool read_usage_v2(const struct cpu *cpu, const char *group, uint64_t *busy_ns)
{
	static const char name[] = "usage_usec ";
	char text[1024];
	const char *at;

	if (!read_file_text(text, sizeof text, cpu->root, V2_DIRECTORY, group, "cpu.stat"))
		return false;
	at = strstr(text, name);
	*busy_ns = at ? strtoull(at + sizeof name - 1, NULL, 10) * 1000 : 0;
	return at != NULL;
}

static bool read_quota_v1(const struct cpu *cpu, const char *group, int64_t *quota, int64_t *period)
{
	return read_file_number(cpu, V1_CPU_DIRECTORY, group, "cpu.cfs_quota_us",
	                        quota) && /* -1 means no quota */
	       read_file_number(cpu, V1_CPU_DIRECTORY, group, "cpu.cfs_period_us", period);
}

static bool read_usage_v1(const struct cpu *cpu, const char *group, uint64_t *busy_ns)
{
	int64_t value = 0;
	bool found = read_file_number(cpu, V1_CPUACCT_DIRECTORY, group, "cpuacct.usage", &value);

	*busy_ns = (uint64_t)value;
	return found;
}

static const struct group_version group_versions[] = {
    {V2_DIRECTORY, read_quota_v2, read_usage_v2}, {V1_CPU_DIRECTORY, read_quota_v1, read_usage_v1}};

/*
 * Finds the group with the least quota, from the process's own up to the root. Returns false if
 * none has a quota.
 */
static bool find_quota(const struct cpu *cpu, const struct group_version *version, const char *own,
                       char group[PATH_MAX], int64_t *quota, int64_t *period)
{
	char path[PATH_MAX];
	bool found = false;
	char *end = path + strlen(own);

	memcpy(path, own, strlen(own) + 1);
	for (;;) {
		int64_t q, p;
		bool has_quota = version->read_quota(cpu, path, &q, &p) && q > 0 && p > 0;

		if (has_quota && (!found || (__int128)q * *period < (__int128)*quota * p)) {
			found = true;
			*quota = q;
			*period = p;
			memcpy(group, path, sizeof path);
		}
		if (end == path)
			return found;
		while (end > path && *--end != '/') /* the parent group */
			;
		*end = '\0';
	}
}

/* Reads the use of the group whose quota is the least. Returns false if no group has a quota. */
static bool read_group_use(const struct cpu *cpu, uint64_t now_ns, struct use *use)
{
	const char *own[] = {cpu->group_v2, cpu->group_v1};

	for (size_t i = 0; i < sizeof group_versions / sizeof *group_versions; i++) {
		char group[PATH_MAX];
		int64_t quota = 0, period = 1;

		if (!find_quota(cpu, &group_versions[i], own[i], group, &quota, &period) ||
		    !group_versions[i].read_usage(cpu, group, &use->busy))
			continue;
		use->possible = (uint64_t)((u128)now_ns * (uint64_t)quota / (uint64_t)period);
		return true;
	}
	return false;
}

/* The first line of /proc/stat is "cpu  user nice system idle iowait irq softirq steal …". */
static bool read_host_use(const struct cpu *cpu, struct use *use)
{
	char text[256], *at = text + sizeof "cpu" - 1;

	*use = (struct use){0, 0};
	if (!read_file_text(text, sizeof text, cpu->root, "/proc", "", "stat") ||
	    strncmp(text, "cpu ", 4))
		return false;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t ticks = strtoull(at, &at, 10);

		use->possible += ticks;
		use->busy += i == 3 || i == 4 ? 0 : ticks; /* idle and iowait are not busy */
	}
	return true;
}

/*
 * Parses a line of /proc/self/cgroup: "0::/a/b" has the group of version 2, "4:cpu,cpuacct:/a" that
 * of the `cpu` controller of version 1. Other lines are ignored.
 */
static void parse_group_line(struct cpu *cpu, const char *line)
{
	const char *controllers = strchr(line, ':');
	const char *path = controllers ? strchr(controllers + 1, ':') : NULL;
	bool is_v2 = line[0] == '0' && controllers == line + 1 && path == controllers + 1;
	char padded[64];

	if (!path || strlen(path + 1) >= PATH_MAX)
		return;
	snprintf(padded, sizeof padded, ",%.*s,", (int)(path - controllers - 1), controllers + 1);
	if (is_v2 || strstr(padded, ",cpu,"))
		strcpy(is_v2 ? cpu->group_v2 : cpu->group_v1, strcmp(path + 1, "/") ? path + 1 : "");
}

static void find_own_groups(struct cpu *cpu)
{
	char text[8 * PATH_MAX];
	char *line, *rest = text;

	if (!read_file_text(text, sizeof text, cpu->root, "/proc/self", "", "cgroup"))
		return;
	while ((line = strsep(&rest, "\n")))
		parse_group_line(cpu, line);
}

/*
 * Makes the path of a group empty if its directory is missing: in a container the path may be the
 * host's, of which the container sees only the end.
 */
static void clear_missing_group(struct cpu *cpu, char *group, const char *directory)
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
	find_own_groups(cpu);
	clear_missing_group(cpu, cpu->group_v2, V2_DIRECTORY);
	clear_missing_group(cpu, cpu->group_v1, V1_CPU_DIRECTORY);
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

/*
 * Reads the use since the last reading, and smooths it. One thread in each interval gets here: the
 * one that has set cpu->last_read_ns. A thread that stalls here may spoil one reading of the next.
 */
static void update_use(struct cpu *cpu, bool is_first, uint64_t now_ns)
{
	uint64_t busy = atomic_load_explicit(&cpu->busy, memory_order_relaxed);
	uint64_t possible = atomic_load_explicit(&cpu->possible, memory_order_relaxed);
	uint32_t smoothed = atomic_load_explicit(&cpu->smoothed, memory_order_relaxed);
	uint64_t thousandths;
	struct use use;

	if (!read_group_use(cpu, now_ns, &use) && !read_host_use(cpu, &use))
		return;
	atomic_store_explicit(&cpu->busy, use.busy, memory_order_relaxed);
	atomic_store_explicit(&cpu->possible, use.possible, memory_order_relaxed);
	if (is_first || use.busy < busy || use.possible <= possible) /* moved to another group */
		return;
	thousandths = (use.busy - busy) * THOUSANDTHS / (use.possible - possible);
	smoothed = cpu_smooth(smoothed, (unsigned)u64_min(thousandths, THOUSANDTHS));
	atomic_store_explicit(&cpu->smoothed, smoothed, memory_order_relaxed);
}

uint32_t cpu_smoothed_at(struct cpu *cpu, uint64_t monotonic_ns)
{
	uint64_t before = atomic_load_explicit(&cpu->last_read_ns, memory_order_relaxed);

	if ((before == 0 || monotonic_ns - before >= INTERVAL_NS) &&
	    atomic_compare_exchange_strong(&cpu->last_read_ns, &before, monotonic_ns))
		update_use(cpu, before == 0, monotonic_ns);
	return atomic_load_explicit(&cpu->smoothed, memory_order_relaxed);
}

uint32_t cpu_smoothed(struct cpu *cpu)
{
	return cpu_smoothed_at(cpu, os_monotonic_ns());
}
