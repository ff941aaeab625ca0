"""The answers of a pacer are suspended until the turn of their request."""

import concurrent.futures
import contextlib
import itertools
import json
import resource
import signal
import time

import pytest
from harness import BUILD, PATIENCE, Http, Server, Wire, encode, metric, until, until_at_rest, until_pending

CONFIG = """
limits:
  pace: { algorithm: pacer, rate: 20/s, slack: 0, max_wait: 10s }
  slow: { algorithm: pacer, rate: 1/h, slack: 0, max_wait: 3h }
  queue: { algorithm: leaky_queue, rate: 1/h, capacity: 1 }
  brisk: { algorithm: leaky_queue, rate: 10/s, capacity: 5 }
  plain: { algorithm: token_bucket, rate: 9/h }
  place: { algorithm: concurrency, max: 1, lease: 1h }
  watched: { algorithm: token_bucket, rate: 9/h }
rules:
  - { name: both, match: { path: /both }, key: [ip], limits: [plain, slow, pace] }
  - { name: watch, match: { path: /both }, key: [ip], limits: [watched], mode: shadow }
  - { name: shade, match: { path: /shade }, key: [ip], limits: [slow], mode: shadow }
  - { name: proxied, match: { path: /proxied }, key: [path], limits: [pace] }
trusted_proxies: [127.0.0.0/8]
"""
HOUR_MS = 3_600_000
TURN = 0.05  # of pace, in seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(config=CONFIG, directory=tmp_path_factory.mktemp("held"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


@pytest.fixture(autouse=True)
def no_request_is_pending(server):
    """Waits until no request is pending, so that the next test counts its own."""
    yield
    until_pending(server, 0)


def wait_ms(server, limit, key):
    """The wait that the next request would have. A peek itself is answered at once."""
    return server.get(f"/v1/peek/{limit}?key={key}").json["wait_ms"]


def is_after(ms, turns):
    """Whether `ms` is `turns` turns of `slow`, an hour each, less the time of the test."""
    return 0 <= turns * HOUR_MS - ms < 60_000


def send_slow(server, key):
    """A client whose answer is suspended for an hour or more."""
    wire = Wire(server.resp)
    wire.send(encode("WEIR.ACQUIRE", "slow", key))
    return wire


def test_an_answer_is_sent_at_its_turn_and_contains_its_wait(server, key):
    counted, waited = metric(server, "weir_wait_duration_seconds_sum"), []
    begun, turns = time.monotonic(), itertools.count()

    def is_held():
        sent = time.monotonic()
        answer = server.get(f"/v1/acquire/pace?key={key}").json
        now = time.monotonic()
        assert (answer["allowed"], answer["reason"]) == (True, "ok")
        assert now - begun >= next(turns) * TURN
        assert answer["wait_ms"] <= (now - sent) * 1000 + 1
        assert answer["reset_after_ms"] <= TURN * 1000
        waited.append(answer["wait_ms"])
        return answer["wait_ms"] > 0

    for _ in range(3):  # a request later than a turn after the last is not delayed
        until(is_held, "an answer to be held")
    counted = metric(server, "weir_wait_duration_seconds_sum") - counted
    assert counted >= sum(max(ms - 1, 0) for ms in waited) / 1000


def test_pipelined_requests_after_a_suspended_one_stay_in_order(server, key):
    with Wire(server.resp) as wire:
        begun = time.monotonic()
        wire.send(encode("WEIR.ACQUIRE", "pace", key) * 3 + encode("ECHO", "between")
                  + encode("WEIR.ACQUIRE", "pace", key) + encode("WEIR.ACQUIRE", "plain", key)
                  + encode("ECHO", "half")[:-5])
        assert [wire.reply()[0] for _ in range(3)] == [1, 1, 1]
        assert time.monotonic() - begun >= 2 * TURN
        assert wire.reply() == b"between"
        assert wire.reply()[0] == 1
        assert time.monotonic() - begun >= 3 * TURN
        assert wire.reply()[:3] == [1, 9, 8]
        wire.send(encode("ECHO", "half")[-5:])
        assert wire.reply() == b"half"


