"""Denials of each cause are kept: by breakers, by a Redis that is away, and across a reload."""

import pytest
from harness import Wire, encode, until

ATTRIBUTES = {"path": "/a", "user": "ann"}
RULE = "rules: [ { name: by-user, match: { path: [/a] }, key: [user], limits: [one] } ]\n"
FULL = "denials: { key: full }\n"


def denials(server):
    return server.get("/v1/denials?rule=by-user").json


def ask(server):
    return server.post("/v1/acquire", {"attributes": ATTRIBUTES}).json


def test_a_denial_by_an_open_breaker_is_kept(serve):
    server = serve(config="limits: { one: { algorithm: breaker, minimum: 1, sleep: 1h, permit_timeout: 1h } }\n" + RULE + FULL)
    permit = ask(server)["permit"]
    server.post("/v1/report", {"permit": permit, "outcome": "failure"})
    assert ask(server)["reason"] == "breaker_open"
    [denial] = denials(server)
    assert (denial["reason"], denial["key"], denial["attributes"]) == ("breaker_open", "ann", ATTRIBUTES)
    assert 0 < denial["retry_after_ms"] <= 3600_000


@pytest.mark.parametrize("policy, reason", [("local", "over_limit"), ("closed", "store_failure")])
def test_a_denial_in_place_of_a_redis_that_is_away_is_kept(serve, start_redis, policy, reason):
    redis = start_redis()
    server = serve("--store", redis.url, config="limits: { one: { algorithm: fixed_window, rate: 2/d, on_store_failure: "
                   + policy + " } }\n" + RULE + FULL)
    redis.stop()
    until(lambda: ask(server)["allowed"] is False, "a denial")
    denial = denials(server)[0]
    assert (denial["reason"], denial["limit"], denial["key"]) == (reason, "one", "ann")
    assert denial["attributes"] == ATTRIBUTES


def test_a_request_that_waits_across_a_reload_is_kept_by_its_own_rule(serve):
    config = "limits: { one: { algorithm: concurrency, max: 1, lease: 1h, queue: 9, max_wait: 500ms } }\n"
    server = serve("--threads", "1", config=config + RULE + FULL)
    ask(server)
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.CHECK", "path", "/a", "user", "ann"))
        until(lambda: server.get("/v1/status").json["waiting"] == 1 or denials(server), "the request that waits")
        server.reload(config + RULE.replace("by-user", "other").replace("/a", "/b") + FULL)
        server.line_with("reloaded")
        assert wire.reply()[0] == 0
    [denial] = server.get("/v1/denials").json
    assert (denial["rule"], denial["key"], denial["attributes"]) == ("by-user", "ann", ATTRIBUTES)
    server.post("/v1/acquire", {"attributes": {"path": "/b", "user": "bob"}})
    server.post("/v1/acquire", {"attributes": {"path": "/b", "user": "bob"}})
    assert server.get("/v1/denials").json[0]["rule"] == "other"
