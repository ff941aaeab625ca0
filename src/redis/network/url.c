/*
 * url.c: reads the URL of a Redis, a cluster or a set of Sentinels, as in
 * rediss://user:password@host:6379/0. No message of an error quotes a password.
 */
#include "redis/network/url.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/network/endpoint.h"
#include "base/number.h"
#include "base/slice.h"
#include "base/text/store_url.h"
#include "base/text/path.h"
#include "tls/context.h"

enum kind { ONE_SERVER, UNIX_SOCKET, CLUSTER, SENTINELS };

/* The schemes of URLs, which follow after `redis` or `valkey`. */
static const struct scheme {
	struct slice text;
	bool tls;
	enum kind kind;
} schemes[] = {
    {SLICE("://"), false, ONE_SERVER},         {SLICE("s://"), true, ONE_SERVER},
    {SLICE("+unix://"), false, UNIX_SOCKET},   {SLICE("-cluster://"), false, CLUSTER},
    {SLICE("s-cluster://"), true, CLUSTER},    {SLICE("+sentinel://"), false, SENTINELS},
    {SLICE("s+sentinel://"), true, SENTINELS},
};

static const struct scheme *scheme_of(const char *url)
{
	struct slice text = slice_of(url);

	if (!slice_skip(&text, SLICE("redis")) && !slice_skip(&text, SLICE("valkey")))
		return NULL;
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (strncmp(text.data, schemes[i].text.data, schemes[i].text.len) == 0)
			return &schemes[i];
	return NULL;
}

void redis_host_write(const struct redis_host *host, char *out)
{
	if (host->name[0] == '/')
		strcpy(out, host->name);
	else
		snprintf(out, REDIS_HOST_TEXT_MAX, "%s:%u", host->name, (unsigned)host->port);
}

/* Makes a copy with %XX decoded. Returns 0, EINVAL (it has a NUL) or ENOMEM; frees nothing. */
static int copy_decoded(struct slice text, char **out, struct weir_error *error)
{
	char *copy = calloc(1, text.len + 1);
	size_t len;

	*out = copy;
	if (!copy)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	len = path_decode(text, copy);
	copy[len] = '\0';
	if (strlen(copy) != len)
		return error_set(error, WEIR_EINVAL, "expected no %%00 in the URL of a Redis");
	return WEIR_OK;
}

/* Reads USER:PASSWORD or :PASSWORD. */
static int read_login(struct slice login, struct redis_url *out, struct weir_error *error)
{
	struct slice password = login, user = slice_cut(&password, ':');
	int status = WEIR_OK;

	/* The text is not quoted: it may be a password. */
	if (password.len == 0)
		return error_set(error, WEIR_EINVAL,
		                 "expected user:password or :password before the @ of the URL of a Redis");
	if (user.len > 0)
		status = copy_decoded(user, &out->user, error);
	return status == WEIR_OK ? copy_decoded(password, &out->password, error) : status;
}

/*
 * Removes the name of a host from the front of *text; an IPv6 address stands in brackets. Returns
 * false if these do not close.
 */
static bool cut_name(struct slice *text, struct slice *name)
{
	const char *end;

	if (text->len > 0 && text->data[0] == '[') {
		end = memchr(text->data, ']', text->len);
		if (!end)
			return false;
		*name = (struct slice){text->data + 1, (size_t)(end - text->data) - 1};
		*text = (struct slice){end + 1, text->len - name->len - 2};
		return true;
	}
	end = memchr(text->data, ':', text->len);
	*name = (struct slice){text->data, end ? (size_t)(end - text->data) : text->len};
	*text = (struct slice){text->data + name->len, text->len - name->len};
	return true;
}

static bool has_blank_or_control(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] <= ' ')
			return true;
	return false;
}

/* Reads NAME or NAME:PORT; `port` is the default. */
static int read_host(struct slice text, uint64_t port, struct redis_host *host,
                     struct weir_error *error)
{
	struct slice name;

	if (!cut_name(&text, &name) || name.len == 0 || name.len > REDIS_HOST_MAX ||
	    has_blank_or_control(name))
		return error_set(error, WEIR_EINVAL,
		                 "expected the host of a Redis, as in redis://host:6379/0");
	/* Not quoted either: of user:password without an @, it is the password. */
	if (text.len > 0 && (!slice_skip(&text, SLICE(":")) || !parse_u64(text, &port) || port == 0 ||
	                     port > UINT16_MAX))
		return error_set(error, WEIR_EINVAL,
		                 "expected a port from 1 to 65535 after the host of a Redis");
	memcpy(host->name, name.data, name.len);
	host->name[name.len] = '\0';
	host->port = (uint16_t)port;
	return WEIR_OK;
}

/* Reads hosts that commas separate, into out->hosts. */
static int read_hosts(struct slice text, enum kind kind, struct redis_url *out,
                      struct weir_error *error)
{
	uint64_t port = kind == SENTINELS ? REDIS_SENTINEL_PORT : REDIS_PORT;
	size_t count = 1;