def test_an_http_connection_continues_or_ends_after_a_suspended_answer(server, key):
    body = json.dumps({"limit": "pace", "key": key}).encode()
    request = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n" + body
    with Wire(server.http) as wire:
        wire.send(request % (len(body), b"") * 2
                  + request % (len(body), b"Connection: close\r\n"))
        answers = wire.rest()
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.count(b'"allowed":true') == 3


def test_a_request_without_time_to_wait_is_answered_at_once(server, key):
    with send_slow(server, key), send_slow(server, key), Wire(server.resp) as wire:
        until_pending(server, 1)
        for words in (["WAIT", 0], ["WAIT", 1000], ["WAIT", HOUR_MS]):
            denied = wire.command("WEIR.ACQUIRE", "slow", key, *words)
            assert (denied[0], denied[5]) == (0, b"wait_too_long")
            assert is_after(denied[3] + words[1], 2)
        assert server.get(f"/v1/acquire/slow?key={key}&wait_ms=0").status == 429
        assert is_after(wait_ms(server, "slow", key), 2)  # and consumed no turn
    for given in (0, HOUR_MS):
        answer = server.get(f"/v1/acquire/pace?key={key}&wait_ms={given}").json
        assert answer["allowed"] and answer["wait_ms"] <= TURN * 1000


def test_a_disconnected_client_releases_its_turn_if_it_was_the_last(server, key):
    before = metric(server, "weir_waits_cancelled_total")
    with send_slow(server, key) as first:  # has the turn of now
        first.reply()
        assert is_after(wait_ms(server, "slow", key), 1)
        with send_slow(server, key):
            until_pending(server, 1)
            with send_slow(server, key) as last:
                until_pending(server, 2)
                last.send(encode("ECHO", "behind"))
                assert is_after(wait_ms(server, "slow", key), 3)
            until_pending(server, 1)
            assert is_after(wait_ms(server, "slow", key), 2)
        until_pending(server, 0)
        assert is_after(wait_ms(server, "slow", key), 1)
    until(lambda: metric(server, "weir_waits_cancelled_total") == before + 2, "both to be counted")


def test_a_disconnected_client_with_later_turns_behind_it_leaves_its_turn_unused(server, key):
    send_slow(server, key).reply()
    first = send_slow(server, key)
    until_pending(server, 1)
    with send_slow(server, key):
        until_pending(server, 2)
        first.__exit__()
        until_pending(server, 1)
        assert is_after(wait_ms(server, "slow", key), 3)
    until_pending(server, 0)
    assert is_after(wait_ms(server, "slow", key), 2)


def test_a_disconnected_client_refunds_all_limits_of_its_rules(server, key):
    attributes = {"path": "/both", "ip": key}
    assert server.post("/v1/acquire", {"attributes": attributes}).json["allowed"]
    with Http(server.http) as client:
        client.connection.request("POST", "/v1/acquire", json.dumps({"attributes": attributes}))
        until_pending(server, 1)
        assert server.get(f"/v1/peek/plain?key={key}").json["remaining"] == 7
    until_pending(server, 0)
    assert server.get(f"/v1/peek/plain?key={key}").json["remaining"] == 8
    assert server.get(f"/v1/peek/watched?key={key}").json["remaining"] == 7  # as the shadow rule counts separately
    assert is_after(wait_ms(server, "slow", key), 1)


def test_rules_in_shadow_mode_delay_no_request(server, key):
    for _ in range(2):
        answer = server.post("/v1/acquire", {"attributes": {"path": "/shade", "ip": key}})
        assert answer.json["allowed"]


def test_requests_at_auth_are_delayed_to_their_turns(server):
    headers = {"X-Forwarded-Uri": "/proxied", "X-Forwarded-Method": "GET"}
    begun = time.monotonic()
    assert [server.get("/auth", headers).status for _ in range(3)] == [200] * 3
    assert time.monotonic() - begun >= 2 * TURN


