/*
 * ask.c: the command `weir ask`: asks a running server for one decision, by a limit and key or by
 * attributes of a request, and prints it. Speaks RESP, the protocol of Redis.
 */
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

/*
 * Elements of the reply, in their order. WEIR.ACQUIRE and WEIR.PEEK reply with those before LIMIT,
 * WEIR.CHECK and WEIR.CHECKPEEK with all.
 */
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

enum reading {
	READ_NOTHING, /* the connection failed */
	READ_DONE,
	READ_ERROR,  /* an error of RESP */
	READ_UNKNOWN /* not the answer of a server of Weir */
};

/* The connection to a server. */
struct server_conn {
	int fd;
	struct tls *tls;     /* NULL without TLS */
	struct buffer plain; /* with TLS: decrypted bytes that are not read yet */
};

/*
 * Waits for bytes of the server, decrypted if there is TLS. Returns their number, 0 at the end of
 * the connection, or -1 with errno.
 */
static ssize_t receive_bytes(struct server_conn *conn, char *to, size_t size)
{
	char bytes[REPLY_MAX];
	size_t len;

	if (!conn->tls)
		return recv(conn->fd, to, size, 0);
	while (conn->plain.len == 0 && !tls_has_ended(conn->tls)) {
		ssize_t got = recv(conn->fd, bytes, sizeof bytes, 0);
		struct buffer wire = {0}; /* what TLS would reply, not sent: nothing more is requested */
		int status;

		if (got <= 0)
			return got;
		status = tls_decrypt(conn->tls, (struct slice){bytes, (size_t)got}, &conn->plain, &wire);
		buffer_free(&wire);
		if (status != WEIR_OK) {
			errno = EPROTO;
			return -1;
		}
	}
	len = conn->plain.len < size ? conn->plain.len : size;
	memcpy(to, conn->plain.data, len);
	buffer_consume(&conn->plain, len);
	return (ssize_t)len;
}

static bool send_request(struct server_conn *conn, struct slice request)
{
	struct buffer wire = {0};
	bool sent;

	if (!conn->tls)
		return dial_send(conn->fd, request);
	sent = tls_encrypt(conn->tls, request, &wire) == WEIR_OK &&
	       dial_send(conn->fd, (struct slice){wire.data, wire.len});
	buffer_free(&wire);
	return sent;
}

/* Reads a reply, which the caller frees. READ_NOTHING leaves the reason in errno. */
static enum reading read_reply(struct server_conn *conn, redisReader *reader, redisReply **reply)
{
	char bytes[REPLY_MAX];
	size_t sum = 0;

	for (;;) {
		ssize_t got;

		if (redisReaderGetReply(reader, (void **)reply) != REDIS_OK)
			return READ_UNKNOWN;
		if (*reply)
			return (*reply)->type == REDIS_REPLY_ERROR ? READ_ERROR : READ_DONE;
		got = receive_bytes(conn, bytes, sizeof bytes);
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

/* Whether the reply has the number and types of elements of a decision. */
static bool is_answer(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY ||
	    (reply->elements != LIMIT && reply->elements != FIELD_COUNT))
		return false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *field = reply->element[i];
		bool is_count = field->type == REDIS_REPLY_INTEGER && field->integer >= 0;
		bool is_text = field->type == REDIS_REPLY_STRING || field->type == REDIS_REPLY_NIL;

		if (i < REASON ? !is_count : !is_text)
			return false;
	}
	return true;
}

/* The server answers a login with +OK or an error. */
static bool is_ok(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
}

/*
 * Sends the request, which begins with a login if it `has_login`, and reads the answer. Sets
 * *answer to the last reply, or leaves NULL.
 */
static enum reading request_answer(struct server_conn *conn, const struct buffer *request,
                                   bool has_login, redisReply **answer)
{
	bool sent = send_request(conn, (struct slice){request->data, request->len});
	redisReader *reader = sent ? redisReaderCreate() : NULL;
	enum reading reading = reader ? read_reply(conn, reader, answer) : READ_NOTHING;
	int failure;

	if (has_login && reading == READ_DONE) { /* the first reply is that to the login */
		bool logged_in = is_ok(*answer);

		freeReplyObject(*answer);
		*answer = NULL;
		reading = logged_in ? read_reply(conn, reader, answer) : READ_UNKNOWN;
	}
	if (reading == READ_DONE && !is_answer(*answer))
		reading = READ_UNKNOWN;
	failure = errno; /* which freeing the reader may change */
	if (reader)
		redisReaderFree(reader);
	errno = failure;
	return reading;
}

/* The question to a server: a limit and a key, or attributes of a request for the rules. */
struct question {
	const char *command;
	struct buffer arguments; /* of the command, in RESP */
	size_t argument_count;
	struct buffer question_text; /* for the user */
	struct credentials login;    /* sent first */
	bool has_attributes;
};

static void add_argument(struct question *question, const char *word)
{
	dial_add_argument(&question->arguments, word);
	question->argument_count++;
}

static unsigned long long number_of_field(const redisReply *answer, enum field field)
{
	return (unsigned long long)answer->element[field]->integer;
}

/* The text of a field; empty if it is null, as the rule if none applied, or absent. */
static const char *text_of_field(const redisReply *answer, enum field field)
{
	const char *text = field < answer->elements ? answer->element[field]->str : NULL;

	return text ? text : "";
}

