/* account.c: finds users and groups of the operating system by their name or number. */
#include "server/access/account.h"

#include <grp.h>
#include <pwd.h>

#include "base/number.h"

/* The owner of a container's files, for example, may have a number and no name. */
static bool is_number(const char *text, uint64_t *id)
{
	return parse_u64(slice_of(text), id) && *id < UINT32_MAX;
}

bool account_user(const char *text, uint64_t *id)
{
	const struct passwd *user = getpwnam(text);

	if (!user)
		return is_number(text, id);
	*id = user->pw_uid;
	return true;
}

bool account_group(const char *text, uint64_t *id)
{
	const struct group *group = getgrnam(text);

	if (!group)
		return is_number(text, id);
	*id = group->gr_gid;
	return true;
}
