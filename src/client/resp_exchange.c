/* resp_exchange.c: reads replies of RESP by the reader of hiredis, and bounds their size. */
#include "client/resp_exchange.h"

#include <errno.h>
#include <string.h>

#define PIECE_MAX 4096
#define REPLY_MAX ((size_t)4 * PIECE_MAX)
#define ITEMS_MAX 64 /* of an array; the longest answer has 9 */

/* hiredis 1 has another type than 0.14. */
#ifdef REDIS_REPLY_BOOL
typedef size_t item_count;
#else
typedef int item_count;
#endif

/* A reader that makes no long arrays: hiredis reserves all of an array before its items arrive. */
struct bounded_reader {
	redisReader *reader;
	redisReplyObjectFunctions functions, *own; /* `own` are those of hiredis */
};

static void *make_array(const redisReadTask *task, item_count count)
{
	const struct bounded_reader *bounded = task->privdata;

	return (size_t)count > ITEMS_MAX ? NULL : bounded->own->createArray(task, count);
}

/* False if memory is short. */
static bool open_reader(struct bounded_reader *bounded)
{
	bounded->reader = redisReaderCreate();
	if (!bounded->reader)
		return false;
	bounded->own = bounded->reader->fn;
	bounded->functions = *bounded->own;
	bounded->functions.createArray = make_array;
	bounded->reader->fn = &bounded->functions;
	bounded->reader->privdata = bounded;
	return true;
}

/* Reads a reply, which the caller frees. RESP_NOTHING leaves the reason in errno. */
static enum resp_reading read_reply(struct client_connection *conn, redisReader *reader,
                                    redisReply **reply)
{
	char bytes[PIECE_MAX];
	size_t sum = 0;

	for (;;) {
		ssize_t got;

		if (redisReaderGetReply(reader, (void **)reply) != REDIS_OK)
			return RESP_UNKNOWN;
		if (*reply)
			return (*reply)->type == REDIS_REPLY_ERROR ? RESP_ERROR : RESP_DONE;
		got = client_receive(conn, bytes, sizeof bytes);
		if (got == 0)
			errno = ECONNRESET;
		else if (got > 0 && (sum += (size_t)got) > REPLY_MAX)
			errno = EMSGSIZE;
		else if (got > 0 && redisReaderFeed(reader, bytes, (size_t)got) != REDIS_OK)
			errno = ENOMEM;
		else if (got > 0)
			continue;
		return RESP_NOTHING;
	}
}

/* The server answers a login with +OK or an error. */
static bool is_ok(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
}

enum resp_reading resp_exchange(struct client_connection *conn, struct slice request,
                                bool has_login, redisReply **reply)
{
	struct bounded_reader bounded = {0};
	bool is_open = client_send(conn, request) && open_reader(&bounded);
	redisReader *reader = bounded.reader;
	enum resp_reading reading = is_open ? read_reply(conn, reader, reply) : RESP_NOTHING;
	int failure;

	if (has_login && reading == RESP_DONE) { /* the first reply is that to the login */
		bool logged_in = is_ok(*reply);

		freeReplyObject(*reply);
		*reply = NULL;
		reading = logged_in ? read_reply(conn, reader, reply) : RESP_UNKNOWN;
	}
	failure = errno; /* which freeing the reader may change */
	if (reader)
		redisReaderFree(reader);
	errno = failure;
	return reading;
}
