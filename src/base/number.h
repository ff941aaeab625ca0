/*
 * number.h: computes with whole numbers that saturate or are wide, and reads them from text.
 *
 * Times and costs come from outside, so no sum or product wraps around.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

typedef unsigned __int128 u128;

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_DAY (86400 * NS_PER_S)

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t sat_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t sat_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static inline uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/** The inverse of n > 1 for divide_by: 2^64 / n rounded down, or one less. */
static inline uint64_t inverse_of(uint64_t n)
{
	return UINT64_MAX / n;
}

/** x / n, by inverse_of(n). The processor's division takes four times as long. */
static inline uint64_t divide_by(uint64_t x, uint64_t n, uint64_t inverse)
{
	uint64_t least = (uint64_t)((u128)x * inverse >> 64); /* at most 1 too small */

	return least + (x - least * n >= n);
}

static inline uint64_t sat_u64(u128 a)
{
	return a > UINT64_MAX ? UINT64_MAX : (uint64_t)a;
}

static inline uint64_t gcd_u64(uint64_t a, uint64_t b)
{
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/** Parses a decimal number without sign or blanks. Returns false if it is none or too large. */
bool parse_u64(struct slice text, uint64_t *out);

/** The same, with an optional minus. */
bool parse_i64(struct slice text, int64_t *out);

/** The value of a hexadecimal digit, or -1. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/** Whether the text is `count` hexadecimal digits, in capital or small letters. */
bool hex_is_valid(struct slice text, size_t count);
/** Writes such a text in small letters, as Weir writes it. `out` has room for all of it. */
struct slice hex_lower(struct slice text, char *out);

/**
 * Parses a decimal number without sign, such as 3, 0.25 or 2.5e-1, whatever the locale. Returns
 * false if it is none, or has 18 digits before the point.
 */
bool parse_decimal(struct slice text, double *out);

/** The same for a number from 0 to 1. */
bool parse_share(struct slice text, double *out);

#define DECIMAL_TEXT_MAX 24

/**
 * Writes the shortest text that parse_decimal reads as `value`, which is less than 10^17. It has at
 * most 19 digits.
 */
void format_decimal(char out[DECIMAL_TEXT_MAX], double value);

#define SIZE_TEXT_MAX 16

/**
 * Writes a number of bytes as people say it, such as "265 MB" or "1.5 GB": two or three digits of
 * a unit of 1000, rounded up or down.
 */
void format_size(char out[SIZE_TEXT_MAX], uint64_t bytes, bool round_up);

char *format_u64_slow(char *out, uint64_t value);

/** Writes `value` in decimal and returns the end. `out` has space for at least 20 bytes. */
static inline char *format_u64(char *out, uint64_t value)
{
	if (value >= 10)
		return format_u64_slow(out, value);
	*out = (char)('0' + value);
	return out + 1;
}

#endif
