/* Reads, writes, listens on and connects to addresses of TCP and Unix sockets. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/network/endpoint.h"
#include "net/address.h"

static char directory[] = "/tmp/weir-address-XXXXXX";

static void addresses_are_read_and_written_back(void **state)
{
	static const char *const pairs[][2] = {
	    {"127.0.0.1:8080", "127.0.0.1:8080"},
	    {"[::1]:6380", "[::1]:6380"},
	    {"localhost:1", "127.0.0.1:1"},
	    {"LocalHost:1", "127.0.0.1:1"},
	    {":8080", "[::]:8080"},
	    {"*:8080", "[::]:8080"},
	    {"0.0.0.0:0", "0.0.0.0:0"},
	    {"[2001:db8::1]:65535", "[2001:db8::1]:65535"},
	    {"unix:/run/weir/resp.sock", "unix:/run/weir/resp.sock"},
	    {"unix:/a:80", "unix:/a:80"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct net_address address;
		char text[NET_ADDRESS_TEXT_MAX];

		assert_int_equal(net_address_parse(slice_of(pairs[i][0]), &address, NULL), WEIR_OK);
		net_address_format(&address, text);
		assert_string_equal(text, pairs[i][1]);
	}
}

static void an_invalid_address_is_refused_with_the_expected_form(void **state)
{
	static const char *const bad[] = {
	    "",
	    "8080",
	    "127.0.0.1",
	    "127.0.0.1:",
	    "127.0.0.1:65536",
	    ":-1",
	    "::1:8080",
	    "example.com:80",
	    "127.0.0.256:80",
	    "127.0.0.1:80x",
	    "[::1:80",
	    "[::1]8080",
	    "127.0.0.1 :80",
	    ":99999999999999999999",
	    "unix:",
	    "unix:a.sock",
	    "unix",
	    "UNIX:/a",
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct net_address address;
		struct weir_error error = {0};

		assert_int_equal(net_address_parse(slice_of(bad[i]), &address, &error), WEIR_EINVAL);
		assert_non_null(strstr(error.message, "expected HOST:PORT"));
		assert_non_null(strstr(error.message, bad[i]));
	}
}

static struct net_address socket_at(char path[ENDPOINT_PATH_MAX + 1], const char *name)
{
	struct net_address address;
	char text[NET_ADDRESS_TEXT_MAX];

	snprintf(path, ENDPOINT_PATH_MAX + 1, "%s/%s", directory, name);
	snprintf(text, sizeof text, "unix:%s", path);
	assert_int_equal(net_address_parse(slice_of(text), &address, NULL), WEIR_OK);
	return address;
}

static void a_path_may_be_as_long_as_the_kernel_has_room(void **state)
{
	char text[sizeof "unix:" + ENDPOINT_PATH_MAX + 1] = "unix:/";
	struct net_address address;
	struct weir_error error;

	(void)state;
	memset(text + 6, 'a', ENDPOINT_PATH_MAX - 1);
	assert_int_equal(net_address_parse(slice_of(text), &address, &error), WEIR_OK);
	assert_string_equal(address.local.sun_path, text + 5);
	text[strlen(text)] = 'a';
	assert_int_equal(net_address_parse(slice_of(text), &address, &error), WEIR_EINVAL);
	assert_string_equal(error.message,
	                    "expected a path of at most 107 bytes behind unix:, found 108");
}

static void loops_share_a_unix_socket_and_strangers_do_not(void **state)
{
	char path[ENDPOINT_PATH_MAX + 1];
	struct net_address ours = socket_at(path, "shared"), theirs = ours;
	struct weir_error error;
	struct stat file;
	int sockets[3], client, other;

	(void)state;
	assert_int_equal(net_address_listen(&ours, sockets, 3, NULL), WEIR_OK);
	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(file.st_mode, S_IFSOCK | 0600);
	assert_int_equal(net_address_listen(&theirs, &other, 1, &error), WEIR_EIO);
	assert_non_null(strstr(error.message, path));
	assert_non_null(strstr(error.message, "another program"));
	net_address_remove(&theirs); /* it has made none */
	for (int i = 0; i < 3; i++) {
		int accepted;

		client = net_address_dial(&theirs, 5);
		assert_true(client >= 0);
		accepted = i == 1 ? accept(sockets[0], NULL, NULL) : accept(sockets[i], NULL, NULL);
		assert_true(accepted >= 0);
		close(accepted);
		close(client);
	}
	for (int i = 0; i < 3; i++)
		close(sockets[i]);
	net_address_remove(&ours);
	assert_int_equal(stat(path, &file), -1);
}

