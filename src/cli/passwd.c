/* passwd.c: the command `weir passwd`: makes the hash of a password, or a token and its SHA-256. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <weir/weir.h>

#include "cli/command.h"
#include "server/access/password.h"

#define NAME "passwd"

/* Sets whether the terminal shows what is typed. */
static void set_echo(bool on)
{
	struct termios terminal;

	if (tcgetattr(STDIN_FILENO, &terminal) != 0)
		return;
	if (on)
		terminal.c_lflag |= ECHO;
	else
		terminal.c_lflag &= ~(tcflag_t)ECHO;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal);
}

/*
 * Reads a line without its end, cut to one byte more than a password may have. Returns its length,
 * or -1 if there is none.
 */
static int read_line(char line[PASSWORD_MAX + 2])
{
	int n = 0, c;

	while ((c = getchar()) != EOF && c != '\n')
		if (n <= PASSWORD_MAX)
			line[n++] = (char)c;
	line[n] = '\0';
	return n == 0 && c == EOF ? -1 : n;
}

/*
 * Blocks signals that end the program, since they would leave the terminal without echo. Returns a
 * descriptor that is readable once a signal has arrived.
 */
static int block_signals(sigset_t *before)
{
	static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof ending_signals / sizeof *ending_signals; i++) {
		struct sigaction current;

		if (sigaction(ending_signals[i], NULL, &current) == 0 && current.sa_handler != SIG_IGN)
			sigaddset(&blocked, ending_signals[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, before);
	return signalfd(-1, &blocked, SFD_CLOEXEC);
}

/* Waits for a line (true) or a signal (false). */
static bool wait_for_line(int signals)
{
	struct pollfd inputs[] = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};

	while (poll(inputs, 2, -1) < 0 && errno == EINTR)
		;
	return inputs[1].revents == 0;
}

/* Prompts for a line at the terminal, without echo. Returns its length, or -1 without a line. */
static int prompt_line(const char *prompt, char line[PASSWORD_MAX + 2])
{
	sigset_t before;
	int n, signals = block_signals(&before);

	set_echo(false); /* before the prompt, since it discards earlier input */
	fputs(prompt, stderr);
	n = wait_for_line(signals) ? read_line(line) : -1;
	set_echo(true);
	fputc('\n', stderr);
	close(signals);
	sigprocmask(SIG_SETMASK, &before, NULL); /* a signal that has arrived ends the program here */
	return n;
}

/* Checks a password of `n` bytes, or -1 for none. Returns 0 or the exit status. */
static int check_password(const char *password, int n)
{
	if (n <= 0)
		return command_fail(NAME, "standard input: expected a password, found none");
	if (n > PASSWORD_MAX)
		return command_fail(NAME,
		                    "standard input: expected a password of at most %d bytes, found more",
		                    PASSWORD_MAX);
	/* Nobody could type it. Most often it is the CR of a line end of Windows. */
	for (int i = 0; i < n; i++)
		if (password[i] == '\x7f' || (unsigned char)password[i] < ' ')
			return command_fail(NAME,
			                    "standard input: expected a password without control characters "
			                    "such as CR or NUL, found one");
	return 0;
}

/* Reads the first line of standard input; prompts twice at a terminal. Returns the exit status. */
static int read_password(char password[PASSWORD_MAX + 2])
{
	char again[PASSWORD_MAX + 2];
	int exit_status, n;
	bool is_repeated;

	if (!isatty(STDIN_FILENO))
		return check_password(password, read_line(password));
	n = prompt_line("password: ", password);
	exit_status = check_password(password, n);
	is_repeated =
	    exit_status == 0 && prompt_line("once more: ", again) == n && strcmp(again, password) == 0;
	if (exit_status == 0 && !is_repeated)
		exit_status =
		    command_fail(NAME, "standard input: expected the same password twice, found two");
	explicit_bzero(again, sizeof again);
	return exit_status;
}

/* Reads a password and prints its hash, for the rule file. Returns the exit status. */
static int make_hash(void)
{
	char password[PASSWORD_MAX + 2], hash[PASSWORD_HASH_MAX];
	int exit_status = read_password(password), status;

	if (exit_status == 0) {
		status = password_hash(password, hash);
		if (status != WEIR_OK)
			exit_status = command_fail(NAME, "%s", weir_strerror(status));
	}
	explicit_bzero(password, sizeof password);
	if (exit_status == 0)
		puts(hash);
	return exit_status;
}

/* Prints a random token for the client, and its SHA-256 for the rule file. */
static int make_token(void)
{
	char token[TOKEN_TEXT_MAX];
	unsigned char digest[TOKEN_DIGEST_MAX];
	int status = token_make(token);

	if (status != WEIR_OK)
		return command_fail(NAME, "%s", weir_strerror(status));
	token_digest(slice_of(token), digest);
	printf("%s\n", token);
	for (size_t i = 0; i < sizeof digest; i++)
		printf("%02x", digest[i]);
	putchar('\n');
	explicit_bzero(token, sizeof token);
	return 0;
}

enum { TOKEN };

static const struct flag flags[] = {
    [TOKEN] = {"token", NULL, "make a random token: print it, and then its SHA-256", 0, NULL},
};

static int run_passwd(int argc, char **argv)
{
	struct arguments arguments;
	bool token = false;
	int exit_status, flag;

	arguments_begin(&arguments, &command_passwd, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0)
		token |= flag == TOKEN;
	if (optind < argc)
		return command_fail(
		    NAME, "expected no argument, found one: a password comes from standard input");
	exit_status = token ? make_token() : make_hash();
	if (exit_status == 0 && fflush(stdout) != 0)
		exit_status = command_fail(NAME, "standard output: %s", strerror(errno));
	return exit_status;
}

const struct command command_passwd = {
    .name = NAME,
    .summary = "Hash a password from standard input, or make a token, for `users`.",
    .uses = {"", "--token"},
    .examples = {"weir passwd --token"},
    .exits = "0, 2 on errors",
    COMMAND_FLAGS(flags),
    .run = run_passwd,
};
