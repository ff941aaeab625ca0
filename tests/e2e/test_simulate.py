"""`weir simulate`: its decisions equal those of models and of the server, and its report, errors and output."""

import datetime
import json
import random
import re
import subprocess
import sys
import time
from fractions import Fraction

import pytest
from harness import PATIENCE, ROOT, WEIR, Server, one_thread, plain_build_only, weir

sys.path.insert(0, str(ROOT / "tests" / "model"))
import models  # noqa: E402

pytestmark = one_thread

S = 10**9
START = 1_800_000_000  # a whole minute
LIMITS = """
limits:
  bucket: { algorithm: token_bucket, rate: 3/s, burst: 5 }
  leaky: { algorithm: leaky_bucket, rate: 7/10s, capacity: 4 }
  first: { algorithm: fixed_window, rate: 4/2s, align: first_request }
  reset: { algorithm: resetting_bucket, rate: 5/3s }
  minute: { algorithm: fixed_window, rate: 10/m }
  slots: { algorithm: sliding_window, rate: 6/3s }
  log: { algorithm: sliding_log, rate: 6/3s }
  daily: { algorithm: base, base: 20, rate: 2/5s, timezone: America/Anchorage }
"""
ZONE_NS = -9 * 3600 * S  # in this zone the trace passes midnight
MODELS = {
    "bucket": lambda: models.Bucket(3, S, 5),
    "leaky": lambda: models.Bucket(7, 10 * S, 4),
    "first": lambda: models.first_request(4, 2 * S),
    "reset": lambda: models.first_request(5, 3 * S),
    "minute": lambda: models.Window(10, lambda now: (now // (60 * S) + 1) * 60 * S, 60 * S * 9 // 8),
    "slots": lambda: models.SlidingWindow(6, 3 * S),
    "log": lambda: models.SlidingLog(6, 3 * S),
    "daily": lambda: models.Base(
        20, 2, 5 * S, lambda now: models.end_of_utc_day(now + ZONE_NS) - ZONE_NS),
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text(LIMITS)
    return path


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def simulate(config, trace, *flags, fails=False):
    """(report, standard error)"""
    path = config.parent / "trace"
    path.write_bytes(trace if isinstance(trace, bytes) else trace.encode())
    done = weir("simulate", "-c", config, "--trace", path, "--json", *flags)
    assert (done.returncode != 0) == fails, done
    return None if fails else json.loads(done.stdout), done.stderr


def decisions_of(config, trace, *flags):
    out = config.parent / "decisions"
    simulate(config, trace, "--decisions", out, *flags)
    return [json.loads(line, parse_float=Fraction) for line in out.read_text().splitlines()]


def decimal(time_ns):
    return f"{time_ns // S}.{time_ns % S:09d}"


def random_trace(seed, requests):
    """[(time in ns, key, cost)] with bursts, pauses, equal times, and times a nanosecond apart."""
    chance, now = random.Random(seed), START * S
    for _ in range(requests):
        now += chance.choice([0, 0, 1, chance.randrange(S), chance.randrange(4 * S), S // 3, 20 * S])
        yield now, chance.choice("abc"), chance.choice([1, 1, 1, 2, 3])


def ms_up(ns):
    return -(-ns // 10**6)


@pytest.mark.parametrize("seed", [1, 2])
def test_decisions_equal_those_of_the_models(config, seed):
    trace = list(random_trace(seed, 1500))
    text = "time,user,cost\n" + "".join(f"{decimal(t)},{k},{c}\n" for t, k, c in trace)
    states, expected = {}, []
    for n, (now, key, cost) in enumerate(trace):
        for limit, model in MODELS.items():
            answer = states.setdefault((limit, key), model()).call("acquire", now, cost)
            reason = answer["reason"]
            if limit in ("bucket", "leaky") and reason == "hit_quota":
                reason = "ok"
            expected.append({
                "n": n, "time": Fraction(now, S), "limit": limit, "key": key,
                "allowed": answer["allowed"], "remaining": answer["remaining"],
                "retry_after_ms": ms_up(answer["retry_after_ns"]),
                "reset_after_ms": ms_up(answer["reset_after_ns"]), "reason": reason})
    got = decisions_of(config, text, "--key", "user")
    assert got == expected
    assert len({(d["limit"], d["allowed"]) for d in got}) == 2 * len(MODELS)


RULES = """
limits:
  login: { algorithm: token_bucket, rate: 3/h, burst: 3 }
  all: { algorithm: fixed_window, rate: 8/h, align: first_request }
  trial: { algorithm: token_bucket, rate: 1/h, burst: 1 }
  daily: { algorithm: base, base: 12, rate: 3/h }
  guest: { algorithm: fixed_window, rate: 6/h, align: first_request }
rules:
  - { name: staff, match: { ip: 10.0.0.0/8 }, answer: allow }
  - { name: login, match: { path: /login* }, key: [ip, user], limits: [login] }
  - { name: daily, match: { method: GET }, key: [user], limits: [daily] }
  - { name: guests, match: { user: "!*" }, key: [ip], limits: [guest] }
  - { name: all, key: [ip], limits: [all] }
  - { name: trial, match: { method: POST }, key: [ip], limits: [trial], mode: shadow }
"""


def test_rules_decide_as_in_the_server(tmp_path):
    """Periods are an hour, so that nothing refills in the server meanwhile."""
    chance = random.Random(5)
    requests = [{"ip": chance.choice(["1.1.1.1", "2.2.2.2", "10.1.1.1"]),
                 "path": chance.choice(["/login", "/login/x", "/"]),
                 **chance.choice([{"user": "a"}, {"user": "b"}, {"user": ""}, {}]), "method": chance.choice(["GET", "POST"])}
                for _ in range(200)]
    server = Server(config=RULES, directory=tmp_path)
    try:
        live = [server.post("/v1/acquire", {"attributes": attributes}).json for attributes in requests]
    finally:
        assert server.stop() == 0
    (tmp_path / "rules.yaml").write_text(RULES)
    trace = lines(*({"time": START + n / 1000, **r} for n, r in enumerate(requests)))
    decided = {}
    for line in decisions_of(tmp_path / "rules.yaml", trace):
        if "shadow" not in line:
            decided.setdefault(line["n"], []).append(line)
    for n, answer in enumerate(live):
        # A denied request has the line of the limit that denied it, an allowed one those of all limits.
        mine = decided.get(n, [])
        assert answer["allowed"] == all(line["allowed"] for line in mine)
        assert (answer["reason"] == "listed") == (not mine)
        if mine:
            tightest = min(mine, key=lambda line: line["remaining"])
            assert (answer["limit"], answer["remaining"], answer["reason"]) == \
                (tightest["limit"], tightest["remaining"], tightest["reason"])
    report, _ = simulate(tmp_path / "rules.yaml", trace)
    assert report["allowed"] == sum(answer["allowed"] for answer in live)
    assert report["denied"] == 200 - report["allowed"] > 0
    assert report["unlimited"] == sum(answer["reason"] == "listed" for answer in live) > 0
    trial = report["limits"]["trial"]
    assert trial["denied"] > 0 and trial["shadow"] is True
    assert [name for name, limit in report["limits"].items() if "shadow" in limit] == ["trial"]
    assert report["shadow"] == {"trial": {"asked": trial["allowed"] + trial["denied"], "denied": trial["denied"]}}
    guests = {line["n"] for line in decisions_of(tmp_path / "rules.yaml", trace)
              if line["limit"] == "guest"}
    assert guests and all(not requests[n].get("user") for n in guests)


FIRST = """
order: first
limits:
  trusted: { algorithm: fixed_window, rate: 6/h, align: first_request }
  login: { algorithm: token_bucket, rate: 4/h, burst: 4 }
  tried: { algorithm: fixed_window, rate: 3/h, align: first_request }
  places: { algorithm: concurrency, max: 50 }
rules:
  - { name: banned, match: { user: b, method: POST }, answer: deny }
  - { name: trial, match: { method: GET }, key: [ip], limits: [tried], mode: shadow }
  - { name: many, match: { ip: 1.1.1.1 }, key: [ip, user], limits: [trusted], answer: allow }
  - { name: logins, match: { path: /login* }, key: [user], limits: [login] }
  - { name: flight, match: { path: / }, limits: [places], answer: allow }
  - { name: staff, match: { ip: 10.0.0.0/8 }, answer: allow }
"""


def test_with_first_match_rules_decide_as_in_the_server_and_the_report_says_so(tmp_path):
    """Concurrency limits are left out, and so are the answers of their rules."""
    chance = random.Random(7)
    requests = [{"ip": chance.choice(["1.1.1.1", "2.2.2.2", "10.1.1.1"]), "user": chance.choice("ab"),
                 "path": chance.choice(["/login", "/x", "/"]), "method": chance.choice(["GET", "POST"])}
                for _ in range(150)]
    server = Server(config=FIRST, directory=tmp_path)
    try:
        live = [server.post("/v1/acquire", {"attributes": attributes}).json for attributes in requests]
    finally:
        assert server.stop() == 0
    path = tmp_path / "rules.yaml"
    path.write_text(FIRST)
    trace = lines(*({"time": START + n / 1000, **r} for n, r in enumerate(requests)))
    report, said = simulate(path, trace)
    assert "places" in said
    assert (report["allowed"], report["denied"]) == (
        sum(answer["allowed"] for answer in live), sum(not answer["allowed"] for answer in live))
    answered = [answer["rule"] for answer in live if answer["reason"] == "listed"]
    assert report["answered"] == {rule: answered.count(rule) for rule in sorted(set(answered))}
    assert set(answered) == {"banned", "many", "staff"}
    denied = {line["n"] for line in decisions_of(path, trace)
              if not line["allowed"] and line["limit"] == "login" and "shadow" not in line}
    assert denied == {n for n, answer in enumerate(live) if answer["limit"] == "login" and not answer["allowed"]}
    assert denied and report["limits"]["tried"]["denied"] > 0
    text = weir("simulate", "-c", path, "--trace", path.parent / "trace").stdout
    summary = ", ".join(f'{answered.count(rule)} {"denied" if rule == "banned" else "allowed"} by "{rule}"'
                     for rule in ("banned", "many", "staff"))
    assert f"\nwithout a limit: {summary}\n" in text


def test_rules_in_shadow_mode_are_marked_as_such(tmp_path):
    config, trace = tmp_path / "weir.yaml", lines(*({"time": START, "ip": "a"} for _ in range(1000)))
    config.write_text("""
limits: { login: { algorithm: fixed_window, rate: 5000/m }, trial: { algorithm: fixed_window, rate: 828/m },
          more: { algorithm: fixed_window, rate: 800/m } }
rules:
  - { name: login, key: [ip], limits: [login] }
  - { name: stricter, key: [ip], limits: [trial, more, login], mode: shadow }
""")
    report, _ = simulate(config, trace)
    limits = report["limits"]
    # A request counts once for a rule, whichever of its limits would have denied it.
    assert report["shadow"] == {"stricter": {"asked": 1000, "denied": 200}}
    assert {name: limit.get("shadow") for name, limit in limits.items()} == {
        "login": None, "trial": True, "more": True}
    assert limits["login"]["partly_shadow"] is True and limits["trial"]["denied"] == 172
    text = weir("simulate", "-c", config, "--trace", tmp_path / "trace").stdout
    assert 'shadow: "stricter" would have denied 200 of 1000 requests (20%)' in text
    rows = re.findall(r"^(login|trial|more)( \((?:partly )?shadow\))? +\d", text, re.M)
    assert rows == [("login", " (partly shadow)"), ("trial", " (shadow)"), ("more", " (shadow)")]
    assert "\ntrial (shadow): algorithm fixed_window" in text
    assert "denied 17% of requests" in text
    # Each limit alone decides all requests, whatever the mode of its rules.
    report, _ = simulate(config, trace, "--limit", "trial")
    assert "shadow" not in report and "shadow" not in report["limits"]["trial"]


KOALA = """[rules]
rule : [direct] [uid=7] [] [result=2; return=101]
rule : [count] [act=ask; uid=+] [time=60; count=2] [result=2; return=111]
rule : [count] [act=vote; uid=+] [time=60; count=2] [result=2; return=112]
[result]
0 : {}
1 : {}
2 : {}
"""


def test_limits_without_requests_have_no_chart(tmp_path):
    path = tmp_path / "rules.conf"
    path.write_text(KOALA)
    trace = lines(*({"time": START + i, "act": "ask", "uid": i % 2 + 7} for i in range(8)))
    report, _ = simulate(path, trace)
    assert (report["answered"], report["limits"]["112"]["timeline"]["asked"]) == ({"101": 4}, [])
    text = weir("simulate", "-c", path, "--trace", tmp_path / "trace").stdout
    assert re.findall(r"^(\d+): algorithm", text, re.M) == ["111"]
    assert re.findall(r"^(\d+) +(\d+) +(\d+) ", text, re.M) == [("111", "2", "2"), ("112", "0", "0")]
    assert text.count("asked  |") == text.count("denied |") == 1


def test_only_charged_requests_without_a_part_of_their_key_are_reported(tmp_path):
    """Requests that match no rule with such a key are not missing an attribute."""
    path = tmp_path / "rules.conf"
    path.write_text(KOALA)
    trace = lines({"time": START, "act": "ask"}, {"time": START, "act": "ask", "uid": ""},
                  {"time": START, "act": "browse", "uid": "1"}, {"time": START, "act": "ask", "uid": "1"})
    report, _ = simulate(path, trace)
    assert (report["without"], report["unlimited"]) == ({}, 3)
    assert "they share a key" not in weir("simulate", "-c", path, "--trace", tmp_path / "trace").stdout
    path = tmp_path / "rules.yaml"
    path.write_text("limits: { l: { algorithm: token_bucket, rate: 1/s } }\n"
                    "rules: [{ match: { act: ask }, key: [uid, ip], limits: [l] }]\n")
    assert simulate(path, trace)[0]["without"] == {"uid": 2, "ip": 3}


def test_a_file_whose_rules_answer_by_themselves_can_be_simulated(tmp_path):
    path = tmp_path / "rules.conf"
    path.write_text("".join(line for line in KOALA.splitlines(True) if "[count]" not in line))
    trace = lines({"time": START, "uid": 7}, {"time": START, "uid": 8})
    report, _ = simulate(path, trace)
    assert (report["allowed"], report["denied"], report["answered"], report["limits"]) == (1, 1, {"101": 1}, {})
    text = weir("simulate", "-c", path, "--trace", tmp_path / "trace").stdout
    assert 'by the rules 1 allowed, 1 denied; 1 under no limit\nwithout a limit: 1 denied by "101"\n' in text
    assert "expected limits in the file" in weir("simulate", "-c", path, "--pattern", "steady").stderr


def combined(ip, second, request="GET /a?b=c HTTP/1.1", zone="+0000"):
    day = datetime.datetime.fromtimestamp(START + second, datetime.timezone.utc)
    return f'{ip} - - [{day:%d/%b/%Y:%H:%M:%S} {zone}] "{request}" 200 5 "-" "x \\x22y\\x22"\n'


def test_the_three_formats_give_the_same_report(config):
    records = [(f"192.0.2.{i % 3}", i // 4) for i in range(60)]
    traces = {
        "combined": "".join(combined(*record) for record in records),
        "jsonl": lines(*({"ip": ip, "time": START + t, "x": {"y": ["}"]}} for ip, t in records)),
        "csv": "\ufeffip,time\r\n" + "".join(f'"{ip}",{START + t}\r\n' for ip, t in records),
    }
    reports = [simulate(config, trace, *flags)[0]["limits"] for name, trace in traces.items()
               for flags in ((), ("--format", name))]
    assert all(report == reports[0] for report in reports)
    assert reports[0]["minute"]["allowed"] == 30 == reports[0]["minute"]["denied"]
    assert reports[0]["minute"]["keys"] == 3


def test_keys_and_paths_of_a_combined_log_are_those_that_the_server_sees(config):
    trace = (combined("1.1.1.1", 0, "GET /a\\x22b?x=1 HTTP/1.1") + combined("1.1.1.1", 0, "\\x16\\x03")
             + combined("1.1.1.1", 7200, "POST /c HTTP/1.1", zone="+0200"))
    got = decisions_of(config, trace, "--limit", "bucket", "--key", "path")
    assert [(d["key"], d["time"]) for d in got] == [('/a"b', START), ("", START), ("/c", START)]


@pytest.mark.parametrize("count", [100, 200, 3000])
def test_in_a_log_in_whole_seconds_a_period_ends_for_all_requests_of_a_second(config, count):
    config.write_text(f"limits:\n  log: {{ algorithm: sliding_log, rate: {count}/m }}\n")
    rounds = [(0, count), (59, 2), (60, count + 1), (119, 1), (120, count)]
    trace = "".join(combined("1.1.1.1", second, "GET /") * n for second, n in rounds)
    limit = simulate(config, trace)[0]["limits"]["log"]
    assert (limit["allowed"], limit["denied"]) == (3 * count, 4)
    assert limit["worst"]["granted"] == count


def test_the_worst_period_is_found_between_windows(config):
    """Ten requests at the end of a minute and ten at the start of the next are twenty in a second."""
    times = [START + 59.5] * 10 + [START + 60.2] * 10 + [START + 300] * 3
    report, _ = simulate(config, lines(*({"time": t, "ip": "a"} for t in times)), "--limit", "minute")
    limit = report["limits"]["minute"]
    assert (limit["allowed"], limit["denied"], limit["keys"]) == (23, 0, 1)
    worst = limit["worst"]
    assert (worst["granted"], worst["declared"], worst["ratio"]) == (20, 10, 2.0)
    assert (worst["key"], worst["at"], worst["estimated_keys"]) == ("a", START + 60.2, 0)


WAITING = """
limits:
  pace: { algorithm: pacer, rate: 10/s, slack: 0, max_wait: 4s }
  queue: { algorithm: leaky_queue, rate: 10/s, capacity: 20 }
  plain: { algorithm: token_bucket, rate: 10/s }
"""


def test_paced_requests_pass_at_their_turns_and_their_waits_are_measured(config):
    """A hundred requests arrive at once, and ten pass in each second. Requests with a cost of 0 do not wait."""
    config.write_text(WAITING)
    one = {"time": START, "ip": "a"}
    trace = lines(one, {**one, "cost": 0}, *[one] * 99)
    limits = simulate(config, trace)[0]["limits"]
    for name, passed, longest in (("pace", 41, 4000), ("queue", 21, 2000)):
        limit, waits = limits[name], limits[name]["wait_ms"]
        assert (limit["allowed"], limit["denied"]) == (passed + 1, 100 - passed)
        assert (waits["waited"], waits["max"]) == (passed - 1, longest)
        assert waits["mean"] == longest / 2
        assert waits["p50"] == pytest.approx(longest / 2, rel=0.01)
        assert waits["p99"] == pytest.approx(longest, rel=0.01)
        # Counted at their turns, not at their arrivals.
        assert limit["worst"]["granted"] == 10
        series = limit["timeline"]
        assert (sum(series["asked"]), sum(series["passed"])) == (101, passed + 1)
        assert [n for n in series["passed"] if n] == [2] + [1] * (passed - 1)
        assert (len(series["passed"]) - 1) * series["width"] == longest / 1000
    assert "wait_ms" not in limits["plain"]
    path = config.parent / "trace"
    rows = weir("simulate", "-c", config, "--trace", path).stdout.splitlines()
    assert [row.split()[:2] for row in rows[rows.index("") + 1:][5:8]] == [
        ["limit", "waited"], ["pace", "40"], ["queue", "20"]]


def test_the_same_log_gives_the_same_report(config):
    config.write_text("limits: { half: { algorithm: random, deny: 0.5 } }")
    trace = lines(*({"time": START + i, "ip": "a"} for i in range(200)))
    reports = [simulate(config, trace)[0] for _ in range(2)]
    assert reports[0] == reports[1]
    assert (reports[0]["from"], reports[0]["to"]) == (START, START + 199)


def test_the_lowest_priorities_of_the_last_ten_seconds_are_shed(config):
    """18 of 60 requests a second are denied, and 20 have the lowest priority."""
    config.write_text("limits: { low: { algorithm: random, deny: 0.3 } }\nrules:\n"
                      "  - { match: { kind: prefetch }, limits: [low], priority: 9 }\n"
                      "  - { match: { kind: page }, limits: [low] }\n")
    kinds = ["prefetch", "page", "page"] * 1000
    trace = lines(*({"time": START + i // 60, "kind": kind} for i, kind in enumerate(kinds)))
    decisions = config.parent / "decisions"
    report = simulate(config, trace, "--decisions", decisions)[0]
    denied = [json.loads(line)["n"] % 3 for line in decisions.read_text().splitlines()
              if not json.loads(line)["allowed"]]
    assert report["limits"]["low"]["denied"] == len(denied) == pytest.approx(900, rel=0.05)
    assert denied.count(0) >= len(denied) - 3  # except for the first few, before the priorities of the load are known


def test_decisions_with_no_room_are_an_error(config):
    said = simulate(config, lines({"time": START, "ip": "a"}), "--decisions", "/dev/full",
                    fails=True)[1]
    assert "can't write the decisions" in said


def test_the_report_lists_the_most_denied_keys_with_their_times_until_retry(config):
    trace = lines(*({"time": START, "ip": f"k{i}"} for i in range(20) for _ in range(5 + i)))
    limit = simulate(config, trace, "--limit", "first")[0]["limits"]["first"]
    assert [(k["key"], k["denied"], k["error"]) for k in limit["top"]] == \
        [(f"k{i}", i + 1, 0) for i in range(19, 9, -1)]
    assert limit["retry_after_ms"]["max"] == 2000
    assert limit["retry_after_ms"]["p50"] == pytest.approx(2000, rel=0.01)


def test_requests_out_of_order_are_decided_in_order_and_listed_as_in_the_log(config):
    """A log is written when requests end, so those of one second are in any order."""
    chance = random.Random(3)
    trace = [{"time": START + i // 50, "ip": "a", "i": i} for i in range(5000)]
    shuffled = [r for i in range(0, 5000, 500) for r in chance.sample(trace[i:i + 500], 500)]
    straight, _ = simulate(config, lines(*trace))
    crooked, _ = simulate(config, lines(*shuffled))
    assert crooked["limits"] == straight["limits"]
    assert crooked["order"]["sorted"] > 1000 and crooked["order"]["late"] == 0
    got = decisions_of(config, lines(*shuffled), "--limit", "bucket")
    assert [(d["n"], d["time"]) for d in got] == [(n, r["time"]) for n, r in enumerate(shuffled)]


def test_times_far_off_are_bounded_and_counted(config):
    first = {"time": START + 10**8, "ip": "far"}  # three years after all others
    trace = [first, *({"time": START + i, "ip": "x" * 900} for i in range(20000)),
             {"time": START - 500, "ip": "late"}]
    report, _ = simulate(config, lines(*trace), "--limit", "bucket")
    assert report["requests"] == len(trace)
    assert (report["order"]["ahead"], report["order"]["late"]) == (1, 1)
    assert report["to"] == START + 19999


def test_a_time_beyond_the_range_of_a_table_is_refused(config):
    """After thirty-six and a half years a cell with the first time would seem to be in the future."""
    report, said = simulate(config, lines({"time": START, "ip": "a"}, {"time": 1, "ip": "a"},
                                          {"time": START + 17 * 365 * 86400, "ip": "a"}))
    assert (report["requests"], report["malformed"]) == (1, 2)
    assert "expected a time within 16 years of the first one, found 57 years" in said


def test_lines_without_a_request_are_warnings_with_their_place_and_counted(config):
    good = lines({"time": START, "ip": "a"})
    bad = ['{"time": 1x}\n', '{"ip": "a"}\n', '{"time": -1}\n', "[]\n", '{"time": 1, "cost": 1.5}\n',
           '{"time": 1, "ip": "\\q"}\n', '{"time": 1, "time": 2}\n', "x" * 100000 + "\n", "\0\n"]
    report, said = simulate(config, good + "".join(bad) + good)
    assert report["requests"] == 2 and report["malformed"] == len(bad)
    found = re.findall(r"^.*/trace:(\d+):(\d+): error: expected .*, found .*$", said, re.M)
    assert found == [("2", "10"), ("3", "12"), ("4", "10"), ("5", "1"), ("6", "21")]
    _, said = simulate(config, "".join(bad), fails=True)
    assert "expected requests, found none" in said
    _, said = simulate(config, "a,b\n1,2\n", fails=True)
    assert "/trace:1:1: error: expected a column \"time\", found 'a,b'" in said


def test_costs_and_keys_out_of_range_are_counted_and_reported(config):
    trace = lines({"time": START, "ip": "a", "cost": 6}, {"time": START, "ip": "k" * 1025},
                  {"time": START, "ip": "a", "cost": 0}, {"time": START, "ip": "a", "cost": 5})
    got = decisions_of(config, trace, "--limit", "bucket")
    assert ["error" in d for d in got] == [True, True, False, False]
    assert {d["limit"] for d in got} == {"bucket"}
    limit = simulate(config, trace, "--limit", "bucket")[0]["limits"]["bucket"]
    assert (limit["allowed"], limit["denied"], limit["errors"]) == (2, 0, 2)
    assert limit["worst"]["granted"] == 5


@pytest.mark.parametrize("flags, trace, field", [
    (["--key", "usr"], lines({"time": START, "user": "a"}, {"time": START, "usr": ""}), "usr"),
    ([], f"time, ip\n{START}, a\n{START}, b\n", "ip"),
])
def test_requests_without_the_field_of_the_key_are_reported(config, flags, trace, field):
    report, _ = simulate(config, trace, *flags)
    assert report["without"] == {field: 2}
    text = weir("simulate", "-c", config, "--trace", config.parent / "trace", *flags).stdout
    assert f'2 requests had no "{field}": they share a key\n' in text


KEYED = """\
limits: { api: { algorithm: token_bucket, rate: 5/s }, rest: { algorithm: token_bucket, rate: 5/s } }
rules:
  - { match: { header.x-api-key: "*" }, key: [header.x-api-key], limits: [api] }
  - { match: { header.x-api-key: '' }, key: [ip], limits: [rest] }
  - { match: { cookie.session: "*" }, key: [ip], limits: [rest] }
"""


def test_attributes_of_rules_that_the_log_lacks_are_reported(config):
    config.write_text(KEYED)
    access = '192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] "GET /x HTTP/1.1" 200 5 "-" "-"\n'
    report, _ = simulate(config, access)
    assert (report["limits"]["api"]["allowed"], report["missing"]) == (0, {"header.x-api-key": 2, "cookie.session": 1})
    text = weir("simulate", "-c", config, "--trace", config.parent / "trace").stdout
    assert text.endswith('\nno request of the log had "header.x-api-key", which 2 rules use\n'
                         'no request of the log had "cookie.session", which 1 rule uses\n')
    report, _ = simulate(config, lines({"time": START, "ip": "192.0.2.1", "header.x-api-key": "k1"}))
    assert (report["limits"]["api"]["allowed"], report["missing"]) == (1, {"cookie.session": 1})
    assert simulate(config, access, "--limit", "api")[0]["missing"] == {}


def test_a_note_of_one_line_is_in_the_singular(config):
    config.write_text(KEYED)
    trace = config.parent / "trace"
    for wrong, note in ((1, "1 line was not a request"), (2, "2 lines were not requests")):
        trace.write_text(lines({"time": START, "ip": "a"}) + "{}\n" * wrong)
        assert f"\n{note}\n" in weir("simulate", "-c", config, "--trace", trace).stdout


def test_evictions_of_a_small_table_are_reported(config):
    trace = lines(*({"time": START, "ip": f"k{i}"} for i in range(5000)))
    limit = simulate(config, trace, "--limit", "minute", "--capacity", "100")[0]["limits"]["minute"]
    assert limit["evictions"] > 0
    assert limit["keys"] == 100 and limit["worst"]["untracked_requests"] == 4900
    text = weir("simulate", "-c", config, "--trace", config.parent / "trace", "--limit", "minute",
                "--capacity", "100").stdout
    assert "4900 requests of keys beyond --capacity" in text
    assert "keys in use were evicted" in text


def test_every_pattern_runs_and_a_fixed_window_allows_an_edge_burst_twice():
    for pattern in ("steady", "edge-burst", "ramp", "flash-sale"):
        done = weir("simulate", "--pattern", pattern, "--json")
        assert done.returncode == 0, done
        report = json.loads(done.stdout)
        limits = report["limits"]
        for limit in limits.values():
            assert limit["allowed"] + limit["denied"] == report["requests"] > 0
        if pattern == "edge-burst":
            assert limits["fixed_window"]["worst"]["ratio"] == 2.0
            assert limits["token_bucket"]["worst"]["ratio"] < 1.2
    assert weir("simulate", "--pattern", "nonsense").returncode != 0


@pytest.mark.parametrize("flags, status, said", [
    ([], 2, "expected one of --trace, --pattern and --clients, found none"),
    (["--trace", "x", "--pattern", "steady"], 2, "found two"),
    (["--trace", "/nonexistent"], 1, "expected a readable file"),
    (["--trace", "/dev/null"], 1, "expected requests, found none"),
    (["--pattern", "steady", "--limit", "nobody"], 1, "expected a limit of the file, found 'nobody'"),
    (["--pattern", "steady", "--limit", "first", "first"], 1, "expected each limit once"),
    (["--pattern", "steady", "--capacity", "0"], 1, "capacity: expected 1"),
    (["--trace", "/dev/null", "--format", "xml"], 1, "expected combined, jsonl or csv, found 'xml'"),
    (["--pattern", "steady", "--html", "/nonexistent/x"], 1, "expected a file to write to"),
    (["--pattern", "steady", "--decisions", "/dev/full"], 1, "can't write the decisions"),
    (["--pattern", "steady", "--key", "cost"], 1, "--key: expected an attribute, found 'cost'"),
    (["--pattern", "steady", "stray"], 2, "expected an option, found 'stray'"),
])
def test_mistakes_are_errors(config, flags, status, said):
    done = weir("simulate", "-c", config, *flags)
    assert done.returncode == status and said in done.stderr, done


ON_TRY = "bucket2: { algorithm: token_bucket, rate: 3/s, burst: 5 }"


def test_a_limit_on_the_command_line_decides_as_in_a_file(config):
    trace = "time,ip,cost\n" + "".join(f"{decimal(t)},{k},{c}\n" for t, k, c in random_trace(3, 500))
    both, _ = simulate(config, trace, "--limit", "bucket", "--try", ON_TRY)
    assert list(both["limits"]) == ["bucket", "bucket2"]
    of_file, tried = both["limits"].values()
    assert of_file == tried and tried["denied"] > 0
    # Without a file; several limits keep their order.
    log = config.parent / "trace"
    alone = weir("simulate", "--trace", log, "--json", "--try", ON_TRY, "--try",
                 "slow: { algorithm: token_bucket, rate: 1/s, burst: 1 }")
    assert alone.returncode == 0, alone
    limits = json.loads(alone.stdout)["limits"]
    assert list(limits) == ["bucket2", "slow"] and limits["bucket2"] == tried
    assert limits["slow"]["denied"] > tried["denied"]
    # Beside all limits of a file, also of one with rules, and for generated traffic.
    config.write_text(RULES)
    limits = simulate(config, trace, "--try", ON_TRY)[0]["limits"]
    assert list(limits) == ["login", "all", "trial", "daily", "guest", "bucket2"]
    made_up = weir("simulate", "--pattern", "steady", "--json", "--try", ON_TRY)
    assert list(json.loads(made_up.stdout)["limits"]) == ["bucket2"]


@pytest.mark.parametrize("text, said", [
    ("a: { algorithm: token_bucket, rte: 3/s }", '--try:1:31: error: expected a key'),
    ("a: {", "--try:"),
    ("a", "--try:"),
    ("", "--try: expected one limit, 'NAME: {...}', found ''"),
    (ON_TRY + ", " + ON_TRY.replace("2", "3"), "--try: expected one limit"),
    ("bucket: { algorithm: token_bucket, rate: 1/s }", "a name that no other limit has, found 'bucket'"),
])
def test_mistakes_in_a_limit_on_the_command_line_are_errors_with_their_place(config, text, said):
    done = weir("simulate", "-c", config, "--pattern", "steady", "--try", text)
    assert done.returncode == 1 and said in done.stderr, done


def test_an_unwritable_output_is_an_error_before_the_log_is_read(config):
    _, said = simulate(config, "{\n", "--html", "/nonexistent/x", fails=True)
    assert "/nonexistent/x: expected a file to write to" in said and "trace:1:" not in said


@pytest.mark.parametrize("flag", ["--html", "--decisions"])
def test_the_log_is_not_overwritten(config, flag):
    trace = lines({"time": START, "ip": "a"})
    _, said = simulate(config, trace, flag, config.parent / "trace", fails=True)
    assert "expected a file to write to, found the log" in said
    assert (config.parent / "trace").read_text() == trace


def test_the_error_of_a_log_that_begins_within_a_line_names_the_assumed_format(config):
    trace = combined("1.1.1.1", 0)[40:] + combined("1.1.1.1", 0)
    assert "(read as CSV: --format if it is none)" in simulate(config, trace, fails=True)[1]
    assert simulate(config, trace, "--format", "combined")[0]["requests"] == 1


@pytest.mark.parametrize("rate", ["100/s", "1/ms", "7/7h", "50/month"])
def test_an_edge_burst_is_a_quota_on_each_side_of_a_windows_edge(config, rate):
    config.write_text(f"limits:\n  a: {{ algorithm: fixed_window, rate: {rate} }}\n")
    done = weir("simulate", "-c", config, "--pattern", "edge-burst", "--json")
    assert json.loads(done.stdout)["limits"]["a"]["denied"] == 0


def test_a_pattern_is_applied_to_each_limit_though_no_rule_matches(config):
    config.write_text("""
limits:
  some: { algorithm: random, deny: 0.5 }
  login: { algorithm: token_bucket, rate: 60/m, burst: 10 }
  api: { algorithm: fixed_window, rate: 600/m }
rules:
  - { match: { path: /login }, key: [cookie.session], limits: [login] }
  - { match: { path: /api }, key: [header.token], limits: [some, api] }
""")
    done = weir("simulate", "-c", config, "--pattern", "flash-sale", "--json")
    limits = json.loads(done.stdout)["limits"]
    requests = json.loads(done.stdout)["requests"]
    assert [limit["allowed"] + limit["denied"] for limit in limits.values()] == [requests] * 3
    assert limits["login"]["denied"] > limits["api"]["denied"] > 0 and limits["login"]["keys"] == 50
    assert 0.4 < limits["some"]["allowed"] / requests < 0.6


def test_the_table_is_plain_in_a_pipe_and_has_charts(config):
    text = weir("simulate", "--pattern", "edge-burst").stdout
    assert text.isascii() and "\033" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall(r"^  (?:passed|denied) \|.{64}\|$", text, re.M)) >= 8


def test_a_terminal_gets_a_progress_bar_and_colours(config):
    log = config.parent / "log"
    log.write_text(lines(*({"time": START + i, "ip": "a"} for i in range(3))) + "nothing\n")
    done = subprocess.run(["script", "-qec", f"{WEIR} simulate -c {config} --trace {log}", "/dev/null"],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True)
    shown = done.stdout.decode()
    assert re.search(r"\[#* *\] +\d+%", shown)
    assert "\033[32m" in shown and "█" in shown
    # An error is on its own line.
    assert re.search(rf"\r\033\[K{re.escape(str(log))}:4:1: error", shown)


def on_a_terminal(command):
    """The output of a command to a terminal, up to its end."""
    return subprocess.run(["script", "-qec", command, "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=PATIENCE, check=True).stdout.decode()


@plain_build_only
def test_progress_of_a_long_log_is_the_share_of_a_file_and_the_count_of_a_pipe(config, tmp_path):
    log, done = tmp_path / "log", r"\r\033\[K"
    log.write_text(lines(*({"time": START + i // 99, "ip": f"k{i % 9}"} for i in range(400_000))))
    began = time.monotonic()
    shown = on_a_terminal(f"{WEIR} simulate -c {config} --trace {log}")
    took = time.monotonic() - began
    drawn = [(int(percent), int(n)) for percent, n in re.findall(done + r"\[#* *\] +(\d+)% (\d+) requests ", shown)]
    assert drawn and drawn == sorted(drawn) and drawn[-1][0] <= 100
    # No more than four times a second, however fast the machine is.
    assert len(drawn) <= 4 * took + 1
    shown = on_a_terminal(f"cat {log} | {WEIR} simulate -c {config} --trace -")
    assert re.search(done + r" \d+ requests ", shown) and "%" not in shown.split("400000 requests")[0]
    # A search reads the log several times.
    shown = on_a_terminal(f"{WEIR} simulate --trace {log} --suggest fixed_window/s --by requests")
    assert re.search(done + r"search, pass 1: \[#* *\] +\d+%", shown)
    # Standard error that is no terminal gets nothing.
    assert weir("simulate", "-c", config, "--trace", log).stderr == ""


def test_limits_on_requests_in_flight_are_left_out_with_a_warning(config):
    config.write_text("""
limits:
  uploads: { algorithm: concurrency, max: 1 }
  bucket: { algorithm: token_bucket, rate: 1/h }
rules:
  - { key: [ip], limits: [uploads, bucket] }
  - { limits: [uploads] }
""")
    trace = lines(*({"time": START + i, "ip": "192.0.2.1"} for i in range(3)))
    for flags in (), ("--key", "ip"):
        report, said = simulate(config, trace, *flags)
        assert list(report["limits"]) == ["bucket"]
        assert report["limits"]["bucket"]["allowed"] == 1
        assert "'uploads' is left out" in said
    _, said = simulate(config, trace, "--limit", "bucket", "uploads", fails=True)
    assert "found 'uploads', of concurrency" in said


def test_paths_of_a_log_are_normalized_as_at_auth(serve, tmp_path):
    asked = ["/login", "//login?x", "/%6cogin", "/a/../login", "/LOGIN", "/login;x/", "/login%00", "/x"]
    config = tmp_path / "weir.yaml"
    trace = "".join(f'192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] "GET {path} HTTP/1.1" 200 1\n'
                    for path in asked)
    for variants, counted in (("no", 4), ("yes", 6)):
        rules = f"""
limits: {{ login: {{ algorithm: token_bucket, rate: 100/d }} }}
rules: [{{ match: {{ path: /login }}, path_variants: {variants}, key: [ip, path], limits: [login] }}]
"""
        config.write_text(rules)
        report, _ = simulate(config, trace)
        assert (report["limits"]["login"]["allowed"], report["limits"]["login"]["keys"]) == (counted, 1)
        server = serve(config=rules + "trusted_proxies: [127.0.0.1]")
        for path in asked:
            assert server.get("/auth", {"X-Forwarded-Uri": path,
                                        "X-Forwarded-For": "192.0.2.1"}).status == 200
        key = "9:192.0.2.16:/login"
        assert server.get(f"/v1/peek/login?key={key}").json["remaining"] == 100 - counted
