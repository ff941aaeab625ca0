#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/nodes/cluster.h"

#define SECOND CLUSTER_ASK_NS
#define RANGES 3

static struct redis_host host(unsigned n)
{
	struct redis_host host = {.port = 7000};

	snprintf(host.name, sizeof(host.name), "10.0.%u.%u", n / 256, n % 256);
	return host;
}

static struct cluster *open_cluster(bool is_cluster, unsigned seeds)
{
	struct redis_host hosts[4];
	const struct redis_url url = {.cluster = is_cluster, .hosts = hosts, .host_count = seeds};
	struct cluster *cluster;

	for (unsigned i = 0; i < seeds; i++)
		hosts[i] = host(i);
	assert_int_equal(cluster_open(&cluster, &url), 0);
	return cluster;
}

/* The host that a slot's keys go to. */
static void assert_serves(struct cluster *cluster, unsigned slot, unsigned n)
{
	const struct redis_host expected = host(n);
	unsigned node = cluster_node_of(cluster, slot);
	struct redis_host found;

	cluster_add_user(cluster, node, &found);
	cluster_remove_user(cluster, node);
	assert_string_equal(found.name, expected.name);
}

/* A reply of RANGES equal parts, with the masters from `first` on. */
struct list {
	struct redis_host hosts[RANGES];
	struct redis_reply masters[RANGES][2], entries[RANGES][3], items[RANGES], reply;
};

static const struct redis_reply *list_of(struct list *list, unsigned first)
{
	for (unsigned i = 0; i < RANGES; i++) {
		list->hosts[i] = host(first + i);
		list->masters[i][0] =
		    (struct redis_reply){.type = REDIS_TEXT, .text = slice_of(list->hosts[i].name)};
		list->masters[i][1] = (struct redis_reply){.type = REDIS_INTEGER, .integer = 7000};
		for (unsigned end = 0; end < 2; end++)
			list->entries[i][end] = (struct redis_reply){
			    .type = REDIS_INTEGER, .integer = (i + end) * HASH_SLOTS / RANGES - end};
		list->entries[i][2] =
		    (struct redis_reply){.type = REDIS_ARRAY, .items = list->masters[i], .count = 2};
		list->items[i] =
		    (struct redis_reply){.type = REDIS_ARRAY, .items = list->entries[i], .count = 3};
	}
	list->reply = (struct redis_reply){.type = REDIS_ARRAY, .items = list->items, .count = RANGES};
	return &list->reply;
}

static void a_plain_redis_serves_all_slots_and_is_never_asked_for_a_map(void **state)
{
	struct cluster *cluster = open_cluster(false, 1);
	unsigned node;

	(void)state;
	assert_serves(cluster, 0, 0);
	assert_serves(cluster, HASH_SLOTS - 1, 0);
	cluster_doubt(cluster);
	assert_false(cluster_claim_map_request(cluster, 5 * SECOND, &node));
	cluster_close(cluster);
}

static void a_list_says_where_slots_are(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	const struct redis_host asked = host(0);
	struct list list;

	(void)state;
	assert_serves(cluster, 9000, 0);
	cluster_apply_map(cluster, list_of(&list, 10), &asked);
	assert_serves(cluster, 0, 10);
	assert_serves(cluster, 9000, 11);
	assert_serves(cluster, HASH_SLOTS - 1, 12);
	cluster_close(cluster);
}

static void slots_that_a_list_omits_stay(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	const struct redis_host asked = host(0);
	struct redis_reply shorter;
	struct list list;

	(void)state;
	cluster_apply_map(cluster, list_of(&list, 10), &asked);
	shorter = *list_of(&list, 20);
	shorter.count = 1;
	cluster_apply_map(cluster, &shorter, &asked);
	assert_serves(cluster, 0, 20);
	assert_serves(cluster, 9000, 11);
	cluster_close(cluster);
}

static void a_redirection_moves_one_slot_and_puts_the_map_in_doubt(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	const struct redis_host to = host(5);
	unsigned node;

	(void)state;
	assert_true(cluster_claim_map_request(cluster, SECOND, &node));
	assert_false(cluster_claim_map_request(cluster, 9 * SECOND, &node));
	node = cluster_apply_moved(cluster, 42, &to);
	assert_int_equal(cluster_node_of(cluster, 42), node);
	assert_serves(cluster, 42, 5);
	assert_serves(cluster, 41, 0);
	assert_true(cluster_claim_map_request(cluster, 9 * SECOND, &node));
	cluster_close(cluster);
}

static void an_ask_redirection_changes_no_map(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	const struct redis_host to = host(5);
	struct redis_host found;
	unsigned node;

	(void)state;
	assert_true(cluster_claim_map_request(cluster, SECOND, &node));
	node = cluster_node_of_ask(cluster, &to);
	cluster_add_user(cluster, node, &found);
	assert_string_equal(found.name, to.name);
	assert_serves(cluster, 42, 0);
	assert_false(cluster_claim_map_request(cluster, 9 * SECOND, &node));
	cluster_remove_user(cluster, node);
	cluster_close(cluster);
}

