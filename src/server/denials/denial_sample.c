/*
 * denial_sample.c: keeps the last denials of a sample in a ring of slots, and lists those of a key,
 * a limit or a rule, or finds one by its id.
 */
#include "server/denials/denial_sample.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "base/time/timestamp.h"

#define JSON_START "{\"id\":\"" /* of each denial's object; the id follows */

/* A denial that is kept. `text` has its JSON object, and then the texts that are searched. */
struct slot {
	uint64_t time_ns;
	struct buffer text;
	size_t json_len, key_len, values_len, limit_len;
	size_t attributes_len; /* of the object before the last brace of the JSON; 0 for none */
};

/*
 * Listing may have a million slots to search, and must not delay a decision, which adds a denial.
 * So it gives `mutex` away after SLOTS_AT_ONCE slots. Each thread takes `turn` before it waits for
 * `mutex`, and holds it until then. Therefore a lister that comes back waits behind an adder.
 */
#define SLOTS_AT_ONCE 64

struct denial_sample {
	pthread_mutex_t turn, mutex;
	uint64_t next; /* the number of the next denial; denial n is in slot n % slot_count */
	uint64_t id_base;
	size_t slot_count;
	struct slot slots[];
};

static void lock_sample(struct denial_sample *sample)
{
	pthread_mutex_lock(&sample->turn);
	pthread_mutex_lock(&sample->mutex);
	pthread_mutex_unlock(&sample->turn);
}

static void unlock_sample(struct denial_sample *sample)
{
	pthread_mutex_unlock(&sample->mutex);
}

struct denial_sample *denial_sample_open(size_t keep)
{
	struct denial_sample *sample = NULL;

	if (keep > 0)
		sample = calloc(1, sizeof *sample + keep * sizeof sample->slots[0]);
	if (!sample)
		return NULL;
	if (os_random(&sample->id_base, sizeof sample->id_base) != 0) {
		free(sample);
		return NULL;
	}
	pthread_mutex_init(&sample->turn, NULL);
	pthread_mutex_init(&sample->mutex, NULL);
	sample->slot_count = keep;
	return sample;
}

void denial_sample_close(struct denial_sample *sample)
{
	if (!sample)
		return;
	for (size_t i = 0; i < sample->slot_count; i++)
		buffer_free(&sample->slots[i].text);
	pthread_mutex_destroy(&sample->mutex);
	pthread_mutex_destroy(&sample->turn);
	free(sample);
}

size_t denial_sample_capacity(const struct denial_sample *sample)
{
	return sample ? sample->slot_count : 0;
}

static void add_member(struct buffer *out, const char *name, struct slice text)
{
	buffer_printf(out, ",\"%s\":", name);
	buffer_add_json_string(out, text);
}

/* The rule's name, which is empty if the request names its limit. */
static struct slice rule_of(const struct denial *denial)
{
	return denial->rule ? slice_of(denial->rule) : (struct slice){"", 0};
}

static void add_json(struct buffer *out, const struct denial *denial, const char *id,
                     struct slice attributes)
{
	uint64_t retry_after_ms = (denial->retry_after_ns + NS_PER_MS - 1) / NS_PER_MS;

	buffer_printf(out, JSON_START "%s\",\"time\":\"", id);
	timestamp_add_date(out, denial->time_ns);
	buffer_add(out, "\"", 1);
	add_member(out, "rule", rule_of(denial));
	add_member(out, "limit", slice_of(denial->limit));
	add_member(out, "key", denial->key);
	buffer_printf(out, ",\"reason\":\"%s\",\"retry_after_ms\":", weir_reason_text(denial->reason));
	buffer_add_u64(out, retry_after_ms);
	buffer_printf(out, ",\"shadow\":%s,\"attributes\":", denial->shadow ? "true" : "false");
	if (attributes.len > 0)
		buffer_add_slice(out, attributes);
	else
		buffer_add(out, "{}", 2);
	buffer_add(out, "}", 1);
}

/*
 * An id that no other server or earlier process is likely to have given: numbers in the order of an
 * odd step from a random one.
 */
static void write_id(const struct denial_sample *sample, uint64_t number, char id[DENIAL_ID_TEXT])
{
	uint64_t value = sample->id_base + number * UINT64_C(0x9e3779b97f4a7c15);

	snprintf(id, DENIAL_ID_TEXT, "%016llx", (unsigned long long)value);
}

