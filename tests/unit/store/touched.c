#include "touched.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cell.h"

static uint64_t own;
uint64_t *touched_lines = &own;

/* The lines touched last, the newest first. */
static __thread uintptr_t last[3];

void cell_touch(const struct cell *cell)
{
	uintptr_t line = (uintptr_t)cell / 64;
	unsigned i = 0;

	while (i < 2 && last[i] != line)
		i++;
	if (last[i] != line)
		__atomic_fetch_add(touched_lines, 1, __ATOMIC_RELAXED);
	for (; i > 0; i--)
		last[i] = last[i - 1];
	last[0] = line;
}

__attribute__((constructor)) static void map(void)
{
	const char *path = getenv(TOUCHED_FILE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *mapped;

	if (fd < 0)
		return;
	mapped = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped != MAP_FAILED)
		touched_lines = mapped;
}
