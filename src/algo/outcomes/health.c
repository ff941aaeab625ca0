#include "algo/outcomes/health.h"

/* An open breaker of nobody's is forgotten so long after its sleep, and one that is half-open. */
#define FORGOTTEN_NS NS_PER_DAY

const char *health_phase_text(enum health_phase phase)
{
	static const char *const texts[HEALTH_PHASE_COUNT] = {
	    [HEALTH_CLOSED] = "closed",           [HEALTH_RAMP] = "ramp",
	    [HEALTH_OPEN] = "open",               [HEALTH_HALF_OPEN] = "half_open",
	    [HEALTH_FORCED_OPEN] = "forced_open", [HEALTH_FORCED_CLOSED] = "forced_closed"};

	return texts[phase];
}

const char *health_cause_text(enum algo_cause cause)
{
	static const char *const texts[ALGO_CAUSE_COUNT] = {
	    [ALGO_BY_NOTHING] = "none",
	    [ALGO_BY_FAILURES] = "failure_rate",
	    [ALGO_BY_FAILURE_COUNT] = "failures",
	    [ALGO_BY_SLOWNESS] = "slow_rate",
	    [ALGO_BY_BAD_PROBE] = "probe_failed",
	    [ALGO_BY_GOOD_PROBES] = "probes_passed",
	    [ALGO_BY_SLEEP] = "sleep_over",
	    [ALGO_BY_TIME] = "time_over",
	    [ALGO_BY_FORCE] = "forced",
	    [ALGO_BY_RESET] = "reset",
	    [ALGO_BY_GROUP] = "fleet",
	};

	return texts[cause];
}

struct health_result health_result_of(const struct health_params *params, enum weir_outcome outcome,
                                      uint64_t latency_ns)
{
	return (struct health_result){
	    .ignored = outcome == WEIR_OUTCOME_IGNORED,
	    .failed = outcome == WEIR_OUTCOME_FAILURE || outcome == WEIR_OUTCOME_TIMEOUT,
	    .slow = params->slow_ns > 0 && latency_ns > params->slow_ns,
	};
}

unsigned health_spread(uint64_t number)
{
	return (unsigned)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 57);
}

_Static_assert(HEALTH_SPREADS == 1 << (64 - 57), "a spread has as many bits as it is shifted to");

uint64_t health_sleep_ns(const struct health_params *params, unsigned doublings, unsigned spread)
{
	uint64_t first_ns = params->sleep_ns, max_ns = params->sleep_max_ns, ns, least_ns, most_ns;

	if (doublings == 0 || max_ns <= first_ns)
		return first_ns;
	ns = first_ns > max_ns >> doublings ? max_ns : first_ns << doublings;
	least_ns = u64_max(ns - ns / 10, first_ns);
	most_ns = u64_min(ns + ns / 10, max_ns);
	return least_ns + (most_ns - least_ns) * spread / (HEALTH_SPREADS - 1);
}

static uint64_t open_until_ns(const struct health_params *params, const struct health_state *health)
{
	return health->since_ns + health_sleep_ns(params, health->doublings, health->spread);
}

/* When nothing is left of it if nobody comes; forced phases leave a beginning instead. */
static uint64_t forgotten_at_ns(const struct health_params *params,
                                const struct health_state *health)
{
	switch (health->phase) {
	case HEALTH_OPEN:
		return open_until_ns(params, health) + FORGOTTEN_NS;
	case HEALTH_HALF_OPEN:
		return health->since_ns + params->timeout_ns + FORGOTTEN_NS;
	default:
		return UINT64_MAX;
	}
}

struct health_state health_at(const struct health_params *params, const struct health_state *health,
                        uint64_t now_ns)
{
	struct health_state at = *health;

	if (health->phase >= HEALTH_FORCED_OPEN) {
		if (health->since_ns <= now_ns)
			at.phase = HEALTH_CLOSED;
		return at;
	}
	/* Begun by a clock that has been set back since: it would last until that time comes again. */
	if (health->since_ns > now_ns + ALGO_SKEW_NS)
		return (struct health_state){.phase = HEALTH_CLOSED};
	/* With a beginning of its own: a window of before must not be taken for its. */
	if (forgotten_at_ns(params, health) <= now_ns)
		return (struct health_state){.phase = HEALTH_CLOSED,
		                             .since_ns = forgotten_at_ns(params, health)};
	if (health->phase == HEALTH_RAMP && health->since_ns + params->ramp_ns <= now_ns)
		at.phase = HEALTH_CLOSED;
	return at;
}

