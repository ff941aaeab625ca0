#include "cli/tls_flags.h"

#include <string.h>

#include "base/error.h"

enum { TLS, CACERT, CERT, KEY, SNI };

void tls_flags_set(struct tls_flags *trust, int flag, const char *value)
{
	if (flag == TLS)
		trust->is_wanted = true;
	else if (flag == CACERT)
		trust->files.ca = (char *)value;
	else if (flag == CERT)
		trust->files.cert = (char *)value;
	else if (flag == KEY)
		trust->files.key = (char *)value;
	else
		trust->dial.name = value;
}

/* Names are not looked up: it is an address, or this one name. */
static const char *host_of(struct tls_flags *trust, const char *server,
                           const struct net_address *address)
{
	static const char local[] = "localhost";
	struct ip ip = net_address_ip(address);

	if (strncasecmp(server, local, sizeof local - 1) == 0)
		return local;
	trust->host[ip_format(&ip, trust->host)] = '\0';
	return trust->host;
}

int tls_flags_open(struct tls_flags *trust, const char *server, const struct net_address *address,
                   struct weir_error *error)
{
	const struct tls_files *files = &trust->files;
	struct weir_error inner = {0};
	int status;

	if (!trust->is_wanted && (files->ca || files->cert || files->key || trust->dial.name))
		return error_set(error, WEIR_EINVAL, "expected --tls beside --%s",
		                 files->ca     ? "cacert"
		                 : files->cert ? "cert"
		                 : files->key  ? "key"
		                               : "sni");
	if (!trust->is_wanted)
		return WEIR_OK;
	if (!trust->dial.name)
		trust->dial.name = host_of(trust, server, address);
	status = tls_context_open(&trust->dial.context, files, &inner);
	return status == WEIR_OK ? status : error_set(error, status, "--tls: %s", inner.message);
}

void tls_flags_close(struct tls_flags *trust)
{
	tls_context_close(trust->dial.context);
	trust->dial.context = NULL;
}
