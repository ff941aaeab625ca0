#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
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
#define EXIT_ERROR     2
#define REPLY_MAX      4096

/* The reply of WEIR.ACQUIRE and WEIR.PEEK, in its order. */
enum field { ALLOWED, QUOTA, REMAINING, RETRY_MS, RESET_MS, REASON, PERMIT, FIELD_COUNT };

struct answer {
	uint64_t number[REASON];
	struct slice reason;
};

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int fail(const char *format, ...)
{
	char text[REPLY_MAX + 128];
	va_list args;

	fputs("weir ask: ", stderr);
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	command_show(stderr, text);
	fputc('\n', stderr);
	return EXIT_ERROR;
}

static void add_word(struct buffer *out, const char *word)
{
	buffer_printf(out, "$%zu\r\n", strlen(word));
	buffer_add_text(out, word);
	buffer_add_text(out, "\r\n");
}

/* Takes the next line off `text`, without its CRLF; false while there is no whole one. */
static bool next_line(struct slice *text, struct slice *line)
{
	const char *end = memmem(text->data, text->len, "\r\n", 2);

	if (!end)
		return false;
	*line = (struct slice){text->data, (size_t)(end - text->data)};
	text->data = end + 2;
	text->len -= line->len + 2;
	return true;
}

enum reading { READ_MORE, READ_DONE, READ_ERROR, READ_NONSENSE };

/* An error's words go to `answer->reason`. */
static enum reading read_answer(struct slice text, struct answer *answer)
{
	struct slice line;
	uint64_t len;

	if (!next_line(&text, &line))
		return READ_MORE;
	if (line.len > 0 && line.data[0] == '-') {
		answer->reason = (struct slice){line.data + 1, line.len - 1};
		return READ_ERROR;
	}
	if (!slice_equal(line, SLICE("*7")))
		return READ_NONSENSE;
	for (int i = 0; i < REASON; i++) {
		if (!next_line(&text, &line))
			return READ_MORE;
		if (line.len < 1 || line.data[0] != ':' ||
		    !parse_u64((struct slice){line.data + 1, line.len - 1}, &answer->number[i]))
			return READ_NONSENSE;
	}
	for (int i = REASON; i < FIELD_COUNT; i++) {
		if (!next_line(&text, &line))
			return READ_MORE;
		if (line.len < 1 || line.data[0] != '$' ||
		    !parse_u64((struct slice){line.data + 1, line.len - 1}, &len) || len > REPLY_MAX)
			return READ_NONSENSE;
		if (text.len < len + 2)
			return READ_MORE;
		if (i == REASON)
			answer->reason = (struct slice){text.data, len};
		text.data += len + 2;
		text.len -= len + 2;
	}
	return READ_DONE;
}

/* The answer refers to `reply`, REPLY_MAX bytes. */
static enum reading exchange(int fd, const struct buffer *request, char *reply,
                             struct answer *answer)
{
	enum reading reading = READ_MORE;
	size_t sent = 0, got = 0;
	ssize_t n;

	while (sent < request->len) {
		n = send(fd, request->data + sent, request->len - sent, MSG_NOSIGNAL);
		if (n <= 0)
			return READ_MORE;
		sent += (size_t)n;
	}
	while (reading == READ_MORE && got < REPLY_MAX) {
		n = recv(fd, reply + got, REPLY_MAX - got, 0);
		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			return READ_MORE;
		got += (size_t)n;
		reading = read_answer((struct slice){reply, got}, answer);
	}
	return reading == READ_MORE ? READ_NONSENSE : reading;
}

static int report(const char *limit, const char *key, const struct answer *answer)
{
	const uint64_t *number = answer->number;
	struct buffer text = {0};

	buffer_printf(&text, "%s %s: %s (", limit, key, number[ALLOWED] ? "allowed" : "denied");
	buffer_add_slice(&text, answer->reason);
	buffer_printf(&text, "), %llu of %llu left", (unsigned long long)number[REMAINING],
	              (unsigned long long)number[QUOTA]);
	if (!number[ALLOWED])
		buffer_printf(&text, ", retry in %llu ms", (unsigned long long)number[RETRY_MS]);
	buffer_printf(&text, ", all back in %llu ms", (unsigned long long)number[RESET_MS]);
	buffer_add(&text, "", 1);
	if (text.failed)
		return fail("out of memory");
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
	char reply[REPLY_MAX];
	enum reading reading;
	struct timeval for_ever = {0}; /* an answer may be held until its turn */
	int fd;

	if (net_address_parse(slice_of(server), &address, &error) != WEIR_OK)
		return fail("--server: %s", error.message);
	fd = net_address_dial(&address, TIMEOUT_S);
	if (fd < 0)
		return fail("can't reach %s: %s", server, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
	reading = exchange(fd, request, reply, &answer);
	close(fd);
	switch (reading) {
	case READ_DONE:
		return report(limit, key, &answer);
	case READ_ERROR:
		return fail("%.*s", (int)answer.reason.len, answer.reason.data);
	case READ_NONSENSE:
		return fail("expected a decision from %s, found something else", server);
	case READ_MORE:
		break;
	}
	return fail("no answer from %s: %s", server, strerror(errno));
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
		return fail("expected LIMIT KEY, found %d arguments", argc - optind);
	buffer_printf(&request, "*%d\r\n", cost ? 5 : 3);
	add_word(&request, verb);
	add_word(&request, argv[optind]);
	add_word(&request, argv[optind + 1]);
	if (cost) {
		add_word(&request, "COST");
		add_word(&request, cost);
	}
	status = request.failed ? fail("out of memory")
	                        : ask(server, &request, argv[optind], argv[optind + 1]);
	buffer_free(&request);
	return status;
}
