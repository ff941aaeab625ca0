"""The denials that are kept: why was this key denied?"""

import calendar
import json
import re
import subprocess
import time
import urllib.parse

import pytest
from harness import PATIENCE, Http, Wire, metric, until

RULES = """
limits:
  login: { algorithm: token_bucket, rate: 2/h, burst: 2 }
  spare: { algorithm: fixed_window, rate: 1/h }
  tokens: { algorithm: fixed_window, rate: 1/h }
rules:
  - { name: by-user, match: { path: [/login] }, key: [user], limits: [login] }
  - { name: trial, match: { path: [/login] }, key: [path], limits: [spare], mode: shadow }
  - { name: by-token, match: { path: [/token] }, key: [header.x-api-key], limits: [tokens] }
"""


def denials(server, query=""):
    answer = server.get(f"/v1/denials{query}")
    assert answer.status == 200, answer
    return answer.json


def ask(server, **attributes):
    return server.post("/v1/acquire", {"attributes": attributes}).json


def test_a_denial_says_when_by_which_rule_and_limit_and_until_when(serve):
    server = serve(config=RULES + "denials: { key: full }\n")
    before = time.time()
    allowed = [ask(server, path="/login", user="ann") for _ in range(3)]
    assert [answer["allowed"] for answer in allowed] == [True, True, False]
    enforced = denials(server, "?rule=by-user")
    assert len(enforced) == 1
    [denial] = enforced
    assert (denial["limit"], denial["key"], denial["reason"], denial["shadow"]) == (
        "login", "ann", "over_limit", False)
    assert denial["retry_after_ms"] == allowed[2]["retry_after_ms"] > 0
    at = calendar.timegm(time.strptime(denial["time"], "%Y-%m-%dT%H:%M:%SZ"))
    assert int(before) <= at <= time.time()
    assert len(denial["id"]) == 16 and int(denial["id"], 16) >= 0
    # Denials of the shadow rule are listed, too, the newest first.
    assert [d["rule"] for d in denials(server)] == ["trial", "by-user", "trial"]
    assert {d["shadow"] for d in denials(server, "?limit=spare")} == {True}


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_a_denial_by_a_shadow_rule_says_until_when_it_would_have_lasted(serve, start_redis, store):
    place = f"store: {start_redis().url}\nstore_timeout: 30s\n" if store == "redis" else ""
    server = serve(config=place + RULES.replace("rate: 1/h }", "rate: 1/h, align: first_request }", 1))
    for cost, retry in ((1, None), (1, range(3_500_000, 3_600_001)), (2, range(1))):  # a cost of 2 can never pass
        answer = server.post("/v1/acquire", {"attributes": {"path": "/login", "user": f"user-{cost}"}, "cost": cost}).json
        assert answer["allowed"] is True
        assert not retry or denials(server, "?rule=trial")[0]["retry_after_ms"] in retry


@pytest.mark.parametrize("limit", [
    "algorithm: token_bucket, rate: 1/h, burst: 1", "algorithm: fixed_window, rate: 1/h, align: first_request",
    "algorithm: sliding_log, rate: 1/h", "algorithm: concurrency, max: 1", "algorithm: random, deny: 1, retry: 3s"])
@pytest.mark.parametrize("store", ["memory", "redis"])
def test_a_denial_by_a_limit_that_the_request_names_says_until_when(serve, shared_redis, key, limit, store):
    place = f"store: {shared_redis.url}\nstore_timeout: 10s\n" if store == "redis" else ""
    server = serve(config=f"{place}denials: {{ key: full }}\nlimits:\n  direct: {{ {limit} }}\n")
    with Wire(server.resp) as wire:
        while wire.command("WEIR.ACQUIRE", "direct", key)[0]:
            pass
        answers = [server.get(f"/v1/acquire/direct?key={key}").json["retry_after_ms"],
                   wire.command("WEIR.ACQUIRE", "direct", key)[3]]
        while wire.command("CL.THROTTLE", key, 0, 1, 3600)[0] == 0:
            pass
    kept = [denial["retry_after_ms"] for denial in denials(server, "?limit=direct")][:2]
    assert kept == answers[::-1]
    assert kept[0] > 0
    assert 3_500_000 < denials(server, "?limit=CL.THROTTLE")[0]["retry_after_ms"] <= 3_600_000
    assert denials(server, "?limit=THROTTLE") == denials(server, "?limit=CL.THROTTLE")  # one count under two names


