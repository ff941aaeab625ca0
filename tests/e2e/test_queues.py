"""Requests wait in a queue for a key of a limit other than a pacer, first come, first served."""

import concurrent.futures
import contextlib
import fcntl
import json
import resource
import selectors
import signal
import struct
import termios
import time

import pytest
from harness import BUILD, PATIENCE, Server, Wire, encode, until, until_at_rest, until_pending

# Limits by the hour refill nothing during a test.
CONFIG = """
limits:
  hour: { algorithm: token_bucket, rate: 12/h, burst: 12 }
  quick: { algorithm: token_bucket, rate: 25/s, burst: 1 }
  window: { algorithm: fixed_window, rate: 3/200ms, align: first_request }
  brief: { algorithm: sliding_log, rate: 1/100ms }
  chance: { algorithm: random, deny: 1 }
  lanes: { algorithm: concurrency, max: 2, queue: 3, lease: 1h }
  strict: { algorithm: concurrency, max: 1, lease: 1h }
  hasty: { algorithm: concurrency, max: 1, queue: 1, max_wait: 100ms, lease: 1h, retry: 1h }
  single: { algorithm: concurrency, max: 1, queue: 1, max_wait: 1s, lease: 1h }
  half: { algorithm: token_bucket, rate: 2/s, burst: 1 }
  pace: { algorithm: pacer, rate: 10/s, slack: 0 }
  slow: { algorithm: pacer, rate: 2/h, slack: 0, max_wait: 1h }
  calm: { algorithm: pacer, rate: 1/1200ms, slack: 0 }
rules:
  - { name: far, match: { path: /far }, key: [ip], limits: [slow, hour] }
  - { name: both, match: { path: /both }, key: [ip], limits: [pace, hour] }
  - { name: once, match: { path: /twice }, key: [ip], limits: [hour] }
  - { name: again, match: { path: /twice }, key: [ip], limits: [hour] }
  - { name: lane, match: { path: /lane }, key: [ip], limits: [single, calm] }
  - { name: narrow, match: { path: /narrow }, key: [ip], limits: [strict, hour] }
  - { name: chain, match: { path: /chain }, key: [ip], limits: [hour, half] }
  - { name: alone, match: { path: /alone }, key: [ip], limits: [single, hour] }
  - { name: shade, match: { path: /shade }, key: [path], limits: [quick], mode: shadow }
  - { name: shaded, match: { path: /shade }, key: [ip], limits: [hour] }
  - { name: proxied, match: { path: /proxied }, key: [path], limits: [hour] }
trusted_proxies: [127.0.0.0/8]
"""
LONG = 3_000_000  # ms


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server("--threads", "2", config=CONFIG, directory=tmp_path_factory.mktemp("queues"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


def are_held(server, n):
    return f"\nweir_answers_pending {n}\n" in server.get("/metrics").text


@pytest.fixture(autouse=True)
def no_request_is_pending(server):
    """Waits until no request is pending, so that the next test counts its own."""
    yield
    until_pending(server, 0)


class Client:
    """Sends a request that waits, over either protocol."""

    def __init__(self, server, limit, key, wait=LONG, cost=1, http=False):
        self.http = http
        self.wire = Wire(server.http if http else server.resp)
        if http:
            body = json.dumps({"limit": limit, "key": key, "cost": cost, "wait_ms": wait}).encode()
            self.wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        else:
            self.wire.send(encode("WEIR.ACQUIRE", limit, key, "COST", cost, "WAIT", wait))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.__exit__()

    def answer(self):
        """(allowed, reason)"""
        if self.http:
            answer = json.loads(self.wire.rest().split(b"\r\n\r\n")[1])
            return answer["allowed"], answer["reason"]
        reply = self.wire.reply()
        return bool(reply[0]), reply[5].decode()


def pending_clients(stack, server, n, *arguments, **more):
    """`n` clients whose requests became pending one after the other, over both protocols."""
    clients = []
    for i in range(n):
        clients.append(stack.enter_context(Client(server, *arguments, http=i % 2 == 1, **more)))
        until_pending(server, len(clients))
    return clients


def order(clients, n):
    """The indices of the first `n` clients that are answered, in order."""
    answered = []
    with selectors.DefaultSelector() as selector:
        for i, client in enumerate(clients):
            selector.register(client.wire.socket, selectors.EVENT_READ, i)
        while len(answered) < n:
            ready = selector.select(20)
            assert ready, f"only {answered} were answered"
            for entry, _ in ready:
                selector.unregister(entry.fileobj)
                answered.append(entry.data)
    return answered


def drain(server, key):
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "hour", key, "COST", 12)[0] == 1


def refund(server, key, cost=1):
    with Wire(server.resp) as wire:
        wire.command("WEIR.REFUND", "hour", key, "COST", cost)


def test_refunded_units_go_to_the_request_that_arrived_first(server, key):
    drain(server, key)
    with contextlib.ExitStack() as stack:
        clients = pending_clients(stack, server, 10, "hour", key)
        for i in range(9):
            refund(server, key)
            assert order(clients[i:], 1) == [0]
            assert clients[i].answer() == (True, "ok")
            until_pending(server, 9 - i)
        server.post("/v1/reset", {"limit": "hour", "key": key})
        assert clients[9].answer() == (True, "ok")


def test_refilled_units_go_to_pending_requests_in_order(server, key):
    with contextlib.ExitStack() as stack, Wire(server.resp) as wire:
        for _ in range(2):  # a token was just consumed, so all requests arrive before the next refill
            begun = time.monotonic()
            wire.command("WEIR.ACQUIRE", "quick", key, "WAIT", 1000)
        clients = [stack.enter_context(Client(server, "quick", key, http=i % 2 == 1))
                   for i in range(12)]
        assert sorted(order(clients, 12)) == list(range(12))
        assert all(client.answer()[0] for client in clients)
        assert 12 * 0.04 <= time.monotonic() - begun < PATIENCE / 2  # no request waits for the next to arrive


def test_a_reset_admits_all_pending_requests_in_order(server, key):
    drain(server, key)
    with contextlib.ExitStack() as stack:
        clients = pending_clients(stack, server, 8, "hour", key)
        server.post("/v1/reset", {"limit": "hour", "key": key})
        replies = [client.wire.reply() for client in clients[::2]]
        assert [reply[2] for reply in replies] == [11, 9, 7, 5]


@pytest.mark.parametrize("limit", ["window", "brief"])
def test_requests_can_wait_for_any_limit(server, limit, key):
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        clients = [stack.enter_context(Client(server, limit, key, http=i % 2)) for i in range(6)]
        assert [client.answer()[0] for client in clients] == [True] * 6
        assert time.monotonic() - begun >= {"window": 0.2, "brief": 0.5}[limit]


def waits(server):
    text = server.get("/metrics").text
    return int(text.split("\nweir_wait_duration_seconds_count ")[1].split("\n")[0])


def test_an_answer_contains_the_time_of_its_wait(server, key):
    counted = waits(server)

    def ask():
        begun = time.monotonic()
        told = server.get(f"/v1/acquire/quick?key={key}&wait_ms={LONG}").json.get("wait_ms", 0)
        assert told <= (time.monotonic() - begun) * 1000 + 1
        return told

    assert ask() == 0
    until(ask, "an answer to be held")  # a request after the refill does not wait
    assert waits(server) == counted + 1


def test_a_new_request_does_not_overtake_pending_ones(server, key):
    drain(server, key)
    with Client(server, "hour", key, cost=2) as first, Wire(server.resp) as wire:
        until_pending(server, 1)
        refund(server, key)
        denied = wire.command("WEIR.ACQUIRE", "hour", key)
        assert (denied[0], denied[5]) == (0, b"over_limit")
        assert denied[3] > 0
        assert wire.command("WEIR.ACQUIRE", "hour", key, "WAIT", 0)[5] == b"over_limit"
        assert wire.command("WEIR.ACQUIRE", "hour", key, "WAIT", 20)[5] == b"wait_too_long"
        by_rule = server.post("/v1/acquire", {"attributes": {"path": "/both", "ip": key}}).json
        assert (by_rule["allowed"], by_rule["limit"], by_rule["rule"]) == (False, "hour", "both")
        batch = server.post("/v1/batch", [{"limit": "hour", "key": key, "wait_ms": 1000}]).json
        assert (batch[0]["allowed"], batch[0]["reason"]) == (False, "over_limit")
        assert wire.command("WEIR.PEEK", "hour", key)[:3] == [0, 12, 1]
        assert wire.command("WEIR.ACQUIRE", "hour", key, "COST", 0, "WAIT", 20)[:3] == [0, 12, 1]
        assert wire.command("WEIR.ACQUIRE", "hour", key + "x")[0] == 1
        refund(server, key)
        assert first.answer() == (True, "ok")


def test_a_flood_of_requests_does_not_starve_pending_ones(server, key):
    drain(server, key)
    with contextlib.ExitStack() as stack, Wire(server.resp) as wire:
        clients = pending_clients(stack, server, 10, "hour", key)
        for client in clients:
            wire.send(encode("WEIR.ACQUIRE", "hour", key) * 100)
            refund(server, key)
            assert [wire.reply()[0] for _ in range(100)] == [0] * 100
            assert client.answer() == (True, "ok")


def test_a_disconnected_client_leaves_the_queue(server, key):
    drain(server, key)
    with contextlib.ExitStack() as stack:
        clients = pending_clients(stack, server, 4, "hour", key)
        clients[0].wire.__exit__()
        until_pending(server, 3)
        clients[2].wire.__exit__()
        until_pending(server, 2)
        refund(server, key, 2)
        assert [clients[i].answer()[0] for i in (1, 3)] == [True, True]


def test_a_request_whose_wait_is_too_short_is_denied_at_once(server, key):
    drain(server, key)
    with Client(server, "hour", key, wait=2000 * PATIENCE) as client:
        assert client.answer() == (False, "wait_too_long")
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "hour", key, "WAIT", 0)[5] == b"over_limit"


