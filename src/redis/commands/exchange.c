/*
 * exchange.c: builds and reads the messages by which the servers of a *quorum group* (servers that
 * decide a breaker's phases together) exchange votes and reports through a script of Redis.
 */
#include "redis/commands/exchange.h"

#include "redis/commands/command_words.h"
#include "redis/commands/redis_command.h"

/*
 * The longest time between the grant of a probe and the report of its outcome, twice the limit's
 * `probe`: until a request comes for it, and until that ends.
 */
static uint64_t probe_lifetime_us(const struct breaker_params *params)
{
	return 2 * params->probe_ns / 1000;
}

void exchange_begin_votes(struct exchange *exchange, const struct exchange_server *server)
{
	const struct breaker_params *params = &exchange->operation.step.limit->breaker;
	struct numbers numbers = {0};

	exchange->message.len = 0;
	exchange->word_count = 2;
	NUMBERS_ADD(&numbers, server->known_version, server->rejoining, params->quorum,
	            params->sleep_ns / 1000, params->probes, probe_lifetime_us(params),
	            params->judges_probes_together, params->failure_percent,
	            params->slow_ns ? params->slow_percent : 0, server->lease_ns / 1000,
	            params->sleep_max_ns / 1000);
	add_word(&exchange->message, slice_of(server->id));
	add_numbers_word(&exchange->message, &numbers);
}

/* Both messages of reports begin with the lifetime of the list, in milliseconds. */
static void begin_report_message(struct exchange *exchange, uint64_t life_ns, size_t words)
{
	struct numbers numbers = {0};

	exchange->message.len = 0;
	exchange->word_count = words;
	numbers_add(&numbers, life_ns / 1000000 + 1);
	add_numbers_word(&exchange->message, &numbers);
}

void exchange_begin_report(struct exchange *exchange, struct slice report, uint64_t life_ns)
{
	begin_report_message(exchange, life_ns, 2);
	add_word(&exchange->message, report);
}

void exchange_begin_fetch(struct exchange *exchange)
{
	begin_report_message(exchange, 0, 1);
}

#define ENTRY_MAX (1 + 5 * sizeof(double) + WEIR_KEY_MAX)

void exchange_add_entry(struct exchange *exchange, const struct exchange_entry *entry)
{
	char text[ENTRY_MAX] = {(char)entry->kind};
	struct numbers numbers = {0};
	size_t size;

	NUMBERS_ADD(&numbers, entry->follows_version, entry->counts[0], entry->counts[1],
	            entry->counts[2], entry->counts[3]);
	size = numbers.count * sizeof(double);
	memcpy(text + 1, numbers.bytes, size);
	if (entry->key.len > 0)
		memcpy(text + 1 + size, entry->key.data, entry->key.len);
	add_word(&exchange->message, (struct slice){text, 1 + size + entry->key.len});
	exchange->word_count++;
}

/* The last words of the names of the keys of a message. */
static const char *const key_suffixes[EXCHANGE_KEYS] = {"keys", "turns", "ends", "servers"};

void exchange_key(struct buffer *out, const char *prefix, const struct exchange *exchange)
{
	buffer_add_text(out, prefix);
	command_key(out,
	            exchange->operation.step.call.op == ALGO_EXCHANGE_REPORTS ? "reports:" : "quorum:",
	            slice_of(exchange->operation.limit_name), key_suffixes[0]);
}

void exchange_write_keys(struct slice first, struct buffer *out)
{
	struct buffer key = {0};

	for (size_t i = 0; i < EXCHANGE_KEYS; i++) {
		key.len = 0;
		buffer_add(&key, first.data, first.len - strlen(key_suffixes[0]));
		buffer_add_text(&key, key_suffixes[i]);
		add_word(out, (struct slice){key.data, key.len});
	}
	out->failed |= key.failed;
	buffer_free(&key);
}

void exchange_write(const struct exchange *exchange, struct buffer *out)
{
	buffer_add(out, exchange->message.data, exchange->message.len);
	out->failed |= exchange->message.failed;
}

bool exchange_read_answer(struct exchange *exchange, const struct redis_reply *reply)
{
	const struct redis_reply *text = reply->items;

	exchange->answer.len = 0;
	if (reply->type != REDIS_ARRAY || reply->count != 2 || text->type != REDIS_TEXT)
		return false;
	buffer_add_slice(&exchange->answer, text->text);
	return !exchange->answer.failed;
}

/* Removes bytes from the front of a text. Returns false if it has fewer. */
static bool take_bytes(struct slice *from, void *to, size_t size)
{
	if (from->len < size)
		return false;
	memcpy(to, from->data, size);
	*from = (struct slice){from->data + size, from->len - size};
	return true;
}

/* Removes a double in little-endian order. One that is not between 0 and 2^53 reads as 0. */
static bool take_double(struct slice *from, uint64_t *out)
{
	uint64_t bits;
	double value;

	if (!take_bytes(from, &bits, sizeof bits))
		return false;
	bits = le64toh(bits);
	memcpy(&value, &bits, sizeof value);
	*out = value > 0 && value < 0x1p53 ? (uint64_t)value : 0;
	return true;
}

/* Removes a text that follows its length, two bytes in little-endian order. */
static bool take_text(struct slice *from, struct slice *text)
{
	unsigned char size[2];

	if (!take_bytes(from, size, 2))
		return false;
	*text = (struct slice){from->data, (size_t)size[0] | (size_t)size[1] << 8};
	if (text->len > from->len)
		return false;
	*from = (struct slice){from->data + text->len, from->len - text->len};
	return true;
}

bool exchange_read_event(struct slice *answer, struct exchange_event *event)
{
	unsigned char kind;
	uint64_t age_us;

	if (!take_bytes(answer, &kind, 1) || !take_double(answer, &event->version) ||
	    !take_double(answer, &age_us) || !take_double(answer, &event->count) ||
	    !take_text(answer, &event->key))
		return false;
	event->kind = kind;
	event->age_ns = age_us <= UINT64_MAX / 1000 ? age_us * 1000 : UINT64_MAX;
	return true;
}

bool exchange_read_report(struct slice *answer, struct slice *report)
{
	return take_text(answer, report);
}

void exchange_free(struct exchange *exchange)
{
	buffer_free(&exchange->message);
	buffer_free(&exchange->answer);
}
