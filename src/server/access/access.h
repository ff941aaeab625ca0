/*
 * access.h: decides whether a request is permitted, by its class, the peer's address and its
 * headers.
 *
 * Every caller that reaches a port may ask. Only programs on this machine may change or administer,
 * unless the configuration permits others (`protected`). Browsers also run on this machine and do
 * what any page says, so their requests are told apart by their headers: see docs/security.md.
 */
#ifndef SERVER_ACCESS_H
#define SERVER_ACCESS_H

#include "proto/request.h"
#include "rules/model.h"

/** Whether a request needs one of the checks below: most requests need none. */
static inline bool access_matters(enum request_class class, const struct request_origin *origin)
{
	return class > REQUEST_ASK || origin;
}

/**
 * Checks requests of pages in browsers. `origin` is NULL if nothing is known of it. Returns
 * WEIR_OK, or EPERM with a message for the sender.
 */
int access_check_origin(const struct weir_config *config, const struct ip *peer,
                        enum request_class class, const struct request_origin *origin,
                        struct weir_error *error);
/** Checks the peer, for configurations without users. Returns as above. */
int access_check_peer(const struct weir_config *config, const struct ip *peer,
                      enum request_class class, const struct request_origin *origin,
                      struct weir_error *error);

/**
 * If admin calls have a listener of their own, checks that the request came by it. Returns as
 * above.
 */
int access_check_listener(bool is_admin, enum request_class class, struct weir_error *error);

#endif
