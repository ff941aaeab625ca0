/*
 * zone.h: finds the time zones of the system, in its TZif files (RFC 8536).
 *
 * A zone is immutable once open and may be used by any thread. Nothing here
 * reads TZ or touches the C library's global zone.
 */
#ifndef BASE_TIME_ZONE_H
#define BASE_TIME_ZONE_H

#include <stdint.h>

#include <weir/weir.h>

struct zone;

/**
 * Opens an IANA zone by name ("Asia/Shanghai"). "UTC" needs no file.
 * Errors: WEIR_ENOTFOUND (no such zone, or a name that leaves the zone
 * directory), WEIR_ESYNTAX (a damaged file), WEIR_ENOMEM.
 */
int zone_open(const char *name, struct zone **out, struct weir_error *error);
void zone_close(struct zone *zone);
/** As it was opened. */
const char *zone_name(const struct zone *zone);

/** The zone's local time minus UTC, in seconds, at `unix_s`. */
int32_t zone_offset(const struct zone *zone, int64_t unix_s);

/**
 * The first instant whose local time is at or past `local_s` (seconds since
 * 1970 as the zone's clocks count). Where clocks skip over `local_s`: the
 * instant of the skip. Where they show it twice: the first.
 */
int64_t zone_first_instant(const struct zone *zone, int64_t local_s);

#endif