def test_a_batch_is_answered_at_the_last_of_its_turns(server, key):
    element = {"limit": "pace", "key": key}
    begun = time.monotonic()
    answers = server.post("/v1/batch", [element, element, {"limit": "plain", "key": key}, element,
                                        {**element, "wait_ms": 0}]).json
    assert time.monotonic() - begun >= 2 * TURN
    assert [answer["allowed"] for answer in answers] == [True] * 4 + [False]
    assert [answers[i]["wait_ms"] for i in (0, 1, 3)] == [0, 50, 100]
    assert answers[0]["reset_after_ms"] == 0  # since its turn has passed when the answer is written
    assert answers[4]["reason"] == "wait_too_long"


def test_a_batch_of_a_disconnected_client_releases_its_turns(server, key):
    send_slow(server, key).reply()
    with Http(server.http) as client:
        client.connection.request("POST", "/v1/batch", json.dumps(
            [{"limit": "slow", "key": key}, {"limit": "plain", "key": key},
             {"limit": "slow", "key": key}]))
        until_pending(server, 1)
        assert is_after(wait_ms(server, "slow", key), 3)
    until_pending(server, 0)
    assert is_after(wait_ms(server, "slow", key), 1)
    assert server.get(f"/v1/peek/plain?key={key}").json["remaining"] == 8


def test_a_batch_of_a_disconnected_client_releases_its_permits(server, key):
    send_slow(server, key).reply()
    with Http(server.http) as client:
        client.connection.request("POST", "/v1/batch", json.dumps(
            [{"limit": "place", "key": key}, {"limit": "slow", "key": key}]))
        until_pending(server, 1)
        assert server.get(f"/v1/peek/place?key={key}").json["remaining"] == 0
    until_pending(server, 0)
    assert server.get(f"/v1/peek/place?key={key}").json["remaining"] == 1


def test_a_full_queue_denies_at_once_and_pending_requests_pass_evenly(server, key):
    def ask(_):
        answer = server.get(f"/v1/acquire/brisk?key={key}")
        return time.monotonic() - begun, answer.status, answer.json

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        answers = sorted(clients.map(ask, range(12)), key=lambda answer: answer[0])
    allowed = [when for when, status, _ in answers if status == 200]
    for nth, when in enumerate(allowed):
        assert when >= nth * 0.1
    # Six, and one more for each turn that had passed when the last of them was sent.
    asked = max(when - answer["wait_ms"] / 1000 for when, status, answer in answers if status == 200)
    assert 6 <= len(allowed) <= 6 + (asked + 0.001) / 0.1
    denied = [answer for _, status, answer in answers if status == 429]
    assert len(allowed) + len(denied) == 12
    assert all(answer["reason"] == "queue_full" and not answer.get("wait_ms") for answer in denied)


def test_peeks_and_costs_of_0_are_not_delayed(server, key):
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "queue", key)[0] == 1
        assert wire.command("WEIR.ACQUIRE", "queue", key, "COST", 0)[0] == 1
        assert wire.command("WEIR.PEEK", "queue", key)[0] == 1
        assert wire.command("CL.THROTTLE", key, 0, 1, 3600)[0] == 0
        assert wire.command("CL.THROTTLE", key, 0, 1, 3600)[0] == 1
    assert "wait_ms" not in server.get(f"/v1/acquire/plain?key={key}").json


