/*
 * play: plays histories in virtual time, with up to four servers in this process.
 *
 *     play [PORT CLOCK]
 *     library PORT
 *
 * Reads commands, a line each, and answers each with a line. Servers count in memory, in a file, or
 * in the Redis at PORT, whose clock is the file CLOCK (clock.c). The second is the same in real
 * time (real.c). README.md lists the commands.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/redis.h>
#include <weir/rules.h>

#include "api/remote.h"
#include "base/arena.h"
#include "base/number.h"
#include "engine/engine.h"
#include "engine/limit.h"
#include "overload.h"
#include "virtual.h"

#define SLOTS     4096 /* permits of a history */
#define WORDS_MAX 96
#define LINE_MAX  4096

struct server {
	weir_table *table;
	weir_config *config;
	weir_engine *engine;
	int64_t ahead_ns;
};

struct reported_key {
	struct weir_permit one;
	struct weir_permits all;
};

static struct server servers[VIRTUAL_SERVERS_MAX];
static struct reported_key held[SLOTS];
static redisContext *redis;
static const char *redis_transport;

struct line {
	char text[LINE_MAX];
	char *words[WORDS_MAX];
	size_t count;
};

static void fail(const char *what, const char *more)
{
	fprintf(stderr, "play: %s: %s\n", what, more);
	exit(3);
}

static const char *word(const struct line *line, size_t i)
{
	if (i >= line->count)
		fail("a word is missing", line->words[0]);
	return line->words[i];
}

static uint64_t number(const struct line *line, size_t i)
{
	return strtoull(word(line, i), NULL, 10);
}

static struct reported_key *slot(const struct line *line, size_t i)
{
	return &held[number(line, i) % SLOTS];
}

/* The server that a command names, which runs from now on. */
static struct server *server_of(const struct line *line)
{
	unsigned i = (unsigned)number(line, 1) % VIRTUAL_SERVERS_MAX;

	virtual_act(i, servers[i].ahead_ns);
	return &servers[i];
}

static const weir_limit *limit_of(const struct server *server, const char *name)
{
	return server->engine ? weir_engine_limit(server->engine, name, strlen(name)) : NULL;
}

/* Answers */

static void answer(int status)
{
	printf("%d %" PRIu64 "\n", status, virtual_now_ns());
}

static void answer_decision(int status, const struct weir_decision *d,
                            const struct reported_key *permit)
{
	bool holds = permit && (permit->one.id != 0 || permit->all.id != 0);

	printf("%d %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
	       " %s %s %s %d\n",
	       status, virtual_now_ns(), d->allowed, d->quota, d->remaining, d->retry_after_ns,
	       d->reset_after_ns, d->wait_ns, weir_reason_text(d->reason), d->limit ? d->limit : "-",
	       d->rule ? d->rule : "-", holds);
}

/* Servers */

static void close_server(struct server *server)
{
	weir_engine_close(server->engine);
	weir_config_close(server->config);
	weir_table_close(server->table);
	*server = (struct server){0};
}

/* begin NOW_NS */
static void begin(const struct line *line)
{
	for (unsigned i = 0; i < VIRTUAL_SERVERS_MAX; i++) {
		virtual_act(i, 0);
		virtual_set_fault(i, FAULT_NONE);
		close_server(&servers[i]);
	}
	if (redis)
		freeReplyObject(redisCommand(redis, "FLUSHALL"));
	memset(held, 0, sizeof held);
	overload_begin(NULL, 0);
	virtual_begin(number(line, 1));
	weir_seed(number(line, 1));
	answer(0);
}

static int open_redis(struct server *server, const struct line *line, struct weir_error *error)
{
	uint64_t denied_ns = number(line, 4);
	char url[64];

	snprintf(url, sizeof url, "redis://127.0.0.1:%s", redis_transport);
	return weir_redis_open(
	    &(struct weir_redis_options){
	        .url = url,
	        .denied_cache_ns = denied_ns ? denied_ns : WEIR_ZERO,
	        .timeout_ns = number(line, 5),
	        .nodes = number(line, 6),
	        .capacity = 1000,
	    },
	    &server->table, error);
}

/* server N STORE AHEAD_NS DENIED_CACHE_NS TIMEOUT_NS NODES: opens or restarts it, without a
 * configuration. STORE: memory, a path, or redis. */
