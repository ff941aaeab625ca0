/*
 * weir.h: decide, per request and per key, what may pass now.
 *
 * Conventions that hold for every function here:
 *
 *   units     Durations and times are nanoseconds (`_ns`). `now_ns` is Unix time
 *             in nanoseconds, passed in by the caller, or WEIR_NOW to have the
 *             library read its clock once. Passing times in gives virtual
 *             time: the library then reads no clock at all. `cost` is in what the
 *             limit's rate counts: requests, bytes, ...
 *   errors    A function that can fail returns int: 0 or a negative
 *             enum weir_status, whose text is weir_strerror(). A denied
 *             request is not an error. Where a `struct weir_error *` is taken
 *             it may be NULL; otherwise it receives what was wrong in words.
 *             The library never prints, aborts or exits.
 *   memory    Handles are made by *_open and freed by *_close; *_close(NULL)
 *             does nothing. Strings and option structs passed in are copied.
 *             Results are written where the caller says; pointers may be NULL only
 *             where that is said. Deciding does not allocate, but by rules for a
 *             request that dozens of limits apply to, and where somebody waits.
 *   threads   Every function may be called from any thread on the same handle
 *             at once, except *_close, which must be the last call. Only
 *             *_acquire_wait and some of pools block. There are no threads but the
 *             workers of a pool, no global state.
 *   options   In option structs zero means the default, so
 *             `(struct weir_limit_options){ .rate = { 5 } }` is a token bucket
 *             of five a second. `reserved` fields must be zero.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/** In place of a time: the library reads its own clock, once. */
#define WEIR_NOW UINT64_MAX

/** As a deadline: none. */
#define WEIR_FOREVER (UINT64_MAX - 1)

/** An explicit 0 in options where 0 means the default. */
#define WEIR_ZERO UINT64_MAX

/* ------------------------------------------------------------------------- */
/* Errors                                                                    */

/** Every status with its text: X(name, value, text). */
#define WEIR_STATUS_LIST(X)                                                    \
	X(OK, 0, "success")                                                        \
	X(ENOMEM, -1, "out of memory")                                             \
	X(EINVAL, -2, "invalid argument")                                          \
	X(ECOST, -3, "cost is more than the limit could ever grant")               \
	X(ERANGE, -4, "value out of range")                                        \
	X(ENOTFOUND, -5, "not found")                                              \
	X(ESYNTAX, -6, "syntax error")                                             \
	X(EIO, -7, "input or output error")                                        \
	X(EUNSUPPORTED, -8, "not supported")                                       \
	X(ELONG, -9, "longer than accepted")                                       \
	X(EFULL, -10, "full")                                                      \
	X(ESTOPPED, -11, "stopped")                                                \
	X(ETIMEDOUT, -12, "not done in time")                                      \
	X(EPERM, -13, "not permitted")                                             \
	X(ESTORE, -14, "the store did not answer")

enum weir_status {
#define WEIR_STATUS_ENUM(name, value, text) WEIR_##name = (value),
	WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
};

/** What went wrong and where. `line` and `column` start at 1; 0: not known. */
struct weir_error {
	int status;
	unsigned line;
	unsigned column;
	char message[240];
};

/** Text of a status, never NULL, static. */
WEIR_API const char *weir_strerror(int status);

/** The version of the library that is linked, as "MAJOR.MINOR.PATCH". */
WEIR_API const char *weir_version(void);

/* ------------------------------------------------------------------------- */
/* Limits                                                                    */

/** When a request passes; T = period / rate.count. */
enum weir_algorithm {
	WEIR_TOKEN_BUCKET = 0, /**< `cost` tokens are there of at most `burst`, one more each T (GCRA,
	                            ITU-T I.371: max(TAT, now) + cost T - now <= burst T) */
	WEIR_LEAKY_BUCKET,     /**< level + cost <= burst, where one leaks each T: decides the same */
	WEIR_FIXED_WINDOW,     /**< count + cost <= rate.count in the window, see `align` */
	WEIR_RESETTING_BUCKET, /**< fixed_window, each window from its first request on */
	WEIR_SLIDING_WINDOW,   /**< the same for the slot of now and the slots - 1 before it; they are
	                            aligned to the Unix epoch */
	WEIR_SLIDING_LOG,      /**< the same for (now - period, now], exactly; rate.count <= 10,000 */
	WEIR_PACER,            /**< its turn max(last turn + T, now - slack T) is within max_wait_ns:
	                            until then it waits, see `wait_ns` */
	WEIR_LEAKY_QUEUE,      /**< the same, turn max(last turn + T, now), and at most `burst` wait */
	WEIR_RANDOM,           /**< a fair draw says so, with 1 - deny; keeps no counts */
	WEIR_SLIDING_COUNTER,  /**< previous (1 - elapsed / period) + current + cost <= rate.count, the
	                            counts of two windows, which are aligned to the Unix epoch */
	WEIR_BASE,             /**< fewer than `base` today, or the window of the rate has room */
	WEIR_CONCURRENCY,      /**< in flight + cost <= max: each holds a place until it is given back
	                            (weir_report, weir_refund), or its lease is over */
	WEIR_WARM_UP,          /**< its turn max(now, end of the last) is within max_wait_ns: a turn
	                            takes T per unit, or up to cold T when the key has rested */
	WEIR_BREAKER,          /**< the thing behind is healthy, as far as reports of permits tell, or
	                            this is a probe that finds out, see struct weir_health_options */
};

