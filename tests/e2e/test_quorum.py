"""One breaker for three servers over a real Redis: votes, probes, and what happens without Redis."""

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
"""


@pytest.fixture(scope="module", params=PROGRAMS)
def redis(request, tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("quorum"), program=request.param)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def fleet(redis, tmp_path_factory):
    servers = start(redis, tmp_path_factory.mktemp("fleet"))
    yield servers
    for server in servers:
        assert server.stop() == 0


def start(redis, directory, count=3):
    servers = [Server(config=RULES.format(url=redis.url), directory=directory) for _ in range(count)]
    for server in servers:
        joined(server)
    return servers


def joined(server):
    """A window that trips opens nothing here: the fleet has been heard of."""
    n = iter(range(1000000))

    def goes_on():
        key = f"join {id(server)} {next(n)}"
        fail(server, "up", key, 3)
        return acquire(server, "up", key).status == 200

    until(goes_on, "the server is one of the fleet")


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
    """A permit of the first server that lets a request pass."""
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


def test_one_bad_server_opens_nothing_and_two_open_it_for_all(fleet, key):
    fail(fleet[0], "up", key, 30)
    time.sleep(0.2)  # a few polls, in which nothing is to happen
    assert not any(is_open(server, "up", key) for server in fleet)
    assert acquire(fleet[0], "up", key).status == 200
    fail(fleet[1], "up", key, 3)
    opened(fleet, "up", key)
    assert 3_500_000 < acquire(fleet[2], "up", key).json["retry_after_ms"] <= 3_600_000


@pytest.mark.alone
def test_the_lag_is_a_poll(fleet, key):
    """Of many turns most are known within `store_poll`: one that is late was late by the load."""
    lags = []
    for n in range(15):
        fail(fleet[0], "one", f"{key} {n}")
        began = time.monotonic()
        opened(fleet[1:], "one", f"{key} {n}")
        lags.append(time.monotonic() - began)
    assert sorted(lags)[len(lags) // 4] < 0.05 + 0.02


def test_probes_are_those_of_the_fleet(fleet, key):
    fail(fleet[0], "three", key)
    opened(fleet, "three", key)
    probes = [probe(fleet, "three", key) for _ in range(3)]
    for _ in range(10):
        assert {acquire(server, "three", key).status for server in fleet} == {503}
        time.sleep(0.01)
    for server, permit in probes[:2]:
        report(server, permit, "success")
    assert is_open(fleet[0], "three", key) or is_open(fleet[1], "three", key)
    report(*probes[2], "success")
    for server in fleet:
        until(lambda server=server: acquire(server, "three", key).status == 200, "it closes for all")


def test_a_bad_probe_opens_it_for_all_and_an_ignored_one_is_free(fleet, key):
    fail(fleet[0], "soon", key)
    opened(fleet, "soon", key)
    report(*probe(fleet, "soon", key), "ignored")
    report(*probe(fleet[::-1], "soon", key), "failure")
    server, permit = probe(fleet[1:], "soon", key)
    assert {acquire(other, "soon", key).status for other in fleet} == {503}
    report(server, permit, "success")
    for other in fleet:
        until(lambda other=other: acquire(other, "soon", key).status == 200, "it closes for all")


def test_probes_of_a_server_that_was_killed_end(redis, fleet, tmp_path, key):
    (other,) = start(redis, tmp_path, 1)
    fail(other, "lost", key)
    opened(fleet, "lost", key)
    probe([other], "lost", key)
    assert {acquire(server, "lost", key).status for server in fleet} == {503}
    other.process.kill()
    other.process.wait()
    report(*probe(fleet, "lost", key), "success")


def test_a_reset_closes_it_for_all_and_a_new_server_learns_what_is_open(redis, fleet, tmp_path, key):
    fail(fleet[0], "one", key)
    opened(fleet, "one", key)
    (late,) = start(redis, tmp_path, 1)
    opened([late], "one", key)
    assert late.post("/v1/reset", {"limit": "one", "key": key}).status == 200
    for server in [*fleet, late]:
        until(lambda server=server: not is_open(server, "one", key), "it closes for all")
    assert late.stop() == 0


def test_nothing_lives_for_ever_and_scripts_may_be_lost(redis, fleet, key):
    redis.client.script_flush()
    fail(fleet[0], "one", key)
    opened(fleet, "one", key)
    names = list(redis.client.scan_iter("weir:fleet:*"))
    assert names and all(redis.client.pttl(name) > 0 for name in names)
    assert {name.rsplit(":", 1)[0] for name in names} <= {
        f"weir:fleet:{{{limit}}}" for limit in ("up", "one", "soon", "three", "grows", "lost")}


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_one_bad_server_that_restarts_opens_nothing_and_a_second_one_does(redis, tmp_path, key, ends):
    """Each start draws another id: a vote of that id is in Redis, and it is the only one that counts."""
    good, bad = start(redis, tmp_path, 2)
    voters = set()

    def votes():
        """Whether a server has voted that had not; the key's state is that after its vote."""
        state = (redis.client.hget("weir:fleet:{up}:keys", key) or "").split()
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


def test_a_reload_keeps_what_the_fleet_has_decided(redis, tmp_path, key):
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
    """A reload makes the first sleep an hour, so that the sleep of now can be read however slow the machine is."""
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


def test_a_call_on_its_way_outlives_the_configuration_it_was_written_by(redis, tmp_path, key):
    rules = RULES.format(url=redis.url) + "store_poll: 20ms\n"
    server = Server(config=rules, directory=tmp_path)
    joined(server)
    for n in range(5):
        with redis.hung():
            time.sleep(0.1)  # a call is due, and has no answer
            server.reload(rules + f"# file {n}\n")
            server.line_with("reloaded")
            assert server.get("/healthz").status == 200
    fail(server, "one", key)
    opened([server], "one", key)
    assert server.stop() == 0


def test_without_redis_each_decides_by_itself_and_then_takes_the_fleets_word(tmp_path, key):
    redis = RedisServer(tmp_path / "redis", durable=True)
    servers = start(redis, tmp_path)
    fail(servers[0], "up", key + " open", 3)
    fail(servers[1], "up", key + " open", 3)
    opened(servers, "up", key + " open")
    redis.stop()
    for server in servers:
        server.line_with("store_away")
    # What tripped just before Redis was missed is told to nobody: the next failure opens it.
    until(lambda: fail(servers[2], "up", key, 3) or is_open(servers[2], "up", key), "it opens here")
    assert not is_open(servers[0], "up", key)
    redis.restart()
    for server in servers:
        joined(server)
    assert all(is_open(server, "up", key + " open") for server in servers)
    for server in servers:
        assert server.stop() == 0
    redis.stop()
