/*
 * weir.h: decides for each request and key whether it may pass now.
 *
 * This header declares limits, tables of keys, permits and batches. The other headers are:
 *
 *     <weir/limiter.h>  one limit without keys
 *     <weir/engine.h>   rules that choose the limits of a request
 *     <weir/pool.h>     threads that run tasks at a rate
 *     <weir/rules.h>    reads rule files (libweir_rules)
 *     <weir/redis.h>    tables whose limits count at Redis (libweir_redis)
 *
 * Conventions of every function in all of them:
 *
 *   units     Durations and times are nanoseconds (`_ns`). `now_ns` is Unix time in
 *             nanoseconds. For WEIR_NOW the library reads its clock once. If the caller passes
 *             a time, the library reads no clock, so that tests and simulations run in virtual
 *             time. The argument 0 is such a time, the start of 1970; only in a struct does 0
 *             stand for WEIR_NOW. All times of one table or limiter must lie within 18 years.
 *             `cost` is in the unit that the limit's rate counts: requests, bytes, ...
 *   errors    A function that can fail returns int: 0 or a negative enum weir_status, whose text
 *             is weir_strerror(). A denied request is not an error. On an error, a
 *             `struct weir_error *` receives it in words; otherwise it is left as it is. It may
 *             be NULL. The library never prints, aborts or exits. Comments name errors without their prefix: "ECOST" is WEIR_ECOST.
 *   memory    *_open makes a handle and *_close frees it; *_close(NULL) does nothing. On an error
 *             *_open sets the handle to NULL. The library copies strings and option structs that
 *             it is given, and only reads keys. Pointers may be NULL only where the comment says
 *             so. A decision does not allocate, with two exceptions: a call with a deadline, and
 *             a request by rules to which dozens of limits apply.
 *   threads   Several threads may use one handle at once. Only *_close must be the last call.
 *             Only a call with a deadline, weir_table_sync and some calls of pools block. The
 *             library has no global state, and no threads except the workers of a pool.
 *   options   In option structs zero means the default, so
 *             `(struct weir_limit_options){ .rate = { 5 } }` is a token bucket of five a second.
 *             `reserved` fields must be zero.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* functions have the names of their structs */
#endif
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 2
#define WEIR_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/** As `now_ns` or `deadline_ns`: the present. The library reads its own clock, once. */
#define WEIR_NOW UINT64_MAX

/** As `deadline_ns`: none. */
#define WEIR_FOREVER (UINT64_MAX - 1)

/** In a field of options whose 0 means the default: an explicit 0. It is not a time. */
#define WEIR_ZERO (UINT64_MAX - 2)

/* ------------------------------------------------------------------------- */
/* Errors: their numbers and texts                                           */

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
	X(ESTORE, -14, "the store did not answer")                                 \
	X(EAUTH, -15, "no known user")

enum weir_status {
#define WEIR_STATUS_ENUM(name, value, text) WEIR_##name = (value),
	WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
};

/** An error in words, and its place. `line` and `column` start at 1, or are 0 if unknown. */
struct weir_error {
	int status; /**< as the function returns it */
	unsigned line;
	unsigned column;
	char message[240];
};

/**
 * Returns the text of a status. The text is static and never NULL.
 *
 *     fprintf(stderr, "%s\n", weir_strerror(status));
 */
WEIR_API const char *weir_strerror(int status);

/**
 * Returns the version of the library that the program runs with, as "MAJOR.MINOR.PATCH". The text
 * is static.
 *
 *     printf("libweir %s\n", weir_version());
 */
WEIR_API const char *weir_version(void);

/* ------------------------------------------------------------------------- */
/* Limits: algorithms and their parameters                                   */

/**
 * How a limit decides. A request passes when the condition of its algorithm holds;
 * T = period / rate.count.
 */
