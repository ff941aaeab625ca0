"""Pipelined requests after a pending one are decided when they arrive and answered in order."""

import contextlib
import json
import resource
import socket
import struct
import time

import pytest
from harness import BUILD, Server, Wire, encode, metric, until, until_pending

CONFIG = """
limits:
  third: { algorithm: token_bucket, rate: 10/3s, burst: 1 }
  hour: { algorithm: token_bucket, rate: 12/h, burst: 12 }
  pace: { algorithm: pacer, rate: 10/3s, slack: 0, max_wait: 10s }
  slow: { algorithm: pacer, rate: 1/h, slack: 0, max_wait: 9h }
  place: { algorithm: concurrency, max: 1, lease: 1h }
rules:
  - { name: both, match: { path: /both }, key: [ip], limits: [hour, third] }
"""
LONG = 3_000_000  # ms


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server("--threads", "2", config=CONFIG, directory=tmp_path_factory.mktemp("pipelines"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


@pytest.fixture(autouse=True)
def no_request_is_pending(server):
    yield
    until_pending(server, 0)


def acquire(limit, key, **fields):
    """The bytes of an acquire over HTTP."""
    body = json.dumps({"limit": limit, "key": key, **fields}).encode()
    return (b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body))


def answer(wire):
    """Reads an answer of HTTP: (status, body)."""
    status = int(wire.file.readline().split()[1])
    length = 0
    while (line := wire.file.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return status, wire.file.read(length)


def left(server, limit, key):
    return server.get(f"/v1/peek/{limit}?key={key}").json["remaining"]


def drain(server, key):
    assert server.post("/v1/acquire", {"limit": "hour", "key": key, "cost": 12}).json["allowed"]


PAIRS = 200


def give_back(server, keys):
    """Refunds a unit of each key once all requests are pending."""
    until_pending(server, len(keys))
    with Wire(server.resp) as wire:
        for key in keys:
            assert wire.command("WEIR.REFUND", "hour", key)


def test_two_hundred_requests_of_a_resp_connection_can_be_pending(server, key):
    keys = [f"{key}-{i}" for i in range(PAIRS)]
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode("WEIR.ACQUIRE", "hour", one, "COST", 12) for one in keys))
        assert all(wire.reply()[0] == 1 for _ in keys)
        wire.send(b"".join(encode("WEIR.ACQUIRE", "hour", one, "WAIT", LONG) for one in keys))
        give_back(server, keys)
        assert all(wire.reply()[0] == 1 for _ in keys)


def test_two_hundred_requests_of_an_http_connection_can_be_pending(server, key):
    keys = [f"{key}-{i}" for i in range(PAIRS)]
    with Wire(server.http) as wire:
        wire.send(b"".join(acquire("hour", one, cost=12) for one in keys))
        assert all(answer(wire)[0] == 200 for _ in keys)
        wire.send(b"".join(acquire("hour", one, wait_ms=LONG) for one in keys))
        give_back(server, keys)
        for _ in keys:
            status, body = answer(wire)
            assert status == 200 and 0 < json.loads(body)["wait_ms"] < LONG


def test_answers_after_a_pending_one_are_sent_after_it_and_in_order(server, key):
    drain(server, key)
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG) + encode("PING")
                  + encode("WEIR.PEEK", "hour", key) + encode("WEIR.ACQUIRE", "nothing", key)
                  + encode("ECHO", "last"))
        until_pending(server, 1)
        assert server.post("/v1/refund", {"limit": "hour", "key": key}).json["allowed"]
        assert wire.reply()[0] == 1
        assert wire.reply() == b"+PONG"
        assert wire.reply()[:3] == [0, 12, 0]  # the state when the request arrived
        assert b"nothing" in wire.reply()
        assert wire.reply() == b"last"