/* Prints the decision. Returns the exit status. */
static int print_answer(const struct question *question, const redisReply *answer)
{
	const char *rule = text_of_field(answer, RULE), *limit = text_of_field(answer, LIMIT);
	bool allowed = number_of_field(answer, ALLOWED);
	struct buffer text = {0};

	buffer_add(&text, question->question_text.data, question->question_text.len);
	buffer_printf(&text, ": %s (%s)", allowed ? "allowed" : "denied",
	              text_of_field(answer, REASON));
	if (question->has_attributes)
		buffer_printf(&text, *rule ? " by the rule %s%s%s" : " by no rule", rule,
		              *limit ? " and its limit " : "", limit);
	if (!question->has_attributes || *limit)
		buffer_printf(&text, ", %llu of %llu left", number_of_field(answer, REMAINING),
		              number_of_field(answer, QUOTA));
	if (!allowed)
		buffer_printf(&text, ", retry in %llu ms", number_of_field(answer, RETRY_MS));
	buffer_printf(&text, ", reset in %llu ms", number_of_field(answer, RESET_MS));
	buffer_add(&text, "", 1);
	if (text.failed)
		return command_fail("ask", "out of memory");
	command_print_escaped(stdout, text.data);
	putchar('\n');
	buffer_free(&text);
	return allowed ? 0 : 1;
}

/* Prints the decision, or why there is none. Returns the exit status. */
static int print_result(const char *server, const struct question *question,
                        const struct server_conn *conn, enum reading reading,
                        const redisReply *answer)
{
	const char *why = conn->tls ? tls_error(conn->tls) : "";

	switch (reading) {
	case READ_DONE:
		return print_answer(question, answer);
	case READ_ERROR:
		return command_fail("ask", "%s", answer->str);
	case READ_UNKNOWN:
		return command_fail("ask", "--server: expected Weir's RESP address, not HTTP's; found %s",
		                    server);
	case READ_NOTHING:
		break;
	}
	return command_fail("ask", "no answer from %s: %s", server, *why ? why : strerror(errno));
}

/* Connects, sends the login and the question at once, and prints the answer. */
static int ask_at(const struct net_address *address, const struct dial_tls *trust,
                  const char *server, const struct question *question)
{
	struct server_conn conn = {0};
	struct weir_error error;
	redisReply *answer = NULL;
	struct buffer request = {0};
	enum reading reading;
	struct timeval no_timeout = {0}; /* the server may delay the answer */
	int status;

	credentials_add_auth(&question->login, &request);
	buffer_printf(&request, "*%zu\r\n", 1 + question->argument_count);
	dial_add_argument(&request, question->command);
	buffer_add(&request, question->arguments.data, question->arguments.len);
	if (request.failed || question->arguments.failed || question->question_text.failed)
		return command_fail("ask", "out of memory");
	conn.fd = dial_open(address, trust, TIMEOUT_S, &conn.tls, &error);
	if (conn.fd >= 0) {
		setsockopt(conn.fd, SOL_SOCKET, SO_RCVTIMEO, &no_timeout, sizeof no_timeout);
		reading = request_answer(&conn, &request, question->login.secret != NULL, &answer);
		status = print_result(server, question, &conn, reading, answer);
		close(conn.fd);
	} else {
		status = command_fail("ask", "can't reach %s: %s", server, error.message);
	}
	freeReplyObject(answer);
	tls_close(conn.tls);
	buffer_free(&conn.plain);
	buffer_wipe(&request);
	return status;
}

static int ask_server(const char *server, struct tls_flags *trust, const struct question *question)
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
    [ATTR] = {"attr", "NAME=VALUE", "ask the rules about a request with this attribute; repeatable",
              0, NULL},
    [COST] = {"cost", "N", "units to consume; 0 consumes nothing (1)", 0, NULL},
    [PEEK] = {"peek", NULL, "consume nothing", 0, NULL},
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
	buffer_printf(&question->question_text, "%s%s", question->has_attributes ? " " : "", text);
	question->has_attributes = true;
	question->arguments.failed |= name.failed;
	buffer_free(&name);
	return 0;
}

static void add_limit(struct question *question, char *const *words, const char *cost)
{
	add_argument(question, words[0]);
	add_argument(question, words[1]);
	buffer_printf(&question->question_text, "%s %s", words[0], words[1]);
	if (cost) {
		add_argument(question, "COST");
		add_argument(question, cost);
	}
}

/* Reads the flags and arguments. Returns 0 or the exit status. */
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
	if (question->has_attributes && cost)
		return command_fail("ask", "expected --cost with LIMIT KEY, found it with --attr");
	if (argc - optind != (question->has_attributes ? 0 : 2))
		return command_fail("ask", "expected %s, found %d arguments",
		                    question->has_attributes ? "no more than --attr"
		                                             : "LIMIT KEY or --attr",
		                    argc - optind);
	if (!question->has_attributes)
		add_limit(question, argv + optind, cost);
	if (question->has_attributes)
		question->command = peeks ? "WEIR.CHECKPEEK" : "WEIR.CHECK";
	else
		question->command = peeks ? "WEIR.PEEK" : "WEIR.ACQUIRE";
	return 0;
}

static int run_ask(int argc, char **argv)
{
	const char *server = DEFAULT_SERVER;
	struct question question = {0};
	struct tls_flags trust = {0};
	struct weir_error error;
	int status = read_question(&question, &server, &trust, argc, argv);

	if (status == 0 && credentials_read(&question.login, &error) != WEIR_OK)
		status = command_fail("ask", "%s", error.message);
	if (status == 0)
		status = ask_server(server, &trust, &question);
	buffer_free(&question.arguments);
	credentials_free(&question.login);
	buffer_free(&question.question_text);
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
    .run = run_ask,
};
