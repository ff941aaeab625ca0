/*
 * ip.h: parses, compares and prints IP addresses and ranges of them. IPv4 is kept as
 * ::ffff:a.b.c.d, so one comparison serves both.
 */
#ifndef BASE_NETWORK_IP_H
#define BASE_NETWORK_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct ip {
	uint8_t bytes[16]; /* network order */
};

/* Both ends belong to the range. */
struct ip_range {
	struct ip first, last;
};

/*
 * Matches IPv4 addresses that equal `bytes` where the mask is 255. Bytes of mask 0 match any value.
 */
struct ip_pattern {
	uint8_t bytes[4], mask[4];
};

#define IP_TEXT_MAX 46

/** Parses "10.1.2.3", "::1" or "::ffff:10.1.2.3"; an IPv6 address may stand in brackets. */
bool ip_parse(struct slice text, struct ip *out);

/**
 * Parses an IPv4 address as Koala's callers may write it: "167772161", the result of PHP's ip2long,
 * or "010.000.000.001", whose parts are decimal.
 */
bool ip_parse_number(struct slice text, struct ip *out);

/** The IPv4 address `ip` as a number. */
uint32_t ip_number(const struct ip *ip);

/**
 * Parses an address, "10.0.0.0/8", "2001:db8::/32", "192.168.1.*", "192.168.*.*" or
 * "10.0.0.1-10.0.0.9". Host bits behind a prefix are ignored.
 */
bool ip_range_parse(struct slice text, struct ip_range *out);

/** Whether a text looks like a range but is not one, such as 10.0.0.0/33 or 10.0.0.9-10.0.0.1. */
bool ip_range_is_wrong(struct slice text);

/** Parses an IPv4 address whose parts may be stars, such as "10.*.0.*". Bytes of stars are 0. */
bool ip_pattern_parse(struct slice text, struct ip_pattern *out);

/** 127.0.0.0/8 and ::1. */
bool ip_is_loopback(const struct ip *ip);

bool ip_in_range(const struct ip *ip, const struct ip_range *range);

bool ip_matches_pattern(const struct ip *ip, const struct ip_pattern *pattern);

bool ip_is_v4(const struct ip *ip);

/**
 * If the range is exactly a prefix, returns its length in bits of 128 (104 for a /8 of IPv4).
 * Otherwise returns -1.
 */
int ip_range_prefix(const struct ip_range *range);

/** The address with all but its first `bits` of 128 cleared. */
struct ip ip_network(const struct ip *ip, unsigned bits);

/** Writes the canonical text, dotted for IPv4, and returns its length. `out` has IP_TEXT_MAX bytes.
 */
size_t ip_format(const struct ip *ip, char *out);

/**
 * Writes the network that the first `bits` of an IPv6 address make, such as "2001:db8:1:2::/64".
 * With 128 bits, and for IPv4, it writes the address as ip_format does.
 */
size_t ip_format_network(const struct ip *ip, unsigned bits, char *out);

#endif
