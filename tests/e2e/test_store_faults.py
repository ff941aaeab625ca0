"""A Redis that hangs, dies, loses data or sends nonsense: no more than the limit is granted, and servers recover."""

import collections
import contextlib
import select
import threading
import time

import pytest
from tampering_proxy import TamperingProxy, half, half_and_gone, instead, late, silent
from harness import PATIENCE, Wire, encode, metric, one_thread, until
from redis_servers import OLDEST, free_port

QUOTA = 1000
NODES = 4
BATCH = 10


# By default the timeout is longer than a busy machine delays Redis.
def configuration(url, timeout="30s"):
    return f"""
store: {url}
store_timeout: {timeout}
nodes: {NODES}
limits:
  closed: {{ algorithm: token_bucket, rate: 1/d, burst: {QUOTA}, on_store_failure: closed }}
  local: {{ algorithm: token_bucket, rate: 1/d, burst: {QUOTA}, on_store_failure: local }}
  open: {{ algorithm: token_bucket, rate: 1/d, burst: {QUOTA}, on_store_failure: open }}
  window: {{ algorithm: fixed_window, rate: {QUOTA}/year, on_store_failure: closed }}
  log: {{ algorithm: sliding_log, rate: {QUOTA}/d, on_store_failure: closed }}
  places: {{ algorithm: concurrency, max: 9, lease: 1h }}
  memory: {{ algorithm: token_bucket, rate: 1/d, burst: {QUOTA}, store: memory }}
rules:
  - {{ match: {{ path: /open }}, key: [user], limits: [closed], on_store_failure: open }}
"""


class Load:
    """Acquires from one key until it is stopped, and counts the answers by reason."""

    def __init__(self, server, limit, key):
        self.server, self.command = server, ("WEIR.ACQUIRE", limit, key)
        self.reasons = collections.Counter()
        self.granted = 0
        self.ends = False
        self.thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    def _ask(self):
        with Wire(self.server.resp) as wire:
            while not self.ends:
                wire.send(encode(*self.command) * BATCH)
                for _ in range(BATCH):
                    reply = wire.reply()
                    self.granted += reply[0]
                    self.reasons[reply[5].decode()] += 1
                time.sleep(0.001)  # leaves CPU time to the servers

    def failed(self):
        return self.reasons["store_failure"]

    def until_exhausted(self):
        """Waits for a denial by Redis, which shows that it is available again."""
        self.reasons["over_limit"] = 0
        until(lambda: self.reasons["over_limit"], "Redis to deny")


def ask(server, limit, key, *more):
    with Wire(server.resp) as wire:
        return wire.command("WEIR.ACQUIRE", limit, key, *more)


def hang(redis, loads):
    with redis.hung():
        until(lambda: all(load.failed() for load in loads), "requests to be given up")


def fill(redis, loads):
    redis.client.config_set("maxmemory", 1)
    until(lambda: all(load.failed() for load in loads), "requests to find no memory")
    redis.client.config_set("maxmemory", 0)


