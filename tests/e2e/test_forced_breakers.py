"""Breakers that an operator forces open or closed, and the events and metrics of phase changes."""

import json
import threading
import time

import pytest
from harness import Http, Wire, until
from test_events import Follower
from test_metrics import scrape, total

CONFIG = """
limits:
  up: { algorithm: breaker, minimum: 1, sleep: 1h, ramp: 0s, permit_timeout: 1h, keys: 2000 }
  soon: { algorithm: breaker, minimum: 1, sleep: 1ms, probe_timeout: 1h, ramp: 1ms, permit_timeout: 1h }
  slow: { algorithm: breaker, minimum: 1, slow: 1s, sleep: 1h, keys: 100 }
  plain: { algorithm: token_bucket, rate: 1/h }
rules:
  - { name: by-cookie, match: { cookie.session: "*" }, key: [cookie.session], limits: [soon] }
"""


def force(server, key, state, limit="up", **others):
    return server.post("/v1/breaker", {"limit": limit, "key": key, "state": state, **others})


def acquire(server, key, limit="up"):
    return server.post("/v1/acquire", {"limit": limit, "key": key})


def report(server, key, outcome="failure", limit="up", **others):
    permit = acquire(server, key, limit).json["permit"]
    answer = server.post("/v1/report", {"permit": permit, "outcome": outcome, **others})
    assert answer.status == 200, answer.text


def listed(server, limit="up"):
    """{key: (phase, the operator who forced it)}"""
    limits = {one["name"]: one for one in server.get("/v1/limits").json}
    assert "breakers" not in limits["plain"]
    found = [(one["key"], (one["phase"], one.get("switched"))) for one in limits[limit]["breakers"]]
    assert len(dict(found)) == len(found)
    return dict(found)


def utc(unix):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))


def force_for_seconds(server, key, state):
    for left in (3, 20, 60):  # if the machine stands still, the request may arrive after the end
        end = int(time.time()) + left
        answer = force(server, key, state, until=end)
        if answer.status == 200:
            return end, answer
    raise AssertionError(answer.text)


def test_a_breaker_that_is_forced_open_denies_its_key_until_the_end_and_names_the_operator(serve):
    server = serve(config=CONFIG)
    end, answer = force_for_seconds(server, "a", "open")
    assert answer.json == {"limit": "up", "key": "a", "state": "open", "until": utc(end)}
    denied = acquire(server, "a")
    assert (denied.status, denied.json["reason"]) == (503, "breaker_open")
    assert 0 < denied.json["retry_after_ms"] <= 60_000
    assert server.get("/v1/peek/up?key=a").json["reason"] == "breaker_open"
    assert acquire(server, "b").status == 200
    phase, by = listed(server)["a"]
    assert phase == "forced_open" and by["by"] == "127.0.0.1" and by["until"] == utc(end)
    assert by["at"] <= by["until"]
    server.line_with(f"breaker_forced limit=up key=a state=open by=127.0.0.1 until={utc(end)}")
    until(lambda: acquire(server, "a").status == 200, "the end of it")
    assert time.time() >= end - 1
    server.line_with("breaker_ended limit=up key=a")
    assert listed(server) == {}


def test_events_name_an_empty_key_as_it_is(serve):
    server = serve(config=CONFIG)
    assert force(server, "", "open").status == 200
    server.line_with('breaker_turned limit=up key="" from=closed')
    assert 'breaker_forced limit=up key="" state=open by=127.0.0.1' in server.line_with("breaker_forced")
    force_for_seconds(server, "", "closed")
    server.line_with('breaker_ended limit=up key=""')


def test_a_breaker_that_is_forced_closed_allows_all_requests(serve):
    server = serve(config=CONFIG)
    report(server, "a")
    assert acquire(server, "a").status == 503
    assert force(server, "a", "closed").json == {"limit": "up", "key": "a", "state": "closed"}
    for _ in range(5):
        report(server, "a")
    assert listed(server)["a"][0] == "forced_closed"
    assert server.post("/v1/reset", {"limit": "up", "key": "a"}).status == 200
    report(server, "a")
    assert acquire(server, "a").status == 200
    assert force(server, "a", "auto").status == 200
    report(server, "a")  # earlier failures count no more
    assert acquire(server, "a").status == 503
    assert listed(server) == {"a": ("open", None)}
    assert force(server, "a", "auto").status == 200
    assert acquire(server, "a").status == 503  # it was open unforced