/* A tenth of all draws at first, then more and more. */
static bool ramp_passes(const struct health_params *params, const struct health_state *health,
                        uint64_t now_ns, uint64_t draw)
{
	uint64_t past_ns = sat_sub(now_ns, health->since_ns);
	u128 passing = ((u128)(params->ramp_ns + 9 * past_ns) << 64) / ((u128)10 * params->ramp_ns);

	return draw < passing;
}

static unsigned probes_given(const struct health_state *health)
{
	return health->flying + health->good + health->bad;
}

/* A request has come for which the quorum group has given no probe. */
static bool ask_group_for_probe(const struct health_request *request)
{
	request->notification->wants_probe |= request->draw != NULL;
	return false;
}

/* Whether the phase lets a request pass, and else for how long not. */
static bool phase_passes(const struct algo_limit *limit, struct health_state *health, uint64_t now_ns,
                         const struct health_request *request, uint64_t *retry_ns)
{
	const struct health_params *params = &limit->health;
	bool is_lost;

	*retry_ns = limit->retry_ns;
	switch (health->phase) {
	case HEALTH_RAMP:
		return !request->draw || ramp_passes(params, health, now_ns, *request->draw);
	case HEALTH_FORCED_OPEN:
		if (health->since_ns != HEALTH_FOR_EVER)
			*retry_ns = health->since_ns - now_ns;
		return false;
	case HEALTH_OPEN:
		if (now_ns < open_until_ns(params, health)) {
			*retry_ns = open_until_ns(params, health) - now_ns;
			return false;
		}
		if (request->notification)
			return ask_group_for_probe(request);
		break;
	case HEALTH_HALF_OPEN:
		if (request->notification)
			return probes_given(health) < params->probes || ask_group_for_probe(request);
		/* The quorum group that would end it is not there any more. */
		is_lost = health->flying == 0 && probes_given(health) >= params->probes;
		if (probes_given(health) > 0 && !is_lost)
			return probes_given(health) < params->probes;
		break; /* nothing says when it began: it begins anew */
	default:
		return true;
	}
	*health = (struct health_state){.phase = HEALTH_HALF_OPEN,
	                                .since_ns = u64_max(now_ns, health->since_ns),
	                                .doublings = health->doublings,
	                                .ended = health->ended};
	return true;
}

uint64_t health_capacity(const struct health_params *params, const struct health_state *health,
                         uint64_t in_flight)
{
	uint64_t most = params->max_concurrent ? sat_sub(params->max_concurrent, in_flight)
	                                       : ALGO_COUNT_MAX;

	switch (health->phase) {
	case HEALTH_OPEN:
	case HEALTH_FORCED_OPEN:
		return 0;
	case HEALTH_HALF_OPEN:
		return u64_min(most, sat_sub(params->probes, probes_given(health)));
	default:
		return most;
	}
}

bool health_decide(const struct algo_limit *limit, struct health_state *health, uint64_t now_ns,
                   const struct health_request *request, struct algo_decision *out)
{
	const struct health_params *params = &limit->health;
	struct health_state after = *health;
	uint64_t retry_ns;
	bool full = params->max_concurrent && request->in_flight >= params->max_concurrent;

	algo_decision_allow(out);
	out->remaining = 0;
	if (!phase_passes(limit, &after, now_ns, request, &retry_ns))
		return algo_decision_deny(out, WEIR_REASON_BREAKER_OPEN, retry_ns);
	if (full)
		return algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, limit->retry_ns);
	after.flying += after.phase == HEALTH_HALF_OPEN && request->draw;
	out->remaining = health_capacity(
	    params, &after, request->in_flight + (request->draw && params->max_concurrent));
	*health = after;
	return true;
}

static void begin_phase(struct health_state *health, enum health_phase phase, uint64_t now_ns)
{
	*health = (struct health_state){.phase = phase, .since_ns = u64_max(now_ns, health->since_ns)};
}

void health_open(struct health_state *health, uint64_t now_ns)
{
	begin_phase(health, HEALTH_OPEN, now_ns);
}

/* A probe has failed. */
static void reopen_breaker(struct health_state *health, uint64_t now_ns)
{
	unsigned doublings = health->doublings;

	begin_phase(health, HEALTH_OPEN, now_ns);
	health->doublings = doublings < HEALTH_DOUBLINGS_MAX ? doublings + 1 : doublings;
	health->spread = health_spread(health->since_ns);
}

/* For a tally as long as is needed, as is the next. */
static enum algo_cause slow_cause(const struct health_params *params,
                                  const struct health_tally *tally)
{
	if (params->slow_ns > 0 && tally->slow * 100 >= tally->calls * params->slow_percent)
		return ALGO_BY_SLOWNESS;
	return ALGO_BY_NOTHING;
}

