/*
 * limiter.h: decides by one limit without keys, which has one count.
 *
 * Conventions as in weir.h.
 */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One limit with one count. */
typedef struct weir_limiter weir_limiter;

/**
 * Makes a limiter of its own limit, whose key was never used.
 *
 *     weir_limiter *limiter;
 *     if (weir_limiter_open(&(struct weir_limit_options){.rate = {5}}, &limiter, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: as weir_limit_open.
 */
WEIR_API int weir_limiter_open(const struct weir_limit_options *options, weir_limiter **out,
                               struct weir_error *error);

/**
 * Frees a limiter. `limiter` may be NULL.
 *
 *     weir_limiter_close(limiter);
 */
WEIR_API void weir_limiter_close(weir_limiter *limiter);

/**
 * Takes `cost` if the limit grants it now, and explains the decision, as weir_acquire.
 *
 *     struct weir_decision d;
 *     if (weir_limiter_acquire(limiter, 1, WEIR_NOW, &d) == 0 && d.allowed)
 *         serve();
 *
 * Errors: ECOST (`cost` is more than the limit could ever grant).
 */
WEIR_API int weir_limiter_acquire(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                                  struct weir_decision *decision);

/**
 * Answers as weir_limiter_acquire would, and consumes nothing.
 *
 *     if (weir_limiter_peek(limiter, 1, WEIR_NOW, &d) == 0)
 *         printf("%llu left\n", (unsigned long long)d.remaining);
 *
 * Errors: ECOST.
 */
WEIR_API int weir_limiter_peek(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                               struct weir_decision *decision);

/**
 * Acquires with every option of `ask`, as weir_ask. `ask->permit` may be NULL.
 *
 *     struct weir_ask patient = {.deadline_ns = WEIR_FOREVER};
 *     status = weir_limiter_ask(limiter, &patient, &d); // blocks until it passes
 *
 * A limiter recognizes a second refund or report of a permit (ENOTFOUND) only for the places
 * of concurrency and the entries of a log. It stores no list of other permits, so a caller must not
 * refund or report one twice before its time is over. A throttle counts each such report as another
 * outcome. A breaker and an adaptive limit may take it for the report of another permit that was
 * given at about the same time, and otherwise return ENOTFOUND. A table recognizes all of them.
 *
 * Errors: ECOST, EINVAL (reserved; both a time and a deadline; `permits`), ERANGE (no such
 * priority), ENOMEM.
 */
WEIR_API int weir_limiter_ask(weir_limiter *limiter, const struct weir_ask *ask,
                              struct weir_decision *decision);

/**
 * Gives back up to `cost` units that are in use now, the newest turns or places first.
 *
 *     status = weir_limiter_refund(limiter, 1, WEIR_NOW, &d);
 *
 * Returns 0.
 */
WEIR_API int weir_limiter_refund(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                                 struct weir_decision *decision);

/**
 * Gives back what a permit of weir_limiter_ask took, as weir_refund_permit.
 *
 *     status = weir_limiter_refund_permit(limiter, &permit, WEIR_NOW, &d);
 *
 * Errors: ENOTFOUND.
 */
WEIR_API int weir_limiter_refund_permit(weir_limiter *limiter, const struct weir_permit *permit,
                                        uint64_t now_ns, struct weir_decision *decision);

/**
 * Reports how the work of a permit of weir_limiter_ask ended, as weir_report.
 *
 *     status = weir_limiter_report(limiter, &permit, &(struct weir_report){0}); // a success
 *
 * Errors: ENOTFOUND, EINVAL (no such outcome; reserved).
 */
WEIR_API int weir_limiter_report(weir_limiter *limiter, const struct weir_permit *permit,
                                 const struct weir_report *report);

/**
 * Resets the limiter: it is as if never used. `decision` is the state afterwards.
 *
 *     status = weir_limiter_reset(limiter, WEIR_NOW, &d);
 *
 * Returns 0.
 */
WEIR_API int weir_limiter_reset(weir_limiter *limiter, uint64_t now_ns,
                                struct weir_decision *decision);

/**
 * Changes the share of requests that a random limit denies, as weir_limit_shed.
 *
 *     status = weir_limiter_shed(limiter, 0.25); // every fourth request
 *
 * Errors: EINVAL (a limit of another algorithm), ERANGE (not 0 to 1).
 */
WEIR_API int weir_limiter_shed(weir_limiter *limiter, double deny);

/**
 * Forces the breaker open or closed until `until_ns`, as weir_force.
 *
 *     status = weir_limiter_force(limiter, WEIR_FORCE_OPEN, 0, WEIR_NOW); // for ever
 *
 * Errors: EINVAL (a limit that is no breaker, or no such `force`), ERANGE (until_ns has passed).
 */
WEIR_API int weir_limiter_force(weir_limiter *limiter, enum weir_force force, uint64_t until_ns,
                                uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
