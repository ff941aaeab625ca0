/*
 * breaker_state.c: decides `breaker` limits, circuit breakers: closed, open (denies all), half-open
 * (a few probes pass), and a ramp that lets more and more requests pass again.
 *
 * If servers decide a breaker together, they are a *quorum group*: a server then sends its results
 * in a notification, and the group decides the phases. An operator can force a key open or closed,
 * until a time or for ever.
 */
#include "algo/outcomes/breaker_state.h"

/* A breaker that gets no requests is forgotten so long after its sleep or its half-open phase. */
#define FORGOTTEN_NS NS_PER_DAY

const char *breaker_phase_text(enum breaker_phase phase)
{
	static const char *const texts[BREAKER_PHASE_COUNT] = {[BREAKER_CLOSED] = "closed",
	                                                       [BREAKER_RAMP] = "ramp",
	                                                       [BREAKER_OPEN] = "open",
	                                                       [BREAKER_HALF_OPEN] = "half_open",
	                                                       [BREAKER_FORCED_OPEN] = "forced_open",
	                                                       [BREAKER_FORCED_CLOSED] =
	                                                           "forced_closed"};

	return texts[phase];
}

const char *breaker_cause_text(enum algo_cause cause)
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
	    [ALGO_BY_GROUP] = "quorum",
	};

	return texts[cause];
}

struct breaker_result breaker_result_of(const struct breaker_params *params,
                                        enum weir_outcome outcome, uint64_t latency_ns)
{
	return (struct breaker_result){
	    .ignored = outcome == WEIR_OUTCOME_IGNORED,
	    .failed = outcome == WEIR_OUTCOME_FAILURE || outcome == WEIR_OUTCOME_TIMEOUT,
	    .slow = params->slow_ns > 0 && latency_ns > params->slow_ns,
	};
}

/* Returns a number from 0 to BREAKER_SPREADS - 1, which is spread evenly over all inputs. */
unsigned breaker_spread(uint64_t number)
{
	return (unsigned)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 57);
}

_Static_assert(BREAKER_SPREADS == 1 << (64 - 57), "a spread has as many bits as it is shifted to");

/*
 * Returns how long an open breaker sleeps: twice as long for each probe that failed in a row, and
 * up to a tenth more or less by `spread`.
 */
uint64_t breaker_sleep_ns(const struct breaker_params *params, unsigned doublings, unsigned spread)
{
	uint64_t first_ns = params->sleep_ns, max_ns = params->sleep_max_ns, ns, least_ns, most_ns;

	if (doublings == 0 || max_ns <= first_ns)
		return first_ns;
	ns = first_ns > max_ns >> doublings ? max_ns : first_ns << doublings;
	least_ns = u64_max(ns - ns / 10, first_ns);
	most_ns = u64_min(ns + ns / 10, max_ns);
	return least_ns + (most_ns - least_ns) * spread / (BREAKER_SPREADS - 1);
}

static uint64_t open_until_ns(const struct breaker_params *params,
                              const struct breaker_state *state)
{
	return state->since_ns + breaker_sleep_ns(params, state->doublings, state->spread);
}

/* Returns when a phase without requests ends by itself: the breaker is closed then. */
static uint64_t forgotten_at_ns(const struct breaker_params *params,
                                const struct breaker_state *state)
{
	switch (state->phase) {
	case BREAKER_OPEN:
		return open_until_ns(params, state) + FORGOTTEN_NS;
	case BREAKER_HALF_OPEN:
		return state->since_ns + params->timeout_ns + FORGOTTEN_NS;
	default:
		return UINT64_MAX;
	}
}

/* Returns the state after the phase changes that time alone has made by now. */
struct breaker_state breaker_at(const struct breaker_params *params,
                                const struct breaker_state *state, uint64_t now_ns)
{
	struct breaker_state at = *state;

	if (breaker_is_forced(state)) {
		if (state->since_ns <= now_ns) /* of a forced phase: its end */
			at.phase = BREAKER_CLOSED;
		return at;
	}
	/*
	 * The phase began under a clock that was set back since: it would last until that time returns.
	 */
	if (state->since_ns > now_ns + ALGO_SKEW_NS)
		return (struct breaker_state){.phase = BREAKER_CLOSED};
	/* The closed phase gets a start of its own: results from before it must not count in it. */
	if (forgotten_at_ns(params, state) <= now_ns)
		return (struct breaker_state){.phase = BREAKER_CLOSED,
		                              .since_ns = forgotten_at_ns(params, state)};
	if (state->phase == BREAKER_RAMP && state->since_ns + params->ramp_ns <= now_ns)
		at.phase = BREAKER_CLOSED;
	return at;
}

