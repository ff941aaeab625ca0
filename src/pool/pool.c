/*
 * pool.c: runs submitted tasks on a pool of worker threads, at most at a given rate. A caller that
 * wants the result of a task gets a ticket, at which it can wait.
 *
 * One lock guards a ring with space for all tasks that may be unfinished. So a submission allocates
 * nothing but a ticket, and one count decides whether it is refused, however quickly the workers
 * pop their tasks.
 *
 * With a rate, one worker at a time waits for the start of the next task. When it pops that task,
 * it wakes another worker, which waits for the next start.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/pool.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "base/os/deadline.h"
#include "pool/pace.h"

#define WORKERS_MAX    1024
#define BUCKET_MAX     (1u << 24)
#define BUCKET_DEFAULT 1000

struct weir_pool_ticket {
	pthread_mutex_t lock;
	pthread_cond_t has_result;
	void *result;
	int status; /* ETIMEDOUT until it has the result */
	unsigned reference_count;
};

/*
 * Returns a ticket with two references, of the caller until it closes the ticket, and of the pool
 * until the ticket has the result. Returns NULL if there is no memory.
 */
static weir_pool_ticket *ticket_new(void)
{
	weir_pool_ticket *ticket = calloc(1, sizeof *ticket);

	if (!ticket)
		return NULL;
	pthread_mutex_init(&ticket->lock, NULL);
	condition_init(&ticket->has_result);
	ticket->status = WEIR_ETIMEDOUT;
	ticket->reference_count = 2;
	return ticket;
}

/* Drops a reference, and frees the ticket after the last. The caller has locked it; this unlocks.
 */
static void release_ticket(weir_pool_ticket *ticket)
{
	unsigned references = --ticket->reference_count;

	pthread_mutex_unlock(&ticket->lock);
	if (references > 0)
		return;
	pthread_cond_destroy(&ticket->has_result);
	pthread_mutex_destroy(&ticket->lock);
	free(ticket);
}

/* Sets the result of a task, and wakes the callers that wait for it. `ticket` may be NULL. */
static void ticket_set_result(weir_pool_ticket *ticket, int status, void *result)
{
	if (!ticket)
		return;
	pthread_mutex_lock(&ticket->lock);
	ticket->status = status;
	ticket->result = result;
	pthread_cond_broadcast(&ticket->has_result);
	release_ticket(ticket);
}

struct task {
	weir_pool_run *run;
	void *argument;
	weir_pool_ticket *ticket;
};

/* Invariant: stats.waiting <= stats.unfinished <= capacity. */
struct weir_pool {
	pthread_mutex_t lock;
	pthread_cond_t has_task_or_stopped;
	pthread_cond_t all_finished; /* the last task has ended, after the stop */
	struct pace pace;
	bool worker_awaits_start; /* one waits for the start of the first task */
	bool stopped;             /* accepts no more */
	struct task *ring;
	size_t capacity; /* of the ring: bucket + workers */
	size_t first;    /* the oldest task */
	struct weir_pool_stats stats;
	size_t started_threads;
	pthread_t threads[];
};

/* Counts a task as finished, and sets its result. Called under the pool's lock. */
static void finish_task(struct weir_pool *pool, const struct task *task, int status, void *result)
{
	/* Before the ticket has its result, so that its holder can submit another task at once. */
	pool->stats.unfinished--;
	ticket_set_result(task->ticket, status, result);
	if (pool->stopped && pool->stats.unfinished == 0)
		pthread_cond_broadcast(&pool->all_finished);
}

/*
 * Pops the next task, after waiting for one and, with a rate, for its start. Called under the lock.
 * Returns false if the pool is stopped and has no task.
 */
static bool pop_task(struct weir_pool *pool, struct task *task)
{
	uint64_t now_ns;

	for (;;) {
		if (pool->stats.waiting == 0 && pool->stopped)
			return false;
		if (pool->stats.waiting == 0 || pool->worker_awaits_start) {
			pthread_cond_wait(&pool->has_task_or_stopped, &pool->lock);
			continue;
		}
		if (!pace_has_rate(&pool->pace))
			break;
		now_ns = os_monotonic_ns();
		if (now_ns >= pool->pace.start_ns) {
			pace_advance(&pool->pace, now_ns);
			break;
		}
		pool->worker_awaits_start = true;
		condition_wait_until(&pool->has_task_or_stopped, &pool->lock, pool->pace.start_ns);
		pool->worker_awaits_start = false;
	}
	*task = pool->ring[pool->first];
	pool->first = (pool->first + 1) % pool->capacity;
	pool->stats.waiting--;
	if (pace_has_rate(&pool->pace) && pool->stats.waiting > 0) /* for the next start */
		pthread_cond_signal(&pool->has_task_or_stopped);
	return true;
}

