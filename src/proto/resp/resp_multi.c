#include "proto/resp/resp_multi.h"

#include <stdlib.h>

#include "base/error.h"

struct resp_multi {
	struct buffer words; /* for each command their number, for each word its length and bytes */
	size_t commands;
	size_t requests; /* the same, but with each key of DEL and EXISTS counted as one */
	bool broken;
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

/* Only the session's own loop writes the count: no atomic addition is needed. */
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
	return session->multi && !session->multi->broken ? session->multi->requests : 0;
}

void resp_multi_break(struct resp_session *session)
{
	struct resp_multi *multi = session->multi;

	if (!multi)
		return;
	multi->broken = true;
	count_queue_bytes(session, multi->words.capacity, 0);
	buffer_free(&multi->words);
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

int resp_multi_add(struct resp_session *session, struct fill *fill, const struct resp_spec *spec,
                   const struct slice *args, size_t n)
{
	struct resp_multi *multi = session->multi;
	size_t before = multi->words.capacity;
	uint32_t count = (uint32_t)n;

	answer_text(fill, 0, SLICE("+QUEUED\r\n"));
	if (multi->broken)
		return 0;
	multi->commands++;
	multi->requests += spec->keys ? n - spec->key : 1;
	if (multi->requests > session->bounds.batch_max)
		return error_set(&fill->error, WEIR_ELONG,
		                 "expected a transaction of at most %zu commands and keys, found more",
		                 session->bounds.batch_max);
	buffer_add(&multi->words, &count, sizeof count);
	for (size_t i = 0; i < n; i++)
		add_word(&multi->words, args[i]);
	count_queue_bytes(session, before, multi->words.capacity);
	if (multi->words.failed)
		return error_set(&fill->error, WEIR_ELONG,
		                 "expected a transaction of at most %zu bytes, found more",
		                 multi->words.max);
	return 0;
}

static const char *read_u32(const char *at, uint32_t *out)
{
	memcpy(out, at, sizeof *out);
	return at + sizeof *out;
}

/* Reads the words of the command at `at`; returns where the next command begins. */
static const char *read_words(const char *at, struct slice *args, size_t *n)
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
#define ITEM_REPLY_SIZE 100

/* Fills in a batch of the queued commands. None may wait, because all are answered together. */
static int read_items(const struct resp_multi *multi, struct fill *fill)
{
	struct request *items = arena_array(fill->arena, multi->commands, sizeof *items);
	const char *at = arena_copy(fill->arena, (struct slice){multi->words.data, multi->words.len});
	struct slice args[RESP_WORDS_MAX];

	if (!items || !at)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < multi->commands; i++) {
		struct fill item;
		size_t n;

		fill_begin(&item, &items[i], fill->bounds, fill->arena);
		at = read_words(at, args, &n);
		resp_read_words(&item, args, n);
		items[i].wait_ns = WEIR_ZERO;
		fill->request->reply_size += items[i].reply_size + ITEM_REPLY_SIZE;
	}
	fill->request->kind = REQUEST_BATCH;
	fill->request->class = REQUEST_ASK; /* the items have classes of their own */
	fill->request->items = items;
	fill->request->item_count = multi->commands;
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
	session->multi->words.max = 2 * session->bounds.request_max;
	session->form.head = 0; /* a matching command must be queued, not decided */
	answer_text(fill, 0, SLICE("+OK\r\n"));
}

void resp_execute_exec(struct resp_session *session, struct fill *fill)
{
	if (!session->multi)
		answer_text(fill, WEIR_EINVAL, SLICE("-ERR EXEC without MULTI\r\n"));
	else if (session->multi->broken)
		answer_text(fill, WEIR_EINVAL,
		            SLICE("-EXECABORT Transaction discarded because of previous errors.\r\n"));
	else if (read_items(session->multi, fill) != 0)
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

void resp_execute_outside_multi(struct resp_session *session, struct fill *fill)
{
	if (!session->multi)
		return;
	answer_text(fill, WEIR_EINVAL, SLICE("-ERR Command not allowed inside a transaction\r\n"));
	resp_multi_break(session);
}
