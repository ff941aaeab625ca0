#include "readers/source.h"

#include <string.h>
#include <unistd.h>

#include "rules/model.h"

const char *source_path(struct weir_config *config, const char *directory, struct slice name)
{
	bool is_beside = directory && directory[0] != '\0' && name.data[0] != '/';
	size_t before = is_beside ? strlen(directory) + 1 : 0;
	char *path = arena_alloc(&config->arena, before + name.len + 1);

	if (!path)
		return NULL;
	if (is_beside) {
		memcpy(path, directory, before - 1);
		path[before - 1] = '/';
	}
	memcpy(path + before, name.data, name.len);
	path[before + name.len] = '\0';
	if (is_beside && access(path, F_OK) != 0 && access(path + before, F_OK) == 0)
		path += before;
	return path;
}
