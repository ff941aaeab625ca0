/* service_manager.h: tells the service manager that started the server how it stands. */
#ifndef SERVER_SERVICE_MANAGER_H
#define SERVER_SERVICE_MANAGER_H

/** Tells `state` ("READY=1") as sd_notify(3) does; nothing without NOTIFY_SOCKET. */
void notify(const char *state);

/** That a reload begins, and when; READY=1 ends it, however it went. */
void notify_reloading(void);

#endif
