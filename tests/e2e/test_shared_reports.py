"""Permits that one server grants and another receives the report for, as behind a load balancer."""

import json
import subprocess

import pytest
from harness import Server, Wire, encode, until

LIMITS = """
store: {url}
store_timeout: 10s
limits:
  safe: {{ algorithm: breaker, minimum: 4, sleep: 1h, permit_timeout: 1h }}
  full: {{ algorithm: breaker, minimum: 4, sleep: 1h, permit_timeout: 1h, max_concurrent: 2 }}
  soon: {{ algorithm: breaker, minimum: 2, sleep: 1ms, probe_timeout: 1h, ramp: 0s, permit_timeout: 1h }}
  quick: {{ algorithm: breaker, minimum: 1, sleep: 1h, permit_timeout: 2s }}
  measured: {{ algorithm: adaptive, initial: 2, max: 2, permit_timeout: 1h }}
  shed: {{ algorithm: throttle }}
  places: {{ algorithm: concurrency, max: 2, lease: 1h }}
  here: {{ algorithm: concurrency, max: 2, lease: 1h, store: memory }}
  uses: {{ algorithm: token_bucket, rate: 10/d }}
rules:
  - {{ match: {{ path: /all }}, key: [user], limits: [full, measured, here, uses] }}
"""


@pytest.fixture(scope="module")
def servers(shared_redis, tmp_path_factory):
    """Servers that share the secret of permits."""
    started = start(shared_redis, tmp_path_factory.mktemp("shared"))
    yield started
    for server in started:
        assert server.stop() == 0


def start(redis, directory, count=3):
    started = [Server(config=LIMITS.format(url=redis.url), directory=directory) for _ in range(count)]
    for server in started:
        until(lambda server=server: share_secret(started, server), "all read the permits of each other")
    return started


def share_secret(servers, grantor):
    permit = acquire(grantor, "uses", f"join {grantor.http}", permit=True).json["permit"]
    others = [report(server, permit) for server in servers]
    return all("issued" not in answer.text for answer in others)


def acquire(server, limit, key, **more):
    return server.post("/v1/acquire", {"limit": limit, "key": key, **more})


def report(server, permit, outcome="success", **more):
    return server.post("/v1/report", {"permit": permit, "outcome": outcome, **more})


def take(server, limit, key):
    return acquire(server, limit, key).json["permit"]


def is_closed(server, limit, key):
    return server.get(f"/v1/peek/{limit}?key={key}").json["allowed"]


def left(server, limit, key):
    return server.get(f"/v1/peek/{limit}?key={key}").json["remaining"]


def test_a_healthy_backend_behind_a_balancer_opens_no_breaker(servers, key):
    """Each permit is reported in time, at the next server."""
    for n in range(30):
        grantor, taker = servers[n % 3], servers[(n + 1) % 3]
        assert report(taker, take(grantor, "quick", key)).status == 200
    # When these permits time out, all earlier ones would have.
    lost = [take(server, "quick", f"{key} lost") for server in servers]
    until(lambda: not any(is_closed(server, "quick", f"{key}%20lost") for server in servers), "permits end")
    assert all(is_closed(server, "quick", key) for server in servers), lost


@pytest.mark.parametrize("limit", ["full", "measured", "here"])
def test_a_report_at_another_server_frees_the_entry_at_the_grantor(servers, key, limit):
    a, b, c = servers
    permits = [take(a, limit, key) for _ in range(2)]
    assert acquire(a, limit, key).status == 429
    assert report(b, permits[0]).status == 200
    assert report(c, permits[1]).status == 200
    until(lambda: acquire(a, limit, key).status == 200, "the grantor knows")


@pytest.mark.parametrize("limit", ["safe", "measured", "shed", "here"])
def test_a_second_report_is_refused_everywhere(servers, key, limit):
    a, b, c = servers
    first = take(a, limit, key)
    assert report(b, first).status == 200
    assert [report(server, first).status for server in (c, a, b)] == [404] * 3
    own = take(a, limit, key)
    assert report(a, own).status == 200
    assert [report(server, own).status for server in (b, c, a)] == [404] * 3


def test_an_outcome_counts_only_at_the_server_that_receives_it(servers, key):
    a, b, c = servers
    for _ in range(4):
        assert report(b, take(a, "safe", key), "failure").status == 200
    assert not is_closed(b, "safe", key)
    assert is_closed(a, "safe", key) and is_closed(c, "safe", key)


