/* remark.c: adds errors and warnings to a configuration, and sorts them by file and line. */
#include "rules/remark.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int add(struct weir_config *config, const struct weir_config_remark *about, const char *text)
{
	struct rules_remarks *remarks = &config->remarks;
	struct rules_remark *remark = arena_alloc(&config->arena, sizeof *remark);
	char *copy = arena_copy(&config->arena, slice_of(text));

	if (!remark || !copy)
		return WEIR_ENOMEM;
	remark->said = *about;
	remark->said.text = copy;
	if (remarks->last)
		remarks->last->next = remark;
	else
		remarks->first = remark;
	remarks->last = remark;
	remarks->count++;
	return WEIR_OK;
}

int remark_add(struct weir_config *config, const struct weir_config_remark *about,
               const char *format, ...)
{
	struct rules_remarks *remarks = &config->remarks;
	char text[512];
	va_list args;

	remarks->errors += about->is_error;
	if (remarks->count > REMARKS_MAX)
		return WEIR_OK;
	if (remarks->count == REMARKS_MAX) {
		const struct weir_config_remark last = {.path = about->path, .is_error = about->is_error};

		return add(config, &last, "expected fewer mistakes, found more than are listed here");
	}
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return add(config, about, text);
}

/* A remark with all that its place among the others depends on. */
struct ranked {
	struct rules_remark *remark;
	size_t file, number;
};

static int compare(const void *a, const void *b)
{
	const struct ranked *left = a, *right = b;
	const struct weir_config_remark *one = &left->remark->said, *other = &right->remark->said;

	if (left->file != right->file)
		return left->file < right->file ? -1 : 1;
	if (one->line != other->line) /* those of no line come last */
		return one->line - 1 < other->line - 1 ? -1 : 1;
	if (one->column != other->column)
		return one->column < other->column ? -1 : 1;
	return left->number < right->number ? -1 : 1;
}

/* From 1 on; 0 if not one of the config's. */
static size_t file_number(const struct weir_config *config, const char *path)
{
	size_t number = 1;

	if (!path)
		return 0;
	for (const struct rules_file *file = config->files; file; file = file->next, number++)
		if (strcmp(file->path, path) == 0)
			return number;
	return 0;
}

int remark_sort(struct weir_config *config)
{
	struct rules_remarks *remarks = &config->remarks;
	struct ranked *ranked = calloc(remarks->count + 1, sizeof *ranked);
	size_t n = 0;

	if (!ranked)
		return WEIR_ENOMEM;
	for (struct rules_remark *remark = remarks->first; remark; remark = remark->next) {
		ranked[n] = (struct ranked){remark, file_number(config, remark->said.path), n};
		n++;
	}
	qsort(ranked, n, sizeof *ranked, compare);
	for (size_t i = 0; i < n; i++)
		ranked[i].remark->next = i + 1 < n ? ranked[i + 1].remark : NULL;
	remarks->first = n ? ranked[0].remark : NULL;
	remarks->last = n ? ranked[n - 1].remark : NULL;
	free(ranked);
	return WEIR_OK;
}
