/*
 * reports.c: passes reports of permits between servers. A client may report the end of its request
 * to another server than the giver, the one that granted its permit. That server sends the report
 * to a store, where the giver fetches it and ends the permit.
 */
#include "server/stores/reports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "rules/model.h"
#include "server/requests/permit_text.h"
#include "server/requests/request_permit.h"

/* How much longer than its permit a report is stored, because clocks of servers differ. */
#define CLOCK_SKEW_NS (60 * NS_PER_S)

/* A report is this header and the permit's text. */
struct report_header {
	uint64_t latency_ns; /* in the byte order of this machine, as permits are */
	uint8_t outcome;
	uint8_t is_report; /* 1, or 0 for a refund */
	uint8_t reserved[6];
};

/* A report that is being sent to the giver of its permit. */
struct outgoing_report {
	struct exchange exchange; /* the first member */
	char giver[REPORTS_NAME_SIZE];
};

static void format_giver(uint64_t giver, char name[REPORTS_NAME_SIZE])
{
	snprintf(name, REPORTS_NAME_SIZE, "%016llx", (unsigned long long)giver);
}

int reports_open(struct reports *reports, const struct weir_table *table)
{
	static const char purpose[] = "weir giver of permits";
	const struct weir_limit_options options = {.rate = {1, 1, WEIR_UNIT_SECOND}};

	reports->giver = hash_mac(engine_secret(table), purpose, sizeof purpose).k0 | 1;
	format_giver(reports->giver, reports->name);
	return algo_limit_init(&reports->placeholder, &options, NULL); /* a call must have a limit */
}

void reports_set_context(struct decider *decider)
{
	bool has_store = store_clients_count(decider->store_clients) > 0;

	decider->context.own_server = decider->shared->reports.giver;
	decider->context.claim_store = has_store ? decider->shared->stores.items[0].store : NULL;
}

/* Calls the first store, which passes the reports of all servers. It stores them by their giver. */
static void submit_exchange(struct decider *decider, struct exchange *exchange,
                            const char *giver_name, void (*done)(struct store_operation *operation))
{
	struct store *store = decider->shared->stores.items[0].store;

	exchange->operation = (struct store_operation){
	    .step = {.store = store,
	             .limit = &decider->shared->reports.placeholder,
	             .at = decider->context.at,
	             .call = {.op = ALGO_EXCHANGE_REPORTS}},
	    .limit_name = giver_name, /* the call is about no limit */
	    .done = done,
	};
	store->kind->submit(decider->store_clients->by_store[store->index], &exchange->operation);
}

/* Sending reports */

/* Called when the store has the report, or failed: if it is lost, the giver counts a timeout. */
static void free_sent_report(struct store_operation *operation)
{
	struct outgoing_report *outgoing_report = (struct outgoing_report *)operation;

	exchange_free(&outgoing_report->exchange);
	free(outgoing_report);
}

/* Returns the report of a plan that has claimed a permit. The data is NULL if memory is short. */
static struct slice write_report(struct decider *decider, const struct plan *plan)
{
	const struct hash_key *own = engine_secret(decider->shared->table);
	struct report_header header = {.latency_ns = algo_op_reports(plan->op) ? plan->latency_ns : 0,
	                               .outcome = plan->outcome,
	                               .is_report = algo_op_reports(plan->op)};
	struct weir_permits permits;
	struct engine_names names;
	struct slice text;
	char *report;

	engine_fill_claimed_permits(plan, &permits, &names);
	text = permit_text_write(&permits, &names,
	                         permit_secrets_at(&decider->shared->permit_secrets, 0, own),
	                         &decider->arena);
	report = text.data ? arena_alloc(&decider->arena, sizeof header + text.len) : NULL;
	if (!report)
		return (struct slice){NULL, 0};
	memcpy(report, &header, sizeof header);
	memcpy(report + sizeof header, text.data, text.len);
	return (struct slice){report, sizeof header + text.len};
}

