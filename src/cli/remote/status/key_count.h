/*
 * key_count.h: shows how many keys a server counts, which is an estimate if its table is large.
 */
#ifndef CLI_REMOTE_STATUS_KEY_COUNT_H
#define CLI_REMOTE_STATUS_KEY_COUNT_H

#include "cli/remote/json_members.h"

#define KEY_COUNT_TEXT_MAX 80

/** Members of /v1/status. */
struct key_count {
	struct slice keys; /* null if they are at a Redis */
	struct slice sample_weight, capacity;
};

/** Writes `text`, such as "about 5000 of 1000000". Returns false if the server counts no keys. */
bool key_count_text(const struct key_count *count, char text[KEY_COUNT_TEXT_MAX]);

#endif
