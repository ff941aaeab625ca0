/*
 * door.h: whether a request may come in, by its class, its peer and how it came.
 *
 * Every caller that reaches a port may ask. To take from others, or to see them, is for the
 * machine's own programs, unless the configuration lets others in (`protected`).
 * Browsers run on that machine too, and do what any page says, so their requests
 * are told by their header: see docs/security.md.
 */
#ifndef SERVER_DOOR_H
#define SERVER_DOOR_H

#include "proto/request.h"
#include "rules/model.h"

/** Whether door_check has anything to look at: what is asked on most connections needs no check. */
static inline bool door_matters(enum request_class class, const struct request_origin *origin)
{
	return class > REQUEST_ASK || origin;
}

/** WEIR_OK, or EPERM with words for the sender. */
int door_check(const struct weir_config *config, const struct ip *peer, enum request_class class,
               const struct request_origin *origin, struct weir_error *error);

#endif