enum weir_algorithm {
	/** The bucket has `cost` tokens. It holds `burst` at most and gains one each T (GCRA of
	    ITU-T I.371: max(TAT, now) + cost T - now <= burst T). */
	WEIR_ALGORITHM_TOKEN_BUCKET = 0,
	/** level + cost <= burst, and one unit leaks each T. Decides as token_bucket does. */
	WEIR_ALGORITHM_LEAKY_BUCKET,
	/** count + cost <= rate.count in the window, see `align`. */
	WEIR_ALGORITHM_FIXED_WINDOW,
	/** As fixed_window; the first request of a key opens the window. */
	WEIR_ALGORITHM_RESETTING_BUCKET,
	/** As fixed_window, over the current slot and the slots - 1 before it. Slots are aligned to
	    the Unix epoch. */
	WEIR_ALGORITHM_SLIDING_WINDOW,
	/** As fixed_window, exactly over (now - period, now]. rate.count is 10,000 at most. */
	WEIR_ALGORITHM_SLIDING_LOG,
	/** Its turn, max(last turn + T, now - slack T), comes within max_wait_ns. The request waits
	    for the turn, see `wait_ns`. */
	WEIR_ALGORITHM_PACER,
	/** As pacer, with the turn max(last turn + T, now), and fewer than `burst` requests wait. */
	WEIR_ALGORITHM_LEAKY_QUEUE,
	/** A fair draw lets it pass, with probability 1 - deny. Stores no counts. */
	WEIR_ALGORITHM_RANDOM,
	/** previous (1 - elapsed / period) + current + cost <= rate.count: the counts of two windows
	    that are aligned to the Unix epoch. */
	WEIR_ALGORITHM_SLIDING_COUNTER,
	/** The key had fewer than `base` requests today, or the window of the rate has room. */
	WEIR_ALGORITHM_BASE,
	/** in flight + cost <= max. A request holds its place until the caller gives the place back
	    (weir_report, weir_refund) or its lease ends. */
	WEIR_ALGORITHM_CONCURRENCY,
	/** Its turn, max(now, end of the last), comes within max_wait_ns. A turn takes T per unit,
	    and up to cold T after the key has rested. */
	WEIR_ALGORITHM_WARM_UP,
	/** Reports of permits say that the backend is healthy, or this request is a probe, see
	    struct weir_breaker_options. */
	WEIR_ALGORITHM_BREAKER,
	/** A draw lets it pass. The fewer successes the last requests reported, the more the draw
	    denies, see struct weir_throttle_options. */
	WEIR_ALGORITHM_THROTTLE,
	/** Fewer requests are in flight than the measured limit, which follows reports of permits
	    and stays between `min` and `max` of struct weir_adaptive_options. */
	WEIR_ALGORITHM_ADAPTIVE,
};

/** Unit of a rate's period. Months and years exist for calendar windows only. */
enum weir_unit {
	WEIR_UNIT_SECOND = 0,
	WEIR_UNIT_NANOSECOND,
	WEIR_UNIT_MILLISECOND,
	WEIR_UNIT_MINUTE,
	WEIR_UNIT_HOUR,
	WEIR_UNIT_DAY,
	WEIR_UNIT_WEEK,
	WEIR_UNIT_MONTH,
	WEIR_UNIT_YEAR,
};

/** `count` per `period` units: 5/s is { 5 }, 10 per 100 ms { 10, 100, WEIR_UNIT_MILLISECOND }. */
struct weir_rate {
	uint64_t count;      /**< 1 to 2^32 */
	uint64_t period;     /**< number of units, a year in all at most; default 1 */
	enum weir_unit unit;
};

enum weir_align {
	WEIR_ALIGN_CALENDAR = 0,  /**< windows follow the calendar in `timezone` */
	WEIR_ALIGN_FIRST_REQUEST, /**< a window opens at its first allowed request */
};

enum weir_weekday {
	WEIR_WEEKDAY_MONDAY = 0,
	WEIR_WEEKDAY_TUESDAY,
	WEIR_WEEKDAY_WEDNESDAY,
	WEIR_WEEKDAY_THURSDAY,
	WEIR_WEEKDAY_FRIDAY,
	WEIR_WEEKDAY_SATURDAY,
	WEIR_WEEKDAY_SUNDAY,
};

/** The defaults of a breaker. */
enum weir_breaker_preset {
	WEIR_BREAKER_PRESET_NONE = 0,
	WEIR_BREAKER_PRESET_HYSTRIX,      /**< as Netflix's Hystrix */
	WEIR_BREAKER_PRESET_RESILIENCE4J, /**< as resilience4j */
};

