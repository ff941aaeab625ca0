/*
 * login.h: who sends a request: the user of its login, or of its connection.
 *
 * A password's hash takes some 20 ms, so a thread of its own computes it. The connection is put off
 * meanwhile, and then the request is parsed once more. The bytes of one that waits are not
 * consumed, so nothing else is kept of it. What was right is remembered (users.h), so a right login
 * waits once.
 *
 * Bounds: one password of a connection at a time, and as many in all as logins.h says.
 */
#ifndef SERVER_LOGIN_H
#define SERVER_LOGIN_H

#include <stdbool.h>

#include "proto/request.h"

struct net_conn;
struct user;
struct work;
struct worker;

/**
 * Finds who sends a request: worker->user, or NULL for nobody, and if its login is refused
 * worker->refusal. False: its password is being computed, and the request is to be parsed again.
 * Only where there are users.
 */
bool login_take(struct worker *worker, struct net_conn *conn, const struct request *request);

/** The user of a connection; NULL: nobody. Only where there are users. */
const struct user *login_user(struct worker *worker, struct net_conn *conn);
/** From now on that is worker->user, who sent a login, or (false) the one of its beginning. */
void login_keep(struct worker *worker, struct net_conn *conn, bool has_login);

/** As in handle.c, of REQUEST_LOGIN: keeps the login, or says why it is refused. */
void login_prepare(struct worker *worker, struct work *work, const struct request *r);

/** Goes on with requests whose password was computed. */
void login_resume(struct worker *worker);
/** The connection ends, or its client cancels the request whose login is computed. */
void login_cancel(struct net_conn *conn);
/** When no loop runs any more. */
void login_close(struct worker *worker);

#endif
