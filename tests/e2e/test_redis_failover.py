"""A master with a replica behind HAProxy, which connects to the master; Sentinel promotes the replica."""

import contextlib
import csv
import itertools
import re
import socket
import subprocess

import pytest
from harness import ROOT, Wire, programs_of_others, until
from redis_sentinel import role
from redis_servers import PROGRAMS, free_port

pytestmark = programs_of_others

CONFIG = """
store: redis://127.0.0.1:{port}
store_timeout: 30s
denied_cache: 0s
limits:
  one: {{ algorithm: token_bucket, rate: 10/d, burst: 10, on_store_failure: closed }}
"""
SENTINEL = """
port {port}
sentinel monitor weir 127.0.0.1 {master} 1
sentinel down-after-milliseconds weir 5000
sentinel failover-timeout weir 2000
"""


@contextlib.contextmanager
def running(directory, *command):
    with open(directory / "log", "wb") as log, subprocess.Popen(
            command, cwd=directory, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def documented():
    """The configuration of the document. HAProxy keeps open connections, so Weir itself must notice a demoted master."""
    text = (ROOT / "docs/distributed.md").read_text()
    return re.search(r"```haproxy\n(.*?)```", text, re.S)[1]


class Proxy:
    """HAProxy, with a port that connects to the master."""

    def __init__(self, port, directory):
        self.port = port
        self._directory = directory

    def _states(self):
        """{server: state}; before its first check HAProxy takes all servers for masters."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(self._directory / "stats"))
            wire.sendall(b"show stat\n")
            lines = wire.makefile().read().removeprefix("# ").splitlines()
            return {line["svname"]: line["status"] for line in csv.DictReader(lines)}
        return {}

    def wait_for(self, master, other):
        """Waits until new connections reach the master."""
        def is_known():
            states = self._states()
            return states.get(master) == "UP" and states.get(other) == "DOWN"

        until(is_known, "HAProxy to know the master")


@pytest.fixture
def pair(start_redis):
    """(a master, its replica in sync)"""
    master, replica = start_redis("--repl-diskless-sync-delay", 0), start_redis()
    replica.client.replicaof("127.0.0.1", master.port)
    until(lambda: replica.client.info("replication")["master_link_status"] == "up", "the replica")
    return master, replica


@pytest.fixture
def proxy(tmp_path, pair):
    directory = tmp_path / "proxy"
    directory.mkdir()
    port = free_port()
    site = documented()
    for shown, here in (("127.0.0.1:6390", f"127.0.0.1:{port}"),
                        ("10.0.0.1:6379", f"127.0.0.1:{pair[0].port}"),
                        ("10.0.0.2:6379", f"127.0.0.1:{pair[1].port}")):
        assert shown in site
        site = site.replace(shown, here)
    (directory / "haproxy.cfg").write_text(f"global\n  stats socket {directory}/stats\n{site}")
    with running(directory, "/usr/sbin/haproxy", "-db", "-f", "haproxy.cfg"):
        proxy = Proxy(port, directory)
        proxy.wait_for("one", "two")
        yield proxy


_numbers = itertools.count()


def acquire(server, key):
    with Wire(server.resp) as wire:
        reply = wire.command("WEIR.ACQUIRE", "one", key)
    return reply[0], reply[2], reply[5].decode()


def until_master_is_reached(server):
    """Acquires from keys of its own, since a peek would succeed at a replica."""
    until(lambda: acquire(server, f"other-{next(_numbers)}")[0], "the master to be asked")


@pytest.fixture
def server(serve, proxy):
    """A server of one thread, whose one connection stays open when HAProxy changes the master."""
    server = serve("--threads", "1", config=CONFIG.format(port=proxy.port))
    until_master_is_reached(server)
    return server


def test_a_master_that_becomes_a_replica_is_disconnected(server, pair, proxy, key):
    master, replica = pair
    assert [acquire(server, key)[1] for _ in range(3)] == [9, 8, 7]
    master.pass_on()
    replica.client.replicaof("NO", "ONE")
    master.client.replicaof("127.0.0.1", replica.port)
    proxy.wait_for("two", "one")
    until_master_is_reached(server)
    assert [acquire(server, key)[1] for _ in range(8)] == [6, 5, 4, 3, 2, 1, 0, 0]


def test_sentinel_and_haproxy_connect_weir_to_the_new_master(server, pair, proxy, tmp_path, key):
    master, replica = pair
    directory = tmp_path / "sentinel"
    directory.mkdir()
    port = free_port()
    (directory / "sentinel.conf").write_text(SENTINEL.format(port=port, master=master.port))
    with running(directory, PROGRAMS["redis"], "sentinel.conf", "--sentinel"):
        until(lambda: listens(port), "Sentinel")
        assert [acquire(server, key)[1] for _ in range(3)] == [9, 8, 7]
        master.pass_on()
        # Sentinel learns of replicas from the master.
        until(lambda: f"127.0.0.1 {replica.port}" in (directory / "sentinel.conf").read_text(),
              "Sentinel to know the replica")
        master.stop()
        until(lambda: role(replica) == "master", "the promotion")
        proxy.wait_for("two", "one")
        until_master_is_reached(server)
        assert [acquire(server, key)[1] for _ in range(8)] == [6, 5, 4, 3, 2, 1, 0, 0]
