/* real.h: starts a Redis for the test, and carries out commands on it, one call after another. */
#ifndef TEST_REDIS_REAL_H
#define TEST_REDIS_REAL_H

#include <hiredis.h>

#include "redis/commands/redis_command.h"

struct real {
	redisContext *context;
	int pid;
	char directory[32];
	unsigned calls; /* of scripts, so far */
};

/* Starts a Redis on a socket in a directory of its own. Any failure ends the program. */
void real_open(struct real *real);
void real_close(struct real *real);

/* A command as redisCommand has it; an error ends the program. The caller frees the reply. */
redisReply *real_do(struct real *real, const char *format, ...);
/* The same where the reply is a number. */
long long real_number(struct real *real, const char *format, ...);

/*
 * Carries out commands, with the further tries that they need. Returns Redis's clock at the last
 * call.
 */
uint64_t real_steps(struct real *real, struct redis_command *const *steps, size_t n,
                    struct command_result *ends);

/* One call, as it is. Free with freeReplyObject. */
redisReply *real_call(struct real *real, struct redis_command *const *steps, size_t n);

/* Converts a reply that hiredis read. Free with real_free. */
struct redis_reply *real_reply(const redisReply *reply);
void real_free(struct redis_reply *reply);

#endif