/** When a breaker opens and closes. Where a preset is set, its defaults replace those below. */
struct weir_breaker_options {
	enum weir_breaker_preset preset;
	uint32_t failure_percent;   /**< opens at this share of failed calls, 1 to 100; default 50 */
	uint32_t failures;          /**< opens at this many failed calls of the window, 1 to 1,000,000
	                                 and at most `calls`, in place of minimum and failure_percent;
	                                 default: not used */
	uint32_t slow_percent;      /**< opens at this share of slow calls, 1 to 100; default 100 */
	uint32_t probes;            /**< half-open: this many calls decide, 1 to 100; default 1 */
	uint32_t judge_only;        /**< 1: phases and counts as ever, but every request passes */
	uint64_t window_ns;         /**< 1 ms to a year; default 10 s */
	uint64_t calls;             /**< the window is the last so many calls, 1 to 1,000, in place of
	                                 window_ns; default: not used */
	uint64_t minimum;           /**< judges only a window with this many calls, 1 to 1,000,000, or
	                                 with `calls` if that is less; default 20 */
	uint64_t slow_ns;           /**< longer calls are slow, a year at most; default: no call is */
	uint64_t sleep_ns;          /**< time that it stays open, 1 ms to a year; default 5 s */
	uint64_t sleep_max_ns;      /**< each failed probe doubles the time that it stays open, up to
	                                 this, +-10%; 1 ms to a year; default, and at least, sleep_ns */
	uint64_t ramp_ns;           /**< once closed, it goes from 10% to 100% of calls in this time, a
	                                 year at most; default sleep_ns, WEIR_ZERO for all at once */
	uint64_t probe_timeout_ns;  /**< a probe without a report counts as failed after this time,
	                                 and its permit after its own; 1 ms to a year; default
	                                 sleep_ns, at least 2 slow_ns, at most permit_timeout_ns */
	uint64_t permit_timeout_ns; /**< a permit without a report counts as failed after this time,
	                                 1 ms to a year; default 60 s */
	uint64_t max_concurrent;    /**< calls in flight, 1 to 10,000; default: any number */
	uint64_t quorum;            /**< opens when this many servers that share Redis see a failure, 1
	                                 to 1,000. By default each server decides for itself. No
	                                 effect in the library. */
	uint64_t reserved[4];
};

/** The defaults of a throttle. */
enum weir_throttle_preset {
	WEIR_THROTTLE_PRESET_NONE = 0,
	WEIR_THROTTLE_PRESET_KRATOS,  /**< as the circuit breaker of kratos */
	WEIR_THROTTLE_PRESET_GO_ZERO, /**< as the breaker of go-zero */
};

/** The share that a throttle denies. Where a preset is set, its defaults replace those below. */
struct weir_throttle_options {
	enum weir_throttle_preset preset;
	double k;                   /**< passes up to k times as many requests as succeeded, 1 to
	                                 1,000, to millionths; default 2 */
	uint64_t window_ns;         /**< 1 ms to a year; default 2 min */
	uint64_t minimum;           /**< judges only a window with this many requests, 1 to 1,000,000;
	                                 default: any number */
	uint64_t permit_timeout_ns; /**< a report that comes later than this has no effect, 1 ms to a
	                                 year; default 60 s */
	uint64_t reserved[4];
};

/** How an adaptive limit is measured. The numbers are the method's `min` and `max`. */
enum weir_method {
	WEIR_METHOD_KNEE = 0,  /**< the point where more in flight only wait longer; 1 to 1,000 */
	WEIR_METHOD_GRADIENT2, /**< a long average of latencies over each latency; 20 to 200 */
	WEIR_METHOD_VEGAS,     /**< the queue, estimated from the least latency; 1 to 1,000 */
	WEIR_METHOD_AIMD,      /**< one more while calls are in time, a tenth fewer when one is late;
	                            20 to 200 */
	WEIR_METHOD_BBR,       /**< most passes x least latency while processors are busy; 1 to 10,000 */
};

/** How an adaptive limit is measured, and between which bounds. */
struct weir_adaptive_options {
	enum weir_method method;
	uint32_t initial;           /**< the limit at first, min to max; default the nearest to 20 */
	uint64_t min;               /**< the least limit, 1 to 10,000; default the method's */
	uint64_t max;               /**< the greatest limit, 1 to 10,000; default the method's */
	uint64_t permit_timeout_ns; /**< a permit without a report counts as in flight for this time
	                                 and up to a fifth longer; 1 ms to a year; default 60 s */
	uint64_t reserved[4];
};

