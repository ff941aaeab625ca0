/*
 * room.c: queues in buckets, each bucket under a lock of its own.
 *
 * No wake is lost. A waiter counts itself, then tries; whoever gives back changes the
 * state, then looks at the count. Between the two each has a full barrier. So either the
 * waiter finds what was given back, or it is found waiting.
 */
#include "engine/room.h"

#include <pthread.h>

#include "base/os.h"

#define BUCKETS 1024 /* of these as many pages are touched as are used */

struct bucket {
	pthread_mutex_t lock;
	struct room_waiter *first; /* of its first queue */
};

/*
 * All zero is an empty room, its locks free (PTHREAD_MUTEX_INITIALIZER): so the child of a
 * fork can be given one instead of waiters that are threads of its parent.
 */
struct room {
	size_t count;
	struct bucket buckets[BUCKETS];
};

void room_close(struct room *room)
{
	os_pages_unmap(room, sizeof *room);
}

struct room *room_make(struct room **place)
{
	struct room *room = room_at(place), *made;

	if (room)
		return room;
	made = os_pages_reserve(sizeof *made);
	if (!made)
		return NULL;
	os_pages_forget_in_child(made, sizeof *made);
	if (__sync_bool_compare_and_swap(place, NULL, made))
		return made;
	room_close(made);
	return room_at(place);
}

size_t room_count(const struct room *room)
{
	return __atomic_load_n(&room->count, __ATOMIC_RELAXED);
}

static struct bucket *bucket_of(struct room *room, uint64_t hash)
{
	return &room->buckets[hash % BUCKETS];
}

/* Where the first of the key's queue hangs, or would. */
static struct room_waiter **find(struct bucket *bucket, uint64_t hash)
{
	struct room_waiter **link = &bucket->first;

	while (*link && (*link)->hash != hash)
		link = &(*link)->next_queue;
	return link;
}

/* Those who ask whether a bucket is empty hold no lock. */
static void hang(struct room_waiter **link, struct room_waiter *waiter)
{
	__atomic_store_n(link, waiter, __ATOMIC_RELAXED);
}

enum room_place room_join(struct room *room, struct room_waiter *waiter, size_t max)
{
	struct bucket *bucket = bucket_of(room, waiter->hash);
	enum room_place place = ROOM_BEHIND;
	struct room_waiter **link, *first;

	pthread_mutex_lock(&bucket->lock);
	link = find(bucket, waiter->hash);
	first = *link;
	waiter->next = NULL;
	if (!first) {
		waiter->previous = waiter;
		waiter->next_queue = NULL;
		waiter->count = 1;
		hang(link, waiter);
		place = ROOM_FIRST;
	} else if (first->count < max) {
		waiter->previous = first->previous;
		waiter->previous->next = waiter;
		first->previous = waiter;
		first->count++;
	} else {
		place = ROOM_FULL;
	}
	if (place != ROOM_FULL)
		__sync_fetch_and_add(&room->count, 1);
	fence_behind_swap();
	pthread_mutex_unlock(&bucket->lock);
	return place;
}

/* The second, or nobody, stands where the first stood. */
static void follow(struct room_waiter **link, struct room_waiter *first)
{
	struct room_waiter *next = first->next;

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

void room_leave(struct room *room, struct room_waiter *waiter)
{
	struct bucket *bucket = bucket_of(room, waiter->hash);
	struct room_waiter **link, *first;

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
	__sync_fetch_and_sub(&room->count, 1);
	pthread_mutex_unlock(&bucket->lock);
}

bool room_has_slow(struct room *room, uint64_t hash)
{
	struct bucket *bucket = bucket_of(room, hash);
	bool found;

	if (!__atomic_load_n(&bucket->first, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&bucket->lock);
	found = *find(bucket, hash) != NULL;
	pthread_mutex_unlock(&bucket->lock);
	return found;
}

void room_poke_slow(struct room *room, uint64_t hash)
{
	struct bucket *bucket = bucket_of(room, hash);
	struct room_waiter *first;

	pthread_mutex_lock(&bucket->lock);
	first = *find(bucket, hash);
	if (first)
		first->wake(first);
	pthread_mutex_unlock(&bucket->lock);
}

void room_poke_all(struct room *const *place)
{
	struct room *room;

	fence_behind_swap();
	room = room_at(place);
	if (!room || room_count(room) == 0)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		pthread_mutex_lock(&room->buckets[i].lock);
		for (struct room_waiter *first = room->buckets[i].first; first; first = first->next_queue)
			first->wake(first);
		pthread_mutex_unlock(&room->buckets[i].lock);
	}
}
