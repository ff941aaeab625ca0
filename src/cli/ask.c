#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/buffer.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/credentials.h"
#include "cli/tls_flags.h"
#include "net/address.h"

#define DEFAULT_SERVER "127.0.0.1:6380"
#define TIMEOUT_S      5
#define REPLY_MAX      4096
#define ANSWER_MAX     (4 * REPLY_MAX)

/* The reply of WEIR.ACQUIRE and WEIR.PEEK, in its order. Those of the rules have two texts more. */
enum field {
	ALLOWED,
	QUOTA,
	REMAINING,
	RETRY_MS,
	RESET_MS,
	REASON,
	PERMIT,
	LIMIT,
	RULE,
	FIELD_COUNT
};

enum reading { READ_NOTHING, READ_DONE, READ_ERROR, READ_NONSENSE };

/* The connection to a server. */
struct line {
	int fd;
	struct tls *tls;     /* NULL without TLS */
	struct buffer plain; /* with TLS: what was decrypted, and not read yet */
};

static ssize_t read_line(void *context, char *to, size_t size)
{
	struct line *line = context;
	char bytes[REPLY_MAX];
	size_t len;

	if (!line->tls)
		return recv(line->fd, to, size, 0);
	while (line->plain.len == 0 && !tls_has_ended(line->tls)) {
		ssize_t got = recv(line->fd, bytes, sizeof bytes, 0);
		struct buffer wire = {0}; /* one answer was asked for: nothing is sent any more */
		int status;

		if (got <= 0)
			return got;
		status = tls_decrypt(line->tls, (struct slice){bytes, (size_t)got}, &line->plain, &wire);
		buffer_free(&wire);
		if (status != WEIR_OK) {
			errno = EPROTO;
			return -1;
		}
	}
	len = line->plain.len < size ? line->plain.len : size;
	memcpy(to, line->plain.data, len);
	buffer_consume(&line->plain, len);
	return (ssize_t)len;
}

static bool send_request(struct line *line, struct slice request)
{
	struct buffer wire = {0};
	bool sent;

	if (!line->tls)
		return dial_send(line->fd, request);
	sent = tls_encrypt(line->tls, request, &wire) == WEIR_OK &&
	       dial_send(line->fd, (struct slice){wire.data, wire.len});
	buffer_free(&wire);
	return sent;
}

/* Reads a reply, which the caller frees. READ_NOTHING leaves the reason in errno. */
static enum reading next_reply(struct line *line, redisReader *reader, redisReply **reply)
{
	char bytes[REPLY_MAX];
	size_t sum = 0;

	for (;;) {
		ssize_t got;

		if (redisReaderGetReply(reader, (void **)reply) != REDIS_OK)
			return READ_NONSENSE;
		if (*reply)
			return (*reply)->type == REDIS_REPLY_ERROR ? READ_ERROR : READ_DONE;
		got = read_line(line, bytes, sizeof bytes);
		if (got == 0)
			errno = ECONNRESET;
		else if (got > 0 && (sum += (size_t)got) > ANSWER_MAX)
			errno = EMSGSIZE;
		else if (got > 0 && redisReaderFeed(reader, bytes, (size_t)got) != REDIS_OK)
			errno = ENOMEM;
		else if (got > 0)
			continue;
		return READ_NOTHING;
	}
}

static bool is_answer(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY ||
	    (reply->elements != LIMIT && reply->elements != FIELD_COUNT))
		return false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *field = reply->element[i];

		if (i < REASON ? field->type != REDIS_REPLY_INTEGER || field->integer < 0
		               : field->type != REDIS_REPLY_STRING && field->type != REDIS_REPLY_NIL)
			return false;
	}
	return true;
}

/* The server answers a login by +OK or an error. */
static bool is_welcome(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
}

/* *answer is the last reply that came, or NULL. */
static enum reading exchange(struct line *line, const struct buffer *request, bool has_login,
                             redisReply **answer)
{
	bool sent = send_request(line, (struct slice){request->data, request->len});
	redisReader *reader = sent ? redisReaderCreate() : NULL;
	enum reading reading = reader ? next_reply(line, reader, answer) : READ_NOTHING;
	int failure;

	if (has_login && reading == READ_DONE) {
		bool welcome = is_welcome(*answer);

		freeReplyObject(*answer);
		*answer = NULL;
		reading = welcome ? next_reply(line, reader, answer) : READ_NONSENSE;
	}
	if (reading == READ_DONE && !is_answer(*answer))
		reading = READ_NONSENSE;
	failure = errno;
	if (reader)
		redisReaderFree(reader);
	errno = failure;
	return reading;
}

