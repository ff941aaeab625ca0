/*
 * client_login.c: finds out which user has sent a request: by its login, by an earlier login of its
 * connection, or by what the connection proves, such as a certificate.
 *
 * A password's hash takes long to compute, so a thread of a pool does it. The connection is
 * suspended meanwhile, and its request is parsed again afterwards.
 */
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
	struct user *user;            /* whose hash is computed */
	/* if not, it is the hash of another user, for its time alone: the login is wrong in any case */
	bool has_password;
	struct hash_key fingerprint;
	struct ip address;
	int result; /* of password_check: 1 if the password is right, 0 if not, or an error */
	char password[PASSWORD_MAX + 1];
};

static int set_wrong_login(struct weir_error *error)
{
	return error_set(error, WEIR_EAUTH,
	                 "expected the token, or the name and the password, of a user, found others");
}

/* A task of the pool's thread. Returns the check to the loop of its connection. */
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
 * Charges the address for a login that may be wrong; a right one is refunded. Returns false, and
 * logs it, if the address has had too many wrong ones.
 */
static bool charge_attempt(struct decider *decider, struct login_queue *queue,
                           struct net_conn *conn, struct weir_error *error)
{
	if (login_throttle_charge(&decider->shared->login_throttle, net_conn_peer(conn), error))
		return true;
	client_log_warn(decider->shared->log, &queue->next_warning_ns, "login_refused",
	                protocol_of(conn)->codec->name, conn, error->message);
	return false;
}

/*
 * Passes a password to the pool, which checks it. `fields` has the user and the fingerprint.
 * Returns false if the login is refused; decider->login_error says why.
 */
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
	if (!charge_attempt(decider, queue, conn, error)) {
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

/* The search for the first of a certificate's names that belongs to a user. */
struct certificate_search {
	const struct users *users;
	const struct user *user;
};

static bool find_user_of_name(void *context, const char *name)
{
	struct certificate_search *search = context;

	search->user = users_find_certificate(search->users, name);
	return search->user != NULL;
}

/* The user that the connection itself proves, by certificate or account, or NULL. */
static const struct user *find_connection_user(const struct users *users, struct net_conn *conn)
{
	struct certificate_search search = {users, NULL};
	struct tls *tls = listener_tls_of(conn);
	uint64_t account;

	if (tls)
		tls_each_name(tls, find_user_of_name, &search);
	else if (net_conn_peer_uid(conn, &account))
		search.user = users_find_account(users, account);
	return search.user;
}

/* Called with the users of a new configuration, or after a login: finds the connection's user. */
static void find_users_again(const struct users *users, struct net_conn *conn)
{
	struct client_login *login = &client_of(conn)->login;

	login->users_serial = users->serial;
	login->own_user =
	    login->has_user_id ? users_find(users, login->user_id) : find_connection_user(users, conn);
	login->verified_user = NULL;
}

/*
 * Checks a login that differs from the last right one of the connection. Returns false if its hash
 * is being computed; otherwise sets decider->user, or decider->login_error. `tag` is a short hash
 * of the login. Not inlined: a login_check is large.
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
		set_wrong_login(login_error);
		return true;
	}
	if (state->checked_status != WEIR_OK &&
	    hash_key_equal(state->checked_login,
	                   check.fingerprint)) { /* its check ended with an error */
		if (state->checked_status == WEIR_EAUTH)
			set_wrong_login(login_error);
		else
			error_set(login_error, state->checked_status, "%s",
			          weir_strerror(state->checked_status));
		state->checked_status = WEIR_OK;
		return true;
	}
	switch (users_check_login(decider->config->users, login, check.fingerprint, &check.user,
	                          &check.has_password)) {
	case USERS_KNOWN:
		state->verified_tag = tag;
		state->verified_user = decider->user = check.user;
		return true;
	case USERS_WRONG:
		if (charge_attempt(decider, queue, conn, login_error))
			set_wrong_login(login_error);
		return true;
	case USERS_UNVERIFIED:
		break;
	}
	return !begin_check(decider, queue, conn, login, &check);
}

/* As check_new_login, for any login. */
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
		find_users_again(decider->config->users, conn);
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
	find_users_again(decider->config->users, conn);
}

/*
 * Makes the sender of a login the user of its connection. A REQUEST_LOGIN without an origin has no
 * login: it makes the user the one that the connection itself proves, as at its beginning.
 */
static void login_connection(struct decider *decider, struct work *work, const struct request *r)
{
	if (decider->login_error.status == WEIR_OK)
		client_login_set_user(decider, work->conn, r->origin != NULL);
	else
		work_fail(decider, work, decider->login_error.status,
		          slice_of(decider->login_error.message));
}

/*
 * Carries out a REQUEST_LOGIN. Without users there is one user without a password, as in a Redis
 * that was never given one.
 */
void client_login_prepare(struct decider *decider, struct work *work, const struct request *r)
{
	const struct request_login *login = r->origin ? &r->origin->login : NULL;

	if (decider->config->users) {
		login_connection(decider, work, r);
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

/* Runs in the loop's thread: lets the connection send its request again, now with a known login. */
static void finish_check(struct login_check *check)
{
	struct client_login *state = check->client ? &check->client->login : NULL;
	bool is_right = check->result == 1 && check->has_password;

	if (check->result < 0 || is_right) /* not a wrong guess */
		login_throttle_refund(check->throttle, &check->address);
	if (is_right)
		user_remember(check->user, check->fingerprint);
	if (state) {
		state->check = NULL;
		state->checked_login = check->fingerprint;
		state->checked_status = check->result < 0 ? check->result : is_right ? WEIR_OK : WEIR_EAUTH;
		net_conn_suspend(check->client->conn, CLIENT_LOGIN, false);
	}
	free_check(check);
}

/* Returns a check that has ended, or NULL. */
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

/* A check goes on without its client: the pool can't stop it. */
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
