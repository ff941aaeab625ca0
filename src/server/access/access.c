/*
 * access.c: decides whether a request may come from its peer, by its page (in a browser) and by its
 * listener.
 */
#include "server/access/access.h"

#include "base/error.h"
#include "proto/fill.h"

/*
 * Whether `host`, by which the client calls this server, is an address or a known name. The author
 * of a page in a browser can make any other name lead to this address.
 */
static bool knows_host(const struct weir_config *config, struct slice host)
{
	struct ip ip;

	/* Most requests have the first of these; other addresses take longer to parse. */
	if (slice_equal(host, SLICE("127.0.0.1")) || slice_equal_nocase(host, SLICE("localhost")) ||
	    ip_parse(host, &ip))
		return true;
	for (size_t i = 0; i < config->host_count; i++)
		if (slice_equal_nocase(host, slice_of(config->hosts[i])))
			return true;
	return false;
}

/* Whether the peer may change and administer: it is on this machine, or `protected` lists it. */
static bool is_trusted_peer(const struct weir_config *config, const struct ip *peer)
{
	for (size_t i = 0; i < config->protected_count; i++)
		if (ip_in_range(peer, &config->protected[i]))
			return true;
	return ip_is_loopback(peer);
}

/* Classes are ordered: those above REQUEST_ASK change something or administer. */
static bool only_asks(enum request_class class)
{
	return class <= REQUEST_ASK;
}

int access_check_peer(const struct weir_config *config, const struct ip *peer,
                      enum request_class class, const struct request_origin *from,
                      struct weir_error *error)
{
	char text[IP_TEXT_MAX];

	if (only_asks(class) || config->unprotected)
		return WEIR_OK;
	if (from && from->forwarded) /* the peer is a proxy: it may be trusted, but not its clients */
		return error_set(error, WEIR_EPERM,
		                 "expected a caller on this server's machine, found a request that a proxy "
		                 "passes on (X-Forwarded-*, X-Real-IP, Forwarded, Via); see `protected`");
	if (is_trusted_peer(config, peer))
		return WEIR_OK;
	return error_set(error, WEIR_EPERM,
	                 "expected a caller on this server's machine or in its `protected`, found %.*s",
	                 (int)ip_format(peer, text), text);
}

int access_check_origin(const struct weir_config *config, const struct ip *peer,
                        enum request_class class, const struct request_origin *from,
                        struct weir_error *error)
{
	static const struct request_origin unknown;
	const struct request_origin *origin = from ? from : &unknown;
	/*
	 * The owner of a page can let its name lead a browser on this machine here, to read answers
	 * (DNS rebinding). Programs elsewhere may ask by any name.
	 */
	bool host_must_be_known = !only_asks(class) || ip_is_loopback(peer);

	if (origin->is_from_foreign_page)
		return error_set(error, WEIR_EPERM,
		                 "expected no request from another site's page, found one (see its Origin "
		                 "or Sec-Fetch-Site)");
	if (origin->host.data && host_must_be_known && !knows_host(config, origin->host))
		return error_set(error, WEIR_EPERM,
		                 "expected a Host that is an address, localhost or one of `hosts`, found "
		                 "'%.*s'",
		                 FILL_QUOTE(origin->host));
	return WEIR_OK;
}

int access_check_listener(bool is_admin, enum request_class class, struct weir_error *error)
{
	if (class < REQUEST_ADMIN || is_admin)
		return WEIR_OK;
	return error_set(
	    error, WEIR_EPERM,
	    "expected an admin call at the listener for them (`listen.admin`), found it at "
	    "another");
}
