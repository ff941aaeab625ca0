/*
 * command_write.c: writes commands as one call of a script (EVALSHA), and chooses the script.
 *
 * Each command has a *kind*: the function of the scripts that carries it out. Consecutive commands
 * that differ only in their keys are one *run*, whose parameters stand once. A call of a single run
 * calls the script of its kind alone; other calls have a kind and its arguments for each run.
 *
 * If no script decides a command, its first try reads the value, and the next swaps it for the one
 * that C has made. Scripts with chunks handle keys of which servers hold units (chunk_units.h).
 */
#include "redis/commands/redis_command.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "algo/rates/window.h"
#include "base/number.h"
#include "redis/commands/command_inside.h"
#include "redis/commands/command_words.h"
#include "redis/commands/exchange.h"
#include "redis/commands/value.h"
#include "scripts.h" /* made by scripts/embed.py */

#define KEY_TABLE_SIZE 256 /* a power of two, and more than CALL_COMMANDS_MAX */

void command_free_swap(struct redis_command *command)
{
	free(command->attempt.swap);
	command->attempt.swap = NULL;
}

/* Kinds */

/*
 * With shorter slots, Redis would often carry an acquire out after the slot for which it was
 * written. A refund names its slot.
 */
#define SLOT_LEAST_NS (50 * NS_PER_MS)

/* Whether there is a script that decides the command and writes the result; sets *kind to its kind.
 */
static bool is_decided_by_script(const struct redis_command *command, enum command_kind *kind)
{
	bool is_refund = algo_op_releases(command->call.op);

	if ((!algo_op_consumes(command->call.op) && !is_refund) || command->attempt.no_script_decides)
		return false;
	if (algo_has_step(command->limit, bucket_step))
		*kind = is_refund ? KIND_BUCKET_REFUND : KIND_BUCKET;
	else if (algo_has_step(command->limit, window_step))
		*kind = is_refund ? KIND_WINDOW_REFUND : KIND_WINDOW;
	else if (command->limit->record == ALGO_RECORD_DAY)
		*kind = KIND_DAY;
	else if (command->limit->record == ALGO_RECORD_SLOTS &&
	         (is_refund || command->limit->slots.slot_ns >= SLOT_LEAST_NS))
		*kind = is_refund ? KIND_SLOTS_REFUND : KIND_SLOTS;
	else
		return false;
	return true;
}

/* Whether an earlier try of the command had a reply. */
static bool is_repeated(const struct redis_command *command)
{
	return command->attempt.redis_clock_ns != 0;
}

/* The kind of the next try of a command, by its limit, its operation and the reply to its last try.
 */
static enum command_kind command_kind_of(const struct redis_command *command)
{
	/* Otherwise the group would have been refused, and not be repeated. */
	bool peek_has_passed = command->group != 0 && is_repeated(command);
	enum command_kind kind;

	if (command_state_is_list(command))
		return command->limit->record == ALGO_RECORD_LOG ? KIND_LOG : KIND_PLACES;
	if (command->settlement.may_have_chunks && chunk_units_supported(command->limit))
		return algo_has_step(command->limit, bucket_step) ? KIND_BUCKET_CHUNK : KIND_WINDOW_CHUNK;
	if (command->call.op == ALGO_RESET)
		return KIND_RESET;
	if (command_only_reads(command))
		return peek_has_passed ? KIND_PEEK_PASSES : KIND_PEEK;
	if (is_decided_by_script(command, &kind))
		return kind;
	if (command->attempt.must_leave_queue)
		return KIND_WITHDRAW;
	return command->attempt.swap && !command->attempt.swap_is_preparation ? KIND_SWAP : KIND_READ;
}

/* Whether the value is swapped before the command is decided, which is written as a kind "first".
 */
static bool swaps_first(const struct redis_command *command)
{
	return command->attempt.swap && command->attempt.swap_is_preparation;
}

/* The number of words that add_run writes. */
static size_t run_word_count(const struct redis_command *command)
{
	return 2 + command_format(command)->argument_count +
	       (swaps_first(command) ? 2 + SWAP_ARGUMENTS : 0);
}

