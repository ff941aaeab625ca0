"""GET /v1/status: what a server runs."""

import calendar
import json
import re
import signal
import time

import pytest
from harness import Http, Wire, encode, until, weir
from test_hostile_answers import fake_server, http

CONFIG = """
limits:
  login: { algorithm: token_bucket, rate: 2/h, burst: 2 }
  back: { algorithm: breaker, minimum: 1, sleep: 1h, permit_timeout: 1h }
rules:
  - { name: by-user, match: { path: [/login] }, key: [user], limits: [login] }
"""


def status(server, headers=None):
    answer = server.get("/v1/status", headers or {})
    assert answer.status == 200, answer
    return answer.json


def seconds(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def test_it_says_what_runs_since_when_and_by_which_files(serve):
    before = int(time.time())
    server = serve("--capacity", "1000", config=CONFIG)  # keys of small tables are counted exactly
    for _ in range(4):
        server.post("/v1/acquire", {"attributes": {"path": "/login", "user": "ann"}})
    shown = status(server)
    assert list(shown) == ["version", "uptime_s", "started", "ready", "listeners", "configuration", "stores", "limits",
                           "rules", "keys", "keys_sample_weight", "capacity", "connections", "waiting",
                           "memory_bytes", "open_breakers", "recovering_breakers", "switched", "denials"]
    assert 1_000_000 < shown["memory_bytes"] < 10_000_000_000
    assert before <= seconds(shown["started"]) <= seconds(shown["configuration"]["read"]) <= time.time()
    assert shown["uptime_s"] <= time.time() - before
    assert shown["ready"] is True
    assert shown["listeners"] == [{"protocol": "http", "address": server.addresses["http"], "tls": False},
                                  {"protocol": "resp", "address": server.addresses["resp"], "tls": False}]
    assert shown["configuration"]["files"] == [str(server.config)]
    assert shown["configuration"]["error"] is None
    assert shown["stores"] == [{"name": "memory", "kind": "memory", "address": "", "reachable": True}]
    assert (shown["limits"], shown["rules"], shown["keys"], shown["waiting"]) == (2, 1, 1, 0)
    until(lambda: status(server)["connections"] == 1, "the earlier connections to be closed")
    assert shown["open_breakers"] == [] and shown["switched"] == []
    assert shown["denials"] == {"kept": 2, "left_out": 0, "oldest": server.get("/v1/denials").json[-1]["time"], "keep": 10000}
    assert server.stop() == 0


@pytest.mark.parametrize("capacity, keys, said", [
    (1000, 3, "3 of [0-9]+"), (1_000_000, 3, "(fewer than|about) [0-9]+ of 1[0-9]+"), (1_000_000, 5000, "about [0-9]+ of 1[0-9]+"),
    (2_000_000, 0, "fewer than 1[5-9][0-9] of 2[0-9]+"),
])
def test_a_number_of_keys_from_a_sample_is_no_exact_one(serve, capacity, keys, said):
    server = serve("--capacity", str(capacity), config=CONFIG)
    for first in range(0, keys, 1000):
        server.post("/v1/batch", [{"limit": "login", "key": f"k{i}"} for i in range(first, min(first + 1000, keys))])
    shown = weir("status", "--server", f"127.0.0.1:{server.http}").stdout
    assert re.search(f"^keys +{said}$", shown, re.M), shown
    assert (status(server)["keys_sample_weight"] > 1) == (capacity > 1000)
    frame = weir("top", "--once", "--server", f"127.0.0.1:{server.http}").stdout
    assert re.match(f"weir [^ ]+, ready: {said} keys, ", frame), frame


def test_a_reload_that_failed_is_shown_until_one_succeeds(serve):
    server = serve(config=CONFIG)
    read = status(server)["configuration"]["read"]
    server.reload(CONFIG.replace("2/h", "0/h").replace("minimum: 1", "minimum: none"))
    until(lambda: status(server)["configuration"]["error"], "the error of the reload")
    failed = status(server)["configuration"]
    assert failed["error"].startswith(f"{server.config}:3:")
    assert "error: expected" in failed["error"] and failed["error"].endswith("(1 of 2 errors)")
    assert failed["read"] == read  # the running configuration is the earlier one
    server.reload(CONFIG + "  - { name: more, key: [ip], limits: [login] }\n")
    until(lambda: status(server)["rules"] == 2, "the reload")
    assert status(server)["configuration"]["error"] is None


def test_an_error_without_a_line_is_shown_too(serve):
    server = serve(config=CONFIG)
    server.config.unlink()
    server.process.send_signal(signal.SIGHUP)
    until(lambda: status(server)["configuration"]["error"], "the error of the reload")
    assert str(server.config) in status(server)["configuration"]["error"]


def test_open_breakers_are_shown_by_limit_and_key(serve):
    server = serve(config=CONFIG)
    permit = server.post("/v1/acquire", {"limit": "back", "key": "<db>"}).json["permit"]
    server.post("/v1/report", {"permit": permit, "outcome": "failure"})
    server.post("/v1/breaker", {"limit": "back", "key": "forced", "state": "open"})
    server.post("/v1/acquire", {"limit": "back", "key": "healthy"})
    assert sorted(one["key"] for one in status(server)["open_breakers"]) == ["<db>", "forced"]
    assert {one["limit"] for one in status(server)["open_breakers"]} == {"back"}
    server.post("/v1/breaker", {"limit": "back", "key": "forced", "state": "auto"})
    assert status(server)["open_breakers"] == [{"limit": "back", "key": "<db>"}]


def half_open(server, key):
    """Opens the breaker of a key, and lets its probe be away."""
    permit = server.post("/v1/acquire", {"limit": "quick", "key": key}).json["permit"]
    server.post("/v1/report", {"permit": permit, "outcome": "failure"})
    until(lambda: server.post("/v1/acquire", {"limit": "quick", "key": key}).status == 200, "the probe")


def test_breakers_that_let_some_requests_pass_are_shown(serve):
    server = serve(config="limits: { quick: { algorithm: breaker, failures: 1, sleep: 100ms, probe_timeout: 60s } }\n")
    half_open(server, "eu")
    shown = status(server)
    assert shown["recovering_breakers"] == [{"limit": "quick", "key": "eu", "phase": "half_open"}] and shown["open_breakers"] == []
    address = f"127.0.0.1:{server.http}"
    assert re.search(r"^recovering +quick eu, half_open$", weir("status", "--server", address).stdout, re.M)
    assert re.search(r"^memory +[\d.]+ MB$", weir("status", "--server", address).stdout, re.M)
    assert "\nrecovering breakers: quick eu, half_open\n" in weir("top", "--once", "--server", address).stdout


@pytest.mark.parametrize("answer", ["404 Not Found", "403 Forbidden"])
def test_an_error_of_the_server_is_printed_once(answer):
    with fake_server(http({"error": {"code": "x", "message": "no such thing"}}, answer)) as address:
        done = weir("status", "--server", address)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("no such thing") == 1


def test_what_operators_have_switched_is_shown_while_it_is_in_force(serve):
    server = serve(config=CONFIG.replace("rules:", "  relief: { algorithm: random, deny: 0.1 }\nrules:"))
    end = int(time.time()) + 7200
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.SHED", "relief", "0.25") == b"+OK"
    server.post("/v1/breaker", {"limit": "back", "key": "<a>", "state": "open", "until": end})
    server.post("/v1/breaker", {"limit": "back", "key": "b", "state": "closed"})
    switched = status(server)["switched"]
    assert all(0 <= time.time() - seconds(one.pop("at")) < 600 for one in switched)
    forced = {"limit": "back", "by": "127.0.0.1"}
    assert switched == [{"limit": "relief", "deny": 0.25, "by": "127.0.0.1"},
                        {**forced, "key": "b", "state": "closed"},
                        {**forced, "key": "<a>", "state": "open",
                         "until": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))}]
    server.post("/v1/breaker", {"limit": "back", "key": "b", "state": "auto"})
    assert [one.get("key") for one in status(server)["switched"]] == [None, "<a>"]
    server.reload(CONFIG)  # without the limit `relief`
    until(lambda: [one["limit"] for one in status(server)["switched"]] == ["back"], "the reload")
    server.reload("limits: { other: { algorithm: fixed_window, rate: 1/h } }\n")
    until(lambda: status(server)["switched"] == [], "the reload")


