/*
 * phase_times.c: sums how long the keys of a breaker (a limit that stops requests to a failing
 * service) were open, half-open or in the ramp back to normal.
 */
#include "simulate/report/phase_times.h"

#include <search.h>
#include <stdlib.h>

/* A key whose breaker is not closed, and since when it is in its phase. */
struct timed_key {
	uint64_t key;
	uint64_t since_ns;
	enum breaker_phase phase;
};

static int compare_timed_keys(const void *a, const void *b)
{
	uint64_t left = ((const struct timed_key *)a)->key, right = ((const struct timed_key *)b)->key;

	return (left > right) - (left < right);
}

static struct timed_key *find_key(const struct phases *phases, uint64_t key)
{
	void *node = tfind(&(struct timed_key){.key = key}, &phases->keys, compare_timed_keys);

	return node ? *(struct timed_key **)node : NULL;
}

/* Returns when the phase ended by itself, as a ramp or an idle phase does, or else `now_ns`. */
static uint64_t end_ns(const struct algo_limit *limit, const struct timed_key *timed,
                       uint64_t now_ns)
{
	const struct breaker_state state = {.phase = timed->phase, .since_ns = timed->since_ns};

	return u64_min(now_ns,
	               timed->since_ns + breaker_ttl_ns(&limit->breaker, &state, timed->since_ns));
}

/* Adds the time of a phase that has ended to the sums and to the timeline. */
static void count_phase(struct phases *phases, const struct algo_limit *limit,
                        const struct timed_key *timed, uint64_t now_ns)
{
	static const enum timeline_phase phases_shown[] = {[BREAKER_OPEN] = TIMELINE_OPEN,
	                                                   [BREAKER_HALF_OPEN] = TIMELINE_HALF_OPEN,
	                                                   [BREAKER_RAMP] = TIMELINE_RAMP};
	uint64_t until_ns = end_ns(limit, timed, now_ns);
	enum timeline_phase phase = phases_shown[timed->phase];

	phases->sum.phase_ns[phase] += until_ns - timed->since_ns;
	timeline_add_phase(&phases->timeline, timed->since_ns, until_ns, phase);
}

static void remove_key(struct phases *phases, struct timed_key *timed)
{
	tdelete(timed, &phases->keys, compare_timed_keys);
	phases->key_count--;
	free(timed);
}

/* Adds a key that was closed before, unless there are too many. Returns false without memory. */
static bool add_timed_key(struct phases *phases, uint64_t key, enum breaker_phase phase,
                          uint64_t now_ns)
{
	struct timed_key *timed;

	if (phases->key_count == PHASES_KEYS_MAX) {
		phases->untracked++;
		return true;
	}
	timed = malloc(sizeof *timed);
	if (!timed)
		return false;
	*timed = (struct timed_key){key, now_ns, phase};
	if (!tsearch(timed, &phases->keys, compare_timed_keys)) {
		free(timed);
		return false;
	}
	phases->key_count++;
	return true;
}

/* Returns false without memory. Neither closed nor forced phases are timed. */
bool phases_record(struct phases *phases, const struct algo_limit *limit, uint64_t key,
                   const struct algo_decision *outcome, uint64_t now_ns)
{
	bool is_not_timed = outcome->phase == BREAKER_CLOSED || outcome->phase >= BREAKER_FORCED_OPEN;
	struct timed_key *timed;

	if (phases->timeline.count == 0)
		timeline_add(&phases->timeline, now_ns, (struct timeline_counts){0});
	for (uint8_t i = 0; i < outcome->phase_change_count; i++)
		phases->opened += outcome->phase_changes[i].to == BREAKER_OPEN;
	if (is_not_timed && !phases->keys)
		return true;
	timed = find_key(phases, key);
	if (!timed)
		return is_not_timed ||
		       add_timed_key(phases, key, (enum breaker_phase)outcome->phase, now_ns);
	/* After a phase change the key may have left its phase and entered it again. */
	if (timed->phase == outcome->phase && outcome->phase_change_count == 0)
		return true;
	count_phase(phases, limit, timed, now_ns);
	timed->phase = (enum breaker_phase)outcome->phase;
	timed->since_ns = now_ns;
	if (is_not_timed)
		remove_key(phases, timed);
	return true;
}

void phases_end(struct phases *phases, const struct algo_limit *limit, uint64_t now_ns)
{
	while (phases->keys) {
		struct timed_key *timed = *(struct timed_key **)phases->keys;

		count_phase(phases, limit, timed, now_ns);
		remove_key(phases, timed);
	}
}

void phases_close(struct phases *phases)
{
	while (phases->keys)
		remove_key(phases, *(struct timed_key **)phases->keys);
}
