"""`sliding_window`, `sliding_log` and `sliding_counter` through the server, and in virtual time."""

import json
import re
import time

import pytest
from harness import PATIENCE, Http, Server, Wire, until, weir

# A period of hours whose middle is now, so that no window of `counter` ends while a test runs.
HOURS = min(range(20, 40), key=lambda hours: abs(time.time() / 3600 % hours / hours - 0.5))
CONFIG = """
limits:
  slide: { algorithm: sliding_window, rate: 10/h, slots: 12 }
  log: { algorithm: sliding_log, rate: 5/h }
  bucket: { algorithm: token_bucket, rate: 100/h }
  counter: { algorithm: sliding_counter, rate: 7/%dh }
rules:
  - { name: pair, match: { path: /pair }, key: [ip], limits: [bucket, slide, log] }
""" % HOURS


@pytest.fixture(scope="module")
def sliding(tmp_path_factory):
    server = Server(config=CONFIG, directory=tmp_path_factory.mktemp("sliding"))
    yield server
    assert server.stop() == 0


WINDOW = HOURS * 3600


# A full counter allows again in the next window, when enough of its count has faded.
@pytest.mark.parametrize("limit,quota,window,retry,reset", [
    ("slide", 10, 3600, (3000, 3600), (3000, 3600)), ("log", 5, 3600, (3000, 3600), (3000, 3600)),
    ("counter", 7, WINDOW, (WINDOW / 7, WINDOW * 8 / 7 + 1), (WINDOW, 2 * WINDOW))])
def test_all_protocols_share_one_count(sliding, key, limit, quota, window, retry, reset):
    with Wire(sliding.resp) as wire:
        def resp(command, *words):
            return wire.command(f"WEIR.{command}", limit, key, *words)

        assert resp("ACQUIRE")[:4] == [1, quota, quota - 1, 0]
        answer = sliding.get(f"/v1/acquire/{limit}?key={key}&cost=2")
        assert answer.json["remaining"] == quota - 3
        assert answer.headers["RateLimit-Policy"] == f'"{limit}";q={quota};w={window}'
        told = re.fullmatch(rf'"{limit}";r={quota - 3};t=(\d+)', answer.headers["RateLimit"])
        assert reset[0] < int(told[1]) <= reset[1]
        assert weir("ask", limit, key, "--server", f"127.0.0.1:{sliding.resp}").returncode == 0
        assert [one["remaining"] for one in sliding.post(
            "/v1/batch", [{"limit": limit, "key": key}, {"limit": limit, "key": key + "x"}]).json
        ] == [quota - 5, quota - 1]
        assert resp("PEEK")[2] == quota - 5
        assert resp("REFUND", "COST", 2)[2] == quota - 3
        assert resp("ACQUIRE", "COST", quota - 3)[2] == 0
        denied = sliding.get(f"/v1/acquire/{limit}?key={key}")
        assert (denied.status, denied.json["reason"]) == (429, "over_limit")
        assert retry[0] < int(denied.headers["Retry-After"]) <= retry[1]
        assert denied.json["retry_after_ms"] <= denied.json["reset_after_ms"]
        assert weir("ask", limit, key, "--server", f"127.0.0.1:{sliding.resp}").returncode == 1
        assert resp("ACQUIRE", "COST", quota + 1).startswith(b"-ERR ")
        assert resp("RESET")[2] == quota
        assert resp("ACQUIRE", "COST", quota)[0] == 1


def test_a_counter_weighs_the_last_window_by_what_still_overlaps(tmp_path):
    config, trace, out = (tmp_path / name for name in ("rules.yaml", "trace", "decisions"))
    config.write_text("limits: { counter: { algorithm: sliding_counter, rate: 10/m } }")
    window = 28_333_334 * 60
    times = [window] * 10 + [window + 90] * 7 + [window + 97, window + 240]
    trace.write_text("".join(f'{{"time":{time},"ip":"a"}}\n' for time in times))
    done = weir("simulate", "-c", config, "--limit", "counter", "--key", "ip", "--trace", trace,
                "--format", "jsonl", "--decisions", out)
    assert done.returncode == 0, done.stderr
    decisions = [json.loads(line) for line in out.read_text().splitlines()]
    # Half of the ten overlap, beside five of this window; one more is allowed when four overlap, at 36 of 60 s.
    assert [one["allowed"] for one in decisions] == [True] * 15 + [False] * 2 + [True] * 2
    assert decisions[16]["retry_after_ms"] == 6000
    assert [one["remaining"] for one in decisions[-2:]] == [0, 9]


def test_a_denied_request_consumes_from_none_of_its_limits(sliding):
    with Wire(sliding.resp) as wire:
        replies = [wire.command("WEIR.CHECK", "path", "/pair", "ip", "1.1.1.1") for _ in range(9)]
        assert [reply[0] for reply in replies] == [1] * 5 + [0] * 4
        assert replies[-1][7:] == [b"log", b"pair"]
        assert wire.command("WEIR.PEEK", "slide", "1.1.1.1")[2] == 5
        assert wire.command("WEIR.PEEK", "bucket", "1.1.1.1")[2] == 95


