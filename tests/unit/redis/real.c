#include "real.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "redis: %s: %s\n", what, why);
	abort();
}

void real_open(struct real *real)
{
	char path[64];

	*real = (struct real){.directory = "/tmp/weir-redis-XXXXXX"};
	if (!mkdtemp(real->directory))
		fail("mkdtemp", real->directory);
	snprintf(path, sizeof path, "%s/socket", real->directory);
	real->pid = fork();
	if (real->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
		       "--appendonly", "no", "--dir", real->directory, "--logfile", "log",
		       "--enable-debug-command", "yes", NULL);
		_exit(127);
	}
	for (unsigned tries = 0; tries < 2000; tries++) {
		if (waitpid(real->pid, NULL, WNOHANG) != 0)
			fail("redis-server", "ended");
		real->context = redisConnectUnix(path);
		if (real->context && !real->context->err)
			return;
		redisFree(real->context);
		usleep(5000);
	}
	fail("redis-server", "does not answer");
}

void real_close(struct real *real)
{
	static const char *const files[] = {"socket", "log"};
	char path[64];

	redisFree(real->context);
	kill(real->pid, SIGTERM);
	waitpid(real->pid, NULL, 0);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", real->directory, files[i]);
		unlink(path);
	}
	rmdir(real->directory);
}

static redisReply *checked(struct real *real, void *reply, const char *what)
{
	redisReply *found = reply;

	if (!found)
		fail(what, real->context->errstr);
	if (found->type == REDIS_REPLY_ERROR)
		fail(what, found->str);
	return found;
}

redisReply *real_do(struct real *real, const char *format, ...)
{
	va_list list;
	void *reply;

	va_start(list, format);
	reply = redisvCommand(real->context, format, list);
	va_end(list);
	return checked(real, reply, format);
}

long long real_number(struct real *real, const char *format, ...)
{
	va_list list;
	redisReply *reply;
	long long number;

	va_start(list, format);
	reply = checked(real, redisvCommand(real->context, format, list), format);
	va_end(list);
	if (reply->type != REDIS_REPLY_INTEGER)
		fail(format, "expected a number");
	number = reply->integer;
	freeReplyObject(reply);
	return number;
}

static redisReply *send_bytes(struct real *real, struct buffer *bytes)
{
	void *reply = NULL;

	if (redisAppendFormattedCommand(real->context, bytes->data, bytes->len) != REDIS_OK ||
	    redisGetReply(real->context, &reply) != REDIS_OK)
		fail("call", real->context->errstr);
	return reply;
}

redisReply *real_call(struct real *real, struct redis_command *const *steps, size_t n)
{
	struct buffer bytes = {0};
	struct script_text call;
	redisReply *reply;

	if (command_write(steps, n, &bytes, &call) != WEIR_OK)
		fail("step_write", "out of memory");
	real->calls++;
	reply = send_bytes(real, &bytes);
	if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		freeReplyObject(reply);
		freeReplyObject(real_do(real, "SCRIPT LOAD %s", call.source));
		reply = send_bytes(real, &bytes);
	}
	buffer_free(&bytes);
	return checked(real, reply, "script");
}

uint64_t real_steps(struct real *real, struct redis_command *const *steps, size_t n,
                    struct command_result *ends)
{
	struct redis_command *left[CALL_COMMANDS_MAX];
	struct command_result *left_ends[CALL_COMMANDS_MAX];
	uint64_t clock_ns = 0;
	size_t again = n;

	for (size_t i = 0; i < n; i++) {
		left[i] = steps[i];
		left_ends[i] = &ends[i];
	}
	while (again > 0) {
		redisReply *found = real_call(real, left, again);
		struct redis_reply *reply = real_reply(found);
		size_t count = again;

		clock_ns = command_clock(reply, count);
		for (size_t i = 0; i < count; i++)
			command_read(left, count, i, reply, left_ends[i]);
		again = 0;
		for (size_t i = 0; i < count; i++) {
			if (left_ends[i]->end != COMMAND_AGAIN && left_ends[i]->end != COMMAND_LATER)
				continue;
			left[again] = left[i];
			left_ends[again++] = left_ends[i];
		}
		real_free(reply);
		freeReplyObject(found);
	}
	for (size_t i = 0; i < n; i++)
		command_free_swap(steps[i]);
	return clock_ns;
}

static void copy(const redisReply *from, struct redis_reply *to)
{
	struct redis_reply *items;

	*to = (struct redis_reply){.integer = from->integer};
	switch (from->type) {
	case REDIS_REPLY_INTEGER:
		to->type = REDIS_INTEGER;
		break;
	case REDIS_REPLY_STRING:
	case REDIS_REPLY_STATUS:
	case REDIS_REPLY_ERROR:
		to->type = from->type == REDIS_REPLY_ERROR ? REDIS_ERROR : REDIS_TEXT;
		to->text = (struct slice){from->str, (size_t)from->len};
		break;
	case REDIS_REPLY_ARRAY:
		to->type = REDIS_ARRAY;
		to->count = from->elements;
		items = calloc(from->elements + 1, sizeof *items);
		if (!items)
			fail("reply", "out of memory");
		for (size_t i = 0; i < from->elements; i++)
			copy(from->element[i], &items[i]);
		to->items = items;
		break;
	default:
		to->type = REDIS_NIL;
		break;
	}
}

struct redis_reply *real_reply(const redisReply *reply)
{
	struct redis_reply *found = malloc(sizeof *found);

	if (!found)
		fail("reply", "out of memory");
	copy(reply, found);
	return found;
}

static void free_items(const struct redis_reply *reply)
{
	for (size_t i = 0; i < reply->count; i++)
		free_items(&reply->items[i]);
	free((void *)reply->items);
}

void real_free(struct redis_reply *reply)
{
	free_items(reply);
	free(reply);
}
