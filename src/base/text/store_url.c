/* store_url.c: splits, strips and redacts the URL of a store. */
#include "base/text/store_url.h"

#include <stdio.h>
#include <string.h>

#define SCHEME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-."

#define HOST_MAX 64 /* bytes of the rest that are shown */

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

static char *put(char *out, struct slice text)
{
	memcpy(out, text.data, text.len);
	return out + text.len;
}

void store_url_strip(const char *text, char *out)
{
	struct store_url_parts place = store_url_split(text);
	struct slice query = place.rest, rest = slice_cut(&query, '?');
	bool is_first = true;

	out = put(put(out, place.scheme), rest);
	while (query.len > 0) {
		struct slice one = slice_cut(&query, '&');

		if (one.len >= 9 && memcmp(one.data, "sentinel_", 9) == 0)
			continue;
		*out++ = is_first ? '?' : '&';
		out = put(out, one);
		is_first = false;
	}
	*out = '\0';
}

/* redis: and its like, also where slashes are missing. */
static bool names_scheme(const char *path, const char *name)
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
	return names_scheme(path, "redis") || names_scheme(path, "valkey") ||
	       strstr(path, "://") != NULL;
}

void store_url_redact(const char *text, char out[STORE_URL_SHOWN_MAX])
{
	struct store_url_parts place = store_url_split(text);
	size_t shown = strcspn(place.rest.data, place.login.data ? "?" : "?:");
	size_t scheme = place.scheme.len < 20 ? place.scheme.len : 0;
	bool is_cut;

	shown += shown < place.rest.len; /* the colon itself */
	is_cut = shown < place.rest.len || shown > HOST_MAX;

	shown = shown < HOST_MAX ? shown : HOST_MAX;
	snprintf(out, STORE_URL_SHOWN_MAX, "%.*s%s%.*s%s", (int)scheme, text,
	         place.login.data ? "…@" : "", (int)shown, place.rest.data, is_cut ? "…" : "");
}

void store_url_redact_if_any(const char *text, char out[STORE_URL_SHOWN_MAX])
{
	if (strchr(text, '@') || store_url_is_likely(text))
		store_url_redact(text, out);
	else
		snprintf(out, STORE_URL_SHOWN_MAX, "%s", text);
}
