/* reload_requests.c: numbers the reloads that requests ask for. */
#include "server/config/reload_requests.h"

#include <sys/eventfd.h>
#include <unistd.h>

int reload_requests_open(struct reload_requests *requests)
{
	pthread_mutex_init(&requests->mutex, NULL);
	requests->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return requests->fd >= 0 ? WEIR_OK : WEIR_EIO;
}

void reload_requests_close(struct reload_requests *requests)
{
	if (requests->fd < 0)
		return;
	close(requests->fd);
	pthread_mutex_destroy(&requests->mutex);
	requests->fd = -1;
}

uint64_t reload_requests_ask(struct reload_requests *requests)
{
	uint64_t number;

	pthread_mutex_lock(&requests->mutex);
	number = requests->asked = requests->begun + 1;
	pthread_mutex_unlock(&requests->mutex);
	eventfd_write(requests->fd, 1); /* fails only if it is readable already */
	return number;
}

bool reload_requests_is_done(struct reload_requests *requests, uint64_t number,
                             struct reload_result *result)
{
	bool is_done;

	pthread_mutex_lock(&requests->mutex);
	is_done = requests->done >= number;
	*result = requests->result;
	if (!is_done && requests->has_stopped) {
		*result = (struct reload_result){.message = "not reloaded: the server stops"};
		is_done = true;
	}
	pthread_mutex_unlock(&requests->mutex);
	return is_done;
}

bool reload_requests_begin(struct reload_requests *requests)
{
	eventfd_t ignored;
	bool is_asked;

	eventfd_read(requests->fd, &ignored); /* first: a later request makes it readable again */
	pthread_mutex_lock(&requests->mutex);
	is_asked = requests->asked > requests->begun;
	if (is_asked)
		requests->begun++;
	pthread_mutex_unlock(&requests->mutex);
	return is_asked;
}

void reload_requests_end(struct reload_requests *requests, const struct reload_result *result)
{
	pthread_mutex_lock(&requests->mutex);
	requests->done = requests->begun;
	requests->result = *result;
	pthread_mutex_unlock(&requests->mutex);
}

void reload_requests_stop(struct reload_requests *requests)
{
	pthread_mutex_lock(&requests->mutex);
	requests->has_stopped = true;
	pthread_mutex_unlock(&requests->mutex);
}