def test_a_denial_contains_the_time_of_its_wait(server, key):
    drain(server, key)
    with Client(server, "hour", key):
        until_pending(server, 1)
        answer = server.get(f"/v1/acquire/chance?key={key}&wait_ms=30").json
        assert (answer["allowed"], 30 <= answer["wait_ms"] < 10_000) == (False, True)


def test_a_wait_ends_in_time(server, key):
    begun = time.monotonic()
    with Client(server, "chance", key, wait=100) as first, \
            Client(server, "chance", key, wait=150, http=True) as second:
        assert first.answer() == (False, "wait_too_long")
        assert time.monotonic() - begun >= 0.1
        assert second.answer() == (False, "wait_too_long")
        assert time.monotonic() - begun >= 0.15


def test_rules_wait_for_the_limit_that_denied(server, key):
    attributes = {"path": "/both", "ip": key}
    body = json.dumps({"attributes": attributes, "wait_ms": LONG}).encode()
    drain(server, key)
    with Wire(server.http) as wire:
        wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                  b"GET /auth HTTP/1.0\r\nX-Forwarded-Uri: /other\r\n\r\n"
                  % (len(body), body))
        until_pending(server, 1)
        assert server.get(f"/v1/peek/pace?key={key}").json["wait_ms"] == 0  # the request consumed no turn
        refund(server, key)
        answers = wire.rest()
    assert b'"rule":"both"' in answers
    assert answers.count(b" 200 OK") == 2