static void a_map_in_doubt_is_requested_once_a_second_each_time_from_another_node(void **state)
{
	struct cluster *cluster = open_cluster(true, 3);
	unsigned seen[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		cluster_doubt(cluster);
		assert_true(cluster_claim_map_request(cluster, (i + 1) * SECOND, &seen[i]));
		cluster_doubt(cluster);
		assert_false(cluster_claim_map_request(cluster, (i + 2) * SECOND - 1, &seen[i]));
	}
	assert_int_not_equal(seen[0], seen[1]);
	assert_int_not_equal(seen[1], seen[2]);
	assert_int_not_equal(seen[0], seen[2]);
	assert_int_equal(seen[0], seen[3]);
	cluster_close(cluster);
}

static void an_invalid_list_changes_nothing_and_leaves_the_map_in_doubt(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	const struct redis_reply nonsense[] = {
	    {.type = REDIS_NIL},
	    {.type = REDIS_ERROR, .text = SLICE("ERR This instance has cluster support disabled")},
	    {.type = REDIS_ARRAY},
	    {.type = REDIS_ARRAY, .items = nonsense, .count = 2},
	};
	const struct redis_host asked = host(0);
	unsigned node;

	(void)state;
	for (unsigned i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		assert_true(cluster_claim_map_request(cluster, (i + 1) * SECOND, &node));
		cluster_apply_map(cluster, &nonsense[i], &asked);
	}
	assert_true(cluster_claim_map_request(cluster, 9 * SECOND, &node));
	assert_serves(cluster, 77, 0);
	cluster_close(cluster);
}

/* The addresses of a cluster change again and again; those in use are never removed. */
static void numbers_of_removed_nodes_are_used_again(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	const struct redis_host asked = host(0), kept = host(60000);
	unsigned held = cluster_node_of_ask(cluster, &kept);
	struct redis_host found;
	struct list list;

	(void)state;
	cluster_add_user(cluster, held, &found);
	for (unsigned i = 1; i < 3 * CLUSTER_NODES_MAX; i += RANGES) {
		cluster_apply_map(cluster, list_of(&list, i), &asked);
		assert_serves(cluster, 9000, i + 1);
	}
	cluster_remove_user(cluster, held);
	cluster_add_user(cluster, held, &found);
	assert_string_equal(found.name, kept.name);
	assert_false(cluster_names_node(cluster, held));
	assert_true(cluster_names_node(cluster, cluster_node_of(cluster, 9000)));
	assert_true(cluster_names_node(cluster, 0));
	cluster_remove_user(cluster, held);
	cluster_close(cluster);
}

static void too_many_nodes_at_once_are_refused(void **state)
{
	struct cluster *cluster = open_cluster(true, 1);
	struct redis_host to;

	(void)state;
	for (unsigned i = 1; i < CLUSTER_NODES_MAX; i++) {
		to = host(i);
		assert_int_not_equal(cluster_apply_moved(cluster, i, &to), CLUSTER_NO_NODE);
	}
	to = host(CLUSTER_NODES_MAX);
	assert_int_equal(cluster_apply_moved(cluster, 0, &to), CLUSTER_NO_NODE);
	assert_int_equal(cluster_node_of_ask(cluster, &to), CLUSTER_NO_NODE);
	assert_serves(cluster, 0, 0);
	assert_serves(cluster, 1, 1);
	cluster_close(cluster);
}

static void *move_slots(void *argument)
{
	struct cluster *cluster = argument;
	struct redis_host to, found;

	for (unsigned i = 0; i < 20000; i++) {
		unsigned node = cluster_node_of(cluster, i % HASH_SLOTS);

		cluster_add_user(cluster, node, &found);
		cluster_remove_user(cluster, node);
		to = host(i % 50);
		cluster_apply_moved(cluster, i * 7 % HASH_SLOTS, &to);
		cluster_claim_map_request(cluster, i * SECOND, &node);
	}
	return NULL;
}

static void clients_share_the_map(void **state)
{
	struct cluster *cluster = open_cluster(true, 2);
	const struct redis_host asked = host(0);
	pthread_t threads[2];
	struct list list;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, move_slots, cluster), 0);
	for (unsigned i = 0; i < 200; i++)
		cluster_apply_map(cluster, list_of(&list, i), &asked);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cluster_apply_map(cluster, list_of(&list, 10), &asked);
	for (unsigned slot = 0; slot < HASH_SLOTS; slot++)
		assert_serves(cluster, slot, 10 + (slot >= HASH_SLOTS / 3) + (slot >= 2 * HASH_SLOTS / 3));
	for (unsigned n = 1; n < CLUSTER_NODES_MAX; n++)
		assert_int_equal(cluster_names_node(cluster, n),
		                 n < 2 || n == cluster_node_of(cluster, 0) ||
		                     n == cluster_node_of(cluster, HASH_SLOTS / 2) ||
		                     n == cluster_node_of(cluster, HASH_SLOTS - 1));
	cluster_close(cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_plain_redis_serves_all_slots_and_is_never_asked_for_a_map),
	    cmocka_unit_test(a_list_says_where_slots_are),
	    cmocka_unit_test(slots_that_a_list_omits_stay),
	    cmocka_unit_test(a_redirection_moves_one_slot_and_puts_the_map_in_doubt),
	    cmocka_unit_test(an_ask_redirection_changes_no_map),
	    cmocka_unit_test(a_map_in_doubt_is_requested_once_a_second_each_time_from_another_node),
	    cmocka_unit_test(an_invalid_list_changes_nothing_and_leaves_the_map_in_doubt),
	    cmocka_unit_test(numbers_of_removed_nodes_are_used_again),
	    cmocka_unit_test(too_many_nodes_at_once_are_refused),
	    cmocka_unit_test(clients_share_the_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
