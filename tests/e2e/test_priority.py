"""Requests of the lowest priority are shed first, by `random` limits and by full queues."""

import contextlib
import json
import random

import pytest
from harness import Wire, encode, until_pending

# Shedding depends on the priorities of the last 10 s. Requests sent together count at one time, so each test
# sends all of its requests together.
CONFIG = """
limits:
  relief: { algorithm: random, deny: 0.3 }
  login:  { algorithm: token_bucket, rate: 5/h, burst: 100 }
  lane:   { algorithm: concurrency, max: 1, queue: 3, lease: 1h, max_wait: 1h, retry: 90m }
  wide:   { algorithm: concurrency, max: 1, queue: 12, lease: 1h, max_wait: 1h }
  brief:  { algorithm: concurrency, max: 1, queue: 1, lease: 1h, max_wait: 1h }
rules:
  - { name: eager, match: { path: /eager }, limits: [lane], priority: 0 }
  - { name: idle, match: { path: /idle }, limits: [lane], priority: 9 }
  - { name: prefetch, match: { path: /prefetch }, limits: [relief], priority: 9 }
  - { name: payment, match: { path: /payment }, limits: [relief], priority: 0 }
  - { name: page, match: { path: /page }, limits: [relief] }
  - { name: shadow, match: { path: /shade }, limits: [relief], mode: shadow, priority: 9 }
trusted_proxies: [127.0.0.0/8]
"""
LOW, HIGH = 20, 40  # 18 of all 60 are shed, fewer than there are of the lowest priority


@pytest.fixture
def server(serve):
    return serve(config=CONFIG)


def by_resp(server, commands):
    """Sends commands together; returns the reasons of their replies."""
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode(*command) for command in commands))
        return [wire.reply()[5].decode() for _ in commands]


def by_http(server, items):
    answers = server.post("/v1/batch", items).json
    return [answer["reason"] for answer in answers]


def acquire(*more):
    return ("WEIR.ACQUIRE", "relief", "k", *more)


def test_only_requests_of_the_lowest_priority_are_shed(server):
    reasons = by_resp(server, [acquire("PRIORITY", 9)] * LOW + [acquire()] * HIGH)
    assert set(reasons[LOW:]) == {"ok"}


def test_all_requests_of_the_lowest_priority_are_shed_before_any_other(server):
    by_resp(server, [acquire("PRIORITY", 9)] * LOW + [acquire()] * HIGH)
    assert server.post("/v1/shed", {"limit": "relief", "deny": 0.5}).status == 200
    with Wire(server.resp) as wire:
        wire.send(b"".join([encode(*acquire("PRIORITY", 9))] * LOW + [encode(*acquire())] * HIGH))
        for _ in range(LOW):  # half of 61 to 80 requests is more than the 21 to 40 of the lowest priority
            assert wire.reply()[5] == b"shed"


@pytest.mark.parametrize("low, high", [
    ({"limit": "relief", "key": "k", "priority": 9}, {"limit": "relief", "key": "k"}),
    ({"attributes": {"path": "/prefetch"}}, {"attributes": {"path": "/page"}}),
    # A rule's priority overrides the caller's, whether it is lower or higher.
    ({"attributes": {"path": "/prefetch"}, "priority": 0}, {"attributes": {"path": "/page"}}),
    ({"attributes": {"path": "/page"}, "priority": 9},
     {"attributes": {"path": "/payment"}, "priority": 9}),
    # Priorities of rules in shadow mode count, too.
    ({"attributes": {"path": "/shade"}}, {"limit": "relief", "key": "k", "priority": 0}),
])
def test_the_priority_of_a_rule_overrides_that_of_the_caller(server, low, high):
    reasons = by_http(server, [low] * LOW + [high] * HIGH)
    assert set(reasons[LOW:]) == {"ok"}


