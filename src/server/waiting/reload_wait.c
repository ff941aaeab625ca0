/*
 * reload_wait.c: suspends a request for a reload until the server's thread has read the files. That
 * thread then wakes all loops.
 */
#include "server/waiting/reload_wait.h"

#include "server/requests/work_error.h"

/* Nothing is due: only the end of the reload resumes the work. */
static void wait_for_reload(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	(void)now_ns;
	pending_reschedule(pending, unanswered, PENDING_NEVER);
}

/* Called when the client is gone or the server stops. The reload itself goes on. */
static void cancel_wait(struct pending *pending, struct unanswered *unanswered)
{
	struct suspended *suspended = (struct suspended *)unanswered;

	(void)pending;
	list_remove(&suspended->waiting->reloads, &suspended->node);
}

static const struct unanswered_kind waits_for_reload = {wait_for_reload, cancel_wait};
static const struct unanswered_owner reload_owner = {NULL, suspend_release};

bool reload_wait_begin(struct waiting *waiting, struct work *work)
{
	struct suspended *suspended = suspend_work(waiting, work, &waits_for_reload, &reload_owner);

	if (!suspended) {
		work_set_status(work, WEIR_ENOMEM);
		return false;
	}
	suspended->reload_number = reload_requests_ask(&waiting->decider->shared->reload_requests);
	list_append(&waiting->reloads, &suspended->node);
	return true;
}

void reload_wait_run(struct waiting *waiting)
{
	struct reload_requests *requests = &waiting->decider->shared->reload_requests;
	struct reload_result result;
	struct suspended *suspended;

	/* The list is in the order of the numbers. */
	while ((suspended = list_of(waiting->reloads.first, struct suspended, node)) &&
	       reload_requests_is_done(requests, suspended->reload_number, &result)) {
		struct reply reply = {.body = slice_of(result.restart_needed)};

		list_remove(&waiting->reloads, &suspended->node);
		if (*result.message)
			work_fail(waiting->decider, &suspended->work, WEIR_EINVAL, slice_of(result.message));
		pending_answer_suspended(&waiting->pending, &suspended->unanswered, &suspended->work,
		                         &reply);
		arena_reset(&waiting->decider->arena);
	}
}