static void open_server(const struct line *line)
{
	static const uint8_t secret[16] = "sixteen bytes ok";
	struct server *server = server_of(line);
	const char *store = word(line, 2);
	struct weir_table_options options = {.capacity = 1000};
	struct weir_error error = {0};
	int status;

	close_server(server);
	server->ahead_ns = strtoll(word(line, 3), NULL, 10);
	server_of(line);
	if (strcmp(store, "memory") == 0)
		options.secret = secret;
	else
		options.path = store;
	status = strcmp(store, "redis") == 0 ? open_redis(server, line, &error)
	                                     : weir_table_open(&options, &server->table, &error);
	if (status != 0)
		fprintf(stderr, "play: %s\n", error.message);
	answer(status);
}

/* config N LEN, and as many bytes of YAML: opens an engine, or reloads. */
static void open_config(const struct line *line)
{
	struct server *server = server_of(line);
	size_t len = number(line, 2);
	char *text = malloc(len + 1);
	struct weir_error error = {0};
	weir_config *config = NULL;
	weir_engine *engine = NULL;
	int status;

	if (fread(text, 1, len, stdin) != len)
		fail("a configuration is cut", "");
	status = weir_config_read_yaml(text, len, "/nonexistent", &config, &error);
	if (status == 0)
		status = weir_engine_open(config, server->table, &engine, &error);
	if (status != 0) {
		fprintf(stderr, "play: %u:%u: %s\n", error.line, error.column, error.message);
		weir_config_close(config);
	} else {
		if (server->engine)
			engine_succeed(server->engine, engine);
		weir_engine_close(server->engine);
		weir_config_close(server->config);
		server->engine = engine;
		server->config = config;
	}
	free(text);
	answer(status);
}

/* pass NS */
static void pass(const struct line *line)
{
	virtual_pass(number(line, 1));
	answer(0);
}

/* fault N KIND: none, down, cut, late or hang */
static void set_fault(const struct line *line)
{
	static const char *const names[FAULT_COUNT] = {"none", "down", "cut", "late", "hang"};

	server_of(line);
	for (unsigned i = 0; i < FAULT_COUNT; i++)
		if (strcmp(names[i], word(line, 2)) == 0)
			virtual_set_fault((unsigned)number(line, 1) % VIRTUAL_SERVERS_MAX, i);
	answer(0);
}

/* redis WORD…: a command for Redis itself */
static void ask_redis(const struct line *line)
{
	redisReply *reply =
	    redis ? redisCommandArgv(redis, (int)line->count - 1, (const char **)&line->words[1], NULL)
	          : NULL;

	answer(reply && reply->type != REDIS_REPLY_ERROR ? 0 : -1);
	if (reply)
		freeReplyObject(reply);
}

/* Direct calls */

/* Of words from `i` on: COST WAIT_NS PRIORITY; WAIT_NS "-": decide at once. */
static struct weir_ask ask_of(const struct line *line, size_t i)
{
	uint64_t cost = number(line, i);
	struct weir_ask ask = {.cost = cost ? cost : WEIR_ZERO, .priority = number(line, i + 2)};

	if (strcmp(word(line, i + 1), "-") == 0)
		ask.now_ns = virtual_wall_ns();
	else
		ask.deadline_ns = virtual_wall_ns() + number(line, i + 1);
	return ask;
}

/* acquire N LIMIT KEY COST WAIT_NS PRIORITY SLOT; SLOT "-": without a permit */
static void acquire(const struct line *line)
{
	struct server *server = server_of(line);
	const weir_limit *limit = limit_of(server, word(line, 2));
	const char *key = word(line, 3);
	struct weir_ask ask = ask_of(line, 4);
	struct reported_key *permit = strcmp(word(line, 7), "-") == 0 ? NULL : slot(line, 7);
	struct weir_decision d = {0};
	int status = WEIR_ENOTFOUND;

	if (permit) {
		*permit = (struct reported_key){0};
		ask.permit = &permit->one;
	}
	if (limit)
		status = weir_ask(server->table, limit, (struct weir_key){key, strlen(key)}, &ask, &d);
	answer_decision(status, &d, permit);
}

/* peek N LIMIT KEY COST; refund N LIMIT KEY COST; reset N LIMIT KEY */
static void operate(const struct line *line)
{
	struct server *server = server_of(line);
	const weir_limit *limit = limit_of(server, word(line, 2));
	const char *key = word(line, 3);
	uint64_t now_ns = virtual_wall_ns();
	struct weir_decision d = {0};
	int status = WEIR_ENOTFOUND;

	if (!limit)
		;
	else if (line->words[0][0] == 'p')
		status = weir_peek(server->table, limit, (struct weir_key){key, strlen(key)},
		                   number(line, 4), now_ns, &d);
	else if (strcmp(line->words[0], "refund") == 0)
		status = weir_refund(server->table, limit, (struct weir_key){key, strlen(key)},
		                     number(line, 4), now_ns, &d);
	else
		status = weir_reset(server->table, limit, (struct weir_key){key, strlen(key)}, now_ns, &d);
	answer_decision(status, &d, NULL);
}

