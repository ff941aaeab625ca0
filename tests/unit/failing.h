/*
 * failing.h: of all that the program's own code allocates, one allocation fails. Its program is
 * linked with --wrap=malloc,--wrap=calloc,--wrap=realloc.
 */
#ifndef TEST_FAILING_H
#define TEST_FAILING_H

#include <stdbool.h>
#include <stddef.h>

/* The number of the next allocation that fails; 0: none does. */
static _Atomic unsigned failing;

static bool fails(void)
{
	return failing > 0 && --failing == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

#endif
