/*
 * estimators.h: measures how many requests may be in flight, by one of five estimators.
 *
 * An estimator gets a sample for each answer: its latency, and the number of requests in flight,
 * this one included. From these it computes the limit. It uses whole numbers only, so that any
 * other implementation gets the same limit. It has no clock, no lock, and does not allocate.
 *
 *     knee       our own: the number at which requests begin to wait (docs/design/adaptive.md)
 *     gradient2  by a long average of latencies, divided by each latency
 *     vegas      by the queue length that the least latency implies
 *     aimd       one more for each answer in time, a tenth less for a late one
 *     bbr        the highest throughput times the least latency, while the processors are busy
 */
#ifndef ALGO_MEASURED_ESTIMATORS_H
#define ALGO_MEASURED_ESTIMATORS_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPTIVE_LIMIT_MAX UINT64_C(65535)
#define ADAPTIVE_LATENCY_MAX_NS                                                                    \
	((UINT64_C(1) << 40) - 1) /* 18 minutes; longer latencies count as this */

struct adaptive_bounds {
	uint32_t initial;     /* from least to most */
	uint32_t least, most; /* 1 to ADAPTIVE_LIMIT_MAX */
};

struct adaptive_sample {
	uint64_t latency_ns;
	uint64_t in_flight; /* with this one; at least 1 */
	bool dropped;       /* it timed out, or, for vegas and aimd, failed */
	uint16_t draw;      /* vegas: fair random bits */
};

enum knee_phase {
	KNEE_START,     /* there is no baseline yet */
	KNEE_FULL,      /* as many as the limit allows */
	KNEE_PROBE,     /* fewer, to measure the baseline; lower priorities are denied first */
	KNEE_PROBE_ALL, /* a probe for all priorities, since the one before had too many in flight */
};

#define KNEE_ONE     256  /* one request in flight, in the unit of `knee` */
#define KNEE_BASE    1024 /* a latency of the baseline, in the unit of `sum` */
#define KNEE_CLIP    3072 /* the longest latency of an answer in that unit, */
#define KNEE_LOST    4092 /* and that of a timeout */
#define KNEE_LEAST   96   /* samples of a window: as many as the limit, but at least this, */
#define KNEE_MOST    4095 /* and at most this */

/*
 * The state of the knee. It fits two cells of 16 bytes beside their tags: a report changes only the
 * first group of fields, the last report of a window the second, too. Comments have the bits.
 */
struct knee {
	/* Measured in this window: 96 bits. */
	uint16_t count;     /* of samples: 12 bits */
	uint32_t sum;       /* of samples: 24 */
	uint32_t squares;   /* sum of the squares of a fourth of each sample: 32 */
	uint32_t in_flight; /* sum of the requests in flight: 26; while count is 0, the answers still to
	                       skip */
	/* The result of earlier windows: 91 bits. */
	uint32_t knee;    /* 24 */
	uint64_t base_ns; /* the baseline, 0 before the first sample: 25, shifted by up to 15 */
	uint32_t limit;   /* 16 */
	enum knee_phase phase;
	uint8_t streak; /* windows in a row that grew the knee, or probes in a row that lowered the
	                   baseline: 3 */
	uint8_t windows_since_probe; /* full windows since the last probe: 6 */
	uint8_t probe_interval; /* full windows from one probe to the next: 1 before the first, a power
	                 of 2 to 32: 3 */
	uint8_t window;         /* number of the window: 8 */
};

void knee_begin(struct knee *knee, const struct adaptive_bounds *bounds);
/**
 * Adds a sample. `window` is the number of the window in which the request was admitted: if it is
 * older than the last window, the sample is ignored.
 */
void knee_sample(struct knee *knee, const struct adaptive_bounds *bounds,
                 const struct adaptive_sample *sample, uint8_t window);

/* The parts of knee_sample, for callers that change the two cells separately. */
static inline bool knee_is_late(const struct knee *knee, uint8_t window)
{
	return (uint8_t)(knee->window - window) > 1;
}

/** Whether the baseline is the first one, which no probe has confirmed yet. */
static inline bool knee_baseline_is_guess(const struct knee *knee)
{
	return knee->probe_interval == 1 && knee->base_ns != 0;
}

/** Adds a sample to this window, or skips it if its request was admitted under an older limit. */
void knee_add_sample(struct knee *knee, const struct adaptive_sample *sample);
/** Whether the window has all of its samples. */
bool knee_is_full(const struct knee *knee);
/** The limit that would hold if this window were no probe. */
uint32_t knee_ordinary(const struct knee *knee, const struct adaptive_bounds *bounds);
/** Computes the next limit from the window. Its sums stay until knee_begin_window. */
void knee_end_window(struct knee *knee, const struct adaptive_bounds *bounds);
/** Clears the sums for the next window, which skips the answers to the requests in flight. */
void knee_begin_window(struct knee *knee, uint64_t in_flight);

#define GRADIENT2_LIMIT_ONE 65536

struct gradient2 {
	uint64_t limit_parts; /* the limit, in 1/GRADIENT2_LIMIT_ONE */
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
	uint64_t least_ns; /* the least latency, or 0 before the first sample */
	uint32_t limit;
	uint32_t count; /* of samples since least_ns was reset */
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
	uint64_t number; /* of the part since the epoch */
	uint32_t passes;
	uint64_t sum_ns; /* of latencies */
};

struct bbr {
	struct bbr_part parts[BBR_PARTS];
	uint32_t cpu;             /* smoothed, in millionths */
	uint64_t cpu_at_ns;       /* time of the last bbr_busy */
	uint64_t first_denied_ns; /* see bbr_allows; 0 if none was denied lately */
};

void bbr_begin(struct bbr *bbr);
void bbr_sample(struct bbr *bbr, const struct adaptive_sample *sample, uint64_t now_ns);
/** Records that the processors were busy for so many thousandths of the last half second. */
void bbr_busy(struct bbr *bbr, unsigned thousandths, uint64_t now_ns);
uint64_t bbr_limit(const struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t now_ns);
/** How many may be in flight now: more than the limit as long as the processors are not busy. */
uint64_t bbr_quota(const struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t now_ns);
/** Decides one more request beside in_flight others; records the time of the first denial. */
bool bbr_allows(struct bbr *bbr, const struct adaptive_bounds *bounds, uint64_t in_flight,
                uint64_t now_ns);

#endif
