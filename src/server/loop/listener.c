/* listener.c: opens the addresses that the server listens on: for HTTP, RESP and admin calls. */
#include "server/loop/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "rules/model.h"

/* Whether connections to this address use the `tls` of the configuration. */
static bool uses_tls_at(const struct net_address *address, const struct weir_config *config)
{
	return config->tls.cert && !address->without_tls && !net_address_is_unix(address);
}

size_t listeners_init(struct listener listeners[LISTENERS], const struct settings *settings,
                      const struct settings_plan *plan, const struct weir_config *config)
{
	/* where the address of each listener comes from */
	const struct {
		const char *name;
		const char *flag; /* the text of a flag or a variable, or NULL */
		const struct net_address *address;
		const struct rules_text *text_in_file;
		const struct worker_protocol *protocol;
	} sources[LISTENERS] = {
	    [LISTENER_HTTP] = {"http", settings->text[SETTING_HTTP], &plan->http,
	                       &config->listen_http.address, &worker_http},
	    [LISTENER_RESP] = {"resp", settings->text[SETTING_RESP], &plan->resp,
	                       &config->listen_resp.address, &worker_resp},
	    [LISTENER_ADMIN] = {"admin", NULL, &plan->admin, &config->listen_admin.address,
	                        &worker_admin},
	};

	for (size_t i = 0; i < LISTENERS; i++) {
		bool is_in_file = sources[i].flag == NULL;

		listeners[i] = (struct listener){
		    .name = sources[i].name,
		    .address = *sources[i].address,
		    .line = is_in_file ? sources[i].text_in_file->line : 0,
		    .column = is_in_file ? sources[i].text_in_file->column : 0,
		    .protocol = sources[i].protocol,
		    .uses_tls = uses_tls_at(sources[i].address, config),
		};
	}
	/* the admin listener is the last, and exists only if it has an address */
	return plan->admin.any.sa_family ? LISTENERS : LISTENER_ADMIN;
}

static int set_error_at_listener(const struct listener *listener, int status, const char *why,
                                 struct weir_error *error)
{
	return error_set_at(error, status, listener->line, listener->column, "%s: %s", listener->name,
	                    why);
}

int listener_open(struct listener *listener, struct worker *workers, size_t worker_count,
                  struct weir_error *error)
{
	int *sockets = calloc(worker_count, sizeof *sockets);
	struct weir_error inner;
	int status;

	if (!sockets)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	status = net_address_listen(&listener->address, sockets, worker_count, &inner);
	if (status != WEIR_OK)
		set_error_at_listener(listener, status, inner.message, error);
	for (size_t i = 0; status == WEIR_OK && i < worker_count; i++) {
		status = worker_listen(&workers[i], listener->protocol, listener->uses_tls, sockets[i]);
		if (status == WEIR_OK)
			continue;
		set_error_at_listener(listener, status, weir_strerror(status), error);
		/* worker_listen has taken over the sockets so far, also this one */
		while (++i < worker_count)
			close(sockets[i]);
	}
	free(sockets);
	return status;
}

void listener_warn_if_exposed(const struct listener *listener, const struct weir_config *config,
                              struct log *log)
{
	static const char *const messages[] = {
	    [false] = "every caller that reaches it may ask; `protected` says who may change and "
	              "administer: see docs/security.md",
	    [true] = "every caller that reaches it may ask, change and administer, because `protected` "
	             "is no: see docs/security.md",
	};
	const struct ip ip = net_address_ip(&listener->address); /* loopback for a Unix socket */
	char address[NET_ADDRESS_TEXT_MAX];

	net_address_format(&listener->address, address);
	if (!ip_is_loopback(&ip) && config->user_count == 0)
		log_event(log, LOG_WARNING, "exposed", {"listener", listener->name}, {"address", address},
		          {"message", messages[config->unprotected]});
}

/*
 * Logs the address with the time, and then in a line for programs that start the server. Writes
 * that line at once, so that no other line comes between its parts.
 */
void listener_log_address(const struct listener *listener, struct log *log)
{
	char address[NET_ADDRESS_TEXT_MAX], line[NET_ADDRESS_TEXT_MAX + 64];

	net_address_format(&listener->address, address);
	log_event(log, LOG_INFO, "listening", {"listener", listener->name}, {"address", address});
	snprintf(line, sizeof line, "listening: %s %s\n", listener->name, address);
	log_plain(log, line);
}

void listener_remove(const struct listener *listener)
{
	net_address_remove(&listener->address);
}
