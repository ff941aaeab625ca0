#include <stdarg.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/login.h"
#include "cli/command.h"

void command_show(FILE *to, const char *text)
{
	struct buffer shown = {0};

	buffer_add_shown(&shown, slice_of(text));
	fwrite(shown.data, 1, shown.len, to);
	buffer_free(&shown);
}

int command_fail(const char *command, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	fprintf(stderr, "weir %s: ", command);
	va_start(args, format);
	command_show(stderr, vasprintf(&text, format, args) < 0 ? "out of memory" : text);
	va_end(args);
	free(text);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

int command_no_option(const char *text, struct weir_error *error)
{
	char found[LOGIN_SHOWN_MAX];

	login_hide_in_other(text, found);
	return error_set(error, WEIR_EINVAL, "expected an option, found '%s'", found);
}
