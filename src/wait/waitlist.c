/*
 * waitlist.c: queues in buckets, each bucket under a lock of its own.
 *
 * No wake is lost. A waiter counts itself, then tries; a thread that gives back changes the
 * state, then looks at the count. Each of the two has a full barrier in between. So either
 * the waiter finds what was given back, or the thread finds the waiter.
 */
#include "wait/waitlist.h"

#include <pthread.h>

#include "base/os.h"

#define BUCKETS 1024 /* a bucket that is never used never takes memory */

struct bucket {
	pthread_mutex_t lock;
	struct waiter *first; /* the first waiter of its first queue */
};

/*
 * All zero is an empty waitlist with free locks (PTHREAD_MUTEX_INITIALIZER): so the child of
 * a fork gets an empty one instead of waiters that are threads of its parent.
 */
struct waitlist {
	size_t count;
	struct bucket buckets[BUCKETS];
};

void waitlist_close(struct waitlist *list)
{
	os_pages_unmap(list, sizeof *list);
}

struct waitlist *waitlist_make(struct waitlist **place)
{
	struct waitlist *list = waitlist_at(place), *made;

	if (list)
		return list;
	made = os_pages_reserve(sizeof *made);
	if (!made)
		return NULL;
	os_pages_forget_in_child(made, sizeof *made);
	if (__sync_bool_compare_and_swap(place, NULL, made))
		return made;
	waitlist_close(made);
	return waitlist_at(place);
}

size_t waitlist_count(const struct waitlist *list)
{
	return __atomic_load_n(&list->count, __ATOMIC_RELAXED);
}

static struct bucket *bucket_of(struct waitlist *list, uint64_t hash)
{
	return &list->buckets[hash % BUCKETS];
}

/* The link to the first waiter of the key's queue, or to where it would be. */
static struct waiter **find(struct bucket *bucket, uint64_t hash)
{
	struct waiter **link = &bucket->first;

	while (*link && (*link)->hash != hash)
		link = &(*link)->next_queue;
	return link;
}

/* waitlist_has_slow reads the link of an empty bucket without the lock. */
static void hang(struct waiter **link, struct waiter *waiter)
{
	__atomic_store_n(link, waiter, __ATOMIC_RELAXED);
}

enum waitlist_joined waitlist_join(struct waitlist *list, struct waiter *waiter, size_t max)
{
	struct bucket *bucket = bucket_of(list, waiter->hash);
	enum waitlist_joined place = WAITLIST_BEHIND;
	struct waiter **link, *first;

	pthread_mutex_lock(&bucket->lock);
	link = find(bucket, waiter->hash);
	first = *link;
	waiter->next = NULL;
	if (!first) {
		waiter->previous = waiter;
		waiter->next_queue = NULL;
		waiter->count = 1;
		hang(link, waiter);
		place = WAITLIST_FIRST;
	} else if (first->count < max) {
		waiter->previous = first->previous;
		waiter->previous->next = waiter;
		first->previous = waiter;
		first->count++;
	} else {
		place = WAITLIST_FULL;
	}
	if (place != WAITLIST_FULL)
		__sync_fetch_and_add(&list->count, 1);
	fence_behind_swap();
	pthread_mutex_unlock(&bucket->lock);
	return place;
}

/* The second waiter, if there is one, takes the place of the first. */
static void follow(struct waiter **link, struct waiter *first)
{
	struct waiter *next = first->next;

	if (!next) {
		hang(link, first->next_queue);
		return;
	}
	next->previous = first->previous;
	next->next_queue = first->next_queue;
	next->count = first->count - 1;
	hang(link, next);
	next->wake(next);
}

void waitlist_leave(struct waitlist *list, struct waiter *waiter)
{
	struct bucket *bucket = bucket_of(list, waiter->hash);
	struct waiter **link, *first;

	pthread_mutex_lock(&bucket->lock);
	link = find(bucket, waiter->hash);
	first = *link;
	if (first == waiter) {
		follow(link, waiter);
	} else {
		waiter->previous->next = waiter->next;
		*(waiter->next ? &waiter->next->previous : &first->previous) = waiter->previous;
		first->count--;
	}
	__sync_fetch_and_sub(&list->count, 1);
	pthread_mutex_unlock(&bucket->lock);
}

bool waitlist_has_slow(struct waitlist *list, uint64_t hash)
{
	struct bucket *bucket = bucket_of(list, hash);
	bool found;

	if (!__atomic_load_n(&bucket->first, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&bucket->lock);
	found = *find(bucket, hash) != NULL;
	pthread_mutex_unlock(&bucket->lock);
	return found;
}

void waitlist_wake_slow(struct waitlist *list, uint64_t hash)
{
	struct bucket *bucket = bucket_of(list, hash);
	struct waiter *first;

	pthread_mutex_lock(&bucket->lock);
	first = *find(bucket, hash);
	if (first)
		first->wake(first);
	pthread_mutex_unlock(&bucket->lock);
}

void waitlist_wake_all(struct waitlist *const *place)
{
	struct waitlist *list;

	fence_behind_swap();
	list = waitlist_at(place);
	if (!list || waitlist_count(list) == 0)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		pthread_mutex_lock(&list->buckets[i].lock);
		for (struct waiter *first = list->buckets[i].first; first; first = first->next_queue)
			first->wake(first);
		pthread_mutex_unlock(&list->buckets[i].lock);
	}
}
