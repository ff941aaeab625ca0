/* Tests a random limit with priorities, in virtual time: the lowest lose the share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "algo/priority/priority.h"
#include "base/prng.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

static struct algo_limit limit;

static void begin(double deny)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_RANDOM, .deny = deny};

	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
}

static bool passes(enum algo_op op, unsigned priority, uint64_t draw, uint64_t now_ns)
{
	struct algo_call call = {.op = op, .cost = 1, .draw = draw, .priority = (uint8_t)priority};
	struct algo_time time = {now_ns, 0};
	struct algo_state none = {0};
	struct algo_decision out;

	algo_step(&limit, &call, &time, &none, &out);
	assert_int_equal(out.allowed ? WEIR_REASON_OK : WEIR_REASON_SHED, out.reason);
	return out.allowed;
}

/* The requests of the last 10 s, part by part; each comes at a whole millisecond. */
struct model {
	unsigned char asked[120000];
	size_t count;
};

/* A share of 2^62. */
static uint64_t model_share(const struct model *model, double deny, unsigned priority)
{
	size_t begin = model->count / 1000 < 10 ? 0 : (model->count / 1000 - 9) * 1000;
	uint64_t total = 0, lower = 0, own = 0;
	double left;

	for (size_t i = begin; i <= model->count; i++) {
		total++;
		lower += model->asked[i] > priority;
		own += model->asked[i] == priority;
	}
	left = deny * (double)total - (double)lower;
	if (left >= (double)own)
		return UINT64_C(1) << 62;
	return left <= 0 ? 0 : (uint64_t)(left / (double)own * 0x1p62);
}

/* Draw by draw: a request a millisecond, in mixes that change. */
static void every_decision_is_that_of_a_model(void **unused)
{
	static const double deny = 0.3;
	static struct model model;

	(void)unused;
	begin(deny);
	prng_seed(1);
	for (model.count = 0; model.count < 30000; model.count++) {
		uint64_t draw = prng_next(), share, apart;
		unsigned mix = model.count / 4000;
		unsigned priority = model.count == 0 ? 9 : prng_next() % (1 + mix);
		bool passed = passes(ALGO_ACQUIRE, priority, draw, NOW + model.count * NS_PER_MS);

		model.asked[model.count] = (unsigned char)priority;
		share = model_share(&model, deny, priority);
		draw >>= 2;
		apart = draw < share ? share - draw : draw - share;
		if (apart > UINT64_C(1) << 30) /* nearer draws are too near for the model's arithmetic */
			assert_int_equal(passed, draw >= share);
	}
	algo_limit_free(&limit);
}

struct seen {
	unsigned asked, shed;
};

/* So many requests of each class a millisecond, for so many seconds. */
static void run(struct seen *seen, const unsigned *each, uint64_t from_s, uint64_t seconds)
{
	for (uint64_t ms = 0; ms < seconds * 1000; ms++)
		for (unsigned c = 0; c < PRIORITY_CLASSES; c++)
			for (unsigned i = 0; i < each[c]; i++) {
				seen[c].asked++;
				seen[c].shed +=
				    !passes(ALGO_ACQUIRE, c, prng_next(), NOW + from_s * NS_PER_S + ms * NS_PER_MS);
			}
}

/* Whether that is the share, within a hundredth: of seeded draws, so it is always the same. */
static void expect_share(const struct seen *seen, double share)
{
	double found = (double)seen->shed / seen->asked;

	assert_true(found > share - 0.01 && found < share + 0.01);
}

static void the_total_stays_and_the_lowest_lose_it(void **unused)
{
	static const unsigned each[PRIORITY_CLASSES] = {[0] = 4, [3] = 2, [7] = 1, [9] = 1};
	struct seen seen[PRIORITY_CLASSES] = {0}, all = {0};

	(void)unused;
	begin(0.4); /* of 8 a ms 3.2: all of 9 and 7, and 1.2 of 2 */
	prng_seed(2);
	run(seen, each, 0, 10);
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++) {
		all.asked += seen[c].asked;
		all.shed += seen[c].shed;
	}
	assert_int_equal(seen[0].shed, 0);
	expect_share(&seen[3], 0.6);
	expect_share(&seen[7], 1);
	expect_share(&seen[9], 1);
	expect_share(&all, 0.4);
	algo_limit_free(&limit);
}

/* A flood of low priority loses the whole share, so the others lose no more. */
static void a_flood_of_the_lowest_frees_the_others(void **unused)
{
	static const unsigned alike[PRIORITY_CLASSES] = {[0] = 5};
	static const unsigned flood[PRIORITY_CLASSES] = {[0] = 5, [9] = 60};
	struct seen before[PRIORITY_CLASSES] = {0}, during[PRIORITY_CLASSES] = {0};

	(void)unused;
	begin(0.5);
	prng_seed(3);
	run(before, alike, 0, 4);
	expect_share(&before[0], 0.5);
	run(during, flood, 4, 10);
	assert_true(during[0].shed * 200 < during[0].asked);
	expect_share(&during[9], 32.5 / 60);
	algo_limit_free(&limit);
}

static void the_share_is_changed_live(void **unused)
{
	static const unsigned each[PRIORITY_CLASSES] = {[0] = 3, [5] = 1};
	struct seen first[PRIORITY_CLASSES] = {0}, second[PRIORITY_CLASSES] = {0};
	struct seen third[PRIORITY_CLASSES] = {0};

	(void)unused;
	begin(0);
	prng_seed(4);
	run(first, each, 0, 5);
	assert_int_equal(first[0].shed + first[5].shed, 0);
	assert_int_equal(algo_shed(&limit, 0.5), WEIR_OK);
	run(second, each, 5, 5); /* what was asked before the change counts at once */
	expect_share(&second[5], 1);
	expect_share(&second[0], 1.0 / 3);
	assert_int_equal(algo_shed(&limit, 1), WEIR_OK);
	run(third, each, 10, 1);
	expect_share(&third[0], 1);
	algo_limit_free(&limit);
}

static void a_peek_reports_only_certain_denials_and_writes_nothing(void **unused)
{
	static const unsigned each[PRIORITY_CLASSES] = {[0] = 3, [5] = 1};
	struct seen seen[PRIORITY_CLASSES] = {0};

	(void)unused;
	begin(0.5);
	prng_seed(5);
	assert_true(passes(ALGO_PEEK, 9, 0, NOW));
	run(seen, each, 0, 2);
	for (int i = 0; i < 100000; i++)
		assert_true(passes(ALGO_PEEK, 0, 0, NOW + 2 * NS_PER_S));
	assert_false(passes(ALGO_PEEK, 5, UINT64_MAX, NOW + 2 * NS_PER_S));
	run(seen, each, 2, 2);
	expect_share(&seen[5], 1);
	algo_limit_free(&limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_decision_is_that_of_a_model),
	    cmocka_unit_test(the_total_stays_and_the_lowest_lose_it),
	    cmocka_unit_test(a_flood_of_the_lowest_frees_the_others),
	    cmocka_unit_test(the_share_is_changed_live),
	    cmocka_unit_test(a_peek_reports_only_certain_denials_and_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
