/* Tables of libweir_redis at a real cluster of three nodes. */
#include "server.h"

#include <weir/redis.h>

#include "base/number.h"
#include "base/os/os.h"
#include "redis/nodes/hash_slots.h"

#define NODES   3
#define KEYS    100
#define QUOTA   2
#define LONG_NS (20 * NS_PER_S) /* where no timeout is to be seen */

struct cluster_of {
	struct server nodes[NODES];
	bool tls;
	unsigned ports[NODES]; /* where keys are asked for */
};

/* Tells a server one command; its answer. */
static const char *command(const struct server *server, const char *format, unsigned a, unsigned b)
{
	static char answer[8 << 10];
	char line[100];
	int fd = server_connect(server->port);
	int len = snprintf(line, sizeof line, format, a, b);
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(send(fd, line, (size_t)len, MSG_NOSIGNAL), len);
	n = recv(fd, answer, sizeof answer - 1, 0);
	assert_true(n > 0);
	answer[n] = '\0';
	close(fd);
	return answer;
}

static bool is_whole(const struct server *server)
{
	const char *info = command(server, "CLUSTER INFO\r\n", 0, 0);

	return strstr(info, "cluster_state:ok") && strstr(info, "cluster_slots_ok:16384") &&
	       strstr(info, "cluster_known_nodes:3");
}

/* The slots that node i has. */
static unsigned first_slot(size_t i)
{
	return (unsigned)(i * HASH_SLOTS / NODES);
}

/* The nodes speak to each other 10,000 higher. */
static unsigned free_port(void)
{
	unsigned port = server_free_port();

	while (port > 55535)
		port = server_free_port();
	return port;
}

/* With `tls` also a transport for TLS, which is where nodes send clients that come through it. */
static void node_start(struct cluster_of *cluster, size_t i)
{
	struct server *server = &cluster->nodes[i];
	char port[8], paths[3][100];
	const char *options[20] = {"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"};
	static const char *const names[] = {"--tls-cert-file", "server.pem",         "--tls-key-file",
	                                    "server.key",      "--tls-ca-cert-file", "ca.pem"};
	size_t n = 4;

	*server = server_make();
	server->port = free_port();
	cluster->ports[i] = cluster->tls ? free_port() : server->port;
	if (cluster->tls && i == 0)
		server_make_certificates(server->directory);
	for (size_t k = 0; cluster->tls && k < 3; k++) {
		snprintf(paths[k], sizeof paths[k], "%s/%s", cluster->nodes[0].directory, names[2 * k + 1]);
		options[n++] = names[2 * k];
		options[n++] = paths[k];
	}
	if (cluster->tls) {
		snprintf(port, sizeof port, "%u", cluster->ports[i]);
		memcpy(options + n,
		       (const char *[]){"--tls-port", port, "--tls-cluster", "yes", "--tls-auth-clients",
		                        "no"},
		       6 * sizeof *options);
	}
	server_start_in(server, "--port", options);
}

static struct cluster_of cluster_start(bool tls)
{
	struct cluster_of cluster = {.tls = tls};

	for (size_t i = 0; i < NODES; i++) {
		struct server *server = &cluster.nodes[i];

		node_start(&cluster, i);
		command(server, "CLUSTER ADDSLOTSRANGE %u %u\r\n", first_slot(i), first_slot(i + 1) - 1);
		command(server, "CLUSTER SET-CONFIG-EPOCH %u\r\n", (unsigned)i + 1, 0);
		command(server, "CLUSTER MEET 127.0.0.1 %u\r\n", cluster.ports[0], 0);
	}
	for (size_t i = 0; i < NODES; i++)
		for (int ms = 0; !is_whole(&cluster.nodes[i]); ms += 10) {
			assert_true(ms < SERVER_WAIT_MS);
			poll(NULL, 0, 10);
		}
	return cluster;
}

static void cluster_stop(struct cluster_of *cluster)
{
	for (size_t i = 0; i < NODES; i++)
		server_stop(&cluster->nodes[i]);
}

