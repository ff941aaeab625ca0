/*
 * events.c: keeps the last events of the log in memory, as the text of server-sent events, for
 * clients that follow them (event_streams.h).
 */
#include "server/admin/events.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/number.h"

struct events {
	enum events_kind kind;
	pthread_mutex_t mutex;            /* of `texts`, `wake` and `context` */
	struct buffer texts[EVENTS_KEPT]; /* event n is at n % EVENTS_KEPT */
	_Atomic uint64_t next;            /* number of the next event, from 1 */
	_Atomic size_t followers;         /* clients */
	void (*wake)(void *context);      /* wakes the loops that serve the followers */
	void *context;
};

struct events *events_open(enum events_kind kind)
{
	struct events *events = calloc(1, sizeof *events);

	if (!events)
		return NULL;
	pthread_mutex_init(&events->mutex, NULL);
	events->kind = kind;
	events->next = 1;
	return events;
}

void events_close(struct events *events)
{
	if (!events)
		return;
	for (size_t i = 0; i < EVENTS_KEPT; i++)
		buffer_free(&events->texts[i]);
	pthread_mutex_destroy(&events->mutex);
	free(events);
}

void events_wake(struct events *events, void (*wake)(void *context), void *context)
{
	pthread_mutex_lock(&events->mutex);
	events->wake = wake;
	events->context = context;
	pthread_mutex_unlock(&events->mutex);
}

/* Stores the event in place of the oldest one; a failed text is skipped by readers. */
void events_add(struct events *events, const char *event, struct slice json)
{
	struct buffer *text;
	uint64_t number;

	pthread_mutex_lock(&events->mutex);
	number = atomic_load_explicit(&events->next, memory_order_relaxed);
	text = &events->texts[number % EVENTS_KEPT];
	buffer_free(text);
	if (events->kind == EVENTS_OF_LOG)
		buffer_printf(text, "id: %llu\n", (unsigned long long)number);
	buffer_printf(text, "event: %s\ndata: ", event);
	if (json.len <= EVENTS_TEXT_MAX)
		buffer_add(text, json.data, json.len);
	else
		buffer_printf(text, "{\"event\":\"%s\",\"message\":\"too long: see the log\"}", event);
	buffer_add(text, "\n\n", 2);
	atomic_store_explicit(&events->next, number + 1, memory_order_release);
	if (events->wake && events_followers(events) > 0)
		events->wake(events->context);
	pthread_mutex_unlock(&events->mutex);
}

bool events_follow(struct events *events)
{
	if (atomic_fetch_add(&events->followers, 1) < EVENTS_STREAMS)
		return true;
	events_stop_following(events);
	return false;
}

void events_stop_following(struct events *events)
{
	atomic_fetch_sub(&events->followers, 1);
}

size_t events_followers(const struct events *events)
{
	return atomic_load(&events->followers);
}

uint64_t events_next(const struct events *events)
{
	return atomic_load_explicit(&events->next, memory_order_acquire);
}

/* The number of the oldest event in memory if `next` is that of the next one. */
static uint64_t oldest_in_memory(uint64_t next)
{
	return next > EVENTS_KEPT ? next - EVENTS_KEPT : 1;
}

#define MISSED_EVENT "event: %s\ndata: {\"count\":%llu}\n\n"
/* with a name, and a number of 20 digits */
#define MISSED_EVENT_MAX (sizeof MISSED_EVENT + sizeof "missed_denials" + 20)

static const char *const missed_names[] = {
    [EVENTS_OF_LOG] = "missed", [EVENTS_OF_DENIALS] = "missed_denials"};

/*
 * Appends the events from number `next` on that fit into `space`, after the number of those that
 * the client has missed. Returns the number of the event to read next: `next` itself if nothing
 * fits.
 */
uint64_t events_read(struct events *events, uint64_t next, size_t space, struct buffer *out)
{
	uint64_t end, oldest;

	pthread_mutex_lock(&events->mutex);
	end = events_next(events);
	oldest = oldest_in_memory(end);
	if (next > end) /* the client has followed an earlier process of the server */
		next = oldest;
	if (next < oldest && space >= MISSED_EVENT_MAX) {
		buffer_printf(out, MISSED_EVENT, missed_names[events->kind],
		              (unsigned long long)(oldest - next));
		space -= MISSED_EVENT_MAX;
		next = oldest;
	}
	for (; next >= oldest && next < end; next++) {
		const struct buffer *text = &events->texts[next % EVENTS_KEPT];

		if (text->failed)
			continue;
		if (text->len > space)
			break;
		buffer_add(out, text->data, text->len);
		space -= text->len;
	}
	pthread_mutex_unlock(&events->mutex);
	return next;
}
