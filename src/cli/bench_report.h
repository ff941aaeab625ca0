/* bench_report.h: what `weir bench` prints. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include <stdio.h>

#include "load/load.h"

/**
 * Prints the result; `keys` is how --distribution named it. Returns false if `to` did not take it.
 */
typedef bool bench_report(FILE *to, const struct load_options *options, const char *protocol,
                          const char *keys, const struct load_result *result);

bench_report bench_report_text;
bench_report bench_report_json; /* one object on one line */

#endif
