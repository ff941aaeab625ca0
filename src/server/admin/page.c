/*
 * page.c: renders long answers that are the same for all clients: /metrics, the lists of limits and
 * of denied keys, the status of the server, and the pages of Koala. A worker renders a page once
 * for all requests that it has read together (an intake).
 */
#include "server/admin/page.h"

#include "engine/engine.h"
#include "server/admin/limit_list.h"
#include "server/requests/koala.h"
#include "server/requests/work_error.h"
#include "server/start/status_page.h"

/* The assumed size of a page that was never rendered. */
#define ASSUMED_SIZE ((size_t)16 << 10)

_Static_assert(TOP_SHOWN_MAX == REQUEST_TOP_MAX, "any list asked for is the beginning of the page");

/*
 * Collects the counters of each Redis that this worker is a client of. After reloads several stores
 * may be at the same Redis: their counters are added. Returns false if memory is short.
 */
static bool collect_store_metrics(struct decider *decider, struct metrics_now *now)
{
	size_t n = store_clients_count(decider->store_clients);
	struct metrics_store *found = arena_array(&decider->arena, n, sizeof *found);

	if (!found)
		return false;
	now->stores = found;
	for (size_t i = 0; i < n; i++) {
		const struct store *store = decider->store_clients->by_store[i]->store;
		const char *name = redis_store_name(store);
		struct redis_stats stats;
		size_t same = 0; /* index of the same Redis in `found` */

		redis_store_stats(store, &stats);
		while (same < now->store_count && strcmp(found[same].name, name) != 0)
			same++;
		if (same < now->store_count)
			redis_stats_add(&found[same].stats, &stats);
		else
			found[now->store_count++] = (struct metrics_store){name, stats};
	}
	return true;
}

/* Counts the keys of breakers in each phase (open, …). Returns false if memory is short. */
static bool count_keys_in_phases(struct decider *decider, struct metrics_now *now)
{
	const struct weir_engine *engine = decider->config->engine;
	size_t n = engine_limit_count(engine);
	struct metrics_phases *found = arena_array(&decider->arena, n, sizeof *found);

	for (size_t i = 0; found && i < n; i++) {
		const weir_limit *limit = engine_limit_at(engine, i);
		struct metrics_phases *phases = &found[now->phases_count];

		if (!algo_has_phases(&limit->algo))
			continue;
		phases->limit = decider->config->limit_counters[i];
		store_count_phases(decider->shared->table->store, &limit->algo, decider->context.at.now_ns,
		                   phases->counts);
		now->phases_count++;
	}
	now->phases = found;
	return found;
}

/* Returns 0 or ENOMEM, as all functions that render a page. */
static int render_metrics(struct decider *decider, struct buffer *out)
{
	struct worker_shared *shared = decider->shared;
	struct metrics_now now = {
	    .connections =
	        atomic_load_explicit(&shared->conn_limit.open_count, memory_order_relaxed) +
	        atomic_load_explicit(&shared->conn_limit.reserve_count, memory_order_relaxed),
	    .connections_reserved =
	        atomic_load_explicit(&shared->conn_limit.reserve_count, memory_order_relaxed),
	    .connections_max = atomic_load_explicit(&shared->conn_limit.max, memory_order_relaxed),
	    .connections_rejected =
	        atomic_load_explicit(&shared->conn_limit.rejected_count, memory_order_relaxed),
	    .log_lines_dropped = log_dropped(shared->log),
	    .denials_lost = denial_file_lost(shared->denial_file),
	    .event_streams = events_followers(shared->events),
	    .usage = os_usage(),
	};

	if (!collect_store_metrics(decider, &now) || !count_keys_in_phases(decider, &now))
		return WEIR_ENOMEM;
	weir_table_stats(shared->table, decider->context.at.now_ns, &now.table);
	metrics_render(shared->metrics, &now, out);
	return WEIR_OK;
}

static int render_limits(struct decider *decider, struct buffer *out)
{
	return limit_list_render(decider, out);
}

static int render_top(struct decider *decider, struct buffer *out)
{
	return top_render(decider->shared->top, decider->context.at.now_ns, &decider->arena, out,
	                  &decider->pages.top_ends);
}

static int (*const renderers[REQUEST_KIND_COUNT])(struct decider *decider, struct buffer *out) = {
    [REQUEST_METRICS] = render_metrics,
    [REQUEST_LIMITS] = render_limits,
    [REQUEST_TOP] = render_top,
    [REQUEST_POLICY] = koala_list_rules,
    [REQUEST_COUNTERS] = koala_list_counters,
    [REQUEST_STATUS] = status_page_render,
};

size_t page_size(const struct pages *pages, enum request_kind kind)
{
	return u64_max(pages->by_kind[kind].text.len, ASSUMED_SIZE);
}

/* Renders the page, unless this intake has rendered it already. */
static int render_page(struct decider *decider, enum request_kind kind)
{
	struct page *page = &decider->pages.by_kind[kind];
	int status;

	if (page->intake_number == decider->pages.intake_number)
		return WEIR_OK;
	page->text.len = 0;
	status = renderers[kind](decider, &page->text);
	if (status == WEIR_OK && page->text.failed)
		status = WEIR_ENOMEM;
	if (status == WEIR_OK)
		page->intake_number = decider->pages.intake_number;
	else
		buffer_free(&page->text);
	return status;
}

/* A page of Koala has a line for each rule, and a request may name a rule to get its line alone. */
static bool asks_for_one_rule(const struct work *work)
{
	bool is_page_of_koala = work->kind == REQUEST_POLICY || work->kind == REQUEST_COUNTERS;

	return is_page_of_koala && work->full_request->name.len > 0;
}

/* Answers with the page, or with the part of it that the request asks for. */
void page_finish(struct decider *decider, struct work *work, struct reply *reply)
{
	enum request_kind kind = work->kind;
	const struct buffer *text = &decider->pages.by_kind[kind].text;
	int status = render_page(decider, kind);
	struct slice body = {text->data, text->len};

	if (status == WEIR_OK && kind == REQUEST_TOP) {
		body = top_first(body, &decider->pages.top_ends, work->full_request->top_count,
		                 &decider->arena);
		status = body.data ? WEIR_OK : WEIR_ENOMEM;
	} else if (status == WEIR_OK && asks_for_one_rule(work)) {
		body = koala_find_line(decider, body, work->full_request->name);
		status = body.data ? WEIR_OK : WEIR_ENOTFOUND;
	}
	if (status == WEIR_ENOTFOUND)
		work_fail_name(decider, work, status, "the name of a rule", work->full_request->name);
	else
		work_set_status(work, status);
	reply->body = body;
}

void page_free_all(struct pages *pages)
{
	for (size_t i = 0; i < REQUEST_KIND_COUNT; i++)
		buffer_free(&pages->by_kind[i].text);
}
