/*
 * caller.h: lends store clients to blocking calls, by which these reach a remote store.
 *
 * libweir knows no such store by name; libweir_redis gives a table a caller.
 */
#ifndef STORE_CALLER_H
#define STORE_CALLER_H

#include "store/store.h"

/* A store client that is lent to one call. */
struct store_loan {
	struct store_client *client;
};

/* Any thread may use it. */
struct store_caller {
	struct store *store; /* its `index` is 0 */
	const char *name;    /* the store's URL without user and password */
	/** Returns NULL if there is no memory. */
	struct store_loan *(*borrow)(struct store_caller *caller);
	/** Blocks until *pending, which the `done` of the client's operations count down, is 0. */
	void (*run)(struct store_loan *loan, const size_t *pending);
	/** When the client has no operations any more. */
	void (*give_back)(struct store_caller *caller, struct store_loan *loan);
	void (*close)(struct store_caller *caller);
};

/**
 * In api/remote.c. Lets the limits of a new table count at the caller's store, and closes the
 * caller with the table. `nodes` servers share the quota of a local limit; 0: as the rule file
 * says. Returns 0, or ENOMEM: the table has not taken the caller.
 */
WEIR_API int weir_private_table_call(struct weir_table *table, struct store_caller *caller,
                                      uint64_t nodes);
/** That caller, or NULL. */
WEIR_API struct store_caller *weir_private_table_caller(const struct weir_table *table);

#endif
