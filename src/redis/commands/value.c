/*
 * value.c: writes the state of a key as the text that is its value at Redis, and reads such texts,
 * which come from outside and may be anything.
 *
 * A value is its *header* (the algorithm and the parameters, so that another limit's value is not
 * mistaken for this one's) and its fields. These are the end of the state and its *word*, one more
 * number (a window's count, or a bucket's fraction of a nanosecond); or a list of uses. A time has
 * 16 digits, microseconds of Unix time, or 19, nanoseconds.
 */
#include "redis/commands/value.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "base/time/zone.h"

#define US_DIGITS   16
#define NS_DIGITS   19
#define WORD_DIGITS 10
/* A bucket's value lives until the end of a block of time: a minute, or the time of some tokens. */
#define BLOCK_US     UINT64_C(60000000)
#define BLOCK_TOKENS 16
#define UNITS_MAX    (UINT64_C(1) << 33) /* more are invalid */

/* Headers */

static char *add_text(char *at, const char *text)
{
	size_t len = strlen(text);

	memcpy(at, text, len);
	return at + len;
}

/*
 * A duration as in rule files, such as 10m or 100ms; one of a single unit has no number, such as s.
 */
static char *add_period(char *at, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"w", 7 * NS_PER_DAY},
	             {"d", NS_PER_DAY},
	             {"h", 3600 * NS_PER_S},
	             {"m", 60 * NS_PER_S},
	             {"s", NS_PER_S},
	             {"ms", NS_PER_MS},
	             {"ns", 1}};
	size_t i = 0;

	while (ns % units[i].ns != 0)
		i++;
	if (ns != units[i].ns)
		at = format_u64(at, ns / units[i].ns);
	return add_text(at, units[i].name);
}

/* Adds a calendar window's length in its units, its zone, and its week's start. */
static char *add_calendar(char *at, const struct algo_limit *limit)
{
	static const char *const units[] = {
	    [WEIR_UNIT_NANOSECOND] = "ns", [WEIR_UNIT_MILLISECOND] = "ms", [WEIR_UNIT_SECOND] = "s",
	    [WEIR_UNIT_MINUTE] = "m",      [WEIR_UNIT_HOUR] = "h",         [WEIR_UNIT_DAY] = "d",
	    [WEIR_UNIT_WEEK] = "w",        [WEIR_UNIT_MONTH] = "month",    [WEIR_UNIT_YEAR] = "year"};
	static const char *const days[] = {"monday", "tuesday",  "wednesday", "thursday",
	                                   "friday", "saturday", "sunday"};
	const struct calendar *calendar = &limit->calendar;

	if (limit->record == ALGO_RECORD_DAY) { /* calendar days, in which it opens windows of a rate */
		at = add_period(at, limit->period_ns);
	} else {
		if (calendar->period != 1)
			at = format_u64(at, calendar->period);
		at = add_text(at, units[calendar->unit]);
	}
	*at++ = ' ';
	at = add_text(at, zone_name(calendar->zone));
	if (calendar->unit == WEIR_UNIT_WEEK && calendar->week_start != WEIR_WEEKDAY_MONDAY) {
		*at++ = ' ';
		at = add_text(at, days[calendar->week_start]);
	}
	return at;
}

/* Adds the layout, two numbers that identify the parameters, around the period: 5/s 10. */
static char *add_layout(char *at, const struct algo_limit *limit)
{
	struct algo_layout layout = limit->algorithm->layout(limit);

	at = format_u64(at, (uint64_t)layout.first + 1);
	*at++ = '/';
	at = add_period(at, limit->period_ns);
	*at++ = ' ';
	return format_u64(at, (uint64_t)layout.second + 1);
}

/*
 * Writes the header with a blank at its end. Returns its length. Ad-hoc limits share states however
 * their parameters differ, so their header has none.
 */
size_t value_header(const struct algo_limit *limit, char header[VALUE_HEADER_MAX])
{
	char *at = add_text(header, limit->algorithm->name);

	*at++ = ' ';
	if (!limit->is_adhoc) {
		if (algo_has_calendar(limit))
			at = add_calendar(at, limit);
		else if (limit->algorithm->layout)
			at = add_layout(at, limit);
		else
			at = add_period(at, limit->record == ALGO_RECORD_LEASES ? limit->leases.lease_ns
			                                                        : limit->period_ns);
		*at++ = ' ';
	}
	return (size_t)(at - header);
}

/* Reads a number of a layout, which is written plus 1. */
static bool read_layout_number(struct slice text, uint32_t *number)
{
	uint64_t written;

	if (!parse_u64(text, &written) || written == 0 || written - 1 > UINT32_MAX)
		return false;
	*number = (uint32_t)(written - 1);
	return true;
}

