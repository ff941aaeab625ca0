/*
 * history_answer.c: answers /v1/stats with the points of the history (history.h) that the request
 * asks for.
 */
#include "server/history/history_answer.h"

#include "rules/rate.h"
#include "server/requests/work_error.h"

/* A larger answer, of many busy limits, leaves its memory to others before the next one. */
#define KEPT_MAX ((size_t)1 << 20)

void history_answer_finish(struct decider *decider, struct work *work, struct reply *reply)
{
	struct slice since = work->full_request->since;
	uint64_t since_ns = 0;
	struct buffer *text = &decider->pages.by_kind[REQUEST_STATS].text;

	if (since.len > 0 && !since_parse(since, decider->context.at.wall_ns, &since_ns)) {
		work_fail_name(decider, work, WEIR_EINVAL, SINCE_EXPECTED, since);
		return;
	}
	if (text->capacity > KEPT_MAX)
		buffer_free(text);
	text->len = 0;
	history_render(decider->shared->history, since_ns / NS_PER_S, text);
	work_set_status(work, text->failed ? WEIR_ENOMEM : WEIR_OK);
	reply->body = (struct slice){text->data, text->len};
	if (text->failed)
		buffer_free(text);
}
