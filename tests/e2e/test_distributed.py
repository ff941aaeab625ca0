"""Servers whose limits count at a real Redis: commands, several servers, queues, permits, failures."""

import concurrent.futures
import json
import select
import time

import pytest
from harness import BUILD, PATIENCE, SANITIZED, Http, Wire, encode, metric, until, until_pending, weir
from redis_servers import OLDEST, PROGRAMS

pytestmark = pytest.mark.first

# Nothing refills during a test, as periods are an hour, and no busy machine reaches the timeout.
LIMITS = """
store_timeout: 30s
limits:
  token: { algorithm: token_bucket, rate: 10/h, burst: 10 }
  leaky: { algorithm: leaky_bucket, rate: 10/h, capacity: 10 }
  reset: { algorithm: resetting_bucket, rate: 10/h }
  queue: { algorithm: leaky_queue, rate: 10/h, capacity: 3 }
  paced: { algorithm: pacer, rate: 10/h, slack: 5 }
  window: { algorithm: fixed_window, rate: 10/h, align: first_request }
  calendar: { algorithm: fixed_window, rate: 10/d, timezone: Europe/Berlin }
  sliding: { algorithm: sliding_window, rate: 10/h }
  counter: { algorithm: sliding_counter, rate: 10/h }
  log: { algorithm: sliding_log, rate: 10/h }
  places: { algorithm: concurrency, max: 10, lease: 1h }
  few: { algorithm: concurrency, max: 2, lease: 1h, max_wait: 1h }
  near: { algorithm: fixed_window, rate: 10/h, align: first_request, store: memory }
rules:
  - name: both
    match: { path: /both }
    key: [ip]
    limits: [token, near, window]
"""
NAMES = ["token", "leaky", "reset", "window", "calendar", "sliding", "counter", "log", "places", "near"]


@pytest.fixture
def servers(serve, start_redis):
    """A function that starts `n` servers on one Redis."""

    def start(n, config=LIMITS, **more):
        redis = start_redis(**more)
        return redis, [serve("--store", redis.url, config=config) for _ in range(n)]

    return start


def ask(server, *commands):
    """The replies to commands, all of which are sent before the first reply is read."""
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode(*words) for words in commands))
        return [wire.reply() for _ in commands]


def passed(server, *words):
    return ask(server, words)[0][0] == 1


def stable(reply):
    """A reply without permits and times, which differ between two runs."""
    if isinstance(reply, list) and len(reply) >= 7 and isinstance(reply[0], int):
        return reply[:3] + [reply[5], bool(reply[6])] + reply[7:]
    if isinstance(reply, list) and len(reply) == 5 and isinstance(reply[0], int):
        return reply[:3]
    return [stable(one) for one in reply] if isinstance(reply, list) else reply


def commands(names):
    of_limits = [words for name in names for words in (
        ("WEIR.ACQUIRE", name, "k"), ("WEIR.ACQUIRE", name, "k", "COST", 3),
        ("WEIR.PEEK", name, "k"), ("WEIR.ACQUIRE", name, "k", "COST", 7),
        ("WEIR.ACQUIRE", name, "k", "COST", 11), ("WEIR.RESET", name, "k"), ("WEIR.PEEK", name, "k"),
        ("WEIR.ACQUIRE", name, "", "WAIT", 0), ("WEIR.ACQUIRE", name, "{a} b\r\n\0%", "PERMIT"))]
    return of_limits + [
        ("CL.THROTTLE", "k", 4, 10, 3600), ("CL.THROTTLE", "k", 4, 10, 3600, 4),
        ("CL.THROTTLE", "k", 4, 10, 3600), ("CL.THROTTLE", "k", 4, 10, 3600, 99),
        ("CL.THROTTLE", "other", 4, 10, 3600, 0), ("PING", "here"),
        ("WEIR.RESET", "CL.THROTTLE", "k"), ("CL.THROTTLE", "k", 4, 10, 3600),
        ("MULTI",), ("WEIR.ACQUIRE", "token", "m"), ("WEIR.ACQUIRE", "near", "m"), ("PING", "there"),
        ("CL.THROTTLE", "m", 4, 10, 3600), ("WEIR.ACQUIRE", "nowhere", "m"),
        ("WEIR.ACQUIRE", "token", "m", "COST", 11), ("WEIR.PEEK", "token", "m"), ("EXEC",),
        ("WEIR.CHECK", "path", "/both", "ip", "1.2.3.4"), ("WEIR.PEEK", "window", "1.2.3.4")]


