/*
 * client_pool.c: lends store clients to the library's calls, which block their thread. A *loan* is
 * a client with its transport; idle loans are lent again.
 */
#include "redis/client_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/os/os.h"
#include "redis/network/blocking.h"

struct loan {
	struct store_loan loan; /* first */
	struct blocking *blocking;
	pid_t owner; /* the process that made it: a child must not use its parent's connections */
	struct list_node node; /* of the pool's idle loans */
};

struct pool {
	struct store_caller caller; /* first */
	pthread_mutex_t lock;       /* of: */
	struct list idle;           /* the last returned first */
	uint64_t timeout_ns;
};

static void free_loan(struct loan *loan)
{
	if (loan->loan.client)
		redis_client_close(loan->loan.client);
	if (loan->blocking)
		blocking_close(loan->blocking);
	free(loan);
}

static struct loan *make_loan(struct store *store)
{
	struct loan *loan = calloc(1, sizeof *loan);

	if (!loan)
		return NULL;
	loan->owner = getpid();
	loan->blocking = blocking_open();
	if (!loan->blocking || redis_client_open(store, blocking_transport(loan->blocking),
	                                         &loan->loan.client) != WEIR_OK) {
		free_loan(loan);
		return NULL;
	}
	blocking_serve(loan->blocking, loan->loan.client);
	return loan;
}

static struct loan *pop_idle(struct pool *pool)
{
	struct loan *loan;

	pthread_mutex_lock(&pool->lock);
	loan = list_of(list_pop(&pool->idle), struct loan, node);
	pthread_mutex_unlock(&pool->lock);
	return loan;
}

/*
 * Lends the client that was returned last, or a new one. After a fork, the child drops its parent's
 * clients. NULL if there is no memory.
 */
static struct store_loan *borrow(struct store_caller *caller)
{
	struct loan *loan = pop_idle((struct pool *)caller);

	while (loan && loan->owner != getpid()) {
		free_loan(loan);
		loan = pop_idle((struct pool *)caller);
	}
	if (!loan) {
		loan = make_loan(caller->store);
		return loan ? &loan->loan : NULL;
	}
	/* Read what has arrived meanwhile, so that this call does not fail if Redis has recovered. */
	blocking_settle(loan->blocking, os_monotonic_ns() + ((struct pool *)caller)->timeout_ns);
	redis_client_begin(loan->loan.client);
	return &loan->loan;
}

static void run_loan(struct store_loan *loan, const size_t *pending)
{
	redis_client_flush(loan->client);
	blocking_run(((struct loan *)loan)->blocking, pending);
}

static void return_loan(struct store_caller *caller, struct store_loan *lent)
{
	struct pool *pool = (struct pool *)caller;
	struct loan *loan = (struct loan *)lent;

	pthread_mutex_lock(&pool->lock);
	list_insert(&pool->idle, &loan->node, pool->idle.first);
	pthread_mutex_unlock(&pool->lock);
}

/* Has the client return its reserved units to Redis, as long as the timeout allows. */
static void release_chunks(const struct pool *pool, struct loan *loan)
{
	redis_client_stop(loan->loan.client);
	redis_client_flush(loan->loan.client);
	blocking_settle(loan->blocking, os_monotonic_ns() + pool->timeout_ns);
}

static void close_pool(struct store_caller *caller)
{
	struct pool *pool = (struct pool *)caller;
	struct loan *loan;

	while ((loan = pop_idle(pool))) {
		if (loan->owner == getpid())
			release_chunks(pool, loan);
		free_loan(loan);
	}
	redis_store_close(caller->store);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

int pool_open(const struct redis_options *options, struct store_caller **out,
              struct weir_error *error)
{
	struct pool *pool = malloc(sizeof *pool);
	int status;

	*out = NULL;
	if (!pool)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	*pool = (struct pool){
	    .timeout_ns = options->timeout_ns,
	    .caller = {
	        .borrow = borrow, .run = run_loan, .give_back = return_loan, .close = close_pool}};
	status = redis_store_open(options, &pool->caller.store, error);
	if (status != WEIR_OK) {
		free(pool);
		return status;
	}
	pool->caller.name = redis_store_name(pool->caller.store);
	pthread_mutex_init(&pool->lock, NULL);
	*out = &pool->caller;
	return WEIR_OK;
}
