/* ip.c: parses, compares and prints IP addresses, ranges and patterns. */
#include "base/network/ip.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/number.h"

/* An IPv4 address a.b.c.d is kept as ::ffff:a.b.c.d, with these first 12 bytes. */
static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v6(struct slice text)
{
	return text.len > 0 && memchr(text.data, ':', text.len) != NULL;
}

/*
 * Parses "10.1.2.3", without leading zeros. This takes less time than inet_pton, which also needs a
 * NUL: the Host of each HTTP request is parsed.
 */
static bool parse_v4(struct slice text, uint8_t out[4])
{
	const char *p = text.data, *end = p + text.len;

	for (unsigned part = 0; part < 4; part++) {
		const char *begin = p;
		unsigned value = 0, digit;

		for (; p < end && (digit = (unsigned char)*p - '0') <= 9 && p - begin < 3; p++)
			value = value * 10 + digit;
		if (p == begin || value > 255 || (*begin == '0' && p - begin > 1))
			return false;
		out[part] = (uint8_t)value;
		if (part < 3 && (p == end || *p++ != '.'))
			return false;
	}
	return p == end;
}

bool ip_parse(struct slice text, struct ip *out)
{
	char copy[IP_TEXT_MAX];

	if (text.len > 2 && text.data[0] == '[' && text.data[text.len - 1] == ']') {
		text = (struct slice){text.data + 1, text.len - 2};
		if (!is_v6(text))
			return false;
	}
	if (text.len == 0)
		return false;
	if (!is_v6(text)) {
		memcpy(out->bytes, v4_prefix, sizeof v4_prefix);
		return parse_v4(text, out->bytes + sizeof v4_prefix);
	}
	if (text.len >= sizeof copy || memchr(text.data, '\0', text.len))
		return false;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	return inet_pton(AF_INET6, copy, out->bytes) == 1;
}

/* Reads four decimal parts, which may have leading zeros. */
static bool parse_decimal_parts(struct slice text, uint8_t out[4])
{
	uint64_t part;

	for (unsigned i = 0; i < 4; i++) {
		if (!parse_u64(slice_cut(&text, '.'), &part) || part > 255)
			return false;
		out[i] = (uint8_t)part;
	}
	return text.len == 0;
}

