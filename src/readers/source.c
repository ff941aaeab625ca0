/* source.c: finds files that a rule file names, beside it or in the working directory. */
#include "readers/source.h"

#include <string.h>
#include <unistd.h>

#include "rules/model.h"

const char *source_path(struct weir_config *config, const char *directory, struct slice name)
{
	bool is_relative = directory && directory[0] != '\0' && name.data[0] != '/';
	size_t name_offset = is_relative ? strlen(directory) + 1 : 0;
	char *path = arena_alloc(&config->arena, name_offset + name.len + 1);

	if (!path)
		return NULL;
	if (is_relative) {
		memcpy(path, directory, name_offset - 1);
		path[name_offset - 1] = '/';
	}
	memcpy(path + name_offset, name.data, name.len);
	path[name_offset + name.len] = '\0';
	/* A file that is only in the working directory is taken from there. */
	if (is_relative && access(path, F_OK) != 0 && access(path + name_offset, F_OK) == 0)
		path += name_offset;
	return path;
}
