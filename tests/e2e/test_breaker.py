"""Breakers through a server: permits, reports, rules, and beside limits at Redis."""

import pytest
from harness import Wire, until
from redis_servers import RedisServer

RULES = """
store_timeout: 30s
limits:
  up: { algorithm: breaker, minimum: 3, sleep: 1h, permit_timeout: 1h }
  soon: { algorithm: breaker, minimum: 1, sleep: 1ms, ramp: 0s }
  alone: { algorithm: breaker, max_concurrent: 1 }
  few: { algorithm: fixed_window, rate: 2/d }
rules:
  - { name: first, match: { service: "*" }, key: [service], limits: [alone] }
  - { name: then, match: { user: "*" }, key: [user], limits: [few] }
"""


@pytest.fixture(params=["memory", "redis"])
def server(request, serve, tmp_path):
    """Breakers count in the server's own table, also where all else counts at Redis."""
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


def test_it_opens_by_reports_and_answers_503(server):
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


def test_a_request_that_a_later_rule_refuses_gives_the_breakers_permit_back(server):
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


def test_a_probe_that_succeeds_closes_it(server):
    assert report(server, acquire(server, "soon", "e").json["permit"]).status == 200
    permit = until(lambda: acquire(server, "soon", "e").json.get("permit"), "a probe")
    assert report(server, permit, "success").status == 200
    assert acquire(server, "soon", "e").json["allowed"]
    assert acquire(server, "soon", "e").json["allowed"]
