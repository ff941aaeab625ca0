#include "redis/url.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/login.h"
#include "base/number.h"
#include "base/path.h"
#include "base/slice.h"
#include "tls/context.h"

static const struct scheme {
	const char *prefix;
	bool tls, cluster;
} schemes[] = {
    {"redis://", false, false},
    {"rediss://", true, false},
    {"redis-cluster://", false, true},
    {"rediss-cluster://", true, true},
};

static const struct scheme *scheme_of(const char *text)
{
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
			return &schemes[i];
	return NULL;
}

bool redis_url_is(const char *text)
{
	return scheme_of(text) != NULL;
}

/* A copy without %XX. 0, EINVAL (it holds a NUL) or ENOMEM. */
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

/* The name of a host, off the beginning of *text. False: brackets that do not close. */
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

/* Blanks and what can't be seen. */
static bool has_blanks(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] <= ' ')
			return true;
	return false;
}

static int read_host(struct slice text, struct redis_host *host, struct weir_error *error)
{
	uint64_t port = REDIS_PORT;
	struct slice name;

	if (!cut_name(&text, &name) || name.len == 0 || name.len > REDIS_HOST_MAX ||
	    has_blanks(name))
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

static int read_hosts(struct slice text, struct redis_url *out, struct weir_error *error)
{
	size_t count = 1;

	for (size_t i = 0; i < text.len; i++)
		count += text.data[i] == ',';
	if (count > 1 && !out->cluster)
		return error_set(error, WEIR_EINVAL,
		                 "expected one host, found %zu: for a cluster write redis-cluster://…",
		                 count);
	if (count > REDIS_HOSTS_MAX)
		return error_set(error, WEIR_ERANGE, "expected at most %d hosts, found %zu",
		                 REDIS_HOSTS_MAX, count);
	out->hosts = calloc(count, sizeof *out->hosts);
	if (!out->hosts)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	while (out->host_count < count) {
		int status = read_host(slice_cut(&text, ','), &out->hosts[out->host_count++], error);

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

static int read_files(struct slice text, struct redis_url *out, struct weir_error *error)
{
	struct tls_files files = {0};
	const struct {
		struct slice name;
		char **file;
	} known[] = {
	    {SLICE("ca="), &files.ca},
	    {SLICE("cert="), &files.cert},
	    {SLICE("key="), &files.key},
	};
	int status = WEIR_OK;

	while (text.len > 0 && status == WEIR_OK) {
		struct slice one = slice_cut(&text, '&');
		size_t i = 0;

		while (i < 3 && !slice_skip(&one, known[i].name))
			i++;
		if (i == 3 || !out->tls || *known[i].file || one.len == 0)
			status = error_set(error, WEIR_EINVAL,
			                   "expected ca=FILE, cert=FILE and key=FILE, each once, after the ? "
			                   "of a rediss:// URL");
		else
			status = copy_decoded(one, known[i].file, error);
	}
	if (status == WEIR_OK && out->tls)
		status = tls_context_open(&out->trust, &files, error);
	for (size_t i = 0; i < 3; i++)
		free(*known[i].file);
	return status;
}

/* u:p@h:1,u:p of u:p@h:1,u:p@h2:2, where the second node would get it all as its password. */
static bool names_nodes(struct slice login)
{
	const char *at = login.len > 0 ? memchr(login.data, '@', login.len) : NULL;

	return at && memchr(at, ',', login.len - (size_t)(at - login.data));
}

static int read_parts(const struct scheme *scheme, const char *text, struct redis_url *out,
                      struct weir_error *error)
{
	struct login_place place = login_find(text);
	struct slice query = place.rest, path = slice_cut(&query, '?'), hosts = slice_cut(&path, '/');
	int status;

	out->tls = scheme->tls;
	out->cluster = scheme->cluster;
	if (asprintf(&out->shown, "%s%s", scheme->prefix, place.rest.data) < 0) {
		out->shown = NULL;
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	if (out->cluster && names_nodes(place.login))
		return error_set(error, WEIR_EINVAL,
		                 "expected user:password once, before the first node of a cluster; write "
		                 "an @ in a password as %%40");
	status = place.login.data ? read_login(place.login, out, error) : WEIR_OK;
	if (status == WEIR_OK)
		status = read_hosts(hosts, out, error);
	if (status == WEIR_OK)
		status = read_database(path, out, error);
	return status == WEIR_OK ? read_files(query, out, error) : status;
}

int redis_url_read(const char *text, struct redis_url *out, struct weir_error *error)
{
	const struct scheme *scheme = scheme_of(text);
	int status;

	*out = (struct redis_url){0};
	if (!scheme)
		return error_set(error, WEIR_EINVAL,
		                 "expected redis://, rediss://, redis-cluster:// or rediss-cluster://");
	status = read_parts(scheme, text, out, error);
	if (status != WEIR_OK)
		redis_url_free(out);
	return status;
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void redis_url_free(struct redis_url *url)
{
	free_secret(url->user);
	free_secret(url->password);
	tls_context_close(url->trust);
	free(url->hosts);
	free(url->shown);
	*url = (struct redis_url){0};
}
