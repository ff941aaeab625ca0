#include "server/access/client_ip.h"

#include <string.h>

static bool is_trusted(const struct ip *ip, const struct ip_range *trusted, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ip_in_range(ip, &trusted[i]))
			return true;
	return false;
}

static bool is_port(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	return text.len > 0 && text.len <= 5;
}

/* Accepts "1.2.3.4", "1.2.3.4:80", "::1", "[::1]" and "[::1]:80": some proxies add the port. */
static bool parse_hop(struct slice hop, struct ip *out)
{
	const char *colon;
	struct slice host;

	if (ip_parse(hop, out))
		return true;
	colon = hop.len ? memrchr(hop.data, ':', hop.len) : NULL;
	if (!colon)
		return false;
	host = (struct slice){hop.data, (size_t)(colon - hop.data)};
	if (!is_port((struct slice){colon + 1, hop.len - host.len - 1}))
		return false;
	if (memchr(host.data, ':', host.len) && host.data[0] != '[')
		return false;
	return ip_parse(host, out);
}

struct ip client_ip(const struct ip *peer, struct slice forwarded, const struct ip_range *trusted,
                    size_t trusted_count)
{
	struct ip client = *peer, hop;
	struct slice rest = forwarded;

	while (rest.len > 0 && is_trusted(&client, trusted, trusted_count)) {
		const char *comma = memrchr(rest.data, ',', rest.len);
		size_t start = comma ? (size_t)(comma - rest.data) + 1 : 0;

		if (!parse_hop(slice_trim((struct slice){rest.data + start, rest.len - start}), &hop))
			break;
		client = hop;
		rest.len = comma ? start - 1 : 0;
	}
	return client;
}
