#include "load/keys.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/prng.h"
#include "base/error.h"
#include "base/number.h"

#define EXPONENT_MAX 100

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
	} plain[] = {
	    {SLICE("uniform"), KEYS_UNIFORM},
	    {SLICE("sequential"), KEYS_SEQUENTIAL},
	    {SLICE("single"), KEYS_SINGLE},
	};
	struct slice exponent = text;

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (slice_equal(text, plain[i].name)) {
			out->kind = plain[i].kind;
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
 * (Hörmann and Derflinger, "Rejection-inversion to generate variates from
 * monotone discrete distributions", 1996), which needs no table. A point
 * below the integral H of h is drawn and inverted to x, which rounds to k. The key k is
 * accepted if the point lies in the last h(k) of H before k + 1/2, because there a
 * column of h(k) fits under the convex h. `accept` is a distance between k and
 * x within which that holds for all k; it accepts most draws.
 */

/* (e^t - 1) / t and log(1 + t) / t, which tend to 1. */
static double expm1_over(double t)
{
	return fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2;
}

static double log1p_over(double t)
{
	return fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2;
}

static double weight(double s, double x)
{
	return exp(-s * log(x));
}

/* The integral of `weight` from 1 to x, in a form that includes s = 1. */
static double integral(double s, double x)
{
	return log(x) * expm1_over((1 - s) * log(x));
}

static double integral_inverse(double s, double y)
{
	return exp(log1p_over(fmax(y * (1 - s), -1)) * y);
}

static void zipf_start(struct keys *keys)
{
	double s = keys->options.exponent;

	keys->first = integral(s, 1.5) - 1;
	keys->last = integral(s, (double)keys->options.count + 0.5);
	keys->accept = 2 - integral_inverse(s, integral(s, 2.5) - weight(s, 2));
}

static uint64_t zipf_next(struct keys *keys)
{
	double s = keys->options.exponent;

	for (;;) {
		double u = (double)(prng_step(&keys->state) >> 11) * 0x1p-53;
		double y = keys->last + u * (keys->first - keys->last);
		double x = integral_inverse(s, y);
		double k = fmin(fmax(floor(x + 0.5), 1), (double)keys->options.count);

		if (k - x <= keys->accept || y >= integral(s, k + 0.5) - weight(s, k))
			return (uint64_t)k - 1;
	}
}

void keys_start(struct keys *keys, const struct keys_options *options, uint64_t seed, size_t part,
                size_t parts)
{
	*keys = (struct keys){.options = *options, .state = seed};
	if (options->kind == KEYS_SEQUENTIAL) {
		keys->state = (uint64_t)((u128)options->count * part / parts);
		return;
	}
	for (size_t i = 0; i < part; i++)
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
