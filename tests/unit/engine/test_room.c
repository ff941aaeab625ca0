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

#include "engine/room.h"

#define WAITERS 64
#define KEYS    24  /* so many that queues end and begin again all the time, ... */
#define APART   512 /* ... of two buckets */

struct person {
	struct room_waiter waiter; /* first */
	unsigned woken;
	bool waits;
};

static void wake(struct room_waiter *waiter)
{
	((struct person *)waiter)->woken++;
}

static void test_the_first_tries_and_whoever_becomes_it_is_woken(void **state)
{
	struct person a = {{.hash = 7, .wake = wake}}, b = a, c = a;
	struct room *room = NULL;

	(void)state;
	assert_non_null(room_make(&room));
	assert_ptr_equal(room_make(&room), room_at(&room));
	assert_int_equal(room_join(room, &a.waiter, 2), ROOM_FIRST);
	assert_int_equal(room_join(room, &b.waiter, 2), ROOM_BEHIND);
	assert_int_equal(room_join(room, &c.waiter, 2), ROOM_FULL);
	assert_int_equal(room_count(room), 2);
	room_poke(&room, 7);
	room_poke(&room, 8);
	assert_int_equal(a.woken, 1);
	assert_int_equal(b.woken, 0);
	room_leave(room, &a.waiter);
	assert_int_equal(b.woken, 1);
	assert_true(room_has(room, 7));
	assert_false(room_has(room, 8));
	room_leave(room, &b.waiter);
	assert_false(room_has(room, 7));
	room_close(room);
	room = NULL;
	assert_false(room_has(room, 7));
	room_poke(&room, 7);
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
	struct room *room = NULL;
	unsigned seed = (unsigned)time(NULL);

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	room_make(&room);
	for (int step = 0; step < 20000; step++) {
		struct person *person = &people[rand() % WAITERS];
		size_t key = (size_t)rand() % KEYS, total = 0;

		if (step % 64 == 0) {
			room_poke_all(&room);
			for (size_t k = 0; k < KEYS; k++)
				model_poke(&model, k);
		} else if (rand() % 4 == 0) {
			room_poke(&room, key * APART);
			model_poke(&model, key);
		} else if (person->waits) {
			key = person->waiter.hash / APART;
			room_leave(room, &person->waiter);
			model_leave(&model, key, person);
			person->waits = false;
		} else {
			person->waiter = (struct room_waiter){.hash = key * APART, .wake = wake};
			person->waits = true;
			assert_int_equal(room_join(room, &person->waiter, WAITERS),
			                 model.count[key] == 0 ? ROOM_FIRST : ROOM_BEHIND);
			model.queue[key][model.count[key]++] = person;
		}
		for (size_t i = 0; i < WAITERS; i++)
			assert_int_equal(people[i].woken, 0); /* the model took back what it expected */
		for (size_t k = 0; k < KEYS; k++) {
			assert_int_equal(room_has(room, k * APART), model.count[k] > 0);
			total += model.count[k];
		}
		assert_int_equal(room_count(room), total);
	}
	room_close(room);
}

static void test_the_child_of_a_fork_has_nobody_waiting(void **state)
{
	struct person a = {{.hash = 7, .wake = wake}}, b = a;
	struct room *room = NULL;
	int status;
	pid_t child;

	(void)state;
	room_make(&room);
	room_join(room, &a.waiter, 1);
	child = fork();
	if (child == 0)
		_exit(room_has(room, 7) || room_join(room, &b.waiter, 1) != ROOM_FIRST);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	room_close(room);
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
