/* bench_report.h: prints the result of `weir bench` as text or JSON. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include <stdio.h>

#include "load/load.h"

/** Prints the result. Returns false if writing fails. */
typedef bool bench_report(FILE *to, const struct load_options *options, const char *protocol,
                          const char *distribution, const struct load_result *result);

bench_report bench_report_text;
bench_report bench_report_json; /* one object on one line */

#endif
