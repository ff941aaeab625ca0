#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/algorithm.h"
#include "vector.h"

/* Asks for nothing: no use ends in 1970. */
#define NO_NAME 1

static json_t *time_text(uint64_t ns)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, ns);
	return json_string(text);
}

/* A pair of two fields, the first a time. */
static json_t *pair(uint64_t until_ns, const char *name, uint64_t number)
{
	return json_pack("{s:o, s:I}", "until_ns", time_text(until_ns), name, (json_int_t)number);
}

static void read_word(const struct algo_limit *limit, const json_t *written, struct state *state)
{
	const struct algorithm *algorithm = limit->algorithm;

	state->word.until_ns = vector_number(written, "until_ns");
	state->word.word = (uint32_t)(vector_number(written, algorithm->word) - algorithm->word_less);
}

static json_t *write_word(const struct algo_limit *limit, const struct state *state,
                          uint64_t now_ns)
{
	const struct algorithm *algorithm = limit->algorithm;

	if (state->word.until_ns <= now_ns)
		return json_null();
	return pair(state->word.until_ns, algorithm->word,
	            (uint64_t)state->word.word + algorithm->word_less);
}

/* The names of a log are its own; of places they are permits, of slots times. */
static struct uses_entry use_of(const struct algo_limit *limit, const json_t *written,
                                struct state *state)
{
	const json_t *permit = json_object_get(written, "permit");
	struct uses_entry use = {vector_number(written, "units"), vector_number(written, "until_ns"),
	                         0};
	uint64_t id = permit ? vector_number(written, "permit") : 0;

	use.id = limit->record == ALGO_RECORD_LEASES ? leases_word(id) : use.until_ns;
	if (limit->record == ALGO_RECORD_LOG) {
		use.id = u64_max(use.until_ns, state->uses.newest_id + 1);
		state->uses.newest_id = use.id;
		if (id)
			state->names[id] = use.id;
	}
	return use;
}

static void read_uses(const struct algo_limit *limit, const json_t *written, struct state *state)
{
	size_t i;
	json_t *each;

	json_array_foreach (json_object_get(written, "uses"), i, each)
		uses_add(&state->uses, use_of(limit, each, state));
	if (limit->record != ALGO_RECORD_LEASES)
		state->uses.until_ns = state->uses.entries[state->uses.count - 1].until_ns;
}

/* The permit that a use was taken under, or 0. */
static uint64_t permit_of(const struct algo_limit *limit, const struct state *state,
                          const struct uses_entry *use)
{
	if (limit->record == ALGO_RECORD_LEASES)
		return use->id;
	for (uint64_t id = 1; id < STATE_PERMITS_MAX; id++)
		if (limit->record == ALGO_RECORD_LOG && state->names[id] == use->id)
			return id;
	return 0;
}

/* A use, or more units of one that is written already. */
static void write_use(json_t *list, uint64_t until_ns, uint64_t units, uint64_t permit)
{
	json_t *use = pair(until_ns, "units", units), *each;
	size_t i, before = 0;

	if (permit)
		json_object_set_new(use, "permit", json_integer((json_int_t)permit));
	json_array_foreach (list, i, each) {
		bool same = vector_number(each, "until_ns") == until_ns;
		json_t *of = json_object_get(each, "permit");
		uint64_t other = of ? vector_number(each, "permit") : 0;

		if (same && other == permit) {
			json_object_set_new(each, "units",
			                    json_integer((json_int_t)(vector_number(each, "units") + units)));
			json_decref(use);
			return;
		}
		if (!same || other < permit)
			before = i + 1;
	}
	json_array_insert_new(list, before, use);
}

static json_t *write_uses(const struct algo_limit *limit, const struct state *state,
                          uint64_t now_ns)
{
	json_t *list = json_array();

	for (size_t i = 0; i < state->uses.count; i++) {
		const struct uses_entry *use = &state->uses.entries[i];

		if (use->until_ns > now_ns)
			write_use(list, use->until_ns, use->units, permit_of(limit, state, use));
	}
	if (json_array_size(list) > 0)
		return json_pack("{s:o}", "uses", list);
	json_decref(list);
	return json_null();
}

/* A window is over with its day, but has its name until it ends. */
static void read_day(const struct algo_limit *limit, const json_t *written, struct state *state)
{
	const json_t *window = json_object_get(written, "window");
	uint64_t end_ns = vector_number(written, "until_ns"), free = vector_number(written, "free");

	(void)limit;
	state->uses.until_ns = end_ns;
	if (free > 0)
		uses_add(&state->uses, (struct uses_entry){free, end_ns, end_ns});
	if (!json_is_null(window)) {
		uint64_t window_ns = vector_number(window, "until_ns");

		uses_add(&state->uses,
		         (struct uses_entry){vector_number(window, "count"), u64_min(window_ns, end_ns),
		                             uses_day_id(window_ns, end_ns)});
	}
}

