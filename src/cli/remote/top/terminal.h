/*
 * terminal.h: shows frames of text on a terminal, one over the other, and restores the terminal
 * when the program ends or is stopped.
 */
#ifndef CLI_REMOTE_TOP_TERMINAL_H
#define CLI_REMOTE_TOP_TERMINAL_H

#include <stdbool.h>

#include "base/slice.h"

/** Switches to a screen of its own, if standard output is a terminal; otherwise returns false. */
bool terminal_open(void);
/** Restores the terminal; does nothing without terminal_open. */
void terminal_close(void);

/** Shows lines of printable text, cut to the size of the terminal. */
void terminal_show(struct slice text);

/** Waits for `ms`. Returns earlier if the size of the terminal changes; false if the user quits. */
bool terminal_wait(int ms);

#endif
