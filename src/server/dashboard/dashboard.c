/*
 * dashboard.c: answers a browser with the page on which an operator sees what the server does. The
 * page is the same for all users but for a list of what its user may do, by which it shows or hides
 * its buttons. The server checks each request of the page as any other.
 */
#include "server/dashboard/dashboard.h"

#include "rules/model.h"
#include "server/access/users.h"
#include "server/requests/work_error.h"
#include "dashboard_page.h" /* made by embed.py */

/* Appends the permissions of the sender: all without users, since others can't read the page. */
static void add_permissions(const struct decider *decider, const struct work *work,
                            struct buffer *out)
{
	static const struct {
		unsigned bit;
		const char *word;
	} permissions[] = {
	    {RULES_MAY_ASK, "ask"}, {RULES_MAY_CHANGE, " change"}, {RULES_MAY_ADMIN, " admin"}};
	const struct users *users = decider->config->users;
	unsigned sender = work->plan.sender;

	for (size_t i = 0; i < sizeof permissions / sizeof *permissions; i++)
		if (!users || (sender > 0 && users->items[sender - 1].rule->may & permissions[i].bit))
			buffer_add_text(out, permissions[i].word);
}

void dashboard_finish(struct decider *decider, struct work *work, struct reply *reply)
{
	struct buffer *page = &decider->pages.by_kind[REQUEST_DASHBOARD].text;

	page->len = 0;
	buffer_add(page, (const char *)page_before, sizeof page_before);
	add_permissions(decider, work, page);
	buffer_add(page, (const char *)page_behind, sizeof page_behind);
	work_set_status(work, page->failed ? WEIR_ENOMEM : WEIR_OK);
	reply->body = (struct slice){page->data, page->len};
	reply->policy = PAGE_POLICY;
	if (page->failed)
		buffer_free(page);
}
