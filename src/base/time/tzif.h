/*
 * tzif.h: parses the bytes of a TZif file into the table of a time zone. Behind zone.h, and for
 * tests.
 */
#ifndef BASE_TIME_TZIF_H
#define BASE_TIME_TZIF_H

#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

/* Larger files are refused; the system's own stay below 4 KiB. */
#define TZIF_SIZE_MAX 65536

/* No zone is further from UTC than this (RFC 8536, 3.2: -25 h to 26 h, both out). */
#define ZONE_NAME_MAX   64
#define TZIF_OFFSET_MAX (26 * 3600)

struct zone_span {
	int64_t start_s; /* Unix time */
	int32_t offset_s;
};

/*
 * Spans tile all of time: each begins after the one before it and ends where the next begins;
 * the first begins before everything.
 *
 * The rule for the years after the file's last transition is written out for 400 years and a
 * few; then the calendar repeats to the day and the weekday. So times at or past `fold_s` are
 * looked up whole cycles earlier, and no other code knows of rules.
 */
struct zone {
	char name[ZONE_NAME_MAX + 1]; /* set by zone_open */
	int64_t fold_s; /* a cycle before it, and a year past it, the rule is written out;
	                   INT64_MAX: there is no rule */
	size_t n;       /* at least 1 */
	struct zone_span spans[];
};

/**
 * Reads a whole file of version 1 to 4. Free with zone_close.
 * Errors: WEIR_ESYNTAX, WEIR_ENOMEM; then *out is NULL.
 */
int tzif_parse(const uint8_t *data, size_t len, struct zone **out, struct weir_error *error);

#endif