# A fault of Redis, and how often the whole quota may be granted in all.
FAULTS = {
    "killed and back with its data": (lambda redis, _: redis.restart(), 1),
    "hangs": (hang, 1),
    "connections cut": (lambda redis, _: redis.cut_clients(), 1),
    "scripts flushed": (lambda redis, _: redis.client.script_flush(), 1),
    "memory full": (fill, 1),
    "all flushed": (lambda redis, _: redis.client.flushall(), 2),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_under_load_grants_no_more_than_the_limit(start_redis, serve, key, fault):
    strike, times = FAULTS[fault]
    redis = start_redis(durable=True)
    server = serve(config=configuration(redis.url, timeout="500ms"))
    with contextlib.ExitStack() as stack:
        loads = [stack.enter_context(Load(server, limit, key)) for limit in ("closed", "window", "log")]
        memory = stack.enter_context(Load(server, "memory", key))
        until(lambda: all(load.granted > 100 for load in loads), "requests to be granted")
        strike(redis, loads)
        for load in loads:
            load.until_exhausted()
    for load in loads:
        assert load.granted <= times * QUOTA
        # Each call without an answer may have consumed a unit, and no other unit is lost.
        assert load.granted >= QUOTA - load.failed()
    assert memory.granted <= QUOTA
    assert set(memory.reasons) <= {"ok", "over_limit"}


def test_flushed_scripts_cause_no_failure(start_redis, serve, key):
    redis = start_redis()
    server = serve(config=configuration(redis.url))
    with Load(server, "closed", key) as load:
        for granted in (100, 200, 300):
            until(lambda n=granted: load.granted > n, "requests to be granted")
            redis.client.script_flush()
        load.until_exhausted()
    assert (load.granted, load.failed()) == (QUOTA, 0)


def test_local_grants_a_share_of_the_quota_without_redis(start_redis, serve, key):
    redis = start_redis(durable=True)
    server = serve(config=configuration(redis.url))
    assert ask(server, "local", key, "COST", QUOTA // 2)[:3] == [1, QUOTA, QUOTA // 2]
    redis.stop()
    until(lambda: ask(server, "closed", "other")[5] == b"store_failure", "Redis to be away")
    with Load(server, "local", key) as load:
        until(lambda: load.reasons["over_limit"], "the share to be used up")
    assert load.granted == QUOTA // NODES
    redis.restart()
    until(lambda: ask(server, "closed", "other")[0] == 1, "Redis to be back")
    with Load(server, "local", key) as load:
        load.until_exhausted()
    assert load.granted == QUOTA // 2


def test_open_allows_and_closed_denies_without_redis(start_redis, serve, key):
    redis = start_redis()
    server = serve(config=configuration(redis.url))
    assert [ask(server, limit, key)[:2] for limit in ("open", "closed")] == [[1, QUOTA]] * 2
    redis.stop()
    until(lambda: ask(server, "closed", key)[5] == b"store_failure", "Redis to be away")
    for _ in range(3):
        assert ask(server, "open", key, "COST", QUOTA)[0] == 1
        allowed, quota, _, retry_ms, _, reason, _ = ask(server, "closed", key)
        assert (allowed, quota, retry_ms, reason) == (0, QUOTA, 1000, b"store_failure")
    # Over HTTP the status says that the fault is not the client's.
    denied = server.get(f"/v1/acquire/closed?key={key}")
    assert (denied.status, denied.json["reason"]) == (503, "store_failure")
    # A rule's policy overrides its limit's.
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.CHECK", "path", "/open", "user", key)[0] == 1


# Policy: (reason, whether the answer is degraded).
WITHOUT_REDIS = {"open": ("store_open", True), "local": ("store_local", True),
                 "closed": ("store_failure", True), "memory": ("ok", False)}


def answers_over_http(server, limit, key):
    """Yields (name of a call, answer) for each way to ask; a missing field may be null."""
    fields = {"limit": limit, "key": key}
    yield "acquire", server.post("/v1/acquire", fields).json
    yield "acquire by GET", server.get(f"/v1/acquire/{limit}?key={key}").json
    yield "peek", server.post("/v1/peek", fields).json
    for answer in server.post("/v1/batch", [fields, fields | {"op": "peek"}]).json:
        yield "batch", answer


def test_answers_say_that_a_policy_decided(start_redis, serve, key):
    redis = start_redis()
    server = serve(config=configuration(redis.url))

    def expect(expected):
        for limit, (reason, degraded) in expected.items():
            for way, answer in answers_over_http(server, limit, key):
                assert answer["reason"] == reason, (limit, way, answer)
                assert answer.get("degraded", False) is degraded, (limit, way, answer)
                assert answer["allowed"] is (reason != "store_failure"), (limit, way, answer)
            for command in ("WEIR.ACQUIRE", "WEIR.PEEK"):
                with Wire(server.resp) as wire:
                    reply = wire.command(command, limit, key)
                assert (len(reply), reply[5].decode()) == (7, reason), (limit, command, reply)

    expect(dict.fromkeys(WITHOUT_REDIS, ("ok", False)))
    redis.stop()
    until(lambda: ask(server, "closed", key)[5] == b"store_failure", "Redis to be away")
    expect(WITHOUT_REDIS)
    # A rule that overrides its limit's policy with `open`, and a local share that is used up.
    checked = server.post("/v1/acquire", {"attributes": {"path": "/open", "user": key}}).json
    assert (checked["allowed"], checked["reason"], checked["degraded"]) == (True, "store_open", True)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.CHECK", "path", "/open", "user", key)[5] == b"store_open"
    while (answer := server.get(f"/v1/acquire/local?key={key}&cost=50").json)["allowed"]:
        assert answer["reason"] == "store_local"
    assert (answer["reason"], answer["degraded"]) == ("over_limit", True)
    page = server.get("/metrics").text
    for limit, allowed, reason in (("open", "true", "store_open"), ("local", "true", "store_local"),
                                   ("closed", "false", "store_failure")):
        assert f'limit="{limit}",reason="{reason}",allowed="{allowed}"' in page
    assert 'limit="memory",reason="store_' not in page
    # Replies in formats of other programs are unchanged.
    with Wire(server.resp) as wire:
        assert [len(wire.command(name, key, 5, 10, 60)) for name in ("CL.THROTTLE", "THROTTLE")] == [5, 5]
    throttled = server.post("/throttle", {"key": key, "max_burst": 5, "count_per_period": 10, "period": 60})
    assert set(throttled.json) == {"allowed", "limit", "remaining", "reset_after", "retry_after"}


def test_nothing_is_refunded_without_redis(start_redis, serve, key):
    """The answer is an error of the store, not a denial."""
    redis = start_redis()
    server = serve(config=configuration(redis.url))
    permits = [server.get(f"/v1/acquire/{limit}?key={key}&permit=true").json["permit"]
               for limit in ("places", "window")]
    redis.stop()
    asked = [(path, {"permit": permit, **more}) for permit in permits
             for path, more in (("report", {"outcome": "success"}), ("refund", {}))]
    asked += [(path, {"limit": "window", "key": key}) for path in ("refund", "reset")]
    for path, body in asked:
        answer = server.post(f"/v1/{path}", body)
        assert (answer.status, answer.json["error"]["code"]) == (503, "store_failure"), path
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.REPORT", permits[0], "success").startswith(b"-ERR the store")


def test_without_redis_at_the_start_the_policy_decides(start_redis, serve, key):
    port = free_port()
    server = serve(config=configuration(f"redis://127.0.0.1:{port}"))
    assert ask(server, "closed", key)[5] == b"store_failure"
    assert ask(server, "open", key)[0] == 1
    assert ask(server, "local", key)[0] == 1
    assert ask(server, "memory", key)[0] == 1
    start_redis(port=port)
    until(lambda: ask(server, "closed", key)[0] == 1, "Redis to be found")
    assert ask(server, "local", key)[1] == QUOTA


def test_limits_in_memory_answer_while_redis_hangs(start_redis, serve, key):
    """Only requests that need Redis wait for it, and only on their own connections."""
    redis = start_redis()
    server = serve(config=configuration(redis.url, timeout="1m"))
    assert ask(server, "closed", key)[0] == 1
    with redis.hung(), Wire(server.resp) as waits:
        waits.send(encode("WEIR.ACQUIRE", "closed", key) + encode("PING"))
        with Wire(server.resp) as goes_on:
            for n in range(200):
                assert goes_on.command("WEIR.ACQUIRE", "memory", key)[2] == QUOTA - 1 - n
            assert server.get(f"/v1/acquire/memory?key={key}").status == 200
        assert not select.select([waits.socket], [], [], 0)[0]
        redis.go_on()
        assert waits.reply()[2] == QUOTA - 2
        assert waits.reply() == b"+PONG"


def test_a_dead_redis_costs_one_timeout_not_one_per_request(start_redis, serve, key):
    redis = start_redis()
    server = serve(config=configuration(redis.url, timeout="1s"))
    until(lambda: ask(server, "closed", key)[0] == 1, "Redis to be found")
    with redis.hung(), Wire(server.resp) as wire:
        began = time.monotonic()
        for _ in range(60):
            assert wire.command("WEIR.ACQUIRE", "closed", key)[5] == b"store_failure"
        assert time.monotonic() - began < 30
    until(lambda: ask(server, "closed", key)[0] == 1, "Redis to be back")


def test_a_short_wait_stays_short_while_redis_hangs(start_redis, serve, key):
    redis = start_redis()
    server = serve("--threads", "1", config=configuration(redis.url, timeout="1s"))
    until(lambda: ask(server, "closed", key)[0] == 1, "Redis to be found")
    with redis.hung(), Wire(server.resp) as wire:
        while wire.command("WEIR.ACQUIRE", "places", key)[0]:
            pass
        waits = sorted(server.post("/v1/acquire", {"limit": "places", "key": key, "wait_ms": 10}).json["wait_ms"]
                       for _ in range(15))
    # A wait that only ends when the loop checks its timeouts takes up to half a second longer.
    assert waits[0] >= 10 and waits[7] < 200, waits


def test_requests_pending_at_redis_are_cancelled_when_their_client_disconnects(start_redis, serve, key):
    redis = start_redis()
    server = serve(config=configuration(redis.url, timeout="1m"))
    assert ask(server, "closed", key)[0] == 1
    with redis.hung():
        for _ in range(20):
            with Wire(server.resp) as wire:
                wire.send(encode("WEIR.ACQUIRE", "closed", key) * 5)
        assert ask(server, "memory", key)[0] == 1
    until(lambda: ask(server, "closed", key)[0] == 1, "Redis to be back")


def test_a_server_stops_while_redis_hangs(start_redis, serve, key):
    redis = start_redis()
    server = serve(config=configuration(redis.url, timeout="200ms"))
    with redis.hung(), Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "closed", key))
        assert server.stop() == 0