/* Writes the denial to the next slot. Returns that slot; its text has failed if memory is short. */
static struct slot *fill_next_slot(struct denial_sample *sample, const struct denial *denial,
                                   const char *id)
{
	const struct slice none = {NULL, 0};
	struct slot *slot = &sample->slots[sample->next % sample->slot_count];

	buffer_free(&slot->text);
	add_json(&slot->text, denial, id, denial->attributes);
	slot->attributes_len = denial->attributes.len;
	if (slot->text.len > DENIAL_TEXT_MAX) {
		buffer_free(&slot->text);
		add_json(&slot->text, denial, id, none);
		slot->attributes_len = 0;
	}
	slot->time_ns = denial->time_ns;
	slot->json_len = slot->text.len;
	slot->key_len = denial->key.len;
	slot->values_len = denial->values.len;
	slot->limit_len = strlen(denial->limit);
	buffer_add_slice(&slot->text, denial->key);
	buffer_add_slice(&slot->text, denial->values);
	buffer_add_text(&slot->text, denial->limit);
	buffer_add_slice(&slot->text, rule_of(denial));
	sample->next++;
	return slot;
}

bool denial_sample_add(struct denial_sample *sample, const struct denial *denial,
                       char id[DENIAL_ID_TEXT], struct buffer *json)
{
	const struct slot *slot;
	bool stored;

	lock_sample(sample);
	write_id(sample, sample->next, id);
	slot = fill_next_slot(sample, denial, id);
	stored = !slot->text.failed;
	if (stored && json)
		buffer_add(json, slot->text.data, slot->json_len);
	unlock_sample(sample);
	return stored;
}

void denial_sample_restore(struct denial_sample *sample, const struct denial *denial,
                           const char *id)
{
	lock_sample(sample);
	fill_next_slot(sample, denial, id);
	unlock_sample(sample);
}

/* Cuts the first `len` bytes off the text. */
static struct slice cut(struct slice *text, size_t len)
{
	struct slice first = {text->data, len};

	text->data += len;
	text->len -= len;
	return first;
}

static bool has_digest(struct slice values, struct slice digest)
{
	while (values.len >= DENIAL_DIGEST)
		if (slice_equal(cut(&values, DENIAL_DIGEST), digest))
			return true;
	return false;
}

/*
 * Whether an attribute has that value. Both are escaped as buffer_add_json does it, so that equal
 * values have equal texts. Few attributes contain the text at all, and only those are read.
 */
static bool has_attribute(struct slice attributes, struct slice value)
{
	struct json json = json_of(attributes);
	struct slice name, text;

	if (value.len == 0 || !memmem(attributes.data, attributes.len, value.data, value.len) ||
	    !json_open(&json, '{'))
		return false;
	while (json_more(&json, '}') && json_name(&json, &name) && json_text(&json, &text))
		if (slice_equal(text, value))
			return true;
	return false;
}

/* The texts of a slot that a filter compares. */
struct searched {
	struct slice key, values, limit, rule, attributes;
};

/* `escaped` is `wanted` as it stands in JSON. */
static bool is_of_key(struct slice wanted, struct slice escaped, const struct searched *texts)
{
	return slice_equal(wanted, texts->key) || has_digest(texts->values, wanted) ||
	       has_attribute(texts->attributes, escaped);
}

static bool admits_key(const struct denial_filter *filter, const struct searched *texts)
{
	struct slice digests = filter->key_digests;

	if (filter->key.len == 0 || is_of_key(filter->key, filter->escaped_key, texts))
		return true;
	while (digests.len >= DENIAL_DIGEST) {
		struct slice digest = cut(&digests, DENIAL_DIGEST);

		if (is_of_key(digest, digest, texts))
			return true;
	}
	return false;
}

static bool admits_id(const struct denial_filter *filter, struct slice json)
{
	return filter->id.len == 0 || (slice_skip(&json, SLICE(JSON_START)) &&
	                               slice_equal_nocase(filter->id, cut(&json, DENIAL_ID_TEXT - 1)));
}

static bool admits_time(const struct denial_filter *filter, uint64_t time_ns)
{
	return time_ns >= filter->since_ns &&
	       (filter->until_ns == 0 || time_ns / NS_PER_S <= filter->until_ns / NS_PER_S);
}