/* Writes `n` commands that are one run: the kind, their number, and the arguments. */
static void add_run(struct buffer *out, struct redis_command *const *commands, size_t n)
{
	const struct redis_command *command = commands[0];

	if (swaps_first(command)) {
		add_word(out, SLICE("first"));
		add_number_word(out, 1);
		command_add_swap(out, command);
	}
	add_word(out, slice_of(command_format(command)->name));
	add_number_word(out, n);
	command_add_arguments(out, commands, n);
}

/* Calls */

static bool has_same_operation(const struct algo_call *a, const struct algo_call *b)
{
	return a->op == b->op && a->until_ns == b->until_ns;
}

/* Whether the command may have arguments that the checks of may_share_run do not compare. */
static bool has_own_arguments(const struct redis_command *command)
{
	return algo_op_releases(command->call.op) || command->attempt.swap || is_repeated(command);
}

/*
 * Whether all arguments of two commands are equal, so that a script call can have them once. The
 * arguments of a kind with add_command_numbers may differ: it writes them for each command.
 */
static bool may_share_run(const struct redis_command *a, const struct redis_command *b)
{
	if (a->limit != b->limit || a->attempt.kind != b->attempt.kind || a->group != 0 ||
	    b->group != 0 || command_handles_chunks(a))
		return false;
	if (command_format(a)->add_command_numbers)
		return true;
	return !has_own_arguments(a) && !has_own_arguments(b) && a->request_count == b->request_count &&
	       a->call.cost == b->call.cost &&
	       (!command_state_is_list(a) || has_same_operation(&a->call, &b->call)) &&
	       a->call.max_wait_ns == b->call.max_wait_ns;
}

/* The index after the run or group that begins at `first`. */
static size_t end_of_run(struct redis_command *const *commands, size_t n, size_t first)
{
	uint32_t group = commands[first]->group;
	size_t end = first + 1;

	while (end < n &&
	       (group ? commands[end]->group == group : may_share_run(commands[first], commands[end])))
		end++;
	return end;
}

/* Hashes the length, both ends and the middle of a name. */
static size_t hash_name(struct slice name)
{
	uint64_t words[3] = {0}, hash = name.len;

	for (size_t i = 0; i < 3; i++) {
		size_t len = name.len < sizeof *words ? name.len : sizeof *words;

		memcpy(&words[i], name.data + (name.len - len) * i / 2, len);
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	}
	return (size_t)(hash >> 32) % KEY_TABLE_SIZE;
}

/*
 * Whether the script may read all values at once, before the first command. It may if no key comes
 * twice and no value is swapped. At least one value must be a text, because lists are not read so.
 */
static bool can_read_ahead(struct redis_command *const *commands, size_t n)
{
	struct slice keys[KEY_TABLE_SIZE]; /* those before, by their hash, linear probing */
	bool has_text = false;

	memset(keys, 0, sizeof keys);
	for (size_t i = 0; i < n; i++) {
		size_t at = hash_name(commands[i]->key);

		for (; keys[at].data; at = (at + 1) % KEY_TABLE_SIZE)
			if (slice_equal(keys[at], commands[i]->key))
				return false;
		keys[at] = commands[i]->key;
		if (commands[i]->attempt.swap)
			return false;
		has_text |= !command_state_is_list(commands[i]);
	}
	return has_text;
}

/* The script for the commands: that of their kind, or one with all kinds that they may have. */
static enum script script_of(struct redis_command *const *commands, size_t n)
{
	enum script script = command_format(commands[0])->script;
	bool needs_chunks = false;

	for (size_t i = 0; i < n; i++) {
		needs_chunks |= command_handles_chunks(commands[i]);
		if (command_format(commands[i])->script != script || swaps_first(commands[i]))
			script = SCRIPT_ANY;
	}
	return script == SCRIPT_ANY && needs_chunks ? SCRIPT_EVERY : script;
}

/* Whether all commands are one run of a kind that has a script of its own. */
static bool is_single_run(struct redis_command *const *commands, size_t n, enum script script,
                          bool reads_ahead)
{
	return script < SCRIPT_ANY && (reads_ahead || command_state_is_list(commands[0])) &&
	       !commands[0]->group && end_of_run(commands, n, 0) == n;
}

