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

/* Both ends in. */
struct ip_range {
	struct ip first, last;
};

/* An IPv4 address of which each byte whose mask is 255 is equal; those of mask 0 are free. */
struct ip_pattern {
	uint8_t bytes[4], mask[4];
};

#define IP_TEXT_MAX 46

/** "10.1.2.3", "::1", "::ffff:10.1.2.3", with or without brackets round an IPv6 address. */
bool ip_parse(struct slice text, struct ip *out);

/**
 * An IPv4 address in the other ways in which Koala's callers write it: "167772161", as ip2long has
 * it, and "010.000.000.001", whose parts are decimal.
 */
bool ip_parse_number(struct slice text, struct ip *out);

/** The IPv4 address `ip` as a number. */
uint32_t ip_number(const struct ip *ip);

/**
 * An address, "10.0.0.0/8", "2001:db8::/32", "192.168.1.*", "192.168.*.*",
 * "10.0.0.1-10.0.0.9". Host bits behind a prefix are ignored.
 */
bool ip_range_parse(struct slice text, struct ip_range *out);

/** Whether it looks like a range, but can't be one: 10.0.0.0/33, 10.0.0.9-10.0.0.1. */
bool ip_range_is_wrong(struct slice text);

/** "10.*.0.*": an IPv4 address of which each part may be a star. The free bytes are 0. */
bool ip_pattern_parse(struct slice text, struct ip_pattern *out);

/** 127.0.0.0/8 and ::1. */
bool ip_is_loopback(const struct ip *ip);

bool ip_in_range(const struct ip *ip, const struct ip_range *range);

bool ip_is_like(const struct ip *ip, const struct ip_pattern *pattern);

bool ip_is_v4(const struct ip *ip);

/** When the range is exactly a prefix: its length in bits of 128 (a /8 of IPv4 is 104), else -1. */
int ip_range_prefix(const struct ip_range *range);

/** The address with all but its first `bits` of 128 cleared. */
struct ip ip_network(const struct ip *ip, unsigned bits);

/** Canonical text, IPv4 dotted; returns its length. `out` holds IP_TEXT_MAX bytes. */
size_t ip_format(const struct ip *ip, char *out);

/**
 * As ip_format, but an IPv6 address gives the network that its first `bits` make:
 * "2001:db8:1:2::/64". With 128 bits, and for IPv4, the address itself.
 */
size_t ip_format_network(const struct ip *ip, unsigned bits, char *out);

#endif
