"""Denials by a rule's own answer are kept, too: of a banned visitor, by whatever protocol she came."""

import json
import re
import subprocess
import urllib.parse

import pytest
from harness import PATIENCE, Http, Wire, metric, until, weir

CONFIG = """
limits: { pages: { algorithm: fixed_window, rate: 1000000/d } }
rules:
  - { name: trial, match: { user: eve }, mode: shadow, answer: deny }
  - { name: banned, match: { ip: [203.0.113.0/24], path: /* }, answer: deny }
  - { name: leaked, match: { header.x-api-key: s3cret }, answer: deny }
  - { name: pages, key: [ip], limits: [pages] }
trusted_proxies: [127.0.0.0/8]
"""
BANNED = {"ip": "203.0.113.9", "path": "/a", "user": "eve"}
KEPT = {"rule": "banned", "limit": "", "key": "", "reason": "listed", "retry_after_ms": 1000, "shadow": False,
        "attributes": {"path": "/a"}}


def denials(server, query="?n=1000"):
    return server.get(f"/v1/denials{query}").json


def check_kept(server, count=1, query="?n=1000"):
    kept = denials(server, query)
    assert len(kept) == count
    ip = server.post("/v1/key", {"key": "203.0.113.9"}).json["digest"]
    for denial in kept:
        assert re.fullmatch("[0-9a-f]{16}", denial["id"]) and denial["time"].endswith("Z")
        assert denial["attributes"].pop("ip") == ip
        assert {name: denial[name] for name in KEPT} == KEPT and len(denial) == len(KEPT) + 2
    assert len({denial["id"] for denial in kept}) == count


def acquire(server):
    assert server.post("/v1/acquire", {"attributes": BANNED}).status == 429


def auth(server):
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Uri": "/a?x=1"}
    assert server.get("/auth?deny=403", headers).status == 403


def check(server):
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.CHECK", "ip", "203.0.113.9", "path", "/a")[5:] == [b"listed", b"", b"", b"banned"]


def batch(server):
    answers = server.post("/v1/batch", [{"attributes": {"ip": "192.0.2.1"}}, {"attributes": BANNED}]).json
    assert [answer["allowed"] for answer in answers] == [True, False]


def long_batch(server):
    answers = server.post("/v1/batch", [{"attributes": {"ip": f"192.0.2.{i % 200}"}} for i in range(999)] + [{"attributes": BANNED}]).json
    assert [answer["allowed"] for answer in answers] == [True] * 999 + [False]


def browse(path):
    def ask(server):
        attributes = urllib.parse.urlencode({"ip": "203.0.113.9", "path": "/a"})
        if path == "/multi/browse":
            query = urllib.parse.urlencode({"argsJson": json.dumps([{"Id": 1, "Arg": urllib.parse.quote(attributes)}])})
        else:
            query = attributes + ("&_writeThrough=yes" if path.endswith("through") else "")
        answer = server.get(f"{path.split(',')[0]}?{query}")
        assert answer.status == 200 and "Deny" in answer.text
    return ask


CALLS = {"acquire": acquire, "auth": auth, "check": check, "batch": batch, "long batch": long_batch,
         **{path: browse(path) for path in ("/rule/browse", "/rule/browse, through", "/rule/browse_complete",
                                            "/rule/browse_complete, through", "/multi/browse")}}


