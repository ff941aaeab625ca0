/* http2_memory.h: allocates memory for nghttp2, which needs twenty pieces for a request. */
#ifndef PROTO_HTTP2_MEMORY_H
#define PROTO_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>

/**
 * Reuses freed pieces for the next request. At most 128 KiB are retained for each thread, until the
 * thread ends.
 */
nghttp2_mem *http2_memory(void);

#endif
