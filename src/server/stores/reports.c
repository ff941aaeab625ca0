#include "server/stores/reports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "rules/model.h"
#include "server/requests/permit_text.h"
#include "server/requests/request_permit.h"

/* A report waits for its giver as long as its permit lasts, and so much longer for clocks that differ. */
#define CLOCKS_NS (60 * NS_PER_S)

/* Before the permit's text. */
struct report_head {
	uint64_t latency_ns; /* in the order of bytes of this machine, as permits are */
	uint8_t outcome;
	uint8_t reports; /* 0: a refund */
	uint8_t reserved[6];
};

/* A report on its way to its giver. */
struct told {
	struct exchange exchange; /* first */
	char giver[REPORTS_NAME_SIZE];
};

static void name_giver(uint64_t giver, char name[REPORTS_NAME_SIZE])
{
	snprintf(name, REPORTS_NAME_SIZE, "%016llx", (unsigned long long)giver);
}

int reports_open(struct reports *reports, const struct weir_table *table)
{
	static const char purpose[] = "weir giver of permits";
	const struct weir_limit_options options = {.rate = {1, 1, WEIR_UNIT_SECOND}};

	reports->giver = hash_mac(engine_secret(table), purpose, sizeof purpose).k0 | 1;
	name_giver(reports->giver, reports->name);
	return algo_limit_init(&reports->limit, &options, NULL);
}

void reports_begin(struct decider *decider)
{
	bool shares = store_clients_count(decider->store_clients) > 0;

	decider->context.giver = decider->shared->reports.giver;
	decider->context.claims = shares ? decider->shared->stores.items[0].store : NULL;
}

static void submit(struct decider *decider, struct exchange *exchange, const char *name,
                   void (*done)(struct store_operation *operation))
{
	struct store *store = decider->shared->stores.items[0].store;

	exchange->operation = (struct store_operation){
	    .step = {.store = store,
	             .limit = &decider->shared->reports.limit,
	             .at = decider->context.at,
	             .call = {.op = ALGO_EXCHANGE_REPORTS}},
	    .limit_name = name,
	    .done = done,
	};
	store->kind->submit(decider->store_clients->by_store[store->index], &exchange->operation);
}

/* Telling */

/* Whatever became of it: if it is lost, the giver counts a timeout. */
static void told_done(struct store_operation *operation)
{
	struct told *told = (struct told *)operation;

	exchange_free(&told->exchange);
	free(told);
}

/* NULL in data: no memory. */
static struct slice write_report(struct decider *decider, const struct plan *plan)
{
	const struct hash_key *own = engine_secret(decider->shared->table);
	struct report_head head = {.latency_ns = algo_op_reports(plan->op) ? plan->latency_ns : 0,
	                           .outcome = plan->outcome,
	                           .reports = algo_op_reports(plan->op)};
	struct weir_permits permits;
	struct engine_names names;
	struct slice text;
	char *report;

	engine_claimed(plan, &permits, &names);
	text = permit_text_write(&permits, &names, secrets_at(&decider->shared->secrets, 0, own),
	                         &decider->arena);
	report = text.data ? arena_alloc(&decider->arena, sizeof head + text.len) : NULL;
	if (!report)
		return (struct slice){NULL, 0};
	memcpy(report, &head, sizeof head);
	memcpy(report + sizeof head, text.data, text.len);
	return (struct slice){report, sizeof head + text.len};
}

void reports_claimed(void *context, const struct plan *plan)
{
	struct decider *decider = decider_of(context);
	struct slice report = write_report(decider, plan);
	struct told *told = report.data ? calloc(1, sizeof *told) : NULL;
	uint64_t until_ns = 0;

	if (!told)
		return;
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].foreign)
			until_ns = u64_max(until_ns, plan->steps[i].until_ns);
	name_giver(plan->giver, told->giver);
	exchange_send_report(&told->exchange, report,
	                     sat_sub(until_ns, decider->context.at.now_ns) + CLOCKS_NS);
	submit(decider, &told->exchange, told->giver, told_done);
}

/* Hearing */

static void settle(struct decider *decider, struct slice report)
{
	struct report_head head;
	struct slice text = {report.data + sizeof head, report.len - sizeof head};
	struct weir_permits permits;
	struct engine_names names;
	struct plan plan;

	if (report.len < sizeof head || !permit_read(decider, text, &permits, &names))
		return;
	memcpy(&head, report.data, sizeof head);
	if (engine_prepare_permits(decider->config->engine, &permits, &names, &decider->arena, &plan) !=
	    WEIR_OK)
		return;
	plan.outcome = head.outcome & 3;
	plan.latency_ns = head.latency_ns;
	engine_settle(&decider->context, &plan, head.reports != 0);
}

static void hear(struct decider *decider)
{
	struct reports *reports = &decider->shared->reports;
	struct slice heard = {reports->exchange.answer.data, reports->exchange.answer.len}, report;
	size_t n = 0;

	if (reports->exchange.operation.status != WEIR_OK)
		return;
	for (; exchange_next_report(&heard, &report); n++)
		settle(decider, report);
	if (n == EXCHANGE_REPORTS_MAX) /* there may be more */
		reports->due_ns = 0;
}

static void heard_done(struct store_operation *operation)
{
	struct reports *reports =
	    (struct reports *)((char *)operation - offsetof(struct reports, exchange));

	reports->is_done = true;
	if (reports->loop)
		net_loop_wake(reports->loop);
}

/* Whether any permit of this server may be reported elsewhere. */
static bool gives(const struct decider *decider)
{
	const struct weir_engine *engine = decider->config->engine;
	const struct weir_table *table = decider->shared->table;

	for (size_t i = 0; i < engine_limit_count(engine); i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);

		if (algo_is_reported(&limit->algo) && !engine_remote_store(table, limit))
			return true;
	}
	return false;
}

static void ask(struct decider *decider, uint64_t now_ns)
{
	struct reports *reports = &decider->shared->reports;
	uint64_t poll_ns = decider->config->rules->store_poll_ns;

	reports->due_ns = now_ns + poll_ns - poll_ns / 4;
	if (!gives(decider))
		return;
	reports->is_asking = true;
	exchange_take_reports(&reports->exchange);
	submit(decider, &reports->exchange, reports->name, heard_done);
}

uint64_t reports_tick(struct decider *decider)
{
	struct reports *reports = &decider->shared->reports;
	uint64_t now_ns;

	if (__builtin_expect(decider->index > 0 || store_clients_count(decider->store_clients) == 0, 1))
		return 0;
	now_ns = os_monotonic_ns();
	decider_read_clock(decider);
	reports_begin(decider);
	if (reports->is_done) {
		reports->is_done = reports->is_asking = false;
		hear(decider);
	}
	if (!reports->is_asking && reports->due_ns <= now_ns &&
	    !atomic_load_explicit(&decider->shared->stopping, memory_order_relaxed))
		ask(decider, now_ns);
	return reports->is_asking ? 0 : reports->due_ns;
}

void reports_close(struct reports *reports)
{
	exchange_free(&reports->exchange);
}
