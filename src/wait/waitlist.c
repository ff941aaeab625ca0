/*
 * waitlist.c: queues the requests that wait for a key of a limit, and wakes the first of each
 * queue.
 *
 * A hash table of buckets finds a key's queue; each bucket has a lock of its own. A queue consists
 * of *classes*, the waiters of one priority, each a list whose first waiter stands for the class.
 *
 * No wake is lost. A waiter counts itself, then tries to acquire; a thread that releases something
 * changes the key's state, then reads the count. Each of the two has a full barrier in between. So
 * either the waiter finds what was released, or the thread finds the waiter.
 */
#include "wait/waitlist.h"

#include <pthread.h>

#include "base/os/os.h"

#define BUCKETS 1024 /* the system gives memory only to those that are used */

struct bucket {
	pthread_mutex_t lock;
	/*
	 * The first waiter of its first class. The classes of a key stand side by side, so that all of
	 * its queue is found together.
	 */
	struct waiter *first_class;
	uint64_t joined_count; /* waiters that have ever joined */
};

/*
 * All zero is an empty waitlist with free locks (PTHREAD_MUTEX_INITIALIZER): so the child of
 * a fork gets an empty one instead of waiters that are threads of its parent.
 */
struct waitlist {
	size_t count; /* of all waiters */
	struct bucket buckets[BUCKETS];
};

void waitlist_close(struct waitlist *list)
{
	os_pages_unmap(list, sizeof *list);
}

/* If several threads make it at the same time, all get the list of one. NULL without memory. */
struct waitlist *waitlist_get_or_make(struct waitlist **pointer)
{
	struct waitlist *list = waitlist_at(pointer), *made;

	if (list)
		return list;
	made = os_pages_reserve(sizeof *made);
	if (!made)
		return NULL;
	os_pages_forget_in_child(made, sizeof *made);
	if (__sync_bool_compare_and_swap(pointer, NULL, made))
		return made;
	waitlist_close(made);
	return waitlist_at(pointer);
}

size_t waitlist_count(const struct waitlist *list)
{
	return __atomic_load_n(&list->count, __ATOMIC_RELAXED);
}

static struct bucket *bucket_of(struct waitlist *list, uint64_t hash)
{
	return &list->buckets[hash % BUCKETS];
}

/* Returns the link to the first class of the key's queue, or the link where it would be added. */
static struct waiter **find_queue(struct bucket *bucket, uint64_t hash)
{
	struct waiter **link = &bucket->first_class;

	while (*link && (*link)->hash != hash)
		link = &(*link)->next_class;
	return link;
}

/* Returns the link to a priority's class in the queue at `link`, or where it would be added. */
static struct waiter **find_class(struct waiter **link, uint64_t hash, unsigned priority)
{
	while (*link && (*link)->hash == hash && (*link)->priority != priority)
		link = &(*link)->next_class;
	return link;
}

struct queue {
	struct waiter *first;        /* the waiter that came first; NULL if the queue is empty */
	struct waiter *lowest_class; /* the class of the lowest priority, or NULL */
	size_t count;
};

/* Goes through the classes of a key's queue, from `class` on. 0 is the highest priority. */
static struct queue read_queue(struct waiter *class, uint64_t hash)
{
	struct queue queue = {NULL, NULL, 0};

	for (; class && class->hash == hash; class = class->next_class) {
		if (!queue.first || class->arrival_number < queue.first->arrival_number)
			queue.first = class;
		if (!queue.lowest_class || class->priority > queue.lowest_class->priority)
			queue.lowest_class = class;
		queue.count += class->class_count;
	}
	return queue;
}

/* The store is atomic because waitlist_has_slow reads the link of a bucket without the lock. */
static void set_link(struct waiter **link, struct waiter *waiter)
{
	__atomic_store_n(link, waiter, __ATOMIC_RELAXED);
}

/*
 * Appends the waiter to the class that `class` links to, or makes it a class of its own there if
 * the link belongs to another key or ends the bucket. The first waiter's `previous` is the last.
 */
static void add_to_class(struct waiter **class, struct waiter *waiter)
{
	struct waiter *first = *class;

	waiter->next = NULL;
	if (first && first->hash == waiter->hash) {
		waiter->previous = first->previous;
		waiter->previous->next = waiter;
		first->previous = waiter;
		first->class_count++;
	} else {
		waiter->previous = waiter;
		waiter->next_class = first;
		waiter->class_count = 1;
		set_link(class, waiter);
	}
}

/* Removes the first waiter of a class; the second, if any, stands for the class from now on. */
static void remove_first_of_class(struct waiter **class, struct waiter *first)
{
	struct waiter *next = first->next;

	if (next) {
		next->previous = first->previous;
		next->next_class = first->next_class;
		next->class_count = first->class_count - 1;
	}
	set_link(class, next ? next : first->next_class);
}

