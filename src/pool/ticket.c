#include "pool/ticket.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/number.h"
#include "base/os.h"
#include "base/until.h"

struct weir_pool_ticket {
	pthread_mutex_t lock;
	pthread_cond_t settled;
	void *result;
	int status; /* ETIMEDOUT until it is settled */
	unsigned holders;
};

weir_pool_ticket *ticket_new(void)
{
	weir_pool_ticket *ticket = calloc(1, sizeof *ticket);

	if (!ticket)
		return NULL;
	pthread_mutex_init(&ticket->lock, NULL);
	until_init(&ticket->settled);
	ticket->status = WEIR_ETIMEDOUT;
	ticket->holders = 2;
	return ticket;
}

/* Under the lock, which the last holder frees. */
static void let_go(weir_pool_ticket *ticket)
{
	unsigned holders = --ticket->holders;

	pthread_mutex_unlock(&ticket->lock);
	if (holders > 0)
		return;
	pthread_cond_destroy(&ticket->settled);
	pthread_mutex_destroy(&ticket->lock);
	free(ticket);
}

void ticket_settle(weir_pool_ticket *ticket, int status, void *result)
{
	if (!ticket)
		return;
	pthread_mutex_lock(&ticket->lock);
	ticket->status = status;
	ticket->result = result;
	pthread_cond_broadcast(&ticket->settled);
	let_go(ticket);
}

void weir_pool_ticket_close(weir_pool_ticket *ticket)
{
	if (!ticket)
		return;
	pthread_mutex_lock(&ticket->lock);
	let_go(ticket);
}

int weir_pool_wait(weir_pool_ticket *ticket, uint64_t timeout_ns, void **result)
{
	uint64_t until_ns = sat_add(os_monotonic_ns(), timeout_ns);
	int status;

	pthread_mutex_lock(&ticket->lock);
	while (ticket->status == WEIR_ETIMEDOUT &&
	       until_wait(&ticket->settled, &ticket->lock, until_ns) != ETIMEDOUT)
		;
	status = ticket->status;
	if (status == WEIR_OK && result)
		*result = ticket->result;
	pthread_mutex_unlock(&ticket->lock);
	return status;
}