/* The question to a server: a limit and a key, or attributes. */
struct question {
	const char *command;
	struct buffer arguments, shown;
	struct credentials login; /* which is sent before it */
	size_t count;             /* of the arguments */
	bool by_rules;
};

static void add_argument(struct question *question, const char *word)
{
	dial_add_argument(&question->arguments, word);
	question->count++;
}

static unsigned long long number_of(const redisReply *answer, enum field field)
{
	return (unsigned long long)answer->element[field]->integer;
}

/* A null, as of the rule where none applied, is empty; so is a field that the answer lacks. */
static const char *text_of(const redisReply *answer, enum field field)
{
	const char *text = field < answer->elements ? answer->element[field]->str : NULL;

	return text ? text : "";
}

static int report(const struct question *question, const redisReply *answer)
{
	const char *rule = text_of(answer, RULE), *limit = text_of(answer, LIMIT);
	bool allowed = number_of(answer, ALLOWED);
	struct buffer text = {0};

	buffer_add(&text, question->shown.data, question->shown.len);
	buffer_printf(&text, ": %s (%s)", allowed ? "allowed" : "denied", text_of(answer, REASON));
	if (question->by_rules)
		buffer_printf(&text, *rule ? " by the rule %s%s%s" : " by no rule", rule,
		              *limit ? " and its limit " : "", limit);
	if (!question->by_rules || *limit)
		buffer_printf(&text, ", %llu of %llu left", number_of(answer, REMAINING),
		              number_of(answer, QUOTA));
	if (!allowed)
		buffer_printf(&text, ", retry in %llu ms", number_of(answer, RETRY_MS));
	buffer_printf(&text, ", reset in %llu ms", number_of(answer, RESET_MS));
	buffer_add(&text, "", 1);
	if (text.failed)
		return command_fail("ask", "out of memory");
	command_print_escaped(stdout, text.data);
	putchar('\n');
	buffer_free(&text);
	return allowed ? 0 : 1;
}

static int say(const char *server, const struct question *question, const struct line *line,
               enum reading reading, const redisReply *answer)
{
	const char *why = line->tls ? tls_error(line->tls) : "";

	switch (reading) {
	case READ_DONE:
		return report(question, answer);
	case READ_ERROR:
		return command_fail("ask", "%s", answer->str);
	case READ_NONSENSE:
		return command_fail("ask", "--server: expected Weir's RESP address, not HTTP's; found %s",
		                    server);
	case READ_NOTHING:
		break;
	}
	return command_fail("ask", "no answer from %s: %s", server, *why ? why : strerror(errno));
}

