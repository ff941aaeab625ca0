/*
 * resp_multi.c: queues the commands of a RESP connection between MULTI and EXEC, a transaction, and
 * makes them one batch at EXEC. It executes MULTI, EXEC, DISCARD, WATCH, RESET and QUIT as soon as
 * they are read: commands behind them may be read before these are answered.
 */
#include "proto/resp/resp_multi.h"

#include <stdlib.h>

#include "base/error.h"

struct resp_multi {
	/* For each queued command the number of its words, then for each word its length and bytes. */
	struct buffer command_words;
	size_t command_count;
	size_t request_count; /* the same, but with each key of DEL and EXISTS counted as one */
	bool is_broken;       /* a command could not be queued: EXEC will refuse the transaction */
};

/* Makes the request one that is answered by `text`, with `status` if it is an error. */
static void answer_text(struct fill *fill, int status, struct slice text)
{
	fill->request->kind = REQUEST_LOCAL;
	fill->request->class = REQUEST_FREE;
	fill->request->status = (signed char)status;
	fill->request->reply_code = RESP_REPLY_TEXT;
	fill->request->local_text = text;
}

/*
 * Adds the change of the queue's memory to the count of all sessions of this event loop. No other
 * thread writes that count, so no atomic addition is needed.
 */
static void count_queue_bytes(const struct resp_session *session, size_t before, size_t after)
{
	_Atomic uint64_t *total = session->bounds.session_bytes;

	if (total)
		atomic_store_explicit(total,
		                      atomic_load_explicit(total, memory_order_relaxed) + after - before,
		                      memory_order_relaxed);
}

size_t resp_multi_requests(const struct resp_session *session)
{
	return session->multi && !session->multi->is_broken ? session->multi->request_count : 0;
}

/* Makes EXEC refuse an open transaction, because a command had an error, and frees its queue. */
void resp_multi_break(struct resp_session *session)
{
	struct resp_multi *multi = session->multi;

	if (!multi)
		return;
	multi->is_broken = true;
	count_queue_bytes(session, multi->command_words.capacity, 0);
	buffer_free(&multi->command_words);
}

void resp_multi_end(struct resp_session *session)
{
	resp_multi_break(session);
	free(session->multi);
	session->multi = NULL;
}

static void add_word(struct buffer *words, struct slice word)
{
	uint32_t len = (uint32_t)word.len;

	buffer_add(words, &len, sizeof len);
	buffer_add_slice(words, word);
}

/* Queues a command of `n` words. Returns 0, or a status; then the caller breaks the transaction. */
int resp_multi_add(struct resp_session *session, struct fill *fill, const struct resp_spec *spec,
                   const struct slice *args, size_t n)
{
	struct resp_multi *multi = session->multi;
	size_t capacity_before = multi->command_words.capacity;
	uint32_t count = (uint32_t)n;

	answer_text(fill, 0, SLICE("+QUEUED\r\n"));
	if (multi->is_broken)
		return 0;
	multi->command_count++;
	multi->request_count += spec->has_many_keys ? n - spec->key_index : 1;
	if (multi->request_count > session->bounds.batch_max)
		return error_set(&fill->error, WEIR_ELONG,
		                 "expected a transaction of at most %zu commands and keys, found more",
		                 session->bounds.batch_max);
	buffer_add(&multi->command_words, &count, sizeof count);
	for (size_t i = 0; i < n; i++)
		add_word(&multi->command_words, args[i]);
	count_queue_bytes(session, capacity_before, multi->command_words.capacity);
	if (multi->command_words.failed)
		return error_set(&fill->error, WEIR_ELONG,
		                 "expected a transaction of at most %zu bytes, found more",
		                 multi->command_words.max);
	return 0;
}

/* Returns where the next number or word begins. */
static const char *read_u32(const char *at, uint32_t *out)
{
	memcpy(out, at, sizeof *out);
	return at + sizeof *out;
}

/* Reads the words of the queued command at `at`; returns where the next command begins. */
static const char *read_queued_words(const char *at, struct slice *args, size_t *n)
{
	uint32_t count, len;

	at = read_u32(at, &count);
	for (size_t i = 0; i < count; i++) {
		at = read_u32(at, &len);
		args[i] = (struct slice){at, len};
		at += len;
	}
	*n = count;
	return at;
}

