"""`random` limits that operators switch, and `base` limits that count by the day, over both protocols."""

import calendar
import json
import re
import subprocess
import time

import pytest

from harness import Wire, until

CONFIG = """
limits:
  relief: { algorithm: random, deny: 0 }
  plain: { algorithm: token_bucket, rate: 1/h }
  daily: { algorithm: base, base: 3, rate: 2/30d, timezone: %s }
"""
DAY_MS = 24 * 3_600_000


def midday_zone():
    """A timezone in which it is about noon, so that no day ends while a test runs."""
    hours = 12 - time.gmtime().tm_hour
    return f"Etc/GMT{-hours:+d}"  # POSIX counts hours west of Greenwich as positive


def utc(unix):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))


ZONE = midday_zone()
CONFIG %= ZONE


def test_an_operator_changes_the_share_that_is_shed_and_a_reload_keeps_it(serve, key):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "relief", key)[0] == 1
        assert wire.command("WEIR.SHED", "relief", "1") == b"+OK"
        denied = server.get(f"/v1/acquire/relief?key={key}")
        assert (denied.status, denied.json["reason"], denied.json["retry_after_ms"]) == (
            503, "shed", 1000)
        assert denied.json["remaining"] == 0 and denied.headers["Retry-After"] == "1"
        assert "RateLimit" not in denied.headers and "RateLimit-Policy" not in denied.headers
        server.reload(CONFIG + "  fresh: { algorithm: token_bucket, rate: 1/s }\n")
        until(lambda: server.get(f"/v1/peek/fresh?key={key}").status == 200, "the reload")
        assert wire.command("WEIR.ACQUIRE", "relief", key)[0] == 0
        assert '"deny":1,' in server.get("/v1/limits").text
        answer = server.post("/v1/shed", {"limit": "relief", "deny": 0.0})
        assert (answer.status, answer.json) == (200, {"limit": "relief", "deny": 0})
        assert wire.command("WEIR.ACQUIRE", "relief", key)[0] == 1


WITHOUT_QUOTA = """
limits:
  relief: { algorithm: random, deny: 0 }
  site: { algorithm: fixed_window, rate: 5/d, align: first_request }
rules:
  - { name: shed, match: { path: "/shed/*" }, limits: [relief] }
  - { name: both, match: { path: "/both/*" }, key: [ip], limits: [relief, site] }
"""


def over_http(server, version, path, body=None):
    """(status, headers in small letters, body) of curl."""
    command = ["curl", "-sS", "-i", version, *(["-H", "X-Forwarded-Uri: /shed/1"] if path == "/auth" else []),
               *(["--json", json.dumps(body)] if body else []), f"http://127.0.0.1:{server.http}{path}"]
    head, _, body = subprocess.run(command, capture_output=True, text=True, check=True).stdout.partition("\n\n")
    return int(head.split()[1]), head.lower(), body


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
@pytest.mark.parametrize("deny, status", [(0, 200), (1, 503)])
def test_a_random_limit_has_no_quota_in_any_answer(serve, key, version, deny, status):
    server = serve(config=WITHOUT_QUOTA.replace("deny: 0", f"deny: {deny}"))
    asked = {"attributes": {"path": "/shed/1"}}
    for path, body, expected in [
            (f"/v1/acquire/relief?key={key}", None, status), (f"/v1/peek/relief?key={key}", None, 200),
            ("/v1/acquire", asked, status), ("/v1/peek", asked, 200), ("/auth", None, status),
            ("/v1/refund", {"limit": "relief", "key": key}, 200)]:
        found, headers, text = over_http(server, version, path, body)
        assert (found, "ratelimit" in headers) == (expected, False), (path, headers)
        if text:
            answer = json.loads(text)
            assert (answer["limit"], answer["quota"], answer["remaining"]) == ("relief", 0, 0), path
    _, headers, text = over_http(server, version, "/v1/batch", [asked, {"limit": "relief", "key": key}])
    assert [(a["quota"], a["remaining"]) for a in json.loads(text)] == [(0, 0)] * 2
    assert '"quota":0,' in server.get("/v1/limits").text.partition("site")[0]


