/* How busy processors are, by control groups and a /proc that a test has made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/cpu.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

static char root[64];

/* A file below the root, its directories made as needed. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof full, "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0700);
		*at = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int begin(void **unused)
{
	(void)unused;
	strcpy(root, "/tmp/weir-cpu-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int end(void **unused)
{
	char command[128];

	(void)unused;
	snprintf(command, sizeof command, "rm -r %s", root);
	return system(command);
}

/* After half a second in which a file has come to say something else; in thousandths, not smoothed. */
static unsigned share(const char *path, const char *before, const char *after)
{
	struct cpu *cpu;
	uint32_t smoothed;

	put(path, before);
	cpu = cpu_open(root);
	assert_non_null(cpu);
	assert_int_equal(cpu_smoothed_at(cpu, S), 0);
	put(path, after);
	assert_int_equal(cpu_smoothed_at(cpu, S + 500 * MS - 1), 0); /* too early to read again */
	smoothed = cpu_smoothed_at(cpu, S + 500 * MS);
	cpu_close(cpu);
	return smoothed / 50;
}

/* One of two processors was at work: 500 ms of a second. */
#define STAT2 "/sys/fs/cgroup/a/b/cpu.stat"

static void a_group_of_version_2_has_its_quota(void **unused)
{
	(void)unused;
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
	put("/proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\n");
	assert_int_equal(share(STAT2, "usage_usec 1000000\nuser_usec 1\n", "usage_usec 1500000\n"), 500);
}

static void the_least_quota_of_the_parents_counts_with_its_own_use(void **unused)
{
	(void)unused;
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
	put(STAT2, "usage_usec 5\n");
	assert_int_equal(share("/sys/fs/cgroup/a/cpu.stat", "usage_usec 0\n", "usage_usec 200000\n"), 800);
}

static void a_group_of_version_1_has_its_quota(void **unused)
{
	(void)unused;
	put("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/c\n0::/\n");
	put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
	assert_int_equal(share("/sys/fs/cgroup/cpuacct/c/cpuacct.usage", "7000000000\n", "7450000000\n"),
	                 900);
}

static void a_path_of_the_host_is_the_container_s_root(void **unused)
{
	(void)unused;
	put("/proc/self/cgroup", "4:cpu:/docker/0123\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(share("/sys/fs/cgroup/cpuacct/cpuacct.usage", "0\n", "250000000\n"), 500);
}

static void without_a_quota_the_host_counts(void **unused)
{
	(void)unused;
	put("/proc/self/cgroup", "4:cpu:/\n0::/\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(share("/proc/stat", "cpu  10 0 10 100 10 0 0 0 0 0\ncpu0 1\n",
	                       "cpu  50 0 30 120 20 5 5 0 0 0\ncpu0 1\n"),
	                 700);
}

static void without_any_of_these_processors_are_idle(void **unused)
{
	(void)unused;
	assert_int_equal(share("/proc/self/cgroup", "garbage\n::\n0::\n", "9\n"), 0);
}

static void it_is_smoothed_by_a_twentieth_each_time(void **unused)
{
	struct cpu *cpu;
	uint32_t smoothed = 0;
	char text[64];

	(void)unused;
	put("/proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n");
	cpu = cpu_open(root);
	for (unsigned i = 0; i <= 32; i++) {
		assert_true(smoothed < 800000);
		snprintf(text, sizeof text, "cpu  %u 0 0 0 0 0 0 0 0 0\n", 50 * i);
		put("/proc/stat", text);
		smoothed = cpu_smoothed_at(cpu, S + i * 500 * MS);
	}
	assert_in_range(smoothed, 800000, 820000); /* busy for 16 s is hot */
	cpu_close(cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_group_of_version_2_has_its_quota, begin, end),
	    cmocka_unit_test_setup_teardown(the_least_quota_of_the_parents_counts_with_its_own_use, begin,
	                                    end),
	    cmocka_unit_test_setup_teardown(a_group_of_version_1_has_its_quota, begin, end),
	    cmocka_unit_test_setup_teardown(a_path_of_the_host_is_the_container_s_root, begin, end),
	    cmocka_unit_test_setup_teardown(without_a_quota_the_host_counts, begin, end),
	    cmocka_unit_test_setup_teardown(without_any_of_these_processors_are_idle, begin, end),
	    cmocka_unit_test_setup_teardown(it_is_smoothed_by_a_twentieth_each_time, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
