/*
 * tzif.c: parses a TZif file (RFC 8536), the system's description of a time zone, into a table of
 * spans, each with an offset from UTC. The rule at the end of the file, for all later years, is
 * written out for 400 years; then the calendar repeats.
 */
#include "base/time/tzif.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/time/civil.h"

#define HEADER_SIZE 44
#define TYPE_SIZE   6
#define TIME_MAX_S                                                                                 \
	(INT64_C(1) << 59) /* from 1970, both ways: before is the Big Bang (RFC 8536, 3.2) */
#define DAY_S INT64_C(86400)

/* Years that a rule is written out for: a cycle, and two more on either side. */
#define RULE_YEARS (CIVIL_CYCLE_YEARS + 4)
/* If a file has no transition before its rule, the rule begins here. */
#define RULE_FROM_YEAR 1900

/* A day of each year, in the three ways that POSIX writes it. */
struct rule_day {
	enum { RULE_JULIAN, RULE_ORDINAL, RULE_WEEKDAY } kind;
	int day;        /* 1 to 365, never counting February 29; or 0 to 365; or 0 for Sunday to 6 */
	int month;      /* of RULE_WEEKDAY */
	int week;       /* 1 to 5, 5 being the last */
	int32_t time_s; /* on the clock before the change, from midnight: may lie days away */
};

/* The rule for times after the last transition. */
struct rule {
	bool has_dst; /* clocks change twice a year; if not, the last transition goes on for ever */
	int32_t std_offset_s, dst_offset_s;
	struct rule_day start, end;
};

/* The counts have the names of RFC 8536. */
struct header {
	int version;
	uint32_t isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt;
};

/* One header and the data behind it. */
struct block {
	struct header header;
	const uint8_t *data;
	size_t time_size; /* bytes of a time in it */
};

struct reader {
	const uint8_t *start, *at, *end;
	struct weir_error *error;
};