/** Unit of a rate's period. Months and years exist for calendar windows only. */
enum weir_unit {
	WEIR_SECOND = 0,
	WEIR_NANOSECOND,
	WEIR_MILLISECOND,
	WEIR_MINUTE,
	WEIR_HOUR,
	WEIR_DAY,
	WEIR_WEEK,
	WEIR_MONTH,
	WEIR_YEAR,
};

/** `count` per `period` units: 5/s is { 5 }, 10 per 100 ms { 10, 100, WEIR_MILLISECOND }. */
struct weir_rate {
	uint64_t count;      /**< 1 to 2^32 */
	uint64_t period;     /**< number of units; 0 means 1; a year in all at most */
	enum weir_unit unit;
};

enum weir_align {
	WEIR_ALIGN_CALENDAR = 0,  /**< windows of the calendar in `timezone` */
	WEIR_ALIGN_FIRST_REQUEST, /**< a window opens at its first allowed request */
};

enum weir_weekday {
	WEIR_MONDAY = 0,
	WEIR_TUESDAY,
	WEIR_WEDNESDAY,
	WEIR_THURSDAY,
	WEIR_FRIDAY,
	WEIR_SATURDAY,
	WEIR_SUNDAY,
};

/** Whose defaults a limit that judges by outcomes takes. */
enum weir_preset {
	WEIR_PRESET_NONE = 0,
	WEIR_PRESET_HYSTRIX,      /**< as Netflix's Hystrix */
	WEIR_PRESET_RESILIENCE4J, /**< as resilience4j */
};

/** Of limits that judge the thing behind them by the outcomes of permits; 0: the preset's default. */
struct weir_health_options {
	enum weir_preset preset;
	uint32_t failure_percent;  /**< of the calls in the window; 1 to 100; 0: 50 */
	uint32_t slow_percent;     /**< the same of slow calls; 0: 100 */
	uint32_t probes;           /**< half-open: as many calls decide; 1 to 100; 0: 1 */
	uint64_t window_ns;        /**< 1 ms to a year; 0: 10 s */
	uint64_t calls;            /**< instead, the window is the last so many; 1 to 1,000; 0: by time */
	uint64_t minimum;          /**< below so many calls in the window nothing is judged; 0: 20 */
	uint64_t slow_ns;          /**< longer calls are slow, a year at most; 0: none is */
	uint64_t sleep_ns;         /**< how long it stays open, 1 ms to a year; 0: 5 s */
	uint64_t ramp_ns;          /**< after it closed, in this time calls go from 10% to 100%; a year
	                                at most; 0: sleep_ns; WEIR_ZERO: all at once */
	uint64_t max_concurrent;   /**< calls in flight, 1 to 10,000; 0: any number */
	uint64_t permit_timeout_ns; /**< a permit that was not reported in that time counts as failed;
	                                 1 ms to a year; 0: 60 s */
	uint64_t reserved[8];
};

