#include "proto/resp/resp_call.h"

#include <stdarg.h>
#include <stdio.h>

void resp_call_ok(const struct resp_call *call)
{
	buffer_add(call->out, "+OK\r\n", 5);
}

void resp_call_error(const struct resp_call *call, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	resp_write_error(call->out, "ERR", slice_of(text));
}

void resp_call_map(const struct resp_call *call, uint64_t n)
{
	bool map = call->session->protocol == 3;

	resp_write_length(call->out, map ? '%' : '*', map ? n : 2 * n);
}

void resp_call_null(const struct resp_call *call)
{
	buffer_add_text(call->out, call->session->protocol == 3 ? "_\r\n" : "$-1\r\n");
}

void resp_call_verbatim(const struct resp_call *call, struct slice text)
{
	if (call->session->protocol == 2) {
		resp_write_bulk(call->out, text);
		return;
	}
	resp_write_length(call->out, '=', text.len + 4);
	buffer_add_text(call->out, "txt:");
	buffer_add_slice(call->out, text);
	buffer_add(call->out, "\r\n", 2);
}

void resp_call_subcommand(const struct resp_subcommand *table, size_t table_len,
                          const struct resp_call *call)
{
	for (size_t i = 0; i < table_len; i++) {
		if (!slice_equal_nocase(call->args[1], table[i].name))
			continue;
		if (call->count < table[i].min || call->count > table[i].max)
			resp_call_error(call, "wrong number of arguments for '%.*s|%.*s' command",
			                FILL_QUOTE(call->args[0]), FILL_QUOTE(call->args[1]));
		else
			table[i].run(call);
		return;
	}
	resp_call_error(call, "unknown subcommand '%.*s' of '%.*s'", FILL_QUOTE(call->args[1]),
	                FILL_QUOTE(call->args[0]));
}