#define damaged(reader, format, ...)                                                               \
	error_set((reader)->error, WEIR_ESYNTAX, "byte %zu: expected " format,                         \
	          (size_t)((reader)->at - (reader)->start), ##__VA_ARGS__)

static uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t load_be_time(const uint8_t *p, size_t size)
{
	if (size == 4)
		return (int32_t)load_be32(p);
	return (int64_t)((uint64_t)load_be32(p) << 32 | load_be32(p + 4));
}

/* Reads a header, and checks that the data which it announces is there. */
static int read_block(struct reader *reader, size_t time_size, struct block *out)
{
	size_t left = (size_t)(reader->end - reader->at);
	const uint8_t *p = reader->at;
	struct header *h = &out->header;
	uint64_t size;

	if (left < HEADER_SIZE || memcmp(p, "TZif", 4) != 0)
		return damaged(reader, "the header of a TZif file, found something else");
	*h = (struct header){
	    .version = p[4] == 0 ? 1 : p[4] - '0',
	    .isutcnt = load_be32(p + 20),
	    .isstdcnt = load_be32(p + 24),
	    .leapcnt = load_be32(p + 28),
	    .timecnt = load_be32(p + 32),
	    .typecnt = load_be32(p + 36),
	    .charcnt = load_be32(p + 40),
	};
	if (h->version < 1 || h->version > 4)
		return damaged(reader, "version 1 to 4, found %d", h->version);
	size = h->timecnt * (uint64_t)(time_size + 1) + h->typecnt * (uint64_t)TYPE_SIZE + h->charcnt +
	       h->leapcnt * (uint64_t)(time_size + 4) + h->isstdcnt + h->isutcnt;
	if (size > left - HEADER_SIZE)
		return damaged(reader, "%llu bytes of data, found %zu", (unsigned long long)size,
		               left - HEADER_SIZE);
	if (h->typecnt == 0 || h->typecnt > 256)
		return damaged(reader, "1 to 256 kinds of local time, found %u", h->typecnt);
	if (h->leapcnt != 0)
		return damaged(reader, "no leap seconds, since Unix time has none, found %u", h->leapcnt);
	out->data = p + HEADER_SIZE;
	out->time_size = time_size;
	reader->at = out->data + size;
	return WEIR_OK;
}

/* From here to read_footer, functions need no end of the text: none reads past its newline. */

static bool skip_if(const char **text, char c)
{
	if (**text != c)
		return false;
	++*text;
	return true;
}

/* Reads a number of up to three digits. */
static bool take_rule_number(const char **text, int min, int max, int *out)
{
	const char *p = *text;
	int value = 0;

	while (p - *text < 3 && *p >= '0' && *p <= '9')
		value = value * 10 + (*p++ - '0');
	if (p == *text || value < min || value > max)
		return false;
	*text = p;
	*out = value;
	return true;
}

/* Reads [+-]HH[:MM[:SS]] as seconds. */
static bool take_rule_time(const char **text, int max_hours, int32_t *out)
{
	int sign = skip_if(text, '-') ? -1 : 1, hours, minutes = 0, seconds = 0;

	if (sign > 0)
		skip_if(text, '+');
	if (!take_rule_number(text, 0, max_hours, &hours))
		return false;
	if (skip_if(text, ':') && (!take_rule_number(text, 0, 59, &minutes) ||
	                           (skip_if(text, ':') && !take_rule_number(text, 0, 59, &seconds))))
		return false;
	*out = sign * (hours * 3600 + minutes * 60 + seconds);
	return true;
}

/* Skips the abbreviation of a time zone. */
static bool take_zone_name(const char **text)
{
	bool quoted = skip_if(text, '<');
	size_t len =
	    strspn(*text, quoted ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
	                         : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

	*text += len;
	return len >= 3 && (!quoted || skip_if(text, '>'));
}

/* Reads Jn (a day but for February 29), n, or Mmonth.week.day, each with an optional /TIME. */
static bool take_rule_day(const char **text, struct rule_day *out)
{
	bool ok;

	*out = (struct rule_day){.kind = RULE_ORDINAL, .time_s = 2 * 3600};
	if (skip_if(text, 'J')) {
		out->kind = RULE_JULIAN;
		ok = take_rule_number(text, 1, 365, &out->day);
	} else if (skip_if(text, 'M')) {
		out->kind = RULE_WEEKDAY;
		ok = take_rule_number(text, 1, 12, &out->month) && skip_if(text, '.') &&
		     take_rule_number(text, 1, 5, &out->week) && skip_if(text, '.') &&
		     take_rule_number(text, 0, 6, &out->day);
	} else {
		ok = take_rule_number(text, 0, 365, &out->day);
	}
	return ok && (!skip_if(text, '/') || take_rule_time(text, 167, &out->time_s));
}

/*
 * Reads a rule such as CET-1CEST,M3.5.0,M10.5.0/3: names, offsets, and when summer time begins and
 * ends.
 */
static bool take_rule(const char **text, struct rule *rule)
{
	if (!take_zone_name(text) || !take_rule_time(text, 24, &rule->std_offset_s))
		return false;
	rule->std_offset_s = -rule->std_offset_s; /* POSIX counts westwards */
	if (**text == '\n')
		return true;
	rule->has_dst = true;
	if (!take_zone_name(text))
		return false;
	rule->dst_offset_s = rule->std_offset_s + 3600;
	if (**text != ',') {
		if (!take_rule_time(text, 24, &rule->dst_offset_s))
			return false;
		rule->dst_offset_s = -rule->dst_offset_s;
	}
	return skip_if(text, ',') && take_rule_day(text, &rule->start) && skip_if(text, ',') &&
	       take_rule_day(text, &rule->end);
}

/* Reads the line behind the data, which may be empty. */
static int read_footer(struct reader *reader, struct rule *rule)
{
	const char *text;

	if (reader->end - reader->at < 2 || reader->at[0] != '\n' || reader->end[-1] != '\n')
		return damaged(reader, "a line with the rule for later years, found none");
	text = (const char *)++reader->at;
	if (*text != '\n' && !take_rule(&text, rule)) {
		reader->at = (const uint8_t *)text;
		return damaged(reader, "a POSIX time zone, found something else");
	}
	reader->at = (const uint8_t *)text + 1;
	if (reader->at != reader->end)
		return damaged(reader, "the end of the file, found more");
	return WEIR_OK;
}

/* The Unix time of the change in `year`, before which clocks are `offset_s` ahead of UTC. */
static int64_t rule_instant(const struct rule_day *day, int64_t year, int32_t offset_s)
{
	int64_t day_number = 0;
	int weekday_from_monday = day->day - 1; /* as civil_weekday counts; -1 for Sunday, modulo 7 */

	switch (day->kind) {
	case RULE_ORDINAL:
		day_number = civil_days(year, 1, 1) + day->day;
		break;
	case RULE_JULIAN: /* 60 is March 1 in each year */
		day_number = day->day < 60 ? civil_days(year, 1, 1) + day->day - 1
		                           : civil_days(year, 3, 1) + day->day - 60;
		break;
	case RULE_WEEKDAY: /* the first such day from the first of these seven on; month 13 is January
	                    */
		day_number = day->week < 5 ? civil_days(year, day->month, 1) + (day->week - 1) * 7
		                           : civil_days(year, day->month + 1, 1) - 7;
		day_number += floor_mod(weekday_from_monday - civil_weekday(day_number), 7);
		break;
	}
	return day_number * DAY_S + day->time_s - offset_s;
}

/*
 * Adds a span. If two begin at one instant, the later one counts. One before the last is ignored.
 */
static void add_span(struct zone *zone, int64_t start_s, int32_t offset_s)
{
	if (start_s < zone->spans[zone->n - 1].start_s)
		return;
	if (start_s > zone->spans[zone->n - 1].start_s)
		zone->n++;
	zone->spans[zone->n - 1] = (struct zone_span){start_s, offset_s};
}

/*
 * Adds the spans of the rule's years, behind those of the file's transitions: a cycle of the
 * calendar from the next year on, and two years more on either side. From fold_s on, times are
 * looked up a cycle earlier.
 */
static void add_rule(struct zone *zone, const struct rule *rule)
{
	int64_t year = RULE_FROM_YEAR;

	if (zone->n > 1)
		year = civil_date(floor_div(zone->spans[zone->n - 1].start_s, DAY_S)).year;
	zone->fold_s = civil_days(year + 1 + CIVIL_CYCLE_YEARS, 1, 1) * DAY_S;
	/* From a year early, since a change may lie days outside of its year. */
	for (int64_t y = year - 1; y < year - 1 + RULE_YEARS; y++) {
		int64_t start = rule_instant(&rule->start, y, rule->std_offset_s);
		int64_t end = rule_instant(&rule->end, y, rule->dst_offset_s);

		if (start < end) /* in the order of time */
			add_span(zone, start, rule->dst_offset_s);
		add_span(zone, end, rule->std_offset_s);
		if (start >= end)
			add_span(zone, start, rule->dst_offset_s);
	}
}

/* Adds a span for each transition of the file. Returns 0, or ESYNTAX for wrong data. */
static int add_transitions(struct reader *reader, const struct block *block, struct zone *zone)
{
	const struct header *h = &block->header;
	const uint8_t *types = block->data + h->timecnt * (block->time_size + 1);
	const uint8_t *indices = block->data + h->timecnt * block->time_size;

	for (size_t i = 0; i < h->typecnt; i++) {
		int32_t offset = (int32_t)load_be32(types + i * TYPE_SIZE);

		reader->at = types + i * TYPE_SIZE;
		if (offset <= -TZIF_OFFSET_MAX || offset >= TZIF_OFFSET_MAX)
			return damaged(reader, "an offset from UTC of less than 26 hours, found %d s", offset);
	}
	zone->spans[0] = (struct zone_span){INT64_MIN, (int32_t)load_be32(types)};
	zone->n = 1;
	for (size_t i = 0; i < h->timecnt; i++) {
		int64_t time = load_be_time(block->data + i * block->time_size, block->time_size);

		reader->at = block->data + i * block->time_size;
		if (time < -TIME_MAX_S || time > TIME_MAX_S || time <= zone->spans[i].start_s)
			return damaged(reader, "rising times, found %lld", (long long)time);
		reader->at = indices + i;
		if (indices[i] >= h->typecnt)
			return damaged(reader, "a kind below %u, found %u", h->typecnt, indices[i]);
		add_span(zone, time, (int32_t)load_be32(types + indices[i] * TYPE_SIZE));
	}
	return WEIR_OK;
}

/* A file from version 2 on has a second block with times of 8 bytes, which is read instead. */
int tzif_parse(const uint8_t *data, size_t len, struct zone **out, struct weir_error *error)
{
	struct reader reader = {data, data, data + len, error};
	struct rule rule = {0};
	struct block block;
	struct zone *zone;
	int status;

	*out = NULL;
	if (len > TZIF_SIZE_MAX)
		return damaged(&reader, "at most %d bytes, found more", TZIF_SIZE_MAX);
	status = read_block(&reader, 4, &block);
	if (status == WEIR_OK && block.header.version >= 2) {
		status = read_block(&reader, 8, &block);
		if (status == WEIR_OK)
			status = read_footer(&reader, &rule);
	}
	if (status != WEIR_OK)
		return status;
	zone =
	    malloc(sizeof *zone + sizeof zone->spans[0] * (1 + block.header.timecnt + 2 * RULE_YEARS));
	if (!zone)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	zone->fold_s = INT64_MAX;
	status = add_transitions(&reader, &block, zone);
	if (status != WEIR_OK) {
		free(zone);
		return status;
	}
	if (rule.has_dst)
		add_rule(zone, &rule);
	*out = zone;
	return WEIR_OK;
}