def test_a_refund_or_report_after_a_pending_request_takes_effect_at_once(server, key):
    acts = [
        ("WEIR.REFUND", "hour", key),
        ("WEIR.RESET", "hour", key),
    ]
    for act in acts:
        drain(server, key)
        with Wire(server.resp) as wire:
            wire.send(encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG) + encode(*act))
            assert [wire.reply()[0], wire.reply()[0]] == [1, 1]
            wire.command("WEIR.RESET", "hour", key)
    with Wire(server.resp) as wire:
        permit = wire.command("WEIR.ACQUIRE", "place", key)[6]
        wire.send(encode("WEIR.ACQUIRE", "place", key, "WAIT", LONG)
                  + encode("WEIR.REPORT", permit, "success"))
        assert wire.reply()[0] == 1
        assert wire.reply() == b"+OK"


def test_a_pending_request_is_not_overtaken_by_later_ones(server, key):
    drain(server, key)
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "hour", key, "COST", 3, "WAIT", LONG)
                  + encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG)
                  + encode("WEIR.ACQUIRE", "hour", key))
        until_pending(server, 2)
        server.post("/v1/refund", {"limit": "hour", "key": key, "cost": 2})
        assert left(server, "hour", key) == 2  # the first needs three
        server.post("/v1/refund", {"limit": "hour", "key": key})
        assert wire.reply()[0] == 1
        until_pending(server, 1)
        server.post("/v1/refund", {"limit": "hour", "key": key})
        assert wire.reply()[0] == 1
        assert wire.reply()[0] == 0


def test_the_second_request_may_be_granted_first_and_is_answered_second(server, key):
    other = key + "-other"
    for one in (key, other):
        drain(server, one)
    with Wire(server.http) as wire:
        wire.send(acquire("hour", key, wait_ms=LONG) + acquire("hour", other, wait_ms=LONG)
                  + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until_pending(server, 2)
        server.post("/v1/refund", {"limit": "hour", "key": other, "cost": 2})
        until_pending(server, 1)
        assert left(server, "hour", other) == 1
        server.post("/v1/refund", {"limit": "hour", "key": key})
        waited = [json.loads(answer(wire)[1])["wait_ms"] for _ in range(2)]
        assert waited[0] >= waited[1]
        assert answer(wire) == (200, b"ok\n")


@pytest.mark.parametrize("kind", ["wait", "start", "kept"])
def test_a_disconnected_client_releases_all_units_without_an_answer(server, key, kind):
    """This includes decided requests whose answers wait for earlier ones."""
    other = key + "-other"
    cancelled = metric(server, "weir_waits_cancelled_total")
    server.post("/v1/acquire", {"limit": "slow", "key": key})
    if kind == "wait":
        drain(server, key)
    with Wire(server.resp) as wire:
        if kind == "wait":
            wire.send(encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG))
        else:
            wire.send(encode("WEIR.ACQUIRE", "slow", key))
        if kind == "start":
            wire.send(encode("WEIR.ACQUIRE", "slow", key) * 2)
        wire.send(encode("WEIR.ACQUIRE", "hour", other, "COST", 5)
                  + encode("WEIR.ACQUIRE", "place", key) + encode("WEIR.ACQUIRE", "nothing", key))
        until(lambda: left(server, "place", key) == 0, "all to be decided")
        assert left(server, "hour", other) == 7
    until_pending(server, 0)
    until(lambda: left(server, "place", key) == 1, "the place to come back")
    assert left(server, "hour", other) == 12
    assert 0 <= 3_600_000 - server.get(f"/v1/peek/slow?key={key}").json["wait_ms"] < 60_000
    assert metric(server, "weir_waits_cancelled_total") - cancelled == (3 if kind == "start" else 1)
    server.post("/v1/reset", {"limit": "hour", "key": key})
    assert left(server, "hour", key) == 12


def test_units_of_answered_requests_stay_consumed_after_a_disconnect(server, key):
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "hour", key, "COST", 5) + encode("WEIR.ACQUIRE", "slow", key)
                  + encode("WEIR.ACQUIRE", "slow", key) + encode("WEIR.ACQUIRE", "hour", key))
        assert [wire.reply()[0], wire.reply()[0]] == [1, 1]
        until_pending(server, 1)
        assert left(server, "hour", key) == 6
    until_pending(server, 0)
    until(lambda: left(server, "hour", key) == 7, "the second to come back")


