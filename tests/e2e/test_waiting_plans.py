"""Requests of several limits that wait in a queue: what becomes of their other limits meanwhile."""

import contextlib
import json

import pytest
from harness import Wire, until, until_pending
from test_http2 import Http2

LONG_MS = 3_000_000
BOTH_ORDERS = pytest.mark.parametrize("names", ["shared, other", "other, shared"])
BOTH_RULES = pytest.mark.parametrize("order", ["all", "first"])

QUEUE = "algorithm: concurrency, max: 1, queue: 3, max_wait: 1h, lease: 1h, retry: 1h"

CONFIG = """
{head}
order: {order}
limits:
  shared: {{ {shared} }}
  other: {{ {other} }}
  unused: {{ algorithm: token_bucket, rate: 1/h }}
rules: [{rules}]
"""


def config(other, names, order="all", shared=QUEUE, head=""):
    """One rule for each limit, as `order: first` asks the rules in their order."""
    rules = ", ".join(f"{{ name: by-{name}, key: [site], limits: [{name}] }}" for name in names.split(", "))
    return CONFIG.format(head=head, order=order, shared=shared, other=other, rules=rules)


def body_of(key, **more):
    """By rules, or by the `limit` that is given."""
    named = {"key": key} if "limit" in more else {"attributes": {"site": key}}
    return json.dumps({"permit": True} | named | more).encode()


def ask(server, key, **more):
    return server.post("/v1/acquire", {"attributes": {"site": key}, "permit": True, **more}).json


def take(server, limit, key, **more):
    return server.post("/v1/acquire", {"limit": limit, "key": key, "permit": True, **more}).json


def report(server, permit, outcome="success"):
    assert server.post("/v1/report", {"permit": permit, "outcome": outcome}).status == 200


def refund(server, permit):
    assert server.post("/v1/refund", {"permit": permit}).status == 200


def left(server, limit, key):
    return server.get(f"/v1/peek/{limit}?key={key}").json["remaining"]


class Waiter:
    """A request whose answer comes later."""

    def __init__(self, server, key, **more):
        self.wire = Wire(server.http)
        body = body_of(key, **more)
        self.wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.__exit__()

    def answer(self):
        return json.loads(self.wire.rest().split(b"\r\n\r\n")[1])


BREAKER = "algorithm: breaker, minimum: 1, sleep: 1ms, probes: 2, ramp: 0s, probe_timeout: 1h, permit_timeout: 1h"


def leave_one_probe(server, key):
    """Opens the breaker, lets it become half-open, and takes one of its two probes."""
    report(server, take(server, "other", key)["permit"], "failure")
    return until(lambda: take(server, "other", key).get("permit"), "the first probe")


def has_one_probe(server, key):
    probe = take(server, "other", key)
    return probe["allowed"] and take(server, "other", key)["reason"] == "breaker_open"


@contextlib.contextmanager
def waiting_for_a_place(serve, key, names, order, **more):
    """A request that waits for the shared limit, and has found the breaker's last probe."""
    server = serve("--threads", "1", config=config(BREAKER, names, order))
    probe = leave_one_probe(server, key)
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key, **more) as waiter:
        until_pending(server, 1)
        yield server, waiter, place, probe


@BOTH_ORDERS
@BOTH_RULES
def test_a_granted_request_takes_the_last_probe_only_when_its_turn_comes(serve, key, names, order):
    with waiting_for_a_place(serve, key, names, order) as (server, waiter, place, probe):
        report(server, place)
        answer = waiter.answer()
        assert answer["allowed"]
        assert take(server, "other", key)["reason"] == "breaker_open"
        report(server, probe)
        report(server, answer["permit"])
        assert all(take(server, "other", key)["allowed"] for _ in range(3))  # both probes passed: it is closed
        assert left(server, "shared", key) == 1


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("ends_by", ["deadline", "disconnect"])
def test_a_request_that_stops_waiting_leaves_the_last_probe(serve, key, names, order, ends_by):
    more = {"wait_ms": 300} if ends_by == "deadline" else {}
    server = serve("--threads", "1", config=config(BREAKER, names, order))
    leave_one_probe(server, key)
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key, **more) as waiter:
        if ends_by == "deadline":
            answer = waiter.answer()
            assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "shared", "wait_too_long")
        else:
            until_pending(server, 1)
    until_pending(server, 0)
    assert has_one_probe(server, key)
    report(server, place)
    assert left(server, "shared", key) == 1


