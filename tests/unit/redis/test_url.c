#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "redis/network/url.h"

static struct redis_url read_url(const char *text)
{
	struct weir_error error = {0};
	struct redis_url url;

	if (redis_url_read(text, &url, &error) != WEIR_OK)
		fail_msg("%s: %s", text, error.message);
	return url;
}

static void assert_host(const struct redis_url *url, size_t i, const char *name, unsigned port)
{
	assert_true(i < url->host_count);
	assert_string_equal(url->hosts[i].name, name);
	assert_int_equal(url->hosts[i].port, port);
}

static void a_short_url_has_defaults(void **state)
{
	struct redis_url url = read_url("redis://store");

	(void)state;
	assert_host(&url, 0, "store", 6379);
	assert_int_equal(url.host_count, 1);
	assert_int_equal(url.database, 0);
	assert_false(url.tls || url.cluster);
	assert_null(url.user);
	assert_null(url.password);
	assert_null(url.trust);
	assert_string_equal(url.shown, "redis://store");
	redis_url_free(&url);
}

static void a_long_url_has_all(void **state)
{
	struct redis_url url = read_url("rediss://weir:s%65cret@[::1]:7000/3");

	(void)state;
	assert_host(&url, 0, "::1", 7000);
	assert_int_equal(url.database, 3);
	assert_true(url.tls);
	assert_non_null(url.trust);
	assert_string_equal(url.user, "weir");
	assert_string_equal(url.password, "secret");
	assert_string_equal(url.shown, "rediss://[::1]:7000/3");
	redis_url_free(&url);
}

static void a_cluster_has_several_hosts(void **state)
{
	struct redis_url url = read_url("redis-cluster://:p@a:1,[fe80::1],c:65535/");

	(void)state;
	assert_true(url.cluster);
	assert_int_equal(url.host_count, 3);
	assert_host(&url, 0, "a", 1);
	assert_host(&url, 1, "fe80::1", 6379);
	assert_host(&url, 2, "c", 65535);
	assert_null(url.user);
	assert_string_equal(url.password, "p");
	redis_url_free(&url);
}

static void a_password_that_was_not_encoded_is_taken_whole(void **state)
{
	struct redis_url url = read_url("redis://:a/b?c@d:e%@host/1");

	(void)state;
	assert_string_equal(url.password, "a/b?c@d:e%");
	assert_host(&url, 0, "host", 6379);
	assert_int_equal(url.database, 1);
	assert_string_equal(url.shown, "redis://host/1");
	redis_url_free(&url);
}

static void a_unix_socket_has_a_path_and_no_port(void **state)
{
	struct redis_url url = read_url("redis+unix://weir:hunter2@/run/my%20redis/s.sock?db=3");

	(void)state;
	assert_host(&url, 0, "/run/my redis/s.sock", 0);
	assert_int_equal(url.host_count, 1);
	assert_int_equal(url.database, 3);
	assert_string_equal(url.user, "weir");
	assert_string_equal(url.password, "hunter2");
	assert_string_equal(url.shown, "redis+unix:///run/my%20redis/s.sock?db=3");
	redis_url_free(&url);
	url = read_url("valkey+unix:///s");
	assert_host(&url, 0, "/s", 0);
	assert_int_equal(url.database, 0);
	assert_null(url.password);
	redis_url_free(&url);
}

static void sentinels_have_hosts_a_name_and_their_own_login(void **state)
{
	struct redis_url url = read_url("redis+sentinel://weir:hunter2@a,[::1]:7,c:26380/my%2dmaster/2"
	                                "?sentinel_password=hunter%26&sentinel_user=watch");

	(void)state;
	assert_int_equal(url.host_count, 3);
	assert_host(&url, 0, "a", 26379);
	assert_host(&url, 1, "::1", 7);
	assert_host(&url, 2, "c", 26380);
	assert_string_equal(url.master_name, "my-master");
	assert_int_equal(url.database, 2);
	assert_string_equal(url.user, "weir");
	assert_string_equal(url.password, "hunter2");
	assert_string_equal(url.sentinel_user, "watch");
	assert_string_equal(url.sentinel_password, "hunter&");
	assert_string_equal(url.shown, "redis+sentinel://a,[::1]:7,c:26380/my%2dmaster/2");
	assert_false(url.tls || url.cluster);
	redis_url_free(&url);
	url = read_url("valkeys+sentinel://h/m?ca=/etc/ssl/certs/ca-certificates.crt&sentinel_password=x&");
	assert_true(url.tls);
	assert_null(url.sentinel_user);
	assert_null(url.password);
	assert_int_equal(url.database, 0);
	assert_string_equal(url.shown, "valkeys+sentinel://h/m?ca=/etc/ssl/certs/ca-certificates.crt");
	redis_url_free(&url);
}

