/* timestamp.c: parses Unix seconds, RFC 3339 and the times of access logs, and prints times. */
#include "base/time/timestamp.h"

#include "base/number.h"
#include "base/time/civil.h"

/* The text that is left to read. A reader that succeeds moves past what it has read. */
struct cursor {
	const char *at, *end;
};

static bool take_char(struct cursor *c, char expected)
{
	if (c->at == c->end || *c->at != expected)
		return false;
	c->at++;
	return true;
}

static bool is_at_digit(const struct cursor *c)
{
	return c->at < c->end && (unsigned char)(*c->at - '0') <= 9;
}

/* Reads exactly `digits` digits, as a number from `min` to `max`. */
static bool take_digits(struct cursor *c, int digits, int min, int max, int *out)
{
	int value = 0;

	for (; digits > 0; digits--) {
		if (!is_at_digit(c))
			return false;
		value = value * 10 + (*c->at++ - '0');
	}
	*out = value;
	return value >= min && value <= max;
}

/* Reads ".25" or nothing. All digits are read; the first nine count. */
static bool take_fraction(struct cursor *c, uint64_t *ns)
{
	uint64_t unit = NS_PER_S;

	*ns = 0;
	if (!take_char(c, '.'))
		return true;
	if (!is_at_digit(c))
		return false;
	while (is_at_digit(c)) {
		unit /= 10;
		*ns += unit * (unsigned)(*c->at++ - '0');
	}
	return true;
}

/* Reads "+0530" or "+05:30". */
static bool take_offset(struct cursor *c, int *seconds)
{
	bool is_west = take_char(c, '-');
	int hours, minutes;

	if (!is_west && !take_char(c, '+'))
		return false;
	if (!take_digits(c, 2, 0, 23, &hours))
		return false;
	take_char(c, ':');
	if (!take_digits(c, 2, 0, 59, &minutes))
		return false;
	*seconds = (hours * 60 + minutes) * (is_west ? -60 : 60);
	return true;
}

/* Reads "22:13:20". A leap second counts as the second before it. */
static bool take_clock(struct cursor *c, int *seconds)
{
	int h, m, s;

	if (!take_digits(c, 2, 0, 23, &h) || !take_char(c, ':') || !take_digits(c, 2, 0, 59, &m) ||
	    !take_char(c, ':') || !take_digits(c, 2, 0, 60, &s))
		return false;
	*seconds = (h * 60 + m) * 60 + (s == 60 ? 59 : s);
	return true;
}

/*
 * Makes the time of a date and a second of its day. Returns false for a day that does not exist, or
 * a time out of range.
 */
static bool make_time(const struct civil *date, int second_of_day, uint64_t fraction_ns,
                      uint64_t *out_ns)
{
	int64_t days = civil_days(date->year, date->month, date->day);
	int64_t seconds = days * 86400 + second_of_day;

	if (civil_date(days).day != date->day || seconds < 0 ||
	    (uint64_t)seconds >= TIMESTAMP_MAX_NS / NS_PER_S)
		return false;
	*out_ns = (uint64_t)seconds * NS_PER_S + fraction_ns;
	return true;
}

/* Parses "2023-11-14T22:13:20.25Z". */
static bool parse_rfc3339(struct slice text, uint64_t *out_ns)
{
	struct cursor c = {text.data, text.data + text.len};
	struct civil date;
	uint64_t fraction;
	int year, second_of_day, offset = 0;

	if (!take_digits(&c, 4, 0, 9999, &year) || !take_char(&c, '-') ||
	    !take_digits(&c, 2, 1, 12, &date.month) || !take_char(&c, '-') ||
	    !take_digits(&c, 2, 1, 31, &date.day))
		return false;
	date.year = year;
	if (!take_char(&c, 'T') && !take_char(&c, 't') && !take_char(&c, ' '))
		return false;
	if (!take_clock(&c, &second_of_day) || !take_fraction(&c, &fraction))
		return false;
	if (!take_char(&c, 'Z') && !take_char(&c, 'z') && !take_offset(&c, &offset))
		return false;
	return c.at == c.end && make_time(&date, second_of_day - offset, fraction, out_ns);
}

/* Reads "e9", "E-05" or nothing. */
static bool take_exponent(struct cursor *c, int *out)
{
	bool is_negative;

	*out = 0;
	if (!take_char(c, 'e') && !take_char(c, 'E'))
		return true;
	is_negative = take_char(c, '-');
	if (!is_negative)
		take_char(c, '+');
	if (!is_at_digit(c))
		return false;
	while (is_at_digit(c)) {
		int digit = *c->at++ - '0';

		*out = *out > 1000 ? *out : *out * 10 + digit;
	}
	*out = is_negative ? -*out : *out;
	return true;
}

