"""The attributes that are kept with denials."""

import json
import urllib.parse

import pytest
from harness import Http, Wire, encode

RULES = """
limits:
  login: { algorithm: token_bucket, rate: 1/h }
  tokens: { algorithm: fixed_window, rate: 1/h, align: first_request }
  places: { algorithm: concurrency, max: 1, lease: 1h, queue: 9, max_wait: 200ms }
rules:
  - { name: by-user, match: { path: [/login], method: [POST, GET] }, key: [user], limits: [login] }
  - { name: by-token, match: { path: [/token] }, key: [header.x-api-key], limits: [tokens] }
  - { name: by-cookie, match: { path: [/cookie], cookie.session: "*" }, key: [path], limits: [tokens] }
  - { name: waits, match: { path: [/wait] }, key: [user], limits: [places] }
"""
LOGIN = {"path": "/login", "method": "POST", "user": "ann", "host": "example.com", "ip": "10.0.0.1"}


def denials(server, rule):
    answer = server.get(f"/v1/denials?rule={rule}")
    assert answer.status == 200, answer
    return answer.json


def digest(server, value):
    return server.post("/v1/key", {"key": value}).json["digest"]


def denied_login(server, **more):
    for _ in range(2):
        answer = server.post("/v1/acquire", {"attributes": {**LOGIN, **more}}).json
    assert answer["allowed"] is False
    [denial] = denials(server, "by-user")
    return denial["attributes"]


def test_those_that_the_rule_matches_or_counts_by_are_kept_names_of_keys_as_digests(serve):
    server = serve(config=RULES)
    assert denied_login(server) == {"path": "/login", "method": "POST", "user": digest(server, "ann")}


@pytest.mark.parametrize("option, kept", [
    ("key: full", {"path": "/login", "method": "POST", "user": "ann"}),
    ("attributes: none", {}), ("key: full, attributes: rule", {"path": "/login", "method": "POST", "user": "ann"}),
    ("attributes: [host, ip, country]", {"host": "example.com", "ip": "10.0.0.1"}), ("attributes: []", {})])
def test_the_configuration_chooses_which_are_kept(serve, option, kept):
    assert denied_login(serve(config=RULES + f"denials: {{ {option} }}\n")) == kept


@pytest.mark.parametrize("option", ["{}", "{ key: full }",
                                    "{ key: full, attributes: [path, header.x-api-key, cookie.session] }"])
def test_values_of_headers_and_cookies_are_digests_whatever_is_configured(serve, option):
    server = serve(config=RULES + f"denials: {option}\n")
    with Http(server.http) as client:
        for path in ("/token", "/cookie") * 2:
            client.request("GET", "/auth", headers={"X-Forwarded-Uri": path, "X-Api-Key": "s3cret",
                                                    "Cookie": "session=s3cret-too"})
    [by_token], [by_cookie] = denials(server, "by-token"), denials(server, "by-cookie")
    assert "s3cret" not in server.get("/v1/denials").text
    shown = {"path": "/token", "header.x-api-key": digest(server, "s3cret")}
    assert {name: by_token["attributes"][name] for name in shown} == shown
    assert by_cookie["attributes"]["cookie.session"] == digest(server, "s3cret-too")


SECRETS = """
limits: { calls: { algorithm: fixed_window, rate: 1/d } }
rules:
  - { name: by-ip, match: { path: /ip, api_key: "*", authorization: "*" }, key: [ip], limits: [calls] }
  - { name: by-key, match: { path: /key }, key: [api_key], limits: [calls] }
  - { name: leaked, match: { path: /leaked, accessToken: sk_live_S3CRET }, answer: deny }
"""


@pytest.mark.parametrize("option", ["{ %s }", "{ key: full, %s }",
                                    "{ key: full, attributes: [ip, api_key, authorization, accessToken], %s }"])
def test_attributes_with_the_name_of_a_secret_are_digests_whatever_is_configured(serve, tmp_path, option):
    server = serve(config=SECRETS + "denials: " + option % "file: denials.jsonl" + "\n")
    for path in ("/ip", "/key", "/leaked"):
        attributes = {"path": path, "ip": "192.0.2.7", **dict.fromkeys(("api_key", "authorization", "accessToken"), "sk_live_S3CRET")}
        assert [server.post("/v1/acquire", {"attributes": attributes}).status for _ in range(2)][-1] == 429
    for _ in range(2):
        server.post("/v1/acquire", {"limit": "calls", "key": "sk_live_S3CRET2"})
    secret = digest(server, "sk_live_S3CRET")
    [by_ip], [by_key], leaked = (denials(server, rule) for rule in ("by-ip", "by-key", "leaked"))
    assert by_ip["attributes"]["api_key"] == by_ip["attributes"]["authorization"] == secret
    assert by_key["key"] == secret and {denial["attributes"]["accessToken"] for denial in leaked} == {secret}
    assert len(server.get("/v1/denials?key=sk_live_S3CRET").json) >= 4
    assert "S3CRET" not in server.get("/v1/denials").text + server.get("/v1/top").text.replace("S3CRET2", "")
    assert server.stop() == 0
    assert "S3CRET" not in (tmp_path / "denials.jsonl").read_text()


