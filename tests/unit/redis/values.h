/* values.h: states as they are at a Redis, strings and lists alike. */
#ifndef TEST_REDIS_VALUES_H
#define TEST_REDIS_VALUES_H

#include "real.h"
#include "redis/commands/value.h"

/* With a given time, scripts set lifetimes a century ahead. */
#define VALUES_AHEAD_MS UINT64_C(3155760000000)

/* Puts a state there, also none. */
void values_set(struct real *real, const char *key, const struct algo_limit *limit,
                const struct value *value, uint64_t now_ns);

/*
 * Reads the value of the key. If a list contradicts itself, reports that on stderr, and returns
 * VALUE_OTHER. Call value_free.
 */
enum value_fit values_get(struct real *real, const char *key, const struct algo_limit *limit,
                          struct value *value);

/* Writes a state as text, with the uses that count at that time. */
void values_text(const struct algo_limit *limit, const struct value *value, uint64_t now_ns,
                 struct buffer *out);

/* When the key ends, by the given time; 0 if it does not exist. */
uint64_t values_life_ms(struct real *real, const char *key);

#endif