/*
 * Whether the header differs from the limit's only in the two numbers of its layout. If so, removes
 * the header from *text, and sets *former to these numbers; otherwise *text is of no use any more.
 */
static bool skip_other_header(const struct algo_limit *limit, struct slice *text,
                              struct algo_layout *former)
{
	char period[VALUE_HEADER_MAX];
	size_t period_len = (size_t)(add_period(period, limit->period_ns) - period);
	uint32_t first, second;

	if (!limit->algorithm->layout || limit->is_adhoc)
		return false;
	if (!slice_equal(slice_cut(text, ' '), slice_of(limit->algorithm->name)))
		return false;
	if (!read_layout_number(slice_cut(text, '/'), &first) ||
	    !slice_equal(slice_cut(text, ' '), (struct slice){period, period_len}) ||
	    !read_layout_number(slice_cut(text, ' '), &second))
		return false;
	*former = (struct algo_layout){first, second};
	return true;
}

/* Fields */

static bool read_expiry(struct slice text, uint64_t *ns)
{
	if ((text.len != US_DIGITS && text.len != NS_DIGITS) || !parse_u64(text, ns))
		return false;
	if (text.len == US_DIGITS)
		*ns *= 1000;
	return true;
}

static void write_digits(struct buffer *out, uint64_t number, size_t digits)
{
	char *at = buffer_reserve(out, digits);

	if (!at)
		return;
	out->len += digits;
	for (size_t i = digits; i-- > 0; number /= 10)
		at[i] = (char)('0' + number % 10);
}

static void write_time(struct buffer *out, uint64_t ns)
{
	if (ns % 1000 == 0)
		write_digits(out, ns / 1000, US_DIGITS);
	else
		write_digits(out, ns, NS_DIGITS);
}

/*
 * Reads the state of a limit without a record: an end and a word, which is written plus word_less.
 * An omitted word is 0.
 */
static bool read_word_state(const struct algo_limit *limit, struct slice text, struct value *value)
{
	unsigned less = limit->algorithm->word_less;
	uint64_t word = less;

	if (!read_expiry(slice_cut(&text, ' '), &value->state.until_ns) ||
	    (text.len > 0 && !parse_u64(text, &word)) || word < less || word - less > UINT32_MAX)
		return false;
	value->state.word = (uint32_t)(word - less);
	return true;
}

/*
 * Writes the state of a limit without a record. With word_less the word stands for a count, which
 * is always written: END COUNT. Without it the word is a fraction of a nanosecond: END alone if
 * that is in whole microseconds, otherwise END in nanoseconds and the fraction.
 */
static void write_word_state(const struct algo_limit *limit, const struct algo_state *state,
                             struct buffer *out)
{
	unsigned less = limit->algorithm->word_less;
	bool has_fraction = state->until_ns % 1000 != 0 || state->word != 0;

	if (less == 0 && has_fraction)
		write_digits(out, state->until_ns, NS_DIGITS);
	else
		write_time(out, state->until_ns);
	if (less > 0 || has_fraction) {
		buffer_add_text(out, " ");
		write_digits(out, (uint64_t)state->word + less, WORD_DIGITS);
	}
}

/*
 * Reads a use: end:units, or end:units:name if the name differs from the end. A use of no units
 * stands for the last one if that was refunded: it has the state's own end and name.
 */
static bool read_use(struct slice text, struct uses_entry *use)
{
	struct slice units;

	if (!read_expiry(slice_cut(&text, ':'), &use->until_ns))
		return false;
	units = slice_cut(&text, ':');
	use->id = use->until_ns;
	return parse_u64(units, &use->units) && use->units <= UINT32_MAX + 1ULL &&
	       (text.len == 0 || parse_u64(text, &use->id));
}

static void write_use(struct buffer *out, struct uses_entry use)
{
	write_time(out, use.until_ns);
	buffer_add_text(out, ":");
	buffer_add_u64(out, use.units);
	if (use.id != use.until_ns) {
		buffer_add_text(out, ":");
		buffer_add_u64(out, use.id);
	}
	buffer_add_text(out, " ");
}

/* Uses stand in the order of their ends, then of their names. */
static bool is_after(const struct uses_entry *a, const struct uses_entry *b)
{
	return a->until_ns > b->until_ns || (a->until_ns == b->until_ns && a->id > b->id);
}

/*
 * Reads a list of uses into value->uses, which is empty, and has memory for them. The last use ends
 * the state, except of leases; only a log has names.
 */
