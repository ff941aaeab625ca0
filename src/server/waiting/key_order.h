/*
 * key_order.h: makes requests of one connection that share a key take effect in the order of
 * arrival.
 *
 * Steps in memory are done at once, steps at stores later, and a request may need several calls to
 * a store. So a request could overtake an earlier request of its connection that is still at a
 * store. Such a request is suspended (suspend.h), and starts when the earlier one is decided. This
 * happens only if the two share a key and are not equal: nobody can tell the order of equal
 * requests, so they run together, like a pipeline for one key.
 *
 * Requests of different connections, and those of one connection of HTTP/2, have no order. A
 * request that waits for a key at its sender's wish may be overtaken, and takes no part.
 */
#ifndef SERVER_KEY_ORDER_H
#define SERVER_KEY_ORDER_H

#include "server/waiting/suspend.h"

/** Whether a work of the intake must wait for earlier works of its connection. */
bool key_order_must_wait(const struct key_order *key_order, const struct work *work);

/**
 * Called before a suspended work starts. Returns true if it must wait; key_order_remove starts it
 * later.
 */
bool key_order_enqueue(struct key_order *key_order, struct suspended *suspended);
/** Adds a work that is at stores now. */
void key_order_add(struct key_order *key_order, struct suspended *suspended);
/**
 * Removes a work that is decided or waits for a key. Calls `start` for each work that waited for it
 * alone.
 */
void key_order_remove(struct key_order *key_order, struct suspended *suspended,
                      void (*start)(struct suspended *suspended));

#endif