def test_limits_and_metrics_list_sliding_limits(sliding):
    listed = {limit["name"]: limit for limit in sliding.get("/v1/limits").json}
    assert listed["slide"] == {
        "name": "slide", "algorithm": "sliding_window", "rate": "10/h", "slots": 12,
        "on_store_failure": "local", "quota": 10,
        "room": {"keys": 1000000, "bytes": 265211904, "shared": False}, "rules": ["pair"],
        "ipv6_prefixes": [64]}
    assert listed["log"]["algorithm"] == "sliding_log"
    for name in ("slide", "log"):
        with Wire(sliding.resp) as wire:
            wire.command("WEIR.ACQUIRE", name, "counted")
        assert re.search(rf'^weir_decisions_total{{limit="{name}",reason="ok",allowed="true"}} [1-9]',
                         sliding.get("/metrics").text, re.M)


def reload(server, slide, log):
    """Reloads and waits until the quotas show that the configuration is active."""
    server.reload(CONFIG.replace("rate: 10/h, slots: 12", slide).replace("rate: 5/h", log))
    wanted = [int(re.search(r"\d+", one)[0]) for one in (slide, log)]
    until(lambda: [limit["quota"] for limit in server.get("/v1/limits").json][:2] == wanted,
          "the reload")


def test_a_reload_keeps_the_use_of_keys_up_to_the_new_limit(serve):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        def remaining():
            return [wire.command("WEIR.PEEK", limit, "k")[2] for limit in ("slide", "log")]

        wire.command("WEIR.ACQUIRE", "slide", "k", "COST", 8)
        wire.command("WEIR.ACQUIRE", "log", "k", "COST", 3)
        wire.command("WEIR.ACQUIRE", "log", "k")
        reload(server, "rate: 6/h, slots: 12", "rate: 3/h")
        assert remaining() == [0, 0]
        for limit, quota in (("slide", 6), ("log", 3)):
            lowered = wire.command("WEIR.ACQUIRE", limit, "k")
            assert lowered[:3] == [0, quota, 0]
            assert 3_000_000 < lowered[3] <= lowered[4] <= 3_600_000
        # After the limits rise again, the old use still counts, or the whole lower limit does.
        reload(server, "rate: 20/h, slots: 12", "rate: 9/h")
        assert remaining() in ([12, 5], [14, 6])


@pytest.mark.parametrize("slots", [1, 13, 60, 1000])
def test_a_reload_that_changes_the_slots_forgets_no_use(serve, slots):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "slide", "k", "COST", 8)[0] == 1
        for i, now in enumerate((slots, 12, slots)):
            # The quota of the other limit shows that the reload is done.
            reload(server, f"rate: 10/h, slots: {now}", f"rate: {i + 1}/h")
            answer = wire.command("WEIR.PEEK", "slide", "k")
            assert answer[2] == 2
            assert answer[4] <= 3_600_000
        assert wire.command("WEIR.ACQUIRE", "slide", "k", "COST", 3)[0] == 0
        assert wire.command("WEIR.ACQUIRE", "slide", "k", "COST", 2)[0] == 1


@pytest.mark.parametrize("count", [5, 11, 12, 500, 10_000])
def test_a_reload_that_changes_the_count_of_a_log_forgets_no_use(serve, count):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        assert [wire.command("WEIR.ACQUIRE", "log", "k")[0] for _ in range(3)] == [1, 1, 1]
        reload(server, "rate: 10/h, slots: 12", f"rate: {count}/h")
        assert wire.command("WEIR.ACQUIRE", "log", "k")[:3] == [1, count, count - 4]
        reload(server, "rate: 10/h, slots: 12", "rate: 4/h")
        assert wire.command("WEIR.ACQUIRE", "log", "k")[:3] == [0, 4, 0]


def passes(client, limit, n):
    """[(sent, answered)] in seconds of the first `n` allowed requests of a client that never pauses."""
    allowed, end = [], time.monotonic() + PATIENCE
    while len(allowed) < n:
        asked = time.monotonic()
        assert asked < end, f"only {len(allowed)} were allowed"
        answer = client.request("GET", f"/v1/acquire/{limit}?key=k")
        if answer.status == 200:
            allowed.append((asked, time.monotonic()))
    return allowed


def most_surely_within(passed, length):
    """The most requests that were certainly decided within `length` of each other, despite delays."""
    return max(sum(answered - first <= length for _, answered in passed[i:])
               for i, (first, _) in enumerate(passed))


def test_a_client_that_never_pauses_gets_no_edge_burst_and_is_not_blocked_forever(serve):
    server = serve(config="""
limits:
  slide: { algorithm: sliding_window, rate: 10/200ms, slots: 10 }
  log: { algorithm: sliding_log, rate: 10/200ms }
""")
    with Http(server.http) as client:
        for limit, calm in (("slide", 0.18), ("log", 0.2 - 1e-6)):
            passed = passes(client, limit, 35)  # never reached if denials were counted
            assert most_surely_within(passed, calm) <= 10
            assert most_surely_within(passed, 0.2) <= 20
    assert server.get("/v1/peek/slide?key=other").json["remaining"] == 10
