/*
 * question.h: asks a server for one decision, or to reset a key, over RESP or HTTP: for the
 * commands `ask` and `reset`.
 */
#ifndef CLI_REMOTE_QUESTION_H
#define CLI_REMOTE_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/engine.h>

#include "base/arena.h"
#include "base/slice.h"
#include "cli/remote/server_flags.h"

enum question_op { QUESTION_ACQUIRE, QUESTION_PEEK, QUESTION_RESET };

/* About a limit and a key, or about a request with attributes, which goes through the rules. */
struct question {
	enum question_op op;
	const char *limit, *key; /* NULL with attributes */
	const char *cost;        /* a number; NULL for 1 */
	const struct weir_attribute *attributes;
	size_t attribute_count;
};

struct question_answer {
	bool is_allowed;
	uint64_t quota, remaining, retry_after_ms, reset_after_ms;
	struct slice reason, limit, rule; /* rule and limit are empty if none applied */
	struct arena memory;              /* of the texts */
};

enum question_result {
	QUESTION_ANSWERED,
	QUESTION_REFUSED, /* without a login, or the user may not do this */
	QUESTION_FAILED
};

/**
 * Asks over HTTP if the address of `flags` is a URL, otherwise over RESP. Waits as long as the
 * server delays its answer. Free answer->memory in any case. If there is no answer, `error` says
 * why.
 */
enum question_result question_ask(const struct server_flags *flags, const struct question *question,
                                  struct question_answer *answer, struct weir_error *error);

/* One for each protocol. */
enum question_result question_ask_http(const struct server_flags *flags,
                                       const struct question *question,
                                       struct question_answer *answer, struct weir_error *error);
enum question_result question_ask_resp(const struct server_flags *flags,
                                       const struct question *question,
                                       struct question_answer *answer, struct weir_error *error);

#endif
