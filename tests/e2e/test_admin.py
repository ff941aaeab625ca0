"""Batches, the lists of limits and of denied keys, and the log."""

import json
import re
import signal
import time

import pytest
from harness import CONFIG, ROOM, Http, Wire, encode, until, weir

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_a_batch_answers_its_elements_in_order_as_single_requests(server, key):
    answer = server.post("/v1/batch", [
        {"limit": "one", "key": key},
        {"limit": "one", "key": key},
        {"limit": "nosuch", "key": key},
        {"attributes": {"path": "/login", "ip": key}, "cost": 4},
        {"attributes": {"path": "/other"}},
        {"limit": "one", "key": key, "op": "reset"},
        {"limit": "one", "key": key, "op": "peek"},
        {"limit": "one", "key": key, "cost": 2},
        "nonsense",
        {"limit": "one", "key": key},
    ])
    assert answer.status == 200
    single = server.get(f"/v1/peek/one?key={key}").json
    found = answer.json
    assert found[0].keys() == single.keys()
    assert [one.get("allowed", one.get("error", {}).get("code")) for one in found] == [
        True, False, "unknown_limit", True, True, True, True, "cost_too_large", "bad_request", True]
    assert (found[3]["limit"], found[3]["remaining"], found[3]["rule"]) == ("login", 6, "login-by-ip")
    # Other protocols see the units that the batch consumed.
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "one", key)[0] == 0


def test_a_batch_that_is_too_large_or_malformed_is_refused_whole(server, key):
    element = {"limit": "login", "key": key}
    with Http(server.http) as client:
        full = client.request("POST", "/v1/batch", json.dumps([element] * 1000))
        assert [one["allowed"] for one in full.json] == [True] * 10 + [False] * 990
        for body, status in ((json.dumps([0] * 1001), 400), ('[{"limit":', 400), ("{}", 400),
                             (json.dumps([element] * 1000).replace("key-", "key-" + "k" * 60), 413)):
            refused = client.request("POST", "/v1/batch", body)
            assert refused.status == status
            assert refused.json["error"]["message"]
            if status != 413:
                assert client.request("POST", "/v1/batch", "[]").json == []


def test_limits_are_listed_as_configured_and_follow_a_reload(serve):
    server = serve()
    assert server.get("/v1/limits").json == [
        {"name": "login", "algorithm": "token_bucket", "rate": "10/h", "burst": 10,
         "on_store_failure": "local", "quota": 10, "room": ROOM,
         "rules": ["login-by-ip"], "ipv6_prefixes": [64]},
        {"name": "level", "algorithm": "leaky_bucket", "rate": "10/h", "capacity": 10,
         "on_store_failure": "local", "quota": 10, "room": ROOM,
         "rules": []},
        {"name": "window", "algorithm": "fixed_window", "rate": "3/h", "align": "first_request",
         "on_store_failure": "local", "quota": 3, "room": ROOM,
         "rules": []},
        {"name": "reset", "algorithm": "resetting_bucket", "rate": "3/h",
         "on_store_failure": "local", "quota": 3, "room": ROOM,
         "rules": []},
        {"name": "one", "algorithm": "token_bucket", "rate": "1/h", "burst": 1,
         "on_store_failure": "local", "quota": 1, "room": ROOM,
         "rules": []},
    ]
    server.reload("""
limits:
  'a"b': { algorithm: fixed_window, rate: 2/d }
  twice: { algorithm: token_bucket, rate: 1/s }
rules:
  - { name: first, key: [ip], limits: [twice] }
  - { name: 'c"d', key: [ip], ipv6_prefix: 56, limits: [twice, 'a"b'] }
""")
    until(lambda: [(limit["name"], limit["rules"]) for limit in server.get("/v1/limits").json]
          == [('a"b', ['c"d']), ("twice", ["first", 'c"d'])], "the reload")
    assert server.get("/v1/limits").json[0] == {
        "name": 'a"b', "algorithm": "fixed_window", "rate": "2/d", "align": "calendar",
        "timezone": "UTC", "on_store_failure": "local", "quota": 2, "room": ROOM,
         "rules": ['c"d'], "ipv6_prefixes": [56]}
    assert server.get("/v1/limits").json[1]["ipv6_prefixes"] == [64, 56]


