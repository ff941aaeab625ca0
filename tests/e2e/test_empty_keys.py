"""Requests whose key is empty are counted by rule and by limit, whatever way they arrive."""

import json
import re

import pytest
from harness import Wire
from test_http2 import Http2

CONFIG = """
limits:
  many: { algorithm: token_bucket, rate: 1000/s }
  more: { algorithm: sliding_window, rate: 1000/s }
  none: { algorithm: random, deny: 1 }
rules:
  - { name: tenant, match: { path: /one }, key: [tenant], limits: [many, more] }
  - { name: pair, match: { path: /two }, key: [tenant, header.x-api-key], limits: [many] }
  - { name: dark, match: { path: /three }, key: [tenant], limits: [more], mode: shadow }
  - { name: shed, match: { path: /four }, key: [tenant], limits: [none, many] }
  - { name: whole, match: { path: /five }, limits: [many] }
"""
RULES = ["tenant", "pair", "dark", "shed", "whole"]


def http(method):
    def ask(server, path, attributes):
        attributes = {"path": path, **attributes}
        if method == "batch":
            server.post("/v1/batch", [{"attributes": attributes}])
        else:
            server.post(f"/v1/{method}", {"attributes": attributes})
    return ask


def http2(server, path, attributes):
    body = json.dumps({"attributes": {"path": path, **attributes}}).encode()
    with Http2(server) as client:
        client.get("/v1/acquire", method="POST", headers=[("content-type", "application/json")], body=body)


def resp(*command, transaction=False):
    def ask(server, path, attributes):
        words = [word for pair in {"path": path, **attributes}.items() for word in pair]
        with Wire(server.resp) as wire:
            if transaction:
                wire.command("MULTI")
            wire.command(*command, *words)
            if transaction:
                wire.command("EXEC")
    return ask


def auth(server, path, attributes):
    headers = {name.removeprefix("header."): value for name, value in attributes.items()}
    server.get("/auth", {"X-Forwarded-Uri": path, **headers})


WAYS = {
    "http": http("acquire"), "http2": http2, "batch": http("batch"), "resp": resp("WEIR.CHECK"),
    "transaction": resp("WEIR.CHECK", transaction=True), "auth": auth,
}


def count(server, label, name):
    found = re.search(rf'^weir_empty_keys_total{{{label}="{name}"}} (\d+)$', server.get("/metrics").text, re.M)
    return int(found[1]) if found else 0


def counts(server):
    return {rule: count(server, "rule", rule) for rule in RULES}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("store", ["memory", "redis"])
def test_a_request_with_an_empty_key_counts_once_for_its_rule(serve, start_redis, way, store):
    server = serve(config=CONFIG if store == "memory" else f"store: {start_redis().url}\nstore_timeout: 30s\n{CONFIG}")
    ask = WAYS[way]
    for path in ("/one", "/two", "/three", "/four", "/five", "/elsewhere"):
        ask(server, path, {})
    assert counts(server) == {"tenant": 1, "pair": 1, "dark": 1, "shed": 1, "whole": 0}
    ask(server, "/two", {"header.x-api-key": "k"})  # a part of the key is still missing
    assert counts(server)["pair"] == 2
    if way != "auth":  # no proxy sends `tenant`
        for path in ("/one", "/two", "/three", "/four"):
            ask(server, path, {"tenant": "t", "header.x-api-key": "k"})
        assert counts(server) == {"tenant": 1, "pair": 2, "dark": 1, "shed": 1, "whole": 0}
        ask(server, "/one", {"tenant": ""})
        assert counts(server)["tenant"] == 2


def test_peeks_do_not_count_and_a_reload_keeps_the_counts(serve):
    server = serve(config=CONFIG)
    http("acquire")(server, "/one", {})
    http("peek")(server, "/one", {})
    resp("WEIR.CHECKPEEK")(server, "/one", {})
    server.post("/v1/acquire", {"attributes": {"path": "/one"}, "cost": 0})
    assert counts(server)["tenant"] == 1
    server.reload(CONFIG.replace("1000/s", "999/s"))
    server.line_with(" reloaded ")
    http("acquire")(server, "/one", {})
    assert counts(server)["tenant"] == 2


def test_a_call_that_names_a_limit_and_an_empty_key_counts_for_the_limit(serve):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        wire.command("WEIR.ACQUIRE", "many", "")
        wire.command("WEIR.ACQUIRE", "many", "k")
        wire.command("WEIR.PEEK", "many", "")
    server.get("/v1/acquire/many?key=")
    server.post("/v1/acquire", {"limit": "many", "key": ""})
    server.post("/v1/batch", [{"limit": "many", "key": ""}, {"limit": "more", "key": "k"}])
    assert count(server, "limit", "many") == 4
    assert count(server, "limit", "more") == 0
    assert counts(server) == dict.fromkeys(RULES, 0)


def test_updates_of_koalas_clients_count(serve):
    server = serve(config=CONFIG)
    server.get("/rule/browse?path=/one")
    assert counts(server)["tenant"] == 0
    server.get("/rule/update?path=/one")
    server.get("/rule/update?path=/one&tenant=t")
    assert counts(server)["tenant"] == 1
