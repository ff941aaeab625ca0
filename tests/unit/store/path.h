/* path.h: where a program's tables in a file stand. Its tests run between choose and remove. */
#ifndef TEST_STORE_PATH_H
#define TEST_STORE_PATH_H

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/weir-store-XXXXXX";

/* Nothing is there yet. */
static int path_choose(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return unlink(path);
}

static int path_remove(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

#endif
