/* dictionary.c: the file of a dictionary, beside the file that names it. */
#include <unistd.h>

#include "base/error.h"
#include "readers/source.h"

int read_dictionary_file(struct weir_config *config, const char *directory, const char *name,
                         const struct dictionary **out, struct weir_error *error)
{
	bool is_beside = directory && directory[0] != '\0' && name[0] != '/';
	size_t before = is_beside ? strlen(directory) + 1 : 0, len = strlen(name);
	char *path = arena_alloc(&config->arena, before + len + 1);

	*out = NULL;
	if (!path)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	if (is_beside) {
		memcpy(path, directory, before - 1);
		path[before - 1] = '/';
	}
	memcpy(path + before, name, len);
	if (is_beside && access(path, F_OK) != 0 && access(name, F_OK) == 0)
		path += before;
	return weir_private_config_dictionary(config, path, out, error);
}
