/*
 * command_arguments.c: writes the arguments of commands in a call of a script, for each kind of
 * command in the form in which the script unpacks them (scripts/).
 *
 * Most kinds have one argument: texts with a NUL after each, then numbers for struct.unpack of Lua.
 * One argument costs Redis less than several.
 *
 * A unit of a bucket is a time of p/q nanoseconds. To be exact, scripts get such times in *parts*,
 * of which a nanosecond has q (command_words.h).
 */
#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "base/number.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/value.h"
#include "scripts.h" /* made by scripts/embed.py */

#define TEXTS_MAX (VALUE_HEADER_MAX + 2 * (TIME_DIGITS_MAX + 1))

/* The header of the key's value, which names the limit's parameters. Returns its end. */
static char *add_header(char *at, const struct redis_command *command)
{
	at += value_header(command->limit, at);
	*at++ = '\0';
	return at;
}

/* Adds the header, and its length as text, which SETRANGE needs. */
static char *add_bucket_texts(char *texts, const struct redis_command *command)
{
	char *at = add_header(texts, command);

	at = format_u64(at, (uint64_t)(at - texts) - 1);
	*at++ = '\0';
	return at;
}

/*
 * How far ahead the bucket may be used up after the request, in parts (q of a nanosecond): as the
 * limit allows, or less if the request accepts only a shorter wait. A max_wait_ns of 0 means any
 * wait, and WEIR_ZERO none.
 */
static u128 accepted_depth_parts(const struct bucket_params *params, const struct algo_call *call)
{
	u128 depth_parts = parts_of(params->depth, params->q);
	u128 accepted_parts = parts_of(params->at_once, params->q);

	if (call->max_wait_ns == 0)
		return depth_parts;
	if (call->max_wait_ns != WEIR_ZERO)
		accepted_parts += (u128)call->max_wait_ns * params->q;
	return accepted_parts < depth_parts ? accepted_parts : depth_parts;
}

static void add_bucket_numbers(struct numbers *numbers, const struct redis_command *command)
{
	const struct bucket_params *params = &command->limit->bucket;

	NUMBERS_ADD(numbers, params->q, command->request_count);
	numbers_add_parts(numbers, (u128)command->call.cost * params->p, params->q);
	numbers_add_parts(numbers, accepted_depth_parts(params, &command->call), params->q);
	numbers_add(numbers, value_block_us(command->limit));
}

/* The best estimate of Redis's clock: that at its last reply, or before one this server's clock. */
static struct moment estimated_time(const struct redis_command *command)
{
	uint64_t redis_clock_ns = command->attempt.redis_clock_ns;

	return command_moment(command, redis_clock_ns ? redis_clock_ns : command->local_time.wall_ns);
}

/* The window that is open now, if the estimated time is right; the script checks that. */
static struct algo_window present_window(const struct redis_command *command)
{
	return algo_window_at(command->limit, estimated_time(command).wall_ns);
}

/*
 * Adds a calendar window as three numbers: its start, its end, and the latest end that a valid
 * value may have: later by a period and an eighth. For a limit without a calendar adds 0 and the
 * period.
 */
static void add_calendar_window(struct numbers *numbers, const struct redis_command *command)
{
	const struct algo_limit *limit = command->limit;
	uint64_t period_ns = limit->period_ns;
	struct algo_window window;

	if (!algo_has_calendar(limit)) {
		numbers_add(numbers, 0);
		numbers_add_ns(numbers, period_ns);
		return;
	}
	window = present_window(command);
	NUMBERS_ADD(numbers, window.start_ns / 1000, window.end_ns / 1000,
	            (window.end_ns + period_ns + period_ns / 8) / 1000);
}

/* Adds the header with the end of the calendar's window, and the length of that text. */
static char *add_window_texts(char *texts, const struct redis_command *command)
{
	char *at = texts + value_header(command->limit, texts);

	if (algo_has_calendar(command->limit)) {
		at = format_u64(at, present_window(command).end_ns / 1000);
		*at++ = ' ';
	}
	*at = '\0';
	at = format_u64(at + 1, (uint64_t)(at - texts));
	*at++ = '\0';
	return at;
}

