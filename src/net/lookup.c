#include "net/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/address.h"

struct net_lookup {
	uv_getaddrinfo_t request; /* first */
	net_found *found;         /* NULL: its owner does not want to know any more */
	void *context;
};

static size_t read_list(const struct addrinfo *list, struct net_address *out)
{
	size_t n = 0;

	for (; list && n < NET_LOOKUP_MAX; list = list->ai_next)
		if (list->ai_addrlen <= sizeof *out)
			memcpy(&out[n++], list->ai_addr, list->ai_addrlen);
	return n;
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
	struct net_lookup *lookup = (struct net_lookup *)request;
	struct net_address addresses[NET_LOOKUP_MAX];

	if (lookup->found)
		lookup->found(lookup->context, addresses, read_list(list, addresses),
		              status ? uv_strerror(status) : NULL);
	uv_freeaddrinfo(list);
	free(lookup);
}

struct net_lookup *net_lookup_open(struct net_loop *loop, const char *name, uint16_t port,
                                   net_found *found, void *context)
{
	static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct net_lookup *lookup = loop->phase == LOOP_ENDED ? NULL : calloc(1, sizeof *lookup);
	char service[8];

	if (!lookup)
		return NULL;
	lookup->found = found;
	lookup->context = context;
	snprintf(service, sizeof service, "%u", port);
	if (uv_getaddrinfo(&loop->uv, &lookup->request, on_found, name, service, &hints)) {
		free(lookup);
		return NULL;
	}
	return lookup;
}

void net_lookup_close(struct net_lookup *lookup)
{
	lookup->found = NULL;
	uv_cancel((uv_req_t *)&lookup->request);
}