/* The main function of a worker thread. */
static void *run_tasks(void *context)
{
	struct weir_pool *pool = context;
	struct task task;

	pthread_mutex_lock(&pool->lock);
	while (pop_task(pool, &task)) {
		void *result;

		pthread_mutex_unlock(&pool->lock);
		result = task.run(task.argument);
		pthread_mutex_lock(&pool->lock);
		pool->stats.finished++;
		finish_task(pool, &task, WEIR_OK, result);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static int check_options(const struct weir_pool_options *options, struct weir_error *error)
{
	if (options->workers > WORKERS_MAX)
		return error_set(error, WEIR_ERANGE, "workers: expected 1 to %d, found %u", WORKERS_MAX,
		                 options->workers);
	if (options->bucket > BUCKET_MAX)
		return error_set(error, WEIR_ERANGE, "bucket: expected 1 to %u, found %u", BUCKET_MAX,
		                 options->bucket);
	return error_check_reserved(error, options->reserved);
}

static size_t processors(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	return online < 1 ? 1 : u64_min((uint64_t)online, WORKERS_MAX);
}

static weir_pool *new_pool(const struct weir_pool_options *options)
{
	size_t workers = options->workers ? options->workers : processors();
	size_t bucket = options->bucket ? options->bucket : BUCKET_DEFAULT;
	weir_pool *pool = calloc(1, sizeof *pool + workers * sizeof *pool->threads);

	if (!pool)
		return NULL;
	pool->capacity = bucket + workers;
	pool->stats.workers = workers;
	pool->stats.bucket = bucket;
	pool->ring = calloc(pool->capacity, sizeof *pool->ring);
	if (!pool->ring) {
		free(pool);
		return NULL;
	}
	pthread_mutex_init(&pool->lock, NULL);
	condition_init(&pool->has_task_or_stopped);
	pthread_cond_init(&pool->all_finished, NULL);
	return pool;
}

/*
 * Blocks signals for new threads. Signals go to the program's own threads, whose handlers know
 * where they may run. But a task's own fault stays here, where a crash handler wants to see it.
 */
static void block_signals(sigset_t *before)
{
	static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
	sigset_t blocked;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&blocked, faults[i]);
	pthread_sigmask(SIG_BLOCK, &blocked, before);
}

/* Starts the worker threads. Returns ENOMEM if not all can be started. */
static int start_workers(struct weir_pool *pool)
{
	sigset_t before;
	int failed = 0;

	block_signals(&before);
	while (!failed && pool->started_threads < pool->stats.workers) {
		failed = pthread_create(&pool->threads[pool->started_threads], NULL, run_tasks, pool);
		pool->started_threads += !failed;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? WEIR_ENOMEM : WEIR_OK;
}

int weir_pool_open(const struct weir_pool_options *options, weir_pool **out,
                   struct weir_error *error)
{
	static const struct weir_pool_options defaults;
	struct pace pace;
	weir_pool *pool;
	int status;

	*out = NULL;
	if (!options)
		options = &defaults;
	status = check_options(options, error);
	if (status == WEIR_OK)
		status = pace_init(&pace, &options->rate, error);
	if (status != WEIR_OK)
		return status;
	pool = new_pool(options);
	if (!pool)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	pool->pace = pace;
	if (start_workers(pool) != WEIR_OK) {
		error_set(error, WEIR_ENOMEM, "workers: expected %zu threads, found room for %zu",
		          (size_t)pool->stats.workers, pool->started_threads);
		weir_pool_close(pool);
		return WEIR_ENOMEM;
	}
	*out = pool;
	return WEIR_OK;
}

void weir_pool_close(weir_pool *pool)
{
	if (!pool)
		return;
	weir_pool_stop(pool, NULL, NULL);
	for (size_t i = 0; i < pool->started_threads; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->all_finished);
	pthread_cond_destroy(&pool->has_task_or_stopped);
	pthread_mutex_destroy(&pool->lock);
	free(pool->ring);
	free(pool);
}

/* Appends a task to the ring, or refuses it. Called under the lock. */
static int push_task(struct weir_pool *pool, struct task *task, bool wants_ticket)
{
	if (pool->stopped)
		return WEIR_ESTOPPED;
	if (pool->stats.unfinished == pool->capacity) {
		pool->stats.refused++;
		return WEIR_EFULL;
	}
	if (wants_ticket && !(task->ticket = ticket_new()))
		return WEIR_ENOMEM;
	if (pace_has_rate(&pool->pace) && pool->stats.waiting == 0)
		pace_resume(&pool->pace, os_monotonic_ns());
	pool->ring[(pool->first + pool->stats.waiting) % pool->capacity] = *task;
	pool->stats.waiting++;
	pool->stats.unfinished++;
	pool->stats.accepted++;
	/* A worker that waits for a start will wake another one itself. */
	if (!pool->worker_awaits_start)
		pthread_cond_signal(&pool->has_task_or_stopped);
	return WEIR_OK;
}

int weir_pool_submit(weir_pool *pool, weir_pool_run *run, void *argument, weir_pool_ticket **ticket)
{
	struct task task = {run, argument, NULL};
	int status = WEIR_EINVAL;

	if (run) {
		pthread_mutex_lock(&pool->lock);
		status = push_task(pool, &task, ticket != NULL);
		pthread_mutex_unlock(&pool->lock);
	}
	if (ticket)
		*ticket = task.ticket;
	return status;
}

static bool is_worker(const struct weir_pool *pool)
{
	for (size_t i = 0; i < pool->started_threads; i++)
		if (pthread_equal(pool->threads[i], pthread_self()))
			return true;
	return false;
}

/*
 * Passes the tasks that still wait to give_back (without it they run), and returns when all others
 * have ended. Returns EINVAL in a worker, which would wait for itself.
 */
int weir_pool_stop(weir_pool *pool, weir_pool_return *give_back, void *context)
{
	size_t returned;

	if (is_worker(pool))
		return WEIR_EINVAL;
	pthread_mutex_lock(&pool->lock);
	pool->stopped = true;
	/* The workers no longer see these tasks, and after the stop nothing overwrites them. */
	returned = give_back ? pool->stats.waiting : 0;
	pool->stats.waiting -= returned;
	for (size_t i = 0; i < returned; i++) {
		struct task task = pool->ring[(pool->first + i) % pool->capacity];

		pthread_mutex_unlock(&pool->lock);
		give_back(context, task.run, task.argument);
		pthread_mutex_lock(&pool->lock);
		pool->stats.returned++;
		finish_task(pool, &task, WEIR_ESTOPPED, NULL);
	}
	while (pool->stats.unfinished > 0)
		pthread_cond_wait(&pool->all_finished, &pool->lock);
	pthread_cond_broadcast(&pool->has_task_or_stopped);
	pthread_mutex_unlock(&pool->lock);
	return WEIR_OK;
}

void weir_pool_stats(weir_pool *pool, struct weir_pool_stats *stats)
{
	pthread_mutex_lock(&pool->lock);
	*stats = pool->stats;
	stats->missed_turns = pool->pace.missed;
	pthread_mutex_unlock(&pool->lock);
}

void weir_pool_ticket_close(weir_pool_ticket *ticket)
{
	if (!ticket)
		return;
	pthread_mutex_lock(&ticket->lock);
	release_ticket(ticket);
}

int weir_pool_wait(weir_pool_ticket *ticket, uint64_t deadline_ns, void **result)
{
	uint64_t until_ns = sat_add(os_monotonic_ns(), deadline_remaining_ns(deadline_ns));
	int status;

	pthread_mutex_lock(&ticket->lock);
	while (ticket->status == WEIR_ETIMEDOUT &&
	       condition_wait_until(&ticket->has_result, &ticket->lock, until_ns) != ETIMEDOUT)
		;
	status = ticket->status;
	if (status == WEIR_OK && result)
		*result = ticket->result;
	pthread_mutex_unlock(&ticket->lock);
	return status;
}