static void remove_behind_first(struct waiter *first_of_class, struct waiter *waiter)
{
	bool is_last = !waiter->next;

	waiter->previous->next = waiter->next;
	if (is_last)
		first_of_class->previous = waiter->previous;
	else
		waiter->next->previous = waiter->previous;
	first_of_class->class_count--;
}

static void wake_first(struct waiter *first_class, uint64_t hash)
{
	struct waiter *first = read_queue(first_class, hash).first;

	if (first)
		first->wake(first);
}

/* Removes a waiter from the queue at `link`, and wakes the waiter that becomes the first there. */
static void remove_waiter(struct waitlist *list, struct waiter **link, struct waiter *waiter)
{
	bool was_first = read_queue(*link, waiter->hash).first == waiter;
	struct waiter **class = find_class(link, waiter->hash, waiter->priority);

	if (*class == waiter)
		remove_first_of_class(class, waiter);
	else
		remove_behind_first(*class, waiter);
	__sync_fetch_and_sub(&list->count, 1);
	if (was_first)
		wake_first(*link, waiter->hash);
}

/*
 * Drops the newest waiter of the lowest priority from a full queue, for a new waiter of a higher
 * `priority` (a smaller number). Returns false if no waiter has a lower one.
 */
static bool drop_lower(struct waitlist *list, struct waiter **link, const struct queue *queue,
                       unsigned priority)
{
	struct waiter *dropped;

	if (!queue->lowest_class || queue->lowest_class->priority <= priority)
		return false;
	dropped = queue->lowest_class->previous; /* the last of the class */
	remove_waiter(list, link, dropped);
	dropped->is_dropped = true;
	dropped->wake(dropped);
	return true;
}

/*
 * Adds the waiter to its key's queue, which may have `max` waiters. Counting it is followed by a
 * full barrier, see the head of this file.
 */
enum waitlist_joined waitlist_join(struct waitlist *list, struct waiter *waiter, size_t max)
{
	struct bucket *bucket = bucket_of(list, waiter->hash);
	enum waitlist_joined joined = WAITLIST_FULL;
	struct waiter **link;
	struct queue queue;

	pthread_mutex_lock(&bucket->lock);
	link = find_queue(bucket, waiter->hash);
	queue = read_queue(*link, waiter->hash);
	waiter->is_dropped = false;
	if (queue.count < max || drop_lower(list, link, &queue, waiter->priority)) {
		waiter->arrival_number = bucket->joined_count++;
		add_to_class(find_class(link, waiter->hash, waiter->priority), waiter);
		__sync_fetch_and_add(&list->count, 1);
		fence_behind_swap();
		joined = read_queue(*link, waiter->hash).first == waiter ? WAITLIST_FIRST : WAITLIST_BEHIND;
	}
	pthread_mutex_unlock(&bucket->lock);
	return joined;
}

/* A dropped waiter is in no queue any more, and may leave all the same. */
void waitlist_leave(struct waitlist *list, struct waiter *waiter)
{
	struct bucket *bucket = bucket_of(list, waiter->hash);

	pthread_mutex_lock(&bucket->lock);
	if (!waiter->is_dropped)
		remove_waiter(list, find_queue(bucket, waiter->hash), waiter);
	pthread_mutex_unlock(&bucket->lock);
}

/* Whether any request waits for the key; the caller has found that some requests wait at all. */
bool waitlist_has_slow(struct waitlist *list, uint64_t hash)
{
	struct bucket *bucket = bucket_of(list, hash);
	bool found;

	if (!__atomic_load_n(&bucket->first_class, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&bucket->lock);
	found = *find_queue(bucket, hash) != NULL;
	pthread_mutex_unlock(&bucket->lock);
	return found;
}

/* Wakes the first of the key's queue; the caller has found that some requests wait at all. */
void waitlist_wake_slow(struct waitlist *list, uint64_t hash)
{
	struct bucket *bucket = bucket_of(list, hash);

	pthread_mutex_lock(&bucket->lock);
	wake_first(*find_queue(bucket, hash), hash);
	pthread_mutex_unlock(&bucket->lock);
}

/* Wakes the first of each queue. The classes of one queue stand side by side in the bucket. */
static void wake_bucket(struct bucket *bucket)
{
	struct waiter *class = bucket->first_class;

	while (class) {
		uint64_t hash = class->hash;

		wake_first(class, hash);
		while (class && class->hash == hash)
			class = class->next_class;
	}
}

/* Wakes the first of all queues, after a change that may let any key pass. */
void waitlist_wake_all(struct waitlist *const *pointer)
{
	struct waitlist *list;

	fence_behind_swap();
	list = waitlist_at(pointer);
	if (!list || waitlist_count(list) == 0)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		pthread_mutex_lock(&list->buckets[i].lock);
		wake_bucket(&list->buckets[i]);
		pthread_mutex_unlock(&list->buckets[i].lock);
	}
}