def test_requests_of_all_protocols_count_in_one_demand(server):
    by_http(server, [{"limit": "relief", "key": "k", "priority": 5}] * LOW)
    reasons = by_resp(server, [("WEIR.CHECK", "path", "/page")] * (HIGH // 2))
    assert set(reasons) == {"ok"}
    request = (b"GET /v1/acquire/relief?key=k&priority=4 HTTP/1.1\r\nHost: localhost\r\n\r\n"
               b"GET /auth HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Uri: /payment\r\n\r\n")
    with Wire(server.http) as wire:
        wire.send(request * (HIGH // 4) + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n"
                                          b"Host: localhost\r\n\r\n")
        assert wire.rest().count(b"HTTP/1.1 200") == HIGH // 4 * 2 + 1


def test_a_priority_changes_nothing_where_nothing_is_shed(server):
    with Wire(server.resp) as wire:
        for priority in range(10):
            assert wire.command("WEIR.ACQUIRE", "login", "k", "PRIORITY", priority, "COST", 5)[2] == (
                95 - 5 * priority)
    assert server.get("/v1/peek/login?key=k&priority=3").json["remaining"] == 50


@pytest.mark.parametrize("value", ["10", "-1", '"high"', '"3"', "3.5", "1e0", "null", "[]",
                                   "256", "4294967296"])
def test_an_invalid_priority_fails_only_its_own_item(server, value):
    bad = '{"limit":"login","key":"k","priority":%s}' % value
    with Wire(server.http) as wire:
        body = '[{"limit":"login","key":"k"},%s,{"limit":"login","key":"k","priority":9}]' % bad
        wire.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
        answer = wire.rest().split(b"\r\n\r\n", 1)[1]
    first, second, third = json.loads(answer)
    assert first["remaining"] == 99 and third["remaining"] == 98
    assert "priority" in second["error"]["message"], second
    for path in ("acquire", "peek"):
        refused = server.get(f"/v1/{path}", {"Content-Type": "application/json"}, "POST", bad)
        assert refused.status == 400


@pytest.mark.parametrize("words", [("10",), ("-1",), ("high",), ("",), ("0x1",), ("+1",), ()])
def test_an_invalid_priority_is_refused_over_resp(server, words):
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "login", "k", "PRIORITY", *words).startswith(b"-ERR ")
        assert wire.command("WEIR.PEEK", "login", "k", "PRIORITY", "1").startswith(b"-ERR ")
        assert wire.command("WEIR.PEEK", "login", "k")[2] == 100
    assert server.get("/v1/acquire/login?key=k&priority=10").status == 400
    assert server.get("/v1/acquire/login?key=k&priority=1&priority=1").status == 400


@pytest.mark.parametrize("value", ["18446744073709551615", "18446744073709551616", "9" * 400])
def test_a_priority_beyond_64_bits_is_refused(server, value):
    body = '{"limit":"login","key":"k","priority":%s}' % value
    assert server.get("/v1/acquire", {"Content-Type": "application/json"}, "POST", body).status == 400
    assert server.get(f"/v1/acquire/login?key=k&priority={value}").status == 400
    assert server.get("/v1/peek/login?key=k").json["remaining"] == 100


def test_shed_and_report_accept_no_priority(server):
    assert server.post("/v1/shed", {"limit": "relief", "deny": 0.5, "priority": 1}).status == 400
    assert server.post("/v1/report", {"permit": "x", "outcome": "success", "priority": 1}).status == 400


class Waiter:
    """A request that may wait in a queue, on a connection of its own."""

    def __init__(self, server, limit, priority=0, http=False, **asked):
        asked = asked or {"limit": limit, "key": "k"}
        self.http = http
        self.priority = priority
        self.wire = Wire(server.http if http else server.resp)
        if http:
            body = json.dumps({**asked, "priority": priority}).encode()
            self.wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        else:
            self.wire.send(encode("WEIR.ACQUIRE", limit, "k", "PRIORITY", priority))

    def answer(self):
        """(reason, time until retry, permit)"""
        if self.http:
            answer = json.loads(self.wire.rest().split(b"\r\n\r\n")[1])
            return answer["reason"], answer["retry_after_ms"], answer.get("permit", "")
        reply = self.wire.reply()
        return reply[5].decode(), reply[3], reply[6].decode()


@pytest.fixture
def queue():
    """A function that sends requests one after the other."""
    with contextlib.ExitStack() as stack:

        def come(server, limit, priority, waiting, **more):
            """Sends a request, then waits until `waiting` requests are pending."""
            waiter = Waiter(server, limit, priority, **more)
            stack.callback(waiter.wire.__exit__)
            until_pending(server, waiting)
            return waiter

        yield come


def take(server, limit):
    with Wire(server.resp) as wire:
        return wire.command("WEIR.ACQUIRE", limit, "k")[6].decode()


def serve_in_order(server, permit, waiters):
    """Asserts that waiters are admitted in this order, each after the report of the one before it."""
    for waiter in waiters:
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.REPORT", permit, "success") == b"+OK"
        reason, _, permit = waiter.answer()
        assert reason == "ok"


@pytest.mark.parametrize("http", [False, True])
def test_a_full_queue_drops_the_newest_of_the_lowest(serve, queue, http):
    server = serve("--threads", "2", config=CONFIG)
    permit = take(server, "lane")
    first, second, third = [queue(server, "lane", priority, i + 1, http=http)
                            for i, priority in enumerate([9, 9, 4])]
    middle = queue(server, "lane", 5, 3, http=not http)
    reason, retry_ms, none = second.answer()
    assert (reason, none) == ("queue_full", "")
    assert 0 < retry_ms <= 90 * 60_000
    assert Waiter(server, "lane", 9).answer()[0] == "queue_full"
    high = queue(server, "lane", 0, 3, http=not http)
    assert first.answer()[0] == "queue_full"
    higher = queue(server, "lane", 0, 3, http=http)
    assert middle.answer()[0] == "queue_full"
    for priority in (4, 9):  # no pending request has a lower priority
        assert Waiter(server, "lane", priority, http=http).answer()[0] == "queue_full"
    serve_in_order(server, permit, [third, high, higher])
    until_pending(server, 0)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_full_queue_keeps_the_highest_priorities_in_order_of_arrival(serve, queue, threads):
    server = serve("--threads", threads, config=CONFIG)
    permit = take(server, "wide")
    chance = random.Random(14)
    waiting, size = [], 12
    for i in range(60):
        priority = chance.randrange(10)
        lowest = max((waiter.priority for waiter in waiting), default=0)
        if len(waiting) == size and priority >= lowest:
            assert Waiter(server, "wide", priority, i % 2).answer()[0] == "queue_full"
            continue
        waiter = queue(server, "wide", priority, min(len(waiting) + 1, size), http=i % 2 == 1)
        if len(waiting) == size:
            dropped = [other for other in waiting if other.priority == lowest][-1]
            assert dropped.answer()[0] == "queue_full"
            waiting.remove(dropped)
        waiting.append(waiter)
    serve_in_order(server, permit, waiting)


def test_priorities_of_rules_decide_which_pending_request_is_dropped(server, queue):
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "lane", "", "WAIT", 0)[0] == 1
    waiters = [queue(server, None, priority, i + 1, http=True, attributes={"path": path})
               for i, (path, priority) in enumerate([("/idle", 0), ("/eager", 9), ("/idle", 0)])]
    queue(server, None, 9, 3, http=True, attributes={"path": "/eager"})
    assert waiters[2].answer()[0] == "queue_full"


def test_a_disconnected_client_frees_its_entry_in_the_queue(server, queue):
    permit = take(server, "brief")
    low = queue(server, "brief", 9, 1)
    low.wire.__exit__()
    until_pending(server, 0)
    low = queue(server, "brief", 9, 1)
    high = queue(server, "brief", 1, 1)
    assert low.answer()[0] == "queue_full"
    low.wire.__exit__()  # it was dropped from the queue before
    serve_in_order(server, permit, [high])


def test_requests_that_wait_for_a_limit_at_redis_are_dropped_as_well(serve, start_redis, queue):
    server = serve("--store", start_redis().url, config="store_timeout: 30s\n" + CONFIG)
    permit = take(server, "lane")
    low, lower, lowest = [queue(server, "lane", priority, i + 1)
                          for i, priority in enumerate([7, 8, 9])]
    # Each drops another one, whose answer shows that the server has read it.
    first = queue(server, "lane", 0, 3)
    assert lowest.answer()[0] == "queue_full"
    second = queue(server, "lane", 0, 3)
    assert lower.answer()[0] == "queue_full"
    serve_in_order(server, permit, [low, first, second])