static void add_window_numbers(struct numbers *numbers, const struct redis_command *command)
{
	char header[VALUE_HEADER_MAX];

	NUMBERS_ADD(numbers, value_header(command->limit, header), command->request_count,
	            command->call.cost, command->limit->quota);
	add_calendar_window(numbers, command);
}

/* The slot at the present time, if the estimated time is right; the script checks that. */
static uint64_t present_slot(const struct redis_command *command)
{
	return slots_number(&command->limit->slots, estimated_time(command).now_ns);
}

/* Adds the header, and the time until which the present slot counts. */
static char *add_slots_texts(char *texts, const struct redis_command *command)
{
	const struct slots_params *slots = &command->limit->slots;
	uint64_t until_ns = slots_start(slots, present_slot(command)) + slots->period_ns;
	char *at = add_header(texts, command);

	at = format_u64(at, until_ns % 1000 ? until_ns : until_ns / 1000);
	*at++ = '\0';
	return at;
}

static void add_slots_numbers(struct numbers *numbers, const struct redis_command *command)
{
	const struct slots_params *slots = &command->limit->slots;
	uint64_t slot = present_slot(command);

	NUMBERS_ADD(numbers, command->request_count, command->call.cost, command->limit->quota);
	numbers_add_ns(numbers, slots_start(slots, slot));
	numbers_add_ns(numbers, slots_start(slots, slot + 1));
	numbers_add(numbers, slots->weighted ? slots->slot_ns / 1000 : 0);
}

/* A list's lifetime is renewed when its end reaches into another block of time, of this length. */
static uint64_t list_block_us(uint64_t life_ns)
{
	return u64_max(life_ns / 8, NS_PER_S) / 1000;
}

/*
 * Adds the operation, the wanted number of requests and the cost. A refund of nothing becomes a
 * peek that wants nothing, so it passes.
 */
static void add_list_operation(struct numbers *numbers, const struct redis_command *command)
{
	const struct algo_call *call = &command->call;
	bool only_reads = command_only_reads(command);

	_Static_assert(ALGO_ACQUIRE == 0 && ALGO_PEEK == 1 && ALGO_REFUND == 2 && ALGO_RESET == 3 &&
	                   ALGO_REPLACE == 4 && ALGO_REFUND_REPLACED == 5 && ALGO_REFUND_LAST == 6,
	               "scripts/uses.lua knows them by number");
	NUMBERS_ADD(numbers, only_reads ? ALGO_PEEK : call->op,
	            only_reads && algo_op_releases(call->op) ? 0 : command->request_count,
	            u64_max(call->cost, 1));
}

/* Adds how many units of a list may be in use, for how long a use counts, and its block of time. */
static void add_use_lifetime(struct numbers *numbers, const struct redis_command *command,
                             uint64_t life_ns)
{
	numbers_add(numbers, command->limit->quota);
	numbers_add_ns(numbers, life_ns);
	numbers_add(numbers, list_block_us(life_ns));
}

static void add_log_numbers(struct numbers *numbers, const struct redis_command *command)
{
	add_list_operation(numbers, command);
	add_use_lifetime(numbers, command, command->limit->log.period_ns);
	numbers_add_ns(numbers, command->call.until_ns);
}

/* Adds what all commands of a run on a concurrency limit share. */
static void add_places_numbers(struct numbers *numbers, const struct redis_command *command)
{
	add_use_lifetime(numbers, command, command->limit->leases.lease_ns);
}

/* Adds the numbers of each command of a run on a concurrency limit. */
static void add_place_numbers(struct numbers *numbers, const struct redis_command *command)
{
	add_list_operation(numbers, command);
	numbers_add(numbers, leases_word(command->call.permit));
	numbers_add_ns(numbers, command->call.until_ns);
}

