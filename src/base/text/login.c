#include "base/text/login.h"

#include <stdio.h>
#include <string.h>

#define SCHEME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-."

#define HOST_MAX 64 /* bytes of the rest that are shown */

struct login_place login_find(const char *text)
{
	size_t word = strspn(text, SCHEME_BYTES);
	size_t scheme = word > 0 && strncmp(text + word, "://", 3) == 0 ? word + 3 : 0;
	const char *start = text + scheme, *at = strrchr(start, '@');

	return (struct login_place){
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

void login_strip(const char *text, char *out)
{
	struct login_place place = login_find(text);
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

bool login_may_be_in(const char *path)
{
	return names_scheme(path, "redis") || names_scheme(path, "valkey") ||
	       strstr(path, "://") != NULL;
}

void login_hide(const char *text, char out[LOGIN_SHOWN_MAX])
{
	struct login_place place = login_find(text);
	size_t shown = strcspn(place.rest.data, place.login.data ? "?" : "?:");
	size_t scheme = place.scheme.len < 20 ? place.scheme.len : 0;
	bool is_cut;

	shown += shown < place.rest.len; /* the colon itself */
	is_cut = shown < place.rest.len || shown > HOST_MAX;

	shown = shown < HOST_MAX ? shown : HOST_MAX;
	snprintf(out, LOGIN_SHOWN_MAX, "%.*s%s%.*s%s", (int)scheme, text, place.login.data ? "…@" : "",
	         (int)shown, place.rest.data, is_cut ? "…" : "");
}

void login_hide_in_other(const char *text, char out[LOGIN_SHOWN_MAX])
{
	if (strchr(text, '@') || login_may_be_in(text))
		login_hide(text, out);
	else
		snprintf(out, LOGIN_SHOWN_MAX, "%s", text);
}
