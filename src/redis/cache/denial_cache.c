/*
 * denial_cache.c: a table of the answers of Redis that a process may repeat until they expire. Most
 * are denials. A request that another limit denies also peeks at the limits that would let it pass,
 * to report their state: that answer is stored, too. Readers take no lock; a sequence counter in
 * each set shows them concurrent writes.
 */
#include "redis/cache/denial_cache.h"

#include <sched.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "algo/rates/window.h"
#include "base/os/os.h"

#define SETS   ((size_t)1 << 14)
#define WAYS   4
#define COUNTS 1024 /* of invalidations; keys share them */

struct entry {
	_Atomic uint64_t request_hash, valid_until_ns, passes_at_ns, full_at_ns, remaining, reason;
};

/* `sequence` is odd while the set is being written, and changes with each write. */
struct set {
	_Alignas(64) _Atomic uint32_t sequence;
	_Atomic uint64_t keys[WAYS]; /* 0 for an empty entry. On one cache line, because most searches
	                                find nothing */
	struct entry entries[WAYS];
};

/*
 * Most keys are never denied, and must not cost a cache miss: `used` has a bit for each set. Keys
 * share the counts of invalidations.
 */
struct denial_cache {
	_Atomic uint64_t used[SETS / 64];
	_Atomic uint32_t invalidations[COUNTS];
	struct set sets[SETS];
};

struct denial_cache *denial_cache_open(void)
{
	/* Pages without answers take no memory. */
	return os_pages_map(sizeof(struct denial_cache));
}

void denial_cache_close(struct denial_cache *denials)
{
	if (denials)
		os_pages_unmap(denials, sizeof *denials);
}

static struct set *set_of(const struct denial_cache *denials, uint64_t key)
{
	return (struct set *)&denials->sets[key % SETS];
}

static bool set_is_used(const struct denial_cache *denials, uint64_t key)
{
	const _Atomic uint64_t *bits = &denials->used[key % SETS / 64];

	return atomic_load_explicit((_Atomic uint64_t *)bits, memory_order_acquire) >> key % 64 & 1;
}

/* Only the writer of the set may call it. */
static void mark_set_used(struct denial_cache *denials, uint64_t key, bool used)
{
	_Atomic uint64_t *bits = &denials->used[key % SETS / 64];
	uint64_t bit = UINT64_C(1) << key % 64;

	if (used)
		atomic_fetch_or_explicit(bits, bit, memory_order_release);
	else
		atomic_fetch_and_explicit(bits, ~bit, memory_order_release);
}

/* Questions */

static bool is_bucket(const struct algo_limit *limit)
{
	return algo_has_step(limit, bucket_step);
}

/*
 * A denial may be repeated if the same request stays denied until its retry time. Uses of sliding
 * limits end one by one, so there that holds only for a request of one unit. At a paced limit it
 * holds only for a request that leaves the longest wait to the limit.
 */
