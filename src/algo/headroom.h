/*
 * headroom.h: room over a measured limit for requests of higher priority.
 *
 * If a class of priority is denied while a lower class also asks, each denial gives the class room
 * for one more request over the limit. The room shrinks slowly as its requests pass. It is gone
 * when the class, or every lower one, has not asked for HEADROOM_S. So only the lowest classes
 * keep to the limit, and higher ones pass beside them. bench/closed_loop has measured it.
 */
#ifndef ALGO_HEADROOM_H
#define ALGO_HEADROOM_H

#include "algo/priority.h"

#define HEADROOM_S      10  /* so long a class counts as asking */
#define HEADROOM_ROOTS  4   /* of the limit, which is the most room */
#define HEADROOM_SHRINK 400 /* one request in so many that pass takes a place off it */

struct headroom {
	uint8_t seen[PRIORITY_CLASSES]; /* the second in which it last asked, see headroom.c; 0: it does not */
	uint16_t room[PRIORITY_CLASSES - 1];
};

/** A request of a class asks. Whether that changes anything. */
bool headroom_see(struct headroom *headroom, unsigned priority, uint64_t now_ns);

/** How many places over a limit of `quota` a class has. */
uint64_t headroom_over(const struct headroom *headroom, unsigned priority, uint64_t quota);

/** A request of the class was denied. Whether that changes anything. */
bool headroom_denied(struct headroom *headroom, unsigned priority, uint64_t quota);

/** One passed that had room; `draw` is fair. Whether that changes anything. */
bool headroom_passed(struct headroom *headroom, unsigned priority, uint64_t draw);

#endif
