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
