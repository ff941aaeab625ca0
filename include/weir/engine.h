/*
 * engine.h: decides requests by rules, which choose the limits of a request by its attributes.
 *
 * Conventions as in weir.h.
 */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A configuration that decides requests at a table. */
typedef struct weir_engine weir_engine;

/**
 * A fact about a request that rules may ask for, such as { "user", "ann", 3 }. An attribute that no
 * rule asks for has no effect. If several attributes have one name, the first counts.
 */
struct weir_attribute {
	const char *name;  /**< NUL-terminated */
	const char *value; /**< any bytes; NULL only with a length of 0 */
	size_t value_len;
};

/** More attributes in a request are refused with ELONG. */
#define WEIR_ATTRIBUTES_MAX 64

/**
 * Compiles `config` for deciding, and reserves space for all of its limits, or for none. `config`
 * and `table` must outlive the engine. Limits count where the table does, whatever `store` and
 * `capacity` at the top of a rule file say. On a table at Redis (<weir/redis.h>), limits whose
 * `store` is `memory` count in this process.
 *
 *     weir_engine *engine;
 *     if (weir_config_read_file("weir.yaml", &config, &error) != 0 ||
 *         weir_engine_open(config, table, &engine, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: as weir_limit_open and weir_table_reserve; EUNSUPPORTED (a limit names another `store`).
 */
WEIR_API int weir_engine_open(const weir_config *config, weir_table *table, weir_engine **out,
                              struct weir_error *error);

/**
 * Frees an engine. `engine` may be NULL. Its permits stay valid for other engines of the table.
 *
 *     weir_engine_close(engine);
 */
WEIR_API void weir_engine_close(weir_engine *engine);

/**
 * Decides a request by all rules that apply to it, and takes `cost` from their limits, all or
 * nothing: a denied request consumes from none of the enforced limits. A request is allowed if no
 * rule applies. An allowed answer reports the tightest limit, a denied one the first that denied,
 * with the longest `retry_after_ns` of all limits that deny. Places of `concurrency` stay held
 * until their leases end; to give them back before, use weir_engine_ask.
 *
 *     struct weir_attribute user = {"user", "ann", 3};
 *     if (weir_engine_acquire(engine, &user, 1, 1, WEIR_NOW, &d) == 0 && d.allowed)
 *         serve();
 *
 * Errors: ECOST, ELONG (too many attributes, too long a key), EINVAL (a NULL value with a length),
 * ENOMEM.
 */
WEIR_API int weir_engine_acquire(weir_engine *engine, const struct weir_attribute *attributes,
                                 size_t n, uint64_t cost, uint64_t now_ns,
                                 struct weir_decision *decision);

/**
 * Acquires with every option of `ask`. If `ask->permits` is not NULL, it receives all that was
 * taken, whatever the outcome. A call with a deadline waits, as weir_ask, for the key that denies
 * the request, then for the next that denies it, and last for the latest turn. No request waits for
 * `shadow` rules.
 *
 *     struct weir_permits permits;
 *     struct weir_ask ask = {.permits = &permits};
 *     if (weir_engine_ask(engine, &user, 1, &ask, &d) == 0 && d.allowed)
 *         status = weir_engine_report(engine, &permits, &(struct weir_report){0}); // a success
 *
 * Errors: as weir_engine_acquire; ELONG (also if permits are wanted and more than WEIR_PERMITS_MAX
 * limits apply), EINVAL (reserved; both a time and a deadline; `permit`), ERANGE (no such
 * priority).
 */
WEIR_API int weir_engine_ask(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                             const struct weir_ask *ask, struct weir_decision *decision);

/**
 * Gives back what the request took from all limits, as weir_refund_permit. `decision` is the state
 * of the tightest of them. Limits that `engine` no longer has are left out.
 *
 *     status = weir_engine_refund(engine, &permits, WEIR_NOW, &d);
 *
 * Errors: ENOTFOUND (given back before, its time is over, or there is none), EINVAL (no such
 * `count`), ENOMEM.
 */
WEIR_API int weir_engine_refund(weir_engine *engine, const struct weir_permits *permits,
                                uint64_t now_ns, struct weir_decision *decision);

/**
 * Reports to all limits how the work ended, as weir_report. It frees places; all else stays taken.
 * Permits with places end; others stay valid.
 *
 *     struct weir_report late = {.outcome = WEIR_OUTCOME_TIMEOUT};
 *     status = weir_engine_report(engine, &permits, &late);
 *
 * Errors: ENOTFOUND as weir_engine_refund, EINVAL (no such outcome or `count`; reserved), ENOMEM.
 */
WEIR_API int weir_engine_report(weir_engine *engine, const struct weir_permits *permits,
                                const struct weir_report *report);

/**
 * Returns the engine's limit with this name, which need not end in NUL, or NULL if there is none.
 * The limit lives as long as the engine.
 *
 *     const weir_limit *login = weir_engine_limit(engine, "login", 5);
 */
WEIR_API const weir_limit *weir_engine_limit(const weir_engine *engine, const char *name,
                                             size_t name_len);

#ifdef __cplusplus
}
#endif
#endif
