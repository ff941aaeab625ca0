/*
 * report_notes.c: says in a report which requests of a log were moved, estimated, incomplete or left
 * out, and which attributes of rules the log lacks.
 */
#include "simulate/report/report_notes.h"

#include <string.h>

/* Whether the rule has a condition on the attribute, or counts by it. */
static bool uses_attribute(const struct rules_rule *rule, const char *attribute)
{
	for (size_t i = 0; i < rule->condition_count; i++)
		if (strcmp(rule->conditions[i].attribute, attribute) == 0)
			return true;
	for (size_t i = 0; i < rule->key_count; i++)
		if (strcmp(rule->key[i], attribute) == 0)
			return true;
	return false;
}

size_t report_rules_missing(const struct report *report, size_t field)
{
	const struct replay *replay = report->replay;
	const struct weir_config *config;
	size_t count = 0;

	if (report->clients || !report->decided_by_rules || replay->requests == 0 ||
	    field >= WEIR_ATTRIBUTES_MAX || replay->seen >> field & 1)
		return 0;
	config = replay->scenarios[0].config;
	for (size_t i = 0; i < config->rule_count; i++)
		count += uses_attribute(&config->rules[i], replay->fields.names[field].data);
	return count;
}

/* Adds the attributes that rules use, and that no request of the log had. */
static void add_missing(const struct report *report, struct buffer *out)
{
	const struct fields *fields = &report->replay->fields;

	for (size_t i = 0; i < fields->count; i++) {
		size_t rules = report_rules_missing(report, i);

		if (rules > 0)
			buffer_printf(out, "no request of the log had \"%s\", which %zu rule%s\n",
			              fields->names[i].data, rules, rules == 1 ? " uses" : "s use");
	}
}

/* Adds the fields of keys that some requests lacked. */
static void add_without(const struct replay *replay, struct buffer *out)
{
	for (size_t i = 0; i < replay->fields.count; i++)
		if (replay->without[i] > 0)
			buffer_printf(out, "%llu request%s had no \"%s\": %s\n",
			              (unsigned long long)replay->without[i],
			              replay->without[i] == 1 ? "" : "s", replay->fields.names[i].data,
			              replay->without[i] == 1 ? "its key is empty" : "they share a key");
}

void report_notes(const struct report *report, struct buffer *out)
{
	const struct replay *replay = report->replay;
	uint64_t estimated = 0, untracked = 0, evictions = 0, errors = 0, openings_not_timed = 0;

	for (size_t s = 0; s < replay->scenario_count; s++) {
		const struct scenario *scenario = &replay->scenarios[s];

		evictions += scenario_evictions(scenario);
		errors += scenario->errors;
		for (size_t i = 0; i < scenario->tally_count; i++) {
			struct burst_stats stats = burst_stats(scenario->tallies[i].burst);

			estimated += stats.estimated;
			untracked += stats.untracked;
			if (scenario->tallies[i].phases)
				openings_not_timed += scenario->tallies[i].phases->untracked;
		}
	}
	const struct {
		uint64_t n;
		const char *one, *many;
	} notes[] = {
	    {report->malformed, "line was not a request", "lines were not requests"},
	    {replay->order.sorted, "request was out of order, and was sorted",
	     "requests were out of order, and were sorted"},
	    {replay->order.late,
	     "request was too late to be sorted, and counts at the latest time before it",
	     "requests were too late to be sorted, and count at the latest time before them"},
	    {replay->order.ahead,
	     "request was far ahead of those that followed, and counts at an earlier time",
	     "requests were far ahead of those that followed, and count at an earlier time"},
	    {replay->endings.invalid, "request had an invalid latency or outcome, which was ignored",
	     "requests had an invalid latency or outcome, which was ignored"},
	    {replay->endings.no_latency, "request had no latency, and ended at once",
	     "requests had no latency, and ended at once"},
	    {replay->endings.no_outcome, "request had a latency and no outcome, and succeeded",
	     "requests had a latency and no outcome, and succeeded"},
	    {replay->endings.no_end, "request had neither, and was never reported",
	     "requests had neither, and were never reported"},
	    {replay->ended_early, "request ended before its time, since too many were in flight",
	     "requests ended before their time, since too many were in flight"},
	    {replay->evicted_permits, "request lost its permit before it ended: raise --capacity",
	     "requests lost their permits before they ended: raise --capacity"},
	    {openings_not_timed,
	     "opening of a key is not in the times of phases, since 65,536 other keys were not closed",
	     "openings of keys are not in the times of phases, since 65,536 other keys were not "
	     "closed"},
	    {errors, "request could not be decided (cost or key too large)",
	     "requests could not be decided (cost or key too large)"},
	    {evictions, "key in use was evicted from a table: raise --capacity",
	     "keys in use were evicted from a table: raise --capacity"},
	    {estimated,
	     "key had too many requests in a period: worst periods may be up to one slot too high",
	     "keys had too many requests in a period: worst periods may be up to one slot too high"},
	    {untracked,
	     "request of a key beyond --capacity is in neither the worst period nor the number of keys",
	     "requests of keys beyond --capacity are in neither the worst period nor the number of "
	     "keys"},
	};

	buffer_add_text(out, "\n");
	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
		if (notes[i].n > 0)
			buffer_printf(out, "%llu %s\n", (unsigned long long)notes[i].n,
			              notes[i].n == 1 ? notes[i].one : notes[i].many);
	add_without(replay, out);
	add_missing(report, out);
}
