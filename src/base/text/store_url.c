/*
 * store_url.c: splits the URL of a store such as redis://user:password@host, and removes what is
 * secret, for messages and logs.
 */
#include "base/text/store_url.h"

#include <stdio.h>
#include <string.h>

#define SCHEME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-."

#define REST_SHOWN_MAX   64 /* bytes behind the scheme and login */
#define SCHEME_SHOWN_MAX 19

/* Splits a text, which may be no valid URL: behind "://" if it has that, and behind the last @. */
struct store_url_parts store_url_split(const char *text)
{
	size_t word = strspn(text, SCHEME_BYTES);
	size_t scheme = word > 0 && strncmp(text + word, "://", 3) == 0 ? word + 3 : 0;
	const char *start = text + scheme, *at = strrchr(start, '@');

	return (struct store_url_parts){
	    .scheme = {text, scheme},
	    .login = {at ? start : NULL, at ? (size_t)(at - start) : 0},
	    .rest = slice_of(at ? at + 1 : start),
	};
}

static char *append_slice(char *out, struct slice text)
{
	memcpy(out, text.data, text.len);
	return out + text.len;
}

void store_url_strip(const char *text, char *out)
{
	struct store_url_parts parts = store_url_split(text);
	struct slice query = parts.rest, rest = slice_cut(&query, '?');
	bool is_first = true;

	out = append_slice(append_slice(out, parts.scheme), rest);
	while (query.len > 0) {
		struct slice parameter = slice_cut(&query, '&');

		struct slice ignored = parameter;

		if (slice_skip(&ignored, SLICE("sentinel_"))) /* a user or password */
			continue;
		*out++ = is_first ? '?' : '&';
		out = append_slice(out, parameter);
		is_first = false;
	}
	*out = '\0';
}

/*
 * Whether a scheme that contains `name` stands anywhere, such as "rediss:", also without slashes.
 */
static bool has_scheme(const char *path, const char *name)
{
	const char *at = path;

	while ((at = strcasestr(at, name))) {
		at += strlen(name);
		if (at[strspn(at, SCHEME_BYTES)] == ':')
			return true;
	}
	return false;
}

bool store_url_is_likely(const char *path)
{
	return has_scheme(path, "redis") || has_scheme(path, "valkey") || strstr(path, "://") != NULL;
}

/*
 * Shows the scheme and the host. A query is never shown. Without a login, neither is the text
 * behind the first colon, because that may be a password. "…" stands for a login or an end that is
 * left out.
 */
void store_url_redact(const char *text, char out[STORE_URL_SHOWN_MAX])
{
	struct store_url_parts parts = store_url_split(text);
	const char *shown_up_to = parts.login.data ? "?" : "?:";
	size_t shown = strcspn(parts.rest.data, shown_up_to);
	size_t scheme = parts.scheme.len <= SCHEME_SHOWN_MAX ? parts.scheme.len : 0;
	bool is_cut;

	if (shown < parts.rest.len)
		shown++; /* the colon or question mark itself */
	is_cut = shown < parts.rest.len || shown > REST_SHOWN_MAX;
	shown = shown < REST_SHOWN_MAX ? shown : REST_SHOWN_MAX;
	snprintf(out, STORE_URL_SHOWN_MAX, "%.*s%s%.*s%s", (int)scheme, text,
	         parts.login.data ? "…@" : "", (int)shown, parts.rest.data, is_cut ? "…" : "");
}

void store_url_redact_if_any(const char *text, char out[STORE_URL_SHOWN_MAX])
{
	if (strchr(text, '@') || store_url_is_likely(text))
		store_url_redact(text, out);
	else
		snprintf(out, STORE_URL_SHOWN_MAX, "%s", text);
}