def test_a_key_is_found_by_its_name_or_its_digest(serve):
    server = serve(config=RULES)
    for user in ("ann", "bob") * 3:
        ask(server, path="/login", user=user)
    digest = server.post("/v1/key", {"key": "ann"}).json["digest"]
    assert digest != server.post("/v1/key", {"key": "bob"}).json["digest"]
    for key in ("ann", digest):
        [denial] = denials(server, f"?key={key}")
        assert (denial["key"], denial["rule"]) == (digest, "by-user")
    assert denials(server, "?key=nobody") == []


def test_a_denial_is_found_by_its_id(serve):
    server = serve(config=RULES + "denials: { per_second: 100, headers: yes }\n")
    attributes = {"path": "/login", "user": "ann"}
    denied = [fields["decision"] for fields in (denial_fields(server, attributes) for _ in range(5)) if fields]
    assert len(set(denied)) == 3
    for decision in denied:
        assert [denial["id"] for denial in denials(server, f"?id={decision.upper()}")] == [decision]
        assert len(denials(server, f"?id={decision}&limit=login&key=ann")) == 1
        assert denials(server, f"?id={decision}&limit=spare") == denials(server, f"?id={decision}&key=bob") == []
    assert denials(server, f"?id={int(denied[0], 16) ^ 1:016x}") == []


PARTS = """
limits: { asks: { algorithm: fixed_window, rate: 1/d }, places: { algorithm: concurrency, max: 1, lease: 1h, queue: 9, max_wait: 100ms } }
rules:
  - { name: by-both, match: { act: ask }, key: [act, user], limits: [asks] }
  - { name: by-network, match: { path: [/login] }, key: [ip], limits: [asks] }
  - { name: waits, match: { act: wait }, key: [act, user], limits: [places] }
"""


@pytest.mark.parametrize("option", ["{}", "{ key: full }", "{ attributes: none }", "{ key: full, attributes: [host] }"])
def test_a_key_of_several_attributes_is_found_by_each_value_and_one_of_a_network_by_the_address(serve, option):
    server = serve(config=PARTS + f"denials: {option}\n")
    for request in ({"act": "ask", "user": "ann"}, {"act": "wait", "user": "ann"}, {"act": "ask", "user": "bob"},
                    {"path": "/login", "ip": "2001:db8::1:2:3:4"}):
        assert [ask(server, **request)["allowed"] for _ in range(2)] == [True, False]
    digest = server.post("/v1/key", {"key": "ann"}).json["digest"]
    for key in ("ann", digest):
        assert [denial["rule"] for denial in denials(server, f"?key={key}")] == ["waits", "by-both"]
    assert [denial["rule"] for denial in denials(server, "?key=ask")] == ["by-both", "by-both"]
    assert [denial["rule"] for denial in denials(server, "?key=ann&limit=asks")] == ["by-both"]
    for key in ("2001:db8::1:2:3:4", "2001:db8::/64"):
        assert [denial["rule"] for denial in denials(server, f"?key={key}")] == ["by-network"]
    for key in ("an", "3:ask3:an", "2001:db8::1:2:3:5", digest[1:] + digest[0], ""):
        assert len(denials(server, f"?key={key}")) == (4 if key == "" else 0)


def test_values_of_visitors_are_never_shown(serve):
    server = serve(config=RULES + "denials: { key: full }\n")
    with Http(server.http) as client:
        for _ in range(2):
            client.request("GET", "/auth", headers={"X-Forwarded-Uri": "/token", "X-Api-Key": "secret-token"})
    [denial] = denials(server, "?rule=by-token")
    assert "secret-token" not in str(denial)
    assert denial["key"] == server.post("/v1/key", {"key": "secret-token"}).json["digest"]


def test_a_rule_keeps_so_many_a_second_and_the_rest_is_counted(serve):
    server = serve(config=RULES + "denials: { per_second: 3 }\n")
    for _ in range(12):
        server.post("/v1/batch", [{"limit": "tokens", "key": "k"}] * 100)
    kept = denials(server, "?n=1000&limit=tokens")
    seconds = [denial["time"] for denial in kept]
    assert all(seconds.count(second) <= 3 for second in seconds)
    left_out = metric(server, "weir_denials_left_out_total")
    assert len(kept) + left_out == 12 * 100 - 1


@pytest.mark.parametrize("option", ["keep: 0", "per_second: 0"])
def test_nothing_is_kept_if_that_is_asked_for(serve, option):
    server = serve(config=RULES + f"denials: {{ {option} }}\n")
    for _ in range(3):
        ask(server, path="/login", user="ann")
    assert denials(server) == []


