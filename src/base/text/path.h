/*
 * path.h: brings all paths of URLs that mean the same to one spelling. The result is `path` itself or
 * a part of it if nothing has to change, and otherwise memory of the arena.
 */
#ifndef BASE_TEXT_PATH_H
#define BASE_TEXT_PATH_H

#include "base/arena.h"

/**
 * Decodes %XX, once; an invalid escape stands for itself, as in browsers. `to` has space for all
 * of `path`, and may be its own memory. Returns the length.
 */
size_t path_decode(struct slice path, char *to);

/**
 * Removes "." and ".." segments and double slashes from a decoded path, as proxies do before they
 * route a request: /a/../login and //login become /login. Returns 0 or ENOMEM.
 */
int path_normalize(struct arena *arena, struct slice path, struct slice *out);
/** Does the same with a path that begins with a slash, in its own memory. Returns the length. */
size_t path_normalize_here(char *path, size_t len);

/**
 * Makes the spelling that stands for all variants of a path. It is normalized, has A to Z in lower
 * case, and has no parameters (";x" at a segment's end) and no slash at its end. /Login;x/ becomes
 * /login; an empty path stays empty. Returns 0 or ENOMEM.
 */
int path_fold(struct arena *arena, struct slice path, struct slice *out);

#endif
