#include "overload.h"

#include <stdlib.h>
#include <string.h>

static struct {
	struct backend *backend;
	uint64_t start_ns;
	const struct overload_key *key;
	uint64_t most;
} world;

static bool allows(void *context, struct backend_attempt *attempt)
{
	const struct overload_key *of = world.key;
	struct weir_ask ask = {.priority = attempt->priority,
	                       .now_ns = world.start_ns + attempt->now_ns,
	                       .permit = &attempt->permit};
	struct weir_decision d;

	(void)context;
	if (weir_ask(of->table, of->limit, (struct weir_key){of->key, strlen(of->key)}, &ask, &d) != 0)
		abort();
	if (d.quota > world.most)
		world.most = d.quota;
	return d.allowed;
}

/* A permit may have timed out, or a restart may have ended it. */
static void report(void *context, const struct weir_permit *permit, enum weir_outcome outcome,
                   uint64_t now_ns)
{
	const struct overload_key *of = world.key;
	int status =
	    weir_report(of->table, of->limit, (struct weir_key){of->key, strlen(of->key)}, permit,
	                &(struct weir_report){.outcome = outcome, .now_ns = world.start_ns + now_ns});

	(void)context;
	if (status != 0 && status != WEIR_ENOTFOUND)
		abort();
}

static void play_until(uint64_t until_ns)
{
	if (backend_run_until(world.backend, until_ns) != BACKEND_OK)
		abort();
}

void overload_begin(const struct backend_options *options, uint64_t now_ns)
{
	backend_close(world.backend);
	world.backend = NULL;
	world.start_ns = now_ns;
	if (!options)
		return;
	world.backend = backend_open(options, (struct backend_limit){NULL, allows, report, NULL});
	if (!world.backend)
		abort();
}

struct overload_result overload_play(const struct overload_key *key, struct backend_demand demand,
                                     uint64_t now_ns, uint64_t ns)
{
	struct backend_work before, after;
	uint64_t from_ns = now_ns - world.start_ns;

	world.key = key;
	play_until(from_ns);
	world.most = 0;
	before = backend_work(world.backend);
	backend_set_demand(world.backend, demand);
	play_until(from_ns + ns);
	after = backend_work(world.backend);
	backend_set_demand(world.backend, (struct backend_demand){0});
	return (struct overload_result){world.most,
	                                {after.asked - before.asked, after.done - before.done}};
}
