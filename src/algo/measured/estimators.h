/*
 * estimators.h: limits on what may be in flight that are measured, not set.
 *
 * An estimator learns of each answer how long it took, and how many requests were in flight then,
 * this one included. It says how many may be in flight. It computes in whole numbers, so any other
 * implementation comes to the same limit. No clock, no lock, no storage.
 *
 *     knee       ours: what a backend holds before requests wait (docs/design/adaptive.md)
 *     gradient2  a long average of latencies, divided by each latency
 *     vegas      the queue that the least latency implies
 *     aimd       one more for each answer in time, a tenth less for one that is late
 *     bbr        most passes x least latency, while the processors are busy
 */
#ifndef ALGO_MEASURED_ESTIMATORS_H
#define ALGO_MEASURED_ESTIMATORS_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPTIVE_LIMIT_MAX UINT64_C(65535)
#define ADAPTIVE_LATENCY_MAX_NS                                                                    \
	((UINT64_C(1) << 40) - 1) /* longer ones count as this: 18 minutes */

struct adaptive_bounds {
	uint32_t initial;     /* from least to most */
	uint32_t least, most; /* 1 to ADAPTIVE_LIMIT_MAX */
};

struct adaptive_sample {
	uint64_t latency_ns;
	uint64_t in_flight; /* with this one; at least 1 */
	bool dropped;       /* its time was over, or, for vegas and aimd, it failed */
	uint16_t draw;      /* vegas: fair bits */
};

enum knee_phase {
	KNEE_START, /* no baseline yet */
	KNEE_FULL,
	KNEE_PROBE,     /* fewer are let through, to measure the baseline; lower priorities first */
	KNEE_PROBE_ALL, /* for all priorities: the probe before had too many in flight */
};

#define KNEE_ONE     256  /* of `knee`: a request in flight */
#define KNEE_BASE    1024 /* of a sample: as long as the baseline */
#define KNEE_CLIP    3072 /* the most that an answer counts for, */
#define KNEE_LOST    4092 /* and what a timeout counts for */
#define KNEE_LEAST   96   /* samples of a window; more where the limit is higher, ... */
#define KNEE_MOST    4095 /* ... but no more than this */
#define KNEE_WINDOWS 256  /* are told apart by their numbers */

/*
 * Two cells of 16 bytes hold it, beside their tags: a report changes the first alone, the last
 * report of a window the second, too.
 */
struct knee {
	/* Measured in this window: 96 bits. */
	uint16_t count;   /* of samples: 12 bits */
	uint32_t sum;     /* of samples: 24 */
	uint32_t squares; /* of their fourths: 32 */
	uint32_t
	    in_flight; /* sum of what was in flight: 28; while count is 0, so many answers are let by */
	/* The result of earlier windows: 91 bits. */
	uint32_t knee;    /* 24 */
	uint64_t base_ns; /* the baseline: 25 bits, shifted by up to 15, or 0 if none yet */
	uint32_t limit;   /* 16 */
	enum knee_phase phase;
	uint8_t streak; /* of windows in which more and more, or fewer and fewer, were let through: 3 */
	uint8_t since;  /* full windows since the last probe: 6 */
	uint8_t wait;   /* from one probe to the next: a power of 2, 1 before the first, to 32: 3 */
	uint8_t window; /* its number */
};

void knee_begin(struct knee *knee, const struct adaptive_bounds *bounds);
/** `window` is of when the request was let through; one from before the last window does not count.
 */
void knee_sample(struct knee *knee, const struct adaptive_bounds *bounds,
                 const struct adaptive_sample *sample, uint8_t window);

/* The same in steps, for those that keep its two cells apart. */
static inline bool knee_is_late(const struct knee *knee, uint8_t window)
{
	return (uint8_t)(knee->window - window) > 1;
}

/** Whether answers were measured, and no probe has confirmed the baseline yet, although `least`
 * allows one. */
static inline bool knee_baseline_is_guess(const struct knee *knee)
{
	return knee->wait == 1 && knee->base_ns != 0;
}

/** Another sample of this window. */
void knee_add_sample(struct knee *knee, const struct adaptive_sample *sample);
/** Whether the window has all of its samples. */
bool knee_is_full(const struct knee *knee);
/** The limit if this window were no probe. */
uint32_t knee_ordinary(const struct knee *knee, const struct adaptive_bounds *bounds);
/** Takes in the window's result. Its samples stay until knee_begin_window. */
void knee_end_window(struct knee *knee, const struct adaptive_bounds *bounds);
/** The next window has no samples yet. */
void knee_begin_window(struct knee *knee, uint64_t in_flight);

#define GRADIENT2_LIMIT_ONE 65536

struct gradient2 {
	uint64_t limit_parts; /* GRADIENT2_LIMIT_ONE each */
	uint64_t long_parts;  /* the long average, in 1/256 ns */
	uint32_t count;       /* of samples in it, to 10 */
};

static inline uint64_t gradient2_limit(const struct gradient2 *gradient)
{
	return gradient->limit_parts / GRADIENT2_LIMIT_ONE;
}

void gradient2_begin(struct gradient2 *gradient, const struct adaptive_bounds *bounds);
void gradient2_sample(struct gradient2 *gradient, const struct adaptive_bounds *bounds,
                      const struct adaptive_sample *sample);

struct vegas {
	uint64_t least_ns; /* or 0 if none yet */
	uint32_t limit;
	uint32_t count; /* of samples since the least was measured anew */
	uint16_t jitter;
};

void vegas_begin(struct vegas *vegas, const struct adaptive_bounds *bounds);
void vegas_sample(struct vegas *vegas, const struct adaptive_bounds *bounds,
                  const struct adaptive_sample *sample);

struct aimd {
	uint32_t limit;
};

void aimd_begin(struct aimd *aimd, const struct adaptive_bounds *bounds);
void aimd_sample(struct aimd *aimd, const struct adaptive_bounds *bounds,
                 const struct adaptive_sample *sample);

#define BBR_PARTS   100
#define BBR_PART_NS UINT64_C(100000000)

struct bbr_part {
	uint64_t number; /* of the part of time */
	uint32_t passes;
	uint64_t sum_ns; /* of latencies */
};

struct bbr {
	struct bbr_part parts[BBR_PARTS];
	uint32_t cpu;       /* smoothed, in millionths */
	uint64_t cpu_at_ns; /* when it was last told */
	uint64_t denied_ns; /* the first denial, or 0 if none lately */
};

void bbr_begin(struct bbr *bbr);
void bbr_sample(struct bbr *bbr, const struct adaptive_sample *sample, uint64_t now_ns);
/** The processors were at work for so many thousandths of the last half second. */
void bbr_busy(struct bbr *bbr, unsigned thousandths, uint64_t now_ns);
uint64_t bbr_limit(const struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t now_ns);
/** As many may be in flight now: more than its limit, while the processors have time. */
uint64_t bbr_quota(const struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t now_ns);
/** Whether one more may pass beside so many. */
bool bbr_allows(struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t in_flight,
                uint64_t now_ns);

#endif
