/* top_frame.h: asks a server for all that `weir top` shows, and makes a text or JSON of it. */
#ifndef CLI_REMOTE_TOP_TOP_FRAME_H
#define CLI_REMOTE_TOP_TOP_FRAME_H

#include <stdbool.h>

#include <weir/weir.h>

#include "base/buffer.h"
#include "cli/remote/server_flags.h"

/**
 * Appends a frame: lines of printable text, or one line of JSON. Returns false if the server did
 * not answer all of it; `error` says why.
 */
bool top_frame_add(struct buffer *out, const struct server_flags *server, bool is_json,
                   struct weir_error *error);

#endif