def test_a_random_limit_has_no_quota_over_resp_and_is_never_the_tightest(serve, key):
    server = serve(config=WITHOUT_QUOTA)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "relief", key)[:6] == [1, 0, 0, 0, 0, b"ok"]
        assert wire.command("WEIR.PEEK", "relief", key)[:3] == [1, 0, 0]
        assert wire.command("WEIR.ACQUIRE", "relief", key, "COST", 2**32)[:3] == [1, 0, 0]
        assert wire.command("WEIR.ACQUIRE", "relief", key, "COST", 2**32 + 1).startswith(b"-ERR ")
        asked = ("path", "/both/1", "ip", "192.0.2.1")
        assert wire.command("WEIR.CHECK", *asked)[1:3] + wire.command("WEIR.CHECKPEEK", *asked)[7:] == [
            5, 4, b"site", b"both"]
        assert wire.command("WEIR.CHECK", "path", "/shed/1")[:3] == [1, 0, 0]
        wire.command("WEIR.SHED", "relief", 1)
        assert wire.command("WEIR.CHECK", *asked)[:3] == [0, 0, 0]
    value = server.get("/rule/value?rule_no=shed&path=/shed/1")
    assert value.status == 200, value.text


@pytest.mark.parametrize("limit, quota", [
    ("algorithm: throttle", 0), ("algorithm: breaker", 0), ("algorithm: breaker, calls: 100", 0),
    ("algorithm: breaker, max_concurrent: 5", 5), ("algorithm: breaker, preset: hystrix", 10)])
def test_a_throttle_or_breaker_has_a_quota_only_if_it_bounds_requests_in_flight(serve, key, limit, quota):
    server = serve(config=WITHOUT_QUOTA.replace("algorithm: random, deny: 0", limit))
    left, left_after_refund = max(quota - 1, 0), quota
    with Wire(server.resp) as wire:
        reply = wire.command("WEIR.ACQUIRE", "relief", key, "PERMIT")
        assert reply[:3] + reply[5:6] == [1, quota, left, b"ok"]
        assert wire.command("WEIR.PEEK", "relief", key)[1:3] == [quota, left]
        assert wire.command("WEIR.REFUND", "relief", key, "PERMIT", reply[6])[1:3] == [quota, left_after_refund]
        tightest = wire.command("WEIR.CHECKPEEK", "path", "/both/1", "ip", "192.0.2.1")
        assert tightest[1:3] + tightest[7:8] == [5, 5, b"site" if quota in (0, 10) else b"relief"]
    for version in ("--http1.1", "--http2-prior-knowledge"):
        _, headers, text = over_http(server, version, f"/v1/peek/relief?key={key}")
        assert (json.loads(text)["quota"], "ratelimit-policy" in headers) == (quota, quota > 0)
    assert f'"quota":{quota},' in server.get("/v1/limits").text.partition('"site"')[0]


def switched(server):
    """(the operator who switched `relief`, with the times, or None; the share that it denies)"""
    limit = next(limit for limit in server.get("/v1/limits").json if limit["name"] == "relief")
    return limit.get("switched"), limit["deny"]


def test_a_switch_names_its_operator_and_ends_at_its_time(serve):
    server = serve(config=CONFIG.replace("deny: 0", "deny: 0.25"))
    assert switched(server) == (None, 0.25)
    for left in (5, 20, 60):  # a machine that stands still may be past the end when it asks
        end = int(time.time()) + left
        answer = server.post("/v1/shed", {"limit": "relief", "deny": 0.5, "until": end})
        if answer.status == 200:
            break
    assert (answer.status, answer.json) == (
        200, {"limit": "relief", "deny": 0.5, "until": utc(end)})
    by, share = switched(server)
    assert share == 0.5 and by["by"] == "127.0.0.1" and by["until"] == utc(end)
    assert by["at"] <= by["until"]
    server.line_with(f"shed limit=relief deny=0.5 by=127.0.0.1 until={utc(end)}")
    until(lambda: switched(server) == (None, 0.25), "the end of the switch")
    assert time.time() >= end
    server.line_with("shed_ended limit=relief deny=0.25")


