#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/network/ip.h"

static void assert_ip(const char *text, const char *canonical)
{
	char out[IP_TEXT_MAX];
	struct ip ip;

	if (!ip_parse(slice_of(text), &ip))
		fail_msg("%s is an address", text);
	assert_int_equal(ip_format(&ip, out), strlen(canonical));
	assert_string_equal(out, canonical);
}

static void assert_range(const char *text, const char *first, const char *last, int prefix)
{
	char out[IP_TEXT_MAX];
	struct ip_range range;

	if (!ip_range_parse(slice_of(text), &range))
		fail_msg("%s is a range", text);
	ip_format(&range.first, out);
	assert_string_equal(out, first);
	ip_format(&range.last, out);
	assert_string_equal(out, last);
	assert_int_equal(ip_range_prefix(&range), prefix);
}

static void addresses_have_one_canonical_text(void **state)
{
	(void)state;
	assert_ip("10.1.2.3", "10.1.2.3");
	assert_ip("::ffff:10.1.2.3", "10.1.2.3");
	assert_ip("[::1]", "::1");
	assert_ip("2001:DB8:0:0:0:0:0:1", "2001:db8::1");
	assert_ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

static void assert_network(const char *address, unsigned bits, const char *network)
{
	char out[IP_TEXT_MAX];
	struct ip ip;

	assert_true(ip_parse(slice_of(address), &ip));
	assert_int_equal(ip_format_network(&ip, bits, out), strlen(network));
	assert_string_equal(out, network);
}

static void networks_have_one_canonical_text_and_ipv4_is_whole(void **state)
{
	(void)state;
	assert_network("2001:DB8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64");
	assert_network("2001:db8:1:2::", 64, "2001:db8:1:2::/64");
	assert_network("2001:db8:1:2:ffff::", 63, "2001:db8:1:2::/63");
	assert_network("2001:db8:1:3::", 63, "2001:db8:1:2::/63");
	assert_network("ffff::1", 1, "8000::/1");
	assert_network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 127,
	               "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127");
	assert_network("2001:db8:0:0::1", 128, "2001:db8::1");
	assert_network("::1", 64, "::/64");
	assert_network("10.1.2.3", 1, "10.1.2.3");
	assert_network("::ffff:10.1.2.3", 64, "10.1.2.3");
}

/* Addresses with a byte or three changed, and the system's word on each. */
static void ipv4_is_read_as_the_system_reads_it(void **state)
{
	static const char bytes[] = "0123456789..  :/a-x";
	unsigned taken = 0;

	(void)state;
	srand(7);
	for (unsigned i = 0; i < 200000; i++) {
		char text[24];
		uint8_t expected[4];
		struct ip ip;
		int len = snprintf(text, sizeof text, "%d.%d.%d.%d", rand() % 300, rand() % 12,
		                   rand() % 120, rand() % 260);
		bool is_one;

		for (int n = rand() % 4; n > 0; n--)
			text[rand() % len] = bytes[(size_t)rand() % (sizeof bytes - 1)];
		text[len -= rand() % 3] = '\0';
		if (strchr(text, ':'))
			continue;
		is_one = inet_pton(AF_INET, text, expected) == 1;
		if (ip_parse((struct slice){text, (size_t)len}, &ip) != is_one)
			fail_msg("'%s' is %san address", text, is_one ? "" : "not ");
		if (is_one)
			assert_memory_equal(ip.bytes + 12, expected, sizeof expected);
		taken += is_one;
	}
	assert_in_range(taken, 20000, 180000);
}

static void what_is_no_address_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "10.1.2",
	    "10.1.2.3.4",
	    "256.0.0.1",
	    "10.1.2.3:80",
	    "[10.1.2.3]",
	    "[::1",
	    "[]",
	    "::1]",
	    "fe80::1%lo",
	    " 10.1.2.3",
	    "10.1.2.3 ",
	    ":::",
	    "1::2::3",
	    "0x7f.0.0.1",
	    "127.1",
	    "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255.255.255.255.255",
	};
	struct ip ip;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (ip_parse(slice_of(bad[i]), &ip))
			fail_msg("\"%s\" is no address", bad[i]);
	assert_false(ip_parse(SLICE("10.1.2.3\0"), &ip));
	assert_false(ip_parse((struct slice){NULL, 0}, &ip));
}

