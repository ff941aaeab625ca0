#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/number.h"
#include "cli/command.h"
#include "net/address.h"

#define DEFAULT_SERVER "127.0.0.1:6380"
#define TIMEOUT_S      5
#define REPLY_MAX      4096

/* The reply of WEIR.ACQUIRE and WEIR.PEEK, in its order. */
enum field { ALLOWED, QUOTA, REMAINING, RETRY_MS, RESET_MS, REASON, PERMIT, FIELD_COUNT };

struct answer {
	uint64_t number[REASON];
	char text[REPLY_MAX]; /* the reason, or an error's words behind their "-" */
};

static void add_word(struct buffer *out, const char *word)
{
	buffer_printf(out, "$%zu\r\n", strlen(word));
	buffer_add_text(out, word);
	buffer_add_text(out, "\r\n");
}

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

static enum reading read_answer(FILE *from, struct answer *answer)
{
	char line[REPLY_MAX], *text = answer->text;
	uint64_t len;

	if (!next_line(from, text))
		return READ_NOTHING;
	if (text[0] == '-')
		return READ_ERROR;
	if (strcmp(text, "*7") != 0)
		return READ_NONSENSE;
	for (int i = 0; i < REASON; i++) {
		if (!next_line(from, line))
			return READ_NOTHING;
		if (line[0] != ':' || !parse_u64(slice_of(line + 1), &answer->number[i]))
			return READ_NONSENSE;
	}
	for (int i = REASON; i < FIELD_COUNT; i++) {
		if (!next_line(from, line))
			return READ_NOTHING;
		if (line[0] != '$' || !parse_u64(slice_of(line + 1), &len))
			return READ_NONSENSE;
		/* The rest, behind the reason, is ignored. */
		if (!next_line(from, i == REASON ? text : line))
			return READ_NOTHING;
		if (strlen(i == REASON ? text : line) != len)
			return READ_NONSENSE;
	}
	return READ_DONE;
}

static enum reading exchange(int fd, const struct buffer *request, struct answer *answer)
{
	ssize_t sent = send(fd, request->data, request->len, MSG_NOSIGNAL);
	FILE *from = sent == (ssize_t)request->len ? fdopen(fd, "r") : NULL;
	enum reading reading = from ? read_answer(from, answer) : READ_NOTHING;
	int failure = errno;

	if (from)
		fclose(from);
	else
		close(fd);
	errno = failure;
	return reading;
}

static int report(const char *limit, const char *key, const struct answer *answer)
{
	const uint64_t *number = answer->number;
	struct buffer text = {0};

	buffer_printf(&text, "%s %s: %s (", limit, key, number[ALLOWED] ? "allowed" : "denied");
	buffer_add_text(&text, answer->text);
	buffer_printf(&text, "), %llu of %llu left", (unsigned long long)number[REMAINING],
	              (unsigned long long)number[QUOTA]);
	if (!number[ALLOWED])
		buffer_printf(&text, ", retry in %llu ms", (unsigned long long)number[RETRY_MS]);
	buffer_printf(&text, ", all back in %llu ms", (unsigned long long)number[RESET_MS]);
	buffer_add(&text, "", 1);
	if (text.failed)
		return command_fail("ask", "out of memory");
	command_show(stdout, text.data);
	putchar('\n');
	buffer_free(&text);
	return number[ALLOWED] ? 0 : 1;
}

static int ask(const char *server, const struct buffer *request, const char *limit,
               const char *key)
{
	struct net_address address;
	struct weir_error error;
	struct answer answer = {0};
	struct timeval for_ever = {0}; /* an answer may be held until its turn */
	int fd;

	if (net_address_parse(slice_of(server), &address, &error) != WEIR_OK)
		return command_fail("ask", "--server: %s", error.message);
	fd = net_address_dial(&address, TIMEOUT_S);
	if (fd < 0)
		return command_fail("ask", "can't reach %s: %s", server, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
	switch (exchange(fd, request, &answer)) {
	case READ_DONE:
		return report(limit, key, &answer);
	case READ_ERROR:
		return command_fail("ask", "%s", answer.text + 1);
	case READ_NONSENSE:
		return command_fail("ask", "--server: expected Weir's RESP address, not HTTP's; found %s",
		                    server);
	case READ_NOTHING:
		break;
	}
	return command_fail("ask", "no answer from %s: %s", server, strerror(errno));
}

int command_ask(int argc, char **argv)
{
	static const struct option options[] = {{"cost", required_argument, NULL, 'n'},
	                                        {"peek", no_argument, NULL, 'p'},
	                                        {"server", required_argument, NULL, 's'},
	                                        {0}};
	const char *server = DEFAULT_SERVER, *cost = NULL, *verb = "WEIR.ACQUIRE";
	struct buffer request = {0};
	int option, status;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return EXIT_USAGE;
		if (option == 'n')
			cost = optarg;
		else if (option == 's')
			server = optarg;
		else
			verb = "WEIR.PEEK";
	}
	if (argc - optind != 2)
		return command_fail("ask", "expected LIMIT KEY, found %d arguments", argc - optind);
	buffer_printf(&request, "*%d\r\n", cost ? 5 : 3);
	add_word(&request, verb);
	add_word(&request, argv[optind]);
	add_word(&request, argv[optind + 1]);
	if (cost) {
		add_word(&request, "COST");
		add_word(&request, cost);
	}
	status = request.failed ? command_fail("ask", "out of memory")
	                        : ask(server, &request, argv[optind], argv[optind + 1]);
	buffer_free(&request);
	return status;
}
