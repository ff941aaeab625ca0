/*
 * help.c: prints the help of a command, and all commands as JSON, from which manual pages and
 * completions are generated.
 */
#include <string.h>

#include "base/buffer.h"
#include "cli/command.h"

#define COLUMN 24 /* where the descriptions of flags begin */

/* Prints "-c, --config FILE", the description, and the environment variable if there is one. */
static void print_flag(const struct flag *flag, FILE *to)
{
	char letter[8] = "    ", left[64];

	if (flag->letter)
		snprintf(letter, sizeof letter, "-%c, ", flag->letter);
	snprintf(left, sizeof left, "%s--%s%s%s", letter, flag->name, flag->value ? " " : "",
	         flag->value ? flag->value : "");
	fprintf(to, "  %-*s %s", COLUMN, left, flag->help);
	fprintf(to, flag->variable ? " [%s]\n" : "\n", flag->variable);
}

void command_help(const struct command *command, FILE *to)
{
	static const struct flag help = {"help", NULL, "show this help", 'h', NULL};

	for (size_t i = 0; command->uses[i]; i++)
		fprintf(to, "%s weir %s%s%s\n", i == 0 ? "usage:" : "      ", command->name,
		        *command->uses[i] ? " " : "", command->uses[i]);
	fprintf(to, "\n%s\n\n", command->summary);
	for (size_t i = 0; i < command->flag_count; i++)
		if (command->flags[i].help)
			print_flag(&command->flags[i], to);
	print_flag(&help, to);
	if (command->variables->name)
		fprintf(to, "\nEnvironment variables:\n");
	for (const struct variable *variable = command->variables; variable->name; variable++)
		fprintf(to, "  %-*s %s\n", COLUMN, variable->name, variable->help);
	if (command->note)
		fprintf(to, "\n%s\n", command->note);
	fprintf(to, "\nExamples:\n");
	for (size_t i = 0; command->examples[i]; i++)
		fprintf(to, "  %s\n", command->examples[i]);
	fprintf(to, "\nExit status: %s.\n", command->exits);
}

/* Adds a member of a JSON object, null for text NULL, after the separator: "{" or ",". */
static void add_member(struct buffer *out, const char *name, const char *text,
                       const char *separator)
{
	buffer_printf(out, "%s\"%s\":", separator, name);
	if (!text) {
		buffer_add_text(out, "null");
		return;
	}
	buffer_add_json_string(out, slice_of(text));
}

static void add_flag(struct buffer *out, const struct flag *flag)
{
	const char letter[2] = {flag->letter, '\0'};

	add_member(out, "name", flag->name, "{");
	add_member(out, "letter", flag->letter ? letter : NULL, ",");
	add_member(out, "value", flag->value, ",");
	add_member(out, "help", flag->help, ",");
	add_member(out, "variable", flag->variable, ",");
	buffer_add(out, "}", 1);
}

/* Adds a list of texts, which NULL ends. */
static void add_texts(struct buffer *out, const char *name, const char *const *texts)
{
	buffer_printf(out, ",\"%s\":[", name);
	for (size_t i = 0; texts[i]; i++) {
		buffer_add_text(out, i > 0 ? ",\"" : "\"");
		buffer_add_json(out, slice_of(texts[i]));
		buffer_add(out, "\"", 1);
	}
	buffer_add_text(out, "]");
}

static void add_command(struct buffer *out, const struct command *command)
{
	const char *separator = "\n";

	add_member(out, "name", command->name, "{");
	add_member(out, "summary", command->summary, ",");
	add_member(out, "note", command->note, ",");
	add_member(out, "exits", command->exits, ",");
	add_texts(out, "uses", command->uses);
	add_texts(out, "examples", command->examples);
	buffer_add_text(out, ",\"flags\":[");
	for (size_t i = 0; i < command->flag_count; i++) {
		if (!command->flags[i].help) /* not shown */
			continue;
		buffer_add_text(out, separator);
		add_flag(out, &command->flags[i]);
		separator = ",\n";
	}
	buffer_add_text(out, "],\"variables\":[");
	for (const struct variable *variable = command->variables; variable->name; variable++) {
		add_member(out, "name", variable->name, variable == command->variables ? "\n{" : ",\n{");
		add_member(out, "help", variable->help, ",");
		buffer_add_text(out, "}");
	}
	buffer_add_text(out, "]}");
}

int command_list_json(const struct command *const *commands, size_t count, FILE *to)
{
	struct buffer out = {0};

	for (size_t i = 0; i < count; i++) {
		buffer_add_text(&out, i > 0 ? ",\n" : "[");
		add_command(&out, commands[i]);
	}
	buffer_add_text(&out, "]\n");
	if (out.failed)
		return command_fail("help", "out of memory");
	fwrite(out.data, 1, out.len, to);
	buffer_free(&out);
	return 0;
}