/* return N LIMIT KEY SLOT COST: a refund by permit */
static void give_back(const struct line *line)
{
	struct server *server = server_of(line);
	const weir_limit *limit = limit_of(server, word(line, 2));
	const char *key = word(line, 3);
	struct weir_permit permit = slot(line, 4)->one;
	struct weir_decision d = {0};
	int status = WEIR_ENOTFOUND;

	permit.cost = number(line, 5);
	if (limit)
		status = weir_refund_permit(server->table, limit, (struct weir_key){key, strlen(key)},
		                            &permit, virtual_wall_ns(), &d);
	answer_decision(status, &d, NULL);
}

/* report N LIMIT KEY SLOT OUTCOME */
static void report(const struct line *line)
{
	struct server *server = server_of(line);
	const weir_limit *limit = limit_of(server, word(line, 2));
	const char *key = word(line, 3);
	const struct reported_key *permit = slot(line, 4);
	int status = WEIR_ENOTFOUND;

	if (limit)
		status =
		    weir_report(server->table, limit, (struct weir_key){key, strlen(key)}, &permit->one,
		                &(struct weir_report){.outcome = (enum weir_outcome)number(line, 5),
		                                      .now_ns = virtual_wall_ns()});
	answer(status);
}

/* adhoc N KEY BURST COUNT PERIOD_S COST: as CL.THROTTLE */
static void ask_adhoc(const struct line *line)
{
	struct server *server = server_of(line);
	const char *key = word(line, 2);
	struct weir_decision d = {0};
	struct weir_limit limit;
	int status = limit_init_adhoc(&limit, number(line, 3), number(line, 4), number(line, 5), NULL);

	if (status == 0)
		status = weir_acquire(server->table, &limit, (struct weir_key){key, strlen(key)},
		                      number(line, 6), virtual_wall_ns(), &d);
	d.limit = NULL;
	answer_decision(status, &d, NULL);
}

/* A share or a factor, given in thousandths. */
static double thousandths(const struct line *line, size_t i)
{
	return (double)number(line, i) / 1000;
}

/* backend SEED WORKERS SERVICE MEAN_NS STRAIN ATTEMPTS PATIENCE_NS BACKOFF_NS NOTIFIES SILENT */
static void open_backend(const struct line *line)
{
	overload_begin(&(struct backend_options){.seed = number(line, 1),
	                                         .workers = (unsigned)number(line, 2),
	                                         .service = service_named(word(line, 3)),
	                                         .mean_ns = (double)number(line, 4),
	                                         .strain = thousandths(line, 5),
	                                         .attempts = (unsigned)number(line, 6),
	                                         .patience_ns = number(line, 7),
	                                         .backoff_ns = number(line, 8),
	                                         .notifies = number(line, 9),
	                                         .silent = thousandths(line, 10)},
	               virtual_wall_ns());
	answer(0);
}

/* load N LIMIT KEY NS LOAD LOW PRIORITY PRIORITY: answers with the most limit, and with work */
static void load(const struct line *line)
{
	struct server *server = server_of(line);
	struct overload_key key = {server->table, limit_of(server, word(line, 2)), word(line, 3)};
	struct backend_demand demand = {
	    thousandths(line, 5),
	    thousandths(line, 6),
	    {(uint8_t)number(line, 7), (uint8_t)number(line, 8)},
	};
	struct overload_result result = {0};

	if (key.limit)
		result = overload_play(&key, demand, virtual_wall_ns(), number(line, 4));
	virtual_pass(number(line, 4));
	printf("%d %" PRIu64 " %" PRIu64 " %.3f %.3f\n", key.limit ? 0 : WEIR_ENOTFOUND,
	       virtual_now_ns(), result.most, result.work.asked, result.work.done);
}

/* Calls by rules */

/* The words from `i` on, which are NAME=VALUE. */
static size_t attributes_of(const struct line *line, size_t i, struct weir_attribute *attributes)
{
	size_t n = 0;

	for (; i < line->count; i++) {
		char *value = strchr(line->words[i], '=');

		if (!value)
			fail("expected NAME=VALUE", line->words[i]);
		*value++ = '\0';
		attributes[n++] = (struct weir_attribute){line->words[i], value, strlen(value)};
	}
	return n;
}

