/*
 * pace.c: computes start times that are evenly spaced by a rate: one each p/q ns. If starts were
 * late, they may catch up for a while; the starts before that are lost, and counted as missed.
 */
#include "pool/pace.h"

#include "algo/algo.h"
#include "base/number.h"

/*
 * Opens a token bucket of one token, to check the rate and get its fraction in lowest terms.
 * Without a rate (a count of 0) q stays 0: tasks then start at once, and pace_advance is never
 * called.
 */
int pace_init(struct pace *pace, const struct weir_rate *rate, struct weir_error *error)
{
	struct algo_limit limit;
	int status;

	*pace = (struct pace){0};
	if (rate->count == 0)
		return WEIR_OK;
	status =
	    algo_limit_init(&limit, &(struct weir_limit_options){.rate = *rate, .burst = 1}, error);
	if (status != WEIR_OK)
		return status;
	pace->p = limit.bucket.p;
	pace->q = limit.bucket.q;
	algo_limit_free(&limit);
	return WEIR_OK;
}

static void set_start(struct pace *pace, uint64_t start_ns)
{
	pace->start_ns = start_ns;
	pace->rest = 0;
}

void pace_resume(struct pace *pace, uint64_t now_ns)
{
	if (pace->start_ns < now_ns)
		set_start(pace, now_ns);
}

/* Moves start_ns to the next start, p/q ns after the one that is used now. */
void pace_advance(struct pace *pace, uint64_t now_ns)
{
	uint64_t lost_ns = sat_sub(now_ns - pace->start_ns, PACE_CATCH_UP_NS);

	if (lost_ns > 0) {
		pace->missed += sat_u64((u128)lost_ns * pace->q / pace->p);
		set_start(pace, pace->start_ns + lost_ns);
	}
	pace->start_ns += pace->p / pace->q;
	pace->rest += pace->p % pace->q;
	if (pace->rest >= pace->q) {
		pace->rest -= pace->q;
		pace->start_ns++;
	}
}