/** What does not belong to the algorithm must be 0, or is refused. */
struct weir_limit_options {
	const char *name; /**< 1 to 64 bytes; NULL: "default". Limits of the same name,
	                       algorithm and period (calendar: zone and week_start, too)
	                       share their counts in one table. */
	enum weir_algorithm algorithm;
	struct weir_rate rate;        /**< required, but none with random, concurrency and breaker */
	uint64_t burst;               /**< buckets: burst or capacity, leaky_queue: how many may wait;
	                                   1 to 2^32; 0: rate.count. At the rate 16 years at most. */
	enum weir_align align;        /**< fixed_window; 0: calendar */
	const char *timezone;         /**< calendar windows, base: IANA name; NULL: "UTC" */
	enum weir_weekday week_start; /**< calendar windows of weeks; 0: monday */
	uint32_t slots;               /**< sliding_window: parts of the period, 1 to 1,000; 0: 10 */
	union {
		uint64_t slack;      /**< pacer: turns that idle time saves up, less than 2^32, at the
		                          rate 16 years at most; 0: 10, WEIR_ZERO: none */
		uint64_t warm_up_ns; /**< warm_up: how long a cold key is used until it is warm, 1 ms to
		                          a year, at most 2^32 requests; 0: 10 s */
	};
	uint64_t max_wait_ns;         /**< pacer, warm_up, concurrency: a year at most; 0: 30 s.
	                                   leaky_queue: the same; 0: as long as there is room.
	                                   WEIR_ZERO: no wait */
	union {
		double deny; /**< random: the share that is denied, 0 to 1; 0: none */
		double cold; /**< warm_up: how much longer than T a cold key's first turn takes, 1 to
		                  10,000, to thousandths; 0: 3 */
	};
	uint64_t retry_ns;            /**< random, concurrency, breaker: `retry_after_ns` of the denied
	                                   where nothing better is known, a year at most; 0: 1 s */
	uint64_t base;                /**< base: what passes a day before the rate counts, which the
	                                   last of it does; 1 to 2^32 + 1 - rate.count; required */
	uint64_t max;                 /**< concurrency: requests in flight, 1 to 10,000; required */
	uint64_t queue;               /**< concurrency: how many may wait for a key's place, 1,000,000 at
	                                   most; 0: none by itself, any number by *_acquire_wait */
	uint64_t lease_ns;            /**< concurrency: how long a place is held at most, a year at
	                                   most; 0: 30 s */
	uint64_t keys;                /**< sliding ones, base, concurrency, breaker: how many keys a table is to
	                                   have room for, 1 to 2^32, see weir_table_reserve; 0: as
	                                   many as make its capacity of the smallest states */
	const struct weir_health_options *health; /**< of limits that judge by outcomes; NULL: defaults */
};

/** A validated limit: parameters only, no counts. Immutable, but for weir_limit_shed. */
typedef struct weir_limit weir_limit;

/**
 * Checks `options` and makes a limit of them.
 * Errors: EINVAL (impossible or missing value), ERANGE (does not fit),
 * ENOTFOUND (no such time zone), ENOMEM. On error *out is NULL.
 */
WEIR_API int weir_limit_open(const struct weir_limit_options *options, weir_limit **out,
                             struct weir_error *error);
WEIR_API void weir_limit_close(weir_limit *limit);

/**
 * Changes the share of requests that a random limit denies, from here on: for
 * one made by weir_limit_open, and one of an engine (weir_engine_limit), where
 * it stays until a reload brings another `deny`.
 * Errors: EINVAL (a limit of another algorithm), ERANGE (not 0 to 1).
 */
WEIR_API int weir_limit_shed(const weir_limit *limit, double deny);

/**
 * What this thread draws from now on follows from `seed`: for tests and
 * simulations. Without, each thread is seeded by the system.
 */
WEIR_API void weir_seed(uint64_t seed);

/** The limit's name; lives as long as the limit. */
WEIR_API const char *weir_limit_name(const weir_limit *limit);

/* ------------------------------------------------------------------------- */
/* Decisions                                                                 */

/** Every reason with its text: X(name, text). */
#define WEIR_REASON_LIST(X)                                                    \
	X(OK, "ok")                                                                \
	X(HIT_QUOTA, "hit_quota")                                                  \
	X(OVER_LIMIT, "over_limit")                                                \
	X(QUEUE_FULL, "queue_full")                                                \
	X(WAIT_TOO_LONG, "wait_too_long")                                          \
	X(SHED, "shed")                                                            \
	X(BREAKER_OPEN, "breaker_open")                                            \
	X(LISTED, "listed")                                                        \
	X(STORE_FAILURE, "store_failure")                                          \
	X(NO_ROOM, "no_room")

enum weir_reason {
#define WEIR_REASON_ENUM(name, text) WEIR_REASON_##name,
	WEIR_REASON_LIST(WEIR_REASON_ENUM)
#undef WEIR_REASON_ENUM
	WEIR_REASON_COUNT
};

/** Text of a reason, never NULL, static. */
WEIR_API const char *weir_reason_text(enum weir_reason reason);

