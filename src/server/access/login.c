#include "server/access/login.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/loop/listener_tls.h"
#include "server/requests/decider.h"
#include "server/requests/run.h"

/* A password whose hash is computed. */
struct login_job {
	struct list_node node;
	struct login_queue *queue;
	struct logins *logins;
	struct client *client;        /* NULL: gone. Its loop's thread alone looks at it */
	struct server_config *config; /* the user's */
	struct user *user;
	bool exists; /* else the result is that it is wrong */
	struct hash_key mark;
	struct ip address;
	int result; /* of password_check */
	char password[PASSWORD_MAX + 1];
};

static int refuse_wrong(struct weir_error *error)
{
	return error_set(error, WEIR_EAUTH,
	                 "expected the token, or the name and the password, of a user, found others");
}

/* In the pool's thread. */
static void *compute(void *argument)
{
	struct login_job *job = argument;
	struct login_queue *queue = job->queue;

	if (!atomic_load_explicit(&job->logins->closing, memory_order_relaxed))
		job->result = password_check(job->user->rule->secret, job->password);
	explicit_bzero(job->password, sizeof job->password);
	pthread_mutex_lock(&queue->lock);
	list_append(&queue->done, &job->node);
	pthread_mutex_unlock(&queue->lock);
	net_loop_wake(queue->loop);
	return NULL;
}

static void free_job(struct login_job *job)
{
	explicit_bzero(job->password, sizeof job->password);
	server_config_release(job->config);
	free(job);
}

/* Counts a login that may be a guess. False: its address guesses too often, which the log tells. */
static bool charge(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                   struct weir_error *error)
{
	if (logins_charge(&decider->shared->logins, net_conn_peer(conn), error))
		return true;
	run_log_client(decider->shared->log, &queue->quiet_ns, "login_refused",
	               protocol_of(conn)->codec->name, conn, error->message);
	return false;
}

/* False: the login is refused, and `error` says why. */
static bool begin(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                  const struct request_login *login, const struct login_job *as)
{
	struct weir_error *error = &decider->refusal;
	struct client *client = client_of(conn);
	struct login_job *job = malloc(sizeof *job);

	if (!job) {
		error_set(error, WEIR_ENOMEM, "out of memory");
		return false;
	}
	*job = *as;
	memcpy(job->password, login->secret.data, login->secret.len);
	job->password[login->secret.len] = '\0';
	job->queue = queue;
	job->logins = &decider->shared->logins;
	job->client = client;
	job->config = server_config_retain(decider->config);
	job->address = *net_conn_peer(conn);
	if (!charge(decider, queue, conn, error)) {
		free_job(job);
		return false;
	}
	if (weir_pool_submit(job->logins->pool, compute, job, NULL) != WEIR_OK) {
		logins_give_back(job->logins, &job->address);
		free_job(job);
		error_set(error, WEIR_EFULL, "too many logins wait already: try again in 1 s");
		return false;
	}
	client->conn = conn;
	client->login.job = job;
	return true;
}

/* The first of a certificate's names that a user has. */
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

/* Whom the connection itself proves to be there, or NULL. */
static const struct user *find_own(const struct users *users, struct net_conn *conn)
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

/* A configuration that is new to the connection. */
static void meet(const struct users *users, struct net_conn *conn)
{
	struct client_login *login = &client_of(conn)->login;

	login->serial = users->serial;
	login->user = login->is_kept ? users_find(users, login->kept) : find_own(users, conn);
	login->proved = NULL;
}

/* Of a login that is not the connection's last one. Apart: a job takes much of the stack. */
__attribute__((noinline)) static bool prove_new(struct decider *decider, struct login_queue *queue,
                                                struct net_conn *conn,
                                                const struct request_login *login, uint64_t tag)
{
	struct client_login *of = &client_of(conn)->login;
	struct weir_error *refusal = &decider->refusal;
	struct login_job job = {0};

	if (of->job)
		return false;
	if (!users_mark(decider->config->users, login, &job.mark)) {
		refuse_wrong(refusal);
		return true;
	}
	if (of->status != WEIR_OK && hash_key_equal(of->mark, job.mark)) { /* just computed */
		if (of->status == WEIR_EAUTH)
			refuse_wrong(refusal);
		else
			error_set(refusal, of->status, "%s", weir_strerror(of->status));
		of->status = WEIR_OK;
		return true;
	}
	switch (users_prove(decider->config->users, login, job.mark, &job.user, &job.exists)) {
	case USERS_KNOWN:
		of->tag = tag;
		of->proved = decider->user = job.user;
		return true;
	case USERS_WRONG:
		if (charge(decider, queue, conn, refusal))
			refuse_wrong(refusal);
		return true;
	case USERS_UNSEEN:
		break;
	}
	return !begin(decider, queue, conn, login, &job);
}

