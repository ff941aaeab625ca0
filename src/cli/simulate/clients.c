/*
 * clients.c: plays clients that retry against a backend that is slow for a while: once without
 * limits, and once for each configuration to try.
 */
#include "cli/simulate/clients.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/time/timestamp.h"
#include "rules/rate.h"
#include "simulate/closed_loop/gate.h"

#define CLIENTS_MAX    100000
#define ATTEMPTS_MAX   100
#define WORKERS_MAX    10000
#define TIME_MAX_NS    (3600 * NS_PER_S)
#define OVERLOAD_MAX   (24 * 3600 * NS_PER_S)
#define FACTOR_MAX     1000
#define STRAIN_DEFAULT 0.1
#define STRAIN_MAX     10

static int refuse_flag(struct weir_error *error, const char *flag, const char *expected,
                       const char *found)
{
	return error_set(error, WEIR_EINVAL, "--%s: expected %s, found '%.40s'", flag, expected, found);
}

/* Reads a time, also 0 without a unit. */
static bool read_time(struct slice text, uint64_t *ns)
{
	*ns = 0;
	return slice_equal(text, slice_of("0")) || duration_parse(text, ns);
}

static int read_count(const char *flag, const char *text, uint64_t max, unsigned *out,
                      struct weir_error *error)
{
	char expected[64];
	uint64_t n;

	snprintf(expected, sizeof expected, "a number from 1 to %llu", (unsigned long long)max);
	if (!parse_u64(slice_of(text), &n) || n < 1 || n > max)
		return refuse_flag(error, flag, expected, text);
	*out = (unsigned)n;
	return WEIR_OK;
}

static int read_flag_time(const char *flag, const char *text, uint64_t min_ns, uint64_t *out,
                          struct weir_error *error)
{
	if (!read_time(slice_of(text), out) || *out < min_ns || *out > TIME_MAX_NS)
		return refuse_flag(error, flag,
		                   min_ns ? "a time from 1ms to 1h, such as 500ms"
		                          : "a time up to 1h, such as 500ms",
		                   text);
	return WEIR_OK;
}

/* Reads WORKERS,SERVICE_TIME or WORKERS,SERVICE_TIME,STRAIN. */
static int read_backend(struct experiment *experiment, const char *text, struct weir_error *error)
{
	struct slice rest = slice_of(text), workers = slice_cut(&rest, ','),
	             service = slice_cut(&rest, ',');
	uint64_t n;

	experiment->strain = STRAIN_DEFAULT;
	if (!parse_u64(workers, &n) || n < 1 || n > WORKERS_MAX ||
	    !read_time(service, &experiment->service_ns) || experiment->service_ns == 0 ||
	    experiment->service_ns > TIME_MAX_NS ||
	    (rest.len > 0 && (!parse_decimal(rest, &experiment->strain) || experiment->strain < 0 ||
	                      experiment->strain > STRAIN_MAX)))
		return refuse_flag(
		    error, "backend",
		    "WORKERS,SERVICE_TIME or WORKERS,SERVICE_TIME,STRAIN, with 1 to 10000 workers, a "
		    "time from 1ms to 1h, and a strain from 0 to 10",
		    text);
	experiment->workers = (unsigned)n;
	return WEIR_OK;
}

/* Reads FACTOR or FACTOR,TIME. */
static int read_overload(struct experiment *experiment, const char *text, struct weir_error *error)
{
	struct slice rest = slice_of(text), factor = slice_cut(&rest, ',');

	experiment->overload_ns = 0;
	if (!parse_decimal(factor, &experiment->slow_factor) || experiment->slow_factor < 1 ||
	    experiment->slow_factor > FACTOR_MAX ||
	    (rest.len > 0 && (!duration_parse(rest, &experiment->overload_ns) ||
	                      experiment->overload_ns == 0 || experiment->overload_ns > OVERLOAD_MAX)))
		return refuse_flag(
		    error, "overload",
		    "FACTOR or FACTOR,TIME, with a factor from 1 to 1000 and a time up to 1d", text);
	return WEIR_OK;
}