def test_at_most_100_switched_keys_are_shown(serve):
    server = serve(config=CONFIG)
    with Http(server.http) as client:
        for i in range(120):
            body = json.dumps({"limit": "back", "key": f"k{i}", "state": "closed"})
            assert client.request("POST", "/v1/breaker", body=body).status == 200
    keys = [one["key"] for one in status(server)["switched"]]
    assert len(keys) == len(set(keys)) == 100


def test_at_most_100_open_breakers_are_shown(serve):
    server = serve(config=CONFIG)
    for first in range(0, 120, 40):
        answers = server.post("/v1/batch", [{"limit": "back", "key": f"k{i}"} for i in range(first, first + 40)]).json
        for answer in answers:
            server.post("/v1/report", {"permit": answer["permit"], "outcome": "failure"})
    keys = [one["key"] for one in status(server)["open_breakers"]]
    assert len(keys) == len(set(keys)) == 100


def test_a_redis_is_shown_without_its_password_and_as_away_while_it_is(serve, start_redis):
    redis = start_redis("--requirepass", "s3cret")
    server = serve("--store", f"redis://:s3cret@127.0.0.1:{redis.port}/0", config=CONFIG)

    def is_reachable():
        server.post("/v1/acquire", {"limit": "login", "key": "k"})
        return status(server)["stores"][1]["reachable"]
    until(is_reachable, "the Redis to be reachable")
    text = server.get("/v1/status").text
    assert "s3cret" not in text
    shown = json.loads(text)
    [table, remote] = shown["stores"]
    assert table["kind"] == "memory"
    assert (remote["kind"], remote["reachable"]) == ("redis", True)
    assert f"127.0.0.1:{redis.port}" in remote["address"]
    assert shown["keys"] is None and shown["keys_sample_weight"] is None  # they are at Redis
    redis.stop()

    def is_away():
        server.post("/v1/acquire", {"limit": "login", "key": "k"})
        return status(server)["stores"][1]["reachable"] is False
    until(is_away, "the Redis to be found away")


def test_a_table_in_a_file_is_a_store_of_kind_file(serve, tmp_path):
    server = serve("--store", f"file:{tmp_path}/state", "--capacity", "1000", config=CONFIG)
    shown = status(server)
    assert shown["stores"] == [{"name": "file", "kind": "file", "address": f"{tmp_path}/state", "reachable": True}]
    assert shown["capacity"] == 1000


def test_requests_that_wait_are_counted(serve):
    server = serve(config="limits: { queue: { algorithm: leaky_queue, rate: 1/h, capacity: 10, max_wait: 10h } }\n")
    server.post("/v1/acquire", {"limit": "queue", "key": "k"})
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "queue", "k"))
        until(lambda: status(server)["waiting"] == 1, "the request that waits")


def test_the_status_is_for_administrators(serve):
    server = serve(config=CONFIG)
    assert server.get("/v1/status", {"X-Forwarded-For": "1.2.3.4"}).status == 403
    assert server.post("/v1/status", {}).status == 405
    with Http(server.http) as client:
        assert client.request("HEAD", "/v1/status").status == 200