static void add_bucket_refund_numbers(struct numbers *numbers, const struct redis_command *command)
{
	const struct bucket_params *params = &command->limit->bucket;
	uint64_t cost = u64_min(command->call.cost, params->burst);

	numbers_add_ns(numbers, command->call.until_ns);
	numbers_add(numbers, params->q);
	numbers_add_parts(numbers, (u128)cost * params->p, params->q);
	numbers_add(numbers, bucket_refunds_newest(params));
}

static void add_window_refund_numbers(struct numbers *numbers, const struct redis_command *command)
{
	numbers_add_ns(numbers, command->call.until_ns);
	numbers_add(numbers, command->call.cost);
	add_calendar_window(numbers, command);
}

static void add_slots_refund_numbers(struct numbers *numbers, const struct redis_command *command)
{
	numbers_add_ns(numbers, command->call.until_ns);
	numbers_add(numbers, command->call.cost);
	numbers_add_ns(numbers, command->limit->slots.period_ns);
}

/* Adds an acquire or a refund of `base`, an allowance for each day. */
static void add_day_numbers(struct numbers *numbers, const struct redis_command *command)
{
	const struct day_params *day = &command->limit->day;
	struct algo_window today = present_window(command);

	NUMBERS_ADD(numbers, algo_op_releases(command->call.op), command->request_count,
	            command->call.cost, day->free, day->count, today.start_ns / 1000,
	            today.end_ns / 1000);
	numbers_add_ns(numbers, day->period_ns);
	numbers_add_ns(numbers, command->call.until_ns);
}

/* Adds the operation on a key of which servers hold chunks. */
static void add_chunk_operation(struct numbers *numbers, const struct redis_command *command,
                                uint64_t cost)
{
	const struct algo_call *call = &command->call;
	bool is_refund = algo_op_releases(call->op);

	NUMBERS_ADD(numbers, command_only_reads(command) && !is_refund ? ALGO_PEEK : call->op,
	            command->settlement.all_or_nothing, command->request_count,
	            is_refund ? cost : u64_max(cost, 1));
	numbers_add_ns(numbers, is_refund ? call->until_ns : 0);
}

/*
 * Adds the operation and the parameters of the bucket, then the settlement of this server's chunk:
 * how many units the server has used of it so far, the state that those not yet reported would
 * leave alone, and how many units it wants from now on.
 */
static void add_bucket_chunk_numbers(struct numbers *numbers, const struct redis_command *command)
{
	const struct bucket_params *params = &command->limit->bucket;
	const struct chunk_settlement *settlement = &command->settlement;
	struct bucket_time to_report = {settlement->state_to_report.until_ns,
	                                settlement->state_to_report.word};
	uint64_t cost = command->call.cost;

	if (algo_op_releases(command->call.op))
		cost = u64_min(cost, params->burst); /* a bucket never has more units in use */
	add_chunk_operation(numbers, command, cost);
	NUMBERS_ADD(numbers, bucket_refunds_newest(params), params->q);
	numbers_add_parts(numbers, params->p, params->q);
	numbers_add_parts(numbers, parts_of(params->depth, params->q), params->q);
	NUMBERS_ADD(numbers, settlement->entry_id, settlement->settlement_number,
	            settlement->used_units);
	numbers_add_parts(numbers, parts_of(to_report, params->q), params->q);
	NUMBERS_ADD(numbers, settlement->wanted_units, settlement->lifetime_ns / 1000,
	            value_block_us(command->limit));
}

static void add_window_chunk_numbers(struct numbers *numbers, const struct redis_command *command)
{
	const struct chunk_settlement *settlement = &command->settlement;

	add_chunk_operation(numbers, command, command->call.cost);
	numbers_add(numbers, command->limit->quota);
	add_calendar_window(numbers, command);
	NUMBERS_ADD(numbers, settlement->entry_id, settlement->settlement_number,
	            settlement->used_units, settlement->wanted_units);
}

void command_add_swap(struct buffer *out, const struct redis_command *command)
{
	const struct command_swap *swap = command->attempt.swap;

	add_word(out, swap_old(swap));
	add_word(out, swap_new(swap));
	add_number_word(out, swap->life_ms);
	/* A group joins no queue: its keys could wait for one another. */
	add_number_word(out, command->group ? 0 : command->queue_ticket);
	add_number_word(out, command->reservation_us);
}