def test_a_denial_over_resp_is_kept_and_one_of_a_limit_in_the_request(serve):
    server = serve(config=RULES + "denials: { key: full }\n")
    with Wire(server.resp) as wire:
        for _ in range(2):
            wire.command("WEIR.ACQUIRE", "spare", "k")
            wire.command("CL.THROTTLE", "adhoc", 0, 1, 3600)
    assert [(d["limit"], d["key"], d["rule"]) for d in denials(server)] == [
        ("CL.THROTTLE", "adhoc", ""), ("spare", "k", "")]


@pytest.mark.parametrize("query, message", [
    ("?n=0", "expected n to be a number from 1 to 1000, found '0'"),
    ("?what=1", "expected id, key, limit, rule, since, until or n, found 'what'"),
    ("?id=9fa7418724dded0", "expected id to be the 16 hexadecimal digits of a denial's id, found '9fa7418724dded0'"),
    ("?id=9fa7418724dded0g", "expected id to be the 16 hexadecimal digits of a denial's id, found '9fa7418724dded0g'"),
    ("?id=", "expected id to be the 16 hexadecimal digits of a denial's id, found ''"),
    ("?since=soon", "expected since to be a time such as 2026-01-31T10:00:00Z or a span such as 1h, found 'soon'"),
    ("?until=soon", "expected until to be a time such as 2026-01-31T10:00:00Z or a span such as 1h, found 'soon'"),
    ("?key=%zz", "expected two hex digits after every %")])
def test_a_wrong_parameter_is_an_error(serve, query, message):
    answer = serve(config=RULES).get(f"/v1/denials{query}")
    assert answer.status == 400
    assert answer.json["error"]["message"] == message


def test_since_is_a_span_or_a_time(serve):
    server = serve(config=RULES)
    for _ in range(3):
        ask(server, path="/login", user="ann")
    assert len(denials(server, "?since=1h&rule=by-user")) == 1
    assert len(denials(server, "?since=2020-01-01T00:00:00Z&rule=by-user")) == 1
    assert denials(server, "?since=2200-01-01T00:00:00Z") == []


def test_until_is_a_span_or_a_time_whose_second_counts(serve):
    server = serve(config=RULES)
    for _ in range(3):
        ask(server, path="/login", user="ann")
    [denial] = denials(server, "?rule=by-user")
    for until in (denial["time"], "2200-01-01T00:00:00Z", "0s"):
        assert denials(server, f"?rule=by-user&until={until}") == [denial]
    assert denials(server, "?until=1h") == denials(server, "?until=2020-01-01T00:00:00Z") == []
    assert denials(server, f"?rule=by-user&since=1h&until={denial['time']}") == [denial]


def test_denials_by_redis_are_kept_and_servers_that_share_it_have_the_same_digest(serve, start_redis):
    redis = start_redis()
    servers = [serve("--store", redis.url, config="store_timeout: 30s\n" + RULES) for _ in range(2)]

    def digests():
        return {server.post("/v1/key", {"key": "ann"}).json["digest"] for server in servers}

    until(lambda: len(digests()) == 1, "the secret")
    answers = [ask(servers[i % 2], path="/login", user="ann") for i in range(6)]
    assert [answer["allowed"] for answer in answers] == [True, True] + [False] * 4
    for server in servers:
        kept = denials(server, "?key=ann&rule=by-user")
        assert len(kept) == 2 and {d["key"] for d in kept} == digests()


def test_a_request_that_waited_and_is_denied_is_kept_with_its_name(serve):
    server = serve(config="""
limits: { places: { algorithm: concurrency, max: 1, lease: 1h, queue: 9, max_wait: 200ms } }
rules: [ { name: one, key: [user], limits: [places] } ]
denials: { key: full }
""")
    assert [ask(server, user="ann" * 30)["allowed"] for _ in range(2)] == [True, False]
    [denial] = denials(server)
    assert (denial["rule"], denial["key"], denial["shadow"]) == ("one", "ann" * 30, False)


def test_long_and_foreign_names_are_cut_and_escaped(serve):
    server = serve(config=RULES + "denials: { key: full }\n")
    name = "\"</script>\u202e" + "é" * 500
    for _ in range(2):
        server.post("/v1/acquire", {"limit": "spare", "key": name})
    [denial] = denials(server)
    assert denial["key"].startswith("\"</script>\u202e") and len(denial["key"].encode()) <= 260