def test_the_last_operator_replaces_the_force_of_the_first(serve):
    server = serve(config=CONFIG)
    end, _ = force_for_seconds(server, "a", "open")
    assert force(server, "a", "closed").status == 200
    until(lambda: time.time() > end + 1, "the time of the first")
    phase, by = listed(server)["a"]
    assert phase == "forced_closed" and "until" not in by


def test_a_reload_keeps_a_forced_phase(serve):
    server = serve(config=CONFIG)
    assert force(server, "a", "open").status == 200
    before = listed(server)
    server.reload(CONFIG.replace("sleep: 1h", "sleep: 2h"))
    server.line_with(" reloaded ")
    assert acquire(server, "a").status == 503
    assert listed(server) == before
    server.reload(CONFIG.replace("  up: { algorithm: breaker, minimum: 1,",
                                 "  else: { algorithm: breaker, minimum: 1,"))
    server.line_with(" reloaded ")
    assert listed(server, "else") == {}
    server.reload(CONFIG)
    server.line_with(" reloaded ")
    assert acquire(server, "a").status == 503  # the phase is still stored, but its operator is not
    assert listed(server) == {"a": ("forced_open", None)}


def test_a_store_file_keeps_a_forced_phase_over_a_restart(serve, tmp_path):
    store = ["--store", f"file:{tmp_path}/state", "--capacity", "10000"]
    server = serve(*store, config=CONFIG)
    assert force(server, "a", "open").status == 200
    end, _ = force_for_seconds(server, "b", "open")
    report(server, "c")
    assert server.stop() == 0
    server = serve(*store, config=CONFIG)
    samples = scrape(server)
    assert total(samples, "weir_breakers", limit="up", phase="open") == 1
    assert total(samples, "weir_breakers", limit="up", phase="forced_open") >= 1
    assert acquire(server, "a").status == acquire(server, "c").status == 503
    assert listed(server) == {"a": ("forced_open", None), "c": ("open", None)} | (
        {"b": ("forced_open", None)} if "b" in listed(server) else {})
    until(lambda: acquire(server, "b").status == 200, "the end of it")
    assert time.time() >= end - 1
    assert force(server, "a", "auto").status == 200
    assert acquire(server, "a").status == 200


def test_a_force_applies_to_every_later_request_of_all_threads(serve):
    """With two threads of the server, each answer after the reply to the force obeys it."""
    server = serve("--threads", "2", config=CONFIG)
    stop = threading.Event()

    def load():
        with Wire(server.resp) as wire:
            while not stop.is_set():
                answer = wire.command("WEIR.ACQUIRE", "up", "a")
                if answer[0] == 1:
                    wire.command("WEIR.REPORT", answer[6].decode(), "success", 1)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with Http(server.http) as client:
            def ask(path, value):
                return client.request("POST", path, json.dumps(value))

            for _ in range(50):
                for state, status in (("open", 503), ("closed", 200), ("auto", 200)):
                    assert ask("/v1/breaker", {"limit": "up", "key": "a", "state": state}).status == 200
                    assert ask("/v1/acquire", {"limit": "up", "key": "a"}).status == status
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    samples = scrape(server)
    for phase in ("forced_open", "forced_closed", "closed"):
        assert total(samples, "weir_breaker_transitions_total", limit="up", to=phase) == 50
    assert total(samples, "weir_breaker_transitions_total", limit="up", to="open") == 0