static int ask_at(const struct net_address *address, const struct dial_tls *trust,
                  const char *server, const struct question *question)
{
	struct line line = {0};
	struct weir_error error;
	redisReply *answer = NULL;
	struct buffer request = {0};
	enum reading reading;
	struct timeval for_ever = {0}; /* an answer may be held until its turn */
	int status;

	credentials_add_auth(&question->login, &request);
	buffer_printf(&request, "*%zu\r\n", 1 + question->count);
	dial_add_argument(&request, question->command);
	buffer_add(&request, question->arguments.data, question->arguments.len);
	if (request.failed || question->arguments.failed || question->shown.failed)
		return command_fail("ask", "out of memory");
	line.fd = dial_open(address, trust, TIMEOUT_S, &line.tls, &error);
	if (line.fd >= 0) {
		setsockopt(line.fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
		reading = exchange(&line, &request, question->login.secret != NULL, &answer);
		status = say(server, question, &line, reading, answer);
		close(line.fd);
	} else {
		status = command_fail("ask", "can't reach %s: %s", server, error.message);
	}
	freeReplyObject(answer);
	tls_close(line.tls);
	buffer_free(&line.plain);
	buffer_wipe(&request);
	return status;
}

static int ask(const char *server, struct tls_flags *trust, const struct question *question)
{
	struct net_address address;
	struct weir_error error;
	int status;

	if (net_address_parse(slice_of(server), &address, &error) != WEIR_OK)
		return command_fail("ask", "--server: %s", error.message);
	if (tls_flags_open(trust, server, &address, &error) != WEIR_OK)
		return command_fail("ask", "%s", error.message);
	status = ask_at(&address, &trust->dial, server, question);
	tls_flags_close(trust);
	return status;
}

enum { ATTR, COST, PEEK, SERVER, LOGIN, TRUST = LOGIN + CREDENTIALS_FLAG_COUNT };

static const struct flag flags[] = {
    [ATTR] = {"attr", "NAME=VALUE", "ask the rules about a request; once for each attribute", 0,
              NULL},
    [COST] = {"cost", "N", "units to take; 0 takes nothing (1)", 0, NULL},
    [PEEK] = {"peek", NULL, "take nothing", 0, NULL},
    [SERVER] = {"server", "ADDR", "RESP address of the server (" DEFAULT_SERVER ")", 0, NULL},
    CREDENTIALS_FLAGS,
    TLS_FLAGS,
};

static int add_attribute(struct question *question, const char *text)
{
	const char *equals = strchr(text, '=');
	struct buffer name = {0};

	if (!equals || equals == text)
		return command_fail("ask", "--attr: expected NAME=VALUE, found '%s'", text);
	buffer_printf(&name, "%.*s", (int)(equals - text), text);
	buffer_add(&name, "", 1);
	add_argument(question, name.failed ? "" : name.data);
	add_argument(question, equals + 1);
	buffer_printf(&question->shown, "%s%s", question->by_rules ? " " : "", text);
	question->by_rules = true;
	question->arguments.failed |= name.failed;
	buffer_free(&name);
	return 0;
}

static void add_limit(struct question *question, char *const *words, const char *cost)
{
	add_argument(question, words[0]);
	add_argument(question, words[1]);
	buffer_printf(&question->shown, "%s %s", words[0], words[1]);
	if (cost) {
		add_argument(question, "COST");
		add_argument(question, cost);
	}
}

static int read_question(struct question *question, const char **server, struct tls_flags *trust,
                         int argc, char **argv)
{
	const char *cost = NULL;
	bool peeks = false;
	struct arguments arguments;
	int flag, status = 0;

	arguments_begin(&arguments, &command_ask, argc, argv);
	while (status == 0 && (flag = arguments_next(&arguments)) >= 0) {
		if (flag == ATTR)
			status = add_attribute(question, arguments.value);
		else if (flag == COST)
			cost = arguments.value;
		else if (flag == SERVER)
			*server = arguments.value;
		else if (flag >= TRUST)
			tls_flags_set(trust, flag - TRUST, arguments.value);
		else if (flag >= LOGIN)
			credentials_set(&question->login, flag - LOGIN, arguments.value);
		else
			peeks = true;
	}
	if (status != 0)
		return status;
	if (question->by_rules && cost)
		return command_fail("ask", "expected --cost with LIMIT KEY, found it with --attr");
	if (argc - optind != (question->by_rules ? 0 : 2))
		return command_fail("ask", "expected %s, found %d arguments",
		                    question->by_rules ? "no more than --attr" : "LIMIT KEY or --attr",
		                    argc - optind);
	if (!question->by_rules)
		add_limit(question, argv + optind, cost);
	question->command = question->by_rules ? peeks ? "WEIR.CHECKPEEK" : "WEIR.CHECK"
	                    : peeks            ? "WEIR.PEEK"
	                                       : "WEIR.ACQUIRE";
	return 0;
}

static int run(int argc, char **argv)
{
	const char *server = DEFAULT_SERVER;
	struct question question = {0};
	struct tls_flags trust = {0};
	struct weir_error error;
	int status = read_question(&question, &server, &trust, argc, argv);

	if (status == 0 && credentials_read(&question.login, &error) != WEIR_OK)
		status = command_fail("ask", "%s", error.message);
	if (status == 0)
		status = ask(server, &trust, &question);
	buffer_free(&question.arguments);
	credentials_free(&question.login);
	buffer_free(&question.shown);
	return status;
}

const struct command command_ask = {
    .name = "ask",
    .summary = "Ask a server for one decision, by a limit or by the rules.",
    .uses = {"LIMIT KEY [--cost N] [--peek] [--server ADDR] [--user NAME] [--tls [--cacert FILE]]",
             "--attr NAME=VALUE... [--peek] [--server ADDR] [--user NAME] [--tls [--cacert FILE]]"},
    .exits = "0 if it is allowed, 1 if it is denied, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run,
};
