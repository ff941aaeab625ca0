/*
 * history.h: keeps how many requests each limit has allowed and denied in each second of the last
 * hour, for /v1/stats.
 *
 * One thread reads the counters of the metrics once a second, so a request pays nothing for its
 * place in the history. Memory is bounded: the HISTORY_LIMITS busiest limits have a series of
 * points each, all others have one series together. A series takes 86 KB.
 *
 * A limit's activity is the number of its decisions, in which a decision counts half after ten
 * minutes. A limit that becomes busier than the quietest one with a series takes its place: the
 * points of that one are added to those of the others.
 *
 * One thread at a time counts. Any thread may render.
 */
#ifndef SERVER_HISTORY_H
#define SERVER_HISTORY_H

#include "base/buffer.h"
#include "base/number.h"
#include "server/admin/metrics.h"

#define HISTORY_SECONDS 3600
#define HISTORY_LIMITS  64

/* A larger number of decisions in a second is shown as this one, so that answers are bounded. */
#define HISTORY_POINT_MAX 999999999

/* The most bytes of an answer of /v1/stats. */
#define HISTORY_TEXT_MAX ((size_t)16 << 20)

struct history;

/* The time, by both clocks of a computer: the first may be set, the second only advances. */
struct history_time {
	uint64_t wall_ns, monotonic_ns;
};

/** Begins a history of `metrics`, which have counted nothing yet. NULL if memory is short. */
struct history *history_open(const struct metrics *metrics, struct history_time now);
/** NULL does nothing. */
void history_close(struct history *history);

/**
 * Appends the points of all seconds that have ended since the last call. Call it once a
 * second: counts of several seconds are divided evenly among them.
 */
void history_count(struct history *history, struct history_time now);

/** How long until the current second ends, and history_count is due. */
static inline uint64_t history_due_ns(uint64_t wall_ns)
{
	return NS_PER_S - wall_ns % NS_PER_S;
}

/**
 * Appends the points of the seconds after `since_s`, in Unix time, as the JSON object that
 * docs/protocols.md describes. Appends nothing and sets out->failed if memory is short.
 */
void history_render(struct history *history, uint64_t since_s, struct buffer *out);

#endif
