"""The bound on connections, their idle timeout, and the connections reserved for operators."""

import contextlib
import pathlib
import re
import subprocess
import sys

import pytest
from harness import PATIENCE, WEIR, Wire, encode, until

CONFIG = """
connections: 20
limits:
  one: { algorithm: token_bucket, rate: 1/h }
  shed: { algorithm: random, deny: 0 }
"""
ALONE = ["unshare", "--map-root-user", "--net"]
CROWDED = b"-ERR max number of clients reached"


def metric(page, name):
    return int(re.search(rf"^{name} (\d+)$", page, re.M)[1])


@contextlib.contextmanager
def idle_connections(server, n):
    """Opens `n` idle connections, all of which the server has accepted."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.resp)) for _ in range(n)]
        for wire in wires:
            assert wire.command("PING") == b"+PONG"
        yield wires


@pytest.mark.parametrize("threads", ["1", "2"])
def test_at_the_bound_operators_are_served_and_others_refused_with_a_reason(serve, threads):
    server = serve("--threads", threads, config=CONFIG)
    with idle_connections(server, 20) as wires:
        for path in ("/healthz", "/readyz", "/metrics", "/v1/limits", "/v1/top"):
            answer = server.get(path)
            assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert server.post("/v1/shed", {"limit": "shed", "deny": 0.5}).status == 200
        answer = server.get("/v1/acquire/one?key=k")
        assert (answer.status, answer.headers["Connection"]) == (503, "close")
        assert answer.json["error"] == {
            "code": "too_many_connections", "message": "max number of clients reached"}
        assert server.get("/nothing").status == 404
        with Wire(server.resp) as wire:
            wire.send(encode("WEIR.ACQUIRE", "one", "k") * 2)
            assert wire.rest() == CROWDED + b"\r\n"
        with Wire(server.resp) as wire:
            wire.send(encode("MULTI") + encode("WEIR.ACQUIRE", "one", "k") + encode("EXEC"))
            assert wire.rest() == b"+OK\r\n+QUEUED\r\n" + CROWDED + b"\r\n"
        with Wire(server.resp) as wire:  # a client sends HELLO before its first command
            assert wire.command("HELLO", "2")[:2] == [b"server", b"weir"]
            assert wire.command("WEIR.SHED", "shed", "0.25") == b"+OK"
            assert wire.rest() == b""
        page = server.get("/metrics").text
        assert metric(page, "weir_connections_max") == 20
        assert metric(page, "weir_connections") >= 21
        assert metric(page, "weir_connections_reserved") >= 1
        assert metric(page, "weir_connections_rejected_total") == 3
        assert wires[0].command("WEIR.ACQUIRE", "one", "k")[0] == 1
    assert "connections_full connections=20" in server.line_with("connections_")
    server.line_with("connections_free")
    until(lambda: server.get("/v1/acquire/one?key=other").status == 200, "room")


def test_an_operator_is_served_beside_many_silent_connections_over_the_bound(serve):
    server = serve("--threads", "1", config=CONFIG)
    with idle_connections(server, 20), contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(Wire(server.http))
        for _ in range(5):
            stack.enter_context(Wire(server.http))
            assert server.get("/healthz").text == "ok\n"
        assert metric(server.get("/metrics").text, "weir_connections_rejected_total") > 100


def test_a_reload_changes_the_bound_and_the_idle_timeout(serve):
    server = serve("--threads", "1", config=CONFIG)
    with idle_connections(server, 20) as wires:
        # A connection whose request is pending is not idle.
        assert wires[0].command("WEIR.ACQUIRE", "one", "k")[0] == 1
        wires[1].send(encode("WEIR.ACQUIRE", "one", "k", "WAIT", 3_600_000))
        until(lambda: metric(server.get("/metrics").text, "weir_answers_pending") == 1, "one to wait")
        server.reload(CONFIG.replace("20", "30"))
        server.line_with("reloaded")
        with idle_connections(server, 5) as more:
            assert more[0].command("WEIR.PEEK", "one", "k")[0] == 0
        server.reload(CONFIG + "idle: { resp: 1s }\n")
        server.line_with("reloaded")
        for wire in [wires[0], *wires[2:]]:
            assert wire.rest() == b""
        page = server.get("/metrics").text
        assert metric(page, "weir_answers_pending") == 1
        assert metric(page, "weir_connections") <= 3


def test_the_bound_is_lowered_to_the_systems_limit_of_descriptors(serve, tmp_path):
    script = tmp_path / "weir-of-few-files"
    script.write_text(f'#!/bin/sh\nulimit -n 200\nexec "{WEIR}" "$@"\n')
    script.chmod(0o755)
    server = serve("--threads", "1", config=CONFIG.replace("20", "5000"), program=script)
    assert any(re.search(r"warning connections_lowered connections=128 wanted=5000 descriptors=200$",
                         line) for line in server.log)
    with idle_connections(server, 128), contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Wire(server.http))
        page = server.get("/metrics").text
        assert metric(page, "weir_connections_max") == 128
        assert metric(page, "weir_connections") <= 128 + 32
    while not server.lines.empty():
        assert "trouble" not in server.line()


def timers(port):
    """(kind, seconds) of the kernel's timer of each connection to `port`."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, _, timer, *_ = line.split()
        kind, left = timer.split(":")
        if int(local.split(":")[1], 16) == port and state == "01":
            yield int(kind), int(left, 16) / 100


def test_connections_of_vanished_peers_are_closed(server):
    with Wire(server.resp) as wire:
        assert wire.command("PING") == b"+PONG"
        until(lambda: any(kind == 2 and 200 < left < 301 for kind, left in timers(server.resp)),
              "keepalive")
    # If the system allows a network namespace, a network that goes down shows that keepalive works.
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode == 0:
        script = pathlib.Path(__file__).with_name("vanishing_peers.py")
        done = subprocess.run([*ALONE, sys.executable, script], capture_output=True, text=True,
                              timeout=3 * PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