def test_with_digests_only_values_of_many_visitors_are_in_clear(serve):
    config = """
limits: { calls: { algorithm: fixed_window, rate: 1/d } }
rules:
  - { name: banned, match: { ip: 192.0.2.0/24, path: /a }, answer: deny }
  - { name: by-user, match: { path: /*, method: GET, host: "*", plan: "*", ip: 203.0.113.0/24 }, key: [user], limits: [calls] }
"""
    server = serve(config=config)
    request = {"path": "/a", "method": "GET", "host": "a.example", "plan": "free", "user": "ann"}
    for ip in ("192.0.2.7", "203.0.113.9", "203.0.113.9"):
        answer = server.post("/v1/acquire", {"attributes": {**request, "ip": ip}})
    assert answer.status == 429
    [banned], [by_user] = denials(server, "banned"), denials(server, "by-user")
    assert banned["attributes"] == {"path": "/a", "ip": digest(server, "192.0.2.7")}
    assert by_user["attributes"] == {**request, **{name: digest(server, value) for name, value in (
        ("plan", "free"), ("user", "ann"), ("ip", "203.0.113.9"))}}
    for value in ("192.0.2.7", "203.0.113.9", "free"):  # which find them all the same
        assert len(server.get(f"/v1/denials?key={value}").json) == 1


def test_a_request_that_waited_keeps_its_attributes(serve):
    server = serve("--threads", "1", config=RULES + "denials: { key: full }\n")
    with Wire(server.resp) as wire, Wire(server.resp) as other:
        wire.command("WEIR.CHECK", "path", "/wait", "user", "ann" * 30)
        wire.send(encode("WEIR.CHECK", "path", "/wait", "user", "ann" * 30, "other", "x" * 3000))
        for i in range(50):  # whose bytes take the place of those of the request that waits
            other.command("WEIR.CHECK", "path", "/none", "user", f"{i:090}", "other", "y" * 3000)
        assert wire.reply()[0] == 0
    [denial] = denials(server, "waits")
    assert denial["attributes"] == {"path": "/wait", "user": "ann" * 30}


def test_a_request_by_redis_keeps_its_attributes(serve, start_redis):
    server = serve("--store", start_redis().url, config="store_timeout: 30s\n" + RULES)
    assert denied_login(server) == {"path": "/login", "method": "POST", "user": digest(server, "ann")}
    # Items of a batch are copied with it.
    server.post("/v1/batch", [{"attributes": {**LOGIN, "user": f"user-{i}"}} for i in range(40)] * 2)
    users = {denial["attributes"]["user"] for denial in denials(server, "by-user")}
    assert digest(server, "user-0") in users and len(users) > 2


def test_a_batch_of_several_iterations_keeps_the_attributes_of_each_item(serve):
    server = serve(config=RULES + "denials: { key: full, per_second: 10000 }\n")
    users = [f"user-{i}" for i in range(200)]
    server.post("/v1/batch", [{"attributes": {**LOGIN, "user": user}} for user in users + users])
    kept = json.loads(server.get("/v1/denials?rule=by-user&n=1000").text)
    assert sorted(denial["attributes"]["user"] for denial in kept) == sorted(users)
    assert all(denial["attributes"]["path"] == "/login" for denial in kept)


@pytest.mark.parametrize("call", ["browse", "browse_complete", "browse, written through",
                                  "browse_complete, written through", "multi"])
def test_denials_to_clients_of_koala_are_kept(serve, call):
    """Koala's clients browse, which takes nothing, and deny their visitors by the answer."""
    server = serve(config=RULES + "  - { name: other, match: { path: [/login] }, key: [user], limits: [tokens], mode: shadow }\n")
    attributes = "path=/login&method=GET&user=ann"
    server.get(f"/rule/update?{attributes}")
    path = f"/rule/{call.split(',')[0]}?{attributes}" + ("&_writeThrough=yes" if "through" in call else "")
    if call == "multi":
        path = "/multi/browse?" + urllib.parse.urlencode({"argsJson": json.dumps(
            [{"Id": 1, "Arg": urllib.parse.quote(attributes)}])})
    assert server.get(path).status == 200
    [denial] = denials(server, "by-user")
    assert (denial["limit"], denial["reason"], denial["key"]) == ("login", "over_limit", digest(server, "ann"))
    assert denial["attributes"] == {"path": "/login", "method": "GET", "user": digest(server, "ann")}
    # browse_complete asks each rule by itself, and looks for no time at which all would pass
    assert (0 < denial["retry_after_ms"] <= 3600_000) == (call != "browse_complete")
    server.get("/rule/browse?path=/login&method=GET&user=bob")  # which is allowed
    assert len(denials(server, "by-user")) == 1


def test_long_and_foreign_values_are_cut_and_escaped(serve):
    server = serve(config=RULES + "denials: { key: full, attributes: [a, b, c, d, e, f, g, h, i, path] }\n")
    foreign = "\"</script>\u202e\u0001" + "é" * 500
    attributes = denied_login(server, a=foreign, **{name: "x" * 1000 for name in "bcdefghi"})
    assert attributes["a"].startswith("\"</script>\u202e\u0001") and len(attributes["a"].encode()) < 270
    assert attributes["b"] == "x" * 256 + "…"
    assert "path" in attributes and "i" not in attributes  # what has no room is left out, and the rest is kept
    assert len(json.dumps(attributes)) < 4096


def test_a_plan_whose_cost_no_limit_behind_it_grants_is_denied_without_attributes(serve):
    server = serve(config="order: first\n" + RULES + "  - { name: small, key: [user], limits: [tokens] }\n")
    for cost in (1, 1, 5):
        answer = server.post("/v1/acquire", {"attributes": LOGIN, "cost": cost})
    assert answer.status in (400, 429)
    assert all(set(denial["attributes"]) <= set(LOGIN) for denial in denials(server, "by-user"))
