/* thread.h: starts a thread of the library or the server. */
#ifndef BASE_OS_THREAD_H
#define BASE_OS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/**
 * Starts a thread that blocks all signals, which are for the program's own threads. Returns 0 or an
 * errno.
 */
static inline int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

#endif