/*
 * Reads all digits as one number, and scales it by the point and the exponent at the end. Digits
 * that the number has no space for are dropped.
 */
static bool parse_seconds(struct slice text, uint64_t *out_ns)
{
	struct cursor c = {text.data, text.data + text.len};
	int scale = 9, exponent, digits = 0; /* the time is value * 10^scale nanoseconds */
	bool has_point = false;
	u128 value = 0;

	for (;; digits++) {
		if (!has_point && take_char(&c, '.')) {
			has_point = true;
			if (digits == 0)
				return false;
		}
		if (!is_at_digit(&c))
			break;
		if (value < (u128)1 << 120) {
			value = value * 10 + (unsigned)(*c.at - '0');
			scale -= has_point;
		} else {
			scale += !has_point;
		}
		c.at++;
	}
	if (digits == 0 || c.at[-1] == '.' || !take_exponent(&c, &exponent) || c.at != c.end)
		return false;
	for (scale += exponent; scale > 0 && value != 0 && value <= TIMESTAMP_MAX_NS; scale--)
		value *= 10;
	for (; scale < 0 && value != 0; scale++)
		value /= 10;
	*out_ns = (uint64_t)value;
	return value <= TIMESTAMP_MAX_NS;
}

/*
 * Reads the short form that most logs have, at a sixth of the cost: few digits, one point at most.
 */
static bool parse_short_seconds(struct slice text, uint64_t *out_ns)
{
	static const uint64_t units[] = {1000000000, 100000000, 10000000, 1000000, 100000,
	                                 10000,      1000,      100,      10,      1};
	size_t point = text.len, places;
	uint64_t value = 0;

	if (text.len > 20) /* 19 digits and a point */
		return false;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.data[i] - '0';

		if (digit <= 9)
			value = value * 10 + digit;
		else if (text.data[i] == '.' && point == text.len)
			point = i;
		else
			return false;
	}
	places = point < text.len ? text.len - point - 1 : 0;
	if (point == 0 || point + 1 == text.len) /* no digits on one side */
		return false;
	if (places > 9 || text.len - (places > 0) > 19 || value > TIMESTAMP_MAX_NS / units[places])
		return false;
	*out_ns = value * units[places];
	return true;
}

bool timestamp_parse(struct slice text, uint64_t *out_ns)
{
	/* The fourth byte is a digit in 2025-, but not in 170e-2. */
	bool is_date = text.len > 4 && text.data[4] == '-' && text.data[3] <= '9';

	if (is_date)
		return parse_rfc3339(text, out_ns);
	return parse_short_seconds(text, out_ns) || parse_seconds(text, out_ns);
}

/* Reads "Nov". */
static bool take_month(struct cursor *c, int *month)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	if (c->end - c->at < 3)
		return false;
	for (int i = 0; i < 12; i++)
		if (memcmp(c->at, names + 3 * i, 3) == 0) {
			*month = i + 1;
			c->at += 3;
			return true;
		}
	return false;
}

/* Parses "14/Nov/2023:22:13:20 +0000". */
bool timestamp_parse_log(struct slice text, uint64_t *out_ns)
{
	struct cursor c = {text.data, text.data + text.len};
	struct civil date;
	int year, second_of_day, offset;

	if (!take_digits(&c, 2, 1, 31, &date.day) || !take_char(&c, '/') ||
	    !take_month(&c, &date.month) || !take_char(&c, '/') ||
	    !take_digits(&c, 4, 0, 9999, &year) || !take_char(&c, ':') ||
	    !take_clock(&c, &second_of_day) || !take_char(&c, ' ') || !take_offset(&c, &offset))
		return false;
	date.year = year;
	return c.at == c.end && make_time(&date, second_of_day - offset, 0, out_ns);
}

void timestamp_add_seconds(struct buffer *out, uint64_t time_ns)
{
	uint64_t fraction = time_ns % NS_PER_S;
	int digits = 9;

	buffer_add_u64(out, time_ns / NS_PER_S);
	if (fraction == 0)
		return;
	for (; fraction % 10 == 0; fraction /= 10)
		digits--;
	buffer_printf(out, ".%0*llu", digits, (unsigned long long)fraction);
}

void timestamp_add_date(struct buffer *out, uint64_t time_ns)
{
	int64_t seconds = (int64_t)(time_ns / NS_PER_S);
	struct civil date = civil_date(seconds / 86400);
	int second_of_day = (int)(seconds % 86400);

	buffer_printf(out, "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)date.year, date.month, date.day,
	              second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
}
