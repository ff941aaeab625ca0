/*
 * model.c: creates a configuration (the content of rule files) with its defaults, opens the
 * dictionaries that its rules name, and frees it.
 */
#include "rules/model.h"

#include <stdlib.h>

#include "base/error.h"

struct weir_config *weir_private_config_new(void)
{
	struct weir_config *config = malloc(sizeof *config);

	if (config)
		*config = (struct weir_config){
		    .nodes = 1,
		    .koala.timezone = RULES_KOALA_TIMEZONE,
		    .prefix = RULES_KEY_PREFIX,
		    .store_timeout_ns = RULES_STORE_TIMEOUT_NS,
		    .denied_cache_ns = RULES_DENIED_CACHE_NS,
		    .store_poll_ns = RULES_STORE_POLL_NS,
		    .connections = RULES_CONNECTIONS,
		    .idle_http_ns = RULES_IDLE_HTTP_NS,
		    .denials = {.keep = RULES_DENIALS_KEEP,
		                .per_second = RULES_DENIALS_PER_SECOND,
		                .rotate = RULES_DENIALS_ROTATE,
		                .files = RULES_DENIALS_FILES},
		};
	return config;
}

void weir_config_close(weir_config *config)
{
	if (!config)
		return;
	for (struct rules_dictionary *item = config->dictionaries; item; item = item->next)
		dictionary_close(item->dictionary);
	arena_free(&config->arena);
	free(config);
}

/* Opens the file of each path once: a further call returns the same dictionary or error. */
int weir_private_config_dictionary(struct weir_config *config, const char *path,
                                   const struct dictionary_reporter *reporter,
                                   const struct dictionary **out, struct weir_error *error)
{
	struct rules_dictionary **link = &config->dictionaries, *item;

	*out = NULL;
	while (*link && strcmp((*link)->path, path) != 0)
		link = &(*link)->next;
	if (!*link) { /* new, so it is the end of the list */
		item = arena_alloc(&config->arena, sizeof *item);
		if (item)
			*item = (struct rules_dictionary){.path = arena_copy(&config->arena, slice_of(path))};
		if (!item || !item->path || rules_add_file(config, path) != WEIR_OK)
			return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
		if (dictionary_open(path, reporter, &item->dictionary, &item->error) == WEIR_OK) {
			item->count = dictionary_count(item->dictionary);
			item->texts = *dictionary_texts(item->dictionary);
		}
		*link = item;
	}
	*out = (*link)->dictionary;
	if (*out)
		return WEIR_OK;
	*error = (*link)->error;
	return error->status;
}
