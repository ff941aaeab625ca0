#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/access/client_ip.h"

static void expect_client(const char *peer, const char *forwarded, const char *expected)
{
	struct ip_range trusted[2];
	struct ip ip, client;
	char text[IP_TEXT_MAX];
	size_t len;

	assert_true(ip_range_parse(SLICE("10.0.0.0/8"), &trusted[0]));
	assert_true(ip_range_parse(SLICE("::1"), &trusted[1]));
	assert_true(ip_parse(slice_of(peer), &ip));
	client = client_ip(&ip, slice_of(forwarded), trusted, 2);
	len = ip_format(&client, text);
	if (len != strlen(expected) || memcmp(text, expected, len) != 0)
		fail_msg("from %s, '%s': expected %s, found %.*s", peer, forwarded, expected, (int)len,
		         text);
}

static void an_untrusted_peer_is_the_client(void **state)
{
	(void)state;
	expect_client("203.0.113.9", "", "203.0.113.9");
	expect_client("203.0.113.9", "1.2.3.4", "203.0.113.9");
	expect_client("203.0.113.9", "10.0.0.1, 10.0.0.2", "203.0.113.9");
}

static void the_rightmost_untrusted_hop_is_the_client(void **state)
{
	(void)state;
	expect_client("10.0.0.1", "1.2.3.4", "1.2.3.4");
	expect_client("10.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4");
	expect_client("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.7", "1.2.3.4");
	expect_client("::1", "6.6.6.6,1.2.3.4,10.0.0.7,::1", "1.2.3.4");
	expect_client("10.0.0.1", "2001:db8::5", "2001:db8::5");
}

static void the_leftmost_is_the_client_when_all_are_trusted(void **state)
{
	(void)state;
	expect_client("10.0.0.1", "10.0.0.5, 10.0.0.4", "10.0.0.5");
	expect_client("10.0.0.1", "", "10.0.0.1");
}

static void ports_brackets_and_blanks_are_accepted(void **state)
{
	(void)state;
	expect_client("10.0.0.1", "1.2.3.4:5678", "1.2.3.4");
	expect_client("10.0.0.1", "\t1.2.3.4 \t", "1.2.3.4");
	expect_client("10.0.0.1", "[2001:db8::5]:443", "2001:db8::5");
	expect_client("10.0.0.1", "[2001:db8::5]", "2001:db8::5");
	expect_client("10.0.0.1", "1.2.3.4, ::ffff:10.0.0.9", "1.2.3.4");
}

static void a_hop_that_is_no_address_ends_the_search_at_its_proxy(void **state)
{
	static const char *const garbage[] = {
	    "unknown",        "_hidden",          "1.2.3",    "1.2.3.4.5",
	    "1.2.3.4:",       "1.2.3.4:x",        "-",        " ",
	    "1.2.3.4:123456", "2001:db8::5:443x", "[1.2.3.4", "1.2.3.4 5.6.7.8",
	    "\"1.2.3.4\"",    "for=1.2.3.4",      "0x7f.1",   "1.2.3.4;",
	};

	(void)state;
	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		char forwarded[128];

		expect_client("10.0.0.1", garbage[i], "10.0.0.1");
		snprintf(forwarded, sizeof forwarded, "1.2.3.4, %s, 10.0.0.7", garbage[i]);
		expect_client("10.0.0.1", forwarded, "10.0.0.7");
		/* Entries to the left of the client do not matter. */
		snprintf(forwarded, sizeof forwarded, "%s, 1.2.3.4", garbage[i]);
		expect_client("10.0.0.1", forwarded, "1.2.3.4");
	}
}

static void empty_hops_end_the_search_too(void **state)
{
	(void)state;
	expect_client("10.0.0.1", "1.2.3.4,", "10.0.0.1");
	expect_client("10.0.0.1", "1.2.3.4,,10.0.0.7", "10.0.0.7");
	expect_client("10.0.0.1", ",", "10.0.0.1");
	expect_client("10.0.0.1", ",10.0.0.7", "10.0.0.7");
	expect_client("10.0.0.1", ",1.2.3.4", "1.2.3.4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_untrusted_peer_is_the_client),
	    cmocka_unit_test(the_rightmost_untrusted_hop_is_the_client),
	    cmocka_unit_test(the_leftmost_is_the_client_when_all_are_trusted),
	    cmocka_unit_test(ports_brackets_and_blanks_are_accepted),
	    cmocka_unit_test(a_hop_that_is_no_address_ends_the_search_at_its_proxy),
	    cmocka_unit_test(empty_hops_end_the_search_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
