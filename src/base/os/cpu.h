/*
 * cpu.h: measures how busy the processors are that this process may use.
 *
 * In a control group with a quota of processor time (version 2 or 1), this is the group's use of
 * the least quota above it. Otherwise it is the host's use. There is no thread: a caller that asks
 * reads it, at most every 500 ms. Asking takes one look at the clock.
 */
#ifndef BASE_OS_CPU_H
#define BASE_OS_CPU_H

#include <stdint.h>

struct cpu;

/**
 * `root` is put before all paths: "" but in tests. Returns NULL if there is no memory. Without what
 * it needs to read, processors are never busy.
 */
struct cpu *cpu_open(const char *root);
void cpu_close(struct cpu *cpu);

/** Smoothed by 0.95 each 500 ms, in millionths. Any thread may ask at any time. */
uint32_t cpu_smoothed(struct cpu *cpu);

/** The same at a time of a monotonic clock; for tests. */
uint32_t cpu_smoothed_at(struct cpu *cpu, uint64_t monotonic_ns);

/** One step of that: after so many thousandths of half a second. */
uint32_t cpu_smooth(uint32_t smoothed, unsigned thousandths);

#endif