def test_the_most_denied_keys_are_listed_over_all_threads(serve):
    server = serve("--threads", "4", config=CONFIG.replace(
        "rules:", "rules:\n  - { key: [ip], limits: [reset], mode: shadow }"))
    minute = time.time() // 60
    for _ in range(8):  # connections, so that several loops count
        with Wire(server.resp) as wire:
            wire.send(encode("WEIR.ACQUIRE", "one", "bad") * 5
                      + encode("CL.THROTTLE", "worse", 0, 1, 3600) * 10
                      + encode("CL.THROTTLE", "huge", 0, 1, 3600, 2)
                      + encode("WEIR.PEEK", "one", "bad")
                      + encode("WEIR.CHECK", "path", "/login", "ip", "1.2.3.4") * 2)
            for _ in range(19):
                wire.reply()
    # Neither peeks nor denials by rules in shadow mode are listed.
    expected = [("CL.THROTTLE", "worse", 79), ("one", "bad", 39), ("CL.THROTTLE", "huge", 8),
                ("login", "1.2.3.4", 6)]

    def listed(n):
        return [(one["limit"], one["key"], one["denied"])
                for one in server.get(f"/v1/top?n={n}").json]

    found, two = listed(10), listed(2)
    if time.time() // 60 == minute:
        assert (found, two) == (expected, expected[:2])
    else:  # denials of the minute before count half
        assert {one[:2] for one in found} == {one[:2] for one in expected}
        assert [one[:2] for one in two] == [one[:2] for one in expected[:2]]
    assert all(one["error"] == 0 for one in server.get("/v1/top").json)


@pytest.mark.parametrize("form", ["text", "json"])
def test_start_reload_and_stop_are_logged_in_the_configured_format(serve, form):
    server = serve(env={"WEIR_LOG_FORMAT": form})
    assert [line for line in server.log if line.startswith("listening: ")] == [
        f"listening: http 127.0.0.1:{server.http}", f"listening: resp 127.0.0.1:{server.resp}"]
    server.reload(CONFIG + "capacity: 77\n")
    server.line_with("reloaded")
    server.reload("limits: { l: { algorithm: token_bucket, rate: none } }")
    server.line_with("reload_failed")
    assert server.stop() == 0
    server.line_with("stopped")
    # The file has limits that no rule uses.
    lines = [line for line in server.log if not line.startswith("listening: ") and "config_warning" not in line]
    if form == "json":
        records = [json.loads(line) for line in lines]
        assert all(TIME.fullmatch(record["time"]) for record in records)
        logged = [(record["level"], record["event"]) for record in records]
        failed = records[logged.index(("error", "reload_failed"))]
        assert (failed["file"], failed["line"], failed["column"]) == (str(server.config), 1, 47)
        assert failed["message"].startswith("expected a rate")
        assert records[0]["limits"] == 5
    else:
        assert all(TIME.fullmatch(line.split()[0]) for line in lines)
        logged = [tuple(line.split()[1:3]) for line in lines]
        assert f" error reload_failed {server.config}:1:47: error: expected a rate" in lines[5]
        version = weir("--version").stdout.split()[-1]
        assert f" info started version={version} file={server.config} limits=5 rules=1 " in lines[0]
    assert logged == [("info", "started"), ("info", "listening"), ("info", "listening"), ("warning", "restart_needed"), ("info", "reloaded"),
                    ("error", "reload_failed"), ("info", "stopping"), ("info", "stopped")]


def test_a_flood_of_log_lines_is_cut_and_the_dropped_lines_are_counted(serve):
    server = serve("--log-format", "json")
    server.config.write_text("nonsense: 1\n")

    def dropped():
        server.process.send_signal(signal.SIGHUP)
        return int(re.search(r"^weir_log_lines_dropped_total (\d+)", server.get("/metrics").text,
                             re.M)[1])

    counted = until(dropped, "a line to be dropped")
    assert server.stop() == 0
    server.line_with('"stopped"')
    # The number may stand in one of two lines: that depends on when the last reload ended.
    records = [json.loads(line) for line in server.log if line.startswith("{")]
    assert sum(record.get("dropped", 0) for record in records) >= counted
    assert sum("reload_failed" in line for line in server.log) >= 100


def test_an_unknown_log_format_stops_the_start_with_an_error():
    done = weir("serve", "--log-format", "xml", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0")
    assert done.returncode == 1
    assert "log-format: expected text or json, found 'xml'" in done.stderr
