/*
 * json_members.h: reads the JSON that a server answers with: members of an object by their names,
 * and the values of a list.
 */
#ifndef CLI_REMOTE_JSON_MEMBERS_H
#define CLI_REMOTE_JSON_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"
#include "base/text/json.h"

struct json_member {
	const char *name;
	struct slice value; /* as it is written; data is NULL if the object has no such member */
};

/** Finds the members of an object. Returns false if `text` is no object in JSON. */
bool json_members_read(struct slice text, struct json_member *members, size_t count);

/** Begins to read the list `text`; false if it is none. */
bool json_list_open(struct json *list, struct slice text);
/** Reads the next value of the list, as it is written. False at the end, or at an error. */
bool json_list_next(struct json *list, struct slice *value);

/**
 * The text of a value: without quotes and escapes if it is a string, empty for null and for none,
 * otherwise as it is written. * Writes it into the memory of the value, so call it once for a
 * value.
 */
struct slice json_value_text(struct slice value);
/** The same for the name of a key, or "(no key)" for the empty key. */
struct slice json_value_key(struct slice value);
/** The value as a number; 0 if it is none, or not a whole number. */
uint64_t json_value_u64(struct slice value);
bool json_value_is_true(struct slice value);

/**
 * Prints JSON that a server sent, and a newline. The text was checked by json_members_read or
 * json_list_open; characters that could change the terminal are escaped as \uXXXX.
 */
void json_print(FILE *to, struct slice text);

/** Whether the text is JSON. */
bool json_is_valid(struct slice text);

#endif
