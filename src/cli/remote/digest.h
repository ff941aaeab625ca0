/* digest.h: asks a server for the digest by which it shows a key. */
#ifndef CLI_REMOTE_DIGEST_H
#define CLI_REMOTE_DIGEST_H

#include "base/buffer.h"
#include "cli/remote/server_flags.h"

/**
 * Appends the digest of the key to `digest`. Returns 0; or, after `weir COMMAND` has printed an
 * error, EXIT_USAGE.
 */
int digest_ask(const char *command, const struct server_flags *server, const char *key,
               struct buffer *digest);

#endif
