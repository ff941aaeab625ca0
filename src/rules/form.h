/*
 * form.h: recognizes condition values that are not plain texts: ranges of numbers, and addresses,
 * networks, ranges and patterns of addresses. All languages of rules share them.
 */
#ifndef RULES_FORM_H
#define RULES_FORM_H

#include "rules/model.h"

enum form {
	FORM_TEXT,  /* no special form: the text itself */
	FORM_READ,  /* a number range 1-5, an address, a network, a range or a pattern of addresses */
	FORM_WRONG, /* has the form of a range, but is none: see `expected` */
};

#define FORM_EXPECTED_NUMBERS                                                                      \
	"a range such as 1-5 of whole numbers of 64 bits, the smaller one first"
#define FORM_EXPECTED_ADDRESSES "a range of addresses such as 10.0.0.0/8 or 10.0.0.1-10.0.0.9"

/**
 * Fills `out->test` and what it needs from out->text. One address by itself is a form only where
 * `is_ip` says that the attribute is an address. FORM_WRONG sets *expected.
 */
enum form form_read(struct rules_value *out, bool is_ip, const char **expected);

/**
 * `text` as a bound of RULES_NUMBERS: the numbers above it, or below it. Returns false if it is
 * none.
 */
bool form_above(struct slice text, struct rules_value *out);
bool form_below(struct slice text, struct rules_value *out);

#endif