def test_the_last_switch_counts_until_a_reload_changes_the_share(serve):
    server = serve(config=CONFIG)
    soon = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 1.5))
    server.post("/v1/shed", {"limit": "relief", "deny": 0.5, "until": soon})
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.SHED", "relief", "0.0001") == b"+OK"
    by, share = switched(server)
    assert "until" not in by and share == pytest.approx(0.0001)
    server.reload(CONFIG + "  fresh: { algorithm: token_bucket, rate: 1/s }\n")
    until(lambda: "fresh" in server.get("/v1/limits").text, "the reload")
    until(lambda: time.time() > calendar.timegm(time.strptime(soon, "%Y-%m-%dT%H:%M:%S+00:00")) + 1,
          "the time of the switch before")
    assert switched(server) == (by, share)
    server.reload(CONFIG.replace("deny: 0", "deny: 0.75"))
    until(lambda: switched(server) == (None, 0.75), "the reload")


def test_the_end_of_a_switch_must_be_a_time_in_the_future(serve):
    server = serve(config=CONFIG)
    for end, found in ((1, "in the future"), ("2001-02-03T04:05:06Z", "in the future"), ("soon", "'soon'"),
                       ("2026-13-01T00:00:00Z", "2026-13"), (-1, "'-1'"), (True, "'true'")):
        answer = server.post("/v1/shed", {"limit": "relief", "deny": 1, "until": end})
        assert answer.status == 400 and found in answer.json["error"]["message"], answer
    assert switched(server) == (None, 0)
    refused = server.post("/v1/acquire", {"limit": "relief", "key": "k", "until": 1})
    assert refused.status == 400 and "until" in refused.json["error"]["message"]


def test_only_a_random_limit_can_shed_and_only_a_share_from_0_to_1(serve, key):
    server = serve(config=CONFIG)
    for body, status, found in (
            ({"limit": "plain", "deny": 0.5}, 400, "a share to deny"),
            ({"limit": "nowhere", "deny": 0.5}, 404, "nowhere"),
            ({"limit": "relief", "deny": 1.5}, 400, "0 to 1"),
            ({"limit": "relief"}, 400, "limit, deny and optionally until"),
            ({"limit": "relief", "deny": 0.5, "key": "k"}, 400, "and no other field")):
        answer = server.post("/v1/shed", body)
        assert answer.status == status
        assert found in answer.json["error"]["message"]
    refused = server.post("/v1/acquire", {"limit": "plain", "key": key, "deny": 0.5})
    assert refused.status == 400


def test_base_allows_its_number_a_day_and_then_its_rate(serve, key):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "daily", key)[:4] == [1, 4, 3, 0]
        answer = server.get(f"/v1/acquire/daily?key={key}&cost=3")
        assert (answer.status, answer.json["remaining"]) == (200, 0)
        assert answer.headers["RateLimit-Policy"] == '"daily";q=4;w=86400'
        denied = server.get(f"/v1/acquire/daily?key={key}")
        assert (denied.status, denied.json["reason"]) == (429, "over_limit")
        # The rate's window of 30 days ends with the day.
        assert DAY_MS // 3 < denied.json["retry_after_ms"] <= denied.json["reset_after_ms"] < DAY_MS
        assert wire.command("WEIR.REFUND", "daily", key, "COST", 2)[2] == 2
        assert wire.command("WEIR.PEEK", "daily", key)[:3] == [1, 4, 2]
        assert wire.command("WEIR.ACQUIRE", "daily", key, "COST", 5).startswith(b"-ERR ")
        assert wire.command("WEIR.RESET", "daily", key)[2] == 4
    listed = {limit["name"]: limit for limit in server.get("/v1/limits").json}
    assert listed["daily"] == {
        "name": "daily", "algorithm": "base", "base": 3, "rate": "2/30d",
        "timezone": ZONE, "on_store_failure": "local", "quota": 4,
        "room": {"keys": 1000000, "bytes": 265211904, "shared": False}, "rules": []}
    assert re.search('^weir_decisions_total{limit="daily",reason="over_limit",allowed="false"} 1$',
                     server.get("/metrics").text, re.M)