def test_a_suspended_answer_outlives_the_configuration_of_its_request(serve, key):
    server = serve(config=CONFIG)
    send_slow(server, key).reply()
    without = "".join(line for line in CONFIG.splitlines(True) if "slow" not in line)

    def reload(config):
        server.reload(config)
        server.line_with("reloaded")

    with send_slow(server, key):
        until_pending(server, 1)
        reload(CONFIG)
        reload(CONFIG + "nodes: 2\n")
        with send_slow(server, key):
            until_pending(server, 2)
        until_pending(server, 1)
        assert is_after(wait_ms(server, "slow", key), 2)
    until_pending(server, 0)
    assert is_after(wait_ms(server, "slow", key), 1)
    with send_slow(server, key), Wire(server.resp) as brief:
        until_pending(server, 1)
        brief.send(encode("WEIR.ACQUIRE", "pace", key) * 20)
        reload(without)
        assert [brief.reply()[0] for _ in range(20)] == [1] * 20
    until_pending(server, 0)


def test_a_server_that_stops_answers_requests_due_soon_and_releases_the_others(serve, tmp_path, key):
    flags = ("--store", f"file:{tmp_path / 'state'}", "--capacity", "10000", "--threads", "1")
    server = serve(*flags, config=CONFIG)
    send_slow(server, key).reply()
    with contextlib.ExitStack() as stack, Wire(server.resp) as soon:
        late = []
        for _ in range(2):
            late.append(stack.enter_context(send_slow(server, key)))
            until_pending(server, len(late))
        late[0].send(encode("ECHO", "behind"))
        soon.send(encode("WEIR.ACQUIRE", "pace", key) * 6)
        assert soon.reply()[0] == 1
        server.process.send_signal(signal.SIGTERM)
        assert [wire.rest() for wire in late] == [b"", b""]
        assert soon.reply()[0] == 1
        assert server.process.wait(PATIENCE) == 0
    server = serve(*flags, config=CONFIG)
    assert is_after(wait_ms(server, "slow", key), 1)


@pytest.mark.alone
@pytest.mark.skipif(BUILD.name != "build", reason="a sanitizer takes time and memory of its own")
def test_thousands_of_pending_requests_cost_bounded_memory_and_no_cpu_time(serve, at, key):
    many = 9_900
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < many + 100:
        pytest.skip(f"{limits[1]} descriptors are too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    config = "limits: { slow: { algorithm: pacer, rate: 10/h, slack: 0, max_wait: 8760h } }\n"
    server = serve("--threads", "1", config=at + config)
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(many):
                stack.enter_context(send_slow(server, key))
            until_pending(server, many - 1)
            until_at_rest(server)
            with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
                resident = int(statm.read().split()[1]) * 4096
            assert resident < 64 << 20
            with Wire(server.resp) as other:
                assert other.command("PING") == b"+PONG"
        until_pending(server, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("limit", ["slow", "queue"])
def test_a_cost_that_can_never_pass_within_its_wait_is_an_error(server, key, limit):
    """The last turn of this cost is an hour after its first, also for an unused key."""
    hour = HOUR_MS - 1 if limit == "slow" else 0
    error = server.post("/v1/acquire", {"limit": limit, "key": key, "cost": 2, "wait_ms": hour})
    assert error.status == 400
    assert error.json["error"] == {
        "code": "cost_too_large",
        "message": f"expected a wait of at least {HOUR_MS} ms for a cost of 2 of limit '{limit}', found {hour} ms"}
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", limit, key, "COST", 2, "WAIT", 0).startswith(
            b"-ERR expected a wait of at least")
        assert wire.command("WEIR.ACQUIRE", limit, key, "WAIT", 0)[0] == 1
        assert wire.command("WEIR.ACQUIRE", limit, key, "WAIT", 0)[5] == b"wait_too_long"


def test_a_cost_that_can_never_pass_within_its_wait_is_an_error_by_rules_too(server, key):
    asked = {"attributes": {"path": "/both", "ip": key}, "cost": 2, "wait_ms": 1}
    assert server.post("/v1/acquire", asked).json["error"]["code"] == "cost_too_large"
    assert server.get(f"/v1/peek/plain?key={key}").json["remaining"] == 9
    shadowed = {"attributes": {"path": "/shade", "ip": key}, "cost": 2, "wait_ms": 1}
    assert server.post("/v1/acquire", shadowed).json["allowed"]
