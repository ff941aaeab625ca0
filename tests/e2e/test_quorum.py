"""A breaker that three servers share by a quorum over a real Redis: votes, probes, and failures of Redis."""

import time

import pytest
from harness import Server, until
from redis_servers import PROGRAMS, RedisServer

RULES = """
store: {url}
store_timeout: 30s
limits:
  up: {{ algorithm: breaker, minimum: 3, quorum: 2, sleep: 1h, permit_timeout: 1h }}
  one: {{ algorithm: breaker, minimum: 1, quorum: 1, sleep: 1h, permit_timeout: 1h }}
  soon: {{ algorithm: breaker, minimum: 1, quorum: 1, sleep: 1ms, probe_timeout: 1h, ramp: 0s, permit_timeout: 1h }}
  three: {{ algorithm: breaker, minimum: 1, quorum: 1, probes: 3, sleep: 1ms, probe_timeout: 1h, ramp: 0s,
           permit_timeout: 1h }}
  grows: {{ algorithm: breaker, minimum: 1, quorum: 1, sleep: 1ms, sleep_max: 300d, probe_timeout: 1h, ramp: 0s }}
  lost: {{ algorithm: breaker, minimum: 1, quorum: 1, sleep: 1ms, probe_timeout: 500ms, ramp: 0s, permit_timeout: 1h }}
  here: {{ algorithm: token_bucket, rate: 1000000/s, store: memory }}
  there: {{ algorithm: token_bucket, rate: 1000000/s }}
rules:
  - {{ name: here, match: {{ path: /here }}, key: [ip], limits: [soon, here] }}
  - {{ name: there, match: {{ path: /there }}, key: [ip], limits: [soon, there] }}
"""


@pytest.fixture(scope="module", params=PROGRAMS)
def redis(request, tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("quorum"), program=request.param)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def group(redis, tmp_path_factory):
    servers = start(redis, tmp_path_factory.mktemp("servers"))
    yield servers
    for server in servers:
        assert server.stop() == 0


def start(redis, directory, count=3):
    servers = [Server(config=RULES.format(url=redis.url), directory=directory) for _ in range(count)]
    for server in servers:
        until_in_group(server)
    return servers


def until_in_group(server):
    """Waits until the server knows the quorum group: a tripped window alone no longer opens its breaker."""
    n = iter(range(1000000))

    def goes_on():
        key = f"join {id(server)} {next(n)}"
        fail(server, "up", key, 3)
        return acquire(server, "up", key).status == 200

    until(goes_on, "the server to join the group")


def acquire(server, limit, key):
    return server.post("/v1/acquire", {"limit": limit, "key": key})


def report(server, permit, outcome="failure"):
    assert server.post("/v1/report", {"permit": permit, "outcome": outcome}).status == 200


def fail(server, limit, key, times=1):
    for _ in range(times):
        answer = acquire(server, limit, key)
        if answer.status == 200:
            report(server, answer.json["permit"])


def is_open(server, limit, key):
    answer = server.post("/v1/peek", {"limit": limit, "key": key})
    return answer.json["reason"] == "breaker_open"


def opened(servers, limit, key):
    for server in servers:
        until(lambda server=server: is_open(server, limit, key), f"{limit} {key} is open")


def probe(servers, limit, key):
    """(server, permit) of the first server that allows a request."""
    found = []

    def passes():
        for server in servers:
            answer = acquire(server, limit, key)
            if answer.status == 200:
                found.append((server, answer.json["permit"]))
                return True
        return False

    until(passes, "a probe passes")
    return found[0]


def test_one_bad_server_opens_nothing_and_two_open_it_for_all(group, key):
    fail(group[0], "up", key, 30)
    time.sleep(0.2)  # a few polls, in which no phase may change
    assert not any(is_open(server, "up", key) for server in group)
    assert acquire(group[0], "up", key).status == 200
    fail(group[1], "up", key, 3)
    opened(group, "up", key)
    assert 3_500_000 < acquire(group[2], "up", key).json["retry_after_ms"] <= 3_600_000