static bool read_uses_state(const struct algo_limit *limit, struct slice text, struct value *value)
{
	struct uses *uses = &value->uses;
	uint64_t units = 0;

	while (text.len > 0) {
		struct uses_entry *use = &uses->entries[uses->count];

		if (uses->count > limit->width || !read_use(slice_cut(&text, ' '), use))
			return false;
		if (use->units == 0) {
			if (text.len > 0) /* it is not the last one */
				return false;
		} else if (uses->count > 0 && !is_after(use, use - 1)) {
			return false;
		} else {
			uses->count++;
			units += use->units;
		}
		if (limit->record != ALGO_RECORD_LEASES)
			uses->until_ns = use->until_ns;
		if (limit->record == ALGO_RECORD_LOG)
			uses->newest_id = use->id;
	}
	return (uses->until_ns > 0 || uses->count > 0) && units <= UNITS_MAX;
}

/*
 * Writes the uses of slots and days; other lists are written by scripts only. The state's own end
 * is written, too, if it is not that of the last use: the last use was refunded, or is a window
 * that ends after its day. Returns the last end, or 0 if there is none and nothing was written.
 */
static uint64_t write_uses_state(const struct uses *uses, struct buffer *out)
{
	uint64_t last_use_ns = 0, until_ns = uses->until_ns;

	for (size_t i = 0; i < uses->count; i++) {
		write_use(out, uses->entries[i]);
		last_use_ns = uses->entries[i].until_ns;
		until_ns = u64_max(until_ns, last_use_ns);
	}
	if (last_use_ns != uses->until_ns)
		write_use(out, (struct uses_entry){0, uses->until_ns, uses->until_ns});
	if (until_ns > 0)
		out->len--; /* without the last blank */
	return until_ns;
}

/* Reserves memory for the uses that the text may have, and `more`. */
static bool reserve_uses(struct slice text, size_t more, struct value *value)
{
	size_t count_max = more + 1;

	for (size_t i = 0; i < text.len; i++)
		count_max += text.data[i] == ' ';
	value->uses.entries = malloc(count_max * sizeof *value->uses.entries);
	return value->uses.entries != NULL;
}

/* Reads a state; `more` uses than the text has may be added to it. */
enum value_fit value_read(const struct algo_limit *limit, struct slice text, size_t more,
                          struct value *value)
{
	char header[VALUE_HEADER_MAX];
	enum value_fit fit = VALUE_OURS;
	bool is_valid;

	value->state = (struct algo_state){0, 0};
	value->uses = (struct uses){0};
	value->former_layout = (struct algo_layout){0};
	if (limit->record != ALGO_RECORD_NONE && !reserve_uses(text, more, value))
		return VALUE_NO_MEMORY;
	if (text.len == 0)
		return VALUE_OURS;
	if (!slice_skip(&text, (struct slice){header, value_header(limit, header)})) {
		if (!skip_other_header(limit, &text, &value->former_layout))
			return VALUE_OTHER;
		fit = VALUE_CONVERTS;
	}
	if (limit->record != ALGO_RECORD_NONE)
		is_valid = read_uses_state(limit, text, value);
	else
		is_valid = read_word_state(limit, text, value);
	return is_valid ? fit : VALUE_OTHER;
}

void value_free(struct value *value)
{
	free(value->uses.entries);
	value->uses.entries = NULL;
}

/* The length of the blocks of time by which a bucket's value lives. */
uint64_t value_block_us(const struct algo_limit *limit)
{
	uint64_t tokens;

	if (limit->is_adhoc)
		return BLOCK_US;
	/*
	 * Paced limits whose depths differ by less than a token share a header, which has this depth.
	 */
	tokens = (uint64_t)limit->algorithm->layout(limit).second + 1;
	return u64_max(BLOCK_US, limit->bucket.interval.ns / 1000 * u64_min(tokens, BLOCK_TOKENS));
}

/* The lifetime of a value whose state ends at `until_ns`. */
static uint64_t value_life_ms(const struct algo_limit *limit, uint64_t until_ns, uint64_t now_ns)
{
	if (algo_has_step(limit, bucket_step)) {
		uint64_t block_us = value_block_us(limit);

		until_ns = (until_ns / 1000 / block_us + 1) * block_us * 1000;
	}
	return sat_sub(until_ns, now_ns) / NS_PER_MS + 2;
}

/* Appends the value, or nothing for a state never used. Returns its lifetime in milliseconds. */
uint64_t value_write(const struct algo_limit *limit, const struct value *value, uint64_t now_ns,
                     struct buffer *out)
{
	size_t start = out->len;
	char header[VALUE_HEADER_MAX];
	uint64_t until_ns;

	buffer_add(out, header, value_header(limit, header));
	if (limit->record != ALGO_RECORD_NONE) {
		until_ns = write_uses_state(&value->uses, out);
	} else {
		until_ns = value->state.until_ns;
		write_word_state(limit, &value->state, out);
	}
	if (until_ns == 0)
		out->len = start;
	return value_life_ms(limit, until_ns, now_ns);
}
