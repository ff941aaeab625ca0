"""Client-side throttling through a server: permits, reports and rules, also beside limits at Redis."""

import pytest
from harness import Wire, until
from redis_servers import RedisServer

RULES = """
store_timeout: 30s
limits:
  up: { algorithm: throttle, window: 1h, permit_timeout: 1h, retry: 7s }
  soon: { algorithm: throttle, window: 100ms }
  few: { algorithm: fixed_window, rate: 2/d }
rules:
  - { name: first, match: { service: "*" }, key: [service], limits: [up] }
  - { name: then, match: { user: "*" }, key: [user], limits: [few] }
"""
MANY = 60


@pytest.fixture(params=["memory", "file", "redis"])
def server(request, serve, tmp_path):
    """`throttle` counts in the server's own table or file even if all other limits count at Redis."""
    if request.param == "redis":
        redis = RedisServer(tmp_path / "redis")
        yield serve("--store", redis.url, config=RULES)
        redis.stop()
    else:
        store = "memory" if request.param == "memory" else f"file:{tmp_path / 'state'}"
        yield serve("--store", store, "--capacity", "10000", config=RULES)


def acquire(server, key, limit="up"):
    return server.post("/v1/acquire", {"limit": limit, "key": key})


def report(server, permit, outcome="failure"):
    return server.post("/v1/report", {"permit": permit, "outcome": outcome})


def calls(server, key, outcome, n=MANY, limit="up"):
    """The denied ones of `n` requests."""
    denied = []
    for _ in range(n):
        answer = acquire(server, key, limit)
        if answer.status == 200:
            assert report(server, answer.json["permit"], outcome).status == 200
        else:
            denied.append(answer)
    return denied


def test_requests_to_a_failing_backend_are_shed_with_503(server):
    assert not calls(server, "well", "success")
    denied = calls(server, "sick", "failure")
    assert len(denied) > MANY // 2
    for answer in denied:
        assert answer.status == 503
        assert answer.json["reason"] == "shed" and answer.json["retry_after_ms"] == 7000
    assert not calls(server, "well", "success")


def test_throttling_ends_when_the_backend_recovers(server):
    assert calls(server, "back", "failure", limit="soon")
    until(lambda: not calls(server, "back", "success", 10, limit="soon"), "the window is over")


def test_peeks_count_nothing(server):
    for _ in range(MANY):
        assert server.post("/v1/peek", {"limit": "up", "key": "peeked"}).json["allowed"]
        assert server.post("/v1/acquire", {"limit": "up", "key": "peeked", "cost": 0}).json["allowed"]
    assert server.post("/v1/peek", {"limit": "up", "key": "peeked"}).json["reset_after_ms"] == 0


def test_a_permit_is_reported_once_by_resp(server):
    with Wire(server.resp) as wire:
        permit = wire.command("WEIR.ACQUIRE", "up", "c")[6].decode()
        assert wire.command("WEIR.REPORT", permit, "success", 12) == b"+OK"
        assert b"not held" in wire.command("WEIR.REPORT", permit, "success")
        assert b"not held" in wire.command("WEIR.REPORT", permit, "failure")


def test_a_request_that_a_later_rule_refuses_is_not_counted(server):
    request = {"attributes": {"service": "d", "user": "u"}}
    for _ in range(2):
        answer = server.post("/v1/acquire", request).json
        assert report(server, answer["permit"], "success").status == 200
    for _ in range(MANY):
        assert server.post("/v1/acquire", request).json["limit"] == "few"
    assert not calls(server, "d", "success")


def test_a_reset_ends_throttling(server):
    calls(server, "reset", "failure")
    assert server.post("/v1/reset", {"limit": "up", "key": "reset"}).status == 200
    assert not calls(server, "reset", "success")


def test_the_lowest_priorities_are_shed_first(server):
    """Half of all requests are shed; every fourth has the highest priority and always passes."""
    passed = {"0": 0, "9": 0}
    with Wire(server.resp) as wire:
        for _ in range(40):
            for priority in "0999":
                answer = wire.command("WEIR.ACQUIRE", "up", "mixed", "PRIORITY", priority)
                passed[priority] += answer[0]
                if answer[0]:
                    outcome = "success" if priority == "0" else "failure"
                    assert wire.command("WEIR.REPORT", answer[6].decode(), outcome) == b"+OK"
    assert passed["0"] == 40 and passed["9"] < 80