@pytest.mark.parametrize("order", ["all", "first"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_protocol_keeps_a_denial_by_a_rule_alone(serve, call, order):
    server = serve(config=CONFIG + f"order: {order}\n")
    call(server)
    check_kept(server)
    assert server.get("/v1/status").json["denials"] == {"kept": 1, "left_out": 0, "oldest": denials(server)[-1]["time"], "keep": 10000}


def test_what_asks_only_keeps_nothing(serve):
    server = serve(config=CONFIG)
    assert server.post("/v1/peek", {"attributes": BANNED}).json["reason"] == "listed"
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.CHECKPEEK", "ip", "203.0.113.9", "path", "/a")[5] == b"listed"
    assert server.post("/v1/acquire", {"attributes": {"user": "eve"}}).json["allowed"] is True
    assert denials(server) == []


def test_it_is_found_by_each_value_that_the_rule_matches(serve):
    config = CONFIG + "denials: { file: denials.jsonl, attributes: none }\n"
    server = serve(config=config)
    acquire(server)
    server.get("/auth", {"X-Api-Key": "s3cret", "X-Forwarded-For": "192.0.2.7"})
    for _ in range(2):
        for key, rule in (("203.0.113.9", "banned"), ("/a", "banned"), ("s3cret", "leaked")):
            assert [denial["rule"] for denial in denials(server, f"?key={key}")] == [rule]
        assert denials(server, "?key=eve") == [] and denials(server, "?key=192.0.2.7") == []
        assert server.stop() == 0
        server = serve(config=config)
    assert "s3cret" not in server.get("/v1/denials").text
    done = weir("why", "203.0.113.9", "--server", f"127.0.0.1:{server.http}")
    assert done.returncode == 0 and done.stdout.splitlines()[1].split()[1:4] == ["banned", "-", "listed"]


def test_secrets_that_a_rule_matches_are_digests(serve):
    server = serve(config=CONFIG + "denials: { key: full }\n")
    server.get("/auth", {"X-Api-Key": "s3cret"})
    [denial] = denials(server)
    assert denial["rule"] == "leaked"
    assert denial["attributes"] == {"header.x-api-key": server.post("/v1/key", {"key": "s3cret"}).json["digest"]}


def test_they_are_bounded_by_rule_and_second_and_the_log_has_one_a_second(serve):
    server = serve("--log-format", "json", config=CONFIG + "denials: { per_second: 3 }\n")
    server.post("/v1/batch", [{"attributes": BANNED}] * 500)
    server.get("/auth", {"X-Api-Key": "s3cret"})
    kept, left_out, *_ = server.get("/v1/status").json["denials"].values()
    # At 3 a second, the batch may have taken two seconds, or more on a busy machine.
    assert 4 <= kept < 200 and kept + left_out == 501 == left_out + len(denials(server))
    assert metric(server, "weir_denials_left_out_total") == left_out
    line = json.loads(server.line_with('"event":"denied"'))
    assert (line["rule"], line["limit"], line["key"], line["reason"]) == ("banned", "", "", "listed")
    assert denials(server, "?rule=leaked")[0]["rule"] == "leaked"


@pytest.mark.parametrize("option", ["keep: 0", "per_second: 0"])
def test_they_can_be_turned_off(serve, option):
    server = serve(config=CONFIG + "denials: { %s, headers: yes }\n" % option)
    acquire(server)
    assert denials(server) == []


def test_a_rule_that_answers_behind_a_limit_at_redis_keeps_the_request_s_attributes(serve, start_redis):
    """The plan waits for the Redis, so it needs a copy of what the rule matches."""
    server = serve(config=CONFIG.replace("  - { name: banned", "  - { name: first, key: [ip], limits: [shared] }\n  - { name: banned")
                   .replace("limits: {", 'limits: { shared: { algorithm: fixed_window, rate: 1000/d, store: "%s" },' % start_redis().url)
                   + "order: first\nstore_timeout: 30s\n")
    acquire(server)
    check_kept(server)
    assert denials(server, "?key=203.0.113.9") != []
    batch(server)
    check_kept(server, 2)


def test_a_limit_that_denies_first_is_named_in_place_of_the_answer(serve):
    server = serve(config=CONFIG.replace("rate: 1000000/d", "rate: 1/d").replace(
        "  - { name: banned", "  - { name: first, key: [ip], limits: [pages] }\n  - { name: banned") + "order: first\n")
    acquire(server)  # which charges nothing
    assert server.post("/v1/acquire", {"limit": "pages", "key": "203.0.113.9"}).json["allowed"] is True
    acquire(server)
    assert [(denial["rule"], denial["limit"], denial["reason"]) for denial in denials(server)] == [
        ("first", "pages", "over_limit"), ("banned", "", "listed")]


def test_they_are_events(serve):
    server = serve(config=CONFIG)
    process = subprocess.Popen(["curl", "-sN", "-m", str(PATIENCE), f"http://127.0.0.1:{server.http}/v1/events?denials=yes"],
                               stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: acquire(server) or denials(server), "a denial")
        for line in process.stdout:
            acquire(server)
            if line.startswith("data:") and '"reason":"listed"' in line and '"shadow":false' in line:
                break
        assert json.loads(line[5:])["rule"] == "banned"
    finally:
        process.kill()
        process.wait()


def test_a_denial_is_of_its_own_rule_after_a_reload(serve):
    server = serve(config=CONFIG)
    acquire(server)
    server.reload(CONFIG.replace("name: banned", "name: exiled"))
    server.line_with("reloaded")
    until(lambda: acquire(server) or denials(server)[0]["rule"] == "exiled", "a denial by the new rule")
    assert denials(server)[-1]["rule"] == "banned"


def test_a_header_names_the_denial_and_users_may_be_denied(serve):
    server = serve(config=CONFIG + "denials: { headers: yes }\n")
    with Http(server.http) as client:
        answer = client.request("GET", "/auth", headers={"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Uri": "/a"})
    assert answer.status == 429
    headers = {name.lower(): value for name, value in dict(answer.headers).items()}
    [denial] = denials(server)
    assert (headers["x-weir-rule"], headers["x-weir-decision"]) == ("banned", denial["id"])
    assert "x-weir-limit" not in headers
