/*
 * overrides.h: lets operators change the share that a limit denies while the server runs, and
 * records the operator, the time and the end.
 *
 * A limit has one override: the last one counts. At its end the limit denies its configured share
 * again. A reload with another share also ends it. Any thread may override; the server's thread,
 * which reads files, removes overrides that have ended. forced_keys.h has the overrides of keys.
 */
#ifndef SERVER_OVERRIDES_H
#define SERVER_OVERRIDES_H

#include <pthread.h>

#include <weir/weir.h>

#include "base/list.h"
#include "base/network/ip.h"
#include "base/time/timestamp.h"
#include "rules/model.h"
#include "server/admin/event_log.h"
#include "server/config/config.h"

#define OVERRIDE_BY_MAX (RULES_NAME_MAX + 1 + IP_TEXT_MAX + 1)

struct override {
	union {
		double deny;           /* of a limit */
		enum weir_force force; /* of a key */
	};
	char by[OVERRIDE_BY_MAX]; /* USER@ADDRESS, or ADDRESS if there are no users */
	uint64_t at_ns;           /* Unix time, as is ... */
	uint64_t until_ns;        /* ... the end, or 0 if only another override ends it */
};

struct user;
/** Writes `by`, with a NUL. The user is NULL if there are no users. */
void overrides_format_by(const struct user *user, const struct ip *peer, char by[OVERRIDE_BY_MAX]);

struct overrides {
	pthread_mutex_t mutex; /* of `items` */
	struct list items;
	int fd; /* readable when overrides_expire is due */
	struct log *log;
};

/** Returns 0, ENOMEM or EIO. */
int overrides_open(struct overrides *overrides, struct log *log);
void overrides_close(struct overrides *overrides);

/** Errors: as weir_limit_shed, ENOMEM. */
int overrides_shed(struct overrides *overrides, const weir_limit *limit,
                   const struct override *override);

/** Logs an override with up to OVERRIDE_FIELDS_MAX fields, the operator and the end. */
#define OVERRIDE_FIELDS_MAX 3
void overrides_log(struct log *log, const char *event, const struct log_field *event_fields,
                   size_t n, const struct override *override);

/** Appends the members "by", "at" and, if it has an end, "until" of a JSON object. */
void overrides_add_members(const struct override *override, struct buffer *out);

/** Whether the limit of that name has an override; if so, fills in `out`. */
bool overrides_find(struct overrides *overrides, const char *limit, struct override *out);

/**
 * Removes overrides that have ended at `now_ns`, Unix time, or that `config`, the newest,
 * contradicts. Returns how long until the next one ends, or UINT64_MAX. One thread at a time.
 */
uint64_t overrides_expire(struct overrides *overrides, const struct server_config *config,
                          uint64_t now_ns);

#endif
