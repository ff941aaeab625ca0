/* client_log.c: logs warnings about a client, at most one in each interval. */
#include "server/loop/client_log.h"

#include "base/os/os.h"

void client_log_warn(struct log *log, uint64_t *next_warning_ns, const char *event,
                     const char *listener, const struct net_conn *conn, const char *message)
{
	uint64_t now_ns = os_monotonic_ns();
	char peer[IP_TEXT_MAX + 1];
	const struct log_field fields[] = {
	    {"listener", listener, 0}, {"peer", peer, 0}, {"message", message, 0}};

	if (now_ns < *next_warning_ns)
		return;
	*next_warning_ns = now_ns + CLIENT_LOG_INTERVAL_NS;
	peer[ip_format(net_conn_peer(conn), peer)] = '\0';
	/* without a listener, its field is skipped */
	log_write(log, LOG_WARNING, event, listener ? fields : fields + 1, listener ? 3 : 2);
}