static void ranges_in_every_form(void **state)
{
	(void)state;
	assert_range("10.1.2.3", "10.1.2.3", "10.1.2.3", 128);
	assert_range("10.1.2.3/8", "10.0.0.0", "10.255.255.255", 104);
	assert_range("10.1.2.3/32", "10.1.2.3", "10.1.2.3", 128);
	assert_range("0.0.0.0/0", "0.0.0.0", "255.255.255.255", 96);
	assert_range("172.16.0.0/12", "172.16.0.0", "172.31.255.255", 108);
	assert_range("2001:db8::/33", "2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", 33);
	assert_range("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0);
	assert_range("192.168.1.*", "192.168.1.0", "192.168.1.255", 120);
	assert_range("192.168.*.*", "192.168.0.0", "192.168.255.255", 112);
	assert_range("*.*.*.*", "0.0.0.0", "255.255.255.255", 96);
	assert_range("10.0.0.1-10.0.0.9", "10.0.0.1", "10.0.0.9", -1);
	assert_range("10.0.0.0-10.0.0.255", "10.0.0.0", "10.0.0.255", 120);
	assert_range("::1-::2", "::1", "::2", -1);
}

static void what_is_no_range_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "*",
	    "/8",
	    "10.0.0.0/",
	    "10.0.0.0/33",
	    "::/129",
	    "10.0.0.0/-1",
	    "10.0.0.0/8/8",
	    "10.0.0.9-10.0.0.1",
	    "10.0.0.1-",
	    "-10.0.0.1",
	    "10.0.0.1-::1",
	    "::1-10.0.0.1",
	    "10.*.0.1",
	    "10.1*",
	    "10.*",
	    "*.*.*.*.*",
	    "10.0.0.**",
	    "::*",
	    "10.0.0.0/0000000000000008",
	    "********************************************************************",
	};
	struct ip_range range;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (ip_range_parse(slice_of(bad[i]), &range))
			fail_msg("\"%s\" is no range", bad[i]);
}

static void both_ends_are_in_the_range(void **state)
{
	static const struct {
		const char *ip;
		bool in;
	} cases[] = {
	    {"10.0.0.0", false},  {"10.0.0.1", true},        {"10.0.0.9", true},
	    {"10.0.0.10", false}, {"::ffff:10.0.0.5", true}, {"::a00:5", false},
	};
	struct ip_range range;
	struct ip ip;

	(void)state;
	assert_true(ip_range_parse(SLICE("10.0.0.1-10.0.0.9"), &range));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_true(ip_parse(slice_of(cases[i].ip), &ip));
		assert_int_equal(ip_in_range(&ip, &range), cases[i].in);
	}
}

static void a_range_that_cannot_be_is_told_from_text(void **state)
{
	static const char *const wrong[] = {"10.0.0.0/33", "::/129", "10.0.0.9-10.0.0.1", "10.0.0.1-::1"};
	static const char *const not_wrong[] = {"10.0.0.0/8", "10.0.0.0/x", "10.0.0.1-x", "1-5",
	                                        "10.0.0.1",   "/8",         "",           "10.0.0.0/"};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_true(ip_range_is_wrong(slice_of(wrong[i])));
	for (size_t i = 0; i < sizeof not_wrong / sizeof *not_wrong; i++)
		assert_false(ip_range_is_wrong(slice_of(not_wrong[i])));
}

static void assert_like(const char *text, const char *pattern, bool expected)
{
	struct ip_pattern like;
	struct ip ip;

	assert_true(ip_parse(slice_of(text), &ip));
	assert_true(ip_pattern_parse(slice_of(pattern), &like));
	assert_int_equal(ip_matches_pattern(&ip, &like), expected);
}

static void a_pattern_compares_the_parts_that_are_no_stars(void **state)
{
	static const char *const refused[] = {"10.*.0",  "10.*.0.*.1", "10.*.0.256", "1*.2.3.4",
	                                      "10.**.0.1", "*",        "",           "::*"};
	struct ip_pattern like;

	(void)state;
	assert_like("10.5.0.3", "10.*.0.*", true);
	assert_like("10.5.77.3", "10.*.0.*", false);
	assert_like("11.5.0.3", "10.*.0.*", false);
	assert_like("::ffff:10.5.0.3", "10.*.0.3", true);
	assert_like("::a05:3", "10.*.0.3", false);
	assert_like("1.2.3.4", "*.*.*.*", true);
	assert_like("1.2.3.4", "1.2.3.4", true);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		assert_false(ip_pattern_parse(slice_of(refused[i]), &like));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses_have_one_canonical_text),
	    cmocka_unit_test(networks_have_one_canonical_text_and_ipv4_is_whole),
	    cmocka_unit_test(ipv4_is_read_as_the_system_reads_it),
	    cmocka_unit_test(what_is_no_address_is_refused),
	    cmocka_unit_test(ranges_in_every_form),
	    cmocka_unit_test(what_is_no_range_is_refused),
	    cmocka_unit_test(both_ends_are_in_the_range),
	    cmocka_unit_test(a_range_that_cannot_be_is_told_from_text),
	    cmocka_unit_test(a_pattern_compares_the_parts_that_are_no_stars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
