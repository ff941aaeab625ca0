/*
 * login.h: hides the login in the text of a store, which may be a URL or a failed attempt at one.
 *
 * Messages, listings and logs show the text of a store only through these functions.
 */
#ifndef BASE_TEXT_LOGIN_H
#define BASE_TEXT_LOGIN_H

#include "base/slice.h"

struct login_place {
	struct slice scheme; /* with its ://; empty: none */
	struct slice login;  /* up to the last @, for a password may hold others; data NULL: none */
	struct slice rest;   /* behind that */
};

struct login_place login_find(const char *text);

/**
 * Writes the URL of a store without its secrets: without login, and without the parameters
 * `sentinel_user` and `sentinel_password`. `out` has room for the whole text.
 */
void login_strip(const char *text, char *out);

/** Whether a text that should be the path of a file is more likely a URL. */
bool login_may_be_in(const char *path);

#define LOGIN_SHOWN_MAX 96

/**
 * Writes the part of an invalid URL that may be shown: nothing before an @ and nothing after a
 * question mark. Without an @, nothing after a colon, because a password may stand there. Cuts long
 * texts.
 */
void login_hide(const char *text, char out[LOGIN_SHOWN_MAX]);

/** The same of a text that should be no store at all; one that is no URL either is shown as it is. */
void login_hide_in_other(const char *text, char out[LOGIN_SHOWN_MAX]);

#endif
