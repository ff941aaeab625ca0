"""`weir simulate` decides a log with latencies and outcomes as a live server does.

The test sends requests and reports to the server in the order of the log, one after the other, and each report
has the log's latency. The two differ only in the times of arrival, which at the server are up to LATE_NS
later. The log has longer gaps than that between each request and each change by time alone: the
end of a breaker's sleep, and of its window. A run on a machine that was slower proves nothing, and is
repeated.

A throttle draws random numbers. While nothing is accepted, its probabilities follow from the log alone,
so the denials of both are compared with their sum.
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
       for method in ("knee", "gradient2", "aimd")},  # not vegas, which is random as well
}
BREAKERS = ("calls", "time", "few")
HEALTHY, SICK = 80, 400


def log():
    """[(at, latency, outcome)] with times in ms: first healthy, then failing, then a few requests."""
    at = 0
    for n in range(HEALTHY):
        at += 7
        yield at, 20 + n * 29 % 61, "ignored" if n % 16 == 9 else "success"
    at += 100
    for n in range(SICK):
        at += 3
        yield at, 11 + n * 17 % 31, ("failure", "timeout", "failure")[n % 3]
    # Breakers opened during the failures, so their sleep ends before these probes, the first of which fails.
    for wait, outcome in ((SLEEP_MS + 300, "failure"), (400, "success"), (400, "success")):
        at += wait
        for n in range(3):
            at += 5
            yield at, 20 + n, outcome
    at += SLEEP_MS - 200
    for n in range(60):  # these close the breakers
        at += 9
        yield at, 30 + n * 13 % 41, "success"


def ask_live(server, key):
    """{limit: answers}, or None if a request was too late."""
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
    """The probability that the throttle denies each request after the last accepted one."""
    accepts = sum(outcome == "success" for _, _, outcome in LOG[:HEALTHY])
    ignored = sum(outcome == "ignored" for _, _, outcome in LOG[:HEALTHY])
    return [max(0, (n - 2 * accepts) / (n + 1))
            for n in range(HEALTHY - ignored, HEALTHY - ignored + SICK)]


def check_draws(answers):
    """Checks that nothing is denied at first, and that later denials are within a one-in-a-million deviation."""
    assert all(allowed for allowed, *_ in answers[:HEALTHY])
    denied = [not allowed for allowed, *_ in answers[HEALTHY:HEALTHY + SICK]]
    expected = chances()
    assert not any(d for d, chance in zip(denied, expected, strict=True) if chance == 0)
    apart = math.sqrt(SICK * math.log(2e6) / 2)  # Hoeffding's bound
    passes = 3  # one a second, and the test takes less than two
    assert sum(expected) - apart - passes <= sum(denied) <= sum(expected) + apart
    assert sum(expected) > 2 * apart  # so that denying nothing would fail


def test_a_log_with_outcomes_is_decided_as_by_a_live_server(serve, tmp_path):
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
            check_draws(simulated[name])
            check_draws(live[name])
            continue
        for n, (one, other) in enumerate(zip(simulated[name], live[name], strict=True)):
            assert one == other, (name, n, LOG[n])
        assert {allowed for allowed, *_ in live[name]} == {True, False}, name
    for name in BREAKERS:  # closed, open, open after a failed probe, and closed again
        assert [live[name][n][0] for n in (0, HEALTHY + SICK - 1, -60, -1)] == [True, False, True, True], name