bool denial_cache_applies(const struct algo_limit *limit, const struct algo_call *call)
{
	if (!algo_op_requests(call->op) || algo_op_replaces(call->op) || call->max_wait_ns != 0 ||
	    limit->algorithm->retry_is_estimate)
		return false;
	if (is_bucket(limit) || algo_has_step(limit, window_step))
		return true;
	return !limit->paced && call->cost <= 1 && limit->record != ALGO_RECORD_NONE &&
	       limit->record != ALGO_RECORD_LEASES;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	u128 product = (u128)(hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * Limits of one identity may differ in the parameters that are mixed into the hash. A cost of 0 is
 * decided as one of 1.
 */
struct cache_name denial_cache_name(const struct algo_limit *limit, const struct algo_call *call,
                                    uint64_t key)
{
	uint64_t request_hash = mix(limit->identity, u64_max(call->cost, 1));

	if (is_bucket(limit)) {
		request_hash = mix(request_hash, limit->bucket.count);
		request_hash = mix(request_hash, limit->bucket.depth.ns);
		request_hash = mix(request_hash, limit->bucket.at_once.ns);
	} else {
		for (size_t i = 0; i < ALGO_OWN_WORDS; i++)
			request_hash = mix(request_hash, limit->own[i]);
	}
	return (struct cache_name){key, request_hash | 1}; /* never 0, as in an empty entry */
}

/* Sets */

static uint64_t load_set_word(const _Atomic uint64_t *word)
{
	return atomic_load_explicit((_Atomic uint64_t *)word, memory_order_acquire);
}

/* By a release, so that a reader that sees the word also sees that the set is being written. */
static void store_set_word(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

static bool entry_matches(const struct set *set, size_t i, const struct cache_name *name)
{
	return load_set_word(&set->keys[i]) == name->key_hash &&
	       load_set_word(&set->entries[i].request_hash) == name->request_hash;
}

/* Takes the set for one writer: makes its sequence odd. */
static void begin_writing(struct set *set)
{
	uint32_t sequence = atomic_load_explicit(&set->sequence, memory_order_relaxed);

	while (sequence % 2 == 1 ||
	       !atomic_compare_exchange_weak_explicit(&set->sequence, &sequence, sequence + 1,
	                                              memory_order_acquire, memory_order_relaxed)) {
		sched_yield();
		sequence = atomic_load_explicit(&set->sequence, memory_order_relaxed);
	}
}

static void end_writing(struct set *set)
{
	atomic_fetch_add_explicit(&set->sequence, 1, memory_order_release);
}

/*
 * Copies the entry of that name. Returns false if there is none, or if a writer changed the set
 * meanwhile: all loads are acquires, so `sequence` is read again last.
 */
static bool read_entry(const struct set *set, const struct cache_name *name,
                       struct denial_cache_answer *answer)
{
	uint32_t sequence = atomic_load_explicit(&((struct set *)set)->sequence, memory_order_acquire);
	bool found = false;

	for (size_t i = 0; i < WAYS && !found && sequence % 2 == 0; i++) {
		const struct entry *entry = &set->entries[i];

		if (!entry_matches(set, i, name))
			continue;
		*answer = (struct denial_cache_answer){
		    .valid_until_ns = load_set_word(&entry->valid_until_ns),
		    .passes_at_ns = load_set_word(&entry->passes_at_ns),
		    .full_at_ns = load_set_word(&entry->full_at_ns),
		    .remaining = load_set_word(&entry->remaining),
		    .reason = load_set_word(&entry->reason),
		};
		found =
		    atomic_load_explicit(&((struct set *)set)->sequence, memory_order_relaxed) == sequence;
	}
	return found;
}

/* The tokens that a bucket has now if it will have `cost` tokens in `left_ns`. */
static uint64_t remaining_of_bucket(const struct bucket_params *params, uint64_t cost,
                                    uint64_t left_ns)
{
	u128 tokens = ((u128)left_ns * params->q + params->p - 1) / params->p;

	return tokens < cost ? cost - (uint64_t)tokens : 0;
}

/* Sets *out to "would pass", of which the cache knows no numbers. */
static void set_would_pass(const struct algo_limit *limit, struct algo_decision *out)
{
	algo_decision_table_full(limit, out); /* the numbers of an unknown state */
	algo_decision_allow(out);
}

/*
 * Sets *out to a cached answer that is still valid, as of now_ns. Returns false if there is none.
 */
bool denial_cache_find(const struct denial_cache *denials, const struct algo_limit *limit,
                       const struct algo_call *call, const struct cache_name *name, uint64_t now_ns,
                       struct algo_decision *out)
{
	struct denial_cache_answer answer;
	uint64_t left_ns;

	if (!set_is_used(denials, name->key_hash) ||
	    !read_entry(set_of(denials, name->key_hash), name, &answer) ||
	    now_ns >= answer.valid_until_ns)
		return false;
	if (answer.reason == WEIR_REASON_OK) {
		set_would_pass(limit, out);
		return true;
	}
	left_ns = answer.passes_at_ns - now_ns; /* a denial is valid no longer than to passes_at_ns */
	*out = (struct algo_decision){
	    .reason = (enum weir_reason)answer.reason,
	    .remaining = is_bucket(limit)
	                     ? remaining_of_bucket(&limit->bucket, u64_max(call->cost, 1), left_ns)
	                     : answer.remaining,
	    .retry_after_ns = left_ns,
	    .reset_after_ns = sat_sub(answer.full_at_ns, now_ns),
	};
	return true;
}

/* How often the key was refunded or reset; keys share these counts. */
uint32_t denial_cache_invalidations(const struct denial_cache *denials, uint64_t key)
{
	return atomic_load_explicit((_Atomic uint32_t *)&denials->invalidations[key % COUNTS],
	                            memory_order_acquire);
}

/* The index of the entry to write for a request: its own, or the one that expires first. */
static size_t entry_index_for(const struct set *set, const struct cache_name *name)
{
	size_t soonest = 0;

	for (size_t i = 0; i < WAYS; i++) {
		if (entry_matches(set, i, name))
			return i;
		if (load_set_word(&set->entries[i].valid_until_ns) <
		    load_set_word(&set->entries[soonest].valid_until_ns))
			soonest = i;
	}
	return soonest;
}

/* Stores an answer, unless the key was invalidated since `count` was read before the request. */
void denial_cache_store(struct denial_cache *denials, const struct cache_name *name, uint32_t count,
                        const struct denial_cache_answer *answer)
{
	struct set *set = set_of(denials, name->key_hash);

	begin_writing(set);
	if (denial_cache_invalidations(denials, name->key_hash) == count) {
		size_t i = entry_index_for(set, name);
		struct entry *entry = &set->entries[i];

		mark_set_used(denials, name->key_hash, true);
		store_set_word(&set->keys[i], name->key_hash);
		store_set_word(&entry->request_hash, name->request_hash);
		store_set_word(&entry->valid_until_ns, answer->valid_until_ns);
		store_set_word(&entry->passes_at_ns, answer->passes_at_ns);
		store_set_word(&entry->full_at_ns, answer->full_at_ns);
		store_set_word(&entry->remaining, answer->remaining);
		store_set_word(&entry->reason, answer->reason);
	}
	end_writing(set);
}

/* Removes all answers of the key from its set. */
static void clear_key(struct denial_cache *denials, struct set *set, uint64_t key)
{
	uint64_t other_keys = 0;

	for (size_t i = 0; i < WAYS; i++) {
		uint64_t own = load_set_word(&set->keys[i]);

		if (own != key) {
			other_keys |= own;
			continue;
		}
		store_set_word(&set->keys[i], 0);
		store_set_word(&set->entries[i].valid_until_ns, 0);
	}
	if (other_keys == 0)
		mark_set_used(denials, key, false);
}

/* After a grant: removes the answers of the key, because the units that remain have changed. */
void denial_cache_remove(struct denial_cache *denials, uint64_t key)
{
	struct set *set = set_of(denials, key);
	bool has_key = false;

	if (!set_is_used(denials, key))
		return;
	for (size_t i = 0; i < WAYS; i++)
		has_key |= load_set_word(&set->keys[i]) == key;
	if (!has_key)
		return;
	begin_writing(set);
	clear_key(denials, set, key);
	end_writing(set);
}

/* After a refund or a reset: removes the answers, and those under way will not be stored. */
void denial_cache_invalidate(struct denial_cache *denials, uint64_t key)
{
	struct set *set = set_of(denials, key);

	begin_writing(set);
	atomic_fetch_add_explicit(&denials->invalidations[key % COUNTS], 1, memory_order_release);
	clear_key(denials, set, key);
	end_writing(set);
}
