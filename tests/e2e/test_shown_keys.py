"""Keys that lists show by another text than their names: forcing and resetting them by that text."""

import json
import re

import pytest
from harness import until, weir
from test_forced_breakers import acquire, force, listed, report

CONFIG = """
limits:
  up: { algorithm: breaker, minimum: 1, sleep: 1h, ramp: 0s, permit_timeout: 1h, keys: 2000 }
  by-token: { algorithm: breaker, minimum: 1, sleep: 1h, ramp: 0s, permit_timeout: 1h, keys: 2000 }
  plain: { algorithm: fixed_window, rate: 1/h, align: first_request }
  tokens: { algorithm: fixed_window, rate: 1/h, align: first_request }
rules:
  - { name: all, match: { purpose: s }, limits: [up] }
  - { name: token, match: { purpose: t }, key: [header.x-api-key], limits: [by-token] }
  - { name: counted, match: { purpose: c }, key: [header.x-api-key], limits: [tokens] }
  - { name: also-counted, match: { purpose: p }, key: [user], limits: [plain] }
"""

NO_KEY = {"purpose": "s"}
TOKEN = {"purpose": "t", "header.x-api-key": "s3cret"}


def ask(server, attributes):
    return server.post("/v1/acquire", {"attributes": attributes})


def fail(server, attributes):
    permit = ask(server, attributes).json["permit"]
    assert server.post("/v1/report", {"permit": permit, "outcome": "failure"}).status == 200
    assert ask(server, attributes).json["reason"] == "breaker_open"


def run(server, *arguments):
    done = weir(*arguments, "--server", f"127.0.0.1:{server.resp if arguments[0] in ('reset', 'ask') else server.http}")
    return done.returncode, done.stdout + done.stderr


def test_a_breaker_without_a_key_is_shown_and_forced_by_the_empty_key(serve):
    server = serve(config=CONFIG)
    fail(server, NO_KEY)
    server.line_with('breaker_turned limit=up key="" from=closed to=open')
    assert listed(server) == {"": ("open", None)}
    assert server.get("/v1/status").json["open_breakers"] == [{"limit": "up", "key": ""}]
    assert re.search(r"open breakers +up \(no key\)\n", run(server, "status")[1])
    assert force(server, "", "closed").json == {"limit": "up", "key": "", "state": "closed"}
    assert ask(server, NO_KEY).status == 200
    assert listed(server).keys() == {""} and listed(server)[""][0] == "forced_closed"
    assert re.search(r"switched +up \(no key\) forced closed by ", run(server, "status")[1])
    assert force(server, "", "auto").status == 200
    fail(server, NO_KEY)
    assert server.post("/v1/reset", {"limit": "up", "key": ""}).status == 200
    assert ask(server, NO_KEY).status == 200 and listed(server) == {}
    fail(server, NO_KEY)
    assert run(server, "reset", "up", "") == (0, "up (no key): no use is kept now\n")
    assert ask(server, NO_KEY).status == 200


def test_a_digest_forces_and_resets_the_key_that_it_stands_for(serve):
    server = serve(config=CONFIG)
    digest = server.post("/v1/key", {"key": "s3cret"}).json["digest"]
    for change in (lambda: force(server, digest, "closed", "by-token"),
                   lambda: server.post("/v1/reset", {"limit": "by-token", "key": digest})):
        fail(server, TOKEN)
        assert listed(server, "by-token") == {digest: ("open", None)}
        assert change().status == 200
        assert ask(server, TOKEN).status == 200
        assert set(listed(server, "by-token")) <= {digest}
        assert force(server, digest, "auto", "by-token").status == 200
        assert listed(server, "by-token") == {}
    server.line_with(f"breaker_forced limit=by-token key={digest} state=closed")
    assert force(server, digest, "open", "by-token").status == 200  # closed keys are known, too
    assert ask(server, TOKEN).json["reason"] == "breaker_open"
    assert listed(server, "by-token").keys() == {digest}
    assert acquire(server, digest, "by-token").status == 200  # a key of that name
    assert force(server, digest, "auto", "by-token").status == 400  # which of both?
    assert force(server, "s3cret", "auto", "by-token").status == 200
    assert ask(server, TOKEN).status == 200
    assert "s3cret" not in server.get("/v1/limits").text


def test_a_long_key_is_forced_by_its_beginning(serve):
    server = serve(config=CONFIG)
    long_key = "k" * 64 + "first"
    report(server, long_key)
    [shown] = listed(server)
    assert shown == "k" * 64 + "…"
    assert force(server, shown, "closed").status == 200
    assert acquire(server, long_key).status == 200
    assert listed(server).keys() == {shown}
    report(server, "k" * 64 + "second")
    refused = force(server, shown, "auto")
    assert refused.status == 400 and "several keys" in refused.json["error"]["message"]
    assert force(server, long_key, "auto").status == 200
    assert acquire(server, long_key).status == 200


