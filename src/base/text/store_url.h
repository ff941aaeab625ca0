/*
 * store_url.h: redacts user and password in the URL of a store, even if the URL is invalid.
 *
 * Messages, listings and logs show the text of a store only through these functions.
 */
#ifndef BASE_TEXT_STORE_URL_H
#define BASE_TEXT_STORE_URL_H

#include "base/slice.h"

struct store_url_parts {
	struct slice scheme; /* with its ://, or empty */
	struct slice login;  /* up to the last @, because a password may have others; or data is NULL */
	struct slice rest;   /* behind these two */
};

/** Splits any text, also one that is no valid URL. */
struct store_url_parts store_url_split(const char *text);

/**
 * Writes the URL of a store without its secrets: without login, and without the parameters
 * `sentinel_user` and `sentinel_password`. `out` has room for the whole text.
 */
void store_url_strip(const char *text, char *out);

/** Whether a text that should be the path of a file looks like a URL. */
bool store_url_is_likely(const char *path);

#define STORE_URL_SHOWN_MAX 96

/**
 * Writes the part of an invalid URL that may be shown: nothing before an @ and nothing after a
 * question mark. Without an @, nothing after a colon, because a password may stand there. Cuts long
 * texts.
 */
void store_url_redact(const char *text, char out[STORE_URL_SHOWN_MAX]);

/** Redacts a text only if it looks like the URL of a store; otherwise copies it. */
void store_url_redact_if_any(const char *text, char out[STORE_URL_SHOWN_MAX]);

#endif
