/*
 * tls_flags.c: reads the flags by which a command connects to a server with TLS, and loads the
 * certificates that they name.
 */
#include "cli/remote/tls_flags.h"

#include "base/error.h"

enum { TLS, CACERT, CERT, KEY, SNI }; /* indexes in TLS_FLAGS */

void tls_flags_set(struct tls_flags *flags, int flag, const char *value)
{
	if (flag == TLS)
		flags->is_wanted = true;
	else if (flag == CACERT)
		flags->files.ca = (char *)value;
	else if (flag == CERT)
		flags->files.cert = (char *)value;
	else if (flag == KEY)
		flags->files.key = (char *)value;
	else
		flags->dial.name = value;
}

/* Checks the flags together, and loads the certificates if --tls is set. */
int tls_flags_open(struct tls_flags *flags, const char *host, struct weir_error *error)
{
	const struct tls_files *files = &flags->files;
	struct weir_error inner = {0};
	int status;

	if (!flags->is_wanted && (files->ca || files->cert || files->key || flags->dial.name))
		return error_set(error, WEIR_EINVAL, "expected --tls beside --%s",
		                 files->ca     ? "cacert"
		                 : files->cert ? "cert"
		                 : files->key  ? "key"
		                               : "sni");
	if (!flags->is_wanted)
		return WEIR_OK;
	if (!flags->dial.name)
		flags->dial.name = host;
	status = tls_context_open(&flags->dial.context, files, &inner);
	return status == WEIR_OK ? status : error_set(error, status, "--tls: %s", inner.message);
}

void tls_flags_close(struct tls_flags *flags)
{
	tls_context_close(flags->dial.context);
	flags->dial.context = NULL;
}