def test_quit_answers_all_earlier_requests_first(server, key):
    with Wire(server.resp) as wire:
        begun = time.monotonic()
        wire.send(encode("WEIR.ACQUIRE", "pace", key) * 3 + encode("PING") + encode("QUIT"))
        assert [wire.reply()[0] for _ in range(3)] == [1] * 3
        assert time.monotonic() - begun >= 0.6
        assert wire.rest() == b"+PONG\r\n+OK\r\n"


def test_an_answer_has_the_protocol_version_of_its_request(server, key):
    """HELLO after a pending request changes only later replies, and transactions are decided at once."""
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "pace", key) * 2 + encode("HELLO", "2") + encode("MULTI")
                  + encode("WEIR.ACQUIRE", "pace", key) + encode("PING") + encode("EXEC"))
        assert [wire.reply()[0] for _ in range(2)] == [1, 1]
        assert b"proto" in wire.reply()
        assert [wire.reply() for _ in range(3)] == [b"+OK", b"+QUEUED", b"+QUEUED"]
        denied, pong = wire.reply()
        assert (denied[0], denied[5], pong) == (0, b"wait_too_long", b"+PONG")


def test_an_interim_answer_waits_for_those_before_it(server, key):
    body = b'{"limit":"hour","key":"%s"}' % key.encode()
    with Wire(server.http) as wire:
        assert answer_of(wire, acquire("pace", key))[0] == 200
        wire.send(acquire("pace", key) + b"POST /v1/peek HTTP/1.1\r\nHost: localhost\r\n"
                  b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert answer(wire)[0] == 200
        assert wire.file.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert wire.file.readline() == b"\r\n"
        wire.send(body)
        assert json.loads(answer(wire)[1])["remaining"] == 12


def answer_of(wire, request):
    wire.send(request)
    return answer(wire)


def resident(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_a_client_with_a_hundred_thousand_waits_is_read_in_parts(serve, key):
    server = serve("--threads", "1", config=CONFIG)
    many = 100_000
    before = resident(server)
    waits = encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG) * 1000
    drain(server, key)
    with Wire(server.resp) as wire, contextlib.ExitStack() as stack:
        wire.send(encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG))
        until_pending(server, 1)
        sent = 0
        wire.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while sent < many // 1000:
                wire.socket.send(waits)
                sent += 1
        assert sent < many // 1000  # the server stopped reading
        wire.socket.setblocking(True)
        until(lambda: metric(server, "weir_answers_pending") > 100, "its share to be decided")
        others = [stack.enter_context(Wire(server.resp)) for _ in range(20)]
        for other in others:
            assert other.command("PING") == b"+PONG"
        if BUILD.name not in ("asan", "tsan"):
            assert resident(server) - before < 4 << 20
        for _ in range(100):
            server.post("/v1/reset", {"limit": "hour", "key": key})
            assert [wire.reply()[0] for _ in range(12)] == [1] * 12
        # Without this the end of the stream would wait for data that the server does not read.
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until_pending(server, 0)


@pytest.mark.skipif(BUILD.name != "build", reason="a sanitizer takes memory of its own")
def test_pending_requests_of_many_clients_share_bounded_memory_and_each_client_may_wait(serve, at, key):
    server = serve("--threads", "1", config=at + CONFIG)
    drain(server, key)
    before = resident(server)
    waits = encode("WEIR.ACQUIRE", "hour", key, "WAIT", LONG) * 600
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(Wire(server.resp)).send(waits)
        until(lambda: metric(server, "weir_answers_pending") > 10_000, "the share to be used up")
        late = [stack.enter_context(Wire(server.resp)) for _ in range(10)]
        for wire in late:
            wire.send(encode("PING") + encode("WEIR.ACQUIRE", "slow", key + "late")
                      + encode("WEIR.ACQUIRE", "slow", key + "late"))
            assert wire.reply() == b"+PONG"
        assert late[0].reply()[0] == 1
        assert resident(server) - before < 60 << 20
    until_pending(server, 0)
