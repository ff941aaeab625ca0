#include "server/admin/switches.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "engine/engine.h"
#include "rules/model.h"

struct switches_item {
	struct list_node node;
	struct switched switched;
	double share; /* as the limit keeps it, which rounds */
	char limit[]; /* its name */
};

int switches_open(struct switches *switches, struct log *log)
{
	*switches = (struct switches){.mutex = PTHREAD_MUTEX_INITIALIZER, .log = log};
	switches->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return switches->fd >= 0 ? WEIR_OK : WEIR_EIO;
}

void switches_close(struct switches *switches)
{
	LIST_EACH(&switches->items, struct switches_item, node, item)
		free(item);
	if (switches->fd >= 0)
		close(switches->fd);
}

/* The limit's switch, or NULL. */
static struct switches_item *find(const struct switches *switches, const char *limit)
{
	LIST_EACH(&switches->items, struct switches_item, node, item)
		if (strcmp(item->limit, limit) == 0)
			return item;
	return NULL;
}

/* The share that a limit denies now. */
static double share_of(const weir_limit *limit)
{
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct weir_limit_options options = {0};

	algo->algorithm->amend(algo, &options);
	return options.deny;
}

static int put(struct switches *switches, const weir_limit *limit, const struct switched *switched)
{
	const char *name = weir_limit_name(limit);
	struct switches_item *item = find(switches, name);
	bool is_new = !item;
	int status;

	if (is_new) {
		item = calloc(1, sizeof *item + strlen(name) + 1);
		if (!item)
			return WEIR_ENOMEM;
		strcpy(item->limit, name);
	}
	status = weir_limit_shed(limit, switched->deny);
	if (status != WEIR_OK) {
		if (is_new)
			free(item);
		return status;
	}
	if (is_new)
		list_append(&switches->items, &item->node);
	item->switched = *switched;
	item->share = share_of(limit);
	return WEIR_OK;
}

void switches_tell(struct log *log, const char *event, const struct log_field *what, size_t n,
                   const struct switched *switched)
{
	struct log_field fields[SWITCHES_FIELDS_MAX + 2];
	struct buffer until = {0};

	memcpy(fields, what, n * sizeof *fields);
	fields[n++] = (struct log_field){"by", switched->by, 0};
	if (switched->until_ns != 0) {
		when_add_date(&until, switched->until_ns);
		buffer_add(&until, "", 1);
		fields[n++] = (struct log_field){"until", until.failed ? "?" : until.data, 0};
	}
	log_write(log, LOG_INFO, event, fields, n);
	buffer_free(&until);
}

static void tell_shed(struct log *log, const char *limit, const struct switched *switched)
{
	char share[DECIMAL_TEXT_MAX];

	format_decimal(share, switched->deny);
	switches_tell(log, "shed", (const struct log_field[]){{"limit", limit, 0}, {"deny", share, 0}},
	              2, switched);
}

int switches_shed(struct switches *switches, const weir_limit *limit,
                  const struct switched *switched)
{
	int status;

	pthread_mutex_lock(&switches->mutex);
	status = put(switches, limit, switched);
	pthread_mutex_unlock(&switches->mutex);
	if (status != WEIR_OK)
		return status;
	eventfd_write(switches->fd, 1);
	tell_shed(switches->log, weir_limit_name(limit), switched);
	return WEIR_OK;
}

bool switches_find(struct switches *switches, const char *limit, struct switched *out)
{
	const struct switches_item *item;

	pthread_mutex_lock(&switches->mutex);
	item = find(switches, limit);
	if (item)
		*out = item->switched;
	pthread_mutex_unlock(&switches->mutex);
	return item;
}

/* The share that the file says of a limit. */
static double filed_share(const struct weir_config *rules, const char *limit)
{
	size_t i = 0;

	while (strcmp(rules->limits[i].options.name, limit) != 0)
		i++;
	return rules->limits[i].options.deny;
}

/* Whether the switch goes, since it is over or a reload has brought another share. */
static bool ends(const struct switches *switches, const struct server_config *config,
                 const struct switches_item *item, uint64_t now_ns)
{
	const weir_limit *limit = weir_engine_limit(config->engine, item->limit, strlen(item->limit));
	bool is_over = item->switched.until_ns != 0 && item->switched.until_ns <= now_ns;
	char share[DECIMAL_TEXT_MAX];
	double filed;

	if (!limit || !limit->algo.algorithm->amend || share_of(limit) != item->share)
		return true;
	if (!is_over)
		return false;
	filed = filed_share(config->rules, item->limit);
	weir_limit_shed(limit, filed);
	format_decimal(share, filed);
	log_say(switches->log, LOG_INFO, "shed_ended", {"limit", item->limit}, {"deny", share});
	return true;
}

uint64_t switches_end(struct switches *switches, const struct server_config *config,
                      uint64_t now_ns)
{
	uint64_t left_ns = UINT64_MAX;
	eventfd_t count;

	eventfd_read(switches->fd, &count);
	pthread_mutex_lock(&switches->mutex);
	LIST_EACH(&switches->items, struct switches_item, node, item) {
		if (ends(switches, config, item, now_ns)) {
			list_remove(&switches->items, &item->node);
			free(item);
		} else if (item->switched.until_ns != 0) {
			left_ns = u64_min(left_ns, item->switched.until_ns - now_ns);
		}
	}
	pthread_mutex_unlock(&switches->mutex);
	return left_ns;
}