/* check N COST WAIT_NS PRIORITY SLOT NAME=VALUE… */
static void check(const struct line *line)
{
	struct server *server = server_of(line);
	struct weir_attribute attributes[WORDS_MAX];
	size_t n = attributes_of(line, 6, attributes);
	struct weir_ask ask = ask_of(line, 2);
	struct reported_key *permit = strcmp(word(line, 5), "-") == 0 ? NULL : slot(line, 5);
	struct weir_decision d = {0};
	int status;

	if (permit) {
		*permit = (struct reported_key){0};
		ask.permits = &permit->all;
	}
	status = weir_engine_ask(server->engine, attributes, n, &ask, &d);
	answer_decision(status, &d, permit);
}

/* checkpeek N COST NAME=VALUE… */
static void check_peek(const struct line *line)
{
	struct server *server = server_of(line);
	struct weir_attribute attributes[WORDS_MAX];
	size_t n = attributes_of(line, 3, attributes);
	struct algo_call call = {ALGO_PEEK, number(line, 2)};
	struct decision_context context = {.table = server->table,
	                                   .at = moment_given(virtual_wall_ns())};
	struct weir_decision d = {0};
	struct arena arena;
	struct plan plan;
	char room[4096];
	int status;

	arena_borrow(&arena, room, sizeof room);
	status = engine_prepare_rules(server->engine, &call,
	                              &(struct engine_attributes){attributes, n, WEIR_KEY_MAX}, &arena,
	                              &plan);
	if (status == 0)
		status = remote_decide(&context, &plan, false, &d);
	arena_free(&arena);
	answer_decision(status, &d, NULL);
}

/* return-all N SLOT COST */
static void give_back_all(const struct line *line)
{
	struct server *server = server_of(line);
	struct weir_permits permits = slot(line, 2)->all;
	struct weir_decision d = {0};
	int status;

	permits.cost = number(line, 3);
	status = weir_engine_refund(server->engine, &permits, virtual_wall_ns(), &d);
	answer_decision(status, &d, NULL);
}

/* report-all N SLOT OUTCOME */
static void report_all(const struct line *line)
{
	struct server *server = server_of(line);

	answer(weir_engine_report(server->engine, &slot(line, 2)->all,
	                          &(struct weir_report){.outcome = (enum weir_outcome)number(line, 3),
	                                                .now_ns = virtual_wall_ns()}));
}

static bool run(const struct line *line)
{
	static const struct {
		const char *name;
		void (*run)(const struct line *line);
	} commands[] = {
	    {"begin", begin},           {"server", open_server},
	    {"config", open_config},    {"pass", pass},
	    {"fault", set_fault},       {"redis", ask_redis},
	    {"acquire", acquire},       {"peek", operate},
	    {"refund", operate},        {"reset", operate},
	    {"return", give_back},      {"report", report},
	    {"adhoc", ask_adhoc},       {"check", check},
	    {"checkpeek", check_peek},  {"return-all", give_back_all},
	    {"report-all", report_all}, {"backend", open_backend},
	    {"load", load},
	};

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(line->words[0], commands[i].name) == 0) {
			commands[i].run(line);
			return true;
		}
	return false;
}

static bool read_line(struct line *line)
{
	char *rest = NULL;

	if (!fgets(line->text, sizeof line->text, stdin))
		return false;
	line->count = 0;
	for (char *at = strtok_r(line->text, " \n", &rest); at && line->count < WORDS_MAX;
	     at = strtok_r(NULL, " \n", &rest))
		line->words[line->count++] = at;
	return true;
}

int main(int argc, char **argv)
{
	static struct line line;
	static char out[1 << 16];

	if (argc >= 2)
		redis_transport = argv[1];
	if (argc == 3) {
		redis = redisConnect("127.0.0.1", atoi(argv[1]));
		if (!redis || redis->err || !virtual_share_clock(argv[2]))
			fail("Redis or its clock", argv[1]);
	}
	setvbuf(stdout, out, _IOFBF, sizeof out);
	while (read_line(&line)) {
		if (line.count == 0)
			fflush(stdout);
		else if (!run(&line))
			fail("no such command", line.words[0]);
	}
	begin(&(struct line){.words = {"begin", "0"}, .count = 2});
	if (redis)
		redisFree(redis);
	return 0;
}
