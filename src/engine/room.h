/*
 * room.h: who waits for a key, first come first served.
 *
 * Those who wait for one key stand in a queue, and only the first of it tries to
 * acquire: at the time that its denial told, or when it is woken since somebody
 * gave back. How it sleeps is its owner's business. So a crowd costs one attempt
 * per grant, and a key's queue says nothing to another's.
 *
 * A room allocates nothing: a waiter is its owner's memory, and queues are chained
 * through their first waiters. Who has nobody waiting pays for one load.
 *
 * A key is its hash under its limit's identity, as the table's cells are found by.
 */
#ifndef ENGINE_ROOM_H
#define ENGINE_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fence.h"

struct room_waiter {
	uint64_t hash;
	/*
	 * Told that it is the first now, or that it is and should try again. From any
	 * thread, under a lock: it must not call the room, nor wait for who does.
	 */
	void (*wake)(struct room_waiter *waiter);
	/* The room's, as all that follows. */
	struct room_waiter *next, *previous; /* in its queue; the first's previous is the last */
	struct room_waiter *next_queue;      /* of the first of a queue, as is the count */
	size_t count;
};

struct room;

enum room_place {
	ROOM_FIRST,
	ROOM_BEHIND, /* woken when it is the first */
	ROOM_FULL,   /* not taken in */
};

/** The room that is kept there, or NULL where nobody has waited yet. */
static inline struct room *room_at(struct room *const *place)
{
	return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

/** The same, made where there is none. The child of a fork finds it empty. NULL: no memory. */
struct room *room_make(struct room **place);
/** Nobody waits any more. NULL does nothing. */
void room_close(struct room *room);

/**
 * At the end of its key's queue, if that has less than `max`. Who comes to be the
 * first tries again at once: what was given back before is not told of.
 */
enum room_place room_join(struct room *room, struct room_waiter *waiter, size_t max);

/** Who was taken in, once: not woken any more when this returns. */
void room_leave(struct room *room, struct room_waiter *waiter);

/** How many wait, for any key. */
size_t room_count(const struct room *room);

bool room_has_slow(struct room *room, uint64_t hash);
void room_poke_slow(struct room *room, uint64_t hash);

/** Whether anybody waits for the key. `room` may be NULL. */
static inline bool room_has(struct room *room, uint64_t hash)
{
	return __builtin_expect(room && room_count(room) > 0, 0) && room_has_slow(room, hash);
}

/** Something of the key was given back just now, by a swap. `place` is that of room_make. */
static inline void room_poke(struct room *const *place, uint64_t hash)
{
	struct room *room;

	fence_behind_swap();
	room = room_at(place);
	if (__builtin_expect(room && room_count(room) > 0, 0))
		room_poke_slow(room, hash);
}

/** Something changed just now for all keys. */
void room_poke_all(struct room *const *place);

#endif
