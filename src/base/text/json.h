/*
 * json.h: reads JSON (RFC 8259) where it lies, one value after another, and says where it is wrong.
 *
 * The caller goes through objects and lists by json_open, json_more and json_name, and reads or
 * skips each value between. Nothing is copied: a text is returned as it stands between its quotes.
 *
 *     if (json_open(&json, '{'))
 *             while (json_more(&json, '}') && json_name(&json, &name) && json_skip(&json))
 *                     …
 *     if (json.expected)
 *             … expected that at json.at
 */
#ifndef BASE_TEXT_JSON_H
#define BASE_TEXT_JSON_H

#include <stdbool.h>

#include "base/slice.h"

#define JSON_DEPTH_MAX 1024 /* objects and lists in each other that json_skip goes through */

struct json {
	const char *at, *end;        /* what is not read yet; after a failure where it is */
	const char *expected;        /* NULL before a failure; after it, what should stand at `at` */
	size_t member_count;         /* of the object or list that json_skip went through last */
	bool allows_lone_surrogates; /* one half of a surrogate pair (\uXXXX) is read as U+FFFD */
	bool has_escapes;            /* the text or name that was read last has escapes */
	bool is_before_first; /* no member of the object or list that was opened last is read yet */
};

/** Makes a reader of `text`. */
struct json json_of(struct slice text);

/** The text that is not read yet. */
static inline struct slice json_rest(const struct json *json)
{
	return (struct slice){json->at, (size_t)(json->end - json->at)};
}

/** Fails: sets json->expected to what should stand where the reader is. Returns false. */
bool json_fail(struct json *json, const char *expected);

/** Skips blanks. Returns the next character, which is not skipped, or '\0' at the end. */
static inline char json_peek(struct json *json)
{
	while (json->at < json->end && *json->at <= ' ' &&
	       (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
		json->at++;
	return json->at < json->end ? *json->at : '\0';
}

/** Reads the start of an object ('{') or a list ('['). Returns false if another value is there. */
bool json_open(struct json *json, char open);
/**
 * Call it before each member: reads the comma before it. Returns false at the end ('}' or ']'),
 * which it reads, and on failure.
 */
bool json_more(struct json *json, char close);
/** Reads the name of a member, and the colon. */
bool json_name(struct json *json, struct slice *name);
/** Reads a text in quotes. Its escapes stay, and are good ones. */
bool json_text(struct json *json, struct slice *text);
/** Reads a number, true, false or null, as it is written. */
bool json_word(struct json *json, struct slice *word);
/** Steps over any value, and checks it. */
bool json_skip(struct json *json);
/** Call it behind the outermost value: whether nothing follows. */
bool json_end(struct json *json);

/** Writes a text without its escapes, and returns the length. `to` may be the text's own memory. */
size_t json_unescape(struct slice text, char *to);

/** Computes the line and column of `at` in `text`, from 1. Columns count characters. */
void json_place(struct slice text, const char *at, unsigned *line, unsigned *column);

#endif