def ask_each(server, words):
    with Wire(server.resp) as wire:
        return [wire.command(*one) for one in words]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_answers_as_in_memory(serve, servers, program):
    _, [server] = servers(1, program=program)
    here, there = serve(config=LIMITS), server
    words = commands(NAMES)
    for one, want, got in zip(words, ask_each(here, words), ask_each(there, words)):
        assert (one, stable(got)) == (one, stable(want))


def test_a_pipeline_is_decided_and_answered_in_order(serve, servers):
    _, [server] = servers(1)
    words = commands(NAMES) * 3
    here = serve(config=LIMITS)
    for one, want, got in zip(words, ask(here, *words), ask(server, *words)):
        assert (one, stable(got)) == (one, stable(want))


def strip(value):
    if isinstance(value, list):
        return [strip(one) for one in value]
    if isinstance(value, dict):
        return {k: strip(v) for k, v in value.items() if not k.endswith("_ms") and k != "permit"}
    return value


def test_http_answers_as_in_memory(serve, servers):
    _, [server] = servers(1)
    answers = []
    for one in server, serve(config=LIMITS):
        said = []
        for name in NAMES:
            for value in ({"cost": 4}, {"cost": 4}, {"cost": 4}, {"permit": True}):
                said.append(one.post("/v1/acquire", {"limit": name, "key": "k", **value}))
        said.append(one.post("/v1/batch", [{"limit": name, "key": "b"} for name in NAMES] * 3))
        said.append(one.post("/v1/check", {"attributes": {"path": "/both", "ip": "::1"}}))
        said.append(one.get("/auth", {"X-Forwarded-Uri": "/both", "X-Forwarded-For": "9.9.9.9"}))
        answers.append([(a.status, strip(json.loads(a.text)) if a.text else "") for a in said])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("program", ["redis", OLDEST])
@pytest.mark.parametrize("name", NAMES[:-1])
def test_two_servers_share_exactly_one_limit(servers, name, program):
    _, [one, other] = servers(2, program=program)

    def run(server):
        replies = ask(server, *[("WEIR.ACQUIRE", name, "k")] * 20)
        return sum(reply[0] for reply in replies)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        granted = sum(pool.map(run, [one, other] * 4))
    assert granted == 10
    assert ask(other, ("WEIR.PEEK", name, "k"))[0][2] == 0


def test_paced_starts_are_delayed_and_spaced_over_all_servers(servers):
    config = LIMITS.replace("{ algorithm: pacer, rate: 10/h, slack: 5 }",
                            "{ algorithm: pacer, rate: 10/s, slack: 0, max_wait: 1h }")
    _, [one, other] = servers(2, config)
    with Wire(one.resp) as wire, Wire(other.resp) as second:
        start = time.monotonic()
        for _ in range(3):
            wire.send(encode("WEIR.ACQUIRE", "paced", "k"))
            second.send(encode("WEIR.ACQUIRE", "paced", "k"))
        replies = [w.reply() for _ in range(3) for w in (wire, second)]
        assert all(reply[0] == 1 for reply in replies)
        assert time.monotonic() - start >= 0.45  # six starts have five distances of 100 ms


def test_memory_does_not_wait_while_redis_hangs(servers):
    redis, [server] = servers(1)
    with Wire(server.resp) as slow, Wire(server.resp) as quick, Http(server.http) as http:
        slow.send(encode("WEIR.ACQUIRE", "token", "k"))
        assert slow.reply()[0] == 1
        with redis.hung():
            slow.send(encode("PING", "before") + encode("WEIR.ACQUIRE", "token", "k") +
                      encode("WEIR.ACQUIRE", "near", "k") + encode("PING", "behind"))
            assert slow.reply() == b"before"
            until_pending(server, 1)
            for _ in range(3):
                assert quick.command("WEIR.ACQUIRE", "near", "k")[0] == 1
            assert http.request("GET", "/readyz").status == 200
        token, near, behind = [slow.reply() for _ in range(3)]
        assert (token[2], near[2], behind) == (8, 9, b"behind")


def test_units_that_redis_grants_to_a_disconnected_client_are_released(servers):
    redis, [server] = servers(1)
    assert passed(server, "WEIR.ACQUIRE", "token", "k")
    with redis.hung():
        with Wire(server.resp) as wire:
            wire.send(encode("WEIR.ACQUIRE", "token", "k", "COST", 5) +
                      encode("MULTI") + encode("WEIR.ACQUIRE", "token", "k") +
                      encode("WEIR.ACQUIRE", "window", "k") + encode("EXEC"))
            until_pending(server, 2)
        until_pending(server, 0)
    until(lambda: ask(server, ("WEIR.PEEK", "token", "k"))[0][2] == 9, "five units to come back")
    until(lambda: ask(server, ("WEIR.PEEK", "window", "k"))[0][2] == 10, "a unit to come back")


