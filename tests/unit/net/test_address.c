#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/address.h"

static void addresses_are_read_and_written_back(void **state)
{
	static const char *const pairs[][2] = {
	    {"127.0.0.1:8080", "127.0.0.1:8080"}, {"[::1]:6380", "[::1]:6380"},
	    {"localhost:1", "127.0.0.1:1"},       {"LocalHost:1", "127.0.0.1:1"},
	    {":8080", "[::]:8080"},               {"*:8080", "[::]:8080"},
	    {"0.0.0.0:0", "0.0.0.0:0"},           {"[2001:db8::1]:65535", "[2001:db8::1]:65535"},
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

static void what_is_no_address_is_refused_with_what_was_expected(void **state)
{
	static const char *const bad[] = {
	    "",        "8080",       "127.0.0.1",      "127.0.0.1:",      "127.0.0.1:65536",
	    ":-1",     "::1:8080",   "example.com:80", "127.0.0.256:80", "127.0.0.1:80x",
	    "[::1:80", "[::1]8080",  "127.0.0.1 :80",  ":99999999999999999999",
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
	    cmocka_unit_test(what_is_no_address_is_refused_with_what_was_expected),
	    cmocka_unit_test(loops_share_a_port_and_strangers_do_not),
	    cmocka_unit_test(accepted_connections_find_out_that_their_peer_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