def test_two_rules_that_charge_one_key_do_not_wake_each_other(serve, key):
    server = serve("--threads", "1", config=CONFIG)
    with Wire(server.resp) as wire, Wire(server.http) as client:
        wire.command("WEIR.ACQUIRE", "hour", key, "COST", 11)
        body = json.dumps({"attributes": {"path": "/twice", "ip": key}, "wait_ms": LONG}).encode()
        client.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        until_pending(server, 1)
        until_at_rest(server)
        refund(server, key)
        assert b'"allowed":true' in client.rest()


@pytest.mark.parametrize("wait", [{}, {"wait_ms": 5_000}])
def test_a_wait_in_a_queue_does_not_shorten_the_wait_for_a_turn(server, key, wait):
    permit, patience = take(server, "single", key), wait.get("wait_ms", 1000) / 1000
    server.get(f"/v1/acquire/calm?key={key}")
    with Wire(server.http) as wire:
        body = json.dumps({"attributes": {"path": "/lane", "ip": key}, **wait}).encode()
        sent = time.monotonic()
        wire.send(b"POST /v1/acquire HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        until(lambda: are_held(server, 1) or time.monotonic() - sent >= patience, "it to be held")
        report(server, permit)
        reported = time.monotonic()
        # If the machine stood still, the wait in the queue may have run out.
        assert b'"allowed":true' in wire.rest() or reported - sent >= patience


def test_a_request_waits_for_its_turn_after_it_waited_for_a_key(server, key):
    body = json.dumps({"attributes": {"path": "/far", "ip": key}, "wait_ms": LONG}).encode()
    server.get(f"/v1/acquire/slow?key={key}")
    drain(server, key)
    with Wire(server.http) as wire:
        wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                  % (len(body), body))
        until_pending(server, 1)
        refund(server, key, 2)
        until(lambda: server.get(f"/v1/peek/hour?key={key}").json["remaining"] == 1, "its token")
        until_pending(server, 1)
    until_pending(server, 0)
    assert server.get(f"/v1/peek/hour?key={key}").json["remaining"] == 2  # both the unit and the turn were released
    assert server.get(f"/v1/peek/slow?key={key}").json["wait_ms"] <= 1_800_000