@pytest.mark.parametrize("body, status, found", [
    ({"limit": "plain", "key": "a", "state": "open"}, 400, "'plain'"),
    ({"limit": "nowhere", "key": "a", "state": "open"}, 404, "'nowhere'"),
    ({"limit": "up", "key": "a", "state": "ajar"}, 400, "'ajar'"),
    ({"limit": "up", "key": "a", "state": None}, 400, "state"),
    ({"limit": "up", "key": "a", "state": ["open"]}, 400, "state"),
    ({"limit": "up", "key": "a"}, 400, "limit, key, state and optionally until"),
    ({"limit": "up", "state": "open"}, 400, "limit, key, state and optionally until, found no key"),
    ({"limit": "up", "key": "a", "state": "open", "cost": 1}, 400, "and no other field"),
    ({"limit": "up", "key": "a", "state": "open", "deny": 1}, 400, "and no other field"),
    ({"limit": "up", "key": "a", "state": "auto", "until": "2200-01-01T00:00:00Z"}, 400, "no until"),
    ({"limit": "up", "key": "a", "state": "open", "until": 1}, 400, "in the future"),
    ({"limit": "up", "key": "a", "state": "open", "until": "soon"}, 400, "'soon'"),
    ({"limit": "up", "key": "k" * 1025, "state": "open"}, 400, "1024"),
    ({"attributes": {"a": "b"}, "state": "open"}, 400, "and no other field"),
    ([], 400, ""), ("open", 400, ""),
])
def test_an_invalid_force_is_refused_and_changes_nothing(shared_server, body, status, found):
    answer = shared_server.post("/v1/breaker", body)
    assert answer.status == status, answer.text
    assert found in answer.json["error"]["message"]
    assert listed(shared_server) == {}


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    from harness import Server
    server = Server(config=CONFIG, directory=tmp_path_factory.mktemp("forced"))
    yield server
    assert server.stop() == 0


