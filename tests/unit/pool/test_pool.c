/*
 * The bucket's bound, and that every accepted task is run or returned, once. No
 * test depends on how quickly workers are: tasks wait at a gate where it matters.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/pool.h>

#define MS UINT64_C(1000000)

static weir_pool *open_pool(uint32_t workers, uint32_t bucket)
{
	weir_pool *pool;

	assert_int_equal(weir_pool_open(&(struct weir_pool_options){.workers = workers,
	                                                            .bucket = bucket},
	                                &pool, NULL), WEIR_OK);
	return pool;
}

static struct weir_pool_stats stats_of(weir_pool *pool)
{
	struct weir_pool_stats stats;

	weir_pool_stats(pool, &stats);
	return stats;
}

static void *pass(void *gate)
{
	sem_wait(gate);
	return gate;
}

/* Bucket B, N workers: the (B + N + 1)th unfinished task is refused at once. */
static void test_one_more_than_bucket_and_workers_is_refused(void **context)
{
	static const uint32_t sizes[][2] = {{1, 1}, {1, 5}, {4, 1}, {3, 7}};

	(void)context;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		weir_pool *pool = open_pool(sizes[s][0], sizes[s][1]);
		unsigned bound = sizes[s][0] + sizes[s][1];
		weir_pool_ticket *refused = (weir_pool_ticket *)pool;
		sem_t gate;

		sem_init(&gate, 0, 0);
		for (unsigned i = 0; i < bound; i++)
			assert_int_equal(weir_pool_submit(pool, pass, &gate, NULL), WEIR_OK);
		assert_int_equal(weir_pool_submit(pool, pass, &gate, &refused), WEIR_EFULL);
		assert_null(refused);
		assert_int_equal(stats_of(pool).refused, 1);
		assert_int_equal(stats_of(pool).unfinished, bound);
		for (unsigned i = 0; i < bound; i++)
			sem_post(&gate);
		weir_pool_close(pool);
		sem_destroy(&gate);
	}
}

