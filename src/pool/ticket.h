/* ticket.h: the pool's end of a ticket. NULL stands for a task without a ticket. */
#ifndef POOL_TICKET_H
#define POOL_TICKET_H

#include <weir/weir.h>

/** Held by the caller until it is closed, and by the pool until it is settled; NULL: no memory. */
weir_pool_ticket *ticket_new(void);

/** Tells the holder how the task ended. */
void ticket_settle(weir_pool_ticket *ticket, int status, void *result);

#endif
