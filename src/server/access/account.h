/* account.h: users and groups of the system by name. */
#ifndef SERVER_ACCOUNT_H
#define SERVER_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

/** The number of a user, or of a group, by its name or by that number. False: there is none. */
bool account_user(const char *text, uint64_t *id);
bool account_group(const char *text, uint64_t *id);

#endif