/** The answer to one request, with its explanation. */
struct weir_decision {
	bool allowed;
	bool paced;              /**< a limit that makes requests wait was asked */
	enum weir_reason reason;
	uint64_t quota;          /**< what the limit grants at once: burst, capacity or count; of
	                              one that makes wait, those that wait included */
	uint64_t remaining;      /**< 0 to quota, rounded down */
	uint64_t retry_after_ns; /**< 0 when allowed, never 0 when denied: the same request
	                              would pass then if nothing else came; with random and
	                              concurrency a guess */
	uint64_t reset_after_ns; /**< until the key is as if never used */
	uint64_t window_ns;      /**< the limit's period; of buckets burst / rate, of concurrency
	                              the lease, of random 0: it has no quota to speak of */
	const char *limit;       /**< name of the limit that decided, or NULL where no rule
	                              applied; lives as long as the limit or engine */
	const char *rule;        /**< name of the rule, or NULL */
	const char *result;      /**< denied: the rule's `result` as a JSON object, or NULL */
	uint64_t wait_ns;        /**< allowed, but act only after so long: nothing here sleeps.
	                              Who leaves instead refunds. Of *_acquire_wait: so long it
	                              took, act now */
	uint64_t reserved[2];    /**< 0 */
};

/**
 * What an allowed request holds or may give back, once: plain bytes, the caller's
 * to copy, keep or drop. Good for the limit and key, and the table or limiter,
 * that it came from.
 */
struct weir_permit {
	uint64_t id;       /**< 0: none, since the request was denied or its cost 0 */
	uint64_t until_ns; /**< after that there is nothing left to give back */
	uint64_t cost;     /**< may be lowered by who gives only so much back */
	uint64_t reserved; /**< 0 */
};

/** The most limits that a request by rules may be charged by, if it is to have permits. */
#define WEIR_PERMITS_MAX 16

/** What a request took of one limit. The library's: good for nothing but to be kept. */
struct weir_charge {
	uint64_t limit;
	uint64_t key;
	uint64_t until_ns; /**< after that there is nothing left of it to give back */
};

/**
 * What a request by rules took, of all limits together: as struct weir_permit, good for
 * every engine of the table that it came from, whatever its rules are by then.
 */
struct weir_permits {
	uint64_t id;          /**< 0: none, since nothing was taken */
	uint64_t cost;        /**< may be lowered by who gives only so much back */
	uint64_t count;       /**< of `charges` */
	uint64_t reserved[3]; /**< 0 */
	struct weir_charge charges[WEIR_PERMITS_MAX];
};

/** How the work that a permit allowed ended: X(name, text). */
#define WEIR_OUTCOME_LIST(X)                                                   \
	X(SUCCESS, "success")                                                      \
	X(FAILURE, "failure")                                                      \
	X(TIMEOUT, "timeout")                                                      \
	X(IGNORED, "ignored")

enum weir_outcome {
#define WEIR_OUTCOME_ENUM(name, text) WEIR_OUTCOME_##name,
	WEIR_OUTCOME_LIST(WEIR_OUTCOME_ENUM)
#undef WEIR_OUTCOME_ENUM
	WEIR_OUTCOME_COUNT
};

/* ------------------------------------------------------------------------- */
/* One limit without keys                                                    */

/** One limit and its one count. */
typedef struct weir_limiter weir_limiter;

/**
 * Errors as weir_limit_open.
 *
 *     weir_limiter *limiter;
 *     struct weir_decision d;
 *     weir_limiter_open(&(struct weir_limit_options){ .rate = { 5 } }, &limiter, NULL);
 *     if (weir_limiter_acquire(limiter, 1, WEIR_NOW, &d) == 0 && d.allowed)
 *         serve();
 */
WEIR_API int weir_limiter_open(const struct weir_limit_options *options, weir_limiter **out,
                               struct weir_error *error);
WEIR_API void weir_limiter_close(weir_limiter *limiter);

/**
 * Takes `cost` if the limit grants it now, and explains. A denied request
 * consumes nothing. Cost 0 consumes nothing and answers whether 1 would pass.
 * Errors: ECOST when `cost` is more than the limit could ever grant.
 */
WEIR_API int weir_limiter_acquire(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                                  struct weir_decision *decision);
/** Answers as acquire would, and consumes nothing. Errors: ECOST. */
WEIR_API int weir_limiter_peek(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                               struct weir_decision *decision);
/** Gives back up to `cost` of what is in use now, never below zero; of turns the newest. */
WEIR_API int weir_limiter_refund(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                                 struct weir_decision *decision);
/** Forgets all use. */
WEIR_API int weir_limiter_reset(weir_limiter *limiter, uint64_t now_ns,
                                struct weir_decision *decision);
/**
 * As weir_acquire_permit, weir_refund_permit and weir_report. But a limiter keeps no
 * list of permits: whoever refunds one twice gets ENOTFOUND only once its time is over, but
 * for places and a log's entries.
 */
WEIR_API int weir_limiter_acquire_permit(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                                         struct weir_decision *decision,
                                         struct weir_permit *permit);
WEIR_API int weir_limiter_refund_permit(weir_limiter *limiter, const struct weir_permit *permit,
                                        uint64_t now_ns, struct weir_decision *decision);
