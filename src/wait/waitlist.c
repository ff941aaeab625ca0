/*
 * waitlist.c: queues in buckets, each bucket under a lock of its own.
 *
 * No wake is lost. A waiter counts itself, then tries; a thread that gives back changes the
 * state, then looks at the count. Each of the two has a full barrier in between. So either
 * the waiter finds what was given back, or the thread finds the waiter.
 */
#include "wait/waitlist.h"

#include <pthread.h>

#include "base/os/os.h"

#define BUCKETS 1024 /* a bucket that is never used never takes memory */

struct bucket {
	pthread_mutex_t lock;
	/*
	 * The first waiter of its first class. The classes of a key stand side by side, so that all of
	 * its queue is found together.
	 */
	struct waiter *first;
	uint64_t joined; /* waiters ever */
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

struct waitlist *waitlist_get_or_make(struct waitlist **place)
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

/* The link to the first class of the key's queue, or to where it would be. */
static struct waiter **find_queue(struct bucket *bucket, uint64_t hash)
{
	struct waiter **link = &bucket->first;

	while (*link && (*link)->hash != hash)
		link = &(*link)->next_class;
	return link;
}

/* The link to the class of a priority in the queue at `link`, or to where it would be. */
static struct waiter **find_class(struct waiter **link, uint64_t hash, unsigned priority)
{
	while (*link && (*link)->hash == hash && (*link)->priority != priority)
		link = &(*link)->next_class;
	return link;
}

/* A key's queue: its waiters in classes, one for each priority. */
struct queue {
	struct waiter *first;  /* came first; NULL if the queue is empty */
	struct waiter *lowest; /* the first of the class of the lowest priority, or NULL */
	size_t count;
};

static struct queue summarize_queue(struct waiter *class, uint64_t hash)
{
	struct queue queue = {NULL, NULL, 0};

	for (; class && class->hash == hash; class = class->next_class) {
		if (!queue.first || class->number < queue.first->number)
			queue.first = class;
		if (!queue.lowest || class->priority > queue.lowest->priority)
			queue.lowest = class;
		queue.count += class->count;
	}
	return queue;
}

/* waitlist_has_slow reads the link of an empty bucket without the lock. */
static void set_link(struct waiter **link, struct waiter *waiter)
{
	__atomic_store_n(link, waiter, __ATOMIC_RELAXED);
}

static void add_to_class(struct waiter **class, struct waiter *waiter, uint64_t hash)
{
	struct waiter *first = *class;

	waiter->next = NULL;
	if (first && first->hash == hash) {
		waiter->previous = first->previous;
		waiter->previous->next = waiter;
		first->previous = waiter;
		first->count++;
	} else {
		waiter->previous = waiter;
		waiter->next_class = first;
		waiter->count = 1;
		set_link(class, waiter);
	}
}

/* Removes the first waiter of a class; the second, if any, takes its place. */
static void remove_first(struct waiter **class, struct waiter *first)
{
	struct waiter *next = first->next;

	if (next) {
		next->previous = first->previous;
		next->next_class = first->next_class;
		next->count = first->count - 1;
	}
	set_link(class, next ? next : first->next_class);
}

/* Removes a waiter, and wakes the one that becomes the first of its queue. */
static void remove_waiter(struct waitlist *list, struct waiter **link, struct waiter *waiter)
{
	bool was_first = summarize_queue(*link, waiter->hash).first == waiter;
	struct waiter **class = find_class(link, waiter->hash, waiter->priority), *first = *class;

	if (first == waiter) {
		remove_first(class, waiter);
	} else {
		waiter->previous->next = waiter->next;
		*(waiter->next ? &waiter->next->previous : &first->previous) = waiter->previous;
		first->count--;
	}
	__sync_fetch_and_sub(&list->count, 1);
	first = was_first ? summarize_queue(*link, waiter->hash).first : NULL;
	if (first)
		first->wake(first);
}

/* Drops the newest waiter of the lowest class, if that is below `priority`. */
static bool drop_lowest(struct waitlist *list, struct waiter **link, const struct queue *queue,
                        unsigned priority)
{
	struct waiter *dropped;

	if (!queue->lowest || queue->lowest->priority <= priority)
		return false;
	dropped = queue->lowest->previous;
	remove_waiter(list, link, dropped);
	dropped->is_dropped = true;
	dropped->wake(dropped);
	return true;
}

enum waitlist_joined waitlist_join(struct waitlist *list, struct waiter *waiter, size_t max)
{
	struct bucket *bucket = bucket_of(list, waiter->hash);
	enum waitlist_joined place = WAITLIST_FULL;
	struct waiter **link;
	struct queue queue;

	pthread_mutex_lock(&bucket->lock);
	link = find_queue(bucket, waiter->hash);
	queue = summarize_queue(*link, waiter->hash);
	waiter->is_dropped = false;
	if (queue.count < max || drop_lowest(list, link, &queue, waiter->priority)) {
		waiter->number = bucket->joined++;
		add_to_class(find_class(link, waiter->hash, waiter->priority), waiter, waiter->hash);
		__sync_fetch_and_add(&list->count, 1);
		fence_behind_swap();
		place =
		    summarize_queue(*link, waiter->hash).first == waiter ? WAITLIST_FIRST : WAITLIST_BEHIND;
	}
	pthread_mutex_unlock(&bucket->lock);
	return place;
}

void waitlist_leave(struct waitlist *list, struct waiter *waiter)
{
	struct bucket *bucket = bucket_of(list, waiter->hash);

	pthread_mutex_lock(&bucket->lock);
	if (!waiter->is_dropped)
		remove_waiter(list, find_queue(bucket, waiter->hash), waiter);
	pthread_mutex_unlock(&bucket->lock);
}

bool waitlist_has_slow(struct waitlist *list, uint64_t hash)
{
	struct bucket *bucket = bucket_of(list, hash);
	bool found;

	if (!__atomic_load_n(&bucket->first, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&bucket->lock);
	found = *find_queue(bucket, hash) != NULL;
	pthread_mutex_unlock(&bucket->lock);
	return found;
}

void waitlist_wake_slow(struct waitlist *list, uint64_t hash)
{
	struct bucket *bucket = bucket_of(list, hash);
	struct waiter *first;

	pthread_mutex_lock(&bucket->lock);
	first = summarize_queue(*find_queue(bucket, hash), hash).first;
	if (first)
		first->wake(first);
	pthread_mutex_unlock(&bucket->lock);
}

/* Wakes the first of each queue. */
static void wake_bucket(struct bucket *bucket)
{
	struct waiter *class = bucket->first;

	while (class) {
		struct waiter *first = summarize_queue(class, class->hash).first;
		uint64_t hash = class->hash;

		first->wake(first);
		while (class && class->hash == hash)
			class = class->next_class;
	}
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
		wake_bucket(&list->buckets[i]);
		pthread_mutex_unlock(&list->buckets[i].lock);
	}
}
