/*
 * key_count.c: shows how many keys a server counts, which is an estimate if its table is large.
 */
#include "cli/remote/status/key_count.h"

#include "base/number.h"

/*
 * In a large table the server counts the keys of a sample, each of which stands for `weight` keys.
 * If the table has five times as many, the sample has one of them, but for one chance in 150.
 */
bool key_count_text(const struct key_count *count, char text[KEY_COUNT_TEXT_MAX])
{
	uint64_t keys = json_value_u64(count->keys), weight = json_value_u64(count->sample_weight);
	unsigned long long capacity = json_value_u64(count->capacity);

	if (slice_equal(count->keys, SLICE("null")))
		return false;
	if (weight > 1 && keys == 0)
		snprintf(text, KEY_COUNT_TEXT_MAX, "fewer than %llu of %llu",
		         (unsigned long long)(5 * weight), capacity);
	else
		snprintf(text, KEY_COUNT_TEXT_MAX, "%s%llu of %llu", weight > 1 ? "about " : "",
		         (unsigned long long)keys, capacity);
	return true;
}