WEIR_API int weir_limiter_report(weir_limiter *limiter, const struct weir_permit *permit,
                                 enum weir_outcome outcome, uint64_t latency_ns, uint64_t now_ns);
/** As weir_acquire_wait. */
WEIR_API int weir_limiter_acquire_wait(weir_limiter *limiter, uint64_t cost, uint64_t deadline_ns,
                                       struct weir_decision *decision, struct weir_permit *permit);
/** As weir_limit_shed. */
WEIR_API int weir_limiter_shed(weir_limiter *limiter, double deny);

/* ------------------------------------------------------------------------- */
/* Keyed tables                                                              */

/** Counts of many keys, bounded in memory. */
typedef struct weir_table weir_table;

struct weir_table_options {
	uint64_t capacity;     /**< keys to hold; 0: 1,000,000. 20 bytes each, whatever the
	                            length of their names. When more are live, the one that
	                            would be forgotten soonest makes room. Besides these, keys
	                            of sliding limits, base and concurrency have room of their
	                            own, in four sizes by their limit: for up to 12 slots or
	                            permits (11 in a log) as many as this, for up to 128, 1,024
	                            and 10,240 a 10th, an 85th and an 853rd, 40 at least. It
	                            takes memory when it is used: 265 bytes a key of the first
	                            size, 1.1 KB in all four. */
	const uint8_t *secret; /**< 16 bytes that key the hash, or NULL: from the system's
	                            random source */
	const char *path;      /**< a file to keep the table in, shared by all processes that
	                            open it, made (mode 0600) when it is missing; NULL: this
	                            process's memory */
	uint64_t owner;        /**< of an existing file: the number of a user who may own it, beside
	                            root and the process's own; 0: nobody else. A file that
	                            others may write is refused. */
	uint64_t group;        /**< of a file: the number of a group whose members may read and write
	                            it, too (a new one is made so, mode 0660); 0: none */
	uint64_t reserved[3];
};

/** The most keys that a table can be asked to hold. */
#define WEIR_CAPACITY_MAX (UINT64_C(1) << 32)

/** Keys longer than this are refused with ELONG. */
#define WEIR_KEY_MAX 1024

/**
 * `options` may be NULL. An existing file keeps its capacity and secret: those
 * given must be the same. A file that holds no table that fits, or that somebody else
 * owns or may write, is refused, never written to; so is a symbolic link.
 * Errors: ERANGE (capacity), EINVAL (reserved; a file that is refused), EIO (no
 * random bytes; the file cannot be opened, made, locked or mapped), EFULL (its disk has no
 * room for it), ENOTFOUND (it is gone again), ENOMEM.
 */
WEIR_API int weir_table_open(const struct weir_table_options *options, weir_table **out,
                             struct weir_error *error);
WEIR_API void weir_table_close(weir_table *table);

/**
 * Writes what has changed in a table's file out to the disk, and returns when it
 * is there: what was granted before the call outlives a power loss. Others go on
 * deciding meanwhile. It may take seconds. In memory there is nothing to write.
 * Errors: EIO.
 */
WEIR_API int weir_table_sync(weir_table *table);

/**
 * Makes the room that the limit's keys take now; without it, the first call with the limit
 * does. The states of sliding_window, sliding_counter, sliding_log, base and concurrency are
 * wider than others, so each such limit has its own table beside that of all others, for as many
 * keys as its `keys` say: in memory that is address space until keys come, in a file it is
 * room on the disk. The keys of one limit take no room from another's. Where the limit asks for
 * more keys or wider states than the table has, a larger one takes over; calls with the limit
 * do so for wider states only. At most 1,024 such tables are made. It may take as long as the
 * disk does.
 *
 *     if (weir_table_reserve(table, limit, &error) != 0)
 *         puts(error.message); // how many bytes there are, and how many it takes
 *
 * Errors: ENOMEM, EFULL (no room on the disk, or for one more table), EIO and EINVAL as
 * weir_table_open (the file).
 */
WEIR_API int weir_table_reserve(weir_table *table, const weir_limit *limit,
                                struct weir_error *error);

/**
 * As weir_limiter_acquire, for one key of one limit. A key is any bytes; a key
 * never seen is one that has long been idle. `key` is only read.
 * Errors: ECOST, ELONG. All calls with a table and a limit: ENOMEM, EFULL, EIO, EINVAL
 * where the limit's own table is not there yet and can't be made (weir_table_reserve).
 */
WEIR_API int weir_acquire(weir_table *table, const weir_limit *limit, const void *key,
                          size_t key_len, uint64_t cost, uint64_t now_ns,
                          struct weir_decision *decision);