@BOTH_ORDERS
@BOTH_RULES
def test_a_request_whose_probe_is_taken_meanwhile_takes_no_place(serve, key, names, order):
    with waiting_for_a_place(serve, key, names, order) as (server, waiter, place, _):
        assert has_one_probe(server, key)
        report(server, place)
        answer = waiter.answer()
        assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "other", "breaker_open")
        assert left(server, "shared", key) == 1


@BOTH_ORDERS
def test_a_request_does_not_wait_if_no_probe_is_left(serve, key, names):
    server = serve("--threads", "1", config=config(BREAKER, names))
    leave_one_probe(server, key)
    assert has_one_probe(server, key)
    take(server, "shared", key)
    answer = ask(server, key)
    assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "other", "breaker_open")


AT_REDIS = "algorithm: token_bucket, rate: 5/d, store: \"{url}\", on_store_failure: {policy}"
HOUR = "algorithm: token_bucket, rate: 1/h"  # no queue: a request waits if it says how long
HEAD = "denied_cache: 0s\nstore_timeout: 20s\nnodes: 1"


def store_answers(server, key):
    """Whether Redis decides, and not a policy in its place."""
    return server.get(f"/v1/peek/other?key={key}-unused").json["reason"] == "ok"


def until_waiting(server, key):
    """Waits until a request waits in the queue, and has tried once more, as the first of a queue does. The server's one
    thread has one connection to Redis, which answers in order."""
    until_pending(server, 1)
    assert all(store_answers(server, key) for _ in range(3))
    until_pending(server, 1)


@contextlib.contextmanager
def asked_and_waiting(serve, redis, key, names, policy, order="all", shared=QUEUE, **more):
    """A request that waits for the shared limit, and whose other limit at Redis has let it pass."""
    server = serve("--threads", "1", config=config(AT_REDIS.format(url=redis.url, policy=policy), names, order, shared, HEAD))
    until(lambda: server.get("/readyz").status == 200, "the store")
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key, **more) as waiter:
        until_waiting(server, key)
        yield server, waiter, place


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("policy", ["open", "closed", "local"])
def test_redis_goes_away_during_the_wait(serve, start_redis, key, names, order, policy):
    redis = start_redis()
    with asked_and_waiting(serve, redis, key, names, policy, order) as (server, waiter, place):
        redis.stop()
        report(server, place)
        answer = waiter.answer()
        until_pending(server, 0)
        if policy == "closed":
            assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "other", "store_failure")
        else:
            assert (answer["allowed"], answer["reason"], answer["degraded"]) == (True, f"store_{policy}", True)
            assert left(server, "shared", key) == 0
            report(server, answer["permit"])
        assert left(server, "shared", key) == 1
        redis.restart()
        until(lambda: store_answers(server, key), "Redis to be back")
        assert left(server, "other", key) == 5


