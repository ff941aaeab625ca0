"""/v1/stats: what each limit has allowed and denied in each second of the last hour."""

import json
import time

import pytest
from harness import CONFIG, Http, Wire, cpu_seconds, plain_build_only, until

RULES = CONFIG.replace("trusted_proxies", """  - { name: trial, match: { path: /login }, key: [path], limits: [one], mode: shadow }
  - { name: blocked, match: { path: /secret }, answer: deny }
trusted_proxies""")


def stats(server, query=""):
    answer = server.get(f"/v1/stats{query}")
    assert answer.status == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    return answer.json


def total(answer, limit, result):
    """The sum of a limit's points, each of which must stand for one second."""
    found = [shown for shown in [*answer["limits"], {"limit": "others", **answer["others"]}] if shown["limit"] == limit]
    points = found[0].get(result, []) if found else []
    assert len(points) in (0, answer["now"] - answer["from"] + 1)
    return sum(points)


def until_total(server, limit, result, number):
    def reached():
        answer = stats(server)
        return answer if total(answer, limit, result) == number else None
    return until(reached, f"{number} {result} of {limit}")


def test_requests_by_every_protocol_have_points(serve):
    server = serve(config=RULES)
    before = int(time.time())
    for _ in range(3):
        server.get("/auth/login", {"X-Forwarded-For": "1.2.3.4"})
    server.post("/v1/batch", [{"limit": "window", "key": "k"}] * 5)
    server.get("/v1/peek/window?key=k")  # it takes nothing
    server.post("/v1/acquire", {"attributes": {"path": "/secret"}})
    server.post("/v1/acquire", {"attributes": {"path": "/elsewhere"}})
    with Wire(server.resp) as wire:
        wire.send(b"WEIR.ACQUIRE window k\r\nCL.THROTTLE k 0 1 3600\r\nCL.THROTTLE k 0 1 3600\r\n")
        for _ in range(3):
            wire.reply()
    answer = until_total(server, "CL.THROTTLE", "denied", 1)
    answer = until_total(server, "window", "denied", 3)
    assert before - 1 <= answer["from"] <= answer["now"] <= time.time()
    assert answer["now"] - answer["from"] < 3600
    assert total(answer, "window", "allowed") == 3
    assert total(answer, "login", "allowed") == 3
    assert total(answer, "one", "shadow") == 2
    assert total(answer, "", "denied") == total(answer, "", "allowed") == 1
    assert "denied" not in next(limit for limit in answer["limits"] if limit["limit"] == "login")
    assert answer["others"] == {}


def test_since_asks_for_what_is_newer(serve):
    server = serve()
    server.post("/v1/acquire", {"limit": "login", "key": "a"})
    last = until_total(server, "login", "allowed", 1)["now"]
    server.post("/v1/acquire", {"limit": "window", "key": "a"})
    until_total(server, "window", "allowed", 1)
    newer = stats(server, f"?since={last}")
    assert newer["from"] == last + 1
    assert [limit["limit"] for limit in newer["limits"]] == ["window"]
    assert stats(server, f"?since={newer['now'] + 3600}")["limits"] == []
    assert total(stats(server, "?since=1h"), "login", "allowed") == 1
    assert total(stats(server, "?since=2001-01-01T00:00:00Z"), "login", "allowed") == 1
    assert total(stats(server, "?since="), "login", "allowed") == 1


@pytest.mark.parametrize("query, text", [("since=soon", "found 'soon'"), ("since=-1", "found '-1'"), ("until=1", "found 'until'"),
                                         ("since=%zz", "two hex digits")])
def test_a_wrong_parameter_is_an_error_that_names_it(server, query, text):
    answer = server.get(f"/v1/stats?{query}")
    assert answer.status == 400 and text in answer.json["error"]["message"]


def test_the_history_survives_a_reload_that_removes_and_adds_limits(serve):
    server = serve()
    for limit in ("login", "window"):
        server.post("/v1/acquire", {"limit": limit, "key": "k"})
    until_total(server, "window", "allowed", 1)
    server.reload("limits:\n  login: { algorithm: token_bucket, rate: 10/h }\n  added: { algorithm: token_bucket, rate: 9/h }\n")
    server.line_with("reloaded")
    for limit in ("login", "added"):
        server.post("/v1/acquire", {"limit": limit, "key": "k"})
    answer = until_total(server, "added", "allowed", 1)
    assert total(answer, "login", "allowed") == 2
    assert total(answer, "window", "allowed") == 1


def test_all_but_64_limits_are_one_sum(serve):
    names = [f"limit{n}" for n in range(100)]
    limits = "".join(f"  {name}: {{ algorithm: token_bucket, rate: 1/h }}\n" for name in names)
    server = serve(config="limits:\n" + limits)
    for _ in range(2):
        server.post("/v1/batch", [{"limit": name, "key": "k"} for name in names])

    def counted():
        answer = stats(server)
        shown = [limit["limit"] for limit in answer["limits"]]
        sums = [sum(total(answer, name, result) for name in [*shown, "others"]) for result in ("allowed", "denied")]
        return (answer, shown) if sums == [100, 100] else None
    answer, shown = until(counted, "all to be counted")
    assert len(shown) == 64 and set(shown) <= set(names)
    assert total(answer, "others", "allowed") >= 36


def test_pipelined_requests_have_answers_of_their_own(serve):
    server = serve()
    server.post("/v1/acquire", {"limit": "login", "key": "a"})
    last = until_total(server, "login", "allowed", 1)["now"]
    request = f"GET /v1/stats?since={last - 1} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with Wire(server.http) as wire:
        wire.send(request * 100)
        for _ in range(100):
            length = 0
            assert wire.file.readline() == b"HTTP/1.1 200 OK\r\n"
            while (line := wire.file.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert total(json.loads(wire.file.read(length)), "login", "allowed") == 1
    with Http(server.http) as client:
        assert client.request("HEAD", "/v1/stats").text == ""
        assert client.request("POST", "/v1/stats", "").status == 405


@plain_build_only
@pytest.mark.alone
def test_a_server_that_nobody_asks_pays_little_for_10000_limits(serve):
    """A tenth of a processor at most, for reading all counters once a second."""
    limits = "".join(f"  limit{n}: {{ algorithm: token_bucket, rate: 1/h }}\n" for n in range(10000))
    server = serve(config="limits:\n" + limits)
    begin, first = cpu_seconds(server), stats(server)["now"]
    until(lambda: stats(server)["now"] >= first + 3 or time.sleep(0.5), "three points")
    spent = cpu_seconds(server) - begin
    assert spent < 0.1 * (stats(server)["now"] - first)
