/*
 * overrides.c: lets operators change the share of requests that a load-shedding limit denies while
 * the server runs, records the operator and the end, and returns to the configured share then.
 */
#include "server/admin/overrides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "engine/engine.h"
#include "rules/model.h"
#include "server/access/users.h"

struct overrides_item {
	struct list_node node;
	struct override override;
	double applied_share; /* as the limit stores it, rounded */
	char limit[];         /* its name */
};

void overrides_format_by(const struct user *user, const struct ip *peer, char by[OVERRIDE_BY_MAX])
{
	if (user)
		by += snprintf(by, OVERRIDE_BY_MAX, "%s@", user->rule->name);
	by[ip_format(peer, by)] = '\0';
}

int overrides_open(struct overrides *overrides, struct log *log)
{
	*overrides = (struct overrides){.mutex = PTHREAD_MUTEX_INITIALIZER, .log = log};
	overrides->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return overrides->fd >= 0 ? WEIR_OK : WEIR_EIO;
}

void overrides_close(struct overrides *overrides)
{
	LIST_EACH (&overrides->items, struct overrides_item, node, item)
		free(item);
	if (overrides->fd >= 0)
		close(overrides->fd);
}

/* The limit's override, or NULL. */
static struct overrides_item *find_override(const struct overrides *overrides, const char *limit)
{
	LIST_EACH (&overrides->items, struct overrides_item, node, item)
		if (strcmp(item->limit, limit) == 0)
			return item;
	return NULL;
}

/* The share of requests that a limit denies now. */
static double current_share(const weir_limit *limit)
{
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct weir_limit_options options = {0};

	algo->algorithm->amend(algo, &options);
	return options.deny;
}

/* Lets the limit deny the override's share from now on, and records the override. */
static int override_share(struct overrides *overrides, const weir_limit *limit,
                          const struct override *override)
{
	const char *name = weir_limit_name(limit);
	struct overrides_item *item = find_override(overrides, name);
	bool is_new = !item;
	int status;

	if (is_new) {
		item = calloc(1, sizeof *item + strlen(name) + 1);
		if (!item)
			return WEIR_ENOMEM;
		strcpy(item->limit, name);
	}
	status = weir_limit_shed(limit, override->deny);
	if (status != WEIR_OK) {
		if (is_new)
			free(item);
		return status;
	}
	if (is_new)
		list_append(&overrides->items, &item->node);
	item->override = *override;
	item->applied_share = current_share(limit);
	return WEIR_OK;
}

/* Logs an event with the given fields, and who caused it and when it ends. */
void overrides_log(struct log *log, const char *event, const struct log_field *event_fields,
                   size_t n, const struct override *override)
{
	struct log_field fields[OVERRIDE_FIELDS_MAX + 2];
	struct buffer until_text = {0};

	memcpy(fields, event_fields, n * sizeof *fields);
	fields[n++] = (struct log_field){"by", override->by, 0};
	if (override->until_ns != 0) {
		timestamp_add_date(&until_text, override->until_ns);
		buffer_add(&until_text, "", 1);
		fields[n++] = (struct log_field){"until", until_text.failed ? "?" : until_text.data, 0};
	}
	log_write(log, LOG_INFO, event, fields, n);
	buffer_free(&until_text);
}

void overrides_add_members(const struct override *override, struct buffer *out)
{
	buffer_add_text(out, "\"by\":");
	buffer_add_json_string(out, slice_of(override->by));
	buffer_add_text(out, ",\"at\":\"");
	timestamp_add_date(out, override->at_ns);
	if (override->until_ns != 0) {
		buffer_add_text(out, "\",\"until\":\"");
		timestamp_add_date(out, override->until_ns);
	}
	buffer_add(out, "\"", 1);
}

static void log_shed(struct log *log, const char *limit, const struct override *override)
{
	char share_text[DECIMAL_TEXT_MAX];

	format_decimal(share_text, override->deny);
	overrides_log(log, "shed",
	              (const struct log_field[]){{"limit", limit, 0}, {"deny", share_text, 0}}, 2,
	              override);
}

/* Overrides a share, logs it, and wakes the server's thread to plan the end. */
int overrides_shed(struct overrides *overrides, const weir_limit *limit,
                   const struct override *override)
{
	int status;

	pthread_mutex_lock(&overrides->mutex);
	status = override_share(overrides, limit, override);
	pthread_mutex_unlock(&overrides->mutex);
	if (status != WEIR_OK)
		return status;
	eventfd_write(overrides->fd, 1);
	log_shed(overrides->log, weir_limit_name(limit), override);
	return WEIR_OK;
}

bool overrides_find(struct overrides *overrides, const char *limit, struct override *out)
{
	const struct overrides_item *item;

	pthread_mutex_lock(&overrides->mutex);
	item = find_override(overrides, limit);
	if (item)
		*out = item->override;
	pthread_mutex_unlock(&overrides->mutex);
	return item;
}

/* The share of a limit in the configuration, which has a limit of that name. */
static double configured_share(const struct weir_config *rules, const char *limit)
{
	size_t i = 0;

	while (strcmp(rules->limits[i].options.name, limit) != 0)
		i++;
	return rules->limits[i].options.deny;
}

/*
 * Returns whether to remove an override. One whose time is over returns the limit to its configured
 * share first. One that a reload has contradicted, by another share or without the limit, has lost
 * its effect already.
 */
static bool end_override_if_over(const struct overrides *overrides,
                                 const struct server_config *config,
                                 const struct overrides_item *item, uint64_t now_ns)
{
	const weir_limit *limit = weir_engine_limit(config->engine, item->limit, strlen(item->limit));
	bool has_share = limit && limit->algo.algorithm->set_share; /* others deny by their states */
	bool is_contradicted = !has_share || current_share(limit) != item->applied_share;
	bool is_over = item->override.until_ns != 0 && item->override.until_ns <= now_ns;
	char share_text[DECIMAL_TEXT_MAX];
	double configured;

	if (is_contradicted)
		return true;
	if (!is_over)
		return false;
	configured = configured_share(config->rules, item->limit);
	weir_limit_shed(limit, configured);
	format_decimal(share_text, configured);
	log_event(overrides->log, LOG_INFO, "shed_ended", {"limit", item->limit}, {"deny", share_text});
	return true;
}

uint64_t overrides_expire(struct overrides *overrides, const struct server_config *config,
                          uint64_t now_ns)
{
	uint64_t next_end_in_ns = UINT64_MAX;
	eventfd_t count;

	eventfd_read(overrides->fd, &count); /* the descriptor is no longer readable */
	pthread_mutex_lock(&overrides->mutex);
	LIST_EACH (&overrides->items, struct overrides_item, node, item) {
		if (end_override_if_over(overrides, config, item, now_ns)) {
			list_remove(&overrides->items, &item->node);
			free(item);
		} else if (item->override.until_ns != 0) {
			next_end_in_ns = u64_min(next_end_in_ns, item->override.until_ns - now_ns);
		}
	}
	pthread_mutex_unlock(&overrides->mutex);
	return next_end_in_ns;
}
