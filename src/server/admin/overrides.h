/*
 * overrides.h: the switches that operators set while the server runs: by whom, when, until when.
 *
 * A limit has one switch: the last one counts. At its end the limit denies the share of its file
 * again. A reload that brings another share also ends it. Any thread may switch; the server's
 * thread, which reads files, ends switches that are over. forced_keys.h has those of keys.
 */
#ifndef SERVER_OVERRIDES_H
#define SERVER_OVERRIDES_H

#include <pthread.h>

#include <weir/weir.h>

#include "base/list.h"
#include "base/network/ip.h"
#include "base/time/timestamp.h"
#include "rules/model.h"
#include "server/admin/log.h"
#include "server/config/config.h"

#define OVERRIDE_BY_MAX (RULES_NAME_MAX + 1 + IP_TEXT_MAX + 1)

struct override {
	union {
		double deny;           /* of a limit */
		enum weir_force force; /* of a key */
	};
	char by[OVERRIDE_BY_MAX]; /* USER@ADDRESS, or the address alone where there are no users */
	uint64_t at_ns;           /* Unix time, as is ... */
	uint64_t until_ns;        /* 0: until it is switched again */
};

struct overrides {
	pthread_mutex_t mutex; /* of what follows */
	struct list items;
	int fd; /* readable when the server's thread should look (overrides_expire) */
	struct log *log;
};

/** 0, ENOMEM or EIO. */
int overrides_open(struct overrides *overrides, struct log *log);
void overrides_close(struct overrides *overrides);

/** Errors: as weir_limit_shed, ENOMEM. */
int overrides_shed(struct overrides *overrides, const weir_limit *limit,
                   const struct override *override);

/** Logs what was switched (OVERRIDE_FIELDS_MAX fields at most), by whom, and until when. */
#define OVERRIDE_FIELDS_MAX 3
void overrides_log(struct log *log, const char *event, const struct log_field *what, size_t n,
                   const struct override *override);

/** Whether the limit of that name is switched, and how. */
bool overrides_find(struct overrides *overrides, const char *limit, struct override *out);

/**
 * Ends what is over at `now_ns`, Unix time, and forgets what `config`, the newest, says otherwise.
 * Returns how long until the next one ends; UINT64_MAX: none does. One thread at a time.
 */
uint64_t overrides_expire(struct overrides *overrides, const struct server_config *config,
                          uint64_t now_ns);

#endif