/** Parameters of a limit. Fields that the algorithm does not use must be 0. */
struct weir_limit_options {
	const char *name; /**< 1 to 64 bytes; default "default". In one table, limits of the
	                       same name, algorithm and period share their counts (calendar
	                       windows: also of the same zone and week_start). */
	enum weir_algorithm algorithm;
	struct weir_rate rate;        /**< required; not used by random, concurrency, breaker,
	                                   throttle and adaptive */
	uint64_t burst;               /**< buckets: burst or capacity, leaky_queue: how many may wait;
	                                   1 to 2^32; default rate.count. burst / rate is 16 years at
	                                   most */
	enum weir_align align;        /**< fixed_window; default calendar */
	const char *timezone;         /**< calendar windows, base: IANA name; default "UTC" */
	enum weir_weekday week_start; /**< calendar windows of weeks; default monday */
	uint32_t slots;               /**< sliding_window: parts of the period, 1 to 1,000; default
	                                   10 */
	uint64_t slack;               /**< pacer: turns that idle time saves up, less than 2^32;
	                                   slack / rate is 16 years at most; default 10, WEIR_ZERO for
	                                   none */
	uint64_t warm_up_ns;          /**< warm_up: a cold key is warm after this time of use, 1 ms to
	                                   a year, and at most 2^32 requests; default 10 s */
	uint64_t max_wait_ns;         /**< pacer, warm_up, concurrency, adaptive, leaky_queue: the
	                                   longest wait for a turn, or in the `queue` for a place, a
	                                   year at most; default 30 s, of leaky_queue as long as there
	                                   is room; WEIR_ZERO for no wait */
	double deny;                  /**< random: the share that is denied, 0 to 1; default none */
	double cold;                  /**< warm_up: a cold key's first turn takes this many T, 1 to
	                                   10,000, to thousandths; default 3 */
	uint64_t retry_ns;            /**< random, concurrency, breaker, throttle, adaptive:
	                                   `retry_after_ns` of a denial where nothing better is known;
	                                   after as long a call that waits sees what other processes
	                                   gave back; a year at most; default 1 s */
	uint64_t base;                /**< base: requests a day before `rate` limits the rest; the last
	                                   of them counts in `rate` too; 1 to 2^32 + 1 - rate.count;
	                                   required */
	uint64_t max;                 /**< concurrency: requests in flight, 1 to 10,000; required */
	uint64_t queue;               /**< concurrency, adaptive: how many may wait for a place of a
	                                   key, 1,000,000 at most. By default only calls with a
	                                   deadline wait, any number of threads */
	uint64_t lease_ns;            /**< concurrency: a place is held for this time, a year at most;
	                                   default 30 s */
	uint64_t keys;                /**< sliding limits, base, concurrency, breaker, throttle,
	                                   adaptive: keys that a table has room for, 1 to 2^32, see
	                                   weir_table_reserve; default as `capacity` of struct
	                                   weir_table_options says */
	const struct weir_breaker_options *breaker;   /**< breaker; NULL for the defaults */
	const struct weir_throttle_options *throttle; /**< throttle; NULL for the defaults */
	const struct weir_adaptive_options *adaptive; /**< adaptive; NULL for the defaults */
	uint64_t reserved[4];
};

/** A validated limit: parameters only, no counts. Only weir_limit_shed changes it. */
typedef struct weir_limit weir_limit;

/**
 * Checks `options` and makes a limit from them. The limit must outlive the calls that use it, not
 * the table.
 *
 *     struct weir_limit_options five = {.name = "login", .rate = {5, 1, WEIR_UNIT_MINUTE}};
 *     weir_limit *limit;
 *     if (weir_limit_open(&five, &limit, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: EINVAL (an unknown or contradictory value, or a field that the algorithm does not use),
 * ERANGE (a number that is missing, too small or too large), ENOTFOUND (no such time zone), ENOMEM.
 */
WEIR_API int weir_limit_open(const struct weir_limit_options *options, weir_limit **out,
                             struct weir_error *error);

/**
 * Frees a limit. `limit` may be NULL. Counts of the limit in tables stay.
 *
 *     weir_limit_close(limit);
 */
WEIR_API void weir_limit_close(weir_limit *limit);

/**
 * Changes the share of requests that a random limit denies from now on. Other threads may decide
 * meanwhile. For a limit of an engine (weir_engine_limit) the share lasts as long as the engine:
 * another engine begins with the `deny` of its configuration.
 *
 *     status = weir_limit_shed(limit, 0.25); // every fourth request
 *
 * Errors: EINVAL (a limit of another algorithm), ERANGE (not 0 to 1).
 */
WEIR_API int weir_limit_shed(const weir_limit *limit, double deny);

/**
 * Returns the limit's name, which lives as long as the limit.
 *
 *     puts(weir_limit_name(limit));
 */
WEIR_API const char *weir_limit_name(const weir_limit *limit);

/**
 * Makes the random draws of the calling thread follow from `seed`, for tests and simulations.
 * Without this call, the system seeds each thread.
 *
 *     weir_seed(1); // the same draws in every run
 */
WEIR_API void weir_seed(uint64_t seed);

/* ------------------------------------------------------------------------- */
/* Decisions: answers to requests, and permits                               */

/**
 * Every reason with its text: X(name, text). Look at `allowed` first: OK, HIT_QUOTA, LISTED,
 * STORE_OPEN and STORE_LOCAL are reasons of allowed requests.
 *
 * HIT_QUOTA is the last one of a window that begins and ends. QUEUE_FULL: too many wait already.
 * WAIT_TOO_LONG: it can't pass by its deadline, or did not. SHED: denied to relieve the service
 * behind. LISTED: a rule answered by itself, either way. STORE_FAILURE: Redis did not answer.
 * NO_ROOM: the table has no room for the key. STORE_OPEN and STORE_LOCAL: allowed without Redis, by
 * `on_store_failure`.
 */
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
	X(NO_ROOM, "no_room")                                                      \
	X(STORE_OPEN, "store_open")                                                \
	X(STORE_LOCAL, "store_local")