def test_a_permit_that_is_released_at_one_server_admits_a_pending_request_at_another(servers):
    _, [one, other] = servers(2)
    permits = [ask(one, ("WEIR.ACQUIRE", "few", "k"))[0][6] for _ in range(2)]
    with Wire(other.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "few", "k", "WAIT", 60000) + encode("PING"))
        until_pending(other, 1)
        assert ask(one, ("WEIR.REFUND", "few", "k", "PERMIT", permits[0]))[0][0] == 1
        assert wire.reply()[0] == 1
        assert wire.reply() == b"+PONG"


def test_each_released_permit_admits_one_pending_request(servers):
    _, [server] = servers(1)
    permits = [ask(server, ("WEIR.ACQUIRE", "few", "k"))[0][6] for _ in range(2)]
    wires = [Wire(server.resp) for _ in range(4)]
    for i, wire in enumerate(wires):
        wire.send(encode("WEIR.ACQUIRE", "few", "k", "WAIT", 60000) + encode("PING"))
        until_pending(server, i + 1)
    for left in range(len(wires) - 1, -1, -1):
        assert ask(server, ("WEIR.REFUND", "few", "k", "PERMIT", permits.pop(0)))[0][0] == 1
        [wire] = select.select([w.socket for w in wires], [], [], PATIENCE)[0]
        wire = next(w for w in wires if w.socket is wire)
        reply = wire.reply()
        assert reply[0] == 1
        assert wire.reply() == b"+PONG"
        permits.append(reply[6])
        wires.remove(wire)
        until_pending(server, left)


def test_a_limit_may_have_its_own_store_and_a_reload_may_change_it(serve, start_redis, key):
    first, second = start_redis(), start_redis()
    config = ("store_timeout: 30s\nlimits:\n"
              "  here: { algorithm: fixed_window, rate: 10/h, align: first_request }\n"
              "  there: { algorithm: fixed_window, rate: 10/h, align: first_request, store: '%s' }\n")
    server = serve(config=config % first.url)
    assert passed(server, "WEIR.ACQUIRE", "there", key) and passed(server, "WEIR.ACQUIRE", "here", key)
    assert first.client.keys("weir:{*") == [f"weir:{{{key}}}:there"]
    server.reload(config % second.url)
    server.line_with("reloaded")
    assert passed(server, "WEIR.ACQUIRE", "there", key) and passed(server, "WEIR.ACQUIRE", "here", key)
    assert second.client.keys("weir:{*") == [f"weir:{{{key}}}:there"]
    assert ask(server, ("WEIR.PEEK", "here", key))[0][2] == 8
    server.reload(config % first.url)
    server.line_with("reloaded")
    assert ask(server, ("WEIR.PEEK", "there", key))[0][2] == 9


def report(server, permit):
    return server.post("/v1/report", {"permit": permit, "outcome": "success"}).status


def works_elsewhere(one, other, limit):
    """Whether another server accepts a permit; if so, it does it once only."""
    permit = ask(one, ("WEIR.ACQUIRE", limit, "{a} b", "PERMIT"))[0][6]
    [reply] = ask(other, ("WEIR.REFUND", limit, "{a} b", "PERMIT", permit))
    if not isinstance(reply, list):
        assert b"expected a permit that this server issued" in reply
        return False
    assert reply[0] == 1
    assert ask(one, ("WEIR.REFUND", limit, "{a} b", "PERMIT", permit))[0][0] == 0
    return True


@pytest.mark.parametrize("program", ["redis", OLDEST])
@pytest.mark.parametrize("limit", ["token", "places", "window"])
def test_a_permit_works_at_every_server(servers, limit, program):
    _, [one, other] = servers(2, program=program)
    until(lambda: works_elsewhere(one, other, limit), "servers to share a secret")
    before = ask(other, ("WEIR.PEEK", limit, "{a} b"))[0][2]  # permits issued before the secret was shared can't be refunded
    assert works_elsewhere(one, other, limit)
    assert ask(other, ("WEIR.PEEK", limit, "{a} b"))[0][2] >= before
    permit = ask(other, ("WEIR.ACQUIRE", "places", "r"))[0][6].decode()
    assert [report(one, permit), report(other, permit)] == [200, 404]
    assert ask(one, ("WEIR.PEEK", "places", "r"))[0][2] == 10


def commands_about_secret(redis):
    """How many SET commands Redis has had: a server sends one each time that it checks the secret."""
    return calls_of(redis, "set")


