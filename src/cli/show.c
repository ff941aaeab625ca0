#include "base/buffer.h"
#include "cli/command.h"

void command_show(FILE *to, const char *text)
{
	struct buffer shown = {0};

	buffer_add_shown(&shown, slice_of(text));
	fwrite(shown.data, 1, shown.len, to);
	buffer_free(&shown);
}