def take(server, limit, key):
    """Acquires a permit."""
    with Wire(server.resp) as wire:
        reply = wire.command("WEIR.ACQUIRE", limit, key)
        assert reply[0] == 1
        return reply[6]


def report(server, permit):
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.REPORT", permit, "success") == b"+OK"


def test_requests_of_a_limit_with_a_queue_wait_for_permits_by_default(server, key):
    permits = [take(server, "lanes", key) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        waiting = []
        for i in range(3):
            waiting.append(stack.enter_context(Wire(server.resp)))
            waiting[i].send(encode("WEIR.ACQUIRE", "lanes", key))
            until_pending(server, i + 1)
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.ACQUIRE", "lanes", key)[5] == b"queue_full"
            assert wire.command("WEIR.ACQUIRE", "lanes", key, "WAIT", 0)[5] == b"over_limit"
        for wire in waiting:
            report(server, permits.pop(0))
            reply = wire.reply()
            assert reply[:2] == [1, 2]
            permits.append(reply[6])
        for permit in permits:
            report(server, permit)
    assert server.get(f"/v1/peek/lanes?key={key}").json["remaining"] == 2


def unsent(wire):
    """Bytes that the kernel of the other side has not acknowledged."""
    return struct.unpack("i", fcntl.ioctl(wire.socket, termios.TIOCOUTQ, bytes(4)))[0]


def test_a_client_that_disconnects_just_before_it_is_admitted_consumes_no_permit(serve, key):
    server = serve("--threads", "2", config=CONFIG)
    permit = take(server, "strict", key)
    with Wire(server.resp) as wire:
        gone = Client(server, "strict", key)
        silent = Client(server, "strict", key)
        until_pending(server, 2)
        silent.wire.send(encode("PING") * 7_200)  # more than the server reads while the request is pending
        until(lambda: not unsent(silent.wire), "all to be sent")
        server.process.send_signal(signal.SIGSTOP)
        gone.__exit__()
        silent.__exit__()
        wire.send(encode("WEIR.REPORT", permit, "success"))
        server.process.send_signal(signal.SIGCONT)
        assert wire.reply() == b"+OK"
        until_pending(server, 0)
        assert wire.command("WEIR.ACQUIRE", "strict", key)[0] == 1


@contextlib.contextmanager
def by_rules(server, path, key, **more):
    """Sends a request by rules, which waits for the first of their limits that denies it."""
    body = json.dumps({"attributes": {"path": path, "ip": key}, **more}).encode()
    with Wire(server.http) as wire:
        wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        until_pending(server, 1)
        yield lambda: json.loads(wire.rest().split(b"\r\n\r\n")[1])


def test_the_first_in_the_queue_of_one_key_does_not_overtake_at_another_key(server, key):
    permit = take(server, "strict", key)
    drain(server, key)
    with by_rules(server, "/narrow", key, wait_ms=LONG) as both:
        with Client(server, "hour", key, cost=2) as other:
            until_pending(server, 2)
            refund(server, key)
            report(server, permit)
            until_pending(server, 2)
            assert server.get(f"/v1/peek/strict?key={key}").json["remaining"] == 1
            refund(server, key)
            assert other.answer() == (True, "ok")
        until_pending(server, 1)
        refund(server, key)
        assert both()["allowed"]


def test_a_request_that_moves_to_the_queue_of_another_key_is_admitted_there(server, key):
    drain(server, key)
    with by_rules(server, "/chain", key, wait_ms=LONG) as answer:
        assert server.get(f"/v1/acquire/half?key={key}").json["allowed"]
        refund(server, key)
        assert answer()["allowed"]


def test_a_request_that_waits_by_default_waits_for_no_other_limit(server, key):
    permit = take(server, "single", key)
    with by_rules(server, "/alone", key) as answer:
        drain(server, key)
        report(server, permit)
        assert not answer()["allowed"]


SHARED_QUEUE = """
store_timeout: 10s
limits:
  own: {{ algorithm: token_bucket, rate: 1/d, store: "{store}" }}
  shared: {{ {shared} }}
order: {order}
rules:
  - {{ name: first, key: [{keys[0]}], limits: [{limits[0]}] }}
  - {{ name: second, key: [{keys[1]}], limits: [{limits[1]}] }}
"""


@pytest.mark.parametrize("shared", ["algorithm: concurrency, max: 1, queue: 2, max_wait: 1h",
                                    "algorithm: fixed_window, rate: 1/10m, align: first_request"])
@pytest.mark.parametrize("store", ["memory", "redis"])
@pytest.mark.parametrize("limits", [("own", "shared"), ("shared", "own")])
@pytest.mark.parametrize("order", ["all", "first"])
def test_who_is_over_a_limit_of_its_own_does_not_take_the_queue_of_others(
        serve, shared_redis, key, shared, store, limits, order):
    """A request waits only if no other limit denies it for good."""
    server = serve(config=SHARED_QUEUE.format(
        store=shared_redis.url if store == "redis" else store, shared=shared, order=order, limits=limits,
        keys=["site" if limit == "shared" else "user" for limit in limits]))
    users = iter(f"{key}-{i}" for i in range(1000))

    def ask(user, **more):
        return server.post("/v1/acquire", {"attributes": {"site": key, "user": user}, "permit": True, **more}).json

    greedy = next(users)
    assert server.get(f"/v1/acquire/own?key={greedy}").json["allowed"]
    assert ask(next(users))["allowed"]
    has_queue = "queue" in shared
    wait = {} if has_queue else {"wait_ms": LONG}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, next(users), **wait)]
        until_pending(server, 1)
        for _ in range(3):
            answer = ask(greedy, **wait)
            assert (answer["allowed"], answer["limit"]) == (False, "own")
            assert answer["reason"] == ("over_limit" if has_queue else "wait_too_long")
        waiting.append(pool.submit(ask, next(users), **wait))
        until_pending(server, 2)
        for request in waiting:
            server.post("/v1/reset", {"limit": "shared", "key": key})
            assert request.result()["allowed"]


