/* resp_exchange.h: sends commands of RESP, the protocol of Redis, to a server and reads a reply. */
#ifndef CLIENT_RESP_EXCHANGE_H
#define CLIENT_RESP_EXCHANGE_H

#include <hiredis/hiredis.h>

#include "client/connection.h"

enum resp_reading {
	RESP_NOTHING, /* the connection failed; client_error_text tells why */
	RESP_DONE,
	RESP_ERROR,  /* the server answered with an error of RESP */
	RESP_UNKNOWN /* it speaks another protocol */
};

/**
 * Sends the commands `request`, and reads the last reply into *reply, which the caller frees; NULL
 * if there is none. The first command is a login if it `has_login`, whose failure is RESP_ERROR.
 */
enum resp_reading resp_exchange(struct client_connection *conn, struct slice request,
                                bool has_login, redisReply **reply);

#endif
