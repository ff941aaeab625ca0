/* server.h: a redis-server of the test's own, on a free port, stopped by its process id. */
#ifndef TEST_REDIS_SERVER_H
#define TEST_REDIS_SERVER_H

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SERVER_WORDS_MAX 32
#define SERVER_WAIT_MS   20000

struct server {
	pid_t pid;
	unsigned port;
	char directory[64];
};

static inline struct sockaddr_in server_address(unsigned port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_port = htons((uint16_t)port),
	                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/*
 * Below the ports that the kernel assigns: otherwise a connection of another program could get the
 * port before the server starts, or while it is down.
 */
static inline unsigned server_free_port(void)
{
	static uint64_t drawn;
	struct sockaddr_in address;
	int fd = -1;

	for (int bound = -1; bound != 0; close(fd)) {
		drawn = (drawn ? drawn : (uint64_t)getpid() * 7919) * 69069 + 1;
		address = server_address(11000 + (unsigned)(drawn >> 16) % 11000);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fd >= 0);
		bound = bind(fd, (struct sockaddr *)&address, sizeof address);
	}
	return ntohs(address.sin_port);
}

/** A connection to it, or -1. */
static inline int server_connect(unsigned port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = server_address(port);

	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Runs a program, with its output in the file `log`. */
static inline pid_t server_spawn(const char *directory, char *const *words)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
	if (chdir(directory) == 0) {
		int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(log, 1);
		dup2(log, 2);
		execvp(words[0], words);
	}
	_exit(127);
}

/** Runs it to its end, which must be a good one. */
static inline void server_run(const char *directory, char *const *words)
{
	int status;

	assert_int_equal(waitpid(server_spawn(directory, words), &status, 0) > 0, true);
	if (status != 0)
		fail_msg("%s %s: %d", words[0], words[1], status);
}

/** An authority, and certificates by it of the name "store" and of 127.0.0.1, and of a client. */
static inline void server_make_certificates(const char *directory)
{
	server_run(
	    directory,
	    (char *[]){"sh", "-c",
	               "new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
	               "$new -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem &&\n"
	               "$new -x509 -days 2 -subj /CN=other -keyout other.key -out other.pem &&\n"
	               "for name in server client; do\n"
	               "  $new -subj /CN=$name -keyout $name.key -out $name.csr &&\n"
	               "  printf 'subjectAltName=DNS:store,IP:127.0.0.1' >names &&\n"
	               "  openssl x509 -req -days 2 -in $name.csr -CA ca.pem -CAkey ca.key "
	               "-CAcreateserial \\\n"
	               "    -extfile names -out $name.pem || exit 1\n"
	               "done",
	               NULL});
}

/** `--port` or `--tls-port`, and further arguments, up to a NULL. */
static inline void server_start_in(struct server *server, const char *port_option,
                                   const char *const *more)
{
	char port[16], *words[SERVER_WORDS_MAX] = {"redis-server", "--save", "", "--bind", "127.0.0.1"};
	size_t n = 5;
	int fd = -1;

	snprintf(port, sizeof port, "%u", server->port);
	if (strcmp(port_option, "--port") != 0) {
		words[n++] = "--port";
		words[n++] = "0";
	}
	words[n++] = (char *)port_option;
	words[n++] = port;
	for (; more && *more; more++)
		words[n++] = (char *)*more;
	server->pid = server_spawn(server->directory, words);
	for (int ms = 0; fd < 0 && ms < SERVER_WAIT_MS; ms += 10) {
		poll(NULL, 0, 10);
		fd = server_connect(server->port);
	}
	assert_true(fd >= 0);
	close(fd);
}

static inline struct server server_make(void)
{
	struct server server = {.port = server_free_port()};

	strcpy(server.directory, "/tmp/weir-redis-XXXXXX");
	assert_non_null(mkdtemp(server.directory));
	return server;
}

static inline struct server server_start(const char *const *more)
{
	struct server server = server_make();

	server_start_in(&server, "--port", more);
	return server;
}

static inline void server_kill(struct server *server)
{
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

static inline void server_stop(struct server *server)
{
	DIR *directory;
	struct dirent *entry;

	if (server->pid > 0)
		server_kill(server);
	directory = opendir(server->directory);
	while ((entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	rmdir(server->directory);
}

#endif
