/* client_ip.c: finds a client's address in X-Forwarded-For, as far as proxies are trusted. */
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

/*
 * Parses an entry of X-Forwarded-For. Accepts "1.2.3.4", "1.2.3.4:80", "::1", "[::1]" and
 * "[::1]:80": some proxies add the port.
 */
static bool parse_entry(struct slice entry, struct ip *out)
{
	const char *colon;
	struct slice host;

	if (ip_parse(entry, out))
		return true;
	colon = entry.len ? memrchr(entry.data, ':', entry.len) : NULL;
	if (!colon)
		return false;
	host = (struct slice){entry.data, (size_t)(colon - entry.data)};
	if (!is_port((struct slice){colon + 1, entry.len - host.len - 1}))
		return false;
	if (memchr(host.data, ':', host.len) && host.data[0] != '[')
		return false; /* an IPv6 address with a port needs brackets */
	return ip_parse(host, out);
}

/* Each trusted proxy has appended its peer's address, so the list is read from the right. */
struct ip client_ip(const struct ip *peer, struct slice forwarded, const struct ip_range *trusted,
                    size_t trusted_count)
{
	struct ip client = *peer, entry;
	struct slice rest = forwarded;

	while (rest.len > 0 && is_trusted(&client, trusted, trusted_count)) {
		const char *comma = memrchr(rest.data, ',', rest.len);
		size_t start = comma ? (size_t)(comma - rest.data) + 1 : 0;

		if (!parse_entry(slice_trim((struct slice){rest.data + start, rest.len - start}), &entry))
			break;
		client = entry;
		rest.len = comma ? start - 1 : 0;
	}
	return client;
}
