/*
 * access.h: decides whether a request may come in, by its class, its peer and its way here.
 *
 * Every caller that reaches a port may ask. Only the machine's own programs may take from
 * others or see them, unless the configuration lets others in (`protected`). Browsers also
 * run on that machine and do what any page says, so their headers tell their requests
 * apart: see docs/security.md.
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

/** What a page in a browser may send: WEIR_OK, or EPERM with words for the sender. */
int access_check_origin(const struct weir_config *config, const struct ip *peer,
                        enum request_class class, const struct request_origin *origin,
                        struct weir_error *error);
/** What the peer may do where there are no users: as above. */
int access_check_peer(const struct weir_config *config, const struct ip *peer,
                      enum request_class class, const struct request_origin *origin,
                      struct weir_error *error);

/** Where admin calls have a listener of their own (`is_admin`): the same of which one it came by.
 */
int access_check_listener(bool is_admin, enum request_class class, struct weir_error *error);

#endif
