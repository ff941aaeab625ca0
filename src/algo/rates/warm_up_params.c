/*
 * warm_up_params.c: computes the parameters of `warm_up` limits from the rate, `warm_up` and
 * `cold`, and packs these into a layout. The letters are those in the head of warm_up.c.
 */
#include "algo/rates/warm_up_params.h"

#include "base/u256.h"

#define PARTS_MAX (UINT64_C(1) << 20)

static void set_interval(struct warm_up *warm, u128 p, uint64_t q)
{
	uint64_t divisor = gcd_u64(q, (uint64_t)(p % q));

	warm->p = (uint64_t)(p / divisor);
	warm->q = q / divisor;
}

/*
 * Chooses D, at least 1, so that one word can say all q-ths and all parts that are stored after a
 * request: q + (M - 1) D <= WARM_UP_WORDS. If more than 2^31 permits can be stored, that takes a
 * smaller q, which makes T longer. Returns false for more than 2^32.
 */
static bool count_parts(struct warm_up *warm)
{
	/* M = most/one */
	u128 one = part_z(warm), most = (u128)warm->warm_up_ns * z_gain(warm) * warm->q;
	uint64_t q_max = WARM_UP_WORDS, words_of_parts;

	if (most > one * WARM_UP_WORDS)
		return false;
	if (most > one)
		q_max = WARM_UP_WORDS - ((uint64_t)u128_ceil(most, one) - 1); /* with D = 1 */
	if (warm->q > q_max) {
		set_interval(warm, u128_ceil((u128)warm->p * q_max, warm->q), q_max);
		return count_parts(warm);
	}
	warm->parts = PARTS_MAX;
	if (most > one) {
		warm->parts =
		    (uint32_t)u64_min(PARTS_MAX, sat_u64((WARM_UP_WORDS - warm->q) * one / (most - one)));
		warm->between = (uint32_t)u128_ceil((most - one) * warm->parts, one);
	}
	words_of_parts = WARM_UP_WORDS - warm->q;
	warm->full = (uint32_t)u64_min((uint64_t)u128_ceil(most * warm->parts, one), words_of_parts);
	warm->deep = (uint32_t)(words_of_parts - warm->full);
	warm->grains = warm->q * warm->parts;
	return true;
}

bool warm_up_derive(struct warm_up *warm, uint64_t count, uint64_t period_ns, uint64_t warm_up_ns,
                    uint64_t cold_milli)
{
	uint64_t divisor = gcd_u64(cold_milli, WARM_UP_MILLI);

	*warm = (struct warm_up){.count = count,
	                         .warm_up_ns = warm_up_ns,
	                         .a = (uint32_t)(cold_milli / divisor),
	                         .b = (uint32_t)(WARM_UP_MILLI / divisor)};
	set_interval(warm, period_ns, count);
	return count_parts(warm);
}

/*
 * The second number of a layout has W as digits times a power of ten, and f in tenths. If W or f
 * has more digits, COLD_OTHER stands for f, and a hash, which can't be read back, for W.
 */
#define DIGITS_BITS 19
#define ZEROS_BITS  4
#define COLD_SHIFT  (DIGITS_BITS + ZEROS_BITS)
#define COLD_OTHER  511U

static uint32_t pack_layout(uint64_t warm_up_ns, uint64_t cold_milli)
{
	uint64_t digits = warm_up_ns, zeros = 0, tenths = cold_milli / (WARM_UP_MILLI / 10);

	for (; digits % 10 == 0 && zeros < (1U << ZEROS_BITS) - 1; zeros++)
		digits /= 10;
	if (digits >> DIGITS_BITS == 0 && cold_milli % (WARM_UP_MILLI / 10) == 0 && tenths < COLD_OTHER)
		return (uint32_t)(tenths << COLD_SHIFT | zeros << DIGITS_BITS | digits);
	return COLD_OTHER << COLD_SHIFT |
	       (uint32_t)((warm_up_ns * WARM_UP_MILLI + cold_milli) * UINT64_C(0x9e3779b97f4a7c15) >>
	                  (64 - COLD_SHIFT));
}

/* Packs the count, warm_up and cold of the limit. */
struct algo_layout warm_up_layout(const struct warm_up *warm)
{
	return (struct algo_layout){
	    (uint32_t)(warm->count - 1),
	    pack_layout(warm->warm_up_ns, (uint64_t)warm->a * (WARM_UP_MILLI / warm->b))};
}

bool warm_up_read_layout(const struct warm_up *limit, uint64_t period_ns,
                         const struct algo_layout *from, struct warm_up *out)
{
	uint64_t count = (uint64_t)from->first + 1;
	uint64_t tenths = from->second >> COLD_SHIFT;
	uint64_t zeros = from->second >> DIGITS_BITS & ((1U << ZEROS_BITS) - 1);
	u128 warm_up_ns = from->second & ((1U << DIGITS_BITS) - 1);

	/* The limit's own warm_up and cold, which the number may only have as a hash. */
	if (from->second == warm_up_layout(limit).second)
		return warm_up_derive(out, count, period_ns, limit->warm_up_ns,
		                      (uint64_t)limit->a * (WARM_UP_MILLI / limit->b));
	for (; zeros > 0; zeros--)
		warm_up_ns *= 10;
	return tenths >= 10 && tenths != COLD_OTHER && warm_up_ns > 0 &&
	       warm_up_ns <= ALGO_PERIOD_MAX_NS &&
	       warm_up_derive(out, count, period_ns, (uint64_t)warm_up_ns,
	                      tenths * (WARM_UP_MILLI / 10));
}