def test_without_a_queue_only_requests_with_a_wait_wait_for_permits(server, key):
    permit = take(server, "strict", key)
    with Wire(server.resp) as wire, Client(server, "strict", key) as first:
        until_pending(server, 1)
        denied = wire.command("WEIR.ACQUIRE", "strict", key)
        assert (denied[0], denied[5]) == (0, b"over_limit")
        report(server, permit)
        assert first.answer() == (True, "ok")
    with Client(server, "strict", key, wait=50) as late:
        assert late.answer() == (False, "wait_too_long")


def test_max_wait_bounds_the_wait_of_a_queue(server, key):
    take(server, "hasty", key)
    begun = time.monotonic()
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "hasty", key)[5] == b"wait_too_long"
        assert wire.command("WEIR.ACQUIRE", "hasty", key, "WAIT", LONG)[5] == b"wait_too_long"
    assert time.monotonic() - begun >= 0.2


def decisions(server, name, limit):
    return [float(line.rsplit(" ", 1)[1]) for line in server.get("/metrics").text.splitlines()
            if line.startswith(name) and f'limit="{limit}"' in line and not line.endswith(" 0")]


def test_a_decision_is_counted_once_however_often_it_was_tried(serve, key):
    server = serve("--threads", "1", config=CONFIG)
    drain(server, key)
    with Wire(server.http) as wire:
        body = json.dumps({"attributes": {"path": "/shade", "ip": key}, "wait_ms": LONG}).encode()
        wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        until_pending(server, 1)
        for _ in range(3):
            refund(server, key, 0)
        refund(server, key)
        assert b'"allowed":true' in wire.rest()
    assert decisions(server, "weir_decisions_total", "hour") == [2]
    assert decisions(server, "weir_shadow_decisions_total", "quick") == [1]


