/* os.h: asks the operating system for memory, time and random bytes; no other file does. */
#ifndef BASE_OS_OS_H
#define BASE_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Zeroed pages, `size` bytes; NULL if there is no memory. They become resident when they are
 * touched: as huge pages where the system grants them and memory abounds.
 */
void *os_pages_map(size_t size);
/**
 * Tells the system that pages of a file will be touched here and there, so that it need not read
 * ahead. Not where memory abounds: there it soon has them all.
 */
void os_pages_scatter(void *pages, size_t size);
/** Zeroed pages without memory until they are touched; NULL if no addresses are left. */
void *os_pages_reserve(size_t size);
/** The child of a fork finds them zeroed, where the system can do that (Linux 4.14). */
bool os_pages_forget_in_child(void *pages, size_t size);
void os_pages_unmap(void *pages, size_t size);

/** Waits until written pages of a file are on its disk; 0 or WEIR_EIO. */
int os_pages_sync(void *pages, size_t size);

/** Fills `out` from the system's random source; 0 or WEIR_EIO. */
int os_random(void *out, size_t len);

/* The processor time and memory that this process has taken so far. */
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
 * Whether the system itself tells the time by the processor's counter, and has
 * found it to run evenly, on all processors alike.
 */
bool os_trusts_counter(void);

/** A number of this boot of the system, and of no other; 0 if not known. */
uint64_t os_boot_id(void);

#endif