/* Whether a draw passes in a ramp: a tenth of all draws does at its start, all do at its end. */
static bool ramp_passes(const struct breaker_params *params, const struct breaker_state *state,
                        uint64_t now_ns, uint64_t draw)
{
	uint64_t past_ns = sat_sub(now_ns, state->since_ns);
	/* (1/10 + 9/10 past / ramp) of all 2^64 draws */
	u128 passing = ((u128)(params->ramp_ns + 9 * past_ns) << 64) / ((u128)10 * params->ramp_ns);

	return draw < passing;
}

/* Returns the probes of the phase that requests have got, whether they have ended or not. */
static unsigned probes_given(const struct breaker_state *state)
{
	return state->probes_in_flight + state->good + state->bad;
}

/* Asks the quorum group for a probe, if the denial counts. Returns false: the request is denied. */
static bool ask_group_for_probe(const struct breaker_request *request)
{
	request->notification->wants_probe |= request->counts_denial;
	return false;
}

/* Whether a half-open phase that no quorum group decides must begin anew, with all its probes. */
static bool must_begin_anew(const struct breaker_params *params, const struct breaker_state *state)
{
	unsigned given = probes_given(state);
	bool is_unused = given == 0; /* so that it begins with its first probe */
	/* A quorum group had to judge the probes, but the limit is no longer decided by one. */
	bool is_abandoned = given >= params->probes && state->probes_in_flight == 0;

	return is_unused || is_abandoned;
}

/*
 * Whether the phase lets a request pass. Sets the phase that it begins, or the time until a retry.
 */
static bool phase_passes(const struct algo_limit *limit, struct breaker_state *state,
                         uint64_t now_ns, const struct breaker_request *request, uint64_t *retry_ns)
{
	const struct breaker_params *params = &limit->breaker;

	*retry_ns = limit->retry_ns;
	switch (state->phase) {
	case BREAKER_RAMP:
		return !request->draw || ramp_passes(params, state, now_ns, *request->draw);
	case BREAKER_FORCED_OPEN:
		if (state->since_ns != BREAKER_FOREVER)
			*retry_ns = state->since_ns - now_ns;
		return false;
	case BREAKER_OPEN:
		if (now_ns < open_until_ns(params, state)) {
			*retry_ns = open_until_ns(params, state) - now_ns;
			return false;
		}
		if (request->notification)
			return ask_group_for_probe(request);
		break;
	case BREAKER_HALF_OPEN:
		if (request->notification)
			return probes_given(state) < params->probes || ask_group_for_probe(request);
		if (!must_begin_anew(params, state))
			return probes_given(state) < params->probes;
		break;
	default:
		return true;
	}
	*state = (struct breaker_state){.phase = BREAKER_HALF_OPEN,
	                                .since_ns = u64_max(now_ns, state->since_ns),
	                                .doublings = state->doublings,
	                                .ended = state->ended};
	return true;
}

/* Returns how many more requests could pass now. */
uint64_t breaker_capacity(const struct breaker_params *params, const struct breaker_state *state,
                          uint64_t in_flight)
{
	uint64_t most =
	    params->max_concurrent ? sat_sub(params->max_concurrent, in_flight) : ALGO_COUNT_MAX;

	switch (state->phase) {
	case BREAKER_OPEN:
	case BREAKER_FORCED_OPEN:
		return 0;
	case BREAKER_HALF_OPEN:
		return u64_min(most, sat_sub(params->probes, probes_given(state)));
	default:
		return most;
	}
}

