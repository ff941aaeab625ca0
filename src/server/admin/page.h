/*
 * page.h: renders long answers that are the same for all clients: metrics, limits, denied keys,
 * status.
 *
 * Many clients may ask at once, so a worker renders a page once for all requests of an intake.
 */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include "server/requests/decider.h"

static inline bool page_is_requested(const struct request *request)
{
	return 1u << request->kind & REQUEST_PAGE_KINDS;
}

/** About how many bytes the page takes. */
size_t page_size(const struct pages *pages, enum request_kind kind);

/** Answers a request for a page, or sets ENOMEM. */
void page_finish(struct decider *decider, struct work *work, struct reply *reply);

void page_free_all(struct pages *pages);

#endif