/* Many times round the ring; whoever waited for a task finds its room free. */
static void test_a_finished_task_leaves_room_for_exactly_one(void **context)
{
	weir_pool *pool = open_pool(1, 3);
	weir_pool_ticket *tickets[5];
	sem_t gate;
	void *result;

	(void)context;
	sem_init(&gate, 0, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(weir_pool_submit(pool, pass, &gate, &tickets[i]), WEIR_OK);
	for (unsigned i = 4; i < 1000; i++) {
		assert_int_equal(weir_pool_submit(pool, pass, &gate, &tickets[4]), WEIR_EFULL);
		sem_post(&gate);
		assert_int_equal(weir_pool_wait(tickets[0], WEIR_FOREVER, &result), WEIR_OK);
		assert_ptr_equal(result, &gate);
		weir_pool_ticket_close(tickets[0]);
		memmove(tickets, tickets + 1, 3 * sizeof *tickets);
		assert_int_equal(weir_pool_submit(pool, pass, &gate, &tickets[3]), WEIR_OK);
	}
	for (unsigned i = 0; i < 4; i++) {
		weir_pool_ticket_close(tickets[i]);
		sem_post(&gate);
	}
	weir_pool_close(pool);
	sem_destroy(&gate);
}

#define SUBMITTERS 4
#define EACH 4000

/* The fate of each task. */
struct fate {
	unsigned accepted, run, returned;
};

struct crowd {
	weir_pool *pool;
	pthread_barrier_t start;
	struct fate fates[SUBMITTERS][EACH];
};

struct submitter {
	struct crowd *crowd;
	struct fate *fates;
	weir_pool_ticket *tickets[EACH];
	unsigned refused;
};

static void *note_run(void *fate)
{
	__atomic_fetch_add(&((struct fate *)fate)->run, 1, __ATOMIC_RELAXED);
	return fate;
}

static void note_returned(void *context, weir_pool_run *run, void *argument)
{
	assert_ptr_equal(run, note_run);
	((struct fate *)argument)->returned++;
	++*(unsigned *)context;
}

static void *submit_all(void *context)
{
	struct submitter *self = context;

	pthread_barrier_wait(&self->crowd->start);
	for (unsigned i = 0; i < EACH; i++) {
		int status = weir_pool_submit(self->crowd->pool, note_run, &self->fates[i],
		                              i % 2 ? &self->tickets[i] : NULL);

		self->fates[i].accepted = status == WEIR_OK;
		self->refused += status == WEIR_EFULL;
		if (status != WEIR_OK && self->tickets[i])
			abort();
	}
	return NULL;
}

static void check_fates(struct submitter *self)
{
	for (unsigned i = 0; i < EACH; i++) {
		struct fate *fate = &self->fates[i];
		void *result = NULL;
		int status;

		assert_int_equal(fate->run + fate->returned, fate->accepted);
		if (!self->tickets[i])
			continue;
		status = weir_pool_wait(self->tickets[i], WEIR_NOW, &result);
		assert_int_equal(status, fate->returned ? WEIR_ESTOPPED : WEIR_OK);
		assert_ptr_equal(result, fate->returned ? NULL : fate);
		weir_pool_ticket_close(self->tickets[i]);
	}
}

/* Submitters meet the stop in their midst, if it comes before they are through. */
static void stop_in_a_crowd(weir_pool_return *give_back, uint32_t bucket, uint64_t stop_at)
{
	struct crowd *crowd = calloc(1, sizeof *crowd);
	struct submitter *submitters = calloc(SUBMITTERS, sizeof *submitters);
	pthread_t threads[SUBMITTERS];
	unsigned returned = 0, refused = 0, accepted = 0;
	struct weir_pool_stats stats;

	crowd->pool = open_pool(3, bucket);
	pthread_barrier_init(&crowd->start, NULL, SUBMITTERS);
	for (unsigned i = 0; i < SUBMITTERS; i++) {
		submitters[i] = (struct submitter){.crowd = crowd, .fates = crowd->fates[i]};
		pthread_create(&threads[i], NULL, submit_all, &submitters[i]);
	}
	do
		stats = stats_of(crowd->pool);
	while (sched_yield() == 0 && stats.accepted + stats.refused < stop_at);
	assert_int_equal(weir_pool_stop(crowd->pool, give_back, &returned), WEIR_OK);
	stats = stats_of(crowd->pool);
	assert_int_equal(stats.unfinished, 0);
	assert_int_equal(stats.returned, returned);
	assert_int_equal(stats.accepted, stats.finished + stats.returned);
	for (unsigned i = 0; i < SUBMITTERS; i++) {
		pthread_join(threads[i], NULL);
		check_fates(&submitters[i]);
		refused += submitters[i].refused;
		for (unsigned t = 0; t < EACH; t++)
			accepted += submitters[i].fates[t].accepted;
	}
	assert_int_equal(stats.accepted, accepted);
	assert_int_equal(stats.refused, refused);
	weir_pool_close(crowd->pool);
	pthread_barrier_destroy(&crowd->start);
	free(submitters);
	free(crowd);
}

static void test_every_accepted_task_runs_once(void **context)
{
	(void)context;
	stop_in_a_crowd(NULL, 16, SUBMITTERS * EACH);
}

static void test_stop_while_submitting_runs_what_was_accepted(void **context)
{
	(void)context;
	stop_in_a_crowd(NULL, SUBMITTERS * EACH, SUBMITTERS * EACH / 2);
}

static void test_stop_while_submitting_runs_or_returns_what_was_accepted(void **context)
{
	(void)context;
	stop_in_a_crowd(note_returned, SUBMITTERS * EACH, SUBMITTERS * EACH / 2);
}

struct line {
	unsigned char tasks[10];
	unsigned back;
	sem_t gate;
};

static void note_order(void *context, weir_pool_run *run, void *argument)
{
	struct line *line = context;

	(void)run;
	assert_ptr_equal(argument, &line->tasks[line->back++]);
	if (line->back == sizeof line->tasks)
		sem_post(&line->gate);
}

static void *stop_running_all(void *pool)
{
	weir_pool_stop(pool, NULL, NULL);
	return NULL;
}

/* One task is at the gate, which opens when those behind it are back. */
static void test_a_stop_returns_in_order_and_cuts_another_short(void **context)
{
	weir_pool *pool = open_pool(1, 10);
	struct line line = {.back = 0};
	struct weir_pool_stats stats;
	pthread_t other;

	(void)context;
	sem_init(&line.gate, 0, 0);
	assert_int_equal(weir_pool_submit(pool, pass, &line.gate, NULL), WEIR_OK);
	while (stats_of(pool).waiting > 0)
		sched_yield();
	for (unsigned i = 0; i < sizeof line.tasks; i++)
		assert_int_equal(weir_pool_submit(pool, pass, &line.tasks[i], NULL), WEIR_OK);
	pthread_create(&other, NULL, stop_running_all, pool);
	while (weir_pool_submit(pool, pass, &line.gate, NULL) != WEIR_ESTOPPED)
		sched_yield();
	assert_int_equal(weir_pool_stop(pool, note_order, &line), WEIR_OK);
	stats = stats_of(pool);
	assert_int_equal(line.back, sizeof line.tasks);
	assert_int_equal(stats.returned, sizeof line.tasks);
	assert_int_equal(stats.finished, 1); /* which it waited for */
	pthread_join(other, NULL);
	weir_pool_close(pool);
	sem_destroy(&line.gate);
}

#define ASKERS 6

struct audience {
	weir_pool *pool;
	weir_pool_ticket *ticket;
	unsigned asked;
};

static void *ask(void *context)
{
	struct audience *audience = context;

	if (__atomic_fetch_add(&audience->asked, 1, __ATOMIC_ACQ_REL) % 2)
		weir_pool_wait(audience->ticket, WEIR_FOREVER, NULL);
	else
		weir_pool_stop(audience->pool, NULL, NULL);
	return NULL;
}

static void test_all_who_wait_for_a_task_or_the_stop_are_told(void **context)
{
	(void)context;
	for (unsigned round = 0; round < 20; round++) {
		struct audience audience = {.pool = open_pool(1, 1)};
		pthread_t threads[ASKERS];
		sem_t gate;

		sem_init(&gate, 0, 0);
		assert_int_equal(weir_pool_submit(audience.pool, pass, &gate, &audience.ticket), WEIR_OK);
		for (unsigned i = 0; i < ASKERS; i++)
			pthread_create(&threads[i], NULL, ask, &audience);
		while (__atomic_load_n(&audience.asked, __ATOMIC_ACQUIRE) < ASKERS)
			sched_yield();
		for (unsigned i = 0; i < 20; i++) /* most of them wait by then */
			sched_yield();
		sem_post(&gate);
		for (unsigned i = 0; i < ASKERS; i++)
			pthread_join(threads[i], NULL);
		weir_pool_ticket_close(audience.ticket);
		weir_pool_close(audience.pool);
		sem_destroy(&gate);
	}
}

struct tree {
	weir_pool *pool;
	unsigned nodes;
	int stop_status;
};

struct node {
	struct tree *tree;
	unsigned depth;
};

/* Runs what is refused itself, so the tree is whole however small the bucket. */
static void *grow(void *argument)
{
	struct node *node = argument;
	struct tree *tree = node->tree;

	__atomic_fetch_add(&tree->nodes, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; node->depth > 0 && i < 2; i++) {
		struct node *child = malloc(sizeof *child);

		*child = (struct node){tree, node->depth - 1};
		if (weir_pool_submit(tree->pool, grow, child, NULL) != WEIR_OK)
			grow(child);
	}
	free(node);
	return NULL;
}

static void test_tasks_submit_tasks(void **context)
{
	struct tree tree = {.pool = open_pool(3, 8)};
	struct node *root = malloc(sizeof *root);

	(void)context;
	*root = (struct node){&tree, 12};
	assert_int_equal(weir_pool_submit(tree.pool, grow, root, NULL), WEIR_OK);
	while (stats_of(tree.pool).unfinished > 0)
		sched_yield();
	assert_int_equal(tree.nodes, (1 << 13) - 1);
	weir_pool_close(tree.pool);
}

static void *stop_own(void *argument)
{
	struct tree *tree = argument;

	tree->stop_status = weir_pool_stop(tree->pool, NULL, NULL);
	return NULL;
}

static void test_a_task_cannot_stop_its_own_pool(void **context)
{
	struct tree tree = {.pool = open_pool(2, 1)};

	(void)context;
	assert_int_equal(weir_pool_submit(tree.pool, stop_own, &tree, NULL), WEIR_OK);
	weir_pool_close(tree.pool);
	assert_int_equal(tree.stop_status, WEIR_EINVAL);
}

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void *wait_for(void *ticket)
{
	void *result = NULL;

	weir_pool_wait(ticket, WEIR_FOREVER, &result);
	return result;
}

static void test_a_wait_ends_at_its_deadline_and_the_task_goes_on(void **context)
{
	weir_pool *pool = open_pool(1, 1);
	weir_pool_ticket *ticket, *forgotten;
	void *result = pool, *others;
	pthread_t other;
	uint64_t before_ns;
	sem_t gate;

	(void)context;
	sem_init(&gate, 0, 0);
	assert_int_equal(weir_pool_submit(pool, pass, &gate, &ticket), WEIR_OK);
	assert_int_equal(weir_pool_submit(pool, pass, &gate, &forgotten), WEIR_OK);
	assert_int_equal(weir_pool_wait(ticket, WEIR_NOW, &result), WEIR_ETIMEDOUT);
	before_ns = clock_of(CLOCK_MONOTONIC);
	assert_int_equal(weir_pool_wait(ticket, clock_of(CLOCK_REALTIME) + 2 * MS, &result), WEIR_ETIMEDOUT);
	assert_true(clock_of(CLOCK_MONOTONIC) - before_ns >= 2 * MS);
	assert_ptr_equal(result, pool);
	weir_pool_ticket_close(forgotten);
	pthread_create(&other, NULL, wait_for, ticket);
	sem_post(&gate);
	sem_post(&gate);
	assert_int_equal(weir_pool_wait(ticket, WEIR_FOREVER, &result), WEIR_OK);
	assert_ptr_equal(result, &gate);
	pthread_join(other, &others);
	assert_ptr_equal(others, &gate);
	weir_pool_close(pool);
	assert_int_equal(weir_pool_wait(ticket, WEIR_NOW, NULL), WEIR_OK);
	weir_pool_ticket_close(ticket);
	sem_destroy(&gate);
}

static void *mask(void *signals)
{
	pthread_sigmask(SIG_SETMASK, NULL, signals);
	return NULL;
}

static void test_workers_leave_signals_to_others_but_see_their_own_faults(void **context)
{
	weir_pool *pool = open_pool(1, 1);
	sigset_t worker, own;

	(void)context;
	assert_int_equal(weir_pool_submit(pool, mask, &worker, NULL), WEIR_OK);
	weir_pool_close(pool);
	mask(&own);
	assert_true(sigismember(&worker, SIGTERM) && !sigismember(&worker, SIGSEGV));
	assert_false(sigismember(&own, SIGTERM));
}

static void test_impossible_options_are_refused_with_the_reason(void **context)
{
	static const struct {
		struct weir_pool_options options;
		int status;
		const char *message;
	} cases[] = {
	    {{.workers = 1025}, WEIR_ERANGE, "workers: expected 1 to 1024, found 1025"},
	    {{.bucket = (1 << 24) + 1}, WEIR_ERANGE, "bucket: expected 1 to 16777216, found 16777217"},
	    {{.rate = {1, 1, WEIR_UNIT_MONTH}}, WEIR_EINVAL, NULL},
	    {{.rate = {1, 400, WEIR_UNIT_DAY}}, WEIR_ERANGE, NULL},
	    {{.reserved = {1}}, WEIR_EINVAL, "reserved: expected 0, found 1"},
	};

	(void)context;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		weir_pool *pool = (weir_pool *)&cases[i];
		struct weir_error error = {0};

		assert_int_equal(weir_pool_open(&cases[i].options, &pool, &error), cases[i].status);
		assert_int_equal(error.status, cases[i].status);
		assert_null(pool);
		if (cases[i].message)
			assert_string_equal(error.message, cases[i].message);
	}
}