/** These as the calls on a limiter, for one key of one limit. Errors: ELONG, of peek ECOST. */
WEIR_API int weir_peek(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                       uint64_t cost, uint64_t now_ns, struct weir_decision *decision);
WEIR_API int weir_refund(weir_table *table, const weir_limit *limit, const void *key,
                         size_t key_len, uint64_t cost, uint64_t now_ns,
                         struct weir_decision *decision);
WEIR_API int weir_reset(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                        uint64_t now_ns, struct weir_decision *decision);

/**
 * As weir_acquire, and makes *permit of what it took, 0 where that is nothing.
 * Until it is given back or its time is over, a permit takes the room of a key (of
 * concurrency, that of its place). Where that had to make room for others, the permit is
 * as good as given back.
 *
 *     weir_acquire_permit(table, at_once, key, len, 1, WEIR_NOW, &d, &permit);
 *     if (d.allowed) {
 *         serve(); // at most `max` at once
 *         weir_report(table, at_once, key, len, &permit, WEIR_OUTCOME_SUCCESS, 0, WEIR_NOW);
 *     }
 *
 * Errors: ECOST, ELONG.
 */
WEIR_API int weir_acquire_permit(weir_table *table, const weir_limit *limit, const void *key,
                                 size_t key_len, uint64_t cost, uint64_t now_ns,
                                 struct weir_decision *decision, struct weir_permit *permit);

/**
 * Gives back what the permit took, once, to the very window, slot, entry or turn
 * that it came from: of a bucket what has not leaked since, of turns the newest only.
 * `decision` tells how the key stands, on ENOTFOUND too.
 *
 *     weir_acquire_permit(table, limit, key, len, 1, WEIR_NOW, &d, &permit);
 *     if (d.allowed && !serve())
 *         weir_refund_permit(table, limit, key, len, &permit, WEIR_NOW, &d);
 *
 * Errors: ENOTFOUND (it was given back before, or its time is over), ELONG.
 */
WEIR_API int weir_refund_permit(weir_table *table, const weir_limit *limit, const void *key,
                                size_t key_len, const struct weir_permit *permit, uint64_t now_ns,
                                struct weir_decision *decision);

/**
 * Tells how the work ended, and how long it took: to concurrency that its places are
 * free, however that was; to a breaker that a call ended so, after `latency_ns` (0: as long as the
 * permit was held). To any other limit it makes no difference, and the permit stays as it is.
 * Errors: ENOTFOUND as weir_refund_permit, EINVAL (no such outcome), ELONG.
 */
WEIR_API int weir_report(weir_table *table, const weir_limit *limit, const void *key,
                         size_t key_len, const struct weir_permit *permit,
                         enum weir_outcome outcome, uint64_t latency_ns, uint64_t now_ns);

/**
 * weir_acquire that blocks its thread until the request passes, at `deadline_ns` at
 * the latest: a time of the system's clock, WEIR_NOW for no waiting, WEIR_FOREVER. Denied
 * at once where it can't be before the deadline (WEIR_REASON_WAIT_TOO_LONG), else at the
 * deadline. `wait_ns` tells how long it took.
 *
 *     clock_gettime(CLOCK_REALTIME, &t);
 *     deadline_ns = t.tv_sec * 1000000000ULL + t.tv_nsec + 500000000; // in half a second
 *     weir_acquire_wait(table, limit, key, len, 1, deadline_ns, &d, NULL);
 *     if (d.allowed)
 *         serve();
 *
 * Who waits for a key of a limit is served in the order of the calls, in this process;
 * calls of other processes, and those that do not wait, may come in between. What is
 * refunded or reset here is given to the first at once. Waiting takes no processor time,
 * and goes on over steps of the clock and signals. `permit` may be NULL; otherwise it is
 * filled as by weir_acquire_permit. It waits no longer than the limit's own `max_wait_ns`
 * where that has one, and at most `queue` threads wait for a place of what is in flight,
 * if that is set (WEIR_REASON_QUEUE_FULL).
 * Errors: ECOST, ELONG, ENOMEM.
 */
WEIR_API int weir_acquire_wait(weir_table *table, const weir_limit *limit, const void *key,
                               size_t key_len, uint64_t cost, uint64_t deadline_ns,
                               struct weir_decision *decision, struct weir_permit *permit);

/** One request of a batch. */
struct weir_request {
	const weir_limit *limit;
	const void *key;
	size_t key_len;
	uint64_t cost;
	int status; /**< out: 0 or the error of this request */
};

/**
 * weir_acquire for `n` requests in order, at one time, with their memory
 * fetched ahead: several times as fast as one by one on a large table.
 * Each request's `status` tells its own error; the others are decided all the
 * same. Returns 0, or the first error.
 */
WEIR_API int weir_acquire_batch(weir_table *table, struct weir_request *requests, size_t n,
                                uint64_t now_ns, struct weir_decision *decisions);

