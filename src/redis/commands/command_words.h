/*
 * command_words.h: writes the words of a command in RESP, Redis's protocol: a word is `$`, its
 * length and its bytes. Scripts get many numbers as one word, which they unpack.
 */
#ifndef REDIS_COMMAND_WORDS_H
#define REDIS_COMMAND_WORDS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "algo/algo.h"
#include "base/buffer.h"
#include "base/number.h"

/* Appends a text as one word. */
static inline void add_word(struct buffer *out, struct slice text)
{
	char *at = buffer_reserve(out, 1 + 20 + 2 + text.len + 2);

	if (!at)
		return;
	*at++ = '$';
	at = format_u64(at, text.len);
	at = mempcpy(at, "\r\n", 2);
	if (text.len > 0)
		at = mempcpy(at, text.data, text.len);
	at = mempcpy(at, "\r\n", 2);
	out->len = (size_t)(at - out->data);
}

/* Appends a number in decimal digits as one word. */
static inline void add_number_word(struct buffer *out, uint64_t number)
{
	char text[20];

	add_word(out, (struct slice){text, (size_t)(format_u64(text, number) - text)});
}

#define NUMBERS_MAX 20

/* Numbers below 2^53, as struct.unpack of Lua reads them: doubles in little-endian order. */
struct numbers {
	size_t count;
	char bytes[NUMBERS_MAX * sizeof(double)];
};

static inline void numbers_add(struct numbers *numbers, uint64_t number)
{
	double value = (double)number;
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	bits = htole64(bits);
	memcpy(numbers->bytes + numbers->count++ * sizeof bits, &bits, sizeof bits);
}

static inline void numbers_add_all(struct numbers *numbers, const uint64_t *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		numbers_add(numbers, all[i]);
}

#define NUMBERS_ADD(numbers, ...)                                                                  \
	numbers_add_all(numbers, (const uint64_t[]){__VA_ARGS__},                                      \
	                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Appends all numbers as one word. */
static inline void add_numbers_word(struct buffer *out, const struct numbers *numbers)
{
	add_word(out, (struct slice){numbers->bytes, numbers->count * sizeof(double)});
}

/* Adds two numbers: whole microseconds, then the remaining nanoseconds. */
static inline void numbers_add_ns(struct numbers *numbers, uint64_t ns)
{
	numbers_add(numbers, ns / 1000);
	numbers_add(numbers, ns % 1000);
}

/* An exact time in *parts*, of which a nanosecond has q: a bucket gets p/q nanoseconds per unit. */
static inline u128 parts_of(struct bucket_time time, uint64_t q)
{
	return (u128)time.ns * q - time.under;
}

/*
 * Adds an exact duration as two numbers: whole microseconds, then the remaining parts, of which a
 * microsecond has 1000 q.
 */
static inline void numbers_add_parts(struct numbers *numbers, u128 parts, uint64_t q)
{
	u128 unit = (u128)1000 * q;

	numbers_add(numbers, (uint64_t)(parts / unit));
	numbers_add(numbers, (uint64_t)(parts % unit));
}

#endif
