/* account.h: finds users and groups of the system by name. */
#ifndef SERVER_ACCOUNT_H
#define SERVER_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Sets *id to the number of a user or group, given by its name or that number. Returns false if
 * there is none.
 */
bool account_user(const char *text, uint64_t *id);
bool account_group(const char *text, uint64_t *id);

#endif
