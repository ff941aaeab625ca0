/*
 * client_login.h: who sends a request: the user of its login, or of its connection.
 *
 * A password's hash takes some 20 ms, so a thread of its own computes it. The connection is put off
 * meanwhile, and then the request is parsed once more. The bytes of one that waits are not
 * consumed, so nothing else is kept of it. What was right is remembered (users.h), so a right login
 * waits once.
 *
 * Bounds: one password of a connection at a time, and as many in all as login_throttle.h says.
 */
#ifndef SERVER_CLIENT_LOGIN_H
#define SERVER_CLIENT_LOGIN_H

#include <pthread.h>
#include <stdbool.h>

#include "proto/request.h"

#include "base/list.h"

struct decider;
struct net_conn;
struct net_loop;
struct user;
struct work;

/* Logins of a loop's connections whose hash is computed by another thread. */
struct login_queue {
	struct net_loop *loop;
	pthread_mutex_t lock;
	struct list done;         /* under the lock: jobs whose hash is there */
	uint64_t next_warning_ns; /* until when another login_refused is not logged */
};

/**
 * Finds who sends a request: decider->user, or NULL for nobody, and if its login is refused
 * decider->refusal. False: its password is being computed, and the request is to be parsed again.
 * Only where there are users.
 */
bool client_login_identify(struct decider *decider, struct login_queue *queue,
                           struct net_conn *conn, const struct request *request);

/** The user of a connection; NULL: nobody. Only where there are users. */
const struct user *client_login_user(struct decider *decider, struct net_conn *conn);
/** From now on that is decider->user, who sent a login, or (false) the one of its beginning. */
void client_login_set_user(struct decider *decider, struct net_conn *conn, bool has_login);

/** As in handle.c, of REQUEST_LOGIN: keeps the login, or says why it is refused. */
void client_login_prepare(struct decider *decider, struct work *work, const struct request *r);

/** Goes on with requests whose password was computed. */
void client_login_resume(struct login_queue *queue);
/** The connection ends, or its client cancels the request whose login is computed. */
void client_login_cancel(struct net_conn *conn);
/** When no loop runs any more. */
void client_login_close(struct login_queue *queue);

#endif
