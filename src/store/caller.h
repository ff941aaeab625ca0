/*
 * caller.h: lends store clients to blocking calls of the library, so that these reach a remote
 * store.
 *
 * libweir has no remote store of its own: libweir_redis gives a table a caller.
 */
#ifndef STORE_CALLER_H
#define STORE_CALLER_H

#include "store/store.h"

/* A store client that is lent to one blocking call. */
struct store_loan {
	struct store_client *client;
};

/* Lends clients. Any thread may use it. */
struct store_caller {
	struct store *store; /* its `index` is 0 */
	const char *name;    /* the store's URL without user and password */
	/** Lends a client. Returns NULL if there is no memory. */
	struct store_loan *(*borrow)(struct store_caller *caller);
	/** Runs the client until *pending is 0. The `done` functions of its operations decrease it. */
	void (*run)(struct store_loan *loan, const size_t *pending);
	/** Ends a loan. The client has no operations any more. */
	void (*give_back)(struct store_caller *caller, struct store_loan *loan);
	void (*close)(struct store_caller *caller);
};

/**
 * Lets the limits of a new table count at the caller's store. The table owns the caller from then
 * on, and closes it. `nodes` servers share the quota of a local limit; with 0 the rule file
 * decides. Returns 0 or ENOMEM; after ENOMEM the caller is not the table's. Implemented in
 * api/remote.c.
 */
WEIR_API int weir_private_table_call(struct weir_table *table, struct store_caller *caller,
                                     uint64_t nodes);
/** The table's caller, or NULL. */
WEIR_API struct store_caller *weir_private_table_caller(const struct weir_table *table);

#endif
