"""A client that resets a stream of HTTP/2 ends its request, which then has no turn, permit or entry in a queue."""

import base64
import contextlib
import json
import re
import select
import socket

import pytest
from harness import PATIENCE, Server, encode, metric, until, until_pending
from redis_servers import RedisServer
from test_http2 import Http2
from test_users import user

TURN_MS = 1_200_000
WAIT_MS = 3 * TURN_MS  # the longest accepted wait

# Each limit grants one unit, and nothing refills while a test runs.
CONFIG = """
store: {store}
store_timeout: 60s
denied_cache: 0s
limits:
  token_bucket: {{ algorithm: token_bucket, rate: 1/30m }}
  leaky_bucket: {{ algorithm: leaky_bucket, rate: 1/30m, capacity: 1 }}
  fixed_window: {{ algorithm: fixed_window, rate: 1/30m, align: first_request }}
  resetting_bucket: {{ algorithm: resetting_bucket, rate: 1/30m }}
  sliding_window: {{ algorithm: sliding_window, rate: 1/30m }}
  sliding_counter: {{ algorithm: sliding_counter, rate: 1/30m }}
  sliding_log: {{ algorithm: sliding_log, rate: 1/30m }}
  base: {{ algorithm: base, base: 1, rate: 1/30m }}
  concurrency: {{ algorithm: concurrency, max: 1, lease: 1h }}
  breaker: {{ algorithm: breaker, max_concurrent: 1, permit_timeout: 1h }}
  adaptive: {{ algorithm: adaptive, initial: 1, min: 1, max: 1 }}
  pacer: {{ algorithm: pacer, rate: 1/20m, slack: 0, max_wait: 1h }}
  leaky_queue: {{ algorithm: leaky_queue, rate: 1/20m, capacity: 5 }}
  warm_up: {{ algorithm: warm_up, rate: 1/20m, warm_up: 1h, cold: 1, max_wait: 1h }}
  t: {{ algorithm: token_bucket, rate: 1/30m }}
rules:
  - {{ name: both, match: {{ path: /both }}, key: [ip], limits: [token_bucket, concurrency] }}
"""
NAMES = re.findall(r"^  (\w\w+): {", CONFIG, re.MULTILINE)
PACED = NAMES[-3:]
LINES = NAMES[:-3]


@pytest.fixture(scope="module", params=["memory", "file", "redis"])
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("resets")
    with contextlib.ExitStack() as ends:
        store = "memory" if request.param == "memory" else f"file:{directory}/state"
        if request.param == "redis":
            redis = RedisServer(directory / "redis")
            ends.callback(redis.stop)
            store = redis.url
        server = Server("--capacity", "10000", directory=directory, config=CONFIG.format(store=store))
        yield server
        assert server.process.poll() is None, f"died: {server.log}"
        assert server.stop() == 0


@pytest.fixture(autouse=True)
def no_request_is_pending(request):
    yield
    if "server" in request.fixturenames:
        until_pending(request.getfixturevalue("server"), 0)


def acquire(http2, limit, key, wait_ms=WAIT_MS, **more):
    body = json.dumps({"limit": limit, "key": key, "wait_ms": wait_ms, **more}).encode()
    return http2.ask("/v1/acquire", "POST", body=body)


def reset(http2, stream):
    http2.h2.reset_stream(stream)
    http2.flush()


def take(server, limit, key):
    return server.post("/v1/acquire", {"limit": limit, "key": key, "wait_ms": 0, "permit": True}).json


def use_up(server, limit, key):
    """Acquires until a request is denied; returns the permits."""
    permits = []
    while (answer := take(server, limit, key))["allowed"]:
        permits.append(answer["permit"])
    return permits


def give_back(server, limit, key, permits):
    for permit in permits:
        assert server.post("/v1/refund", {"limit": limit, "key": key, "permit": permit}).status == 200


