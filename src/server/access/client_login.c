#include "server/access/client_login.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/loop/listener_tls.h"
#include "server/requests/decider.h"
#include "server/loop/client_log.h"
#include "server/requests/work_error.h"

/* A password that is being checked. */
struct login_check {
	struct list_node node;
	struct login_queue *queue;
	struct login_throttle *throttle;
	/* NULL once the client is gone; used by its loop's thread alone */
	struct client *client;
	struct server_config *config; /* of `user` */
	struct user *user;
	bool user_exists; /* if not, the password is wrong in any case */
	struct hash_key fingerprint;
	struct ip address;
	int result; /* of password_check */
	char password[PASSWORD_MAX + 1];
};

static int refuse_wrong(struct weir_error *error)
{
	return error_set(error, WEIR_EAUTH,
	                 "expected the token, or the name and the password, of a user, found others");
}

/* Runs in the pool's thread. */
static void *compute_hash(void *argument)
{
	struct login_check *check = argument;
	struct login_queue *queue = check->queue;

	if (!atomic_load_explicit(&check->throttle->closing, memory_order_relaxed))
		check->result = password_check(check->user->rule->secret, check->password);
	explicit_bzero(check->password, sizeof check->password);
	pthread_mutex_lock(&queue->lock);
	list_append(&queue->done, &check->node);
	pthread_mutex_unlock(&queue->lock);
	net_loop_wake(queue->loop);
	return NULL;
}

static void free_check(struct login_check *check)
{
	explicit_bzero(check->password, sizeof check->password);
	server_config_release(check->config);
	free(check);
}

/*
 * Charges a login that may be wrong. Returns false, and logs it, if its address has had too many.
 */
static bool charge_failure(struct decider *decider, struct login_queue *queue,
                           struct net_conn *conn, struct weir_error *error)
{
	if (login_throttle_charge(&decider->shared->login_throttle, net_conn_peer(conn), error))
		return true;
	client_log_warn(decider->shared->log, &queue->next_warning_ns, "login_refused",
	                protocol_of(conn)->codec->name, conn, error->message);
	return false;
}

/* Returns false if the login is refused; decider->login_error says why. */
static bool begin_check(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                        const struct request_login *login, const struct login_check *fields)
{
	struct weir_error *error = &decider->login_error;
	struct client *client = client_of(conn);
	struct login_check *check = malloc(sizeof *check);

	if (!check) {
		error_set(error, WEIR_ENOMEM, "out of memory");
		return false;
	}
	*check = *fields;
	memcpy(check->password, login->secret.data, login->secret.len);
	check->password[login->secret.len] = '\0';
	check->queue = queue;
	check->throttle = &decider->shared->login_throttle;
	check->client = client;
	check->config = server_config_retain(decider->config);
	check->address = *net_conn_peer(conn);
	if (!charge_failure(decider, queue, conn, error)) {
		free_check(check);
		return false;
	}
	if (weir_pool_submit(check->throttle->pool, compute_hash, check, NULL) != WEIR_OK) {
		login_throttle_refund(check->throttle, &check->address);
		free_check(check);
		error_set(error, WEIR_EFULL, "too many logins wait already: try again in 1 s");
		return false;
	}
	client->conn = conn;
	client->login.check = check;
	return true;
}

/* Finds the first of a certificate's names that belongs to a user. */
struct by_certificate {
	const struct users *users;
	const struct user *user;
};

static bool has_certificate(void *context, const char *name)
{
	struct by_certificate *by = context;

	by->user = users_find_certificate(by->users, name);
	return by->user;
}

/* The user that the connection itself proves, by certificate or account, or NULL. */
static const struct user *find_connection_user(const struct users *users, struct net_conn *conn)
{
	struct by_certificate by = {users, NULL};
	struct tls *tls = listener_tls_of(conn);
	uint64_t account;

	if (tls)
		tls_each_name(tls, has_certificate, &by);
	else if (net_conn_peer_uid(conn, &account))
		by.user = users_find_account(users, account);
	return by.user;
}

/* Finds the connection's users anew in another configuration. */
static void adopt_configuration(const struct users *users, struct net_conn *conn)
{
	struct client_login *login = &client_of(conn)->login;

	login->users_serial = users->serial;
	login->own_user =
	    login->has_user_id ? users_find(users, login->user_id) : find_connection_user(users, conn);
	login->verified_user = NULL;
}

/*
 * Checks a login other than the connection's last one. Returns false if its hash is being computed.
 * Not inlined: a login_check is large.
 */
