/*
 * denial_sample.h: keeps a sample of denials, so that an operator can find out later why a key was
 * denied: the last ones, and of each rule at most so many a second.
 *
 * A denial is kept as the JSON object that /v1/denials shows. Memory is bounded: each
 * of a fixed number of slots has a text of at most DENIAL_TEXT_MAX bytes. Any thread may add
 * denials; a denial that is left out costs one atomic load.
 */
#ifndef SERVER_DENIAL_SAMPLE_H
#define SERVER_DENIAL_SAMPLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/buffer.h"
#include "base/slice.h"

#define DENIAL_TEXT_MAX ((size_t)4 << 10) /* a denial with a longer text has no attributes */
#define DENIAL_KEY_MAX  256               /* bytes kept of a key's name */
#define DENIAL_ID_TEXT  17                /* 16 hexadecimal digits, and a NUL */
#define DENIAL_DIGEST   16                /* bytes of a digest in `values` */

struct denial {
	uint64_t time_ns; /* Unix */
	const char *rule; /* NULL for a request that names its limit */
	const char *limit;
	struct slice key; /* as it may be shown: the name, or a digest; cut to DENIAL_KEY_MAX */
	enum weir_reason reason;
	uint64_t retry_after_ns;
	bool shadow;             /* the request was allowed: the rule only counts */
	struct slice attributes; /* a JSON object, or empty */
	struct slice values;     /* the digest of each value of which the key is made */
};

/* How many denials of a rule were kept in the current second. Zeros before the first use. */
struct denial_share {
	_Atomic uint64_t second_and_count; /* the count in the low DENIAL_COUNT_BITS */
};

#define DENIAL_COUNT_BITS 24
#define DENIAL_COUNT_MAX  ((UINT64_C(1) << DENIAL_COUNT_BITS) - 1)

/**
 * Counts a denial at `now_ns`. Returns whether it is to be kept: it is among the first `per_second`
 * of its share's second. `per_second` is no more than DENIAL_COUNT_MAX.
 */
static inline bool denial_share_admits(struct denial_share *share, uint64_t now_ns,
                                       uint64_t per_second)
{
	uint64_t second = (now_ns / UINT64_C(1000000000)) << DENIAL_COUNT_BITS;
	uint64_t before = atomic_load_explicit(&share->second_and_count, memory_order_relaxed), after;

	do {
		bool is_current = (before & ~DENIAL_COUNT_MAX) == second;

		if (is_current && (before & DENIAL_COUNT_MAX) >= per_second)
			return false;
		after = is_current ? before + 1 : second + 1;
	} while (!atomic_compare_exchange_weak_explicit(&share->second_and_count, &before, after,
	                                                memory_order_relaxed, memory_order_relaxed));
	return per_second > 0;
}

struct denial_sample;

/** Keeps the last `keep` denials. Returns NULL if that is 0, or memory is short. */
struct denial_sample *denial_sample_open(size_t keep);
/** NULL does nothing. */
void denial_sample_close(struct denial_sample *sample);

/**
 * Adds a denial, and writes its id to `id`. Appends its JSON object to `json`, unless that is NULL.
 * Returns false if memory is short.
 */
bool denial_sample_add(struct denial_sample *sample, const struct denial *denial,
                       char id[DENIAL_ID_TEXT], struct buffer *json);

/** Adds a denial with the id that it got in an earlier process. */
void denial_sample_restore(struct denial_sample *sample, const struct denial *denial,
                           const char *id);

/* Which denials to list or to restore. Empty texts and 0 mean all. */
struct denial_filter {
	struct slice id;          /* of one denial, its digits in any case */
	struct slice key;         /* the key, or a value of it or of an attribute, or their digest */
	struct slice escaped_key; /* `key` as it stands in JSON */
	struct slice key_digests; /* of `key`, by each secret that may have made it */
	struct slice limit, rule;
	uint64_t since_ns, until_ns; /* Unix; all of the second of `until_ns` */
	size_t count_max;
};

/**
 * Appends a JSON array of the denials that the filter admits, the newest first. It is empty without
 * a sample (NULL).
 */
void denial_sample_list(struct denial_sample *sample, const struct denial_filter *filter,
                        struct buffer *out);

/**
 * Adds a denial, as denial_sample_restore, if the filter admits it, and returns whether it did. The
 * oldest may be lost in any case, so open the sample for one denial more than are wanted.
 */
bool denial_sample_restore_admitted(struct denial_sample *sample,
                                    const struct denial_filter *filter, const struct denial *denial,
                                    const char *id);

/** Whether one of the newest DENIAL_SEARCHED_MAX kept denials by the limit shows this key. */
#define DENIAL_SEARCHED_MAX 1000 /* as many as an operator may list at once */
bool denial_sample_has_key(struct denial_sample *sample, struct slice limit, struct slice key);

/** How many the sample can keep; 0 without one. */
size_t denial_sample_capacity(const struct denial_sample *sample);
/** How many are kept now, and when the oldest of them was (Unix; 0 for none). */
size_t denial_sample_count(struct denial_sample *sample, uint64_t *oldest_ns);

#endif
