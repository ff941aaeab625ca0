/*
 * remark.c: adds remarks (errors and warnings about rule files) to a configuration, and sorts them
 * by file and line.
 */
#include "rules/remark.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int append_remark(struct weir_config *config, const struct weir_config_remark *about,
                         const char *text)
{
	struct rules_remarks *remarks = &config->remarks;
	struct rules_remark *remark = arena_alloc(&config->arena, sizeof *remark);
	char *copy = arena_copy(&config->arena, slice_of(text));

	if (!remark || !copy)
		return WEIR_ENOMEM;
	remark->content = *about;
	remark->content.text = copy;
	if (remarks->last)
		remarks->last->next = remark;
	else
		remarks->first = remark;
	remarks->last = remark;
	remarks->count++;
	return WEIR_OK;
}

/*
 * After REMARKS_MAX remarks it adds one that says that there are more, and then only counts errors.
 */
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

		return append_remark(config, &last,
		                     "expected fewer mistakes, found more than are listed here");
	}
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return append_remark(config, about, text);
}

/* A remark with its ranks in the order: of its file, and as it was added. */
struct ranked_remark {
	struct rules_remark *remark;
	size_t file, number;
};

static int compare_ranked_remarks(const void *a, const void *b)
{
	const struct ranked_remark *left = a, *right = b;
	const struct weir_config_remark *one = &left->remark->content, *other = &right->remark->content;

	if (left->file != right->file)
		return left->file < right->file ? -1 : 1;
	if (one->line != other->line) /* 0, for no line, wraps around and comes last */
		return one->line - 1 < other->line - 1 ? -1 : 1;
	if (one->column != other->column)
		return one->column < other->column ? -1 : 1;
	return left->number < right->number ? -1 : 1;
}

/* Returns the number of a file in the order of reading, from 1; 0 if the config has not read it. */
static size_t file_rank(const struct weir_config *config, const char *path)
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
	struct ranked_remark *ranked = calloc(remarks->count + 1, sizeof *ranked);
	size_t n = 0;

	if (!ranked)
		return WEIR_ENOMEM;
	for (struct rules_remark *remark = remarks->first; remark; remark = remark->next) {
		ranked[n] = (struct ranked_remark){remark, file_rank(config, remark->content.path), n};
		n++;
	}
	qsort(ranked, n, sizeof *ranked, compare_ranked_remarks);
	for (size_t i = 0; i < n; i++)
		ranked[i].remark->next = i + 1 < n ? ranked[i + 1].remark : NULL;
	remarks->first = n ? ranked[0].remark : NULL;
	remarks->last = n ? ranked[n - 1].remark : NULL;
	free(ranked);
	return WEIR_OK;
}