struct weir_table_stats {
	uint64_t capacity;  /**< as asked for */
	uint64_t cells;     /**< places there are, those of limits' own tables with them once used */
	uint64_t live;      /**< keys in use now (counted on a sample in large tables) */
	uint64_t evictions; /**< keys in use that had to make room, ever */
	uint64_t bytes;     /**< memory of the table at most, and of those */
	uint64_t reserved[3];
};

WEIR_API void weir_table_stats(const weir_table *table, uint64_t now_ns,
                               struct weir_table_stats *stats);

/* ------------------------------------------------------------------------- */
/* Rules                                                                     */

/**
 * Rules over a table: which limits apply to a request by its attributes.
 * Configurations are read by <weir/rules.h>.
 */
typedef struct weir_engine weir_engine;
typedef struct weir_config weir_config;

/** After the engines that were made of it. */
WEIR_API void weir_config_close(weir_config *config);

struct weir_attribute {
	const char *name; /**< NUL-terminated */
	const char *value;
	size_t value_len;
};

/** Requests with more attributes are refused with ELONG. */
#define WEIR_ATTRIBUTES_MAX 64

/**
 * Compiles `config` for deciding, and makes the room that its limits take, of all or of
 * none. `config` and `table` must outlive the engine. Limits count where the table does; on a
 * table at Redis (<weir/redis.h>) those whose `store` is `memory` count in this process.
 * Errors: as weir_limit_open and weir_table_reserve; EUNSUPPORTED (the `store` of a limit is
 * neither).
 */
WEIR_API int weir_engine_open(const weir_config *config, weir_table *table, weir_engine **out,
                              struct weir_error *error);
WEIR_API void weir_engine_close(weir_engine *engine);

/**
 * Decides a request by all rules that apply to it, all or nothing: a denied
 * request consumes from none of the enforced limits. Where no rule applies the
 * request is allowed. An allowed answer reports the tightest limit, a denied
 * one the first that denied. Places of `concurrency` are held until their leases end;
 * weir_engine_acquire gives them back before.
 * Errors: ECOST, ELONG (too many attributes, too long a key), ENOMEM.
 */
WEIR_API int weir_engine_check(weir_engine *engine, const struct weir_attribute *attributes,
                               size_t n, uint64_t cost, uint64_t now_ns,
                               struct weir_decision *decision);

/**
 * weir_engine_check that tells in *permits what was taken, so that all of it can be given
 * back together. `permits` may be NULL; otherwise it is filled whatever the outcome.
 *
 *     struct weir_permits permits;
 *     weir_engine_acquire(engine, attributes, n, 1, WEIR_NOW, &d, &permits);
 *     if (d.allowed)
 *         weir_engine_report(engine, &permits, serve(), 0, WEIR_NOW);
 *
 * Errors: ECOST, ELONG (also more than WEIR_PERMITS_MAX limits apply), ENOMEM.
 */
WEIR_API int weir_engine_acquire(weir_engine *engine, const struct weir_attribute *attributes,
                                 size_t n, uint64_t cost, uint64_t now_ns,
                                 struct weir_decision *decision, struct weir_permits *permits);

/**
 * weir_engine_acquire that blocks its thread, as weir_acquire_wait: for the key that denies
 * it, then for the next that does, and at last for the latest turn of all.
 * Errors: as weir_engine_acquire.
 */
WEIR_API int weir_engine_acquire_wait(weir_engine *engine,
                                      const struct weir_attribute *attributes, size_t n,
                                      uint64_t cost, uint64_t deadline_ns,
                                      struct weir_decision *decision,
                                      struct weir_permits *permits);

/**
 * As weir_refund_permit, of all that the permits cover together. `decision` tells how
 * the tightest of these limits stands. What limits took that `engine` has no more is
 * left out.
 * Errors: ENOTFOUND (given back before, its time is over, or there is none), EINVAL (no
 * such `count`), ENOMEM.
 */
WEIR_API int weir_engine_refund(weir_engine *engine, const struct weir_permits *permits,
                                uint64_t now_ns, struct weir_decision *decision);

/**
 * As weir_report: places are free, all else stays taken. With places the permits have
 * ended; others stay as they are.
 * Errors: ENOTFOUND as weir_engine_refund, EINVAL (no such outcome or `count`), ENOMEM.
 */
WEIR_API int weir_engine_report(weir_engine *engine, const struct weir_permits *permits,
                                enum weir_outcome outcome, uint64_t latency_ns, uint64_t now_ns);

/** The engine's limit of that name, or NULL; lives as long as the engine. */
WEIR_API const weir_limit *weir_engine_limit(const weir_engine *engine, const char *name,
                                             size_t name_len);