@BOTH_ORDERS
@BOTH_RULES
def test_redis_is_away_only_while_the_request_waits(serve, start_redis, key, names, order):
    redis = start_redis(durable=True)
    with asked_and_waiting(serve, redis, key, names, "closed", order) as (server, waiter, place):
        redis.stop()
        until(lambda: not store_answers(server, key), "the server to see it")
        redis.restart()
        until(lambda: store_answers(server, key), "Redis to be back")
        report(server, place)
        answer = waiter.answer()
        assert (answer["allowed"], answer.get("degraded")) == (True, None)
        assert left(server, "other", key) == 4
        refund(server, answer["permit"])
        assert left(server, "other", key) == 5
        assert left(server, "shared", key) == 1


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("shared", [QUEUE, HOUR])
@pytest.mark.parametrize("policy", ["open", "closed", "local"])
def test_redis_is_away_before_the_request_waits(serve, start_redis, key, names, order, shared, policy):
    """`closed` denies at once; with the others the request waits."""
    redis = start_redis()
    server = serve("--threads", "1", config=config(AT_REDIS.format(url=redis.url, policy=policy), names, order, shared, HEAD))
    redis.stop()
    until(lambda: not store_answers(server, key), "the server to see it")
    place = take(server, "shared", key)["permit"]
    more = {} if "queue" in shared else {"wait_ms": 3_600_000}
    with Waiter(server, key, **more) as waiter:
        if policy == "closed":
            answer = waiter.answer()
            assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "other", "store_failure")
            until_pending(server, 0)
            return
        until_pending(server, 1)
        refund(server, place)
        answer = waiter.answer()
        assert (answer["allowed"], answer["reason"]) == (True, f"store_{policy}")
        assert left(server, "shared", key) == 0


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("policy", ["open", "closed", "local"])
def test_the_store_of_the_awaited_limit_goes_away(serve, start_redis, key, names, order, policy):
    """The request asks for its place every 50 ms. The other limit is in memory, and passed when it was asked."""
    redis = start_redis()
    at_redis = f'{QUEUE}, store: "{redis.url}", on_store_failure: {policy}'
    server = serve("--threads", "1", config=config("algorithm: token_bucket, rate: 5/d", names, order, at_redis, HEAD))
    assert take(server, "shared", key)["allowed"]
    with Waiter(server, key) as waiter:
        until_pending(server, 1)
        redis.stop()
        answer = waiter.answer()
    if policy == "closed":
        assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "shared", "store_failure")
    else:
        assert (answer["allowed"], answer["reason"]) == (True, f"store_{policy}")
    until_pending(server, 0)
    assert left(server, "other", key) == (5 if policy == "closed" else 4)


@pytest.fixture(params=["http", "http2"])
def leaving(request):
    """Functions to send a request and to leave without its answer: by a closed connection, or by a reset stream."""
    with contextlib.ExitStack() as stack:
        def send(server, key, **more):
            if request.param == "http":
                waiter = stack.enter_context(Waiter(server, key, **more))
                return lambda: waiter.__exit__()
            http2 = stack.enter_context(Http2(server))
            stream = http2.ask("/v1/acquire", "POST", body=body_of(key, **more))
            http2.flush()

            def leave():
                http2.h2.reset_stream(stream)
                http2.flush()
            return leave
        yield send


def is_as_new(server, key):
    return (left(server, "shared", key), left(server, "other", key)) == (1, 5)


@BOTH_ORDERS
@BOTH_RULES
def test_a_client_leaves_while_its_other_limit_is_asked(serve, start_redis, key, names, order, leaving):
    redis = start_redis()
    server = serve("--threads", "1", config=config(AT_REDIS.format(url=redis.url, policy="closed"), names, order, head=HEAD))
    assert left(server, "other", key) == 5  # the connection is open, and the script loaded
    place = take(server, "shared", key)["permit"]
    with redis.hung():
        leave = leaving(server, key)
        until_pending(server, 1)
        leave()
        until_pending(server, 0)
    report(server, place)
    until(lambda: is_as_new(server, key), "nothing to be taken")
    with Waiter(server, key) as waiter:  # it is the first of the queue: nobody is left there
        answer = waiter.answer()
    assert answer["allowed"]


@BOTH_ORDERS
@BOTH_RULES
def test_a_client_leaves_the_queue_after_its_other_limit_was_asked(serve, start_redis, key, names, order, leaving):
    redis = start_redis()
    server = serve("--threads", "1", config=config(AT_REDIS.format(url=redis.url, policy="closed"), names, order, head=HEAD))
    assert left(server, "other", key) == 5
    place = take(server, "shared", key)["permit"]
    leave = leaving(server, key)
    until_waiting(server, key)
    leave()
    until_pending(server, 0)
    with contextlib.ExitStack() as stack:  # all places of the queue are free
        for n in range(3):
            leaves = stack.enter_context(Waiter(server, key))
            until_pending(server, n + 1)
        until(lambda: ask(server, key)["reason"] == "queue_full", "a full queue")
    until_pending(server, 0)
    report(server, place)
    until(lambda: is_as_new(server, key), "nothing to be taken")


@BOTH_ORDERS
@BOTH_RULES
def test_a_client_leaves_while_its_turn_is_decided(serve, start_redis, key, names, order, leaving):
    """Redis charges it after it has left, and has to give that back."""
    redis = start_redis()
    server = serve("--threads", "1", config=config(AT_REDIS.format(url=redis.url, policy="closed"), names, order, head=HEAD))
    assert left(server, "other", key) == 5
    take(server, "shared", key)
    leave = leaving(server, key)
    until_waiting(server, key)
    with redis.hung():
        server.post("/v1/reset", {"limit": "shared", "key": key})  # a report would wait for Redis
        assert left(server, "shared", key) == 1  # the place is free, and the turn of the request has come
        leave()
        until_pending(server, 0)
    until(lambda: is_as_new(server, key), "what it took to be back")
    assert ask(server, key)["allowed"]