static void the_file_of_a_dead_server_is_replaced_and_no_other(void **state)
{
	char path[ENDPOINT_PATH_MAX + 1];
	struct net_address dead = socket_at(path, "dead"), fresh = dead;
	struct weir_error error;
	struct stat file;
	int fd;

	(void)state;
	assert_int_equal(net_address_listen(&dead, &fd, 1, NULL), WEIR_OK);
	close(fd);
	assert_int_equal(net_address_listen(&fresh, &fd, 1, NULL), WEIR_OK);
	net_address_remove(&fresh);
	close(fd);
	assert_int_equal(stat(path, &file), -1);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	assert_int_equal(net_address_listen(&fresh, &fd, 1, &error), WEIR_EIO);
	assert_non_null(strstr(error.message, "not a socket"));
	assert_int_equal(unlink(path), 0);
	fresh = socket_at(path, "missing/socket");
	assert_int_equal(net_address_listen(&fresh, &fd, 1, &error), WEIR_EIO);
	assert_non_null(strstr(error.message, "No such file"));
}

static void a_file_that_has_replaced_the_socket_is_not_removed(void **state)
{
	char path[ENDPOINT_PATH_MAX + 1];
	struct net_address ours = socket_at(path, "taken"), theirs = ours;
	struct stat file;
	int first, second;

	(void)state;
	assert_int_equal(net_address_listen(&ours, &first, 1, NULL), WEIR_OK);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(net_address_listen(&theirs, &second, 1, NULL), WEIR_OK);
	net_address_remove(&ours);
	assert_int_equal(stat(path, &file), 0);
	net_address_remove(&theirs);
	assert_int_equal(stat(path, &file), -1);
	close(first);
	close(second);
}

static void a_peer_at_a_unix_socket_counts_as_loopback(void **state)
{
	char path[ENDPOINT_PATH_MAX + 1];
	struct net_address address = socket_at(path, "a");
	struct ip ip = net_address_ip(&address);

	(void)state;
	assert_true(ip_is_loopback(&ip));
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return rmdir(directory);
}

static void loops_share_a_port_and_strangers_do_not(void **state)
{
	struct net_address ours, theirs;
	struct weir_error error;
	int sockets[3], other;

	(void)state;
	assert_int_equal(net_address_parse(SLICE("127.0.0.1:0"), &ours, NULL), WEIR_OK);
	assert_int_equal(net_address_listen(&ours, sockets, 3, NULL), WEIR_OK);
	assert_int_not_equal(ntohs(ours.v4.sin_port), 0);
	theirs = ours;
	assert_int_equal(net_address_listen(&theirs, &other, 1, &error), WEIR_EIO);
	assert_non_null(strstr(error.message, "127.0.0.1:"));
	for (int i = 0; i < 3; i++)
		close(sockets[i]);
	assert_int_equal(net_address_listen(&theirs, &other, 1, &error), WEIR_OK);
	close(other);
}

/* The options of a socket that was accepted, without a call for it. */
static void assert_option(int fd, int level, int option, int expected)
{
	int value = -1;
	socklen_t size = sizeof value;

	assert_int_equal(getsockopt(fd, level, option, &value, &size), 0);
	assert_int_equal(value, expected);
}

static void accepted_connections_find_out_that_their_peer_is_gone(void **state)
{
	static const char *const everywhere[] = {"127.0.0.1:0", "[::1]:0"};

	(void)state;
	for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++) {
		struct net_address address;
		int sockets[2], client, accepted = -1;

		assert_int_equal(net_address_parse(slice_of(everywhere[i]), &address, NULL), WEIR_OK);
		if (net_address_listen(&address, sockets, 2, NULL) != WEIR_OK)
			continue; /* a machine without IPv6 */
		client = net_address_dial(&address, 5);
		assert_true(client >= 0);
		for (int n = 0; accepted < 0; n ^= 1)
			accepted = accept(sockets[n], NULL, NULL);
		assert_option(accepted, SOL_SOCKET, SO_KEEPALIVE, 1);
		assert_option(accepted, IPPROTO_TCP, TCP_KEEPIDLE, 300);
		assert_option(accepted, IPPROTO_TCP, TCP_KEEPINTVL, 100);
		assert_option(accepted, IPPROTO_TCP, TCP_KEEPCNT, 3);
		assert_option(accepted, IPPROTO_TCP, TCP_NODELAY, 1);
		close(accepted);
		close(client);
		close(sockets[0]);
		close(sockets[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses_are_read_and_written_back),
	    cmocka_unit_test(an_invalid_address_is_refused_with_the_expected_form),
	    cmocka_unit_test(a_path_may_be_as_long_as_the_kernel_has_room),
	    cmocka_unit_test(loops_share_a_unix_socket_and_strangers_do_not),
	    cmocka_unit_test(the_file_of_a_dead_server_is_replaced_and_no_other),
	    cmocka_unit_test(a_file_that_has_replaced_the_socket_is_not_removed),
	    cmocka_unit_test(a_peer_at_a_unix_socket_counts_as_loopback),
	    cmocka_unit_test(loops_share_a_port_and_strangers_do_not),
	    cmocka_unit_test(accepted_connections_find_out_that_their_peer_is_gone),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