static enum algo_cause failure_cause(const struct health_params *params,
                                     const struct health_tally *tally)
{
	if (tally->failures * 100 >= tally->calls * params->failure_percent)
		return ALGO_BY_FAILURES;
	return slow_cause(params, tally);
}

enum algo_cause health_trip_cause(const struct health_params *params,
                                  const struct health_tally *tally)
{
	if (tally->calls == 0 || tally->calls < params->minimum)
		return ALGO_BY_NOTHING;
	if (params->failures == 0)
		return failure_cause(params, tally);
	return tally->failures >= params->failures ? ALGO_BY_FAILURE_COUNT : slow_cause(params, tally);
}

/* The probes are spent, because the quorum group judges their results. */
static void notify_probe_results(struct health_state *health, struct health_result result,
                                 bool failed, unsigned count,
                                 struct algo_notification *notification)
{
	if (notification->since_ns != health->since_ns)
		*notification = (struct algo_notification){.since_ns = health->since_ns};
	health->good += count;
	*(result.ignored ? &notification->freed : failed ? &notification->bad : &notification->good) += count;
	notification->slow += result.slow && !result.ignored ? count : 0;
}

/* So many of the probes have not been used. */
static unsigned unused_probes(const struct health_params *params, const struct health_state *health)
{
	unsigned of = probes_given(health);

	return of < params->probes ? params->probes - of : 0;
}

bool health_apply_group(const struct health_params *params, struct health_state *health,
                        const struct algo_call *call, uint64_t now_ns)
{
	unsigned more = (unsigned)u64_min(call->cost, params->probes);
	unsigned doublings = health->doublings;

	if (health->phase >= HEALTH_FORCED_OPEN)
		return false;
	switch (call->op) {
	case ALGO_GROUP_OPEN:
		*health = (struct health_state){
		    .phase = HEALTH_OPEN,
		    .since_ns = call->until_ns,
		    .doublings = (unsigned)u64_min(call->cost, HEALTH_DOUBLINGS_MAX),
		    .spread = health_spread(call->draw)};
		return true;
	case ALGO_GROUP_CLOSED:
		if (health->phase <= HEALTH_RAMP)
			return false;
		begin_phase(health, params->ramp_ns > 0 ? HEALTH_RAMP : HEALTH_CLOSED, now_ns);
		return true;
	case ALGO_GROUP_PROBES:
		if (health->phase == HEALTH_HALF_OPEN)
			more += unused_probes(params, health);
		else
			begin_phase(health, HEALTH_HALF_OPEN, now_ns);
		health->doublings = doublings;
		health->bad = 0;
		/* As if spent: those that others have. */
		health->good = sat_sub(params->probes, health->flying + more);
		return true;
	case ALGO_GROUP_LAPSE:
		more = health->phase == HEALTH_HALF_OPEN ? unused_probes(params, health) : 0;
		notify_probe_results(health, (struct health_result){.ignored = true}, false, more,
		                     call->notification);
		return more > 0;
	default:
		return false;
	}
}

void health_end_probes(const struct health_params *params, struct health_state *health,
                 struct health_result result, unsigned count, uint64_t now_ns,
                 struct algo_notification *notification)
{
	bool failed = result.failed || (result.slow && !params->together);

	if (count > health->flying)
		count = health->flying;
	health->flying -= count;
	health->ended = (health->ended + 1) % HEALTH_ENDED;
	if (notification) {
		notify_probe_results(health, result, failed, count, notification);
		return;
	}
	if (result.ignored || count == 0)
		return;
	*(failed ? &health->bad : &health->good) += count;
	health->slow += result.slow ? count : 0;
	if (failed && !params->together) {
		reopen_breaker(health, now_ns);
	} else if (health->good + health->bad >= params->probes) {
		struct health_tally tally = {health->good + health->bad, health->bad, health->slow};

		if (params->together && failure_cause(params, &tally))
			reopen_breaker(health, now_ns);
		else
			begin_phase(health, params->ramp_ns > 0 ? HEALTH_RAMP : HEALTH_CLOSED, now_ns);
	}
}

uint64_t health_ttl_ns(const struct health_params *params, const struct health_state *health,
                       uint64_t now_ns)
{
	switch (health->phase) {
	case HEALTH_RAMP:
		return sat_sub(health->since_ns + params->ramp_ns, now_ns);
	case HEALTH_OPEN:
	case HEALTH_HALF_OPEN:
		return sat_sub(forgotten_at_ns(params, health), now_ns);
	case HEALTH_FORCED_OPEN:
	case HEALTH_FORCED_CLOSED:
		return u64_min(sat_sub(health->since_ns, now_ns), ALGO_HORIZON_NS);
	default:
		return 0;
	}
}