/* Decides an acquire or a peek. Sets the state that follows if it is allowed. */
bool breaker_decide(const struct algo_limit *limit, struct breaker_state *state, uint64_t now_ns,
                    const struct breaker_request *request, struct algo_decision *out)
{
	const struct breaker_params *params = &limit->breaker;
	struct breaker_state after = *state;
	uint64_t retry_ns, in_flight_after;
	bool is_full = params->max_concurrent && request->in_flight >= params->max_concurrent;

	algo_decision_allow(out);
	out->remaining = 0;
	if (!phase_passes(limit, &after, now_ns, request, &retry_ns))
		return algo_decision_deny(out, WEIR_REASON_BREAKER_OPEN, retry_ns);
	if (is_full)
		return algo_decision_deny(out, WEIR_REASON_OVER_LIMIT, limit->retry_ns);
	after.probes_in_flight +=
	    after.phase == BREAKER_HALF_OPEN && !request->is_peek; /* it is a probe */
	in_flight_after = request->in_flight + (request->is_peek ? 0 : 1);
	out->remaining = breaker_capacity(params, &after, in_flight_after);
	*state = after;
	return true;
}

static void begin_phase(struct breaker_state *state, enum breaker_phase phase, uint64_t now_ns)
{
	*state = (struct breaker_state){.phase = phase, .since_ns = u64_max(now_ns, state->since_ns)};
}

void breaker_open(struct breaker_state *state, uint64_t now_ns)
{
	begin_phase(state, BREAKER_OPEN, now_ns);
}

/* Opens the breaker because a probe failed: it sleeps twice as long as before. */
static void reopen_breaker(struct breaker_state *state, uint64_t now_ns)
{
	unsigned doublings = state->doublings;

	begin_phase(state, BREAKER_OPEN, now_ns);
	state->doublings = doublings < BREAKER_DOUBLINGS_MAX ? doublings + 1 : doublings;
	state->spread = breaker_spread(state->since_ns);
}

/*
 * Returns why the slow ones are too many, or ALGO_BY_NOTHING. The caller has checked that the tally
 * has enough requests.
 */
static enum algo_cause slow_cause(const struct breaker_params *params,
                                  const struct breaker_tally *tally)
{
	if (params->slow_ns > 0 && tally->slow * 100 >= tally->calls * params->slow_percent)
		return ALGO_BY_SLOWNESS;
	return ALGO_BY_NOTHING;
}

/* Returns why too large a share failed or was slow, or ALGO_BY_NOTHING. */
static enum algo_cause failure_cause(const struct breaker_params *params,
                                     const struct breaker_tally *tally)
{
	if (tally->failures * 100 >= tally->calls * params->failure_percent)
		return ALGO_BY_FAILURES;
	return slow_cause(params, tally);
}

/* Returns why the window's results open a closed breaker, or ALGO_BY_NOTHING. */
enum algo_cause breaker_trip_cause(const struct breaker_params *params,
                                   const struct breaker_tally *tally)
{
	if (tally->calls == 0 || tally->calls < params->minimum)
		return ALGO_BY_NOTHING;
	if (params->failures == 0)
		return failure_cause(params, tally);
	return tally->failures >= params->failures ? ALGO_BY_FAILURE_COUNT : slow_cause(params, tally);
}

/* Adds results of probes to the message to the quorum group, which judges them. */
static void notify_probe_results(struct breaker_state *state, struct breaker_result result,
                                 bool failed, unsigned count,
                                 struct algo_notification *notification)
{
	if (notification->since_ns != state->since_ns) /* it has results of an earlier phase */
		*notification = (struct algo_notification){.since_ns = state->since_ns};
	state->good += count; /* whatever their result: here they are only spent */
	if (result.ignored)
		notification->freed += count;
	else if (failed)
		notification->bad += count;
	else
		notification->good += count;
	notification->slow += result.slow && !result.ignored ? count : 0;
}

/* The number of probes that no request has used. */
static unsigned unused_probes(const struct breaker_params *params,
                              const struct breaker_state *state)
{
	unsigned given = probes_given(state);

	return given < params->probes ? params->probes - given : 0;
}

static void open_for_group(struct breaker_state *state, const struct algo_call *call)
{
	uint64_t began_ns = call->until_ns, failed_in_a_row = call->cost;

	*state = (struct breaker_state){.phase = BREAKER_OPEN,
	                                .since_ns = began_ns,
	                                .doublings =
	                                    (unsigned)u64_min(failed_in_a_row, BREAKER_DOUBLINGS_MAX),
	                                .spread = breaker_spread(call->draw)};
}

