/*
 * dearest: measures the longest call of each algorithm.
 *
 * Each call of the library is made on keys that are full, which have 10,000 records where the
 * algorithm lets them. A call runs in processes of its own, which begin with the same state; the
 * shortest of ROUNDS times counts, in processor time. It contains the copying of the pages that the
 * call changes.
 *
 * Prints `dearest_ALGORITHM value us`, and on standard error which call that is.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/unit/store/every_call.h"
#include "measure.h"

#define ROUNDS 5

/* Shared with the process that makes the call. */
static struct {
	uint64_t started_ns, ns;
} * result;

static struct {
	uint64_t ns;
	const char *call;
	char state[64];
} dearest;

static void start(void)
{
	result->started_ns = measure_now_ns();
}

static uint64_t time_of(size_t call)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		start();
		calls[call].make(calls[call].number);
		result->ns = measure_now_ns() - result->started_ns;
		_exit(0);
	}
	must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	return result->ns;
}

static void visit(size_t call, const char *state)
{
	uint64_t least_ns = time_of(call);

	for (int round = 1; round < ROUNDS && least_ns > dearest.ns; round++)
		least_ns = u64_min(least_ns, time_of(call));
	if (least_ns <= dearest.ns)
		return;
	dearest.ns = least_ns;
	dearest.call = calls[call].name;
	snprintf(dearest.state, sizeof dearest.state, "%s", state);
}

int main(void)
{
	const struct algorithm *algorithm;

	full.start = start;
	result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED)
		return 1;
	for (size_t i = 0; (algorithm = algorithm_listed(i)); i++) {
		dearest.ns = 0;
		every_call(algorithm, visit);
		printf("dearest_%s %.1f us\n", algorithm->name, (double)dearest.ns / 1000);
		fflush(stdout);
		fprintf(stderr, "%s: %s, %s\n", algorithm->name, dearest.call, dearest.state);
	}
	return 0;
}
