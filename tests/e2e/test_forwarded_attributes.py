"""Rules match attributes of a request that a proxy forwards: headers, cookies and parameters."""

import re

import pytest
from harness import ROOT, Http

# Each attribute has a limit of its own, since a reload keeps counts.
CONFIG = """
limits:
  header: {{ algorithm: fixed_window, rate: 3/h, align: first_request }}
  cookie: {{ algorithm: fixed_window, rate: 3/h, align: first_request }}
  query: {{ algorithm: fixed_window, rate: 3/h, align: first_request }}
trusted_proxies: [127.0.0.0/8]
rules: [{}]
"""
RULES = {
    "header": "{ match: { header.X-Api-Key: '*' }, key: [header.x-api-key], limits: [header] }",
    "cookie": "{ match: { cookie.id: '*' }, key: [cookie.id], limits: [cookie] }",
    "query": "{ match: { query.id: '*' }, key: [query.id], limits: [query] }",
}


def auth(client, uri="/", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.request("GET", "/auth", None, {
        "X-Forwarded-Uri": uri, "X-Forwarded-For": "192.0.2.77", **named})


def statuses(n, ask):
    return [ask().status for _ in range(n)]


def test_the_shipped_file_counts_keys_and_addresses_apart_behind_a_proxy(serve):
    # The bursts stay, and hardly any unit refills during the test.
    server = serve(config=(ROOT / "examples/weir.yaml").read_text().replace("/m,", "/d,"))
    with Http(server.http) as client:
        # A key that looks like an address uses no units of that address.
        assert statuses(210, lambda: auth(client, "/api/x", x_api_key="192.0.2.77")) == (
            [200] * 200 + [429] * 10)
        assert statuses(70, lambda: auth(client, "/api/x")) == [200] * 60 + [429] * 10
        # A client that makes up a key for each call is stopped by the limit of its address.
        answers = [auth(client, f"/api/{i}", x_api_key=f"made-up-{i}") for i in range(750)]
        assert [answer.status for answer in answers] == [200] * 740 + [429] * 10
        assert answers[-1].json["rule"] == "api-in-all"


def test_a_reload_reads_the_attributes_that_its_rules_need(serve):
    server = serve(config=CONFIG.format("{ answer: allow }"))
    with Http(server.http) as client:  # one connection stays open over all reloads
        def ask(value):
            return auth(client, f"/?id={value}", x_api_key=value, Cookie=f"a=b; id={value}")

        assert statuses(5, lambda: ask("k")) == [200] * 5
        for limit, rule in RULES.items():
            server.reload(CONFIG.format(rule))
            server.line_with("reloaded")
            assert statuses(5, lambda: ask("k")) == [200] * 3 + [429] * 2
            assert ask("k").json["limit"] == limit
            assert ask("other").status == 200
            # The rule does not apply to a request without the attribute.
            assert statuses(5, lambda: auth(client)) == [200] * 5


@pytest.mark.parametrize("length", [1025, 8000])
def test_a_long_value_is_a_key_like_any_other(serve, length):
    server = serve(config=CONFIG.format(RULES["header"] + ", { key: [path], limits: [query], mode: shadow }"))
    with Http(server.http) as client:
        for last in "ab":
            value = "x" * length + last
            assert statuses(5, lambda: auth(client, x_api_key=value)) == [200] * 3 + [429] * 2
        # A rule in shadow mode denies no request, however long its path is.
        assert auth(client, "/" + "y" * length).status == 200
        # Other callers than proxies get an error.
        refused = client.request("POST", "/v1/acquire", '{"attributes":{"header.X-Api-Key":"v",'
                                 f'"header.x-api-key":"{"x" * length}"}}}}')
        assert (refused.status, refused.json["error"]["code"]) == (400, "too_long")


def test_a_header_that_is_too_long_is_an_error_at_auth(serve):
    server = serve(config=CONFIG.format(RULES["header"]))
    with Http(server.http) as client:
        refused = auth(client, x_api_key="x" * 17000)
    assert (refused.status, refused.json["error"]["code"]) == (431, "header_too_large")


def test_values_that_visitors_sent_are_not_listed(serve):
    server = serve(config=CONFIG.format("{ key: [ip, header.authorization], limits: [header] }"))
    with Http(server.http) as client:
        for secret in ("Bearer s3cret", "Bearer other"):
            assert 429 in statuses(5, lambda: auth(client, Authorization=secret))
        listed = client.request("GET", "/v1/top")
    assert "s3cret" not in listed.text and "Bearer" not in listed.text
    names = [one["key"] for one in listed.json if one["limit"] == "header"]
    assert len(set(names)) == 2
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in names)
