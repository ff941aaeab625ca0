/* vector.h: a file of vectors, as README.md describes it, in memory. */
#ifndef TEST_VECTOR_H
#define TEST_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <weir/weir.h>

#include "algo/algo.h"

struct vector_step {
	unsigned line;
	struct algo_call
	    call; /* a refund's permit is `permit` and `until_ns`; an acquire's, `permit` */
	struct algo_time time;
	uint64_t taken_until_ns;      /* acquire: what the permit is good for; 0 if it has none */
	const json_t *before, *after; /* states; JSON's null: as never used */
	struct weir_decision decision;
	bool draws; /* from its trace's generator, if that is seeded */
};

struct vector_trace {
	const char *name;
	struct weir_limit_options options;
	union algo_own *own; /* of these */
	struct vector_step *steps;
	size_t count;
	uint64_t seed; /* of draws, if these are the generator's */
	bool seeded;
};

struct vector_file {
	const char *path;
	const struct algorithm *algorithm;
	struct vector_trace *traces;
	size_t count;
	json_t *lines; /* an array that owns all texts and states */
};

/* A file that does not read as README.md says ends the program with a message. */
void vector_read(const char *path, struct vector_file *file);
void vector_close(struct vector_file *file);

/* For the fields of states. `name` ends in _ns where the value is a text. */
uint64_t vector_number(const json_t *object, const char *name);

#endif