enum weir_reason {
#define WEIR_REASON_ENUM(name, text) WEIR_REASON_##name,
	WEIR_REASON_LIST(WEIR_REASON_ENUM)
#undef WEIR_REASON_ENUM
	WEIR_REASON_COUNT
};

/**
 * Returns the text of a reason. The text is static and never NULL.
 *
 *     puts(weir_reason_text(WEIR_REASON_OVER_LIMIT)); // "over_limit"
 */
WEIR_API const char *weir_reason_text(enum weir_reason reason);

/** The answer to one request, with its explanation. */
struct weir_decision {
	bool allowed;
	bool paced;              /**< the limit is one that makes requests wait */
	enum weir_reason reason;
	uint64_t quota;          /**< units that the limit grants at once: burst, capacity or
	                              count; requests that may wait are included; 0 if the limit
	                              has none: random, throttle, breaker without max_concurrent */
	uint64_t remaining;      /**< 0 to quota, rounded down */
	uint64_t retry_after_ns; /**< 0 when allowed, never 0 when denied: by then the same request
	                              would pass if no other came; a guess with random and
	                              concurrency */
	uint64_t reset_after_ns; /**< by then the key is as if never used */
	uint64_t window_ns;      /**< the limit's period; buckets: burst / rate; concurrency: the
	                              lease; random: 0 */
	const char *limit;       /**< name of the limit that decided, or NULL if no rule applied or a
	                              rule answered by itself; lives as long as the limit or engine */
	const char *rule;        /**< name of the rule, or NULL; lives as long as the engine */
	const char *result;      /**< denied: the rule's `result` as a JSON object, or NULL; lives as
	                              long as the engine */
	uint64_t wait_ns;        /**< if allowed: wait this long before you act, or refund if you
	                              leave instead; the library does not sleep. From
	                              a call with a deadline: the time that it took; act now */
	bool degraded;           /**< the store did not answer. A request by rules: `on_store_failure`
	                              decided, allowed with WEIR_REASON_STORE_OPEN or
	                              WEIR_REASON_STORE_LOCAL, or denied. Any other: denied, and
	                              the call returned ESTORE */
	uint64_t reserved[1];    /**< 0 */
};

/**
 * Names the units that an allowed request took, to give them back once. These are
 * plain bytes: copy, keep or drop them. A permit is valid for the limit, the key, and
 * the table or limiter that issued it.
 */
struct weir_permit {
	uint64_t id;       /**< 0: none, because the request was denied or its cost was 0 */
	uint64_t until_ns; /**< after this Unix time there is nothing left to give back */
	uint64_t cost;     /**< lower it to give back only a part */
	uint64_t reserved; /**< the library's own */
};

/** The most limits that may charge a request by rules that asks for permits. */
#define WEIR_PERMITS_MAX 16

/** The units that a request took from one limit. Only the library reads these fields. */
struct weir_charge {
	uint64_t limit;
	uint64_t key;
	uint64_t until_ns; /**< after this Unix time there is nothing left to give back */
};

/**
 * As struct weir_permit, for all units that a request by rules took. Valid for every
 * engine of the same table, even with other rules.
 */
