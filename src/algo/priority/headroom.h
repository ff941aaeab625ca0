/*
 * headroom.h: computes how far requests of higher priority may exceed a measured limit.
 *
 * All requests of one priority are a class. A class gets room for more requests over the limit if
 * it is denied while a lower class sends requests, too. Each denial adds one request, or
 * HEADROOM_GROW if a lower class has passed since the last denial. The room shrinks slowly as
 * requests of the class pass. It ends when the class, or every lower class, has sent no request for
 * HEADROOM_S. So higher classes pass while the lowest ones keep to the limit (measured by
 * bench/closed_loop).
 *
 * If the class is denied although no lower class passes, it alone exceeds the capacity. More room
 * would only let its requests wait, so its room then shrinks to half of the most.
 *
 * A limit measures its baseline in a probe: a window with fewer requests in flight. A probe denies
 * lower classes only. It denies more of them than the probe alone would, so that higher classes fit
 * in: by half of the room, but at most by a HEADROOM_DEEPER-th of the probe's own reduction. A
 * deeper probe would leave workers idle. If too many were in flight in a probe, the next probe is
 * for all classes. No class has room from the first measured answer until a probe has confirmed the
 * baseline.
 */
#ifndef ALGO_PRIORITY_HEADROOM_H
#define ALGO_PRIORITY_HEADROOM_H

#include "algo/priority/priority.h"

#define HEADROOM_S      10 /* seconds for which a class counts as present after a request */
#define HEADROOM_ROOTS  4  /* the most room in square roots of the limit, or the limit if less */
#define HEADROOM_GROW   4
#define HEADROOM_DEEPER 3
#define HEADROOM_SHRINK 400 /* one in so many requests that pass takes 1 off the room, */
#define HEADROOM_VAIN   8   /* and one in so many that are denied while no lower class passes */

struct headroom {
	uint8_t last_request_second[PRIORITY_CLASSES]; /* modulo 255, plus 1; 0 if none */
	uint16_t extra_requests[PRIORITY_LOWEST];      /* over the limit; the lowest class has none */
	uint16_t lower_passed_bits; /* by class: a lower class has passed since its extra last grew */
};

struct headroom_limits {
	uint64_t quota;
	uint64_t quota_without_probe; /* the limit if this window were no probe */
	bool is_probe;                /* of this window */
	bool is_probe_of_all;         /* a probe that also denies the higher classes */
};

/** Records a request of a class. Returns whether that changes the headroom. */
bool headroom_record_request(struct headroom *headroom, unsigned priority, uint64_t now_ns);

/** The requests over a limit of `quota` that a class may have in flight. */
uint64_t headroom_extra(const struct headroom *headroom, unsigned priority, uint64_t quota);

/** The most requests that may be in flight with a new one of the class. */
uint64_t headroom_quota(const struct headroom *headroom, unsigned priority,
                        const struct headroom_limits *limits);

/**
 * Records that a request of the class was denied, or passed. `draw` is random. Returns whether that
 * changes the headroom.
 */
bool headroom_record_denial(struct headroom *headroom, unsigned priority, uint64_t quota,
                            uint64_t draw);
bool headroom_record_pass(struct headroom *headroom, unsigned priority, uint64_t quota,
                          uint64_t draw);

#endif
