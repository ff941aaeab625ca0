/*
 * escaped_output.c: prints texts that come from servers and clients, and the errors of commands,
 * with control characters escaped.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "cli/command.h"

void command_print_escaped(FILE *to, const char *text)
{
	struct buffer shown = {0};

	buffer_add_printable(&shown, slice_of(text));
	fwrite(shown.data, 1, shown.len, to);
	buffer_free(&shown);
}

/* Returns the exit status for a wrong argument. A command that fails otherwise may use another. */
int command_fail(const char *command, const char *format, ...)
{
	char *text;
	va_list args;

	fprintf(stderr, "weir %s: ", command);
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL; /* it may be undefined */
	va_end(args);
	command_print_escaped(stderr, text ? text : "out of memory");
	free(text);
	fputc('\n', stderr);
	return EXIT_USAGE;
}