__attribute__((noinline)) static bool
check_new_login(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                const struct request_login *login, uint64_t tag)
{
	struct client_login *state = &client_of(conn)->login;
	struct weir_error *login_error = &decider->login_error;
	struct login_check check = {0};

	if (state->check)
		return false;
	if (!users_fingerprint(decider->config->users, login, &check.fingerprint)) {
		refuse_wrong(login_error);
		return true;
	}
	if (state->checked_status != WEIR_OK &&
	    hash_key_equal(state->checked_login, check.fingerprint)) { /* its check has just ended */
		if (state->checked_status == WEIR_EAUTH)
			refuse_wrong(login_error);
		else
			error_set(login_error, state->checked_status, "%s",
			          weir_strerror(state->checked_status));
		state->checked_status = WEIR_OK;
		return true;
	}
	switch (users_check_login(decider->config->users, login, check.fingerprint, &check.user,
	                          &check.user_exists)) {
	case USERS_KNOWN:
		state->verified_tag = tag;
		state->verified_user = decider->user = check.user;
		return true;
	case USERS_WRONG:
		if (charge_failure(decider, queue, conn, login_error))
			refuse_wrong(login_error);
		return true;
	case USERS_UNVERIFIED:
		break;
	}
	return !begin_check(decider, queue, conn, login, &check);
}

static bool check_login(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                        const struct request_login *login)
{
	const struct client_login *state = &client_of(conn)->login;
	uint64_t tag = users_login_tag(decider->config->users, login);

	if (!state->verified_user || state->verified_tag != tag)
		return check_new_login(decider, queue, conn, login, tag);
	decider->user = state->verified_user;
	return true;
}

/* Whether the login of the request has to be checked. */
static bool has_login(const struct request *request)
{
	return request->origin && request->origin->login.secret.data &&
	       (request->class != REQUEST_FREE || request->kind == REQUEST_LOGIN);
}

const struct user *client_login_user(struct decider *decider, struct net_conn *conn)
{
	struct client_login *state = &client_of(conn)->login;

	if (state->users_serial != decider->config->users->serial)
		adopt_configuration(decider->config->users, conn);
	return state->own_user;
}

bool client_login_identify(struct decider *decider, struct login_queue *queue,
                           struct net_conn *conn, const struct request *request)
{
	decider->login_error.status = WEIR_OK;
	decider->user = client_login_user(decider, conn);
	if (!has_login(request))
		return true;
	decider->user = NULL;
	if (check_login(decider, queue, conn, &request->origin->login))
		return true;
	net_conn_suspend(conn, CLIENT_LOGIN, true);
	return false;
}

void client_login_set_user(struct decider *decider, struct net_conn *conn, bool has_login)
{
	struct client_login *state = &client_of(conn)->login;

	state->has_user_id = has_login;
	if (has_login)
		state->user_id = decider->user->id;
	adopt_configuration(decider->config->users, conn);
}

static void set_login(struct decider *decider, struct work *work, const struct request *r)
{
	if (decider->login_error.status == WEIR_OK)
		client_login_set_user(decider, work->conn, r->origin != NULL);
	else
		work_fail(decider, work, decider->login_error.status,
		          slice_of(decider->login_error.message));
}

/* Without users there is one user without a password, as in a Redis that was never given one. */
void client_login_prepare(struct decider *decider, struct work *work, const struct request *r)
{
	const struct request_login *login = r->origin ? &r->origin->login : NULL;

	if (decider->config->users) {
		set_login(decider, work, r);
		return;
	}
	if (!login || slice_equal(login->user, SLICE("default")))
		return;
	if (login->user.data)
		work_fail(decider, work, WEIR_EAUTH,
		          SLICE("invalid username-password pair or user is disabled."));
	else
		work_fail(decider, work, WEIR_EINVAL,
		          SLICE("AUTH <password> called without any password configured for the default "
		                "user. Are you sure your configuration is correct?"));
}

/* Runs in the loop's thread. */
static void finish_check(struct login_check *check)
{
	struct client_login *state = check->client ? &check->client->login : NULL;
	bool right = check->result == 1 && check->user_exists;

	if (check->result < 0 || right) /* not a wrong guess */
		login_throttle_refund(check->throttle, &check->address);
	if (right)
		user_remember(check->user, check->fingerprint);
	if (state) {
		state->check = NULL;
		state->checked_login = check->fingerprint;
		state->checked_status = right ? WEIR_OK : check->result < 0 ? check->result : WEIR_EAUTH;
		net_conn_suspend(check->client->conn, CLIENT_LOGIN, false);
	}
	free_check(check);
}

/* A check that has ended, or NULL. */
static struct login_check *pop_done(struct login_queue *queue)
{
	struct list_node *node;

	pthread_mutex_lock(&queue->lock);
	node = list_pop(&queue->done);
	pthread_mutex_unlock(&queue->lock);
	return list_of(node, struct login_check, node);
}

void client_login_resume(struct login_queue *queue)
{
	struct login_check *check;

	while ((check = pop_done(queue)))
		finish_check(check);
}

void client_login_cancel(struct net_conn *conn)
{
	struct client_login *state = &client_of(conn)->login;

	if (!state->check)
		return;
	state->check->client = NULL;
	state->check = NULL;
	net_conn_suspend(conn, CLIENT_LOGIN, false);
}

void client_login_close(struct login_queue *queue)
{
	struct login_check *check;

	while ((check = pop_done(queue)))
		free_check(check);
}
