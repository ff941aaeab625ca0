/* Loads a rule file again and again while threads decide by it: ./reload weir.yaml */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/engine.h>
#include <weir/rules.h>

#define THREADS  4
#define REQUESTS 20000
#define LOADS    20

/* The rules of one load. */
struct rules {
	weir_config *config;
	weir_engine *engine;
	int users; /* requests that use them now, and one more while they are the current rules */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rules *current;

static struct rules *enter(void)
{
	struct rules *rules;

	pthread_mutex_lock(&lock);
	rules = current;
	rules->users++;
	pthread_mutex_unlock(&lock);
	return rules;
}

/* The last user closes rules that are no longer the current ones. */
static void leave(struct rules *rules)
{
	int users;

	pthread_mutex_lock(&lock);
	users = --rules->users;
	pthread_mutex_unlock(&lock);
	if (users > 0)
		return;
	weir_engine_close(rules->engine);
	weir_config_close(rules->config);
	free(rules);
}

/* All loads use one table, so counts and permits stay. After an error the current rules stay. */
static int load(const char *path, weir_table *table)
{
	struct weir_error error = {.message = "out of memory"};
	struct rules *old, *next = calloc(1, sizeof *next);

	if (!next || weir_config_read_file(path, &next->config, &error) != 0 ||
	    weir_engine_open(next->config, table, &next->engine, &error) != 0) {
		fprintf(stderr, "%s:%u:%u: %s\n", path, error.line, error.column, error.message);
		if (next)
			weir_config_close(next->config);
		free(next);
		return -1;
	}
	next->users = 1;
	pthread_mutex_lock(&lock);
	old = current;
	current = next;
	pthread_mutex_unlock(&lock);
	if (old)
		leave(old);
	return 0;
}

/* A thread of a server. The strings of a decision (limit, rule, result) last until `leave`. */
static void *serve(void *name)
{
	struct weir_attribute request[] = {{"path", "/login", 6}, {"ip", name, strlen(name)}};
	struct weir_decision d;
	size_t allowed = 0, failed = 0;

	for (int i = 0; i < REQUESTS; i++) {
		struct rules *rules = enter();

		if (weir_engine_acquire(rules->engine, request, 2, 1, WEIR_NOW, &d) != 0)
			failed++;
		else if (d.allowed)
			allowed++;
		leave(rules);
	}
	printf("%s: %zu of %d allowed\n", (char *)name, allowed, REQUESTS);
	return failed > 0 ? name : NULL;
}

int main(int argc, char **argv)
{
	static char names[THREADS][16] = {"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"};
	pthread_t threads[THREADS];
	weir_table *table;
	int status = 0, started = 0;
	void *failed;

	if (argc != 2 || weir_table_open(NULL, &table, NULL) != 0 || load(argv[1], table) != 0)
		return 1;
	while (started < THREADS && pthread_create(&threads[started], NULL, serve, names[started]) == 0)
		started++;
	for (int i = 0; i < LOADS; i++) /* a server does this when the file has changed */
		status |= load(argv[1], table);
	while (started > 0)
		status |= pthread_join(threads[--started], &failed) != 0 || failed;
	leave(current);
	weir_table_close(table);
	return status != 0;
}
