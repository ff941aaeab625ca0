/*
 * login.h: the login in the text of a store, which may be a URL, or what was meant as one.
 *
 * No message, listing or log shows a text of a store but through these.
 */
#ifndef BASE_LOGIN_H
#define BASE_LOGIN_H

#include "base/slice.h"

struct login_place {
	struct slice scheme; /* with its ://; empty: none */
	struct slice login;  /* up to the last @, for a password may hold others; data NULL: none */
	struct slice rest;   /* behind that */
};

struct login_place login_find(const char *text);

/** Whether a text that should be the path of a file is more likely a URL. */
bool login_may_be_in(const char *path);

#define LOGIN_SHOWN_MAX 96

/**
 * What may be shown of a text that is no valid URL: nothing before an @, nor behind a question mark;
 * without an @ nothing behind a colon, where a password may stand. Cut where it is long.
 */
void login_hide(const char *text, char out[LOGIN_SHOWN_MAX]);

/** The same of a text that should be no store at all; one that is no URL either is shown as it is. */
void login_hide_in_other(const char *text, char out[LOGIN_SHOWN_MAX]);

#endif