static bool prove(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                  const struct request_login *login)
{
	const struct client_login *of = &client_of(conn)->login;
	uint64_t tag = users_tag(decider->config->users, login);

	if (!of->proved || of->tag != tag)
		return prove_new(decider, queue, conn, login, tag);
	decider->user = of->proved;
	return true;
}

/* Whether the login of the request matters. */
static bool has_login(const struct request *request)
{
	return request->origin && request->origin->login.secret.data &&
	       (request->class != REQUEST_FREE || request->kind == REQUEST_LOGIN);
}

const struct user *login_user(struct decider *decider, struct net_conn *conn)
{
	struct client_login *of = &client_of(conn)->login;

	if (of->serial != decider->config->users->serial)
		meet(decider->config->users, conn);
	return of->user;
}

bool login_take(struct decider *decider, struct login_queue *queue, struct net_conn *conn,
                const struct request *request)
{
	decider->refusal.status = WEIR_OK;
	decider->user = login_user(decider, conn);
	if (!has_login(request))
		return true;
	decider->user = NULL;
	if (prove(decider, queue, conn, &request->origin->login))
		return true;
	net_conn_suspend(conn, CLIENT_LOGIN, true);
	return false;
}

void login_keep(struct decider *decider, struct net_conn *conn, bool has_login)
{
	struct client_login *of = &client_of(conn)->login;

	of->is_kept = has_login;
	if (has_login)
		of->kept = decider->user->id;
	meet(decider->config->users, conn);
}

static void keep_login(struct decider *decider, struct work *work, const struct request *r)
{
	if (decider->refusal.status == WEIR_OK)
		login_keep(decider, work->conn, r->origin != NULL);
	else
		run_fail(decider, work, decider->refusal.status, slice_of(decider->refusal.message));
}

/* Without users there is one, without a password: as in a Redis that was never given one. */
void login_prepare(struct decider *decider, struct work *work, const struct request *r)
{
	const struct request_login *login = r->origin ? &r->origin->login : NULL;

	if (decider->config->users) {
		keep_login(decider, work, r);
		return;
	}
	if (!login || slice_equal(login->user, SLICE("default")))
		return;
	if (login->user.data)
		run_fail(decider, work, WEIR_EAUTH,
		         SLICE("invalid username-password pair or user is disabled."));
	else
		run_fail(decider, work, WEIR_EINVAL,
		         SLICE("AUTH <password> called without any password configured for the default "
		               "user. Are you sure your configuration is correct?"));
}

/* In the loop's thread. */
static void finish(struct login_job *job)
{
	struct client_login *of = job->client ? &job->client->login : NULL;
	bool right = job->result == 1 && job->exists;

	if (job->result < 0 || right)
		logins_give_back(job->logins, &job->address);
	if (right)
		user_remember(job->user, job->mark);
	if (of) {
		of->job = NULL;
		of->mark = job->mark;
		of->status = right ? WEIR_OK : job->result < 0 ? job->result : WEIR_EAUTH;
		net_conn_suspend(job->client->conn, CLIENT_LOGIN, false);
	}
	free_job(job);
}

/* One that is done, or NULL. */
static struct login_job *take_done(struct login_queue *queue)
{
	struct list_node *node;

	pthread_mutex_lock(&queue->lock);
	node = list_pop(&queue->done);
	pthread_mutex_unlock(&queue->lock);
	return list_of(node, struct login_job, node);
}

void login_resume(struct login_queue *queue)
{
	struct login_job *job;

	while ((job = take_done(queue)))
		finish(job);
}

void login_cancel(struct net_conn *conn)
{
	struct client_login *of = &client_of(conn)->login;

	if (!of->job)
		return;
	of->job->client = NULL;
	of->job = NULL;
	net_conn_suspend(conn, CLIENT_LOGIN, false);
}

void login_close(struct login_queue *queue)
{
	struct login_job *job;

	while ((job = take_done(queue)))
		free_job(job);
}
