/*
 * keys.c: draws the numbers of keys for the requests of `weir bench`, by a uniform or a Zipf
 * distribution, in sequence, or always the same, reproducibly from a seed.
 */
#include "load/keys.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/prng.h"
#include "base/error.h"
#include "base/number.h"

#define EXPONENT_MAX 100

/* Accepts numbers above 0 and up to EXPONENT_MAX. */
static bool parse_exponent(struct slice text, double *out)
{
	char copy[32], *end;

	if (text.len == 0 || text.len >= sizeof copy || text.data[0] < '0' || text.data[0] > '9')
		return false;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	*out = strtod(copy, &end);
	return *end == '\0' && *out > 0 && *out <= EXPONENT_MAX;
}

int keys_parse_distribution(struct slice text, struct keys_options *out, struct weir_error *error)
{
	static const struct {
		struct slice name;
		enum keys_kind kind;
	} distributions[] = {
	    {SLICE("uniform"), KEYS_UNIFORM},
	    {SLICE("sequential"), KEYS_SEQUENTIAL},
	    {SLICE("single"), KEYS_SINGLE},
	};
	struct slice exponent = text;

	for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++)
		if (slice_equal(text, distributions[i].name)) {
			out->kind = distributions[i].kind;
			return WEIR_OK;
		}
	if (slice_skip(&exponent, SLICE("zipf:")) && parse_exponent(exponent, &out->exponent)) {
		out->kind = KEYS_ZIPF;
		return WEIR_OK;
	}
	return error_set(error, WEIR_EINVAL,
	                 "expected uniform, zipf:EXPONENT (above 0, at most %d), sequential or single, "
	                 "found '%.*s'",
	                 EXPONENT_MAX, (int)u64_min(text.len, 80), text.data);
}

/*
 * Zipf: draws key k of 1 to n with probability proportional to h(k) = k^-s, by rejection-inversion
 * (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
 * distributions", 1996), which needs no table. H is the integral of h from 1. A number y is drawn
 * between H(3/2) - h(1) and H(n + 1/2), and inverted to x, which rounds to k. The key k is accepted
 * if y is in its column: the last h(k) of H before H(k + 1/2), which fits under the convex h.
 * Otherwise another y is drawn. If x is above k, or below it by no more than `accept_distance`,
 * then y is in the column, whatever k is: this accepts most draws without further computation.
 */

/* (e^t - 1) / t and log(1 + t) / t, which tend to 1 as t tends to 0. */
static double expm1_over(double t)
{
	return fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2;
}

static double log1p_over(double t)
{
	return fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2;
}

/* h(x) for the exponent s */
static double zipf_weight(double s, double x)
{
	return exp(-s * log(x));
}

/* H(x), in a form that includes s = 1. */
static double zipf_integral(double s, double x)
{
	return log(x) * expm1_over((1 - s) * log(x));
}

/* The x for which H(x) is y. */
static double zipf_integral_inverse(double s, double y)
{
	return exp(log1p_over(fmax(y * (1 - s), -1)) * y);
}

/* Computes once what each draw needs. */
static void zipf_start(struct keys *keys)
{
	double s = keys->options.exponent;

	keys->y_min = zipf_integral(s, 1.5) - 1;
	keys->y_max = zipf_integral(s, (double)keys->options.count + 0.5);
	keys->accept_distance = 2 - zipf_integral_inverse(s, zipf_integral(s, 2.5) - zipf_weight(s, 2));
}

/* Draws a key from 0, by the method above. */
static uint64_t zipf_next(struct keys *keys)
{
	double s = keys->options.exponent;

	for (;;) {
		double u = (double)(prng_step(&keys->state) >> 11) * 0x1p-53;
		double y = keys->y_max + u * (keys->y_min - keys->y_max);
		double x = zipf_integral_inverse(s, y);
		double k = fmin(fmax(floor(x + 0.5), 1), (double)keys->options.count);
		bool is_surely_in_column = k - x <= keys->accept_distance;

		if (is_surely_in_column || y >= zipf_integral(s, k + 0.5) - zipf_weight(s, k))
			return (uint64_t)k - 1;
	}
}

/* Each of the `parts` threads that send requests draws a stream of its own. */
void keys_start(struct keys *keys, const struct keys_options *options, uint64_t seed, size_t part,
                size_t parts)
{
	*keys = (struct keys){.options = *options, .state = seed};
	if (options->kind == KEYS_SEQUENTIAL) { /* the state is the next key */
		keys->state = (uint64_t)((u128)options->count * part / parts);
		return;
	}
	for (size_t i = 0; i < part; i++) /* another seed for each part, drawn from the first */
		prng_step(&keys->state);
	keys->state = prng_step(&keys->state);
	if (options->kind == KEYS_ZIPF)
		zipf_start(keys);
}

uint64_t keys_next(struct keys *keys)
{
	uint64_t count = keys->options.count, key;

	switch (keys->options.kind) {
	case KEYS_UNIFORM:
		return (uint64_t)((u128)prng_step(&keys->state) * count >> 64);
	case KEYS_ZIPF:
		return zipf_next(keys);
	case KEYS_SEQUENTIAL:
		key = keys->state;
		keys->state = key + 1 < count ? key + 1 : 0;
		return key;
	case KEYS_SINGLE:
		break;
	}
	return 0;
}
