/*
 * reload_requests.h: lets requests ask the server's thread for a reload, and tells when it is done.
 *
 * Reloads have numbers. A request gets the number of the first reload that begins after it was
 * asked, so that this reload reads files that were written before. Requests that come meanwhile
 * share the next one.
 */
#ifndef SERVER_RELOAD_REQUESTS_H
#define SERVER_RELOAD_REQUESTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#define RELOAD_MESSAGE_MAX 1024
#define RELOAD_RESTART_MAX 256

/* How a reload has ended. */
struct reload_result {
	char message[RELOAD_MESSAGE_MAX]; /* why it failed, or empty */
	/* the settings that have changed but need a restart, as texts of a list in JSON, or empty */
	char restart_needed[RELOAD_RESTART_MAX];
};

struct reload_requests {
	pthread_mutex_t mutex;
	uint64_t asked, begun, done; /* numbers of reloads; the largest so far */
	int fd;                      /* readable if a reload is asked for; -1 if it is not open */
	bool has_stopped;            /* no reload begins any more */
	struct reload_result result; /* of the reload `done` */
};

/** Returns 0 or EIO. */
int reload_requests_open(struct reload_requests *requests);
void reload_requests_close(struct reload_requests *requests);

/** Any thread: asks for a reload, and returns its number. */
uint64_t reload_requests_ask(struct reload_requests *requests);
/**
 * Any thread: whether the reload of this number, or a later one, is done, or will never begin.
 * Copies its result.
 */
bool reload_requests_is_done(struct reload_requests *requests, uint64_t number,
                             struct reload_result *result);

/** The server's thread: whether a reload is asked for. Call it before each reload. */
bool reload_requests_begin(struct reload_requests *requests);
/** The server's thread: the reload has ended. */
void reload_requests_end(struct reload_requests *requests, const struct reload_result *result);
/** The server's thread: it makes no more reloads. Wake the loops then: requests may wait for one.
 */
void reload_requests_stop(struct reload_requests *requests);

#endif