static int check_attributes(const struct clients *clients, struct weir_error *error)
{
	for (size_t i = 0; i < clients->attribute_count; i++) {
		const char *equals = strchr(clients->attributes[i], '=');

		if (!equals || equals == clients->attributes[i])
			return refuse_flag(error, "attr", "NAME=VALUE", clients->attributes[i]);
	}
	return WEIR_OK;
}

int clients_read(struct clients *clients, struct weir_error *error)
{
	struct experiment *experiment = &clients->experiment;
	const char *seed = clients->seed ?: CLIENTS_SEED;
	int status =
	    read_count("clients", clients->count, CLIENTS_MAX, &experiment->clients, error) ?:
	    read_count("attempts", clients->attempts ?: CLIENTS_ATTEMPTS, ATTEMPTS_MAX,
	               &experiment->attempts, error) ?:
	    read_flag_time("timeout", clients->timeout ?: CLIENTS_TIMEOUT, NS_PER_MS,
	                   &experiment->timeout_ns, error) ?:
	    read_flag_time("think", clients->think ?: CLIENTS_THINK, 0, &experiment->think_ns, error) ?:
	    read_flag_time("backoff", clients->backoff ?: CLIENTS_BACKOFF, 0, &experiment->backoff_ns,
	                   error) ?:
	    read_backend(experiment, clients->backend ?: CLIENTS_BACKEND, error) ?:
	    read_overload(experiment, clients->overload ?: CLIENTS_OVERLOAD, error) ?:
	    check_attributes(clients, error);

	if (status == WEIR_OK && !parse_u64(slice_of(seed), &experiment->seed))
		status = refuse_flag(error, "seed", "a whole number", seed);
	if (status == WEIR_OK)
		experiment_plan(experiment);
	return status;
}

/* Sets the values that all requests have, one for each field. */
static void set_values(const struct clients *clients, const struct fields *fields,
                       struct slice values[FORMAT_FIELDS_MAX])
{
	for (size_t i = 0; i < clients->attribute_count; i++) {
		struct slice value = slice_of(clients->attributes[i]), name = slice_cut(&value, '=');

		for (size_t f = 0; f < fields->count; f++)
			if (slice_equal(fields->names[f], name))
				values[f] = value;
	}
}

int clients_run(struct clients *clients, struct replay *replay, const char *name,
                struct progress *progress, struct weir_error *error)
{
	size_t count = replay->scenario_count + 1;
	struct slice values[FORMAT_FIELDS_MAX] = {0};
	int status = WEIR_OK;

	clients->results = calloc(count, sizeof *clients->results);
	clients->configurations = calloc(count, sizeof *clients->configurations);
	if (!clients->results || !clients->configurations)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	set_values(clients, &replay->fields, values);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		struct scenario *scenario = i > 0 ? &replay->scenarios[i - 1] : NULL;
		struct experiment_gate gate = {scenario, &replay->fields, values, progress_show, progress};

		if (scenario)
			scenario_bind(scenario, &replay->fields);
		clients->configurations[i] =
		    (struct report_configuration){!scenario ? "without limits"
		                                  : name    ? name
		                                            : scenario->tallies[0].limit->name,
		                                  &clients->results[i]};
		status = experiment_run(&clients->experiment, &gate, &clients->results[i], error);
	}
	clients->report = (struct report_clients){&clients->experiment, clients->configurations, count};
	for (size_t part = 0; part < PARTS; part++)
		replay->requests += clients->results[0].parts[part].work.requests;
	replay->first_ns = GATE_EPOCH_NS;
	replay->last_ns = GATE_EPOCH_NS + experiment_begin_ns(&clients->experiment, PARTS);
	return status;
}

void clients_close(struct clients *clients)
{
	free(clients->results);
	free(clients->configurations);
	free(clients->attributes);
}
