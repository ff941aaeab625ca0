#include "server/run.h"

#include <stdio.h>

void run_fail(struct worker *worker, struct work *work, int status, struct slice message)
{
	const char *copy = arena_copy(&worker->arena, message);

	run_refuse(work, status, copy ? copy : weir_strerror(status));
}

void run_fail_name(struct worker *worker, struct work *work, int status, const char *expected,
                   struct slice name)
{
	char message[128];
	int len = snprintf(message, sizeof message, "expected %s, found '%.*s'", expected,
	                   (int)(name.len < 64 ? name.len : 64), name.data);

	run_fail(worker, work, status, (struct slice){message, (size_t)len});
}
