/*
 * u256.h: computes with whole numbers of 256 bits, for exact formulas whose products exceed u128.
 */
#ifndef BASE_U256_H
#define BASE_U256_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"

/* A division of 128 bits is a call, and takes ten times the instructions of one of 64. */
static inline u128 u128_divide(u128 a, u128 by)
{
	return ((a | by) >> 64) == 0 ? (uint64_t)a / (uint64_t)by : a / by;
}

static inline u128 u128_ceil(u128 a, u128 by)
{
	return a / by + (a % by != 0);
}

struct u256 {
	uint64_t limb[4]; /* the lowest first */
};

static inline struct u256 u256_product(u128 a, u128 b)
{
	uint64_t of_a[] = {(uint64_t)a, (uint64_t)(a >> 64)};
	uint64_t of_b[] = {(uint64_t)b, (uint64_t)(b >> 64)};
	struct u256 out = {{0}};

	for (int i = 0; i < 2; i++) {
		uint64_t carry = 0;

		for (int j = 0; j < 2; j++) {
			u128 sum = (u128)of_a[i] * of_b[j] + out.limb[i + j] + carry;

			out.limb[i + j] = (uint64_t)sum;
			carry = (uint64_t)(sum >> 64);
		}
		out.limb[i + 2] = carry;
	}
	return out;
}

/** The sum modulo 2^256. u256_times is modulo 2^256, too. */
static inline struct u256 u256_sum(struct u256 a, struct u256 b)
{
	uint64_t carry = 0;

	for (int i = 0; i < 4; i++) {
		u128 sum = (u128)a.limb[i] + b.limb[i] + carry;

		a.limb[i] = (uint64_t)sum;
		carry = (uint64_t)(sum >> 64);
	}
	return a;
}

static inline struct u256 u256_times(struct u256 a, uint64_t by)
{
	uint64_t carry = 0;

	for (int i = 0; i < 4; i++) {
		u128 product = (u128)a.limb[i] * by + carry;

		a.limb[i] = (uint64_t)product;
		carry = (uint64_t)(product >> 64);
	}
	return a;
}

/** Divides *a, rounding down, and returns the remainder. */
static inline uint64_t u256_divide(struct u256 *a, uint64_t by)
{
	uint64_t rest = 0;

	for (int i = 3; i >= 0; i--) {
		u128 dividend = (u128)rest << 64 | a->limb[i];

		/* Most dividends fit in 64 bits, and a machine division suffices. */
		a->limb[i] = rest == 0 ? a->limb[i] / by : (uint64_t)(dividend / by);
		rest = (uint64_t)dividend - a->limb[i] * by;
	}
	return rest;
}

#endif
