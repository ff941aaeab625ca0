/* log.h: what an operator reads on stderr, one line each. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdint.h>

#include <weir/weir.h>

/** "weir: …" */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** "FILE:LINE:COL: error: …", or "FILE: error: …" where no place is known. */
void log_file_error(const char *path, const struct weir_error *error);

/* Lets one message a second through and counts the others. Zero at first; one thread. */
struct log_gate {
	uint64_t next_ns;
	uint64_t dropped;
};

void log_limited(struct log_gate *gate, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
