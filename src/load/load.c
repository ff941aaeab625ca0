/*
 * load.c: runs a load test for `weir bench`: starts the threads that send requests (runner.h), ends
 * them on a signal, measures CPU time, and adds up their results.
 */
#include "load/load.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "load/runner.h"

#define START_DELAY (10 * NS_PER_MS) /* time for the threads to start before the first request */

/*
 * The CPU time of a process, user and system, including threads that have ended. The kernel's
 * clock counts nanoseconds; /proc would round to ticks.
 */
static uint64_t process_cpu_ns(pid_t pid)
{
	struct timespec t = {0};
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) == 0)
		clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The main thread waits for signals, and for the eventfd to which each runner adds 1 at its end. */
struct runner_wait {
	struct pollfd signals, done;
	size_t running_count;
};

/* Waits until `until_ns`, or until no runner is left. A signal stops the runners. */
static void wait_for_runners(struct runner_wait *test, struct runner_plan *plan, uint64_t until_ns,
                             struct load_result *result)
{
	uint64_t now;

	while (test->running_count > 0 && (now = os_monotonic_ns()) < until_ns) {
		struct pollfd fds[] = {test->signals, test->done};
		uint64_t left = until_ns - now;
		struct timespec timeout = {(time_t)(left / NS_PER_S), (long)(left % NS_PER_S)};
		struct signalfd_siginfo signal_info;
		eventfd_t ended_count;

		if (ppoll(fds, 2, until_ns == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
			continue;
		if (fds[0].revents && read(fds[0].fd, &signal_info, sizeof signal_info) > 0) {
			result->interrupted = true;
			atomic_store_explicit(&plan->stop, true, memory_order_relaxed);
		}
		if (fds[1].revents && eventfd_read(fds[1].fd, &ended_count) == 0)
			test->running_count -= ended_count;
	}
}

/* Adds all counts; struct load_counts has members of type uint64_t alone. */
static void add_counts(struct load_counts *to, const struct load_counts *from)
{
	for (size_t i = 0; i < sizeof *to / sizeof(uint64_t); i++)
		((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
}

static void add_runner_result(const struct runner *runner, struct load_result *result)
{
	const struct runner_plan *plan = runner->plan;

	add_counts(&result->counts, &runner->counts);
	histogram_add(&result->latency, &runner->latency);
	histogram_add(&result->from_send, &runner->from_send);
	result->elapsed_ns =
	    u64_max(result->elapsed_ns, sat_sub(runner->last_reply_ns, plan->measure_ns));
	if (result->first_error[0] == '\0')
		memcpy(result->first_error, runner->first_error, sizeof result->first_error);
}

/* Plans the times of the test and starts the threads; test->running_count counts those started. */
static int start_runners(struct runner *runners, struct runner_plan *plan, struct runner_wait *test,
                         struct weir_error *error)
{
	const struct load_options *options = plan->options;

	plan->start_ns = os_monotonic_ns() + START_DELAY;
	plan->measure_ns = plan->start_ns + options->warmup_ns;
	plan->end_ns = options->requests > 0 ? UINT64_MAX : plan->measure_ns + options->duration_ns;
	for (; test->running_count < options->threads; test->running_count++) {
		struct runner *runner = &runners[test->running_count];

		if (pthread_create(&runner->thread, NULL, runner_run, runner) != 0)
			return error_set(error, WEIR_EIO, "can't start thread %zu", test->running_count + 1);
	}
	return WEIR_OK;
}

/* Starts the threads, measures CPU time from the end of the warm-up, and adds up the results. */
static int run_threads(struct runner *runners, struct runner_plan *plan, int signals,
                       struct load_result *result, struct weir_error *error)
{
	const struct load_options *options = plan->options;
	struct runner_wait test = {{signals, POLLIN, 0}, {plan->done, POLLIN, 0}, 0};
	int status = start_runners(runners, plan, &test, error);
	size_t started = test.running_count;

	if (status == WEIR_OK) {
		/* Read CPU time shortly before the first measured request; the differences count. */
		wait_for_runners(&test, plan, plan->measure_ns - NS_PER_MS, result);
		result->client_cpu_ns = -process_cpu_ns(0);
		result->server_cpu_ns = -process_cpu_ns(options->server_pid);
	} else {
		atomic_store_explicit(&plan->stop, true, memory_order_relaxed);
	}
	wait_for_runners(&test, plan, UINT64_MAX, result);
	result->client_cpu_ns += process_cpu_ns(0);
	result->server_cpu_ns += process_cpu_ns(options->server_pid);
	for (size_t i = 0; i < started; i++) {
		pthread_join(runners[i].thread, NULL);
		add_runner_result(&runners[i], result);
	}
	return status;
}

/*
 * Opens all connections before the first request. The signals are blocked in all threads and read
 * from a descriptor.
 */
int load_run(const struct load_options *options, struct load_result *result,
             struct weir_error *error)
{
	struct runner_plan plan = {.options = options, .done = eventfd(0, EFD_CLOEXEC)};
	struct runner *runners = calloc(options->threads, sizeof *runners);
	int signals, status = WEIR_OK;
	size_t opened = 0;
	sigset_t ending_signals;

	memset(result, 0, sizeof *result);
	sigemptyset(&ending_signals);
	sigaddset(&ending_signals, SIGINT);
	sigaddset(&ending_signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ending_signals, NULL);
	signals = signalfd(-1, &ending_signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (!runners || plan.done < 0 || signals < 0)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	while (status == WEIR_OK && opened < options->threads) {
		status = runner_open(&runners[opened], &plan, opened, error);
		opened++;
	}
	if (status == WEIR_OK)
		status = run_threads(runners, &plan, signals, result, error);
	while (opened > 0)
		runner_close(&runners[--opened]);
	free(runners);
	close(signals);
	close(plan.done);
	return status;
}
