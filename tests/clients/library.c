/*
 * library: a program that counts through libweir_redis.
 *
 *     library URL QUOTA TIMEOUT_MS
 *
 * For each key on standard input it takes one of QUOTA an hour and prints "STATUS ALLOWED REMAINING",
 * or the error of the URL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/redis.h>

static void answer(weir_table *table, const weir_limit *limit)
{
	char key[WEIR_KEY_MAX + 2];

	while (fgets(key, sizeof key, stdin)) {
		struct weir_decision d = {.allowed = false};
		int status =
		    weir_acquire(table, limit, (struct weir_key){key, strcspn(key, "\n")}, 1, WEIR_NOW, &d);

		printf("%d %d %llu\n", status, d.allowed, (unsigned long long)d.remaining);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct weir_redis_options where = {.denied_cache_ns = WEIR_ZERO};
	struct weir_limit_options options = {.name = "one", .rate = {0, 1, WEIR_UNIT_HOUR}};
	struct weir_error error;
	weir_limit *limit;
	weir_table *table;

	if (argc != 4)
		return 2;
	where.url = argv[1];
	options.rate.count = strtoull(argv[2], NULL, 10);
	where.timeout_ns = strtoull(argv[3], NULL, 10) * 1000000;
	if (weir_redis_open(&where, &table, &error) != WEIR_OK) {
		printf("%s\n", error.message);
		return 1;
	}
	if (weir_limit_open(&options, &limit, NULL) != WEIR_OK)
		return 2;
	answer(table, limit);
	weir_limit_close(limit);
	weir_table_close(table);
	return 0;
}