/* With an unknown scheme no part of the URL is read. */
static void assert_known(const char *text, bool is_known)
{
	struct weir_error error = {0};
	struct redis_url url;

	if (redis_url_read(text, &url, &error) == WEIR_OK)
		redis_url_free(&url);
	if ((strstr(error.message, "redis+sentinel:// or redis-cluster://") == NULL) != is_known)
		fail_msg("%s: %s", text, error.message);
}

static void schemes_are_recognized(void **state)
{
	static const char *const unknown[] = {
	    "rediss+unix://", "redis-sentinel://", "valke://",
	    "memory",         "file:/redis://",    "redis:/host",
	};
	static const char *const known[] = {
	    "redis://",          "rediss://",          "redis-cluster://",    "rediss-cluster://",
	    "redis+unix://",     "redis+sentinel://",  "rediss+sentinel://",  "valkey://",
	    "valkeys://",        "valkey-cluster://",  "valkeys-cluster://",  "valkey+unix://",
	    "valkey+sentinel://", "valkeys+sentinel://",
	};

	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		assert_known(known[i], true);
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
		assert_known(unknown[i], false);
}

/* Each has "hunter2" where a password may be. */
static void errors_have_no_password(void **state)
{
	static const struct {
		const char *text;
		int status;
		const char *says;
	} bad[] = {
	    {"memory:hunter2", WEIR_EINVAL, "expected redis://"},
	    {"redis://:hunter2@", WEIR_EINVAL, "the host"},
	    {"redis://user:hunter2", WEIR_EINVAL, "a port"},
	    {"redis://:hunter2", WEIR_EINVAL, "the host"},
	    {"redis://:hunter2/", WEIR_EINVAL, "the host"},
	    {"redis://hunter2@host", WEIR_EINVAL, "user:password"},
	    {"redis://u:hunter2@host:0", WEIR_EINVAL, "a port"},
	    {"redis://u:hunter2@host:65536", WEIR_EINVAL, "a port"},
	    {"redis://u:hunter2@[::1", WEIR_EINVAL, "the host"},
	    {"redis://u:hunter2@[::1]x", WEIR_EINVAL, "a port"},
	    {"redis://u:hunter2@host/one", WEIR_EINVAL, "the number of a database"},
	    {"redis://u:hunter2@host/2147483648", WEIR_ERANGE, "2147483647"},
	    {"redis://u:hunter2%00@host", WEIR_EINVAL, "%00"},
	    {"redis://u:hunter2@a,b", WEIR_EINVAL, "redis-cluster://"},
	    {"redis-cluster://u:hunter2@a,b/1", WEIR_EINVAL, "no database"},
	    {"redis-cluster://u:hunter2@a,,b", WEIR_EINVAL, "the host"},
	    {"redis-cluster://u:hunter2@h:1,u:hunter2@h2:2", WEIR_EINVAL, "once"},
	    {"redis://u:hunter2@a host", WEIR_EINVAL, "the host"},
	    {"redis://u:hunter2@host :1", WEIR_EINVAL, "the host"},
	    {"redis://u:hunter2@host?ca=/x", WEIR_EINVAL, "rediss://"},
	    {"rediss://u:hunter2@host?ca=", WEIR_EINVAL, "ca=FILE"},
	    {"rediss://u:hunter2@host?what=x", WEIR_EINVAL, "ca=FILE"},
	    {"rediss://u:hunter2@host?ca=/nowhere/ca.pem", WEIR_EIO, "ca=/nowhere/ca.pem"},
	    {"rediss://u:hunter2@host?cert=/nowhere/cert.pem", WEIR_EIO, "cert=/nowhere/cert.pem"},
	    {"rediss://u:hunter2@host?key=/nowhere/key.pem", WEIR_EINVAL, "cert=FILE beside it"},
	    {"redis://u:hunter2@host?db=1", WEIR_EINVAL, "ca=FILE"},
	    {"redis+unix://u:hunter2@host/path", WEIR_EINVAL, "absolute path"},
	    {"redis+unix://u:hunter2@", WEIR_EINVAL, "absolute path"},
	    {"redis+unix://u:hunter2@/path?db=x", WEIR_EINVAL, "the number of a database"},
	    {"redis+unix://u:hunter2@/path?db=1&db=1", WEIR_EINVAL, "db=DATABASE, once"},
	    {"redis+unix://u:hunter2@/path?sentinel_password=hunter2", WEIR_EINVAL, "db=DATABASE"},
	    {"redis+unix://u:hunter2@/pa%00th", WEIR_EINVAL, "%00"},
	    {"redis+sentinel://u:hunter2@h", WEIR_EINVAL, "the name by which"},
	    {"redis+sentinel://u:hunter2@h//1", WEIR_EINVAL, "the name by which"},
	    {"redis+sentinel://u:hunter2@h/m/x", WEIR_EINVAL, "the number of a database"},
	    {"redis+sentinel://u:hunter2@h/m/1/2", WEIR_EINVAL, "the number of a database"},
	    {"redis+sentinel://u:hunter2@/m", WEIR_EINVAL, "the host"},
	    {"redis+sentinel://u:hunter2@h/m?sentinel_user=u", WEIR_EINVAL, "beside sentinel_user"},
	    {"redis+sentinel://h/m?sentinel_password=", WEIR_EINVAL, "sentinel_password=PASSWORD"},
	    {"redis+sentinel://h/m?sentinel_password=hunter2&sentinel_password=a", WEIR_EINVAL,
	     "each once"},
	    {"redis+sentinel://h/m?sentinel_password=hunter2&ca=/x", WEIR_EINVAL, "for rediss+sentinel://"},
	    {"redis+sentinel://h:1/m?sentinel_password=hunter2@x", WEIR_EINVAL, "the name by which"},
	    {"redis+sentinel://u:hunter2@h:1,u:hunter2@h2:2/m", WEIR_EINVAL, "once"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct weir_error error = {0};
		struct redis_url url;
		int status = redis_url_read(bad[i].text, &url, &error);

		if (status != bad[i].status || !strstr(error.message, bad[i].says) ||
		    strstr(error.message, "hunter2"))
			fail_msg("%s: %d %s", bad[i].text, status, error.message);
		assert_null(url.shown);
	}
}

static void hosts_and_names_are_bounded(void **state)
{
	char text[2048] = "redis-cluster://h";
	char name[300];
	struct redis_url url;

	(void)state;
	for (size_t i = 1; i <= REDIS_HOSTS_MAX; i++)
		strcat(text, ",h");
	assert_int_equal(redis_url_read(text, &url, NULL), WEIR_ERANGE);
	text[strlen(text) - 2] = '\0';
	url = read_url(text);
	assert_int_equal(url.host_count, REDIS_HOSTS_MAX);
	redis_url_free(&url);

	memset(name, 'n', sizeof name);
	snprintf(text, sizeof text, "redis://%.255s", name);
	url = read_url(text);
	redis_url_free(&url);
	snprintf(text, sizeof text, "redis://%.256s", name);
	assert_int_equal(redis_url_read(text, &url, NULL), WEIR_EINVAL);
	snprintf(text, sizeof text, "redis+unix:///%.106s", name);
	url = read_url(text);
	redis_url_free(&url);
	snprintf(text, sizeof text, "redis+unix:///%.107s", name);
	assert_int_equal(redis_url_read(text, &url, NULL), WEIR_ELONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_short_url_has_defaults),
	    cmocka_unit_test(a_long_url_has_all),
	    cmocka_unit_test(a_cluster_has_several_hosts),
	    cmocka_unit_test(a_password_that_was_not_encoded_is_taken_whole),
	    cmocka_unit_test(a_unix_socket_has_a_path_and_no_port),
	    cmocka_unit_test(sentinels_have_hosts_a_name_and_their_own_login),
	    cmocka_unit_test(schemes_are_recognized),
	    cmocka_unit_test(errors_have_no_password),
	    cmocka_unit_test(hosts_and_names_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