def test_a_key_whose_name_is_unknown_is_forced_by_its_hash(serve, tmp_path):
    store = ["--store", f"file:{tmp_path}/state", "--capacity", "10000"]
    server = serve(*store, config=CONFIG)
    permit = acquire(server, "a").json["permit"]
    report(server, "b")
    assert server.stop() == 0
    server = serve(*store, config=CONFIG)
    assert server.post("/v1/report", {"permit": permit, "outcome": "failure"}).status == 200
    [shown] = listed(server)
    assert re.fullmatch("#[0-9a-f]{8}", shown)
    assert force(server, shown, "closed").status == 200
    assert acquire(server, "a").status == 200 and acquire(server, "b").status == 503
    assert server.post("/v1/reset", {"limit": "up", "key": "b"}).status == 200
    wrong = "#00000000" if shown != "#00000000" else "#00000001"
    for path, others in (("/v1/breaker", {"state": "open"}), ("/v1/reset", {})):
        refused = server.post(path, {"limit": "up", "key": wrong, **others})
        assert refused.status == 400 and f"found '{wrong}'" in refused.json["error"]["message"]
        assert "the name of a key" in refused.json["error"]["message"]
    assert len(listed(server)) == 1
    assert server.post("/v1/reset", {"limit": "plain", "key": wrong}).status == 200  # a name like others there


@pytest.mark.parametrize("key", ["0123456789abcdef", "#ff00ff8", "#FF00FF80", "0123456789abcdeF", "…"])
def test_other_keys_that_look_so_are_names(serve, key):
    server = serve(config=CONFIG)
    report(server, key)
    assert listed(server) == {key: ("open", None)}
    assert force(server, key, "closed").status == 200
    assert acquire(server, key).status == 200
    assert force(server, key, "auto").status == 200
    report(server, key)
    assert server.post("/v1/reset", {"limit": "up", "key": key}).status == 200
    assert acquire(server, key).status == 200
    acquire(server, key, "plain")
    assert server.post("/v1/reset", {"limit": "plain", "key": key}).status == 200
    assert acquire(server, key, "plain").status == 200


def test_a_reset_by_a_digest_resets_the_key_or_says_that_it_cannot(serve):
    server = serve(config=CONFIG)
    counted, listed_only = {"purpose": "c", "header.x-api-key": "s3cret"}, {"purpose": "p", "user": "ann"}
    for request in (counted, listed_only):
        assert ask(server, request).status == 200 and ask(server, request).status == 429
    digest = server.post("/v1/key", {"key": "s3cret"}).json["digest"]
    assert digest in {entry["key"] for entry in server.get("/v1/top").json}
    for spelled in (digest, digest.upper()):
        assert run(server, "reset", "tokens", spelled) == (0, f"tokens {spelled}: no use is kept now, 1 of 1 left\n")
        assert ask(server, counted).status == 200 and ask(server, counted).status == 429
    digest = server.post("/v1/key", {"key": "ann"}).json["digest"]
    for spelled in (digest, digest.upper()):
        assert server.get(f"/v1/denials?key={spelled}").json[0]["key"] == digest
    status, text = run(server, "reset", "plain", digest)
    assert status == 2 and f"found '{digest}'" in text and "the name of a key" in text
    batch = server.post("/v1/batch", [{"op": "reset", "limit": "plain", "key": key} for key in (digest, "ann")])
    assert "error" in batch.json[0] and "error" not in batch.json[1]
    assert ask(server, listed_only).status == 200


ADAPTIVE = """
limits: { ad: { algorithm: adaptive, initial: 2, min: 1, max: 3 } }
rules: [{ key: [header.x-api-key], limits: [ad] }]
"""


def test_a_peek_by_a_shown_text_reads_the_key_that_it_stands_for(serve):
    server = serve(config=ADAPTIVE)
    digest = server.post("/v1/key", {"key": "k1"}).json["digest"]
    for _ in range(5):
        ask(server, {"header.x-api-key": "k1"})
    answers = [server.get(f"/v1/peek/ad?key={digest}").json, server.post("/v1/batch", [{"op": "peek", "limit": "ad", "key": digest}]).json[0]]
    assert [(answer["allowed"], answer["quota"], answer["remaining"]) for answer in answers] == [(False, 2, 0)] * 2
    status, text = run(server, "ask", "ad", digest, "--peek")
    assert status == 1 and "denied" in text
    assert server.get("/v1/peek/ad?key=0123456789abcdef").json["remaining"] == 2  # a name that nobody has used
    assert server.post("/v1/acquire", {"limit": "ad", "key": digest}).status == 200  # a key of that name
    assert server.get(f"/v1/peek/ad?key={digest}").json["remaining"] == 1


