/* draw.h: chance, from a generator that each thread has for itself. */
#ifndef BASE_DRAW_H
#define BASE_DRAW_H

#include <stdint.h>

/** 64 fair bits; fit for shedding load, not for secrets. */
uint64_t draw_next(void);

/** Fair, from 0 up to but not 1. */
double draw_share(void);

/** What this thread draws from now on follows from `seed`; without, from the system's chance. */
void draw_seed(uint64_t seed);

#endif