/* Tests give the time by which Redis decides, in front of the arguments. */
static void add_given_time(struct buffer *out, const struct redis_command *command)
{
	char text[1 + TIME_DIGITS_MAX] = "@";

	if (command->uses_given_time)
		add_word(out, (struct slice){
		                  text, (size_t)(format_u64(text + 1, command->local_time.now_ns) - text)});
}

/* The number of words of all runs and groups of a call. */
static size_t count_run_words(struct redis_command *const *commands, size_t n)
{
	size_t words = 0, end;

	for (size_t i = 0; i < n; i = end) {
		end = end_of_run(commands, n, i);
		words += commands[i]->group ? 2 : run_word_count(commands[i]);
		for (size_t j = i; j < end && commands[i]->group; j++)
			words += run_word_count(commands[j]);
	}
	return words;
}

/*
 * Writes whether the script has to read the values one by one ("1"), then the runs. A group has a
 * word and its number of commands in front, and each of its commands is a run of its own.
 */
static void add_runs(struct buffer *out, struct redis_command *const *commands, size_t n,
                     bool reads_ahead)
{
	size_t end;

	add_word(out, reads_ahead ? SLICE("") : SLICE("1"));
	for (size_t i = 0; i < n; i = end) {
		end = end_of_run(commands, n, i);
		if (!commands[i]->group) {
			add_run(out, commands + i, end - i);
			continue;
		}
		add_word(out, SLICE("group"));
		add_number_word(out, end - i);
		for (size_t j = i; j < end; j++)
			add_run(out, commands + j, 1);
	}
}

const struct script_text *command_recovery_script(void)
{
	return &script_recovery_check;
}

/* Begins EVALSHA with this number of keys, and of words after them. */
static void begin_call(struct buffer *out, const struct script_text *script, size_t keys,
                       size_t words)
{
	buffer_add_text(out, "*");
	buffer_add_u64(out, 3 + keys + words); /* EVALSHA, hash, number of keys */
	buffer_add_text(out, "\r\n$7\r\nEVALSHA\r\n");
	add_word(out, slice_of(script->sha));
	add_number_word(out, keys);
}

/* Writes an exchange, which is always a call of its own. */
static const struct script_text *write_exchange(const struct redis_command *command,
                                                struct buffer *out)
{
	const struct script_text *script =
	    command->call.op == ALGO_EXCHANGE_REPORTS ? &script_reports : &script_quorum;

	begin_call(out, script, EXCHANGE_KEYS,
	           command->uses_given_time + command->exchange->word_count);
	exchange_write_keys(command->key, out);
	add_given_time(out, command);
	exchange_write(command->exchange, out);
	return script;
}

/* Writes a call of all other commands. Returns the script that it calls. */
static const struct script_text *write_commands(struct redis_command *const *commands, size_t n,
                                                struct buffer *out)
{
	bool reads_ahead = can_read_ahead(commands, n), single_run;
	const struct script_text *text;
	enum script script;
	size_t words;

	for (size_t i = 0; i < n; i++)
		commands[i]->attempt.kind = (unsigned char)command_kind_of(commands[i]);
	script = script_of(commands, n);
	single_run = is_single_run(commands, n, script, reads_ahead);
	text = single_run ? &scripts_alone[script] : &scripts_of_runs[script];
	words =
	    single_run ? command_format(commands[0])->argument_count : 1 + count_run_words(commands, n);
	begin_call(out, text, n, commands[0]->uses_given_time + words);
	for (size_t i = 0; i < n; i++)
		add_word(out, commands[i]->key);
	add_given_time(out, commands[0]);
	if (single_run)
		command_add_arguments(out, commands, n);
	else
		add_runs(out, commands, n, reads_ahead);
	return text;
}

/*
 * Appends a call of `n` commands, and sets the script that it calls. After ENOMEM it has appended
 * nothing.
 */
int command_write(struct redis_command *const *commands, size_t n, struct buffer *out,
                  struct script_text *script)
{
	size_t start = out->len;

	*script = commands[0]->exchange ? *write_exchange(commands[0], out)
	                                : *write_commands(commands, n, out);
	if (!out->failed)
		return WEIR_OK;
	out->len = start;
	return WEIR_ENOMEM;
}
