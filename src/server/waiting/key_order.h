/*
 * key_order.h: requests of one connection at one key take effect in the order in which they came.
 *
 * Steps in memory are done in the turn of their request, those at stores later, and a request may
 * need several calls to a store. So a request could overtake an earlier one of its connection,
 * which stores have not done yet. Such a request is suspended (suspend.h) and starts when the
 * earlier one is decided. It does so only if it shares a key with the earlier one and is not equal
 * to it: equal requests have no order that shows, and go on together, as they do in a pipeline for
 * one key.
 *
 * Requests of different connections, and those of one connection of HTTP/2, have no order. A
 * request that waits for its key because its sender said so may be overtaken: it does not take
 * part.
 *
 * Each client has a list of the works that stores have, or that wait here. A filter over all keys
 * of the list spares most requests a search. Without such works a request pays for one comparison.
 */
#ifndef SERVER_KEY_ORDER_H
#define SERVER_KEY_ORDER_H

#include "server/waiting/suspend.h"

/** Whether a work of the batch must wait for earlier works of its connection. */
bool key_order_must_wait(const struct key_order *keys, const struct work *work);

/** Before a suspended work starts. True: it waits, and starts when key_order_remove says so. */
bool key_order_enqueue(struct key_order *keys, struct suspended *suspended);
/** Stores have it now. */
void key_order_add(struct key_order *keys, struct suspended *suspended);
/** It is decided, or waits for a key: calls `start` for each work that need not wait any more. */
void key_order_remove(struct key_order *keys, struct suspended *suspended,
                      void (*start)(struct suspended *suspended));

#endif
