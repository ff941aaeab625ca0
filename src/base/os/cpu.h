/*
 * cpu.h: measures how busy the processors are that this process may use.
 *
 * In a control group with a quota of processor time (version 2 or 1), this is the use of the least
 * quota of the group and its parents. Otherwise it is the host's use. No thread runs for this: a
 * caller reads the use at most every 500 ms, and other calls only read the clock.
 */
#ifndef BASE_OS_CPU_H
#define BASE_OS_CPU_H

#include <stdint.h>

struct cpu;

/**
 * `root` is put before all paths; it is "" except in tests. Returns NULL if there is no memory. If
 * the files can't be read, the use is always 0.
 */
struct cpu *cpu_open(const char *root);
void cpu_close(struct cpu *cpu);

/**
 * The use in millionths, smoothed: each 500 ms the former value counts 0.95, and the new one 0.05.
 * Any thread may call it at any time.
 */
uint32_t cpu_smoothed(struct cpu *cpu);

/** The same at a given time of the monotonic clock. */
uint32_t cpu_smoothed_at(struct cpu *cpu, uint64_t monotonic_ns);

/** The smoothed use after another 500 ms, of which the processors were busy so many thousandths. */
uint32_t cpu_smooth(uint32_t smoothed, unsigned thousandths);

#endif