struct weir_permits {
	uint64_t id;          /**< 0: none, because nothing was taken */
	uint64_t cost;        /**< lower it to give back only a part */
	uint64_t count;       /**< of `charges` */
	uint64_t reserved[3]; /**< the library's own */
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

/** Overrides the window of a breaker. */
enum weir_force {
	WEIR_FORCE_AUTO = 0, /**< ends a force; the window begins anew */
	WEIR_FORCE_OPEN,     /**< denies all */
	WEIR_FORCE_CLOSED,   /**< lets all pass, within max_concurrent */
};

/** Priorities are 0, the highest, to this. */
#define WEIR_PRIORITY_LOWEST 9

/**
 * A request to acquire with every option. Zero means the default, so `(struct weir_ask){0}` is a
 * request for one unit, now.
 */
struct weir_ask {
	uint64_t cost;        /**< default 1; WEIR_ZERO takes nothing */
	uint64_t priority;    /**< 0, the highest, to WEIR_PRIORITY_LOWEST. A limit that sheds a share
	                           (random, throttle) takes it from the lowest priorities of the last
	                           10 s. A measured limit (adaptive) has room for the higher ones. A
	                           full `queue` drops its newest waiter of the lowest priority for a
	                           higher one (WEIR_REASON_QUEUE_FULL). A rule's own priority wins. */
	uint64_t now_ns;      /**< 0 or WEIR_NOW: the library reads its clock */
	uint64_t deadline_ns; /**< 0: decide at once. Otherwise block the thread until the request
	                           passes or this Unix time (not a duration) comes, WEIR_NOW (do not
	                           wait) or WEIR_FOREVER, see weir_ask; now_ns must then be 0 or
	                           WEIR_NOW */
	struct weir_permit *permit;   /**< weir_ask and weir_limiter_ask: receives a permit; NULL if
	                                   you want none */
	struct weir_permits *permits; /**< weir_engine_ask: the same, of all limits */
	uint64_t reserved[2];
};

/** How the work that a permit allowed ended. Zero means the default: a success. */
struct weir_report {
	enum weir_outcome outcome;
	uint64_t latency_ns; /**< of the work; default the time since the permit was issued */
	uint64_t now_ns;     /**< 0 or WEIR_NOW: the library reads its clock */
	uint64_t reserved[1];
};

/* ------------------------------------------------------------------------- */
/* Tables: the counts of many keys                                           */

/** Longer keys are refused with ELONG. */
#define WEIR_KEY_MAX 1024

/**
 * A key: any bytes, such as { "alice", 5 }. The library only reads them, during the call. NULL
 * with a `len` other than 0 is refused with EINVAL.
 */
struct weir_key {
	const void *data;
	size_t len;
};

/** The greatest `capacity` of a table. */
#define WEIR_CAPACITY_MAX (UINT64_C(1) << 32)

/** The counts of many keys, in bounded memory. */
typedef struct weir_table weir_table;

/** Where a table is, and how large. */
struct weir_table_options {
	uint64_t capacity;     /**< keys to hold; default 1,000,000. A key takes 20 bytes, however
	                            long its name. When more are live, the key that would be
	                            forgotten soonest makes room. A limit with wide states has a
	                            table of its own, see weir_table_reserve. Without `keys` of the
	                            limit, that table takes up to 265 bytes for each key of this
	                            capacity. It holds as many keys as fit, 40 at least. With 10
	                            slots all of them fit, with a log of 100 an 11th. */
	const uint8_t *secret; /**< 16 bytes that key the hash; default random, from the system */
	const char *path;      /**< a file that holds the table. All processes that open it share
	                            it; the first makes it (mode 0600). By default the table is in
	                            this process's memory. */
	uint64_t owner;        /**< number of a user who may own an existing file, besides root and
	                            the process's own user; default nobody else. A file that others
	                            may write is refused. */
	uint64_t group;        /**< number of a group whose members may also read and write the
	                            file; a new file is made so (mode 0660); default none */
	uint64_t reserved[3];
};

/**
 * Opens a table in memory or in a file. `options` may be NULL. An existing file keeps its capacity
 * and secret: if you give them, they must be the same. The library refuses, and never writes to, a
 * symbolic link, a file without a table that fits, and one that somebody else owns or may write.
 * The child of a fork may use the table.
 *
 *     weir_table *table;
 *     struct weir_table_options shared = {.path = "/run/app/counts.weir"};
 *     if (weir_table_open(&shared, &table, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: ERANGE (capacity), EINVAL (reserved; a file that is refused), EIO (no random bytes; the
 * file cannot be opened, locked or mapped), EFULL (no room on the disk), ENOTFOUND (the file has
 * gone again), ENOMEM.
 */
WEIR_API int weir_table_open(const struct weir_table_options *options, weir_table **out,
                             struct weir_error *error);

/**
 * Frees a table. `table` may be NULL. Counts in a file stay there. Close the engines that use the
 * table first.
 *
 *     weir_table_close(table);
 */
WEIR_API void weir_table_close(weir_table *table);

/**
 * Reserves space for the keys of a limit. Without this call, the first call with the limit does so.
 *
 * The states of sliding_window, sliding_counter, sliding_log, base, concurrency, breaker,
 * throttle and adaptive are wide, so each such limit has its own table, for as many keys as
 * its `keys` says. In memory that takes only address space until keys come; in a file it takes
 * room on the disk. The keys of one such limit take no room from another's. If the limit now
 * asks for more keys or wider states, a larger table takes over; without this call, only for
 * wider states. A table holds at most 1,024 of these. This call may wait for the disk.
 *
 *     if (weir_table_reserve(table, limit, &error) != 0)
 *         puts(error.message); // how many bytes there are, and how many it takes
 *
 * Errors: ENOMEM, EFULL (no room on the disk, or for one more table), EIO and EINVAL (the file,
 * as weir_table_open).
 */
WEIR_API int weir_table_reserve(weir_table *table, const weir_limit *limit,
                                struct weir_error *error);

/**
 * Writes the changes of a table's file to the disk: decisions before this call then outlive a
 * power loss. This may take seconds; other calls go on meanwhile. Does nothing for a table in
 * memory.
 *
 *     if (weir_table_sync(table) != 0)
 *         puts("counts may be lost with the power");
 *
 * Errors: EIO.
 */
WEIR_API int weir_table_sync(weir_table *table);

/** How many keys a table holds, and its size. */
struct weir_table_stats {
	uint64_t capacity;  /**< as asked for */
	uint64_t cells;     /**< places for keys, with those of limits' own tables once used */
	uint64_t live;      /**< keys in use now. In large tables the number of a sample is scaled up,
	                         so that few keys may show as 0 */
	uint64_t evictions; /**< keys in use that had to make room, ever */
	uint64_t bytes;     /**< the most memory that the table and limits' own tables take */
	uint64_t sample_weight; /**< keys that each key of the sample stands for; 1: `live` is exact */
	uint64_t reserved[2];
};

/**
 * Counts what a table holds. A large table counts its keys on a sample, so the call takes less than
 * a millisecond.
 *
 *     struct weir_table_stats stats;
 *     weir_table_stats(table, WEIR_NOW, &stats);
 *     printf("%llu keys\n", (unsigned long long)stats.live);
 */
WEIR_API void weir_table_stats(const weir_table *table, uint64_t now_ns,
                               struct weir_table_stats *stats);

/* ------------------------------------------------------------------------- */
/* Requests: take from a key, give back, report                              */

/**
 * Takes `cost` from one key of one limit if the limit grants it now, and explains the decision. A
 * denied request consumes nothing. Cost 0 consumes nothing and answers whether 1 would pass. A new
 * key starts as one that has long been idle.
 *
 *     struct weir_key key = {name, strlen(name)};
 *     struct weir_decision d;
 *     if (weir_acquire(table, limit, key, 1, WEIR_NOW, &d) == 0 && d.allowed)
 *         serve();
 *
 * Errors: ECOST (`cost` is more than the limit could ever grant), ELONG, EINVAL (the key). Every
 * call with a table and a limit may have to make the limit's own table, and then fail as
 * weir_table_reserve: ENOMEM, EFULL, EIO, EINVAL. Then `decision` is not set.
 */
WEIR_API int weir_acquire(weir_table *table, const weir_limit *limit, struct weir_key key,
                          uint64_t cost, uint64_t now_ns, struct weir_decision *decision);

/**
 * Answers as weir_acquire would, and consumes nothing.
 *
 *     if (weir_peek(table, limit, key, 1, WEIR_NOW, &d) == 0)
 *         printf("%llu left\n", (unsigned long long)d.remaining);
 *
 * Errors: as weir_acquire.
 */
WEIR_API int weir_peek(weir_table *table, const weir_limit *limit, struct weir_key key,
                       uint64_t cost, uint64_t now_ns, struct weir_decision *decision);

/**
 * Acquires with every option of `ask`: a priority, a deadline, a permit. If `ask->permit` is not
 * NULL, it receives what the request took, with `id` 0 if that is nothing. Until you give it back
 * or its time is over, a permit takes the room of a key; a permit of concurrency takes only its
 * place. If that room had to go to others, the permit counts as given back.
 *
 *     struct weir_permit permit;
 *     if (weir_ask(table, limit, key, &(struct weir_ask){.permit = &permit}, &d) == 0 && d.allowed)
 *         status = weir_report(table, limit, key, &permit, &(struct weir_report){0}); // a success
 *
 * A call with a deadline blocks its thread until the request passes or the deadline comes. A
 * request that can't pass by then is denied at once (WEIR_REASON_WAIT_TOO_LONG), also if the
 * deadline is over already; if that is not known before, it is denied at the deadline. `wait_ns`
 * of the decision is the time that the call took.
 *
 *     timespec_get(&t, TIME_UTC);
 *     ask.deadline_ns = t.tv_sec * 1000000000ULL + t.tv_nsec + 500000000; // in half a second
 *
 * In one process, the threads that wait for a key of a limit are served in the order of their
 * calls. Calls that do not wait, and those of other processes, may come in between. The first
 * thread gets what this process refunds or resets at once. Waiting takes no processor time, and
 * goes on through signals and steps of the clock. Where the limit has a `queue`, at most so many
 * threads wait (WEIR_REASON_QUEUE_FULL), and none longer than its `max_wait_ns`.
 *
 * Errors: as weir_acquire; EINVAL (reserved; both a time and a deadline; `permits`), ERANGE (no
 * such priority), ENOMEM, ECOST (also if turns of that cost are too far apart for the deadline).
 */
WEIR_API int weir_ask(weir_table *table, const weir_limit *limit, struct weir_key key,
                      const struct weir_ask *ask, struct weir_decision *decision);

/** One request of a batch. */
struct weir_request {
	const weir_limit *limit;
	struct weir_key key;
	uint64_t cost; /**< 0: take nothing, and answer whether 1 would pass */
	int status;    /**< out: 0 or the error of this request */
};

/**
 * As weir_acquire for `n` requests in order, at one time. On a large table this is several times as
 * fast as single calls, because their memory is fetched ahead. Each request's `status` is its own
 * error; the others are decided all the same. `decisions` has `n` elements; that of a request with
 * an error is not set. Returns 0, or the first error.
 *
 *     struct weir_request requests[2] = {{.limit = limit, .key = {"ann", 3}, .cost = 1},
 *                                        {.limit = limit, .key = {"bob", 3}, .cost = 1}};
 *     struct weir_decision d[2];
 *     if (weir_acquire_batch(table, requests, 2, WEIR_NOW, d) == 0)
 *         printf("%d %d\n", d[0].allowed, d[1].allowed);
 *
 * Errors: as weir_acquire.
 */
WEIR_API int weir_acquire_batch(weir_table *table, struct weir_request *requests, size_t n,
                                uint64_t now_ns, struct weir_decision *decisions);

/**
 * Gives back up to `cost` units that are in use now, the newest turns or places first. `decision`
 * is the state of the key afterwards.
 *
 *     status = weir_refund(table, limit, key, 1, WEIR_NOW, &d);
 *
 * Errors: ELONG, EINVAL (the key), and as weir_table_reserve.
 */
WEIR_API int weir_refund(weir_table *table, const weir_limit *limit, struct weir_key key,
                         uint64_t cost, uint64_t now_ns, struct weir_decision *decision);

/**
 * Gives back what a permit took, or `permit->cost` of it if that is less, once. `permit` is of
 * weir_ask with the same table, limit and key. Units that have come back by time are not given back
 * twice, and of turns only the newest returns. `decision` is the state of the key, also on
 * ENOTFOUND.
 *
 *     struct weir_ask ask = {.permit = &permit};
 *     if (weir_ask(table, limit, key, &ask, &d) == 0 && d.allowed && !serve())
 *         status = weir_refund_permit(table, limit, key, &permit, WEIR_NOW, &d);
 *
 * Errors: ENOTFOUND (it was given back before, its time is over, or nothing of it is left: after a
 * reset, or of a turn that others follow), ELONG, EINVAL (the key).
 */
WEIR_API int weir_refund_permit(weir_table *table, const weir_limit *limit, struct weir_key key,
                                const struct weir_permit *permit, uint64_t now_ns,
                                struct weir_decision *decision);

/**
 * Reports how the work of a permit ended. Concurrency frees its places, whatever the outcome. A
 * breaker, throttle or adaptive limit counts the outcome and the latency. For any other limit this
 * does nothing, and the permit stays valid.
 *
 *     struct weir_report failed = {.outcome = WEIR_OUTCOME_FAILURE};
 *     status = weir_report(table, limit, key, &permit, &failed);
 *
 * Errors: ENOTFOUND as weir_refund_permit, EINVAL (no such outcome; reserved; the key), ELONG.
 */
WEIR_API int weir_report(weir_table *table, const weir_limit *limit, struct weir_key key,
                         const struct weir_permit *permit, const struct weir_report *report);

/**
 * Resets a key: it is as if never used. `decision` is the state of the key afterwards.
 *
 *     status = weir_reset(table, limit, key, WEIR_NOW, &d);
 *
 * Errors: ELONG, EINVAL (the key), and as weir_table_reserve.
 */
WEIR_API int weir_reset(weir_table *table, const weir_limit *limit, struct weir_key key,
                        uint64_t now_ns, struct weir_decision *decision);

/**
 * Forces the breaker of a key, for all processes that share the table, until `until_ns` (as
 * `now_ns`) or until the next force. If `until_ns` is 0 or more than 16 years ahead, only the next
 * force ends it. weir_reset does not end it. Reports made meanwhile count for nothing, and the key
 * is never evicted. At the end the breaker is closed, and its window begins anew.
 *
 *     uint64_t until_ns = now_ns + 600000000000; // ten minutes
 *     status = weir_force(table, payments, key, WEIR_FORCE_OPEN, until_ns, now_ns);
 *
 * Errors: EINVAL (a limit that is no breaker, no such `force`, or the key), ERANGE (until_ns has
 * passed), EFULL (no room for the key), ELONG.
 */
WEIR_API int weir_force(weir_table *table, const weir_limit *limit, struct weir_key key,
                        enum weir_force force, uint64_t until_ns, uint64_t now_ns);

/* ------------------------------------------------------------------------- */
/* Configurations: limits and rules from files                               */

/** Limits and rules. <weir/rules.h> reads them from files, <weir/engine.h> decides by them. */
typedef struct weir_config weir_config;

/**
 * Frees a configuration. `config` may be NULL. Close the engines that use it first.
 *
 *     weir_config_close(config);
 */
WEIR_API void weir_config_close(weir_config *config);

#ifdef __cplusplus
}
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif
#endif
