"""throttlecrab's calls over HTTP: POST /throttle and /health."""

import json

import pytest
from harness import Http, Wire

HOUR = 3600


def ask(client, body, **headers):
    text = body if isinstance(body, str) else json.dumps(body)
    return client.request("POST", "/throttle", text, {"Content-Type": "application/json", **headers})


def limit(key, **more):
    return {"key": key, "max_burst": 3, "count_per_period": 3, "period": HOUR, **more}


def test_the_answer_has_the_fields_of_throttlecrab(server, key):
    with Http(server.http) as client:
        answers = [ask(client, limit(key)) for _ in range(4)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.headers["Content-Type"] for answer in answers} == {"application/json"}
    assert [list(answer.json.items()) for answer in answers] == [
        [("allowed", True), ("limit", 3), ("remaining", 2), ("reset_after", 1200), ("retry_after", 0)],
        [("allowed", True), ("limit", 3), ("remaining", 1), ("reset_after", 2400), ("retry_after", 0)],
        [("allowed", True), ("limit", 3), ("remaining", 0), ("reset_after", 3600), ("retry_after", 0)],
        [("allowed", False), ("limit", 3), ("remaining", 0), ("reset_after", 3600), ("retry_after", 1200)]]
    assert not any(name.startswith("ratelimit") or name == "retry-after"
                   for answer in answers for name in map(str.lower, answer.headers))


def test_a_key_has_the_same_count_over_http_and_resp(server, key):
    with Http(server.http) as client, Wire(server.resp) as wire:
        assert ask(client, limit(key, quantity=2)).json["remaining"] == 1
        assert wire.command("THROTTLE", key, 3, 3, HOUR)[:3] == [1, 3, 0]
        assert ask(client, limit(key)).json["allowed"] is False
        # Both answer the same, also for a quantity that can never pass and for 0.
        for quantity in (4, 0, 3):
            found = ask(client, limit(key, quantity=quantity)).json
            assert [int(value) for value in found.values()] == wire.command(
                "THROTTLE", key, 3, 3, HOUR, quantity)


@pytest.mark.parametrize("more", [{"quantity": None}, {"extra": {"deep": [1]}}, {"quantity": 1}])
def test_the_quantity_is_optional_and_unknown_fields_are_ignored(server, key, more):
    with Http(server.http) as client:
        assert ask(client, limit(key, **more)).json["remaining"] == 2


@pytest.mark.parametrize("status, body", [
    (400, "{"), (400, ""), (400, "nonsense"),
    (422, "[]"), (422, "{}"),
    (422, '{"key":"k","max_burst":3,"count_per_period":3}'),
    (422, '{"max_burst":3,"count_per_period":3,"period":1}'),
    (422, '{"key":7,"max_burst":3,"count_per_period":3,"period":1}'),
    (422, '{"key":"k","max_burst":"3","count_per_period":3,"period":1}'),
    (422, '{"key":"k","max_burst":3.0,"count_per_period":3,"period":1}'),
    (422, '{"key":"k","max_burst":3,"count_per_period":3,"period":1,"quantity":"1"}'),
    (500, '{"key":"k","max_burst":0,"count_per_period":3,"period":1}'),
    (500, '{"key":"k","max_burst":3,"count_per_period":-3,"period":1}'),
    (500, '{"key":"k","max_burst":3,"count_per_period":3,"period":0}'),
    (500, '{"key":"k","max_burst":3,"count_per_period":3,"period":1,"quantity":-1}'),
    (500, '{"key":"k","max_burst":9223372036854775807,"count_per_period":1,"period":9223372036854775807}'),
    (400, json.dumps(limit("k" * 1025))),
])
def test_an_error_has_a_status_and_one_text(server, status, body):
    with Http(server.http) as client:
        answer = ask(client, body)
        assert answer.status == status
        assert list(answer.json) == ["error"] and isinstance(answer.json["error"], str)
        # The connection stays open.
        assert client.request("GET", "/health").text == "OK"


def test_a_broken_body_is_not_shown_as_a_page_by_browsers(serve):
    server = serve()
    with Http(server.http) as client:
        assert ask(client, "{").status == 400
    with Wire(server.resp) as wire:
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        wire.rest()
    assert "listener=resp" in server.line_with("foreign_protocol")


def test_health_answers_ok_and_other_methods_are_refused(server):
    health = server.get("/health")
    assert (health.status, health.text) == (200, "OK")
    assert health.headers["Content-Type"] == "text/plain; charset=utf-8"
    refused = server.get("/throttle?key=k")
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