def test_a_redis_that_refuses_writes_is_logged_with_its_reason(start_redis, serve, key):
    redis = start_redis(program=OLDEST)
    server = serve(config=configuration(redis.url))
    assert ask(server, "closed", key)[0] == 1
    redis.client.config_set("maxmemory", 1)
    assert ask(server, "closed", key)[5] == b"store_failure"
    assert "OOM" in server.line_with("store_away")
    redis.client.config_set("maxmemory", 0)
    server.line_with("store_back")
    assert ask(server, "closed", key)[2] == QUOTA - 2


def requests_read(server):
    """The number of pending requests once the server reads no more."""
    counts = [-1, metric(server, "weir_answers_pending")]
    while counts[-1] != counts[-2]:
        time.sleep(0.2)
        counts.append(metric(server, "weir_answers_pending"))
    return counts[-1]


@pytest.mark.parametrize("as_one", [False, True])
def test_a_server_stops_reading_requests_while_too_many_are_pending_at_redis(start_redis, serve, key, as_one):
    redis = start_redis()
    server = serve("--threads", "1", config=configuration(redis.url, timeout="1m"))
    assert ask(server, "closed", key)[0] == 1
    crowd, pipeline = 60, 200
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.resp)) for _ in range(crowd)]
        requests = [b"".join(encode("WEIR.ACQUIRE", "closed", f"{key}-{i}-{j}")
                             for j in range(pipeline)) for i in range(crowd)]
        if as_one:
            for wire, bytes_of_it in zip(wires, requests):
                wire.send(encode("MULTI") + bytes_of_it)
                assert [wire.reply() for _ in range(pipeline + 1)][-1] == b"+QUEUED"
            requests = [encode("EXEC")] * crowd
        with redis.hung():
            for wire, bytes_of_it in zip(wires, requests):
                wire.send(bytes_of_it)
            assert requests_read(server) <= (12 if as_one else 3000)
            assert ask(server, "memory", key)[0] == 1
        for wire in wires:
            replies = wire.reply() if as_one else [wire.reply() for _ in range(pipeline)]
            assert [one[0] for one in replies] == [1] * pipeline
    assert metric(server, f'weir_store_failed_steps_total{{store="{redis.url}"}}') == 0


