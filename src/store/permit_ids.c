/*
 * permit_ids.c: draws the ids of permits, which nobody can guess and no two permits share.
 *
 * An id is half of a keyed hash of a counter. Each thread has a key of its own, which it draws from
 * the system once, so an id costs no system call, and threads do not meet. A child of a fork must
 * not go on with its parent's key. A page that the system empties in children has a mark, and a key
 * is valid only while the mark is the one under which it was drawn.
 *
 * The two highest bits are the thread's stripe instead, in which neighbours differ. Counts that
 * are kept by stripe (records/breaker_record.h) go to the stripe of the permit.
 */
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/hash.h"
#include "base/os/os.h"
#include "store/permit.h"

#define PAGE ((size_t)4096)

struct ids {
	uint64_t mark; /* 0 if it has no key */
	struct hash_key key;
	uint64_t count;
	uint64_t second; /* half of the last hash; 0 if it was used */
	uint64_t stripe;
	uint64_t number; /* the state of what permit_cheap_id draws */
};

static _Thread_local struct ids own __attribute__((tls_model("initial-exec")));

/* NULL until an id is wanted, and where the system empties no pages. It stays for good. */
static uint64_t *mark_page;

/* The count of threads that have drawn a key. */
static uint64_t threads;

/* The mark of this process, or 0: it has none. */
static inline uint64_t mark_now(void)
{
	const uint64_t *page = __atomic_load_n(&mark_page, __ATOMIC_ACQUIRE);

	return page ? __atomic_load_n(page, __ATOMIC_RELAXED) : 0;
}

/* Maps the page of the mark, which the system empties in a child of a fork. */
static void make_page(void)
{
	uint64_t *none = NULL, *page = os_pages_map(PAGE);

	if (!page)
		return;
	if (!os_pages_forget_in_child(page, PAGE) ||
	    !__atomic_compare_exchange_n(&mark_page, &none, page, false, __ATOMIC_RELEASE,
	                                 __ATOMIC_RELAXED))
		os_pages_unmap(page, PAGE);
}

/* Stores `mark` as this process's, unless another thread has stored one. Returns the stored one. */
static uint64_t make_mark(uint64_t mark)
{
	uint64_t *page, none = 0;

	if (!__atomic_load_n(&mark_page, __ATOMIC_ACQUIRE))
		make_page();
	page = __atomic_load_n(&mark_page, __ATOMIC_ACQUIRE);
	if (page)
		__atomic_compare_exchange_n(page, &none, mark, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return mark_now();
}

/* Draws from the system, or if it has no random bytes, from a weaker generator. */
static void draw_bytes(void *out, size_t len)
{
	unsigned char *bytes = out;

	if (os_random(out, len) == WEIR_OK)
		return;
	for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
		uint64_t word = prng_next();

		memcpy(bytes + i, &word, sizeof word);
	}
}

/* Gives this thread a key and a stripe. Without a mark, each id is drawn with a key of its own. */
__attribute__((noinline, cold)) static void draw_key(void)
{
	struct {
		struct hash_key key;
		uint64_t mark;
	} drawn;
	uint64_t thread = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) + (uint64_t)getpid();

	draw_bytes(&drawn, sizeof drawn);
	own = (struct ids){.mark = make_mark(drawn.mark | 1),
	                   .key = drawn.key,
	                   .number = drawn.mark,
	                   .stripe = thread << ALGO_STRIPE_SHIFT};
}

/* Each hash of the counter has two halves, for two ids. */
static uint64_t next_half(void)
{
	struct hash_key both;
	uint64_t half = own.second;

	if (half != 0) {
		own.second = 0; /* no permit's id stays behind */
		return half;
	}
	own.count++;
	both = hash_mac(&own.key, &own.count, sizeof own.count);
	own.second = both.k1;
	return both.k0;
}

uint64_t permit_random_id(void)
{
	uint64_t mark = mark_now(), id = 0;

	if (__builtin_expect(mark == 0 || mark != own.mark, 0))
		draw_key();
	while (id == 0)
		id = next_half() & ((UINT64_C(1) << ALGO_STRIPE_SHIFT) - 1);
	return id | own.stripe;
}

/* An id that need not be hard to guess, for a permit within this process. */
uint64_t permit_cheap_id(void)
{
	uint64_t id = 0;

	if (__builtin_expect(own.mark == 0 && own.stripe == 0, 0))
		draw_key();
	while (id == 0)
		id = prng_step(&own.number) & ((UINT64_C(1) << ALGO_STRIPE_SHIFT) - 1);
	return id | own.stripe;
}
