/* os.h: asks the operating system for memory, time and random bytes; no other file does. */
#ifndef BASE_OS_OS_H
#define BASE_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Maps `size` bytes of zeroed pages. They become resident when they are touched. If they are at
 * most an eighth of the machine's memory, the system is asked for huge pages. Returns NULL if there
 * is no memory.
 */
void *os_pages_map(size_t size);
/**
 * Advises the system not to read ahead in mapped pages of a file. Does nothing if they are at most
 * an eighth of the machine's memory, since then all of them are soon resident.
 */
void os_pages_scatter(void *pages, size_t size);
/** Maps zeroed pages without advice on huge pages. Returns NULL if there are no addresses left. */
void *os_pages_reserve(size_t size);
/** Lets the child of a fork find zeroed pages. Returns false if the system can't (before
 * Linux 4.14). */
bool os_pages_forget_in_child(void *pages, size_t size);
void os_pages_unmap(void *pages, size_t size);

/** Waits until written pages of a file are on its disk. Returns 0 or WEIR_EIO. */
int os_pages_sync(void *pages, size_t size);

/** Fills `out` from the system's random source. Returns 0 or WEIR_EIO. */
int os_random(void *out, size_t len);

/* The processor time that this process has used so far, and its memory now. */
struct os_usage {
	uint64_t cpu_ns; /* user and system */
	uint64_t resident_bytes;
	uint64_t virtual_bytes;
};

struct os_usage os_usage(void);

/** CLOCK_MONOTONIC in nanoseconds. */
uint64_t os_monotonic_ns(void);

/** CLOCK_REALTIME in nanoseconds since 1970. */
uint64_t os_wall_ns(void);

/**
 * Whether the system's own clock uses the processor's counter, which it does if the counter runs at
 * a constant rate and alike on all processors.
 */
bool os_trusts_counter(void);

/** A number that identifies this boot of the system, or 0 if it is not known. */
uint64_t os_boot_id(void);

#endif
