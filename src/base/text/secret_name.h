/*
 * secret_name.h: recognises attributes whose values may be secrets, such as `header.authorization`
 * or `api_key`. No list, log or file shows these values; digests stand for them.
 */
#ifndef BASE_TEXT_SECRET_NAME_H
#define BASE_TEXT_SECRET_NAME_H

#include <stdbool.h>

/**
 * Whether the attribute is a header, cookie or parameter of a visitor's request, or has a word such
 * as `token` or `api_key` in its name, in any case and with any signs between.
 */
bool secret_name_is(const char *attribute);

#endif
