/* Ten requests at once, then five a second, for each key. */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

int main(int argc, char **argv)
{
	struct weir_limit_options options = {.name = "login", .rate = {5}, .burst = 10};
	const char *key = argc > 1 ? argv[1] : "1.2.3.4";
	struct weir_error error;
	weir_limit *limit;
	weir_table *table;

	if (weir_limit_open(&options, &limit, &error) || weir_table_open(NULL, &table, &error)) {
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	for (int i = 0; i < 12; i++) {
		struct weir_decision d;

		if (weir_acquire(table, limit, (struct weir_key){key, strlen(key)}, 1, WEIR_NOW, &d) != 0)
			return 1;
		printf("%s: %s, %llu of %llu left, retry after %llu ms\n", key,
		       d.allowed ? "allowed" : "denied", (unsigned long long)d.remaining,
		       (unsigned long long)d.quota, (unsigned long long)(d.retry_after_ns + 999999) / 1000000);
	}
	weir_table_close(table);
	weir_limit_close(limit);
	return 0;
}
