/* per.h: suggests a limit for each value of a field, for `weir simulate --suggest --per`. */
#ifndef SIMULATE_PER_H
#define SIMULATE_PER_H

#include "cli/simulate/suggest.h"

#define PER_VALUES_MAX 10 /* those of most requests; the others share a suggestion */

struct per_row {
	const char *value; /* NULL for all other values */
	const char *limit; /* "{...}"; NULL if no limit denies few enough */
	bool unsure;       /* see struct report_suggestion */
	struct report_point point;
};

struct per {
	const char *field;
	struct per_row rows[PER_VALUES_MAX + 1];
	size_t count;
};

/** Searches once for each value. Values and limits are in the arena of `suggest`. */
int per_run(struct per *per, struct suggest *suggest, struct weir_error *error);

void per_add_text(const struct per *per, const struct suggest *suggest, struct buffer *out);
void per_add_json(const struct per *per, struct buffer *out);

#endif
