/*
 * service.h: distributions of service times by their names, for the real server and simulated ones.
 */
#ifndef SIMULATE_SERVICE_H
#define SIMULATE_SERVICE_H

/* A service time in means, from a uniform draw. */
typedef double service_time(double uniform);

/**
 * Returns the distribution of a name, or NULL if there is none: `exponential`, `constant`,
 * `bimodal`, `mixed` or `lucky`.
 */
service_time *service_named(const char *name);

#endif