@pytest.mark.parametrize("limit", NAMES)
def test_a_request_that_is_reset_at_once_consumes_nothing(server, key, limit):
    with Http2(server) as http2:
        http2.h2.reset_stream(acquire(http2, limit, key))
        assert http2.get("/healthz")[0] == 200  # all earlier frames were read, and their requests decided
    answer = take(server, limit, key)
    assert (answer["allowed"], answer.get("wait_ms", 0)) == (True, 0)


@pytest.mark.parametrize("limit", LINES)
def test_a_reset_removes_the_request_from_the_queue(server, key, limit):
    permits = use_up(server, limit, key)
    assert permits
    with Http2(server) as http2:
        streams = [acquire(http2, limit, key) for _ in range(3)]
        http2.flush()
        until_pending(server, 3)
        before = metric(server, "weir_waits_cancelled_total")
        for left, stream in enumerate(streams[::-1], 1):
            reset(http2, stream)
            until_pending(server, 3 - left)
        assert metric(server, "weir_waits_cancelled_total") == before + 3
        give_back(server, limit, key, permits)
        until(lambda: take(server, limit, key)["allowed"], "the unit to be free")


@pytest.mark.parametrize("limit", PACED)
def test_a_reset_releases_the_turn(server, key, limit):
    def wait_ms():
        return server.get(f"/v1/peek/{limit}?key={key}").json["wait_ms"]

    assert take(server, limit, key)["allowed"]
    before = wait_ms()
    assert 0 < before <= TURN_MS
    with Http2(server) as http2:
        streams = [acquire(http2, limit, key) for _ in range(2)]
        http2.flush()
        until_pending(server, 2)
        until(lambda: wait_ms() > 2 * TURN_MS, "both turns to be taken")
        reset(http2, streams[1])
        until_pending(server, 1)
        reset(http2, streams[0])
        until_pending(server, 0)
        until(lambda: wait_ms() <= before, "both turns to come back")


def test_a_reset_while_redis_decides_consumes_nothing(serve, start_redis, key):
    redis = start_redis()
    server = serve(config=CONFIG.format(store=redis.url))
    limits = [name for name in NAMES if name not in ("breaker", "adaptive")]  # which count in memory
    for limit in limits:
        server.get(f"/v1/peek/{limit}?key={key}")  # so that the connection is open and scripts are loaded
    with Http2(server) as http2:
        with redis.hung():
            streams = [acquire(http2, limit, key) for limit in limits]
            streams.append(http2.ask("/v1/acquire", "POST", body=b'{"attributes":{"path":"/both","ip":"::1"}}'))
            http2.flush()
            until_pending(server, len(streams))
            for stream in streams:
                http2.h2.reset_stream(stream)
            http2.flush()
            until_pending(server, 0)
        for name in [*limits, "both"]:
            def is_free(name=name):
                if name == "both":
                    answer = server.post("/v1/peek", {"attributes": {"path": "/both", "ip": "::1"}}).json
                else:
                    answer = server.get(f"/v1/peek/{name}?key={key}").json
                return (answer["allowed"], answer["remaining"] >= 1, answer.get("wait_ms", 0)) == (True, True, 0)
            until(is_free, f"{name} to be as new")


def test_a_reset_of_a_pending_batch_releases_all_its_units(server, key):
    items = [{"limit": "concurrency", "key": key}, {"limit": "pacer", "key": key}]
    assert take(server, "pacer", key)["allowed"]
    with Http2(server) as http2:
        stream = http2.ask("/v1/batch", "POST", body=json.dumps(items).encode())
        http2.flush()
        until(lambda: not server.get(f"/v1/peek/concurrency?key={key}").json["allowed"], "the place to be taken")
        reset(http2, stream)
        until_pending(server, 0)
    until(lambda: take(server, "concurrency", key)["allowed"], "the place to be free")


def test_a_reset_does_not_affect_other_streams(server, key):
    permits = use_up(server, "concurrency", key)
    with Http2(server) as http2:
        streams = [acquire(http2, "concurrency", key) for _ in range(5)]
        http2.flush()
        until_pending(server, 5)
        for stream in streams[:2] + streams[3:]:
            reset(http2, stream)
        until_pending(server, 1)
        give_back(server, "concurrency", key, permits)
        assert http2.wait(streams[2])[0][0] == 200