static json_t *write_day(const struct algo_limit *limit, const struct state *state, uint64_t now_ns)
{
	uint64_t units = 0, window_ns = state->uses.until_ns, free;

	for (size_t i = 0; i < state->uses.count; i++) {
		const struct uses_entry *use = &state->uses.entries[i];

		if (use->until_ns <= now_ns)
			continue;
		units += use->units;
		if (use->id != state->uses.until_ns) /* not the day's */
			window_ns = uses_day_window(use->id, state->uses.until_ns);
	}
	free = u64_min(units, limit->day.free);
	if (units == 0)
		return json_null();
	return json_pack("{s:o, s:I, s:o}", "until_ns", time_text(state->uses.until_ns), "free",
	                 (json_int_t)free, "window",
	                 units > free ? pair(window_ns, "count", units - free) : json_null());
}

/* Writes a part of a state, not all of it. */
static json_t *write_breaker(const struct algo_limit *limit, const struct state *state,
                             uint64_t now_ns)
{
	static const char *const phases[] = {"closed", "ramp", "open", "half_open"};
	const struct breaker_state *breaker = &state->breaker;
	json_t *written;

	(void)limit;
	(void)now_ns;
	if (breaker->phase == BREAKER_CLOSED && state->tally.calls == 0 && state->in_flight == 0)
		return json_null();
	written =
	    json_pack("{s:s, s:I, s:I, s:I, s:I}", "phase", phases[breaker->phase], "in_flight",
	              (json_int_t)state->in_flight, "calls", (json_int_t)state->tally.calls, "failures",
	              (json_int_t)state->tally.failures, "slow", (json_int_t)state->tally.slow);
	if (breaker->phase != BREAKER_CLOSED)
		json_object_set_new(written, "since_ns", time_text(breaker->since_ns));
	if (breaker->phase == BREAKER_HALF_OPEN)
		json_object_set_new(written, "probes",
		                    json_pack("{s:i, s:i, s:i, s:i}", "flying", breaker->probes_in_flight,
		                              "good", breaker->good, "bad", breaker->bad, "slow",
		                              breaker->slow));
	return written;
}

static json_t *write_accepts(const struct algo_limit *limit, const struct state *state,
                             uint64_t now_ns)
{
	const struct success_params *params = &limit->success;
	const struct success_state *accepts = &state->accepts;
	json_t *parts, *written;

	if (success_ttl_ns(params, accepts, now_ns) == 0)
		return json_null();
	parts = json_array();
	for (unsigned i = 0; i < params->parts; i++) {
		const struct success_part *part = &accepts->parts[i];

		if (part->requests == 0 && part->accepts == 0 && !part->failed)
			continue;
		json_array_append_new(parts,
		                      json_pack("{s:o, s:I, s:I, s:b}", "until_ns",
		                                time_text(success_part_leaves_ns(
		                                    params, accepts->newest + 1 + i - params->parts)),
		                                "requests", (json_int_t)part->requests, "accepts",
		                                (json_int_t)part->accepts, "failed", part->failed));
	}
	written = json_pack("{s:o}", "parts", parts);
	if (accepts->passed_ns + SUCCESS_PASS_NS > accepts->now_ns)
		json_object_set_new(written, "passed_ns", time_text(accepts->passed_ns));
	return written;
}

static json_t *write_in_flight(const struct algo_limit *limit, const struct state *state,
                               uint64_t now_ns)
{
	(void)limit;
	(void)now_ns;
	if (state->quota == 0)
		return json_null();
	return json_pack("{s:I, s:I}", "limit", (json_int_t)state->quota, "in_flight",
	                 (json_int_t)state->in_flight);
}

static const struct form {
	void (*read)(const struct algo_limit *limit, const json_t *written, struct state *state);
	json_t *(*write)(const struct algo_limit *limit, const struct state *state, uint64_t now_ns);
} forms[] = {
    [ALGO_RECORD_NONE] = {read_word, write_word},
    [ALGO_RECORD_SLOTS] = {read_uses, write_uses},
    [ALGO_RECORD_LOG] = {read_uses, write_uses},
    [ALGO_RECORD_DAY] = {read_day, write_day},
    [ALGO_RECORD_LEASES] = {read_uses, write_uses},
    [ALGO_RECORD_BREAKER] = {NULL, write_breaker},
    [ALGO_RECORD_SUCCESS] = {NULL, write_accepts},
    [ALGO_RECORD_IN_FLIGHT] = {NULL, write_in_flight},
};

void state_read(const struct algo_limit *limit, const json_t *written, struct state *state)
{
	state->word = (struct algo_state){0, 0};
	state->uses = (struct uses){.entries = state->list};
	memset(state->names, 0, sizeof state->names);
	if (!json_is_null(written))
		forms[limit->record].read(limit, written, state);
}

json_t *state_write(const struct algo_limit *limit, const struct state *state, uint64_t now_ns)
{
	return forms[limit->record].write(limit, state, now_ns);
}

uint64_t state_name(const struct algo_limit *limit, const struct state *state, uint64_t permit,
                    uint64_t until_ns)
{
	if (limit->record != ALGO_RECORD_LOG)
		return until_ns;
	return state->names[permit] ? state->names[permit] : NO_NAME;
}

void state_took(struct state *state, uint64_t permit, uint64_t name_ns)
{
	state->names[permit] = name_ns;
}

uint64_t state_step(const struct algo_limit *limit, const struct algo_call *call,
                    const struct algo_time *time, struct state *state, struct algo_decision *out)
{
	if (limit->record != ALGO_RECORD_NONE)
		return uses_step(limit, call, time, &state->uses, out);
	algo_step(limit, call, time, &state->word, out);
	return state->word.until_ns;
}
