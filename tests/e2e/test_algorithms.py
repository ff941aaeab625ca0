"""`random` limits that operators switch, and `base` limits that count by the day, over both protocols."""

import calendar
import re
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