/* The arguments of KIND_WITHDRAW, which removes the client from the queue for a swap. */
static void add_withdrawal(struct buffer *out, const struct redis_command *command)
{
	add_number_word(out, command->queue_ticket);
	add_number_word(out, command->reservation_us);
}

static const struct command_format formats[KIND_COUNT] = {
    [KIND_PEEK] = {"read", SCRIPT_ANY},
    [KIND_PEEK_PASSES] = {"pass", SCRIPT_ANY},
    [KIND_READ] = {"read", SCRIPT_ANY},
    [KIND_SWAP] = {"swap", SCRIPT_ANY, SWAP_ARGUMENTS, .add_arguments = command_add_swap},
    [KIND_WITHDRAW] = {"leave", SCRIPT_ANY, 2, .add_arguments = add_withdrawal},
    [KIND_RESET] = {"reset", SCRIPT_ANY},
    [KIND_BUCKET_REFUND] = {"bucket_refund", SCRIPT_BUCKET_REFUND, 1, add_header,
                            add_bucket_refund_numbers},
    [KIND_SLOTS_REFUND] = {"slots_refund", SCRIPT_SLOTS_REFUND, 1, add_header,
                           add_slots_refund_numbers},
    [KIND_WINDOW_REFUND] = {"window_refund", SCRIPT_WINDOW_REFUND, 1, add_header,
                            add_window_refund_numbers},
    [KIND_BUCKET] = {"bucket", SCRIPT_BUCKET, 1, add_bucket_texts, add_bucket_numbers},
    [KIND_DAY] = {"day", SCRIPT_DAY, 1, add_header, add_day_numbers},
    [KIND_LOG] = {"log", SCRIPT_LOG, 1, add_header, add_log_numbers},
    [KIND_PLACES] = {"places", SCRIPT_PLACES, 2, add_header, add_places_numbers, add_place_numbers},
    [KIND_SLOTS] = {"slots", SCRIPT_SLOTS, 1, add_slots_texts, add_slots_numbers},
    [KIND_WINDOW] = {"window", SCRIPT_WINDOW, 1, add_window_texts, add_window_numbers},
    [KIND_BUCKET_CHUNK] = {"bucket_chunk", SCRIPT_BUCKET_CHUNK, 1, add_header,
                           add_bucket_chunk_numbers},
    [KIND_WINDOW_CHUNK] = {"window_chunk", SCRIPT_WINDOW_CHUNK, 1, add_header,
                           add_window_chunk_numbers},
};

const struct command_format *command_format(const struct redis_command *command)
{
	return &formats[command->attempt.kind];
}

/* Adds the numbers of all commands, one after the other, as one word. */
static void add_numbers_of_each(struct buffer *out, struct redis_command *const *commands, size_t n,
                                const struct command_format *format)
{
	char text[CALL_COMMANDS_MAX * sizeof(struct numbers)];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		struct numbers numbers = {0};

		format->add_command_numbers(&numbers, commands[i]);
		memcpy(text + len, numbers.bytes, numbers.count * sizeof(double));
		len += numbers.count * sizeof(double);
	}
	add_word(out, (struct slice){text, len});
}

void command_add_arguments(struct buffer *out, struct redis_command *const *commands, size_t n)
{
	const struct command_format *format = command_format(commands[0]);
	char argument[TEXTS_MAX + sizeof(struct numbers)], *end;
	struct numbers numbers = {0};

	if (format->add_arguments)
		format->add_arguments(out, commands[0]);
	if (format->add_numbers) {
		format->add_numbers(&numbers, commands[0]);
		end = format->add_texts(argument, commands[0]);
		end = mempcpy(end, numbers.bytes, numbers.count * sizeof(double));
		add_word(out, (struct slice){argument, (size_t)(end - argument)});
	}
	if (format->add_command_numbers)
		add_numbers_of_each(out, commands, n, format);
}
