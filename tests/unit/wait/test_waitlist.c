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
	assert_non_null(waitlist_make(&list));
	assert_ptr_equal(waitlist_make(&list), waitlist_at(&list));
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
	waitlist_make(&list);
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
			person->waiter = (struct waiter){.hash = key * APART, .wake = wake};
			person->waits = true;
			assert_int_equal(waitlist_join(list, &person->waiter, WAITERS),
			                 model.count[key] == 0 ? WAITLIST_FIRST : WAITLIST_BEHIND);
			model.queue[key][model.count[key]++] = person;
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
	waitlist_make(&list);
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
	    cmocka_unit_test(test_queues_are_those_of_a_model),
	    cmocka_unit_test(test_the_child_of_a_fork_has_nobody_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
