/*
 * resp_call.c: writes answers that several commands of RESP have in common, and finds the function
 * of a subcommand, such as CLIENT ID.
 */
#include "proto/resp/resp_call.h"

#include <stdarg.h>
#include <stdio.h>

void resp_call_write_ok(const struct resp_call *call)
{
	buffer_add(call->out, "+OK\r\n", 5);
}

void resp_call_write_error(const struct resp_call *call, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	resp_write_error(call->out, "ERR", slice_of(text));
}

/* Begins a map of `n` pairs; RESP2 has no maps, but an array of twice as many elements. */
void resp_call_begin_map(const struct resp_call *call, uint64_t n)
{
	bool has_maps = call->session->protocol_version == 3;

	resp_write_length(call->out, has_maps ? '%' : '*', has_maps ? n : 2 * n);
}

void resp_call_write_null(const struct resp_call *call)
{
	buffer_add_text(call->out, call->session->protocol_version == 3 ? "_\r\n" : "$-1\r\n");
}

/* A text for people to read; RESP3 has a type of its own for that. */
void resp_call_write_text(const struct resp_call *call, struct slice text)
{
	if (call->session->protocol_version == 2) {
		resp_write_bulk(call->out, text);
		return;
	}
	resp_write_length(call->out, '=', text.len + 4);
	buffer_add_text(call->out, "txt:");
	buffer_add_slice(call->out, text);
	buffer_add(call->out, "\r\n", 2);
}

/* Runs the function of the subcommand that the second word names, or answers with an error. */
void resp_call_run_subcommand(const struct resp_subcommand *table, size_t table_len,
                              const struct resp_call *call)
{
	for (size_t i = 0; i < table_len; i++) {
		if (!slice_equal_nocase(call->words[1], table[i].name))
			continue;
		if (call->word_count < table[i].min_words || call->word_count > table[i].max_words)
			resp_call_write_error(
			    call, "wrong number of arguments for '%.*s|%.*s' command: expected %.*s %.*s%s%s",
			    FILL_QUOTE(call->words[0]), FILL_QUOTE(call->words[1]), FILL_QUOTE(call->words[0]),
			    FILL_QUOTE(call->words[1]), *table[i].usage ? " " : "", table[i].usage);
		else
			table[i].answer(call);
		return;
	}
	resp_call_write_error(call, "unknown subcommand '%.*s' of '%.*s'", FILL_QUOTE(call->words[1]),
	                      FILL_QUOTE(call->words[0]));
}