CHANCE = "algorithm: random, deny: {share}"


def reload(server, text):
    server.reload(text)
    server.line_with("reloaded")


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("by", ["reload", "command"])
@pytest.mark.parametrize("share", [0.9999999, 1])
def test_a_draw_that_passed_counts_until_all_are_shed(serve, key, names, order, by, share):
    """The request has drawn when it arrived, and is not drawn for again. If all requests are to be shed, so is it."""
    server = serve("--threads", "1", config=config(CHANCE.format(share=0), names, order))
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key) as waiter:
        until_pending(server, 1)
        if by == "reload":
            reload(server, config(CHANCE.format(share=share), names, order))
        else:
            with Wire(server.resp) as wire:
                assert wire.command("WEIR.SHED", "other", share) == b"+OK"
        report(server, place)
        answer = waiter.answer()
    if share == 1:
        assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "other", "shed")
        assert left(server, "shared", key) == 1
    else:
        assert answer["allowed"]
        assert not ask(server, key, wait_ms=0)["allowed"]


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("other", [CHANCE.format(share=0), "algorithm: throttle, k: 1, permit_timeout: 1h", BREAKER, HOUR])
def test_a_limit_that_let_a_waiting_request_pass_is_removed(serve, key, names, order, other):
    server = serve("--threads", "1", config=config(other, names, order))
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key) as waiter:
        until_pending(server, 1)
        assert take(server, "other", key)["allowed"]  # of the bucket it was the only unit
        reload(server, config(HOUR, "shared", order).replace("other:", "another:"))
        report(server, place)
        answer = waiter.answer()
    assert (answer["allowed"], answer["limit"]) == (True, "shared")
    assert left(server, "shared", key) == 0
    report(server, answer["permit"])
    assert left(server, "shared", key) == 1


@BOTH_ORDERS
@BOTH_RULES
def test_the_limit_that_a_request_waits_for_is_removed(serve, key, names, order):
    """What is left of the request is decided at once by its other limit, even if the reload comes while the request
    joins the queue."""
    other = "algorithm: token_bucket, rate: 99/d"
    server = serve("--threads", "1", config=config(other, names, order))
    take(server, "shared", key)
    for n in range(1, 13):
        with Waiter(server, key) as waiter:
            until_pending(server, 1)
            reload(server, config(other, "other", order).replace("shared:", "gone:"))
            answer = waiter.answer()
        assert (answer["allowed"], answer["limit"], answer["remaining"]) == (True, "other", 99 - n)
        until_pending(server, 0)
        reload(server, config(other, names, order))


@BOTH_ORDERS
@BOTH_RULES
def test_a_waiting_request_keeps_the_draw_of_a_throttle_whose_share_changes(serve, key, names, order):
    """The backend rejects all requests after it has drawn: of 20,000 requests that the limit counts, none is accepted."""
    throttle = "algorithm: throttle, k: {k}, permit_timeout: 1h, window: 1h"
    server = serve("--threads", "1", config=config(throttle.format(k=1000), names, order))
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key) as waiter:
        until_pending(server, 1)
        server.post("/v1/batch", [{"limit": "other", "key": key}] * 900)
        reload(server, config(throttle.format(k=1), names, order))
        for _ in range(20):
            server.post("/v1/batch", [{"limit": "other", "key": key}] * 900)
        report(server, place)
        answer = waiter.answer()
    assert answer["allowed"]


AT_ONCE = pytest.mark.parametrize("store", ["memory", "redis"])
USED_UP = """
store: "{store}"
store_timeout: 20s
denied_cache: {cache}
limits:
  soon: {{ algorithm: token_bucket, rate: 1/2s, burst: 1 }}
  late: {{ algorithm: fixed_window, rate: 1/h, align: first_request }}
rules: [{{ name: both, key: [site], limits: [{limits}] }}]
"""


