/* Queues of waiters against a model of them; what a fork leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "wait/waitlist.h"

#define WAITERS 64
#define KEYS    24  /* so many that queues end and begin again all the time, ... */
#define APART   512 /* ... of two buckets */

struct person {
	struct waiter waiter; /* first */
	unsigned woken;
	bool waits;
};

static void wake(struct waiter *waiter)
{
	((struct person *)waiter)->woken++;
}

static void test_the_first_tries_and_whoever_becomes_it_is_woken(void **state)
{
	struct person a = {{.hash = 7, .wake = wake}}, b = a, c = a;
	struct waitlist *list = NULL;

	(void)state;
	assert_non_null(waitlist_get_or_make(&list));
	assert_ptr_equal(waitlist_get_or_make(&list), waitlist_at(&list));
	assert_int_equal(waitlist_join(list, &a.waiter, 2), WAITLIST_FIRST);
	assert_int_equal(waitlist_join(list, &b.waiter, 2), WAITLIST_BEHIND);
	assert_int_equal(waitlist_join(list, &c.waiter, 2), WAITLIST_FULL);
	assert_int_equal(waitlist_count(list), 2);
	waitlist_wake(&list, 7);
	waitlist_wake(&list, 8);
	assert_int_equal(a.woken, 1);
	assert_int_equal(b.woken, 0);
	waitlist_leave(list, &a.waiter);
	assert_int_equal(b.woken, 1);
	assert_true(waitlist_has(list, 7));
	assert_false(waitlist_has(list, 8));
	waitlist_leave(list, &b.waiter);
	assert_false(waitlist_has(list, 7));
	waitlist_close(list);
	list = NULL;
	assert_false(waitlist_has(list, 7));
	waitlist_wake(&list, 7);
}

static void test_a_full_queue_drops_the_newest_of_the_lowest(void **state)
{
	struct person people[7] = {0}, *waiting[] = {&people[0], &people[2], &people[4], &people[6]};
	static const uint8_t priorities[] = {9, 9, 0, 9, 5, 9, 0};
	struct waitlist *list = NULL;

	(void)state;
	waitlist_get_or_make(&list);
	for (int i = 0; i < 7; i++)
		people[i].waiter = (struct waiter){.hash = 7, .wake = wake, .priority = priorities[i]};
	for (int i = 0; i < 4; i++)
		waitlist_join(list, &people[i].waiter, 4);
	assert_int_equal(waitlist_join(list, &people[4].waiter, 4), WAITLIST_BEHIND);
	assert_true(people[3].waiter.is_dropped && people[3].woken == 1);
	assert_int_equal(waitlist_join(list, &people[5].waiter, 4), WAITLIST_FULL); /* none is lower */
	assert_int_equal(waitlist_join(list, &people[6].waiter, 4), WAITLIST_BEHIND);
	assert_true(people[1].waiter.is_dropped && people[1].woken == 1);
	assert_int_equal(waitlist_count(list), 4);
	waitlist_leave(list, &people[3].waiter);
	assert_int_equal(waitlist_count(list), 4);
	for (int i = 0; i < 4; i++) { /* they are served in the order in which they came */
		assert_int_equal(waiting[i]->woken, i > 0);
		waitlist_leave(list, &waiting[i]->waiter);
	}
	waitlist_close(list);
}

/* The newcomer does not get its place: the waiter behind it becomes the first. */
static void test_the_first_is_dropped_too(void **state)
{
	struct person low = {{.hash = 7, .wake = wake, .priority = 1}}, behind = {{.hash = 7, .wake = wake}};
	struct person high = behind, last = behind;
	struct waitlist *list = NULL;

	(void)state;
	waitlist_get_or_make(&list);
	waitlist_join(list, &low.waiter, 2);
	waitlist_join(list, &behind.waiter, 2);
	assert_int_equal(waitlist_join(list, &high.waiter, 2), WAITLIST_BEHIND);
	assert_true(low.waiter.is_dropped && behind.woken == 1 && high.woken == 0);
	assert_int_equal(waitlist_join(list, &last.waiter, 2), WAITLIST_FULL);
	waitlist_leave(list, &behind.waiter);
	waitlist_leave(list, &high.waiter);
	assert_int_equal(waitlist_join(list, &low.waiter, 1), WAITLIST_FIRST);
	assert_int_equal(waitlist_join(list, &last.waiter, 1), WAITLIST_FIRST);
	assert_true(low.waiter.is_dropped && last.woken == 0);
	waitlist_close(list);
}

#define THREADS 4
#define TIMES   20000
#define MOST    3

static struct waitlist *shared;
static size_t dropped_ones;

static void count_drop(struct waiter *waiter)
{
	if (waiter->is_dropped)
		__atomic_fetch_add(&dropped_ones, 1, __ATOMIC_RELAXED);
}

/* Each thread has one more waiter than may wait. */
static void *come_and_go(void *number)
{
	struct waiter waiters[MOST + 1] = {0};
	unsigned seed = (unsigned)(uintptr_t)number;
	bool joined[MOST + 1] = {false};

	for (int i = 0; i < TIMES; i++) {
		size_t w = (size_t)rand_r(&seed) % (MOST + 1);

		if (joined[w])
			waitlist_leave(shared, &waiters[w]);
		waiters[w] = (struct waiter){
		    .hash = 7, .wake = count_drop, .priority = (uint8_t)(rand_r(&seed) % 10)};
		joined[w] = waitlist_join(shared, &waiters[w], MOST) != WAITLIST_FULL;
		waitlist_wake(&shared, 7);
		assert_in_range(waitlist_count(shared), 0, MOST + THREADS); /* counted before they leave */
	}
	for (size_t w = 0; w <= MOST; w++)
		if (joined[w])
			waitlist_leave(shared, &waiters[w]);
	return NULL;
}