def calls_of(redis, command):
    return redis.client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0)


def test_the_secret_is_stored_again_after_redis_lost_it(servers):
    redis, _ = servers(1)
    secret = until(lambda: redis.client.get("weir:secret"), "the secret")
    assert redis.client.ttl("weir:secret") > 6 * 86400
    redis.client.flushall()
    until(lambda: redis.client.get("weir:secret"), "the secret to come back")
    assert redis.client.get("weir:secret") == secret


@pytest.mark.parametrize("kind", ["text", "digits", "list"])
def test_a_foreign_value_at_the_key_of_the_secret_is_reported_and_kept(servers, serve, kind):
    """Until the value is deleted each server accepts its own permits only. No log line contains the value."""
    redis, [one] = servers(1)
    until(lambda: calls_of(redis, "pexpire"), "the secret to be there, and its lifetime to be renewed")
    redis.client.delete("weir:secret")
    value = {"text": "hunter2", "digits": "z" * 32}.get(kind)
    if value:
        redis.client.set("weir:secret", value, ex=100)
    else:
        redis.client.rpush("weir:secret", "hunter2")
        redis.client.expire("weir:secret", 100)
    other = serve("--store", redis.url, config=LIMITS)
    before = [line for line in other.log if "secret_unusable" in line]  # the line may precede the one of the listeners
    line = before[0] if before else other.line_with("secret_unusable")
    assert f"store={redis.url} key=weir:secret times=1 expected 32 hexadecimal digits, found " in line
    assert ("found other text" if value else "found a value of another type") in line
    assert "until you delete the key" in line
    asked = commands_about_secret(redis)
    until(lambda: commands_about_secret(redis) > asked + 2, "the server to look again")
    assert 0 < redis.client.ttl("weir:secret") <= 100
    assert not value or redis.client.get("weir:secret") == value
    redis.client.delete("weir:secret")
    other.line_with("secret_usable")
    until(lambda: ask(one, ("WEIR.RESET", "token", "{a} b")) and works_elsewhere(one, other, "token"),
          "servers to share a secret")
    assert redis.client.ttl("weir:secret") > 6 * 86400
    assert [other.stop(), one.stop()] == [0, 0]
    assert len([line for line in other.log if "secret_unusable" in line]) == 1
    assert "hunter2" not in "".join(one.log + other.log) and "zzz" not in "".join(one.log + other.log)


def test_a_permit_works_at_every_server_of_a_cluster(serve, redis_cluster):
    one, other = (serve("--store", redis_cluster.url, config=LIMITS) for _ in range(2))
    until(lambda: works_elsewhere(one, other, "token"), "servers to share a secret")


@pytest.mark.parametrize("program", ["redis"] if BUILD.name in SANITIZED
                         else ["redis", "valkey", OLDEST])
@pytest.mark.parametrize("missing", ["-time", "-set", "-setrange", "-script"])
def test_a_redis_that_forbids_commands_of_scripts_is_unavailable_until_it_permits_them(serve, start_redis, key, program,
                                                                  missing):
    redis = start_redis(program=program)
    redis.client.acl_setuser("weir", enabled=True, passwords=["+p"], keys=["*"], categories=["+@all"])
    redis.client.execute_command("ACL", "SETUSER", "weir", missing)
    server = serve("--store", redis.url.replace("//", "//weir:p@"), config=LIMITS + "nodes: 2\n")
    up = f'weir_store_up{{store="{redis.url}"}}'
    for limit in ("token", "window", "token", "window"):  # the second of each changes a value that exists
        ask(server, ("WEIR.ACQUIRE", limit, key))
    assert "Redis says" in server.line_with("store_away")
    time.sleep(2.5)  # time for some recovery checks
    assert metric(server, up) == 0
    assert not [line for line in server.log if "store_back" in line]
    redis.client.execute_command("ACL", "SETUSER", "weir", "+@all")
    server.line_with("store_back")
    assert metric(server, up) == 1
    assert ask(server, ("WEIR.ACQUIRE", "token", key))[0][0] == 1