/* ------------------------------------------------------------------------- */
/* Worker pools                                                              */

/**
 * Workers that run tasks out of a bounded bucket, first in first out: each as soon
 * as a worker is free, or at a fixed rate.
 *
 *     static void *twice(void *number) { ... return number; }
 *
 *     weir_pool *pool;
 *     weir_pool_ticket *ticket;
 *     weir_pool_open(&(struct weir_pool_options){ .workers = 4, .bucket = 100 }, &pool, NULL);
 *     if (weir_pool_submit(pool, twice, &number, &ticket) == 0) {
 *         weir_pool_wait(ticket, 1000000000, &result);
 *         weir_pool_ticket_close(ticket);
 *     }
 *     weir_pool_close(pool);
 */
typedef struct weir_pool weir_pool;

/** What will become of one task. */
typedef struct weir_pool_ticket weir_pool_ticket;

/** A task, run by a worker; what it returns is its result. `argument` stays the caller's. */
typedef void *weir_pool_run(void *argument);

/** Receives a task that will not be run. Must not stop or close the pool. */
typedef void weir_pool_return(void *context, weir_pool_run *run, void *argument);

struct weir_pool_options {
	uint32_t workers;      /**< threads, 1 to 1,024; 0: one for each processor online */
	uint32_t bucket;       /**< tasks that may wait while all workers are busy, 1 to 2^24;
	                            0: 1,000. 24 bytes each. */
	struct weir_rate rate; /**< count 0: none. Else tasks start evenly spaced, by the monotonic
	                            clock and never early. Where the system or all workers were
	                            late, the turns of the last 100 ms are caught up at once, those
	                            before are lost. Idle time saves up none. */
	uint64_t reserved[5];
};

/**
 * Starts the workers. Signals sent to the process are left to its other threads. The
 * child of a fork has no workers, and must not use the pool.
 * `options` may be NULL.
 * Errors: ERANGE, EINVAL (as weir_limit_open's of the rate; reserved), ENOMEM (threads, too).
 */
WEIR_API int weir_pool_open(const struct weir_pool_options *options, weir_pool **out,
                            struct weir_error *error);
/** weir_pool_stop, running all that was accepted; then frees the pool. Not from a task. */
WEIR_API void weir_pool_close(weir_pool *pool);

/**
 * Puts a task into the bucket, and never waits: refused with EFULL while `bucket` +
 * `workers` tasks are unfinished. What was accepted is run or returned, once.
 * `ticket` may be NULL when nobody will ask for the result; otherwise *ticket is the
 * caller's to close, NULL on error.
 * Tasks may submit tasks. A task that waits for another holds its worker meanwhile.
 * Errors: EFULL, ESTOPPED, EINVAL (no function), ENOMEM (only with a ticket).
 */
WEIR_API int weir_pool_submit(weir_pool *pool, weir_pool_run *run, void *argument,
                              weir_pool_ticket **ticket);

/**
 * Waits for a task to finish, at most `timeout_ns`: 0 only looks, UINT64_MAX is for
 * ever. The task goes on however this ends, and may be waited for again. *result is
 * set on success only; `result` may be NULL.
 * Errors: ETIMEDOUT, ESTOPPED (it was returned by weir_pool_stop, not run).
 */
WEIR_API int weir_pool_wait(weir_pool_ticket *ticket, uint64_t timeout_ns, void **result);
/** At any time, also before the task is finished or after the pool is closed. */
WEIR_API void weir_pool_ticket_close(weir_pool_ticket *ticket);

/**
 * Accepts no more tasks, and returns when all that were accepted are run, at the
 * pool's rate. With `give_back`, those not yet started are passed to it with
 * `context`, in order, on this thread; then it waits for the others. May be called
 * again; a second call with `give_back` cuts a first one short.
 * Errors: EINVAL (from a task of this pool, which it would wait for).
 */
WEIR_API int weir_pool_stop(weir_pool *pool, weir_pool_return *give_back, void *context);

struct weir_pool_stats {
	uint64_t workers;      /**< as opened */
	uint64_t bucket;       /**< as opened */
	uint64_t waiting;      /**< tasks not yet started */
	uint64_t unfinished;   /**< tasks waiting, running, or being given back */
	uint64_t accepted;     /**< ever, as all below */
	uint64_t refused;      /**< with EFULL */
	uint64_t finished;     /**< run to their end */
	uint64_t returned;     /**< given back */
	uint64_t missed_turns; /**< of the rate: lost, since they were not taken in time */
	uint64_t reserved[3];  /**< 0 */
};

WEIR_API void weir_pool_stats(weir_pool *pool, struct weir_pool_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
