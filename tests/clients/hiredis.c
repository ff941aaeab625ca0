/* hiredis with its default settings. See README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#define CONNECTIONS 5
#define EACH        30

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static redisContext *open_client(int port)
{
	redisContext *client = redisConnect("127.0.0.1", port);

	if (!client || client->err)
		fail(client ? client->errstr : "out of memory");
	return client;
}

static redisReply *expect(redisContext *client, void *reply)
{
	if (!reply)
		fail(client->errstr);
	return reply;
}

static redisReply *take(redisContext *client)
{
	void *reply = NULL;

	redisGetReply(client, &reply);
	return expect(client, reply);
}

/* None of the texts here needs escaping. */
static void print(const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_INTEGER) {
		printf("%lld", reply->integer);
	} else if (reply->type == REDIS_REPLY_ARRAY) {
		for (size_t i = 0; i < reply->elements; i++) {
			putchar(i == 0 ? '[' : ',');
			print(reply->element[i]);
		}
		putchar(']');
	} else {
		printf("\"%s\"", reply->str);
	}
}

static void show(const char *field, redisContext *client, void *reply)
{
	printf("\"%s\":", field);
	print(expect(client, reply));
	freeReplyObject(reply);
}

static void pipeline(redisContext *client, const char *key)
{
	for (int i = 0; i < 1000; i++)
		redisAppendCommand(client, "CL.THROTTLE %s:pipeline 999 1 3600", key);
	for (int i = 0; i < 1000; i++) {
		redisReply *reply = take(client);

		printf("%s%lld", i == 0 ? ",\"pipeline\":[" : ",", reply->element[2]->integer);
		freeReplyObject(reply);
	}
	printf("]");
}

static void transaction(redisContext *client, const char *key)
{
	redisReply *replies;

	redisAppendCommand(client, "MULTI");
	for (int i = 0; i < 3; i++)
		redisAppendCommand(client, "CL.THROTTLE %s:multi 9 1 3600", key);
	redisAppendCommand(client, "EXEC");
	for (int i = 0; i < 4; i++)
		freeReplyObject(take(client));
	replies = take(client);
	for (size_t i = 0; i < replies->elements; i++)
		printf("%s%lld", i == 0 ? ",\"transaction\":[" : ",",
		       replies->element[i]->element[2]->integer);
	freeReplyObject(replies);
	printf("]");
}

static void clear(redisContext *client, const char *key)
{
	static const char *const commands[] = {"DEL %s:multi", "EXISTS %s:multi"};

	for (size_t i = 0; i < 2; i++) {
		redisReply *reply = expect(client, redisCommand(client, commands[i], key));

		printf("%s%lld", i == 0 ? ",\"cleared\":[" : ",", reply->integer);
		freeReplyObject(reply);
	}
	printf("]");
}

/* All ask before one is answered. */
static void crowd(int port, const char *key)
{
	redisContext *clients[CONNECTIONS];
	int passed = 0, sent;

	for (int i = 0; i < CONNECTIONS; i++) {
		clients[i] = open_client(port);
		for (int j = 0; j < EACH; j++)
			redisAppendCommand(clients[i], "CL.THROTTLE %s:crowd 99 1 3600", key);
		do
			redisBufferWrite(clients[i], &sent);
		while (!sent);
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		for (int j = 0; j < EACH; j++) {
			redisReply *reply = take(clients[i]);

			passed += reply->element[0]->integer == 0;
			freeReplyObject(reply);
		}
		redisFree(clients[i]);
	}
	printf(",\"passed\":%d", passed);
}

static const struct {
	const char *field, *format;
} asks[] = {
    {"ping", "PING"},
    {"cell", "CL.THROTTLE %s:cell 9 5 3600"},
    {"crab", "THROTTLE %s:crab 9 5 3600"},
    {"acquire", "WEIR.ACQUIRE login %s"},
    {"check", "WEIR.CHECK path /login ip %s:ip"},
    {"error", "WEIR.ACQUIRE nosuch %s"},
    {"alive", "PING"},
};

int main(int argc, char **argv)
{
	int port = argc == 3 ? atoi(argv[1]) : 0;
	const char *key = argv[argc - 1], *words[] = {"WEIR.ACQUIRE", "login", key};
	redisContext *client = open_client(port);

	printf("{");
	for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
		show(asks[i].field, client, redisCommand(client, asks[i].format, key));
		printf(",");
	}
	show("custom", client, redisCommandArgv(client, 3, words, NULL));
	pipeline(client, key);
	transaction(client, key);
	clear(client, key);
	crowd(port, key);
	printf("}\n");
	fflush(stdout);

	getchar();
	if (redisReconnect(client) != REDIS_OK)
		fail(client->errstr);
	printf("{");
	show("again", client, redisCommand(client, "WEIR.ACQUIRE login %s", key));
	printf("}\n");
	redisFree(client);
	return 0;
}