/* Makes the breaker half-open, with so many probes more than it has left. */
static void add_group_probes(const struct breaker_params *params, struct breaker_state *state,
                             unsigned new_probes, uint64_t now_ns)
{
	unsigned doublings = state->doublings;

	if (state->phase == BREAKER_HALF_OPEN)
		new_probes += unused_probes(params, state);
	else
		begin_phase(state, BREAKER_HALF_OPEN, now_ns);
	state->doublings = doublings;
	state->bad = 0;
	/* Probes that other servers got count as spent here. */
	state->good = sat_sub(params->probes, state->probes_in_flight + new_probes);
}

/*
 * Applies a decision of the quorum group; op.h tells what the arguments of each mean. Returns
 * whether the state or the notification changed: a phase that an operator has forced does not.
 */
bool breaker_apply_group(const struct breaker_params *params, struct breaker_state *state,
                         const struct algo_call *call, uint64_t now_ns)
{
	unsigned unused;

	if (breaker_is_forced(state))
		return false;
	switch (call->op) {
	case ALGO_GROUP_OPEN:
		open_for_group(state, call);
		return true;
	case ALGO_GROUP_CLOSED:
		if (breaker_is_closed(state))
			return false;
		begin_phase(state, params->ramp_ns > 0 ? BREAKER_RAMP : BREAKER_CLOSED, now_ns);
		return true;
	case ALGO_GROUP_PROBES:
		add_group_probes(params, state, (unsigned)u64_min(call->cost, params->probes), now_ns);
		return true;
	case ALGO_GROUP_LAPSE:
		unused = state->phase == BREAKER_HALF_OPEN ? unused_probes(params, state) : 0;
		notify_probe_results(state, (struct breaker_result){.ignored = true}, false, unused,
		                     call->notification);
		return unused > 0;
	default:
		return false;
	}
}

/*
 * Counts `count` probes that ended with one result, and changes the phase if they decide it: one
 * bad probe opens the breaker again, unless all probes are judged together at the end.
 */
void breaker_end_probes(const struct breaker_params *params, struct breaker_state *state,
                        struct breaker_result result, unsigned count, uint64_t now_ns,
                        struct algo_notification *notification)
{
	bool failed = result.failed || (result.slow && !params->judges_probes_together);

	if (count > state->probes_in_flight)
		count = state->probes_in_flight;
	state->probes_in_flight -= count;
	state->ended = (state->ended + 1) % BREAKER_ENDED; /* so that this state differs from others */
	if (notification) {
		notify_probe_results(state, result, failed, count, notification);
		return;
	}
	if (result.ignored || count == 0)
		return;
	if (failed)
		state->bad += count;
	else
		state->good += count;
	state->slow += result.slow ? count : 0;
	if (failed && !params->judges_probes_together) {
		reopen_breaker(state, now_ns);
	} else if (state->good + state->bad >= params->probes) {
		struct breaker_tally tally = {state->good + state->bad, state->bad, state->slow};

		if (params->judges_probes_together && failure_cause(params, &tally) != ALGO_BY_NOTHING)
			reopen_breaker(state, now_ns);
		else
			begin_phase(state, params->ramp_ns > 0 ? BREAKER_RAMP : BREAKER_CLOSED, now_ns);
	}
}

/* Returns how long the state must be stored: then the breaker is closed without it. */
uint64_t breaker_ttl_ns(const struct breaker_params *params, const struct breaker_state *state,
                        uint64_t now_ns)
{
	switch (state->phase) {
	case BREAKER_RAMP:
		return sat_sub(state->since_ns + params->ramp_ns, now_ns);
	case BREAKER_OPEN:
	case BREAKER_HALF_OPEN:
		return sat_sub(forgotten_at_ns(params, state), now_ns);
	case BREAKER_FORCED_OPEN:
	case BREAKER_FORCED_CLOSED:
		return u64_min(sat_sub(state->since_ns, now_ns), ALGO_HORIZON_NS);
	default:
		return 0;
	}
}
