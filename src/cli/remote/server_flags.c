/* server_flags.c: reads the address of a server, the login, and the flags of TLS. */
#include "cli/remote/server_flags.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { ADDRESS, LOGIN, TRUST = LOGIN + CREDENTIALS_FLAG_COUNT }; /* indexes in SERVER_FLAGS */

void server_flags_set(struct server_flags *flags, int flag, const char *value)
{
	if (flag == ADDRESS)
		flags->text = value;
	else if (flag < TRUST)
		credentials_set(&flags->login, flag - LOGIN, value);
	else
		tls_flags_set(&flags->trust, flag - TRUST, value);
}

/* The text of --server or WEIR_SERVER, or NULL. */
static const char *text_or_variable(const struct server_flags *flags)
{
	const char *variable = getenv("WEIR_SERVER");

	return flags->text ? flags->text : variable && *variable ? variable : NULL;
}

bool server_flags_name_http(const struct server_flags *flags)
{
	const char *text = text_or_variable(flags);

	return text && (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0);
}

/* Reads the address of --server, of WEIR_SERVER, or the default. */
static int read_address(struct server_flags *flags, const char *address, struct weir_error *error)
{
	const char *name = flags->text ? "--server" : "WEIR_SERVER";
	struct weir_error inner = {0};
	int status;

	flags->text = text_or_variable(flags);
	if (!flags->text)
		flags->text = address;
	status = server_address_parse(slice_of(flags->text), &flags->address, &inner);
	if (status != WEIR_OK)
		return error_set(error, status, "%s: %s", name, inner.message);
	if (flags->address.is_http && !flags->address.is_https && flags->trust.is_wanted)
		return error_set(error, WEIR_EINVAL, "expected https:// in %s beside --tls, found http://",
		                 name);
	flags->trust.is_wanted |= flags->address.is_https;
	return WEIR_OK;
}

int server_flags_open(struct server_flags *flags, const char *address, struct weir_error *error)
{
	int status = credentials_read(&flags->login, error);

	if (status == WEIR_OK)
		status = read_address(flags, address, error);
	if (status == WEIR_OK)
		status = tls_flags_open(&flags->trust, flags->address.host, error);
	return status;
}

void server_flags_close(struct server_flags *flags)
{
	tls_flags_close(&flags->trust);
	credentials_free(&flags->login);
}