static weir_table *open_table(const struct cluster_of *cluster, uint64_t timeout_ns)
{
	char url[200];
	weir_table *table;

	snprintf(url, sizeof url, "redis%s-cluster://127.0.0.1:%u%s%s%s", cluster->tls ? "s" : "",
	         cluster->ports[1], cluster->tls ? "?ca=" : "",
	         cluster->tls ? cluster->nodes[0].directory : "", cluster->tls ? "/ca.pem" : "");
	assert_int_equal(
	    weir_redis_open(&(struct weir_redis_options){.url = url, .timeout_ns = timeout_ns}, &table,
	                    NULL),
	    WEIR_OK);
	return table;
}

static weir_limit *open_limit(void)
{
	weir_limit *limit;

	assert_int_equal(
	    weir_limit_open(
	        &(struct weir_limit_options){.name = "l", .rate = {QUOTA, 1, WEIR_UNIT_DAY}}, &limit,
	        NULL),
	    WEIR_OK);
	return limit;
}

static size_t node_of(const char *key)
{
	char name[64];
	unsigned slot;
	size_t node = NODES - 1;

	snprintf(name, sizeof name, "weir:{%s}:l", key);
	slot = hash_slot_of(slice_of(name));
	while (slot < first_slot(node))
		node--;
	return node;
}

static void decide_a_batch(bool tls)
{
	struct cluster_of cluster = cluster_start(tls);
	weir_table *tables[] = {open_table(&cluster, LONG_NS), open_table(&cluster, LONG_NS)};
	weir_limit *limit = open_limit();
	struct weir_request requests[KEYS];
	struct weir_decision decisions[KEYS];
	char keys[KEYS][8];
	size_t at[NODES] = {0};

	for (size_t i = 0; i < KEYS; i++) {
		snprintf(keys[i], sizeof keys[i], "k%zu", i);
		requests[i] =
		    (struct weir_request){.limit = limit, .key = {keys[i], strlen(keys[i])}, .cost = 1};
		at[node_of(keys[i])]++;
	}
	for (size_t i = 0; i < NODES; i++)
		assert_true(at[i] > 0);
	for (unsigned round = 0; round < QUOTA + 2; round++) {
		assert_int_equal(weir_acquire_batch(tables[round % 2], requests, KEYS, WEIR_NOW, decisions),
		                 WEIR_OK);
		for (size_t i = 0; i < KEYS; i++)
			assert_int_equal(decisions[i].allowed, round < QUOTA);
	}
	weir_limit_close(limit);
	weir_table_close(tables[0]);
	weir_table_close(tables[1]);
	cluster_stop(&cluster);
}

static void a_batch_is_decided_wherever_its_keys_lie(void **state)
{
	(void)state;
	decide_a_batch(false);
}

static void nodes_are_reached_through_tls(void **state)
{
	(void)state;
	decide_a_batch(true);
}

static void a_node_that_dies_fails_its_own_keys(void **state)
{
	struct cluster_of cluster = cluster_start(false);
	weir_table *table = open_table(&cluster, LONG_NS);
	weir_limit *limit = open_limit();
	struct weir_decision decision;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < KEYS; i++) {
			char key[8];
			int status;

			snprintf(key, sizeof key, "k%u", i);
			status = weir_acquire(table, limit, (struct weir_key){key, strlen(key)}, 1, WEIR_NOW,
			                      &decision);
			assert_int_equal(status, round == 1 && node_of(key) == 2 ? WEIR_ESTORE : WEIR_OK);
			assert_int_equal(decision.allowed, status == WEIR_OK);
		}
		if (round == 0)
			server_kill(&cluster.nodes[2]);
	}
	weir_limit_close(limit);
	weir_table_close(table);
	cluster_stop(&cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_batch_is_decided_wherever_its_keys_lie),
	    cmocka_unit_test(nodes_are_reached_through_tls),
	    cmocka_unit_test(a_node_that_dies_fails_its_own_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