/* Parses an IPv4 address that is one number, or has leading zeros in its parts. */
bool ip_parse_number(struct slice text, struct ip *out)
{
	uint8_t *bytes = out->bytes + sizeof v4_prefix;
	uint64_t number;

	memcpy(out->bytes, v4_prefix, sizeof v4_prefix);
	if (text.len > 0 && memchr(text.data, '.', text.len))
		return text.data[text.len - 1] != '.' && parse_decimal_parts(text, bytes);
	if (!parse_u64(text, &number) || number > UINT32_MAX)
		return false;
	for (unsigned i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(number >> (24 - 8 * i));
	return true;
}

uint32_t ip_number(const struct ip *ip)
{
	const uint8_t *bytes = ip->bytes + sizeof v4_prefix;

	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

bool ip_is_loopback(const struct ip *ip)
{
	static const struct ip v6 = {{[15] = 1}};

	return (ip_is_v4(ip) && ip->bytes[sizeof v4_prefix] == 127) || memcmp(ip, &v6, sizeof v6) == 0;
}

/* Returns the bits of byte `i` of an address that are behind a prefix of `bits` bits. */
static uint8_t host_mask(unsigned bits, unsigned i)
{
	unsigned prefix_bits = bits > i * 8 ? bits - i * 8 : 0;

	return prefix_bits >= 8 ? 0 : (uint8_t)(0xff >> prefix_bits);
}

struct ip ip_network(const struct ip *ip, unsigned bits)
{
	struct ip network;

	for (unsigned i = 0; i < 16; i++)
		network.bytes[i] = ip->bytes[i] & (uint8_t)~host_mask(bits, i);
	return network;
}

static void range_of_prefix(const struct ip *ip, unsigned bits, struct ip_range *out)
{
	out->first = ip_network(ip, bits);
	for (unsigned i = 0; i < 16; i++)
		out->last.bytes[i] = ip->bytes[i] | host_mask(bits, i);
}

/* Parses "10.0.0.0/8", which was split at the slash. */
static bool parse_prefix_range(struct slice address, struct slice length, struct ip_range *out)
{
	unsigned width = is_v6(address) ? 128 : 32;
	uint64_t bits;
	struct ip ip;

	if (!ip_parse(address, &ip) || length.len > 3 || !parse_u64(length, &bits) || bits > width)
		return false;
	range_of_prefix(&ip, 128 - width + (unsigned)bits, out);
	return true;
}

/* Parses "10.0.0.1-10.0.0.9", which was split at the hyphen. */
static bool parse_first_and_last(struct slice first, struct slice last, struct ip_range *out)
{
	return is_v6(first) == is_v6(last) && ip_parse(first, &out->first) &&
	       ip_parse(last, &out->last) && memcmp(&out->first, &out->last, sizeof out->first) <= 0;
}

/* Parses a copy in which zeros replace the stars, and sets the mask of each star to 0. */
bool ip_pattern_parse(struct slice text, struct ip_pattern *out)
{
	char zeroed[IP_TEXT_MAX];
	struct slice rest = text;

	if (text.len >= sizeof zeroed || text.len == 0)
		return false;
	memcpy(zeroed, text.data, text.len);
	for (size_t i = 0; i < sizeof out->mask; i++) {
		struct slice part = slice_cut(&rest, '.');
		bool is_free = slice_equal(part, SLICE("*"));

		out->mask[i] = is_free ? 0 : 255;
		if (is_free)
			zeroed[part.data - text.data] = '0';
	}
	return parse_v4((struct slice){zeroed, text.len}, out->bytes);
}

/* Only stars at the end make a range: 10.1.*.* does, 10.*.0.1 does not. */
static bool parse_wildcard_range(struct slice text, struct ip_range *out)
{
	struct ip_pattern pattern;
	unsigned parts = sizeof pattern.mask;
	struct ip ip;

	if (!ip_pattern_parse(text, &pattern))
		return false;
	while (parts > 0 && pattern.mask[parts - 1] == 0)
		parts--;
	if (memchr(pattern.mask, 0, parts))
		return false;
	memcpy(ip.bytes, v4_prefix, sizeof v4_prefix);
	memcpy(ip.bytes + sizeof v4_prefix, pattern.bytes, sizeof pattern.bytes);
	range_of_prefix(&ip, 96 + 8 * parts, out);
	return true;
}

bool ip_range_parse(struct slice text, struct ip_range *out)
{
	const char *split = text.len ? memchr(text.data, '/', text.len) : NULL;
	bool is_prefix = split != NULL;

	if (!split && text.len)
		split = memchr(text.data, '-', text.len);
	if (split) {
		struct slice left = {text.data, (size_t)(split - text.data)};
		struct slice right = {split + 1, text.len - left.len - 1};

		return is_prefix ? parse_prefix_range(left, right, out)
		                 : parse_first_and_last(left, right, out);
	}
	if (text.len && text.data[text.len - 1] == '*')
		return parse_wildcard_range(text, out);
	if (!ip_parse(text, &out->first))
		return false;
	out->last = out->first;
	return true;
}

/* Whether the text has the form of a range, but its prefix is too long or its ends are swapped. */
bool ip_range_is_wrong(struct slice text)
{
	struct slice bits = text, last = text, first = slice_cut(&last, '-');
	struct slice network = slice_cut(&bits, '/');
	struct ip_range range;
	struct ip ip;
	uint64_t n;
	bool looks_like_prefix = ip_parse(network, &ip) && parse_u64(bits, &n);
	bool looks_like_ends = ip_parse(first, &ip) && ip_parse(last, &ip);

	return (looks_like_prefix || looks_like_ends) && !ip_range_parse(text, &range);
}

bool ip_in_range(const struct ip *ip, const struct ip_range *range)
{
	return memcmp(ip, &range->first, sizeof *ip) >= 0 && memcmp(ip, &range->last, sizeof *ip) <= 0;
}

bool ip_is_v4(const struct ip *ip)
{
	return memcmp(ip->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

bool ip_matches_pattern(const struct ip *ip, const struct ip_pattern *pattern)
{
	unsigned differ = 0;

	for (size_t i = 0; i < sizeof pattern->bytes; i++)
		differ |= (ip->bytes[sizeof v4_prefix + i] ^ pattern->bytes[i]) & pattern->mask[i];
	return differ == 0 && ip_is_v4(ip);
}

/* Counts the bits that both ends share first. A prefix has all addresses that begin with these. */
int ip_range_prefix(const struct ip_range *range)
{
	struct ip_range whole;
	unsigned bits = 0;

	while (bits < 128 &&
	       !((range->first.bytes[bits / 8] ^ range->last.bytes[bits / 8]) & (0x80 >> bits % 8)))
		bits++;
	range_of_prefix(&range->first, bits, &whole);
	return memcmp(&whole, range, sizeof whole) == 0 ? (int)bits : -1;
}

size_t ip_format(const struct ip *ip, char *out)
{
	bool v4 = ip_is_v4(ip);

	inet_ntop(v4 ? AF_INET : AF_INET6, ip->bytes + (v4 ? sizeof v4_prefix : 0), out, IP_TEXT_MAX);
	return strlen(out);
}

size_t ip_format_network(const struct ip *ip, unsigned bits, char *out)
{
	struct ip network = ip_network(ip, ip_is_v4(ip) ? 128 : bits);
	char *end = out + ip_format(&network, out);

	if (bits < 128 && !ip_is_v4(ip)) {
		*end++ = '/';
		end = format_u64(end, bits);
		*end = '\0';
	}
	return (size_t)(end - out);
}
