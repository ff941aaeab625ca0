/*
 * virtual.h: time and network of the servers that play.c runs in its process.
 *
 * Time passes only when virtual_pass says so, or when a server sleeps or waits in vain. Calls to
 * Redis take no time. The linker puts the functions of virtual.c in place of those of the system
 * (`--wrap` in meson.build).
 */
#ifndef HISTORIES_VIRTUAL_H
#define HISTORIES_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

/* The state of the network between a server and Redis. */
enum virtual_fault {
	FAULT_NONE,
	FAULT_DOWN, /* Redis accepts no connection, and has closed those that it had */
	FAULT_CUT,  /* Redis does what it is asked; the connection ends instead of the answer */
	FAULT_LATE, /* Redis does what it is asked; its answers stay on the way */
	FAULT_HANG, /* Redis reads nothing until the fault ends, and then all of it */
	FAULT_COUNT,
};

#define VIRTUAL_SERVERS_MAX 4

/** Redis's clock is a file of this path from now on. Returns false if it can't be mapped. */
bool virtual_share_clock(const char *path);
/** Begins a history: all clocks at `now_ns`, no fault. */
void virtual_begin(uint64_t now_ns);
uint64_t virtual_now_ns(void);
void virtual_pass(uint64_t ns);
/** The server that runs from now on. Its wall clock is so far ahead of Redis's. */
void virtual_act(unsigned server, int64_t ahead_ns);
/** The wall clock of the server that runs. */
uint64_t virtual_wall_ns(void);
/** The network of a server from now on. */
void virtual_set_fault(unsigned server, enum virtual_fault fault);

#endif
