"""Starts real Sentinels that monitor a master with a replica, and servers that answer as Sentinels."""

import contextlib
import socket
import subprocess
import threading

import redis
from harness import PATIENCE, until
from redis_servers import PROGRAMS, free_port

NAME = "weir-master"


class Sentinel:
    """A Sentinel. `options` are lines of its configuration file."""

    def __init__(self, directory, master, quorum, down_ms, options=(), program="redis", tls_port=None):
        directory.mkdir()
        self.directory = directory
        self.port = free_port()
        self.tls_port = tls_port
        self.password = next((line.split()[1] for line in options if line.startswith("requirepass")), None)
        (directory / "sentinel.conf").write_text("\n".join([
            f"port {self.port}", "bind 127.0.0.1",
            f"sentinel monitor {NAME} 127.0.0.1 {master.port} {quorum}",
            f"sentinel down-after-milliseconds {NAME} {down_ms}",
            f"sentinel failover-timeout {NAME} 5000", *options, ""]))
        with open(directory / "log", "wb") as log:
            self.process = subprocess.Popen([PROGRAMS[program], "sentinel.conf", "--sentinel"],
                                            cwd=directory, stdout=log, stderr=log)
        self.client = redis.Redis(port=self.port, decode_responses=True, retry=None, password=self.password)
        until(self._answers, f"a Sentinel in {directory}")

    def _answers(self):
        try:
            return self.client.ping()
        except redis.ConnectionError:
            return False

    def command(self, *words):
        return self.client.execute_command("SENTINEL", *words)

    def stop(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def role(server):
    """The role of a server, or None while a Sentinel ends connections, as it does when it changes the role."""
    with contextlib.suppress(redis.ConnectionError):
        return server.client.info("replication")["role"]


class Watched:
    """A master, its replica, and Sentinels that all know each other."""

    def __init__(self, directory, start_redis, sentinels=3, down_ms=1000 * PATIENCE, program="redis",
                 redis_options=(), options=(), tls=()):
        self.sentinels = []
        self.master = start_redis("--repl-diskless-sync-delay", 0, *redis_options, program=program)
        self.replica = start_redis("--repl-diskless-sync-delay", 0, *redis_options, program=program)
        self.replica.client.replicaof("127.0.0.1", self.master.port)
        until(lambda: self.replica.client.info("replication")["master_link_status"] == "up", "the replica")
        try:
            for i in range(sentinels):
                tls_port = free_port() if tls else None
                lines = [*options, *(f"{line}" for line in tls), *([f"tls-port {tls_port}"] if tls else [])]
                self.sentinels.append(Sentinel(directory / f"sentinel-{i}", self.master, sentinels // 2 + 1,
                                               down_ms, lines, program, tls_port))
            until(lambda: all(self._is_whole(one) for one in self.sentinels), "Sentinels to know all")
        except BaseException:
            self.stop()
            raise

    def _is_whole(self, sentinel):
        state = sentinel.command("MASTER", NAME)
        state = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2]))
        return int(state["num-other-sentinels"]) == len(self.sentinels) - 1 and int(state["num-slaves"]) == 1

    @property
    def hosts(self):
        return ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)

    @property
    def url(self):
        return f"redis+sentinel://{self.hosts}/{NAME}"

    def until_promoted(self):
        """Waits until the replica is promoted; then swaps `master` and `replica`."""
        until(lambda: role(self.replica) == "master", "the promotion")
        self.master, self.replica = self.replica, self.master

    def fail_over(self, sentinel=0):
        """Starts a failover by command, as an operator does. The old master stays available."""
        def begin():
            try:
                return self.sentinels[sentinel].command("FAILOVER", NAME)
            except redis.ResponseError as error:  # the Sentinel does not know yet that the replica is healthy
                assert "NOGOODSLAVE" in str(error) or "INPROG" in str(error), error
                return False

        until(begin, "the failover to begin")
        self.until_promoted()

    def stop(self):
        for sentinel in self.sentinels:
            sentinel.stop()


class FakeSentinel:
    """A server that answers as a Sentinel does, or as the test sets it up.

    `master` is the server that it names, None for none, or the bytes of another answer. `others` are
    the addresses of other Sentinels that it names. While `hangs` it reads and does not answer.
    """

    def __init__(self, master=None, others=(), password=None, address="127.0.0.1"):
        self.master, self.others, self.password = master, list(others), password
        self.hangs = False
        self.asked = set()  # the addresses at which it received commands
        self._clients = []
        self._listener = socket.create_server((address, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                thread = threading.Thread(target=self._serve, args=(client,))
                thread.start()
                self._clients.append((client, thread))

    def _serve(self, client):
        with contextlib.suppress(OSError, ValueError):
            is_in = self.password is None
            for words in commands(client):
                if words[0] == b"AUTH":
                    is_in = words[-1].decode() == self.password
                if not self.hangs:
                    client.sendall(self._answer(words, client.getsockname()[0]) if is_in else
                                   b"-WRONGPASS no\r\n" if words[0] == b"AUTH" else b"-NOAUTH no\r\n")

    def _answer(self, words, address):
        if words[0] in (b"PING", b"AUTH"):
            return b"+PONG\r\n" if words[0] == b"PING" else b"+OK\r\n"
        if words[:2] == [b"SENTINEL", b"sentinels"]:
            return b"*%d\r\n" % len(self.others) + b"".join(
                array("name", "x", "ip", host, "port", str(port)) for host, port in self.others)
        if words[:2] != [b"SENTINEL", b"get-master-addr-by-name"] or words[2].decode() != NAME:
            return b"-ERR unexpected\r\n"
        self.asked.add(address)
        if self.master is None or isinstance(self.master, bytes):
            return self.master or b"*-1\r\n"
        return array("127.0.0.1", str(self.master.port))

    def stop(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for client, thread in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            thread.join()
            client.close()
        self._clients = []


def array(*texts):
    """The bytes of a reply with an array of strings."""
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(text), text.encode()) for text in texts)


def commands(client):
    """Yields the words of each command that a client sends."""
    file = client.makefile("rb")
    while head := file.readline():
        yield [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
