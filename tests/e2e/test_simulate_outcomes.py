"""`weir simulate` with a log that contains latencies and outcomes, and limits whose requests are reported."""

import heapq
import json
import random
import sys

import pytest
from harness import ROOT, one_thread, weir
from test_simulate import START, S, decimal, decisions_of, lines, ms_up, simulate

sys.path.insert(0, str(ROOT / "tests" / "model"))
import models  # noqa: E402

pytestmark = one_thread


@pytest.fixture
def config(tmp_path):
    return tmp_path / "weir.yaml"


def failing_log(seed, requests):
    """
    Requests of two keys to a backend that fails, is slow and hangs alternately: [(time, key, latency,
    outcome)], at different times. A request without a latency ends at once, one without
    latency and outcome never.
    """
    chance, now = random.Random(seed), START * S
    bad = 0.1
    for n in range(requests):
        if n % 100 == 0:
            bad = chance.choice([0, 0.1, 0.7, 1])
        now += chance.choice([1, chance.randrange(S // 5), chance.randrange(2 * S), chance.randrange(9 * S)])
        if chance.random() > bad:
            end = chance.choice([(chance.randrange(2 * S), "success"), (None, "success"),
                                 (chance.randrange(S // 9), "ignored")])
        else:
            end = chance.choice([(chance.randrange(3 * S), "failure"), (3 * S + n, "timeout"),
                                 (chance.randrange(2 * S, 5 * S), "success"), (None, "failure"),
                                 (None, None), (chance.randrange(S, 200 * S), "success")])
        yield now, chance.choice("ab"), *end


BREAKERS = {
    "plain": ("minimum: 5", {"minimum": 5}),
    "slow": ("minimum: 4, slow: 1900ms, slow_rate: 40%, probes: 3, sleep: 7s, ramp: 20s",
             {"minimum": 4, "slow_ns": 19 * S // 10, "slow_rate": 40, "probes": 3, "sleep_ns": 7 * S,
              "ramp_ns": 20 * S}),
    "calls": ("calls: 20, minimum: 10, permit_timeout: 15s",
              {"calls": 20, "minimum": 10, "permit_timeout_ns": 15 * S}),
    "few": ("max_concurrent: 3, minimum: 3, permit_timeout: 20s",
            {"max_concurrent": 3, "minimum": 3, "permit_timeout_ns": 20 * S}),
    "hystrix": ("preset: hystrix, minimum: 4", {"minimum": 4}),
    "resilience4j": ("preset: resilience4j, calls: 12, minimum: 6, slow: 2s, slow_rate: 60%, sleep: 9s",
                     {"calls": 12, "minimum": 6, "slow_ns": 2 * S, "slow_rate": 60, "sleep_ns": 9 * S}),
}


def report_to_breaker(model, now, permit, outcome, latency):
    model.call("report", now, 1, permit, outcome=outcome, latency_ns=latency)


class Phases:
    """How long models were in each phase, from the call that shows the phase."""

    def __init__(self):
        self.keys, self.sums, self.opened = {}, dict.fromkeys(("open", "half_open", "ramp"), 0), 0

    def begun(self, phase):
        self.opened += phase == "open"

    def note(self, key, model, now):
        phase, begun, since = self.keys.get(key, ("closed", 0, 0))
        if (model.phase, model.since) == (phase, begun):
            return
        self.count(model, phase, now - since)
        self.keys[key] = (model.phase, model.since, now)

    def count(self, model, phase, length):
        if phase in self.sums:
            most = {"open": model.p["sleep_ns"] + models.DAY_NS, "half_open": model.timeout + models.DAY_NS,
                      "ramp": model.p["ramp_ns"]}[phase]
            self.sums[phase] += min(length, most)

    def end(self, models_of, now):
        for key, (phase, _, since) in self.keys.items():
            self.count(models_of[key], phase, now - since)


def replay(log, model_of, report=report_to_breaker, phases=None):
    """The decisions of the models of all keys, which get each report at its time."""
    keys, ends, answers = {}, [], []
    note = phases.note if phases else lambda *_: None

    def end(now):
        while ends and ends[0][0] <= now:
            at, n, key, permit, outcome, latency = heapq.heappop(ends)
            report(keys[key], at, permit, outcome, latency)
            note(key, keys[key], at)

    for n, (now, key, latency, outcome) in enumerate(log):
        end(now)
        permit = {"id": n + 1}
        answer = keys.setdefault(key, model_of()).call("acquire", now, 1, permit)
        answers.append(answer)
        note(key, keys[key], now)
        if answer["allowed"] and outcome:
            heapq.heappush(ends, (now + (latency or 0), n, key, permit, outcome, latency or 0))
    last = max([now, *(at for at, *_ in ends)])
    end(last)
    if phases:
        phases.end(keys, last)
    return answers


def written(log):
    return lines(*({"time": decimal(t), "user": key, **({"latency_ms": f"{latency // 10**6}.{latency % 10**6:06}"}
                                                       if latency is not None else {}),
                    **({"outcome": outcome} if outcome else {})} for t, key, latency, outcome in log))


@pytest.mark.parametrize("name", BREAKERS)
def test_a_breaker_decides_as_its_model_with_a_report_at_each_end(config, name):
    parameters, given = BREAKERS[name]
    config.write_text(f"limits: {{ up: {{ algorithm: breaker, {parameters} }} }}\n")
    log = list(failing_log(name, 4000))
    draw, phases = models.splitmix64(1), Phases()

    def model():
        made = models.breaker(name if name in ("hystrix", "resilience4j") else "none", **given)
        made.draw, begin = draw, made.begin
        made.begin = lambda phase, since: (phases.begun(phase), begin(phase, since))
        return made

    expected = replay(log, model, phases=phases)
    got = decisions_of(config, written(log), "--key", "user")
    for line, answer in zip(got, expected, strict=True):
        assert (line["allowed"], line["reason"], line["remaining"], line["retry_after_ms"], line["reset_after_ms"]) == (
            answer["allowed"], answer["reason"], answer["remaining"], ms_up(answer["retry_after_ns"]),
            ms_up(answer["reset_after_ns"])), line
    assert {"ok", "breaker_open"} <= {line["reason"] for line in got}
    found = simulate(config, written(log), "--key", "user")[0]["limits"]["up"]
    assert found["phases"]["opened"] > 10
    assert found["phases"]["opened"] == phases.opened
    for phase, length in phases.sums.items():
        assert found["phases"][phase + "_ms"] == length // 10**6, phase


def test_permits_are_released_after_the_latency_of_the_log(config):
    config.write_text("limits: { two: { algorithm: concurrency, max: 2, lease: 30s } }\n")
    log = list(failing_log(5, 2000))
    expected = [answer["allowed"] for answer in replay(
        log, lambda: models.Concurrency(2, 30 * S, S), lambda model, now, permit, *_: model.call("refund", now, 1, permit))]
    got = decisions_of(config, written(log), "--key", "user")
    assert [line["allowed"] for line in got] == expected
    assert {True, False} == set(expected)


BREAKER = "limits: { up: { algorithm: breaker, minimum: 2, sleep: 10s, ramp: 0s, permit_timeout: 30s%s } }\n"


def allowed(config, trace, *flags):
    return [line["allowed"] for line in decisions_of(config, trace, *flags)]


def test_the_report_counts_bad_requests_spared_and_good_requests_lost(config):
    config.write_text(BREAKER % "")
    bad, good = {"ip": "a", "latency_ms": 1, "status": 503}, {"ip": "a", "latency_ms": 1, "status": 200}
    log = [bad, bad, bad, good, bad, {"ip": "a", "latency_ms": 1, "outcome": "ignored"}]
    trace = lines(*({"time": START + n, **request} for n, request in enumerate(log)))
    report, _ = simulate(config, trace)
    assert report["limits"]["up"]["ends"] == {"denied": {"good": 1, "bad": 2, "neither": 1},
                                              "passed": {"good": 0, "bad": 2, "neither": 0}}
    text = weir("simulate", "-c", config, "--trace", config.parent / "trace").stdout
    assert "limit            bad spared good lost bad passed good passed  opened    open half-open    ramp\n" \
           "up                        2         1          2           0       1     4 s         -       -\n" in text


def test_slow_calls_are_bad_for_a_breaker_with_slow(config):
    config.write_text(BREAKER % ", slow: 100ms")
    trace = lines(*({"time": START + n, "ip": "a", "latency": latency, "status": 200}
                    for n, latency in enumerate(["101ms", 0.2, "0.3s", 0.01])))
    report, _ = simulate(config, trace)
    assert report["limits"]["up"]["ends"] == {"denied": {"good": 1, "bad": 1, "neither": 0},
                                              "passed": {"good": 0, "bad": 2, "neither": 0}}


def nginx(second, behind, status=200):
    return (f'192.0.2.1 - - [15/Jan/2027:08:{second // 60:02}:{second % 60:02} +0000] "GET / HTTP/1.1" {status} 5 '
            f'"-" "curl/8 0.001" {behind}\n')


@pytest.mark.parametrize("behind, took_ms, upstream_ms", [
    ("0.250", 250, 250), ("1234 2.500 [web] 10.0.0.1:80 0.125", 2500, 125),
    ('"203.0.113.9, 10.0.0.1" rt=1.500 uct="0.001" urt="0.100, 0.250 : 0.050"', 1500, 400),
    ("3.000 0.100, 0.200", 3000, 300), ("4.000 - upstream_response_time=-", 4000, 4000),
    ('1700000000.123 "x 0.999 \\" y" request_time=2.000 a=b', 2000, 2000)])
def test_a_log_of_nginx_gives_the_end_and_both_latencies_of_a_request(
        config, behind, took_ms, upstream_ms):
    """The permit of the first request is released when its upstream has answered, not before."""
    config.write_text("limits: { one: { algorithm: concurrency, max: 1 } }\n")
    assert START % 86400 == 8 * 3600
    begin = 60_000 - took_ms
    after = [begin + upstream_ms - 1, begin + upstream_ms]
    # The log's times are whole seconds; by their latencies the others start at the wanted millisecond.
    trace = nginx(60, behind) + "".join(
        nginx(at // 1000 + 7, f"{7 - at % 1000 / 1000:.3f} 0.000" if at % 1000 else "7.000 0.000") for at in after)
    got = decisions_of(config, trace)
    assert [(int(round(line["time"] * 1000)) - START * 1000, line["allowed"]) for line in got] == [
        (begin, True), (after[0], False), (after[1], True)]


def test_the_three_formats_give_the_same_outcomes(config):
    config.write_text(BREAKER % "")
    status = [200, 504, 499, 200, 500, 302, 404]
    combined = "".join(nginx(n, "0.250", s) for n, s in enumerate(status, 1))
    times = [f"{START + n}.75" for n in range(len(status))]
    json_lines = lines(*({"time": t, "ip": "192.0.2.1", "latency": 0.25, "status": str(s)}
                         for t, s in zip(times, status)))
    csv = "time,ip,latency_ms,outcome,status\n" + "".join(
        f"{t},192.0.2.1,250,{'' if n % 2 else 'success' if s < 499 else 'failure'},{s}\n"
        for n, (t, s) in enumerate(zip(times, status)))
    json_nginx = lines(*({"time": START + n, "ip": "192.0.2.1", "request_time": "0.250", "status": s}
                         for n, s in enumerate(status, 1)))
    found = [decisions_of(config, trace) for trace in (combined, json_lines, csv, json_nginx)]
    assert found[0] == found[1] == found[2] == found[3]
    assert [line["allowed"] for line in found[0]] == [True] * 2 + [False] * 5


def test_permits_without_an_end_in_the_log_time_out(config):
    config.write_text(BREAKER % "")
    trace = lines({"time": START, "ip": "a", "latency_ms": 1}, {"time": START + 1, "ip": "a"},
                  {"time": START + 2, "ip": "a"}, {"time": START + 3, "ip": "a"},
                  # The three unended permits time out together, 30 s after the last of them.
                  {"time": START + 32.9, "ip": "a"}, {"time": START + 33, "ip": "a"},
                  {"time": START + 42.9, "ip": "a"}, {"time": START + 43, "ip": "a"})
    assert allowed(config, trace) == [True] * 5 + [False, False, True]
    report, _ = simulate(config, trace)
    assert report["endings"] == {"wrong": 0, "no_latency": 0, "no_outcome": 1, "no_end": 7, "early": 0, "unheld": 0}
    text = weir("simulate", "-c", config, "--trace", config.parent / "trace").stdout
    assert "7 requests had neither, and were never reported\n" in text


HOSTILE = [
    ({"latency_ms": -1, "status": 200}, "wrong no_latency"), ({"latency_ms": "1e400", "status": 200}, "wrong no_latency"),
    ({"latency_ms": 9e9, "status": 200}, "wrong no_latency"), ({"latency": "NaN", "status": 503}, "wrong no_latency"),
    ({"latency": "-5ms"}, "wrong no_end"), ({"latency": "ms", "outcome": "success"}, "wrong no_latency"),
    ({"latency_ms": "86400001", "latency": 1, "status": 200}, "wrong"),
    ({"latency_ms": 5, "outcome": "SUCCESS"}, "wrong no_outcome"), ({"latency_ms": 5, "status": 42}, "wrong no_outcome"),
    ({"latency_ms": 5, "status": "99999999999999999999"}, "wrong no_outcome"),
    ({"latency_ms": 5, "outcome": "odd", "status": 200}, "wrong"),
    ({"upstream_response_time": "0.1, 0.2 : x", "status": 200}, "wrong no_latency"),
    ({"upstream_response_time": "80000, 80000", "status": 200}, "wrong no_latency"),
    ({"request_time": "-3", "status": 200}, "wrong no_latency"), ({"latency_ms": "-", "status": ""}, "no_end"),
    ({"latency_ms": [1], "status": {"x": 1}}, "no_end"), ({}, "no_end"),
    ({"latency_ms": 0, "status": 200}, ""), ({"latency_ms": 86400000, "status": 200}, ""),
]


@pytest.mark.parametrize("fields, counted", HOSTILE)
def test_invalid_latencies_and_outcomes_are_counted_and_reported(config, fields, counted):
    config.write_text(BREAKER % "")
    trace = lines({"time": START, "ip": "a", "latency_ms": 1, "outcome": "success"}, {"time": START, "ip": "a", **fields})
    report, _ = simulate(config, trace)
    assert {name for name, n in report["endings"].items() if n} == set(counted.split())
    assert report["limits"]["up"]["allowed"] == 2


def test_a_flood_of_long_requests_ends_early_with_a_warning(config):
    """More requests are in flight than memory is reserved for, so the first to end is ended early."""
    config.write_text("limits: { up: { algorithm: breaker, permit_timeout: 1h, window: 1h } }\n")
    n = 2**18 + 1000
    trace = "time,ip,latency,status\n" + f"{START},a,600,200\n" * n + f"{START + 1},a,1,200\n"
    report, _ = simulate(config, trace, "--capacity", "400000")
    assert report["endings"]["early"] == 1001
    assert report["limits"]["up"]["allowed"] == n + 1


def test_a_breaker_beside_a_limit_is_all_or_nothing(config):
    """A request that the bucket denies is no call, so the breaker's only probe stays available."""
    config.write_text("""
limits:
  up: { algorithm: breaker, minimum: 1, sleep: 5s, ramp: 0s }
  bucket: { algorithm: token_bucket, rate: 1/h, burst: 1 }
rules:
  - { key: [service], limits: [up] }
  - { match: { user: "*" }, key: [user], limits: [bucket] }
""")
    request = {"service": "s", "latency_ms": 1}
    trace = lines({"time": START, **request, "user": "u", "status": 500},
                  {"time": START + 4.9, **request, "status": 200},
                  {"time": START + 6, **request, "user": "u", "status": 500},
                  {"time": START + 6.5, **request, "status": 200},
                  {"time": START + 7, **request, "status": 200})
    report, _ = simulate(config, trace)
    assert (report["limits"]["up"]["denied"], report["limits"]["bucket"]["denied"]) == (1, 1)
    assert (report["allowed"], report["denied"]) == (3, 2)
    assert report["limits"]["up"]["ends"] == {"denied": {"good": 1, "bad": 0, "neither": 0},
                                              "passed": {"good": 2, "bad": 1, "neither": 0}}


def test_only_a_log_with_latencies_simulates_limits_on_requests_in_flight(config):
    config.write_text(BREAKER % "")
    for log in ({"time": START, "status": 500}, {"time": START, "latency_ms": "x"}, {"time": START, "latency": -1}):
        _, said = simulate(config, lines(log), fails=True)
        assert "found none: the log does not tell how long requests took" in said
    # One of the first lines with a latency is enough.
    for first in ("", '{"time":1}\n', "nonsense\n", '{"time":1,"latency":"\\u0035"}\n'):
        log = '{"time":1,"ip":"\\u0061"}\n' + first + '{"time":2,"ip":"\\u0061","latency":1}\n'
        report, said = simulate(config, log, "--format", "jsonl")
        assert report["limits"]["up"]["keys"] == 1 + ("ip" not in first and '"' in first), said


def test_a_log_with_latencies_on_standard_input_simulates_them_too(config):
    import subprocess

    from harness import PATIENCE, WEIR
    config.write_text(BREAKER % "")
    done = subprocess.run([WEIR, "simulate", "-c", config, "--trace", "-", "--json"], timeout=PATIENCE, check=True,
                          input=lines({"time": START, "ip": "a", "latency_ms": 1}).encode(), capture_output=True)
    assert json.loads(done.stdout)["limits"]["up"]["allowed"] == 1


def test_latency_and_outcome_are_also_attributes_for_rules(config):
    config.write_text("""
limits: { up: { algorithm: breaker, minimum: 1 }, seldom: { algorithm: token_bucket, rate: 1/h, burst: 1 } }
rules:
  - { match: { status: 500 }, key: [status], limits: [up] }
  - { match: { latency_ms: ">100" }, key: [outcome], limits: [seldom] }
""")
    trace = lines(*({"time": START + n, "latency_ms": latency, "status": status, "outcome": "failure"}
                    for n, (latency, status) in enumerate([(5, 500), (5, 500), (200, 200), (200, 200), (5, 200)])))
    report, _ = simulate(config, trace)
    assert (report["limits"]["up"]["denied"], report["limits"]["seldom"]["denied"], report["unlimited"]) == (1, 1, 1)


def test_the_text_report_shows_phases_over_time(config):
    config.write_text("limits: { up: { algorithm: breaker, minimum: 5, sleep: 16s, ramp: 16s } }\n")
    trace = lines(*({"time": START + n, "ip": "a", "latency_ms": 1, "status": 500 if n < 16 else 200} for n in range(64)))
    config.with_name("trace").write_text(trace)
    text = weir("simulate", "-c", config, "--trace", config.with_name("trace")).stdout
    assert f"  phase  |    {'o' * 17}{'r' * 17}{' ' * 26}|\n" in text
