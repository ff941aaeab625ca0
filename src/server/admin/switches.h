/*
 * switches.h: the switches that operators set while the server runs: by whom, when, until when.
 *
 * A limit has one switch: the last one counts. At its end the limit denies the share of its file
 * again. A reload that brings another share also ends it. Any thread may switch; the server's
 * thread, which reads files, ends switches that are over. forced_keys.h has those of keys.
 */
#ifndef SERVER_SWITCHES_H
#define SERVER_SWITCHES_H

#include <pthread.h>

#include <weir/weir.h>

#include "base/list.h"
#include "base/network/ip.h"
#include "base/time/when.h"
#include "rules/model.h"
#include "server/admin/log.h"
#include "server/config/config.h"

#define SWITCHED_BY_MAX (RULES_NAME_MAX + 1 + IP_TEXT_MAX + 1)

struct switched {
	union {
		double deny;           /* of a limit */
		enum weir_force force; /* of a key */
	};
	char by[SWITCHED_BY_MAX]; /* USER@ADDRESS, or the address alone where there are no users */
	uint64_t at_ns;           /* Unix time, as is ... */
	uint64_t until_ns;        /* 0: until it is switched again */
};

struct switches {
	pthread_mutex_t mutex; /* of what follows */
	struct list items;
	int fd; /* readable when the server's thread should look (switches_end) */
	struct log *log;
};

/** 0, ENOMEM or EIO. */
int switches_open(struct switches *switches, struct log *log);
void switches_close(struct switches *switches);

/** Errors: as weir_limit_shed, ENOMEM. */
int switches_shed(struct switches *switches, const weir_limit *limit,
                  const struct switched *switched);

/** Logs what was switched (SWITCHES_FIELDS_MAX fields at most), by whom, and until when. */
#define SWITCHES_FIELDS_MAX 3
void switches_tell(struct log *log, const char *event, const struct log_field *what, size_t n,
                   const struct switched *switched);

/** Whether the limit of that name is switched, and how. */
bool switches_find(struct switches *switches, const char *limit, struct switched *out);

/**
 * Ends what is over at `now_ns`, Unix time, and forgets what `config`, the newest, says otherwise.
 * Returns how long until the next one ends; UINT64_MAX: none does. One thread at a time.
 */
uint64_t switches_end(struct switches *switches, const struct server_config *config,
                      uint64_t now_ns);

#endif