def test_without_redis_the_policy_decides_until_it_recovers(serve, start_redis, key):
    redis = start_redis()
    redis.stop()
    server = serve("--store", redis.url.replace("//", "//:not-shown@"),
                   config=LIMITS + "nodes: 2\n")
    for _ in range(2):
        assert ask(server, ("WEIR.ACQUIRE", "window", key))[0][0] == 1
    line = server.line_with("store_away")
    assert redis.url in line and "not-shown" not in line
    assert server.get("/readyz").status == 200
    assert metric(server, f'weir_store_up{{store="{redis.url}"}}') == 0
    assert metric(server, 'weir_store_failures_total{limit="window",policy="local"}') == 2
    for _ in range(5):
        ask(server, ("WEIR.ACQUIRE", "window", key))
    assert ask(server, ("WEIR.ACQUIRE", "window", key))[0][0] == 0  # the policy allows half of ten
    redis.options += ["--requirepass", "not-shown"]
    redis.restart()
    server.line_with("store_back")
    assert ask(server, ("WEIR.PEEK", "window", key))[0][2] == 10
    assert metric(server, f'weir_store_up{{store="{redis.url}"}}') == 1
    assert "not-shown" not in server.get("/metrics").text + server.get("/v1/limits").text
    assert "not-shown" not in "".join(server.log)


def test_a_reset_without_redis_fails_and_changes_nothing(serve, start_redis):
    redis = start_redis()
    redis.stop()
    server = serve("--store", redis.url, config=LIMITS + "nodes: 2\n")
    throttle, acquire = ("CL.THROTTLE", "k", 3, 4, 3600), ("WEIR.ACQUIRE", "window", "k", "COST", 2)
    ask(server, acquire)  # it finds the Redis unavailable
    before = ask(server, throttle, acquire)
    assert (before[0][0], before[0][2], before[1][2]) == (0, 1, 1)  # the server's share is half
    for reply in ask(server, ("DEL", "k"), ("WEIR.RESET", "window", "k")):
        assert reply == b"-ERR the store did not answer"
    after = ask(server, throttle, acquire)
    assert after[0][2] == 0 and after[1][0] == 0
    redis.restart()
    server.line_with("store_back")
    assert ask(server, ("DEL", "k"), ("WEIR.RESET", "window", "k"))[0] in (0, 1)
    redis.stop()
    ask(server, acquire)
    assert [reply[2] for reply in ask(server, throttle, acquire)] == [1, 1]


def test_a_server_stops_while_its_redis_hangs(servers):
    redis, [server] = servers(1)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "token", "k")[0] == 1
        with redis.hung():
            wire.send(encode("WEIR.ACQUIRE", "token", "k") + encode("WEIR.ACQUIRE", "near", "k") +
                      encode("MULTI") + encode("WEIR.ACQUIRE", "window", "k") + encode("EXEC"))
            until_pending(server, 2)
            assert server.stop() == 0
            assert wire.rest() == b""


@pytest.mark.parametrize("limit", ["algorithm: token_bucket, rate: 1000/d, burst: 1000",
                                   "algorithm: fixed_window, rate: 1000/year"])
def test_a_server_that_stops_returns_its_chunks(servers, limit):
    config = f"store_timeout: 30s\nlimits: {{ much: {{ {limit}, chunk: 50% }} }}\n"
    _, [one, other] = servers(2, config)
    taken = 0

    def has_a_chunk():
        """The second request to a key within a second fetches a chunk, unless the machine stands still."""
        nonlocal taken
        assert ask(one, *[("WEIR.ACQUIRE", "much", "k")] * 5)[4][0] == 1
        taken += 5
        return ask(other, ("WEIR.PEEK", "much", "k"))[0][2] < 600

    until(has_a_chunk, "units to be taken in advance")
    assert one.stop() == 0
    assert ask(other, ("WEIR.PEEK", "much", "k"))[0][2] == 1000 - taken
    replies = ask(other, *[("WEIR.ACQUIRE", "much", "k", "COST", 5)] * 200)
    assert sum(reply[0] for reply in replies) == 200 - taken // 5


def test_a_server_that_stops_answers_requests_that_are_pending_at_redis(servers):
    redis, [server] = servers(1, "limits: { ten: { algorithm: fixed_window, rate: 10/year, "
                                 "on_store_failure: closed } }\nstore_timeout: 2s\n")
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "ten", "k")[0] == 1
        with redis.hung():
            wire.send(encode("WEIR.ACQUIRE", "ten", "k"))
            until_pending(server, 1)
            assert server.stop() == 0
            assert wire.reply()[5] == b"store_failure"
            assert wire.rest() == b""


def test_the_list_of_denied_keys_and_weir_ask_cover_limits_at_redis(servers):
    _, [server] = servers(1)
    for _ in range(13):
        ask(server, ("WEIR.ACQUIRE", "window", "k"))
    [first] = server.get("/v1/top?n=5").json
    assert (first["limit"], first["key"], first["denied"]) == ("window", "k", 3)
    answer = weir("ask", "window", "k", "--server", f"127.0.0.1:{server.resp}")
    assert answer.returncode == 1 and "over_limit" in answer.stdout, answer