/* Estimated bytes of a reply, besides request.reply_size. */
#define ITEM_REPLY_BYTES 100

/*
 * Fills in a batch with a request for each queued command. None may wait for its limit, because all
 * are answered together. Returns 0, or ENOMEM.
 */
static int make_batch_of_queue(const struct resp_multi *multi, struct fill *fill)
{
	struct request *items = arena_array(fill->arena, multi->command_count, sizeof *items);
	const char *at = arena_copy(
	    fill->arena, (struct slice){multi->command_words.data, multi->command_words.len});
	struct slice args[RESP_WORDS_MAX];

	if (!items || !at)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < multi->command_count; i++) {
		struct fill item;
		size_t n;

		fill_begin(&item, &items[i], fill->bounds, fill->arena);
		at = read_queued_words(at, args, &n);
		resp_read_queued_command(&item, args, n);
		items[i].wait_ns = WEIR_ZERO;
		fill->request->reply_size += items[i].reply_size + ITEM_REPLY_BYTES;
	}
	fill->request->kind = REQUEST_BATCH;
	fill->request->class = REQUEST_ASK; /* the items have classes of their own */
	fill->request->items = items;
	fill->request->item_count = multi->command_count;
	return 0;
}

void resp_execute_multi(struct resp_session *session, struct fill *fill)
{
	if (session->multi) {
		answer_text(fill, WEIR_EINVAL, SLICE("-ERR MULTI calls can not be nested\r\n"));
		return;
	}
	session->multi = calloc(1, sizeof *session->multi);
	if (!session->multi) {
		answer_text(fill, WEIR_ENOMEM, SLICE("-ERR out of memory\r\n"));
		return;
	}
	session->multi->command_words.max = 2 * session->bounds.request_max;
	session->last_command.head_len = 0; /* a matching command must be queued, not decided */
	answer_text(fill, 0, SLICE("+OK\r\n"));
}

void resp_execute_exec(struct resp_session *session, struct fill *fill)
{
	if (!session->multi)
		answer_text(fill, WEIR_EINVAL, SLICE("-ERR EXEC without MULTI\r\n"));
	else if (session->multi->is_broken)
		answer_text(fill, WEIR_EINVAL,
		            SLICE("-EXECABORT Transaction discarded because of previous errors.\r\n"));
	else if (make_batch_of_queue(session->multi, fill) != 0)
		answer_text(fill, WEIR_ENOMEM,
		            SLICE("-EXECABORT Transaction discarded: out of memory\r\n"));
	resp_multi_end(session);
}

void resp_execute_discard(struct resp_session *session, struct fill *fill)
{
	if (session->multi)
		answer_text(fill, 0, SLICE("+OK\r\n"));
	else
		answer_text(fill, WEIR_EINVAL, SLICE("-ERR DISCARD without MULTI\r\n"));
	resp_multi_end(session);
}

/* Accepts WATCH outside a transaction, and does nothing: no key's value can be read anyway. */
void resp_execute_watch(struct resp_session *session, struct fill *fill)
{
	if (session->multi)
		answer_text(fill, WEIR_EINVAL, SLICE("-ERR WATCH inside MULTI is not allowed\r\n"));
	else
		answer_text(fill, 0, SLICE("+OK\r\n"));
}

void resp_execute_reset(struct resp_session *session, struct fill *fill)
{
	(void)fill;
	resp_multi_end(session);
}

void resp_execute_quit(struct resp_session *session, struct fill *fill)
{
	resp_multi_end(session);
	fill->request->close_after = true;
	answer_text(fill, 0, SLICE("+OK\r\n"));
}

/* Refuses a command that a transaction may not have, and breaks the transaction. */
void resp_execute_outside_multi(struct resp_session *session, struct fill *fill)
{
	if (!session->multi)
		return;
	answer_text(fill, WEIR_EINVAL, SLICE("-ERR Command not allowed inside a transaction\r\n"));
	resp_multi_break(session);
}