def test_a_transaction_of_many_keys_is_decided_by_policy_without_redis(
        start_redis, serve, key):
    redis = start_redis()
    server = serve("--threads", "1", config=configuration(redis.url, timeout="200ms"))
    with redis.hung(), Wire(server.resp) as wire:
        for policy, allowed in ("closed", 0), ("open", 1), ("local", 1):
            wire.send(encode("MULTI") + b"".join(
                encode("WEIR.ACQUIRE", policy, f"{key}-{i}") for i in range(500)))
            assert [wire.reply() for _ in range(501)] == [b"+OK"] + [b"+QUEUED"] * 500
            # More keys than one call takes: some fail while others are not sent yet, and as EXEC
            # is not the last command that was read, those are not sent at once.
            wire.send(encode("EXEC") + encode("PING"))
            assert [one[0] for one in wire.reply()] == [allowed] * 500
            assert wire.reply() == b"+PONG"


TAMPERINGS = {
    "late": late,
    "half": half,
    "half and gone": half_and_gone,
    "silent": silent,
    "HTTP": instead(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "a huge array": instead(b"*1000000000\r\n"),
    "a huge text": instead(b"$1000000000\r\n"),
    "deep": instead(b"*1\r\n" * 1000),
    "nothing": instead(b"*0\r\n"),
    "numbers": instead(b"*2\r\n:-9223372036854775808\r\n:9223372036854775807\r\n" * 20),
    "too many": instead(b"+OK\r\n" * 1000),
    "bytes": instead(bytes(range(256))),
    "an error": instead(b"-READONLY You can't write against a read only replica.\r\n"),
}


@one_thread  # the thread that sends a command reads its reply
@pytest.mark.parametrize("how", TAMPERINGS)
def test_a_redis_that_sends_nonsense_grants_nothing_and_is_used_again_after_it(start_redis, serve, key, how):
    redis = start_redis()
    with TamperingProxy(redis.port) as proxy:
        server = serve(config=configuration(proxy.url, timeout="50ms"))
        until(lambda: ask(server, "closed", key)[0] == 1, "Redis to be found")
        with Load(server, "closed", key) as load, Load(server, "memory", key) as memory:
            proxy.tamper = TAMPERINGS[how]
            until(load.failed, "an answer to fail")
            asked = memory.reasons.total()
            until(lambda: memory.reasons.total() > asked + 100, "others to be answered")
            proxy.tamper = None
            load.until_exhausted()
        assert load.granted <= QUOTA
        assert memory.granted <= QUOTA
