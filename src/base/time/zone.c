/*
 * zone.c: opens a time zone of the system by its name, such as Europe/Berlin, and converts between
 * local time and Unix time. A zone is a sorted table of spans of time, each with an offset from
 * UTC.
 */
#include "base/time/zone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/time/civil.h"
#include "base/time/tzif.h"

#define ZONE_DIRECTORY "/usr/share/zoneinfo/"
#define ZONE_NAME_MAX  64
#define CYCLE_S        (INT64_C(86400) * CIVIL_CYCLE_DAYS)
#define FAR_S          (INT64_C(1) << 60) /* 36 billion years: later times count as this one */

/* Without dots a name can't leave the directory. */
static bool is_valid_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= ZONE_NAME_MAX && name[0] != '/' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
	           len;
}

/* Reads the file into `data`, which holds TZIF_SIZE_MAX + 1 bytes. */
static int read_zone_file(const char *name, uint8_t *data, size_t *len, struct weir_error *error)
{
	char path[sizeof ZONE_DIRECTORY + ZONE_NAME_MAX];
	FILE *file;
	int failure = 0;

	snprintf(path, sizeof path, ZONE_DIRECTORY "%s", name);
	file = fopen(path, "re");
	if (file) {
		*len = fread(data, 1, TZIF_SIZE_MAX + 1, file);
		failure = ferror(file) ? errno : 0; /* a directory opens, but can't be read */
		fclose(file);
	} else {
		failure = errno;
	}
	if (failure)
		return error_set(error, WEIR_ENOTFOUND, "expected a time zone, found \"%s\" (%s: %s)", name,
		                 path, strerror(failure));
	return WEIR_OK;
}

static int open_utc(struct zone **out, struct weir_error *error)
{
	*out = malloc(sizeof **out + sizeof(*out)->spans[0]);
	if (!*out)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	**out = (struct zone){.fold_s = INT64_MAX, .n = 1};
	(*out)->spans[0] = (struct zone_span){INT64_MIN, 0};
	return WEIR_OK;
}

static int open_named(const char *name, struct zone **out, struct weir_error *error)
{
	struct weir_error why = {0};
	uint8_t *data;
	size_t len = 0;
	int status;

	*out = NULL;
	if (strcmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0)
		return open_utc(out, error);
	if (!is_valid_name(name))
		return error_set(error, WEIR_ENOTFOUND,
		                 "expected a time zone such as Europe/Berlin, found \"%.80s\"", name);
	data = malloc(TZIF_SIZE_MAX + 1);
	if (!data)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	status = read_zone_file(name, data, &len, error);
	if (status == WEIR_OK) {
		status = tzif_parse(data, len, out, &why);
		if (status != WEIR_OK)
			error_set(error, status, ZONE_DIRECTORY "%s: %s", name, why.message);
	}
	free(data);
	return status;
}

int zone_open(const char *name, struct zone **out, struct weir_error *error)
{
	int status = open_named(name, out, error);

	if (status == WEIR_OK)
		snprintf((*out)->name, sizeof(*out)->name, "%s", name);
	return status;
}

const char *zone_name(const struct zone *zone)
{
	return zone->name;
}

void zone_close(struct zone *zone)
{
	free(zone);
}

static int64_t clamp_time(int64_t t)
{
	return t < -FAR_S ? -FAR_S : t > FAR_S ? FAR_S : t;
}

/*
 * The table ends at fold_s, and then repeats every 400 years. Returns how many seconds (of whole
 * cycles) earlier than `unix_s` the table has the same offset.
 */
static int64_t fold_distance(const struct zone *zone, int64_t unix_s)
{
	if (unix_s < zone->fold_s)
		return 0;
	return ((unix_s - zone->fold_s) / CYCLE_S + 1) * CYCLE_S;
}

/* The index of the span that holds `unix_s`, which is a time before fold_s. */
static size_t span_at(const struct zone *zone, int64_t unix_s)
{
	size_t low = 0, high = zone->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (zone->spans[middle].start_s <= unix_s)
			low = middle;
		else
			high = middle;
	}
	return low;
}

int32_t zone_offset(const struct zone *zone, int64_t unix_s)
{
	unix_s = clamp_time(unix_s);
	return zone->spans[span_at(zone, unix_s - fold_distance(zone, unix_s))].offset_s;
}

/*
 * Returns the first instant at which the clocks show `local_s`, or if they skip it, the end of the
 * gap. In a span the clocks show all local times from its start to its end, in its offset. So the
 * first span whose end is past `local_s` contains it, or begins past it if the clocks skip it.
 */
int64_t zone_first_instant(const struct zone *zone, int64_t local_s)
{
	int64_t cycles, early, instant;
	size_t i;

	local_s = clamp_time(local_s);
	early = local_s - TZIF_OFFSET_MAX;   /* no clock can show local_s before this */
	cycles = fold_distance(zone, early); /* the search is in years that the table has */
	local_s -= cycles;
	i = span_at(zone, early - cycles);
	while (i + 1 < zone->n && local_s >= zone->spans[i + 1].start_s + zone->spans[i].offset_s)
		i++;
	instant = local_s - zone->spans[i].offset_s;
	return (instant > zone->spans[i].start_s ? instant : zone->spans[i].start_s) + cycles;
}
