"""Breakers through a server: permits, reports and rules, also beside limits at Redis."""

import pytest
from harness import Wire, until
from redis_servers import RedisServer

RULES = """
store_timeout: 30s
limits:
  up: { algorithm: breaker, minimum: 3, sleep: 1h, permit_timeout: 1h }
  soon: { algorithm: breaker, minimum: 1, sleep: 1ms, probe_timeout: 1m, ramp: 0s }
  alone: { algorithm: breaker, max_concurrent: 1 }
  judge: { algorithm: breaker, failures: 2, sleep: 1h, max_concurrent: 1, permit_timeout: 1h, judge_only: yes }
  few: { algorithm: fixed_window, rate: 2/d }
  seldom: { algorithm: breaker, minimum: 1, sleep: 1ms, ramp: 0s, probes: 3, probe_timeout: 1h, permit_timeout: 1h }
  crowd: { algorithm: breaker, minimum: 1, sleep: 1h, permit_timeout: 1h, keys: 40 }
  late: { algorithm: fixed_window, rate: 1/52w, align: first_request }
rules:
  - { name: first, match: { service: "*" }, key: [service], limits: [alone] }
  - { name: then, match: { user: "*" }, key: [user], limits: [few] }
  - { name: probed, match: { probed: "*" }, key: [probed], limits: [seldom] }
  - { name: later, match: { later: "*" }, key: [later], limits: [late] }
"""


@pytest.fixture(params=["memory", "redis"])
def server(request, serve, tmp_path):
    """Breakers count in the server's own table even if all other limits count at Redis."""
    if request.param == "memory":
        yield serve(config=RULES)
        return
    redis = RedisServer(tmp_path / "redis")
    yield serve("--store", redis.url, config=RULES)
    redis.stop()


def acquire(server, limit, key):
    return server.post("/v1/acquire", {"limit": limit, "key": key})


def report(server, permit, outcome="failure", **others):
    return server.post("/v1/report", {"permit": permit, "outcome": outcome, **others})


def test_reports_open_the_breaker_and_it_answers_503(server):
    for _ in range(3):
        answer = acquire(server, "up", "a")
        assert answer.status == 200
        assert report(server, answer.json["permit"], latency_ms=5).status == 200
    answer = acquire(server, "up", "a")
    assert answer.status == 503
    assert answer.json["reason"] == "breaker_open"
    assert 3_000_000 < answer.json["retry_after_ms"] <= 3_600_000
    assert acquire(server, "up", "b").status == 200


def test_a_permit_is_reported_once_by_resp(server):
    with Wire(server.resp) as wire:
        for _ in range(2):
            permit = wire.command("WEIR.ACQUIRE", "up", "c")[6].decode()
            assert wire.command("WEIR.REPORT", permit, "timeout", 12) == b"+OK"
            assert b"not held" in wire.command("WEIR.REPORT", permit, "failure")
        assert wire.command("WEIR.ACQUIRE", "up", "c")[0] == 1


def test_a_request_that_a_later_rule_refuses_releases_the_breakers_permit(server):
    request = {"attributes": {"service": "d", "user": "u"}}
    for _ in range(2):
        answer = server.post("/v1/acquire", request).json
        assert report(server, answer["permit"], "success").status == 200
    for _ in range(5):
        assert server.post("/v1/acquire", request).json["limit"] == "few"
    answer = acquire(server, "alone", "d").json
    assert answer["allowed"]
    assert acquire(server, "alone", "d").json["reason"] == "over_limit"
    assert server.post("/v1/refund", {"permit": answer["permit"]}).json["allowed"]
    assert acquire(server, "alone", "d").json["allowed"]


def test_a_successful_probe_closes_the_breaker(server):
    assert report(server, acquire(server, "soon", "e").json["permit"]).status == 200
    permit = until(lambda: acquire(server, "soon", "e").json.get("permit"), "a probe")
    assert report(server, permit, "success").status == 200
    assert acquire(server, "soon", "e").json["allowed"]
    assert acquire(server, "soon", "e").json["allowed"]


def phases(server, limit):
    limits = {one["name"]: one for one in server.get("/v1/limits").json}
    return {one["key"]: one["phase"] for one in limits[limit]["breakers"]}


def open_seldom(server, key):
    assert report(server, acquire(server, "seldom", key).json["permit"]).status == 200


def test_half_open_with_sparse_traffic_closes(server):
    """There are never two requests at once: each probe ends before the next request."""
    open_seldom(server, "f")
    permit = until(lambda: acquire(server, "seldom", "f").json.get("permit"), "a probe")
    for _ in range(2):
        assert phases(server, "seldom")["f"] == "half_open"
        assert report(server, permit, "success").status == 200
        permit = acquire(server, "seldom", "f").json["permit"]
    assert report(server, permit, "success").status == 200
    assert phases(server, "seldom").get("f", "closed") == "closed"


@pytest.mark.parametrize("protocol", ["http", "resp"])
def test_a_probe_that_a_later_rule_refuses_is_available_again(server, protocol):
    key = f"g-{protocol}"
    words = {"probed": key, "later": key}
    assert acquire(server, "late", key).json["allowed"]
    open_seldom(server, key)
    permit = until(lambda: acquire(server, "seldom", key).json.get("permit"), "a probe")
    with Wire(server.resp) as wire:
        for _ in range(10):
            if protocol == "http":
                refused_by = server.post("/v1/acquire", {"attributes": words}).json["limit"]
            else:
                asked = [word for pair in words.items() for word in pair]
                refused_by = wire.command("WEIR.CHECK", *asked)[7].decode()
            assert refused_by == "late"
    permits = [permit] + [acquire(server, "seldom", key).json["permit"] for _ in range(2)]
    assert not acquire(server, "seldom", key).json["allowed"]
    for permit in permits:
        assert report(server, permit, "success").status == 200
    assert acquire(server, "seldom", key).json["allowed"]


def test_a_breaker_in_shadow_mode_denies_only_after_a_reload_enforces_it(server):
    permits = [acquire(server, "judge", "j").json["permit"] for _ in range(3)]  # two above max_concurrent
    assert [report(server, permit, "failure").status for permit in permits + permits] == [200] * 3 + [404] * 3
    assert "j" not in phases(server, "judge")  # only the first one counts
    assert report(server, acquire(server, "judge", "j").json["permit"], "failure").status == 200
    assert phases(server, "judge")["j"] == "open"
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "judge", "j")[0] == 1
    answer = acquire(server, "judge", "j")
    assert (answer.status, answer.json["reason"], answer.json["remaining"]) == (200, "ok", 0)
    server.reload(RULES.replace(", judge_only: yes", ""))
    server.line_with("reloaded")
    assert acquire(server, "judge", "j").status == 503
    assert report(server, answer.json["permit"], "success").status == 404  # it was in no row


def test_an_idle_open_breaker_is_not_evicted_by_a_flood_of_other_keys(server):
    assert report(server, acquire(server, "crowd", "idle").json["permit"]).status == 200
    with Wire(server.resp) as wire:
        for i in range(3000):
            permit = wire.command("WEIR.ACQUIRE", "crowd", f"other-{i}")[6]
            wire.command("WEIR.REPORT", permit, "success")
    answer = acquire(server, "crowd", "idle")
    assert answer.status == 503
    assert answer.json["reason"] == "breaker_open"