/* Called when a plan has claimed a permit of another server: sends that server a report. */
void reports_forward(void *context, const struct plan *plan)
{
	struct decider *decider = decider_of(context);
	struct slice report = write_report(decider, plan);
	struct outgoing_report *outgoing_report =
	    report.data ? calloc(1, sizeof *outgoing_report) : NULL;
	uint64_t until_ns = 0;

	if (!outgoing_report)
		return;
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].granted_by_other_server)
			until_ns = u64_max(until_ns, plan->steps[i].charge_ends_ns);
	format_giver(plan->granting_server, outgoing_report->giver);
	exchange_begin_report(&outgoing_report->exchange, report,
	                      sat_sub(until_ns, decider->context.at.now_ns) + CLOCK_SKEW_NS);
	submit_exchange(decider, &outgoing_report->exchange, outgoing_report->giver, free_sent_report);
}

/* Receiving reports */

/* Ends a permit that this server granted. The sender of a report has counted the outcome. */
static void end_reported_permit(struct decider *decider, struct slice report)
{
	struct report_header header;
	struct slice text;
	struct weir_permits permits;
	struct engine_names names;
	struct plan plan;

	if (report.len < sizeof header)
		return;
	memcpy(&header, report.data, sizeof header);
	text = (struct slice){report.data + sizeof header, report.len - sizeof header};
	if (!permit_read(decider, text, &permits, &names))
		return;
	if (engine_prepare_permits(decider->config->engine, &permits, &names, &decider->arena, &plan) !=
	    WEIR_OK)
		return;
	plan.outcome = header.outcome & 3; /* as wide as the field */
	plan.latency_ns = header.latency_ns;
	engine_settle(&decider->context, &plan, header.is_report != 0);
}

/* Handles the answer of the call that fetches reports. */
static void receive_reports(struct decider *decider)
{
	struct reports *reports = &decider->shared->reports;
	struct slice answer = {reports->exchange.answer.data, reports->exchange.answer.len}, report;
	size_t n = 0;

	if (reports->exchange.operation.status != WEIR_OK)
		return;
	for (; exchange_read_report(&answer, &report); n++)
		end_reported_permit(decider, report);
	if (n == EXCHANGE_REPORTS_MAX) /* there may be more: fetch again at once */
		reports->due_ns = 0;
}

static void on_reports_received(struct store_operation *operation)
{
	struct reports *reports =
	    (struct reports *)((char *)operation - offsetof(struct reports, exchange));

	reports->is_done = true;
	if (reports->loop)
		net_loop_wake(reports->loop);
}

/*
 * Whether this server grants permits that only it can end when another server gets the report:
 * those of limits whose state is here, and not at a store.
 */
static bool grants_reported_permits(const struct decider *decider)
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

/* Begins the periodic call that fetches reports on this server's permits. */
static void fetch_reports(struct decider *decider, uint64_t now_ns)
{
	struct reports *reports = &decider->shared->reports;
	uint64_t poll_ns = decider->config->rules->store_poll_ns;

	reports->due_ns = now_ns + poll_ns - poll_ns / 4;
	if (!grants_reported_permits(decider))
		return;
	reports->is_fetching = true;
	exchange_begin_fetch(&reports->exchange);
	submit_exchange(decider, &reports->exchange, reports->name, on_reports_received);
}

static void set_present_time(struct decider *decider)
{
	decider_read_clock(decider);
	reports_set_context(decider);
}

/*
 * Handles a fetch that has ended, and begins the next one when it is due. Reads the clock only when
 * there is something to do: this is called in each iteration. The first worker fetches for all.
 * Returns 0 while it fetches, since the end of a fetch wakes the loop.
 */
uint64_t reports_tick(struct decider *decider)
{
	struct reports *reports = &decider->shared->reports;
	uint64_t now_ns;

	if (__builtin_expect(decider->index > 0 || store_clients_count(decider->store_clients) == 0, 1))
		return 0;
	if (reports->is_done) {
		reports->is_done = reports->is_fetching = false;
		set_present_time(decider);
		receive_reports(decider);
	}
	if (reports->is_fetching)
		return 0;
	now_ns = os_monotonic_ns();
	if (reports->due_ns <= now_ns &&
	    !atomic_load_explicit(&decider->shared->stopping, memory_order_relaxed)) {
		set_present_time(decider);
		fetch_reports(decider, now_ns);
	}
	return reports->is_fetching ? 0 : reports->due_ns;
}

void reports_close(struct reports *reports)
{
	exchange_free(&reports->exchange);
}
