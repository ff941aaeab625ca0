#include "simulate/report/phase_times.h"

#include <search.h>
#include <stdlib.h>

/* A key that is not closed. */
struct phased {
	uint64_t key;
	uint64_t since_ns;
	enum breaker_phase phase;
};

static int compare(const void *a, const void *b)
{
	uint64_t left = ((const struct phased *)a)->key, right = ((const struct phased *)b)->key;

	return (left > right) - (left < right);
}

static struct phased *find(const struct phases *phases, uint64_t key)
{
	void *node = tfind(&(struct phased){.key = key}, &phases->keys, compare);

	return node ? *(struct phased **)node : NULL;
}

/* A ramp is over by time alone, and a phase without any request is forgotten. */
static uint64_t end_ns(const struct algo_limit *limit, const struct phased *phased, uint64_t now_ns)
{
	const struct breaker_state health = {.phase = phased->phase, .since_ns = phased->since_ns};

	return u64_min(now_ns,
	               phased->since_ns + breaker_ttl_ns(&limit->breaker, &health, phased->since_ns));
}

static void count(struct phases *phases, const struct algo_limit *limit,
                  const struct phased *phased, uint64_t now_ns)
{
	static const size_t fields[] = {[BREAKER_OPEN] = TIMELINE_OPEN,
	                                [BREAKER_HALF_OPEN] = TIMELINE_HALF_OPEN,
	                                [BREAKER_RAMP] = TIMELINE_RAMP};
	uint64_t until_ns = end_ns(limit, phased, now_ns);
	size_t field = fields[phased->phase];

	phases->sum.n[field] += until_ns - phased->since_ns;
	timeline_add_span(&phases->timeline, phased->since_ns, until_ns, field);
}

static void forget(struct phases *phases, struct phased *phased)
{
	tdelete(phased, &phases->keys, compare);
	phases->key_count--;
	free(phased);
}

/* A key that was closed has another phase. */
static bool begin(struct phases *phases, uint64_t key, enum breaker_phase phase, uint64_t now_ns)
{
	struct phased *phased;

	if (phases->key_count == PHASES_KEYS_MAX) {
		phases->untracked++;
		return true;
	}
	phased = malloc(sizeof *phased);
	if (!phased)
		return false;
	*phased = (struct phased){key, now_ns, phase};
	if (!tsearch(phased, &phases->keys, compare)) {
		free(phased);
		return false;
	}
	phases->key_count++;
	return true;
}

bool phases_note(struct phases *phases, const struct algo_limit *limit, uint64_t key,
                 const struct algo_decision *outcome, uint64_t now_ns)
{
	bool closed = outcome->phase == BREAKER_CLOSED || outcome->phase >= BREAKER_FORCED_OPEN;
	struct phased *phased;

	if (phases->timeline.count == 0)
		timeline_add(&phases->timeline, now_ns, (struct timeline_counts){0});
	for (uint8_t i = 0; i < outcome->phase_change_count; i++)
		phases->opened += outcome->phase_changes[i].to == BREAKER_OPEN;
	if (closed && !phases->keys)
		return true;
	phased = find(phases, key);
	if (!phased)
		return closed || begin(phases, key, (enum breaker_phase)outcome->phase, now_ns);
	/* It may have been in another phase in between, in the same instant. */
	if (phased->phase == outcome->phase && outcome->phase_change_count == 0)
		return true;
	count(phases, limit, phased, now_ns);
	phased->phase = (enum breaker_phase)outcome->phase;
	phased->since_ns = now_ns;
	if (closed)
		forget(phases, phased);
	return true;
}

void phases_end(struct phases *phases, const struct algo_limit *limit, uint64_t now_ns)
{
	while (phases->keys) {
		struct phased *phased = *(struct phased **)phases->keys;

		count(phases, limit, phased, now_ns);
		forget(phases, phased);
	}
}

void phases_close(struct phases *phases)
{
	while (phases->keys)
		forget(phases, *(struct phased **)phases->keys);
}