def test_a_peek_finds_a_breaker_by_its_digest_and_by_its_beginning(serve):
    server = serve(config=CONFIG)
    fail(server, TOKEN)
    digest = server.post("/v1/key", {"key": "s3cret"}).json["digest"]
    assert server.get(f"/v1/peek/by-token?key={digest}").json["reason"] == "breaker_open"
    report(server, "k" * 64 + "first")
    assert server.post("/v1/peek", {"limit": "up", "key": "k" * 64 + "…"}).json["reason"] == "breaker_open"
    report(server, "k" * 64 + "second")
    assert server.post("/v1/peek", {"limit": "up", "key": "k" * 64 + "…"}).status == 400
    assert server.get("/v1/peek/up?key=%2300000000").json["allowed"]  # a name, as others


def test_a_peek_at_a_redis_says_that_a_digest_is_no_name(serve, start_redis):
    server = serve(config=ADAPTIVE.replace("algorithm: adaptive, initial: 2, min: 1, max: 3", "algorithm: fixed_window, rate: 1/h")
                   + f"store: {start_redis().url}\nstore_timeout: 30s\n")
    until(lambda: server.get("/readyz").status == 200, "the store")
    until(lambda: ask(server, {"header.x-api-key": "k1"}).status == 429, "the denial")
    refused = server.get(f"/v1/peek/ad?key={server.post('/v1/key', {'key': 'k1'}).json['digest']}")
    assert refused.status == 400 and "can't be found by it" in refused.json["error"]["message"]


@pytest.mark.parametrize("limit", ["plain", "up", "CL.THROTTLE"])
def test_a_reset_by_a_digest_that_no_key_is_known_by_is_refused(serve, limit):
    server = serve(config=CONFIG + "denials: { keep: 0 }\n")
    digest = server.post("/v1/key", {"key": "k1"}).json["digest"]
    if limit == "plain":
        acquire(server, "k1", "plain")
    status, text = run(server, "reset", limit, digest)
    assert status == 2 and f"found '{digest}'" in text and "expected the name of a key" in text
    assert server.post("/v1/reset", {"limit": limit, "key": digest}).status == 400
    assert server.post("/v1/reset", {"limit": limit, "key": "k1"}).status == 200
    if limit == "plain":  # a batch has used a key of that name before it resets it
        answers = server.post("/v1/batch", [{"limit": "plain", "key": digest}, {"op": "reset", "limit": "plain", "key": digest}]).json
        assert not any("error" in answer for answer in answers)


@pytest.mark.parametrize("quorum", ["", "quorum: 1,"])
def test_a_report_does_not_show_the_name_of_a_secret_key(serve, start_redis, quorum):
    """The permits of servers that share a Redis have the key's name."""
    server = serve(config=CONFIG.replace("by-token: { algorithm: breaker,", f"by-token: {{ algorithm: breaker, {quorum}")
                   + f"store: {start_redis().url}\nstore_timeout: 30s\n")
    until(lambda: server.get("/readyz").status == 200, "the store")
    permit = ask(server, TOKEN).json["permit"]
    assert server.post("/v1/report", {"permit": permit, "outcome": "failure"}).status == 200
    until(lambda: ask(server, TOKEN).status == 503, "the decision of the servers")
    server.line_with("breaker_turned limit=by-token")
    assert "s3cret" not in server.get("/v1/limits").text + json.dumps(server.get("/v1/status").json)
    assert "s3cret" not in "".join(server.log)


def test_another_server_does_not_show_a_secret_key_that_is_reported_there(serve, start_redis):
    config = CONFIG + f"store: {start_redis().url}\nstore_timeout: 30s\n"
    servers = [serve(config=config), serve(config=config)]
    for server in servers:
        until(lambda server=server: server.get("/readyz").status == 200, "the store")
    until(lambda: len({json.dumps(one.post("/v1/key", {"key": "s3cret"}).json) for one in servers}) == 1, "the secret")
    giver, other = servers
    digest = other.post("/v1/key", {"key": "s3cret"}).json["digest"]
    permit = ask(giver, TOKEN).json["permit"]
    assert other.post("/v1/report", {"permit": permit, "outcome": "failure"}).status == 200
    other.line_with(f"breaker_turned limit=by-token key={digest} from=closed to=open")
    assert listed(other, "by-token") == {digest: ("open", None)}
    assert "s3cret" not in "".join(other.log)
    report(giver, "named", limit="by-token")  # a request that names the limit and the key
    assert "named" in listed(giver, "by-token")