def test_pending_requests_are_decided_by_a_reloaded_configuration(serve, key):
    server = serve("--threads", "2", config=CONFIG)
    drain(server, key)

    def reload(config):
        server.reload(config)
        server.line_with("reloaded")

    with contextlib.ExitStack() as stack:
        clients = pending_clients(stack, server, 2, "hour", key)
        reload(CONFIG.replace("12/h, burst: 12", "12/h, burst: 13"))
        assert clients[0].answer() == (True, "ok")  # by the added token
        shed = stack.enter_context(Client(server, "chance", key))
        until_pending(server, 2)
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.SHED", "chance", "0") == b"+OK"
            assert shed.answer() == (True, "ok")
            wire.command("WEIR.SHED", "chance", "1")
        gone = stack.enter_context(Client(server, "chance", key))
        until_pending(server, 2)
        reload(CONFIG.replace("chance:", "other:"))
        assert b"ERR" in gone.wire.reply()
        assert server.stop() == 0


@pytest.mark.alone
@pytest.mark.skipif(BUILD.name != "build", reason="a sanitizer takes time and memory of its own")
def test_thousands_of_pending_requests_cost_bounded_memory_and_no_cpu_time(serve, at):
    many = 9_900
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < many + 100:
        pytest.skip(f"{limits[1]} descriptors are too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    server = serve("--threads", "2", config=at + CONFIG)
    keys = [f"key-{i}" for i in range(many // 3)]
    try:
        with contextlib.ExitStack() as stack:
            with Wire(server.resp) as wire:
                for key in keys:
                    wire.send(encode("WEIR.ACQUIRE", "hour", key, "COST", 12))
                for _ in keys:
                    wire.reply()
            clients = [stack.enter_context(Client(server, "hour", keys[i % len(keys)]))
                       for i in range(many)]
            until_pending(server, many)
            until_at_rest(server)
            with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
                assert int(statm.read().split()[1]) * 4096 < 80 << 20
            for key in keys:
                refund(server, key)
            assert all(client.answer()[0] for client in clients[:len(keys)])
            until_pending(server, many - len(keys))
        until_pending(server, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
