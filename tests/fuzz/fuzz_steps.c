/*
 * Replies to a call of scripts: the input's first byte says which steps were asked for, its second
 * how often, the rest is what came back.
 */
#include <stdint.h>
#include <stdlib.h>

#include "redis/commands/redis_command.h"
#include "redis/network/connection.h"

#define STEPS 4

static const struct weir_limit_options options[] = {
    {.name = "l", .rate = {5}, .burst = 7},
    {.name = "l",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {20, 1, WEIR_UNIT_DAY},
     .timezone = "UTC"},
    {.name = "l",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {6, 5},
     .align = WEIR_ALIGN_FIRST_REQUEST},
    {.name = "l", .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {10, 5}, .slots = 5},
    {.name = "l", .algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, .rate = {10, 5}},
    {.name = "l", .algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {10, 5}},
    {.name = "l", .algorithm = WEIR_ALGORITHM_PACER, .rate = {10}},
    {.name = "l", .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {10}, .burst = 5},
    {.name = "l", .algorithm = WEIR_ALGORITHM_BASE, .rate = {2}, .base = 8},
    {.name = "l", .algorithm = WEIR_ALGORITHM_WARM_UP, .rate = {10}},
    {.name = "l", .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 4},
};

#define LIMITS (sizeof options / sizeof *options)

static struct algo_limit limits[LIMITS];

/* Two calls of the same steps, of which the second goes when the first is answered. */
struct script_call {
	struct pending_reply base; /* first */
	struct redis_command *steps[STEPS];
	size_t count;
	struct connection *to;
	struct script_call *next;
};

static void check(const struct redis_command *step, const struct algo_decision *outcome)
{
	if (outcome->remaining > step->limit->quota)
		abort();
	if (!outcome->allowed && step->call.op == ALGO_ACQUIRE && outcome->retry_after_ns == 0)
		abort();
}

static void ask(struct script_call *call);

static void replied(struct pending_reply *base, const struct redis_reply *reply)
{
	static struct command_result result;
	struct script_call *call = (struct script_call *)base;

	if (!reply)
		return;
	command_clock(reply, call->count);
	for (size_t i = 0; i < call->count; i++)
		if (command_read(call->steps, call->count, i, reply, &result) == COMMAND_DONE)
			for (size_t k = 0; k < call->steps[i]->request_count; k++)
				check(call->steps[i], &result.outcomes[k]);
	if (call->next)
		ask(call->next);
}

static void ask(struct script_call *call)
{
	struct script_text script;

	call->base.replied = replied;
	if (command_write(call->steps, call->count, connection_command_buffer(call->to), &script) !=
	    WEIR_OK)
		abort();
	connection_expect_reply(call->to, &call->base);
}

static void make_limits(void)
{
	if (limits[0].algorithm)
		return;
	for (size_t i = 0; i < LIMITS; i++)
		if (algo_limit_init(&limits[i], &options[i], NULL) != WEIR_OK)
			abort();
}

static void make_steps(const uint8_t *data, struct redis_command *steps, struct script_call *call)
{
	call->count = 1 + (data[1] >> 2 & 3);
	for (size_t i = 0; i < STEPS; i++) {
		bool refunds = data[1] & 64 && i == 1;

		steps[i] = (struct redis_command){
		    .limit = &limits[(data[0] + i * (data[0] / LIMITS)) % LIMITS],
		    .key = SLICE("weir:{k}:l"),
		    .call = {.op = refunds ? ALGO_REFUND : ALGO_ACQUIRE, .cost = 1},
		    .request_count = refunds ? 1 : 1 + (data[1] & 3),
		    .group = data[1] & 32 ? 1 : 0,
		    .local_time = moment_given(UINT64_C(1700000000000000000)),
		};
		call->steps[i] = &steps[i];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct redis_url url;
	struct redis_command steps[STEPS];
	struct script_call calls[2] = {{.count = 0}};
	struct connection *connection;

	if (size < 2 || connection_open(&connection, &url, CONNECTION_STORE, "h") != WEIR_OK)
		return 0;
	make_limits();
	make_steps(data, steps, &calls[0]);
	calls[0].to = connection;
	calls[1] = calls[0];
	calls[0].next = &calls[1];
	connection_receive(connection, SLICE("+PONG\r\n"));
	ask(&calls[0]);
	connection_receive(connection, (struct slice){(const char *)data + 2, size - 2});
	connection_close(connection);
	for (size_t i = 0; i < STEPS; i++)
		command_free_swap(&steps[i]);
	return 0;
}