@pytest.mark.alone
def test_a_phase_change_reaches_other_servers_within_a_poll(group, key):
    """Most of many phase changes arrive within `store_poll`; the load of the machine may delay one."""
    lags = []
    for n in range(15):
        fail(group[0], "one", f"{key} {n}")
        began = time.monotonic()
        opened(group[1:], "one", f"{key} {n}")
        lags.append(time.monotonic() - began)
    assert sorted(lags)[len(lags) // 4] < 0.05 + 0.02


def test_the_servers_of_a_group_share_the_probes(group, key):
    fail(group[0], "three", key)
    opened(group, "three", key)
    probes = [probe(group, "three", key) for _ in range(3)]
    for _ in range(10):
        assert {acquire(server, "three", key).status for server in group} == {503}
        time.sleep(0.01)
    for server, permit in probes[:2]:
        report(server, permit, "success")
    assert is_open(group[0], "three", key) or is_open(group[1], "three", key)
    report(*probes[2], "success")
    for server in group:
        until(lambda server=server: acquire(server, "three", key).status == 200, "it closes for all")


def test_a_failed_probe_opens_the_breaker_for_all_and_an_ignored_one_is_available_again(group, key):
    fail(group[0], "soon", key)
    opened(group, "soon", key)
    report(*probe(group, "soon", key), "ignored")
    report(*probe(group[::-1], "soon", key), "failure")
    server, permit = probe(group[1:], "soon", key)
    assert {acquire(other, "soon", key).status for other in group} == {503}
    report(server, permit, "success")
    for other in group:
        until(lambda other=other: acquire(other, "soon", key).status == 200, "it closes for all")


@pytest.mark.parametrize("path", ["/here", "/there"])
def test_a_breaker_closes_again_where_other_limits_apply_to_its_requests(group, key, path):
    """There a peek denies a request, before any limit is charged: this denial asks for a probe, too."""
    def ask(server):
        return server.post("/v1/acquire", {"attributes": {"path": path, "ip": key}, "permit": True})

    fail(group[0], "soon", key)
    opened(group, "soon", key)
    probes = []
    until(lambda: any(answer.json["allowed"] and not probes.append(answer.json["permit"])
                      for answer in map(ask, group)), "a probe passes")
    report(group[0], probes[0], "success")
    for server in group:
        until(lambda server=server: ask(server).status == 200, "it closes for all")


def test_probes_of_a_killed_server_expire(redis, group, tmp_path, key):
    (other,) = start(redis, tmp_path, 1)
    fail(other, "lost", key)
    opened(group, "lost", key)
    probe([other], "lost", key)
    assert {acquire(server, "lost", key).status for server in group} == {503}
    other.process.kill()
    other.process.wait()
    report(*probe(group, "lost", key), "success")


def test_a_reset_closes_the_breaker_for_all_and_a_new_server_reads_open_breakers(redis, group, tmp_path, key):
    fail(group[0], "one", key)
    opened(group, "one", key)
    (late,) = start(redis, tmp_path, 1)
    opened([late], "one", key)
    assert late.post("/v1/reset", {"limit": "one", "key": key}).status == 200
    for server in [*group, late]:
        until(lambda server=server: not is_open(server, "one", key), "it closes for all")
    assert late.stop() == 0


def test_all_keys_at_redis_expire_and_lost_scripts_are_loaded_again(redis, group, key):
    redis.client.script_flush()
    fail(group[0], "one", key)
    opened(group, "one", key)
    names = list(redis.client.scan_iter("weir:quorum:*"))
    assert names and all(redis.client.pttl(name) > 0 for name in names)
    assert {name.rsplit(":", 1)[0] for name in names} <= {
        f"weir:quorum:{{{limit}}}" for limit in ("up", "one", "soon", "three", "grows", "lost")}


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_one_bad_server_that_restarts_opens_nothing_and_a_second_one_does(redis, tmp_path, key, ends):
    """Each start draws a new id. Its vote replaces those of earlier starts of that server."""
    good, bad = start(redis, tmp_path, 2)
    voters = set()

    def votes():
        """Whether a server with a new id has voted; then the key's state includes that vote."""
        state = (redis.client.hget("weir:quorum:{up}:keys", key) or "").split()
        found = {one.split(":")[0] for one in state[7:]} - voters
        voters.update(found)
        return found and state[0] == "closed"

    for _ in range(3):
        fail(bad, "up", key, 3)
        until(votes, "the bad server votes")
        assert not is_open(good, "up", key) and not is_open(bad, "up", key)
        if ends == "stop":
            assert bad.stop() == 0
        else:
            bad.process.kill()
            bad.process.wait()
        (bad,) = start(redis, tmp_path, 1)
    fail(good, "up", key, 3)
    fail(bad, "up", key, 3)
    opened([good, bad], "up", key)
    assert good.stop() == bad.stop() == 0


def test_a_reload_keeps_the_decisions_of_the_group(redis, tmp_path, key):
    servers = start(redis, tmp_path, 2)
    fail(servers[0], "one", key)
    opened(servers, "one", key)
    servers[1].reload(RULES.format(url=redis.url) + "\n# another file\n")
    servers[1].line_with("reloaded")
    assert is_open(servers[1], "one", key)
    fail(servers[1], "one", key + " 2")
    opened(servers, "one", key + " 2")
    for server in servers:
        assert server.stop() == 0


def test_each_failed_probe_doubles_the_sleep_for_all(redis, tmp_path, key):
    """A reload sets the first sleep to an hour, so that the current sleep is readable on a slow machine."""
    rules = RULES.format(url=redis.url)
    servers = start(redis, tmp_path, 2)
    fail(servers[0], "grows", key)
    opened(servers, "grows", key)
    for n in range(3):
        server, permit = probe(servers[n % 2:] + servers[:n % 2], "grows", key)
        report(server, permit)
    for server in servers:
        server.reload(rules.replace("sleep: 1ms, sleep_max", "sleep: 1h, sleep_max"))
        server.line_with("reloaded")

    def sleeps(server):
        answer = server.post("/v1/peek", {"limit": "grows", "key": key})
        return answer.json.get("retry_after_ms", 0) > 7.1 * 3600_000 and answer.json["retry_after_ms"]

    found = [until(lambda server=server: sleeps(server), "it sleeps eight times as long") for server in servers]
    assert max(found) <= 8.8 * 3600_000 and max(found) - min(found) < 120_000
    for server in servers:
        assert server.stop() == 0


def test_a_pending_call_outlives_the_configuration_that_sent_it(redis, tmp_path, key):
    rules = RULES.format(url=redis.url) + "store_poll: 20ms\n"
    server = Server(config=rules, directory=tmp_path)
    until_in_group(server)
    for n in range(5):
        with redis.hung():
            time.sleep(0.1)  # a call is due, and is not answered
            server.reload(rules + f"# file {n}\n")
            server.line_with("reloaded")
            assert server.get("/healthz").status == 200
    fail(server, "one", key)
    opened([server], "one", key)
    assert server.stop() == 0


def test_without_redis_each_server_decides_alone_and_then_applies_the_groups_decision(tmp_path, key):
    redis = RedisServer(tmp_path / "redis", durable=True)
    servers = start(redis, tmp_path)
    fail(servers[0], "up", key + " open", 3)
    fail(servers[1], "up", key + " open", 3)
    opened(servers, "up", key + " open")
    redis.stop()
    for server in servers:
        server.line_with("store_away")
    # A window that tripped just before the loss of Redis was noticed has no effect: the next failure opens the breaker.
    until(lambda: fail(servers[2], "up", key, 3) or is_open(servers[2], "up", key), "it opens here")
    assert not is_open(servers[0], "up", key)
    redis.restart()
    for server in servers:
        until_in_group(server)
    assert all(is_open(server, "up", key + " open") for server in servers)
    for server in servers:
        assert server.stop() == 0
    redis.stop()