def denial_fields(server, attributes, http2=False):
    """The header fields of an acquire that explain a denial."""
    done = subprocess.run(["curl", "-s", "-D-", "-o/dev/null", *(["--http2-prior-knowledge"] if http2 else []),
                           "-d", json.dumps({"attributes": attributes}), f"http://127.0.0.1:{server.http}/v1/acquire"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"(?mi)^x-weir-(rule|limit|decision): (\S+)\r?$", done.stdout.lower()))


@pytest.mark.parametrize("http2", [False, True], ids=["1", "2"])
def test_a_denied_answer_names_its_rule_limit_and_denial_if_that_is_asked_for(serve, http2):
    server = serve(config=RULES + "denials: { headers: yes, per_second: 1 }\n")
    attributes = {"path": "/login", "user": "ann"}
    assert [denial_fields(server, attributes, http2) for _ in range(2)] == [{}, {}]
    denied = denial_fields(server, attributes, http2)
    [kept] = denials(server, "?rule=by-user")
    assert denied == {"rule": "by-user", "limit": "login", "decision": kept["id"]}
    # A denial that is not kept has no id; on a slow machine each may be the first of its second.
    until(lambda: denial_fields(server, attributes, http2) == {"rule": "by-user", "limit": "login"},
          "a denial that is not kept")


@pytest.mark.parametrize("quantity", [1, 9], ids=["spent", "impossible"])
@pytest.mark.parametrize("on_redis", [False, True], ids=["memory", "redis"])
def test_a_denial_by_throttlecrabs_route_names_its_limit_and_denial(serve, request, on_redis, quantity):
    store = f'store: "{request.getfixturevalue("start_redis")().url}"\nstore_timeout: 30s\n' if on_redis else ""
    server = serve(config=store + "denials: { headers: yes }\n")

    def throttle(quantity):
        answer = server.post("/throttle", {"key": "ann", "max_burst": 2, "count_per_period": 1, "period": 3600,
                                           "quantity": quantity})
        return answer.status, answer.json["allowed"], {name: value for name, value in answer.headers.items()
                                                       if name.lower().startswith("x-weir")}

    assert throttle(2) == (200, True, {})
    status, allowed, fields = throttle(quantity)
    [kept] = denials(server)
    assert (status, allowed, fields) == (200, False, {"X-Weir-Limit": "CL.THROTTLE", "X-Weir-Decision": kept["id"]})


def test_names_in_header_fields_are_percent_encoded(serve):
    name = 'l\u00f6"g \\%7E~'
    server = serve(config=f"""
limits: {{ one: {{ algorithm: fixed_window, rate: 1/h }} }}
rules: [ {{ name: {json.dumps(name)}, key: [user], limits: [one] }} ]
denials: {{ headers: yes }}
""")
    denied = [server.post("/v1/acquire", {"attributes": {"user": "ann"}}) for _ in range(2)][1]
    assert denied.headers["X-Weir-Rule"] == "l%C3%B6%22g%20%5C%257E~"
    assert urllib.parse.unquote(denied.headers["X-Weir-Rule"]) == name == denied.json["rule"]


def test_denials_after_a_wait_by_redis_and_by_a_rule_alone_are_explained(serve, start_redis):
    server = serve(config=f"""
store_timeout: 30s
limits:
  places: {{ algorithm: concurrency, max: 1, lease: 1h, queue: 9, max_wait: 100ms }}
  shared: {{ algorithm: fixed_window, rate: 1/h, store: "{start_redis().url}" }}
rules:
  - {{ name: listed, match: {{ path: [/no] }}, answer: deny }}
  - {{ name: waits, match: {{ path: [/wait] }}, key: [user], limits: [places] }}
  - {{ name: remote, match: {{ path: [/redis] }}, key: [user], limits: [shared] }}
denials: {{ headers: yes }}
""")
    for path, rule, limit in (("/wait", "waits", "places"), ("/redis", "remote", "shared")):
        assert denial_fields(server, {"path": path, "user": "ann"}) == {}
        denied = denial_fields(server, {"path": path, "user": "ann"})
        [kept] = denials(server, f"?rule={rule}")
        assert denied == {"rule": rule, "limit": limit, "decision": kept["id"]}
        denied = denial_fields(server, {"path": "/no"})
        assert denied == {"rule": "listed", "decision": denials(server, "?rule=listed")[0]["id"]}
