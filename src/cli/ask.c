#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/credentials.h"
#include "cli/trust.h"
#include "net/address.h"

#define DEFAULT_SERVER "127.0.0.1:6380"
#define TIMEOUT_S      5
#define REPLY_MAX      4096

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

struct answer {
	uint64_t number[REASON];
	char text[FIELD_COUNT]
	         [REPLY_MAX]; /* from REASON on; as REASON also an error's words behind their "-" */
};

/* Reads a line, without its CRLF; false with errno when there is no whole one. */
static bool next_line(FILE *from, char line[REPLY_MAX])
{
	char *end = fgets(line, REPLY_MAX, from) ? strstr(line, "\r\n") : NULL;

	if (end)
		*end = '\0';
	else if (!ferror(from))
		errno = feof(from) ? ECONNRESET : EMSGSIZE;
	return end != NULL;
}

enum reading { READ_NOTHING, READ_DONE, READ_ERROR, READ_NONSENSE };

/* A null, as of the rule where none applied, is empty. */
static enum reading read_text(FILE *from, char text[REPLY_MAX])
{
	char line[REPLY_MAX];
	uint64_t len;

	text[0] = '\0';
	if (!next_line(from, line))
		return READ_NOTHING;
	if (strcmp(line, "$-1") == 0)
		return READ_DONE;
	if (line[0] != '$' || !parse_u64(slice_of(line + 1), &len))
		return READ_NONSENSE;
	if (!next_line(from, text))
		return READ_NOTHING;
	return strlen(text) == len ? READ_DONE : READ_NONSENSE;
}

static enum reading read_answer(FILE *from, struct answer *answer)
{
	char line[REPLY_MAX], *first = answer->text[REASON];
	enum reading reading = READ_DONE;
	uint64_t fields;

	if (!next_line(from, first))
		return READ_NOTHING;
	if (first[0] == '-')
		return READ_ERROR;
	if (first[0] != '*' || !parse_u64(slice_of(first + 1), &fields) ||
	    (fields != LIMIT && fields != FIELD_COUNT))
		return READ_NONSENSE;
	for (int i = 0; i < REASON; i++) {
		if (!next_line(from, line))
			return READ_NOTHING;
		if (line[0] != ':' || !parse_u64(slice_of(line + 1), &answer->number[i]))
			return READ_NONSENSE;
	}
	for (uint64_t i = REASON; i < fields && reading == READ_DONE; i++)
		reading = read_text(from, answer->text[i]);
	return reading;
}

/* The connection to a server. */
struct line {
	int fd;
	struct tls *tls;     /* NULL: without */
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
		status = tls_in(line->tls, (struct slice){bytes, (size_t)got}, &line->plain, &wire);
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
	sent = tls_write(line->tls, request, &wire) == WEIR_OK &&
	       dial_send(line->fd, (struct slice){wire.data, wire.len});
	buffer_free(&wire);
	return sent;
}

/* The server answers a login by +OK or an error. */
static enum reading read_welcome(FILE *from, struct answer *answer)
{
	char *line = answer->text[REASON];

	if (!next_line(from, line))
		return READ_NOTHING;
	return line[0] == '-' ? READ_ERROR : strcmp(line, "+OK") == 0 ? READ_DONE : READ_NONSENSE;
}

static enum reading exchange(struct line *line, const struct buffer *request, bool has_login,
                             struct answer *answer)
{
	bool sent = send_request(line, (struct slice){request->data, request->len});
	cookie_io_functions_t calls = {.read = read_line};
	FILE *from = sent ? fopencookie(line, "r", calls) : NULL;
	enum reading reading = !from ? READ_NOTHING : has_login ? read_welcome(from, answer) : READ_DONE;
	int failure;

	if (reading == READ_DONE)
		reading = read_answer(from, answer);
	failure = errno;

	if (from)
		fclose(from);
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
	dial_add_word(&question->arguments, word);
	question->count++;
}

static int report(const struct question *question, const struct answer *answer)
{
	const uint64_t *number = answer->number;
	struct buffer text = {0};

	buffer_add(&text, question->shown.data, question->shown.len);
	buffer_printf(&text, ": %s (%s)", number[ALLOWED] ? "allowed" : "denied", answer->text[REASON]);
	if (question->by_rules)
		buffer_printf(&text, answer->text[RULE][0] ? " by the rule %s%s%s" : " by no rule",
		              answer->text[RULE], answer->text[LIMIT][0] ? " and its limit " : "",
		              answer->text[LIMIT]);
	if (!question->by_rules || answer->text[LIMIT][0])
		buffer_printf(&text, ", %llu of %llu left", (unsigned long long)number[REMAINING],
		              (unsigned long long)number[QUOTA]);
	if (!number[ALLOWED])
		buffer_printf(&text, ", retry in %llu ms", (unsigned long long)number[RETRY_MS]);
	buffer_printf(&text, ", reset in %llu ms", (unsigned long long)number[RESET_MS]);
	buffer_add(&text, "", 1);
	if (text.failed)
		return command_fail("ask", "out of memory");
	command_show(stdout, text.data);
	putchar('\n');
	buffer_free(&text);
	return number[ALLOWED] ? 0 : 1;
}

static int say(const char *server, const struct question *question, const struct line *line,
               enum reading reading, const struct answer *answer)
{
	const char *why = line->tls ? tls_error(line->tls) : "";

	switch (reading) {
	case READ_DONE:
		return report(question, answer);
	case READ_ERROR:
		return command_fail("ask", "%s", answer->text[REASON] + 1);
	case READ_NONSENSE:
		return command_fail("ask", "--server: expected Weir's RESP address, not HTTP's; found %s",
		                    server);
	case READ_NOTHING:
		break;
	}
	return command_fail("ask", "no answer from %s: %s", server, *why ? why : strerror(errno));
}

static int ask_at(const struct net_address *address, const struct dial_trust *trust,
                  const char *server, const struct question *question)
{
	struct line line = {0};
	struct weir_error error;
	struct answer answer = {0};
	struct buffer request = {0};
	struct timeval for_ever = {0}; /* an answer may be held until its turn */
	int status;

	credentials_add_auth(&question->login, &request);
	buffer_printf(&request, "*%zu\r\n", 1 + question->count);
	dial_add_word(&request, question->command);
	buffer_add(&request, question->arguments.data, question->arguments.len);
	if (request.failed || question->arguments.failed || question->shown.failed)
		return command_fail("ask", "out of memory");
	line.fd = dial_open(address, trust, TIMEOUT_S, &line.tls, &error);
	if (line.fd >= 0) {
		setsockopt(line.fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
		status = say(server, question, &line,
		             exchange(&line, &request, question->login.secret != NULL, &answer), &answer);
		close(line.fd);
	} else {
		status = command_fail("ask", "can't reach %s: %s", server, error.message);
	}
	tls_close(line.tls);
	buffer_free(&line.plain);
	buffer_wipe(&request);
	return status;
}

static int ask(const char *server, struct trust *trust, const struct question *question)
{
	struct net_address address;
	struct weir_error error;
	int status;

	if (net_address_parse(slice_of(server), &address, &error) != WEIR_OK)
		return command_fail("ask", "--server: %s", error.message);
	if (trust_open(trust, server, &address, &error) != WEIR_OK)
		return command_fail("ask", "%s", error.message);
	status = ask_at(&address, &trust->dial, server, question);
	trust_close(trust);
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
    TRUST_FLAGS,
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

static int read_question(struct question *question, const char **server, struct trust *trust,
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
			trust_set(trust, flag - TRUST, arguments.value);
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
	struct trust trust = {0};
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
