/* notify.h: tells the service manager that started the server how it stands. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/** `state` as sd_notify(3) has it: "READY=1". Where nobody asked (NOTIFY_SOCKET), nothing is told. */
void notify(const char *state);

/** That a reload begins, and when; READY=1 ends it, however it went. */
void notify_reloading(void);

#endif