static bool admits(const struct denial_filter *filter, const struct slot *slot)
{
	struct slice text = {slot->text.data, slot->text.len}, json;
	struct searched texts;

	if (slot->text.failed || slot->text.len == 0 || !admits_time(filter, slot->time_ns))
		return false;
	json = cut(&text, slot->json_len);
	if (!admits_id(filter, json))
		return false;
	texts.attributes =
	    (struct slice){json.data + json.len - 1 - slot->attributes_len, slot->attributes_len};
	texts.key = cut(&text, slot->key_len);
	texts.values = cut(&text, slot->values_len);
	texts.limit = cut(&text, slot->limit_len);
	texts.rule = text;
	return admits_key(filter, &texts) &&
	       (filter->limit.len == 0 || slice_equal(filter->limit, texts.limit)) &&
	       (filter->rule.len == 0 || slice_equal(filter->rule, texts.rule));
}

bool denial_sample_restore_admitted(struct denial_sample *sample,
                                    const struct denial_filter *filter, const struct denial *denial,
                                    const char *id)
{
	bool is_admitted = false;

	if (!admits_time(filter, denial->time_ns))
		return false;
	lock_sample(sample);
	is_admitted = admits(filter, fill_next_slot(sample, denial, id));
	sample->next -= !is_admitted; /* the slot is filled again, and is not listed meanwhile */
	unlock_sample(sample);
	return is_admitted;
}

static uint64_t count_kept(const struct denial_sample *sample)
{
	return u64_min(sample->next, sample->slot_count);
}

/* How far a listing is. */
struct listing {
	const struct denial_filter *filter;
	struct buffer *out;
	uint64_t next; /* denials from this number on are done */
	size_t count;
};

/*
 * Appends those of the next SLOTS_AT_ONCE denials that the filter admits, the newest first. Returns
 * false at the end: the oldest denial was done, or has been replaced meanwhile.
 */
static bool list_some(struct denial_sample *sample, struct listing *listing)
{
	uint64_t oldest = sample->next - count_kept(sample);

	for (size_t i = 0; i < SLOTS_AT_ONCE; i++) {
		const struct slot *slot;

		if (listing->next <= oldest || listing->count == listing->filter->count_max)
			return false;
		slot = &sample->slots[--listing->next % sample->slot_count];
		if (!admits(listing->filter, slot))
			continue;
		buffer_add(listing->out, ",", listing->count > 0);
		buffer_add(listing->out, slot->text.data, slot->json_len);
		listing->count++;
	}
	return true;
}

/* Appends the denials that the filter admits, separated by commas. */
static void list_admitted(struct denial_sample *sample, const struct denial_filter *filter,
                          struct buffer *out)
{
	struct listing listing = {filter, out, 0, 0};
	bool goes_on;

	lock_sample(sample);
	listing.next = sample->next;
	unlock_sample(sample);
	do {
		/* so that the buffer does not grow, and so is not copied, under the lock */
		if (!buffer_reserve(out, SLOTS_AT_ONCE * (DENIAL_TEXT_MAX + 1)))
			return;
		lock_sample(sample);
		goes_on = list_some(sample, &listing);
		unlock_sample(sample);
	} while (goes_on);
}

void denial_sample_list(struct denial_sample *sample, const struct denial_filter *filter,
                        struct buffer *out)
{
	buffer_add(out, "[", 1);
	if (sample)
		list_admitted(sample, filter, out);
	buffer_add(out, "]", 1);
}

/* Whether the slot's denial, if it has one, is by the limit and shows the key. */
static bool shows_key(const struct slot *slot, struct slice limit, struct slice key)
{
	struct slice text = {slot->text.data, slot->text.len};

	if (slot->text.failed || slot->text.len == 0)
		return false;
	cut(&text, slot->json_len);
	if (!slice_equal(cut(&text, slot->key_len), key))
		return false;
	cut(&text, slot->values_len);
	return slice_equal(cut(&text, slot->limit_len), limit);
}

bool denial_sample_has_key(struct denial_sample *sample, struct slice limit, struct slice key)
{
	bool found = false;
	uint64_t n;

	lock_sample(sample);
	n = u64_min(count_kept(sample), DENIAL_SEARCHED_MAX);
	for (uint64_t i = 1; i <= n && !found; i++)
		found = shows_key(&sample->slots[(sample->next - i) % sample->slot_count], limit, key);
	unlock_sample(sample);
	return found;
}

size_t denial_sample_count(struct denial_sample *sample, uint64_t *oldest_ns)
{
	size_t n;

	lock_sample(sample);
	n = count_kept(sample);
	*oldest_ns = sample->slots[(sample->next - n) % sample->slot_count].time_ns;
	unlock_sample(sample);
	return n;
}