	for (size_t i = 0; i < text.len; i++)
		count += text.data[i] == ',';
	if (count > 1 && kind == ONE_SERVER)
		return error_set(error, WEIR_EINVAL,
		                 "expected one host, found %zu: for a cluster write redis-cluster://…, for "
		                 "Sentinels redis+sentinel://…",
		                 count);
	if (count > REDIS_HOSTS_MAX)
		return error_set(error, WEIR_ERANGE, "expected at most %d hosts, found %zu",
		                 REDIS_HOSTS_MAX, count);
	out->hosts = calloc(count, sizeof *out->hosts);
	if (!out->hosts)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	while (out->host_count < count) {
		int status = read_host(slice_cut(&text, ','), port, &out->hosts[out->host_count++], error);

		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

static int read_database(struct slice text, struct redis_url *out, struct weir_error *error)
{
	uint64_t database = 0;

	if (text.len > 0 && !parse_u64(text, &database))
		return error_set(error, WEIR_EINVAL,
		                 "expected the number of a database after the host of a Redis");
	if (database > INT_MAX)
		return error_set(error, WEIR_ERANGE, "expected a database up to %d", INT_MAX);
	if (database > 0 && out->cluster)
		return error_set(error, WEIR_EINVAL,
		                 "expected no database: a Redis Cluster has only database 0");
	out->database = (unsigned)database;
	return WEIR_OK;
}

/* Reads the path of a Unix socket as the only host. */
static int read_socket(struct slice path, struct redis_url *out, struct weir_error *error)
{
	char *name;
	size_t len;
	int status;

	if (path.len == 0 || path.data[0] != '/')
		return error_set(error, WEIR_EINVAL,
		                 "expected the absolute path of a socket, as in "
		                 "redis+unix:///run/redis/redis.sock");
	status = copy_decoded(path, &name, error);
	if (status != WEIR_OK) {
		free(name);
		return status;
	}
	len = strlen(name);
	out->hosts = calloc(1, sizeof *out->hosts);
	if (!out->hosts)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	else if (len > ENDPOINT_PATH_MAX)
		status = error_set(error, WEIR_ELONG,
		                   "expected the path of a socket of at most %d bytes, found %zu",
		                   ENDPOINT_PATH_MAX, len);
	else
		memcpy(out->hosts[out->host_count++].name, name, len + 1);
	free(name);
	return status;
}

/* Reads the name of the master, or NAME/DATABASE. */
static int read_master(struct slice path, struct redis_url *out, struct weir_error *error)
{
	struct slice name = slice_cut(&path, '/');
	int status;

	if (name.len == 0 || has_blank_or_control(name))
		return error_set(error, WEIR_EINVAL,
		                 "expected the name by which Sentinels know the master, as in "
		                 "redis+sentinel://host:26379/NAME");
	status = copy_decoded(name, &out->master_name, error);
	return status == WEIR_OK ? read_database(path, out, error) : status;
}

enum {
	PARAMETER_DATABASE,
	PARAMETER_SENTINEL_USER,
	PARAMETER_SENTINEL_PASSWORD,
	PARAMETER_CA,
	PARAMETER_CERT,
	PARAMETER_KEY,
	PARAMETERS
};

static const struct slice parameters[PARAMETERS] = {
    SLICE("db="), SLICE("sentinel_user="), SLICE("sentinel_password="),
    SLICE("ca="), SLICE("cert="),          SLICE("key="),
};

/* Whether a URL of the scheme may have the parameter. */
static bool allows_parameter(const struct scheme *scheme, size_t parameter)
{
	if (parameter == PARAMETER_DATABASE)
		return scheme->kind == UNIX_SOCKET;
	return parameter >= PARAMETER_CA ? scheme->tls : scheme->kind == SENTINELS;
}

static int refuse_parameter(const struct scheme *scheme, struct weir_error *error)
{
	if (scheme->kind == UNIX_SOCKET)
		return error_set(error, WEIR_EINVAL,
		                 "expected db=DATABASE, once, after the ? of a redis+unix:// URL");
	if (scheme->kind == SENTINELS)
		return error_set(error, WEIR_EINVAL,
		                 "expected sentinel_user=USER and sentinel_password=PASSWORD, and for "
		                 "rediss+sentinel:// also ca=FILE, cert=FILE and key=FILE, each once, "
		                 "after the ?");
	return error_set(error, WEIR_EINVAL,
	                 "expected ca=FILE, cert=FILE and key=FILE, each once, after the ? of a "
	                 "rediss:// URL");
}

/* Reads NAME=VALUE&… behind the `?`; each name at most once. The caller frees the values. */
static int read_url_parameters(const struct scheme *scheme, struct slice text,
                               char *values[PARAMETERS], struct weir_error *error)
{
	int status = WEIR_OK;

	while (text.len > 0 && status == WEIR_OK) {
		struct slice one = slice_cut(&text, '&');
		size_t i = 0;

		while (i < PARAMETERS && !slice_skip(&one, parameters[i]))
			i++;
		if (i == PARAMETERS || !allows_parameter(scheme, i) || values[i] || one.len == 0)
			status = refuse_parameter(scheme, error);
		else
			status = copy_decoded(one, &values[i], error);
	}
	return status;
}

/* Moves a value out of the list of values, which are freed. */
static char *take_url_value(char **value)
{
	char *taken = *value;

	*value = NULL;
	return taken;
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

/* Reads the part of the URL behind the `?`. */
static int read_query(const struct scheme *scheme, struct slice text, struct redis_url *out,
                      struct weir_error *error)
{
	char *values[PARAMETERS] = {0};
	int status = read_url_parameters(scheme, text, values, error);
	const struct tls_files files = {.ca = values[PARAMETER_CA],
	                                .cert = values[PARAMETER_CERT],
	                                .key = values[PARAMETER_KEY]};

	out->sentinel_user = take_url_value(&values[PARAMETER_SENTINEL_USER]);
	out->sentinel_password = take_url_value(&values[PARAMETER_SENTINEL_PASSWORD]);
	if (status == WEIR_OK && out->sentinel_user && !out->sentinel_password)
		status = error_set(error, WEIR_EINVAL,
		                   "expected sentinel_password=PASSWORD beside sentinel_user");
	if (status == WEIR_OK && values[PARAMETER_DATABASE])
		status = read_database(slice_of(values[PARAMETER_DATABASE]), out, error);
	if (status == WEIR_OK && scheme->tls)
		status = tls_context_open(&out->trust, &files, error);
	for (size_t i = 0; i < PARAMETERS; i++)
		free_secret(values[i]);
	return status;
}

/*
 * Whether a login seems to have a host and another login in it, because the user wrote one for each
 * host. In u:p@h:1,u:p@h2:2 everything before the last @ is read as the login.
 */
static bool login_has_hosts(struct slice login)
{
	const char *at = login.len > 0 ? memchr(login.data, '@', login.len) : NULL;

	return at && memchr(at, ',', login.len - (size_t)(at - login.data));
}

/* Reads the part of the URL before the ?, which names the servers. */
static int read_servers(const struct scheme *scheme, struct slice servers, struct redis_url *out,
                        struct weir_error *error)
{
	struct slice path = servers, hosts = slice_cut(&path, '/');
	int status;

	if (scheme->kind == UNIX_SOCKET)
		return read_socket(servers, out, error);
	status = read_hosts(hosts, scheme->kind, out, error);
	if (status != WEIR_OK)
		return status;
	return scheme->kind == SENTINELS ? read_master(path, out, error)
	                                 : read_database(path, out, error);
}

/* Reads a URL into `out`, which the caller frees also after an error. */
static int read_parts(const struct scheme *scheme, const char *text, struct redis_url *out,
                      struct weir_error *error)
{
	struct store_url_parts found = store_url_split(text);
	struct slice query = found.rest, servers = slice_cut(&query, '?');
	int status;

	out->tls = scheme->tls;
	out->cluster = scheme->kind == CLUSTER;
	out->shown = malloc(strlen(text) + 1);
	if (!out->shown)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	store_url_strip(text, out->shown);
	if ((out->cluster || scheme->kind == SENTINELS) && login_has_hosts(found.login))
		return error_set(error, WEIR_EINVAL,
		                 "expected user:password once, before the first host; write an @ in a "
		                 "password as %%40");
	status = found.login.data ? read_login(found.login, out, error) : WEIR_OK;
	if (status == WEIR_OK)
		status = read_servers(scheme, servers, out, error);
	return status == WEIR_OK ? read_query(scheme, query, out, error) : status;
}

/* Reads a URL; after an error `out` is empty. */
int redis_url_read(const char *text, struct redis_url *out, struct weir_error *error)
{
	const struct scheme *scheme = scheme_of(text);
	int status;

	*out = (struct redis_url){0};
	if (!scheme)
		return error_set(error, WEIR_EINVAL,
		                 "expected redis://, redis+unix://, redis+sentinel:// or redis-cluster://, "
		                 "with rediss in place of redis for TLS, or valkey");
	status = read_parts(scheme, text, out, error);
	if (status != WEIR_OK)
		redis_url_free(out);
	return status;
}

void redis_url_free(struct redis_url *url)
{
	free_secret(url->user);
	free_secret(url->password);
	free_secret(url->sentinel_user);
	free_secret(url->sentinel_password);
	free(url->master_name);
	tls_context_close(url->trust);
	free(url->hosts);
	free(url->shown);
	*url = (struct redis_url){0};
}