@AT_ONCE
@pytest.mark.parametrize("cache", ["0s", "1s"])
@pytest.mark.parametrize("limits", ["soon, late", "late, soon"])
def test_the_later_of_two_limits_that_are_used_up_denies_at_once(serve, start_redis, key, limits, cache, store):
    """Redis refuses both in one call, so the plan has to look at the one that it would not wait for, too."""
    url = start_redis().url if store == "redis" else "memory"
    server = serve("--threads", "1", config=USED_UP.format(store=url, limits=limits, cache=cache))
    for limit in ("soon", "late"):
        assert take(server, limit, key)["allowed"]
    answer = ask(server, key, wait_ms=5000)
    assert (answer["allowed"], answer["limit"]) == (False, "late")
    assert "wait_ms" not in answer


TWICE = """
store: "{store}"
store_timeout: 20s
limits:
  shared: {{ algorithm: concurrency, max: 1, queue: 2, max_wait: 1h, lease: 1h, store: memory }}
  own: {{ algorithm: fixed_window, rate: 3/h, align: first_request }}
rules:
  - {{ name: all, limits: [shared] }}
  - {{ name: by-site, key: [site], limits: [own] }}
  - {{ name: by-login, match: {{ path: /login }}, key: [site], limits: [own] }}
"""


@AT_ONCE
@pytest.mark.parametrize("is_first", [True, False])
def test_a_key_with_too_few_units_for_two_rules_fills_no_queue(serve, start_redis, key, is_first, store):
    url = start_redis().url if store == "redis" else "memory"
    text = TWICE.format(store=url)
    if not is_first:
        head, first, *others = text.rsplit("  - ", 3)
        text = "  - ".join([head, *others]).rstrip() + "\n  - " + first
    server = serve("--threads", "1", config=text)
    take(server, "shared", "")
    assert server.post("/v1/acquire", {"limit": "own", "key": key, "cost": 2}).json["allowed"]
    for _ in range(3):
        answer = server.post("/v1/acquire", {"attributes": {"site": key, "path": "/login"}}).json
        assert (answer["allowed"], answer["limit"]) == (False, "own")
        assert "wait_ms" not in answer
    with Waiter(server, key):  # one unit is enough for one rule
        until_pending(server, 1)


ANSWERS = """
order: first
limits:
  shared: {{ {queue} }}
  listed: {{ algorithm: fixed_window, rate: 1/h, align: first_request }}
  late: {{ algorithm: fixed_window, rate: 1/h, align: first_request }}
rules:
  - {{ name: one, key: [site], limits: [shared] }}
  - {{ name: two, key: [site], limits: [listed], answer: allow }}
  - {{ name: three, key: [site], limits: [late] }}
"""


def test_a_rule_behind_one_that_may_allow_does_not_deny_before_the_wait(serve, key):
    server = serve("--threads", "1", config=ANSWERS.format(queue=QUEUE))
    for limit in ("listed", "late"):
        assert take(server, limit, key)["allowed"]
    assert ask(server, key)["reason"] == "listed"
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key) as waiter:
        until_pending(server, 1)
        report(server, place)
        answer = waiter.answer()
    assert (answer["allowed"], answer["reason"], answer["rule"]) == (True, "listed", "two")


BY_RULES_OR_NAME = pytest.mark.parametrize("named", [{}, {"limit": "shared"}], ids=["rules", "name"])
UNLIKE = {
    "period": ("algorithm: fixed_window, rate: 1/20m, align: first_request",
               "algorithm: fixed_window, rate: 1/21m, align: first_request"),
    "bucket": ("algorithm: token_bucket, rate: 1/20m", "algorithm: sliding_log, rate: 1/20m"),
    "places": (QUEUE, "algorithm: adaptive, initial: 1, min: 1, max: 1, queue: 3, max_wait: 1h, permit_timeout: 1h"),
    "permits": ("algorithm: token_bucket, rate: 1/20m", QUEUE),
}