static void test_defaults_are_those_documented(void **context)
{
	weir_pool *pool = open_pool(1, 1 << 24);

	(void)context;
	weir_pool_close(pool);
	assert_int_equal(weir_pool_open(NULL, &pool, NULL), WEIR_OK);
	assert_int_equal(stats_of(pool).bucket, 1000);
	assert_int_equal(stats_of(pool).workers, sysconf(_SC_NPROCESSORS_ONLN));
	assert_int_equal(weir_pool_submit(pool, NULL, NULL, NULL), WEIR_EINVAL);
	weir_pool_close(pool);
	weir_pool_close(NULL);
	weir_pool_ticket_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_more_than_bucket_and_workers_is_refused),
	    cmocka_unit_test(test_a_finished_task_leaves_room_for_exactly_one),
	    cmocka_unit_test(test_every_accepted_task_runs_once),
	    cmocka_unit_test(test_stop_while_submitting_runs_what_was_accepted),
	    cmocka_unit_test(test_stop_while_submitting_runs_or_returns_what_was_accepted),
	    cmocka_unit_test(test_a_stop_returns_in_order_and_cuts_another_short),
	    cmocka_unit_test(test_all_who_wait_for_a_task_or_the_stop_are_told),
	    cmocka_unit_test(test_tasks_submit_tasks),
	    cmocka_unit_test(test_a_task_cannot_stop_its_own_pool),
	    cmocka_unit_test(test_a_wait_ends_at_its_deadline_and_the_task_goes_on),
	    cmocka_unit_test(test_workers_leave_signals_to_others_but_see_their_own_faults),
	    cmocka_unit_test(test_impossible_options_are_refused_with_the_reason),
	    cmocka_unit_test(test_defaults_are_those_documented),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
