/*
 * client_login.h: identifies the sender of a request: the user of its login, or of its connection.
 *
 * A password's hash takes some 20 ms to compute, so another thread computes it, while the
 * connection is suspended and its request not consumed. A right login is remembered (users.h).
 *
 * Bounds: one password of a connection is checked at a time, and as many in all as login_throttle.h
 * says.
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

/* The logins of a loop's connections whose hash another thread computes. */
struct login_queue {
	struct net_loop *loop;
	pthread_mutex_t lock;
	struct list done;         /* under the lock: checks that have ended */
	uint64_t next_warning_ns; /* before this time no other login_refused is logged */
};

/**
 * Sets decider->user to the sender, or NULL for nobody, and decider->login_error. Returns false if
 * a password is being checked: put the request back. Call it only if there are users.
 */
bool client_login_identify(struct decider *decider, struct login_queue *queue,
                           struct net_conn *conn, const struct request *request);

/** The user of a connection, or NULL. Call it only if there are users. */
const struct user *client_login_user(struct decider *decider, struct net_conn *conn);
/**
 * Makes decider->user, who has sent a login, the connection's user; or without a login the user
 * that the connection itself proves.
 */
void client_login_set_user(struct decider *decider, struct net_conn *conn, bool has_login);

/** The handler of REQUEST_LOGIN (handle.c): sets the connection's user, or the error. */
void client_login_prepare(struct decider *decider, struct work *work, const struct request *r);

/** Resumes connections whose password was checked. */
void client_login_resume(struct login_queue *queue);
/** Called when the connection ends, or its client cancels the request with the login. */
void client_login_cancel(struct net_conn *conn);
/** Called when no loop runs any more. */
void client_login_close(struct login_queue *queue);

#endif