@BY_RULES_OR_NAME
@pytest.mark.parametrize("change", UNLIKE)
def test_a_limit_that_begins_anew_charges_the_requests_that_wait_for_it(serve, at, key, named, change):
    """Two requests wait: the new limit lets one pass, and the other goes on waiting. At Redis the old and the new limit have
    one key, so the server has one thread, whose connection keeps their steps in order."""
    before, after = (config(HOUR, "shared", shared=shared, head=at) for shared in UNLIKE[change])
    server = serve("--threads", "1", config=before)
    until(lambda: server.get("/readyz").status == 200, "the store")
    assert take(server, "shared", key)["allowed"]
    more = {"wait_ms": LONG_MS, "permit": False, **named}
    with Waiter(server, key, **more) as one, Waiter(server, key, **more) as another:
        until_pending(server, 2)
        reload(server, after)
        until_pending(server, 1)
        assert left(server, "shared", key) == 0
        assert not take(server, "shared", key, wait_ms=0)["allowed"]
        until_pending(server, 1)
        assert server.post("/v1/reset", {"limit": "shared", "key": key}).status == 200
        answers = [one.answer(), another.answer()]
    for answer in answers:
        assert (answer["allowed"], answer["limit"]) == (True, "shared")
        assert ("permit" in answer) == (change in ("places", "permits"))
    assert left(server, "shared", key) == 0


@BOTH_ORDERS
@BOTH_RULES
@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_limit_that_let_a_waiting_request_pass_begins_anew(serve, at, key, names, order, mode):
    def with_other(other):
        return config(other, names, order, head=at).replace("name: by-other", f"mode: {mode}, name: by-other")

    server = serve("--threads", "1", config=with_other(HOUR))
    until(lambda: server.get("/readyz").status == 200, "the store")
    place = take(server, "shared", key)["permit"]
    with Waiter(server, key) as waiter:
        until_pending(server, 1)
        reload(server, with_other("algorithm: fixed_window, rate: 5/d"))
        assert left(server, "other", key) == 5
        report(server, place)
        assert waiter.answer()["allowed"]
    assert (left(server, "shared", key), left(server, "other", key)) == (0, 4)


@BY_RULES_OR_NAME
@pytest.mark.parametrize("back", [False, True])
def test_a_limit_that_moves_to_another_store_charges_the_request_that_waits_for_it(serve, shared_redis, key, named, back):
    def at(url):
        return config(HOUR, "shared", shared=f'{QUEUE}, store: "{url}"', head="store_timeout: 10s\nnodes: 1")

    stores = ["memory", shared_redis.url]
    server = serve("--threads", "1", config=at(stores[back]))
    until(lambda: server.get("/readyz").status == 200, "the store")
    take(server, "shared", key)
    with Waiter(server, key, **named) as waiter:
        until_pending(server, 1)
        reload(server, at(stores[not back]))
        answer = waiter.answer()
    assert (answer["allowed"], answer["limit"], left(server, "shared", key)) == (True, "shared", 0)


@BY_RULES_OR_NAME
def test_a_client_that_leaves_gives_back_its_turn_at_a_limit_that_began_anew(serve, key, named):
    server = serve("--threads", "1", config=config(HOUR, "shared"))
    take(server, "shared", key)
    more = {"wait_ms": LONG_MS, **named}
    with Waiter(server, key, **more) as one, Waiter(server, key, **more) as another:
        until_pending(server, 2)
        reload(server, config(HOUR, "shared", shared="algorithm: pacer, rate: 1/20m, slack: 0, max_wait: 1h"))
        until_pending(server, 1)  # one has the first turn, the other that in 20 minutes
        assert ask(server, key, wait_ms=0)["retry_after_ms"] > 30 * 60_000
        one.wire.__exit__()
        another.wire.__exit__()
        until_pending(server, 0)
    assert 0 < ask(server, key, wait_ms=0)["retry_after_ms"] <= 20 * 60_000


@pytest.mark.parametrize("report_by", ["permit", "refund"])
def test_a_permit_is_reported_after_a_reload_that_leaves_no_limit_at_redis(serve, start_redis, key, report_by):
    """The server still claims permits at the Redis, so a report waits for it."""
    text = "store_timeout: 20s\nnodes: 1\nlimits: {{ shared: {{ {queue}, store: \"{store}\" }} }}\n"
    server = serve("--threads", "1", config=text.format(queue=QUEUE, store=start_redis().url))
    until(lambda: server.get("/readyz").status == 200, "the store")
    reload(server, text.format(queue=QUEUE, store="memory"))
    permit = take(server, "shared", key)["permit"]
    (report if report_by == "permit" else refund)(server, permit)
    assert left(server, "shared", key) == 1
    server.stop()
