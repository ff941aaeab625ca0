"""A log with latencies and outcomes: weir simulate decides as a live server that is told the same.

Requests and reports come to the server in the order of the log, one after the other, and each report
tells the log's latency. So the two differ only in when things come: at the server up to LATE_NS
later. The log leaves so much room, and more, between each request and whatever time alone changes: the
end of a breaker's sleep, and of its window. A run in which the machine was slower says nothing, and is
made again.

A throttle draws. While nothing is accepted, the chances of its draws follow from the log alone,
so the denials of both are compared with the sum of these.
"""

import heapq
import math
import time

import pytest
import redis
from harness import plain_build_only
from test_simulate import decimal, decisions_of, lines

pytestmark = [plain_build_only, pytest.mark.alone]

MS = 10**6
LATE_NS = 150 * MS
SLEEP_MS = 1500
LIMITS = {
    "calls": f"algorithm: breaker, calls: 40, minimum: 20, sleep: {SLEEP_MS}ms, ramp: 0s",
    "time": f"algorithm: breaker, window: 1h, minimum: 20, sleep: {SLEEP_MS}ms, ramp: 0s, probes: 2, "
            "slow: 70ms, slow_rate: 60%",
    "few": f"algorithm: breaker, max_concurrent: 4, window: 1h, sleep: {SLEEP_MS}ms, ramp: 0s",
    "share": "algorithm: throttle, window: 1h, minimum: 50",
    **{method: f"algorithm: adaptive, method: {method}, initial: 4, min: 2, max: 12"
       for method in ("knee", "gradient2", "aimd")},  # vegas draws, too
}
BREAKERS = ("calls", "time", "few")
HEALTHY, SICK = 80, 400


def log():
    """(at, latency, outcome), times in ms: healthy, failing, then a few at a time."""
    at = 0
    for n in range(HEALTHY):
        at += 7
        yield at, 20 + n * 29 % 61, "ignored" if n % 16 == 9 else "success"
    at += 100
    for n in range(SICK):
        at += 3
        yield at, 11 + n * 17 % 31, ("failure", "timeout", "failure")[n % 3]
    # Breakers opened while it failed, so they sleep until less than this after it: probes that fail.
    for wait, outcome in ((SLEEP_MS + 300, "failure"), (400, "success"), (400, "success")):
        at += wait
        for n in range(3):
            at += 5
            yield at, 20 + n, outcome
    at += SLEEP_MS - 200
    for n in range(60):  # they close
        at += 9
        yield at, 30 + n * 13 % 41, "success"


def ask_live(server, key):
    """Each limit's answers; None: something came too late."""
    found, permits = {name: [] for name in LIMITS}, {}
    events = [(at, n, None) for n, (at, _, _) in enumerate(LOG)]
    heapq.heapify(events)
    with redis.Redis(port=server.resp) as client:
        client.ping()
        begin = time.monotonic_ns()
        while events:
            at, n, report = heapq.heappop(events)
            due = begin + at * MS
            time.sleep(max(due - time.monotonic_ns(), 0) / 10**9)
            pipeline = client.pipeline(transaction=False)
            _, latency, outcome = LOG[n]
            if report:
                for permit in permits.pop(n):
                    pipeline.execute_command("WEIR.REPORT", permit, outcome, latency)
                assert set(pipeline.execute()) <= {b"OK", True}
            else:
                for name in LIMITS:
                    pipeline.execute_command("WEIR.ACQUIRE", name, key)
                answers = pipeline.execute()
                permits[n] = [answer[6] for answer in answers if answer[0]]
                for name, answer in zip(LIMITS, answers, strict=True):
                    found[name].append((bool(answer[0]), answer[2], answer[5].decode()))
                heapq.heappush(events, (at + latency, n, True))
            if time.monotonic_ns() - due > LATE_NS:
                return None
    return found


LOG = list(log())


def chances():
    """Of each request that comes while nothing is accepted any more: that the throttle denies it."""
    accepts = sum(outcome == "success" for _, _, outcome in LOG[:HEALTHY])
    ignored = sum(outcome == "ignored" for _, _, outcome in LOG[:HEALTHY])
    return [max(0, (n - 2 * accepts) / (n + 1))
            for n in range(HEALTHY - ignored, HEALTHY - ignored + SICK)]


def look_at_draws(answers):
    """Nothing is denied while all is well, then so many that a fair draw differs once in a million."""
    assert all(allowed for allowed, *_ in answers[:HEALTHY])
    denied = [not allowed for allowed, *_ in answers[HEALTHY:HEALTHY + SICK]]
    expected = chances()
    assert not any(d for d, chance in zip(denied, expected, strict=True) if chance == 0)
    apart = math.sqrt(SICK * math.log(2e6) / 2)  # Hoeffding's bound
    passes = 3  # one a second, and that took less than two
    assert sum(expected) - apart - passes <= sum(denied) <= sum(expected) + apart
    assert sum(expected) > 2 * apart  # so to deny nothing would fail


def test_a_log_with_outcomes_is_decided_as_by_a_server_that_is_told_them(serve, tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n" + "".join(
        f"  {name}: {{ {parameters} }}\n" for name, parameters in LIMITS.items()))
    start = 1_800_000_000 * 10**9
    simulated = {name: [] for name in LIMITS}
    for line in decisions_of(config, lines(*(
            {"time": decimal(start + at * MS), "user": "one", "latency_ms": latency, "outcome": outcome}
            for at, latency, outcome in LOG)), "--key", "user"):
        simulated[line["limit"]].append((line["allowed"], line["remaining"], line["reason"]))
    server = serve(config=config.read_text())
    for attempt in range(5):
        live = ask_live(server, f"try-{attempt}")
        if live:
            break
    else:
        pytest.fail(f"in each run something came more than {LATE_NS} ns too late")
    for name in LIMITS:
        if name == "share":
            look_at_draws(simulated[name])
            look_at_draws(live[name])
            continue
        for n, (one, other) in enumerate(zip(simulated[name], live[name], strict=True)):
            assert one == other, (name, n, LOG[n])
        assert {allowed for allowed, *_ in live[name]} == {True, False}, name
    for name in BREAKERS:  # closed, open, open after a probe, and closed again
        assert [live[name][n][0] for n in (0, HEALTHY + SICK - 1, -60, -1)] == [True, False, True, True], name