def test_requests_of_pages_and_proxies_cannot_force_a_breaker(shared_server):
    server = shared_server
    body = json.dumps({"limit": "up", "key": "a", "state": "open"})
    for headers in ({"Origin": "http://example.com"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Host": "example.com"}, {"X-Forwarded-For": "1.2.3.4"}, {"Via": "1.1 a"}):
        assert server.get("/v1/breaker", headers, "POST", body).status == 403, headers
    assert server.get("/v1/breaker?limit=up&key=a&state=open").status == 405
    refused = server.post("/v1/acquire", {"limit": "up", "key": "a", "state": "open"})
    assert refused.status == 400 and "/v1/breaker" in refused.json["error"]["message"]
    batch = server.post("/v1/batch", [json.loads(body)])
    assert "error" in batch.json[0]
    assert listed(server) == {} and acquire(server, "a").status == 200


def test_the_number_of_forced_keys_is_bounded(serve):
    server = serve(config=CONFIG)
    with Http(server.http) as client:
        def ask(key, state="open"):
            return client.request("POST", "/v1/breaker", json.dumps(
                {"limit": "up", "key": key, "state": state}))

        for i in range(1000):
            assert ask(f"k{i}").status == 200
        refused = ask("more")
        assert refused.status == 503 and "forced" in refused.json["error"]["message"]
        assert acquire(server, "more").status == 200
        assert ask("k0", "closed").status == 200  # the key is forced already
        assert len(listed(server)) == 1000
        assert ask("k0", "auto").status == 200
        assert ask("more").status == 200
    samples = scrape(server)
    assert total(samples, "weir_breakers", limit="up", phase="forced_open") == 1000


def next_phase_change(follower):
    data = follower.named("breaker_turned")[2]
    return {name: data[name] for name in ("limit", "key", "from", "to", "cause", "by") if name in data}


def test_each_change_of_phase_is_an_event_with_its_cause(serve):
    server = serve(config=CONFIG)
    with Follower(server) as follower:
        follower.head()
        expected = []

        def expect(limit, key, before, after, cause, **others):
            expected.append({"limit": limit, "key": key, "from": before, "to": after,
                             "cause": cause, **others})

        report(server, "a", limit="soon")
        expect("soon", "a", "closed", "open", "failure_rate")
        permit = until(lambda: acquire(server, "a", "soon").json.get("permit"), "a probe")
        expect("soon", "a", "open", "half_open", "sleep_over")
        server.post("/v1/report", {"permit": permit, "outcome": "failure"})
        expect("soon", "a", "half_open", "open", "probe_failed")
        permit = until(lambda: acquire(server, "a", "soon").json.get("permit"), "a probe")
        expect("soon", "a", "open", "half_open", "sleep_over")
        server.post("/v1/report", {"permit": permit, "outcome": "success"})
        expect("soon", "a", "half_open", "ramp", "probes_passed")
        until(lambda: listed(server, "soon") == {}, "the end of the ramp")
        expect("soon", "a", "ramp", "closed", "time_over")
        report(server, "b", "success", "slow", latency_ms=1001)
        expect("slow", "b", "closed", "open", "slow_rate")
        server.post("/v1/reset", {"limit": "slow", "key": "b"})
        expect("slow", "b", "open", "closed", "reset")
        force(server, "c", "open")
        expect("up", "c", "closed", "forced_open", "forced", by="127.0.0.1")
        force(server, "c", "auto")
        expect("up", "c", "forced_open", "closed", "forced", by="127.0.0.1")
        assert [next_phase_change(follower) for _ in expected] == expected
    server.line_with("warning breaker_turned limit=soon key=a from=closed to=open cause=failure_rate")
    server.line_with("info breaker_turned limit=up key=c from=closed to=forced_open cause=forced "
                     "by=127.0.0.1")
    samples = scrape(server)
    for to, n in (("open", 2), ("half_open", 2), ("ramp", 1), ("closed", 1), ("forced_open", 0)):
        assert total(samples, "weir_breaker_transitions_total", limit="soon", to=to) == n
    assert total(samples, "weir_breakers", limit="soon") == 0


def test_metrics_count_denials_by_reason_and_contain_no_key(serve):
    server = serve(config=CONFIG)
    for key in ("key-a", "key-b"):
        report(server, key)
        assert acquire(server, key).status == 503
    force(server, "key-c", "closed")
    samples = scrape(server)
    assert total(samples, "weir_decisions_total", limit="up", reason="breaker_open",
                 allowed="false") == 2
    assert {labels["phase"]: value for labels, value in samples["weir_breakers"]
            if labels["limit"] == "up"} == {"ramp": 0, "open": 2, "half_open": 0, "forced_open": 0,
                                            "forced_closed": 1}
    assert {labels["limit"] for labels, _ in samples["weir_breakers"]} == {"up", "soon", "slow"}
    assert "key-" not in server.get("/metrics").text
    assert listed(server).keys() == {"key-a", "key-b", "key-c"}


def test_many_breakers_that_flap_flood_neither_log_nor_list(serve):
    server = serve(config=CONFIG)
    with Http(server.http) as client:
        for i in range(600):
            permit = json.loads(client.request("POST", "/v1/acquire", json.dumps(
                {"limit": "up", "key": f"k{i}"})).text)["permit"]
            client.request("POST", "/v1/report", json.dumps({"permit": permit, "outcome": "failure"}))
    force(server, "k1", "closed")  # an operator's force is logged even if other lines were dropped
    server.line_with("limit=up key=k1 state=closed")
    lines = [line for line in server.log if "breaker_turned" in line]
    assert 100 <= len(lines) < 600
    samples = scrape(server)
    assert total(samples, "weir_breakers", limit="up", phase="open") == 599
    assert total(samples, "weir_breaker_transitions_total", limit="up", to="open") == 600
    assert total(samples, "weir_log_lines_dropped_total") >= 600 - len(lines)
    found = listed(server)
    assert found["k1"][0] == "forced_closed" and 100 <= len(found) <= 101


def test_long_keys_are_cut_and_keys_from_visitors_are_not_shown(serve):
    server = serve(config=CONFIG)
    for key in ("x" * 1024, 'quo"te', "new\nline", "nul\0l", "ü" * 40):
        assert force(server, key, "open").status == 200
    assert listed(server).keys() >= {"x" * 64 + "…", 'quo"te', "new\nline", "nul\0l"}
    answer = server.get("/auth", {"Cookie": "session=secret-of-a-visitor"})
    assert answer.status == 200
    permit = server.post("/v1/acquire", {"attributes": {"cookie.session": "secret-of-a-visitor"}})
    server.post("/v1/report", {"permit": permit.json["permit"], "outcome": "failure"})
    line = server.line_with("breaker_turned limit=soon")
    digest = server.post("/v1/key", {"key": "secret-of-a-visitor"}).json["digest"]
    assert f"key={digest} from=closed to=open" in line
    assert set(listed(server, "soon")) == {digest}
    assert server.get("/v1/status").json["open_breakers"][-1] == {"limit": "soon", "key": digest}
    assert "secret" not in server.get("/v1/limits").text and "secret" not in "".join(server.log)
