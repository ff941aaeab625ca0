/*
 * terminal.c: draws frames with the control sequences of ECMA-48, which every terminal of today
 * knows. Handlers of signals restore the terminal, because the program ends there.
 */
#include "cli/remote/top/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"
#include "cli/remote/table.h"

#define ENTER      "\x1b[?1049h\x1b[?25l" /* the alternate screen, without a cursor */
#define LEAVE      "\x1b[?25h\x1b[?1049l"
#define HOME       "\x1b[H"
#define CLEAR_LINE "\x1b[K"
#define CLEAR_REST "\x1b[J"

#define DEFAULT_ROWS    24
#define DEFAULT_COLUMNS 80

/* For handlers of signals, which have no argument. */
static struct {
	volatile sig_atomic_t is_open;
	bool has_keys; /* standard input is a terminal, whose keys are read one by one */
	struct termios saved, keys;
	sigset_t usual_mask; /* of signals, without SIGWINCH */
} terminal;

static void write_text(const char *text)
{
	ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));

	(void)ignored;
}

static void enter_screen(void)
{
	if (terminal.has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.keys);
	write_text(ENTER);
}

static void leave_screen(void)
{
	write_text(LEAVE);
	if (terminal.has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved);
}

/* The signal then does what it does by default: it ends the program. */
static void end_by_signal(int number)
{
	leave_screen();
	signal(number, SIG_DFL);
	raise(number);
}

/* The user stops the program, and continues it later. */
static void stop_by_signal(int number)
{
	(void)number;
	leave_screen();
	raise(SIGSTOP);
	enter_screen();
}

static void ignore_signal(int number)
{
	(void)number; /* ppoll() is interrupted */
}

/* A new size interrupts ppoll() alone, and no call to the server. */
static void block_new_sizes(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, &terminal.usual_mask);
	sigdelset(&terminal.usual_mask, SIGWINCH);
}

bool terminal_open(void)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	struct sigaction action = {.sa_handler = end_by_signal};

	if (!isatty(STDOUT_FILENO))
		return false;
	terminal.has_keys = tcgetattr(STDIN_FILENO, &terminal.saved) == 0;
	terminal.keys = terminal.saved;
	terminal.keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
		sigaction(ending[i], &action, NULL);
	action.sa_handler = stop_by_signal;
	sigaction(SIGTSTP, &action, NULL);
	action.sa_handler = ignore_signal;
	sigaction(SIGWINCH, &action, NULL);
	block_new_sizes();
	terminal.is_open = true;
	enter_screen();
	return true;
}

void terminal_close(void)
{
	if (terminal.is_open)
		leave_screen();
	terminal.is_open = false;
}

/* Appends the line, cut to `columns`. */
static void add_line(struct buffer *out, struct slice line, size_t columns)
{
	const unsigned char *p = (const unsigned char *)line.data, *end = p + line.len;

	while (p < end) {
		size_t n = utf8_sequence(p, (size_t)(end - p)), width = table_character_width(p, n);

		if (n == 0 || width > columns)
			break;
		buffer_add(out, p, n);
		columns -= width;
		p += n;
	}
	buffer_add_text(out, CLEAR_LINE);
}

void terminal_show(struct slice text)
{
	struct winsize size = {0};
	struct buffer out = {0};
	size_t rows = DEFAULT_ROWS, columns = DEFAULT_COLUMNS;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
		rows = size.ws_row;
		columns = size.ws_col;
	}
	buffer_add_text(&out, HOME);
	for (size_t row = 0; row < rows && text.len > 0; row++) {
		if (row > 0)
			buffer_add(&out, "\r\n", 2);
		add_line(&out, slice_cut(&text, '\n'), columns);
	}
	buffer_add_text(&out, CLEAR_REST);
	fwrite(out.data, 1, out.failed ? 0 : out.len, stdout);
	fflush(stdout);
	buffer_free(&out);
}

bool terminal_wait(int ms)
{
	struct pollfd polled = {STDIN_FILENO, POLLIN, 0};
	struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};
	const sigset_t *mask = terminal.is_open ? &terminal.usual_mask : NULL;
	char key;

	if (ppoll(&polled, terminal.has_keys, &timeout, mask) == 0 || !terminal.has_keys)
		return true;
	if (!(polled.revents & POLLIN))
		return (polled.revents & (POLLHUP | POLLERR)) == 0;
	return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
}