static void test_threads_that_drop_each_other_leave_nobody(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	waitlist_get_or_make(&shared);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(waitlist_count(shared), 0);
	assert_false(waitlist_has(shared, 7));
	assert_true(dropped_ones > 0);
	waitlist_close(shared);
}

/* The queues as arrays. */
struct model {
	struct person *queue[KEYS][WAITERS];
	size_t count[KEYS];
};

static void model_poke(struct model *model, size_t key)
{
	if (model->count[key] > 0)
		model->queue[key][0]->woken--;
}

/* How many may wait for a key. */
static size_t model_max(size_t key)
{
	return key % 5 ? 1 + key : WAITERS;
}

/* The place of the newest of the lowest priority, if that is below the person's; or the count. */
static size_t model_victim(const struct model *model, size_t key, const struct person *person)
{
	size_t found = model->count[key];
	unsigned lowest = person->waiter.priority + 1u;

	for (size_t i = 0; i < model->count[key]; i++)
		if (model->queue[key][i]->waiter.priority >= lowest) {
			lowest = model->queue[key][i]->waiter.priority;
			found = i;
		}
	return found;
}

static void model_leave(struct model *model, size_t key, struct person *person);

static enum waitlist_joined model_join(struct model *model, size_t key, struct person *person)
{
	if (model->count[key] >= model_max(key)) {
		size_t victim = model_victim(model, key, person);
		struct person *dropped;

		if (victim == model->count[key])
			return WAITLIST_FULL;
		dropped = model->queue[key][victim];
		model_leave(model, key, dropped);
		dropped->woken--;
		assert_true(dropped->waiter.is_dropped);
		dropped->waits = false;
	}
	model->queue[key][model->count[key]++] = person;
	return model->count[key] == 1 ? WAITLIST_FIRST : WAITLIST_BEHIND;
}

static void model_leave(struct model *model, size_t key, struct person *person)
{
	struct person **queue = model->queue[key];
	size_t i = 0;

	while (queue[i] != person)
		i++;
	memmove(queue + i, queue + i + 1, (--model->count[key] - i) * sizeof *queue);
	if (i == 0)
		model_poke(model, key);
}

static void test_queues_are_those_of_a_model(void **state)
{
	struct person people[WAITERS] = {0};
	struct model model = {0};
	struct waitlist *list = NULL;
	unsigned seed = (unsigned)time(NULL);

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	waitlist_get_or_make(&list);
	for (int step = 0; step < 20000; step++) {
		struct person *person = &people[rand() % WAITERS];
		size_t key = (size_t)rand() % KEYS, total = 0;

		if (step % 64 == 0) {
			waitlist_wake_all(&list);
			for (size_t k = 0; k < KEYS; k++)
				model_poke(&model, k);
		} else if (rand() % 4 == 0) {
			waitlist_wake(&list, key * APART);
			model_poke(&model, key);
		} else if (person->waits) {
			key = person->waiter.hash / APART;
			waitlist_leave(list, &person->waiter);
			model_leave(&model, key, person);
			person->waits = false;
		} else {
			enum waitlist_joined joined;

			if (person->waiter.is_dropped) /* it may leave all the same, and that changes nothing */
				waitlist_leave(list, &person->waiter);
			person->waiter = (struct waiter){
			    .hash = key * APART, .wake = wake, .priority = rand() % 3 ? 0 : rand() % 10};
			joined = waitlist_join(list, &person->waiter, model_max(key));
			assert_int_equal(joined, model_join(&model, key, person));
			person->waits = joined != WAITLIST_FULL;
		}
		for (size_t i = 0; i < WAITERS; i++)
			assert_int_equal(people[i].woken, 0); /* the model took back what it expected */
		for (size_t k = 0; k < KEYS; k++) {
			assert_int_equal(waitlist_has(list, k * APART), model.count[k] > 0);
			total += model.count[k];
		}
		assert_int_equal(waitlist_count(list), total);
	}
	waitlist_close(list);
}

static void test_the_child_of_a_fork_has_nobody_waiting(void **state)
{
	struct person a = {{.hash = 7, .wake = wake}}, b = a;
	struct waitlist *list = NULL;
	int status;
	pid_t child;

	(void)state;
	waitlist_get_or_make(&list);
	waitlist_join(list, &a.waiter, 1);
	child = fork();
	if (child == 0)
		_exit(waitlist_has(list, 7) || waitlist_join(list, &b.waiter, 1) != WAITLIST_FIRST);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	waitlist_close(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_first_tries_and_whoever_becomes_it_is_woken),
	    cmocka_unit_test(test_a_full_queue_drops_the_newest_of_the_lowest),
	    cmocka_unit_test(test_the_first_is_dropped_too),
	    cmocka_unit_test(test_threads_that_drop_each_other_leave_nobody),
	    cmocka_unit_test(test_queues_are_those_of_a_model),
	    cmocka_unit_test(test_the_child_of_a_fork_has_nobody_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
