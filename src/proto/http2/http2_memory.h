/* http2_memory.h: memory for nghttp2, which takes some twenty pieces for each request. */
#ifndef PROTO_HTTP2_MEMORY_H
#define PROTO_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>

/**
 * An allocator that keeps freed pieces for the next request: at most 128 KiB for each thread, for
 * as long as the thread lives.
 */
nghttp2_mem *http2_memory(void);

#endif
