/* service_manager.h: reports the server's state to the service manager that has started it. */
#ifndef SERVER_SERVICE_MANAGER_H
#define SERVER_SERVICE_MANAGER_H

/** Sends `state`, such as "READY=1"; does nothing without NOTIFY_SOCKET. */
void service_manager_notify(const char *state);

/** Reports that a reload begins. READY=1 must follow, whatever its result. */
void service_manager_notify_reloading(void);

#endif
