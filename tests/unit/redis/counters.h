/*
 * counters.h: commands for tests of a client that need no algorithm: counters that grant up to the
 * limit's quota. If the key's name has "again", the first two tries change nothing; if it has
 * "nonsense", the reply is invalid. There are two scripts: for calls of one command, and of
 * several.
 */
#ifndef TEST_REDIS_COUNTERS_H
#define TEST_REDIS_COUNTERS_H

#include <openssl/evp.h>

#include "redis/commands/redis_command.h"
#include "redis/network/connection.h"

#define STEPS_WORDS_MAX (3 + 5 * CALL_COMMANDS_MAX)

static const char *const steps_sources[2] = {
    /* For each command: key; cost, times, quota, group. */
    "local answer, refused = {redis.call('TIME')[1]}, {} "
    "for i, key in ipairs(KEYS) do "
    "  local cost, most, group = ARGV[4 * i - 3] + 0, ARGV[4 * i - 1] + 0, ARGV[4 * i] "
    "  local used = tonumber(redis.call('GET', key) or 0) "
    "  if group ~= '0' and used + cost > most then refused[group] = true end "
    "end "
    "for i, key in ipairs(KEYS) do "
    "  local cost, times, most = ARGV[4 * i - 3] + 0, ARGV[4 * i - 2] + 0, ARGV[4 * i - 1] + 0 "
    "  local used, granted = tonumber(redis.call('GET', key) or 0), 0 "
    "  local fits = used + cost <= most "
    "  while not refused[ARGV[4 * i]] and granted < times and used + cost <= most do "
    "    used, granted = used + cost, granted + 1 "
    "  end "
    "  if granted > 0 then redis.call('SET', key, used) end "
    "  answer[i + 1] = {granted, most - used, fits and refused[ARGV[4 * i]] and 1 or 0} "
    "end "
    "return answer",
    "local most, cost, granted = ARGV[3] + 0, ARGV[1] + 0, 0 "
    "local used = tonumber(redis.call('GET', KEYS[1]) or 0) "
    "while granted < ARGV[2] + 0 and used + cost <= most do "
    "  used, granted = used + cost, granted + 1 "
    "end "
    "if granted > 0 then redis.call('SET', KEYS[1], used) end "
    "return {redis.call('TIME')[1], {granted, most - used, 0}}",
};

static inline bool steps_name_has(struct slice name, const char *part)
{
	return memmem(name.data, name.len, part, strlen(part)) != NULL;
}

static inline struct slice steps_number(uint64_t number)
{
	static _Thread_local char room[STEPS_WORDS_MAX][24];
	static _Thread_local size_t used;
	char *at = room[used++ % STEPS_WORDS_MAX];

	return (struct slice){at, (size_t)(format_u64(at, number) - at)};
}

void command_key(struct buffer *out, const char *prefix, struct slice key, const char *limit)
{
	buffer_printf(out, "%s{%.*s}:%s", prefix, (int)key.len, key.data, limit);
}

const struct script_text *command_recovery_script(void)
{
	static const struct script_text probe = {"return 1\n", "of the probe"};

	return &probe;
}

int command_write(struct redis_command *const *steps, size_t n, struct buffer *out,
                  struct script_text *call)
{
	struct slice words[STEPS_WORDS_MAX] = {SLICE("EVALSHA")};
	unsigned char digest[EVP_MAX_MD_SIZE];
	size_t at = 3;

	call->source = steps_sources[n == 1];
	EVP_Digest(call->source, strlen(call->source), digest, NULL, EVP_sha1(), NULL);
	for (size_t i = 0; i < 20; i++)
		sprintf(call->sha + 2 * i, "%02x", digest[i]);
	words[1] = slice_of(call->sha);
	words[2] = steps_number(n);
	for (size_t i = 0; i < n; i++)
		words[at++] = steps[i]->key;
	for (size_t i = 0; i < n; i++) {
		words[at++] = steps_number(steps[i]->call.cost);
		words[at++] = steps_number(steps[i]->request_count);
		words[at++] = steps_number(steps[i]->limit->quota);
		words[at++] = steps_number(steps[i]->group);
	}
	connection_write_words(out, words, at);
	return WEIR_OK;
}

enum command_end command_read(struct redis_command *const *steps, size_t n, size_t i,
                              const struct redis_reply *reply, struct command_result *out)
{
	struct redis_command *step = steps[i];
	const struct redis_reply *items;

	(void)n;

	if (reply->type != REDIS_ARRAY || reply->count < i + 2 || reply->items[i + 1].count != 3 ||
	    steps_name_has(step->key, "nonsense"))
		return out->end = COMMAND_FAILED;
	if (steps_name_has(step->key, "again") && ++step->attempt.tries < 3)
		return out->end = COMMAND_AGAIN;
	items = reply->items[i + 1].items;
	for (int64_t k = 0; k < step->request_count; k++) {
		out->outcomes[k] = (struct algo_decision){
		    .allowed = k < items[0].integer,
		    .remaining = (uint64_t)items[1].integer,
		    .retry_after_ns = k < items[0].integer ? 0 : NS_PER_S,
		};
		out->until_ns[k] = out->outcomes[k].allowed ? 1 : 0;
	}
	out->outcomes[0].allowed |= items[2].integer == 1;
	return out->end = items[2].integer == 1 ? COMMAND_WITHHELD : COMMAND_DONE;
}

uint64_t command_clock(const struct redis_reply *reply, size_t n)
{
	return reply->type == REDIS_ARRAY && reply->count > n;
}

void command_free_swap(struct redis_command *step)
{
	(void)step;
}

#endif