def test_no_timeout_is_counted_for_a_permit_that_was_reported_elsewhere(servers, key):
    a, b, _ = servers
    assert report(b, take(a, "quick", key)).status == 200
    lost = take(a, "quick", f"{key} lost")
    until(lambda: not is_closed(a, "quick", f"{key}%20lost"), "a permit that nobody reports times out")
    assert report(b, lost).status == 404
    assert is_closed(a, "quick", key)


def test_a_probe_is_decided_at_the_server_that_granted_it(servers, key):
    a, b, _ = servers
    for _ in range(2):
        assert report(a, take(a, "soon", key), "failure").status == 200
    probe = until(lambda: acquire(a, "soon", key).json.get("permit"), "a probe")
    assert acquire(a, "soon", key).status == 503
    assert report(b, probe).status == 200
    until(lambda: acquire(a, "soon", key).status == 200 and acquire(a, "soon", key).status == 200, "closed")


def test_a_permit_of_several_limits_can_be_reported_elsewhere(servers, key):
    a, b, _ = servers
    attributes = {"path": "/all", "user": key}
    permits = [a.post("/v1/acquire", {"attributes": attributes}).json["permit"] for _ in range(2)]
    assert a.post("/v1/acquire", {"attributes": attributes}).status == 429
    assert [report(b, permit).status for permit in permits] == [200, 200]
    assert [report(a, permit).status for permit in permits] == [404, 404]
    last = until(lambda: a.post("/v1/acquire", {"attributes": attributes}).json.get("permit"), "all are free")
    # A refund returns units at Redis and in the memory of the grantor; the reports before did not.
    uses = left(a, "uses", key)
    assert b.post("/v1/refund", {"permit": last}).json["allowed"]
    assert left(a, "uses", key) == uses + 1
    until(lambda: left(a, "here", key) == 2, "the place is free")
    assert not b.post("/v1/refund", {"permit": last}).json["allowed"]


def over_http2(server, permit):
    done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-w", " %{http_code}", "-d",
                           json.dumps({"permit": permit, "outcome": "success"}),
                           f"http://127.0.0.1:{server.http}/v1/report"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def test_reports_over_http2_reach_the_grantor(servers, key):
    a, b, c = servers
    permits = [take(a, "full", key) for _ in range(2)]
    assert [over_http2(b, permit) for permit in permits] == [200, 200]
    assert [over_http2(server, permits[0]) for server in (a, b, c)] == [404] * 3
    until(lambda: left(a, "full", key) == 2, "the grantor knows")


def test_reports_over_resp_reach_the_grantor(servers, key):
    a, b, _ = servers
    with Wire(a.resp) as at_a, Wire(b.resp) as at_b:
        permits = [at_a.command("WEIR.ACQUIRE", "full", key)[6] for _ in range(2)]
        assert at_b.command("WEIR.REPORT", permits[0], "success") == b"+OK"
        assert at_b.command("WEIR.REPORT", permits[0], "success").startswith(b"-ERR the permit is not held")
        at_b.send(b"".join(encode("WEIR.REPORT", permit, "success") for permit in permits))
        assert at_b.reply().startswith(b"-ERR")
        assert at_b.reply() == b"+OK"
    until(lambda: acquire(a, "full", key).status == 200, "the grantor knows")


def test_reports_after_a_reload_reach_the_grantor(servers, key):
    a, b, _ = servers
    permits = [take(a, "full", key) for _ in range(2)]
    for server in (a, b):
        server.reload(server.config.read_text() + "# the same\n")
        server.line_with("reloaded")
    assert [report(b, permit).status for permit in permits] == [200, 200]
    until(lambda: acquire(a, "full", key).status == 200, "the grantor knows")


def test_a_restarted_server_has_forgotten_its_permits(start_redis, tmp_path):
    redis = start_redis()
    a, b = start(redis, tmp_path, 2)
    permit = take(a, "safe", "k")
    assert a.stop() == 0
    assert report(b, permit).status == 200
    assert report(b, permit).status == 404
    assert b.stop() == 0


def test_reports_at_other_servers_fail_while_redis_is_unavailable(start_redis, tmp_path):
    redis = start_redis()
    a, b = start(redis, tmp_path, 2)
    permits = [take(a, "full", "k") for _ in range(2)]
    redis.stop()
    assert report(b, permits[0]).status == 503
    assert report(a, permits[1]).status == 200
    assert report(a, permits[1]).status == 404
    redis.restart()
    until(lambda: report(b, permits[0]).status == 200, "Redis is back")
    until(lambda: left(a, "full", "k") == 2, "the grantor knows")
    for server in (a, b):
        assert server.stop() == 0
