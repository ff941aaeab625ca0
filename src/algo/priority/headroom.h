/*
 * headroom.h: room over a measured limit for requests of higher priority.
 *
 * If a class of priority is denied while a lower class also asks, each denial gives the class room
 * for one more request over the limit, and for HEADROOM_GROW more if a lower class has passed since
 * the denial before. The room shrinks slowly as its requests pass. It is gone when the class, or
 * every lower one, has not asked for HEADROOM_S. So only the lowest classes keep to the limit, and
 * higher ones pass beside them. bench/closed_loop has measured it.
 *
 * While the class is denied and no lower class passes, the class alone asks for more than the
 * capacity. More room would only let its requests wait, so half of the most room is kept then.
 *
 * A limit measures its baseline in a probe, a window with fewer requests in flight. A probe denies
 * lower classes alone, and some more of them, so that higher ones fit in: half of the room, but at
 * most a HEADROOM_DEEPER-th of what the probe takes off the limit, since a deep probe leaves workers
 * idle. If more were in flight than a probe may have, all classes keep to the next probe. From the
 * first measured answer until a probe has confirmed the baseline, no class has room.
 */
#ifndef ALGO_PRIORITY_HEADROOM_H
#define ALGO_PRIORITY_HEADROOM_H

#include "algo/priority/priority.h"

#define HEADROOM_S      10  /* so long a class counts as asking */
#define HEADROOM_ROOTS  4   /* of the limit, which is the most room, and at most the limit itself */
#define HEADROOM_GROW   4
#define HEADROOM_DEEPER 3
#define HEADROOM_SHRINK 400 /* one request in so many that pass takes a place off it, */
#define HEADROOM_VAIN   8   /* and one in so many that are denied while no lower class passes,
                              * down to half of the most room */

struct headroom {
	uint8_t seen[PRIORITY_CLASSES]; /* the second in which it last asked, or 0 if it does not */
	uint16_t room[PRIORITY_CLASSES - 1];
	uint16_t passed_below; /* a bit for each class: a lower one has passed since its room last grew */
};

struct headroom_limits {
	uint64_t quota;
	uint64_t ordinary; /* without the probe */
	bool probes, probes_all;
};

/** A request of a class asks. Whether that changes anything. */
bool headroom_record_request(struct headroom *headroom, unsigned priority, uint64_t now_ns);

/** How many places over a limit of `quota` a class has. */
uint64_t headroom_extra(const struct headroom *headroom, unsigned priority, uint64_t quota);

/** The most that may be in flight when a request of a class asks. */
uint64_t headroom_quota(const struct headroom *headroom, unsigned priority,
                        const struct headroom_limits *limits);

/** A request of the class was denied, or passed; `draw` is fair. Whether that changes anything. */
bool headroom_record_denial(struct headroom *headroom, unsigned priority, uint64_t quota,
                            uint64_t draw);
bool headroom_record_pass(struct headroom *headroom, unsigned priority, uint64_t quota,
                          uint64_t draw);

#endif