def test_reset_streams_take_no_memory(server, key):
    """Requests that time out at the client must not fill the memory of its connection."""
    permits = use_up(server, "concurrency", key)
    with Http2(server) as http2:
        for _ in range(8):
            streams = [acquire(http2, "concurrency", key) for _ in range(20)]
            http2.flush()
            until_pending(server, 20)
            for stream in streams:
                http2.h2.reset_stream(stream)
            http2.flush()
            until_pending(server, 0)
        assert http2.get("/healthz")[0] == 200
    give_back(server, "concurrency", key, permits)


def test_a_reset_is_read_while_the_connection_accepts_no_requests(server, key):
    """Pending batches fill the memory of the connection, so it accepts no further requests."""
    others = [{"limit": "t", "key": str(n)} for n in range(990)]
    with Http2(server) as http2:
        streams = []
        def is_taken(stream):
            http2.socket.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                return http2.wait(stream)
            return False

        ping = http2.ask("/healthz")
        while is_taken(ping):
            paced = [{"limit": "pacer", "key": f"{key}-{len(streams)}"}] * 2
            body = json.dumps(paced + others, separators=(",", ":")).encode()
            streams.append(http2.ask("/v1/batch", "POST", end=False))
            for part in (body[:16000], body[16000:]):
                while http2.h2.local_flow_control_window(streams[-1]) < len(part):
                    http2.flush()
                    http2.read()
                http2.h2.send_data(streams[-1], part, end_stream=len(part) < 16000)
            ping = http2.ask("/healthz")
        assert 0 < len(streams) < 5
        http2.socket.settimeout(PATIENCE)
        for stream in streams:
            reset(http2, stream)
        assert http2.wait(ping)[0][0] == 200


def test_a_flood_of_resets_is_bounded(server, key):
    """Each request takes a turn and is reset. The connection ends, and all turns are released."""
    assert take(server, "leaky_queue", key)["allowed"]
    with Http2(server) as http2:
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 2000:
                http2.h2.reset_stream(http2.ask(f"/v1/acquire/leaky_queue?key={key}"))
                http2.flush()
                sent += 1
        while http2.read():
            pass
        assert http2.goaway is not None
    until_pending(server, 0)
    assert server.get(f"/v1/peek/leaky_queue?key={key}").json["wait_ms"] <= TURN_MS


def test_the_end_of_a_connection_releases_all_its_units(server, key):
    """An error in the client's framing ends the connection without further answers."""
    permits = use_up(server, "concurrency", key)
    with Http2(server) as http2:
        for _ in range(3):
            acquire(http2, "concurrency", key)
        http2.flush()
        until_pending(server, 3)
        http2.socket.sendall(b"\0\0\0\0\0\0\0\0\0")  # DATA without a stream
        until_pending(server, 0)
    give_back(server, "concurrency", key, permits)


def test_a_reset_cancels_a_pending_login(serve, key):
    """Many slow logins are queued before it; other streams of its connection continue at once."""
    server = serve("--threads", "1", config="limits: { login: { algorithm: token_bucket, rate: 1/30m } }\nusers:\n" +
                   user("slow", password="x", may=["ask"], parameters="jDT"))
    proof = [("authorization", "Basic " + base64.b64encode(b"slow:x").decode())]
    with contextlib.ExitStack() as stack:
        others = []
        for i in range(40):
            others.append(stack.enter_context(socket.create_connection(
                ("127.0.0.1", server.resp), PATIENCE, (f"127.0.1.{i}", 0))))
            others[-1].sendall(encode("AUTH", "slow", "guess"))
        with Http2(server) as http2:
            stream = http2.ask(f"/v1/acquire/login?key={key}", headers=proof)
            http2.flush()
            reset(http2, stream)
            assert http2.get("/healthz")[0] == 200
        assert not select.select(others[-1:], [], [], 0)[0]
