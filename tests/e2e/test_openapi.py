"""docs/openapi.yaml: valid, complete, and true of the answers of a server."""

import json
import re
import urllib.parse

import jsonschema
import openapi_spec_validator
import pytest
import yaml
from harness import ROOT, Http, Wire, until

SPEC = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())
ROUTES = re.findall(r'^    ROUTE\("([^"]+)", (ASK|CHANGE|ADMIN|FREE), (\w+)',
                    (ROOT / "src/proto/http/http_request.c").read_text(), re.M)
# Each route of Koala takes a query and a form; `any` is shown by `get`, and `head` goes without saying.
METHODS = {"ANY": ["get"], "READ": ["get"], "GET": ["get"], "POST": ["post"]}
PARAMETERS = {"/v1/acquire/": "/v1/acquire/{limit}", "/v1/peek/": "/v1/peek/{limit}", "/auth/": "/auth/{path}"}
VERBS = {"get", "post", "put", "delete", "patch", "head", "options", "trace"}

CONFIG = """
limits:
  login: { algorithm: fixed_window, rate: 3/h, align: first_request }
  relief: { algorithm: random, deny: 1 }
  payments: { algorithm: breaker }
  slots: { algorithm: concurrency, max: 1 }
  turns: { algorithm: pacer, rate: 1/h, slack: 0, max_wait: 1s }
  away: { algorithm: token_bucket, rate: 5/s, store: "redis://127.0.0.1:1", on_store_failure: closed }
rules:
  - { name: login-by-ip, match: { path: /login }, key: [ip], limits: [login], result: { page: 7 } }
  - { name: banned, match: { path: /banned }, answer: deny }
  - { name: quiet, match: { path: /login }, key: [ip], limits: [slots], mode: shadow }
denials: { headers: yes }
"""


def operations():
    return {(path, verb): operation for path, item in SPEC["paths"].items()
            for verb, operation in item.items() if verb in VERBS}


def test_the_file_is_a_valid_openapi_document():
    openapi_spec_validator.validate(SPEC)
    named = [operation["operationId"] for operation in operations().values() if "operationId" in operation]
    assert len(named) == len(set(named))


def test_it_lists_exactly_the_routes_of_the_program():
    assert len(ROUTES) > 30
    of_program = {}
    for path, permission, methods in ROUTES:
        for verb in METHODS.get(methods, ["get", "post"]):
            of_program[PARAMETERS.get(path, path), verb] = permission.lower()
    of_file = {key: operation.get("x-weir-permission") for key, operation in operations().items()}
    missing, gone = of_program.keys() - of_file.keys(), of_file.keys() - of_program.keys()
    assert not missing, f"describe these routes in docs/openapi.yaml, and ask each in this file (ANSWERS): {missing}"
    assert not gone, f"the program has no such routes: remove them from docs/openapi.yaml: {gone}"
    wrong = {key: value for key, value in of_program.items() if of_file[key] != value}
    assert not wrong, f"write these as x-weir-permission into docs/openapi.yaml: {wrong}"


def test_it_lists_the_codes_of_errors_and_the_reasons_of_decisions():
    schemas = SPEC["components"]["schemas"]
    errors = (ROOT / "src/proto/http/http_session.h").read_text()
    codes = set(re.findall(r'X\(\w+, "\d{3} [^"]+", "(\w+)"\)', errors))
    assert codes == set(schemas["Error"]["properties"]["error"]["properties"]["code"]["enum"])
    reasons = (ROOT / "include/weir/weir.h").read_text().partition("WEIR_REASON_LIST(X)")[2].partition("enum")[0]
    assert set(re.findall(r'X\(\w+, "(\w+)"\)', reasons)) == set(schemas["Decision"]["properties"]["reason"]["enum"])


def resolve(value):
    while "$ref" in value:
        found = SPEC
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        value = found
    return value


def described(path, verb, status):
    """(the operation, its response for the status)"""
    path = path.partition("?")[0]
    wanted = path if path in SPEC["paths"] else next(
        template for template in PARAMETERS.values() if path.startswith(template.partition("{")[0]))
    operation = SPEC["paths"][wanted][verb]
    for name in (str(status), f"{status // 100}XX", "default"):
        if name in operation["responses"]:
            return (wanted, verb), resolve(operation["responses"][name])
    raise AssertionError(f"add the status {status} to {verb} {wanted} in docs/openapi.yaml")


def validate(schema, value, what):
    try:
        jsonschema.Draft202012Validator({**schema, "components": SPEC["components"]}).validate(value)
    except jsonschema.ValidationError as error:
        raise AssertionError(f"{what}: {error.json_path}: {error.message}, found {value}") from None


def check(path, verb, answer):
    """Asserts that the answer is as described, and returns the operation."""
    what = f"{verb} {path}: {answer.status}"
    operation, response = described(path, verb, answer.status)
    content = response.get("content", {})
    found = answer.headers.get("Content-Type", "").partition(";")[0]
    assert found in content or (not answer.text and not content), f"{what}: {found} is not described"
    if found == "application/json":
        validate(content[found]["schema"], answer.json, what)
        known = SPEC["components"]["schemas"]["Decision"]["properties"].keys() | {"page"}
        for item in answer.json if isinstance(answer.json, list) else [answer.json]:
            assert "allowed" not in item or "reset_after" in item or item.keys() <= known, f"{what}: {item}"
    framing = {"content-type", "content-length", "connection", "date", "transfer-encoding"}
    for name in {name.lower() for name in answer.headers} - framing:
        told = {header.lower() for header in response.get("headers", {})}
        assert name in told, f"{what}: describe the header {name}"
        header = next(value for key, value in response["headers"].items() if key.lower() == name)
        schema = resolve(header)["schema"]
        value = answer.headers[name]
        validate(schema, int(value) if schema.get("type") == "integer" else value, what)
    return operation


def as_query(**values):
    return urllib.parse.urlencode(values)


LOGIN = {"limit": "login", "key": "k"}
BY_RULES = {"attributes": {"path": "/login", "ip": "192.0.2.1"}}
BANNED = {"attributes": {"path": "/banned"}}
BROWSES = as_query(argsJson=json.dumps([{"Id": "0", "Arg": "path%3D%2Flogin%26ip%3D192.0.2.8"}, {"Arg": 3}]))
# (path, body or None, statuses that must come in this order)
ANSWERS = [
    ("/v1/acquire", BY_RULES, [200, 200, 200, 429]), ("/v1/acquire", BANNED, [429]),
    ("/v1/acquire", {"attributes": {"path": "/free"}}, [200]),
    ("/v1/acquire", {**LOGIN, "permit": True}, [200]), ("/v1/acquire", {**LOGIN, "cost": 4}, [400]),
    ("/v1/acquire", {"limit": "relief", "key": "k"}, [503]), ("/v1/acquire", {"limit": "nowhere", "key": "k"}, [404]),
    ("/v1/acquire", {"limit": "away", "key": "k"}, [503]), ("/v1/acquire", {"limit": "login", "key": "k" * 2000}, [400]),
    ("/v1/acquire", "{", [400]), ("/v1/acquire", "x" * 70_000, [413]),
    ("/v1/acquire", {"limit": "turns", "key": "k"}, [200, 429]),
    ("/v1/acquire", {"limit": "slots", "key": "k"}, [200, 429]),
    ("/v1/acquire/login?key=a&cost=2", None, [200, 429]), ("/v1/acquire/nowhere?key=a", None, [404]),
    ("/v1/acquire/login?cost=x", None, [400]), ("/v1/acquire/relief?key=a", None, [503]),
    ("/v1/peek", BY_RULES, [200]), ("/v1/peek", {"limit": "turns", "key": "k"}, [200]), ("/v1/peek", "[]", [400]),
    ("/v1/peek/login?key=a", None, [200]), ("/v1/peek/relief?key=a", None, [200]), ("/v1/peek/x?key=a", None, [404]),
    ("/v1/refund", {**LOGIN, "cost": 1}, [200, 200]), ("/v1/reset", LOGIN, [200]), ("/v1/reset", {}, [400]),
    ("/v1/report", {"permit": "x", "outcome": "success"}, [400]),
    ("/v1/batch", [LOGIN, BANNED, {"op": "peek", **LOGIN}, {"op": "x", **LOGIN}, {"limit": "nowhere", "key": ""}], [200]),
    ("/v1/batch", {}, [400]),
    ("/auth", None, [200]), ("/auth?deny=403&", None, [200]), ("/auth?deny=7", None, [400]), ("/auth/free", None, [200]),
    ("/auth/banned", None, [429]), ("/healthz", None, [200]), ("/readyz", None, [200]), ("/metrics", None, [200]),
    ("/v1/limits", None, [200]), ("/v1/top", None, [200]), ("/v1/top?n=0", None, [400]), ("/v1/denials", None, [200]),
    ("/v1/denials?since=1h&n=2&limit=login&rule=login-by-ip&key=192.0.2.1", None, [200]),
    ("/v1/denials?id=9fa7418724dded0b", None, [200]), ("/v1/denials?n=0", None, [400]), ("/v1/key", {"key": "192.0.2.1"}, [200]), ("/v1/key", {}, [400]),
    ("/v1/shed", {"limit": "relief", "deny": 0.5, "until": "2096-05-01T12:00:00Z"}, [200]),
    ("/v1/shed", {"limit": "relief", "deny": 2}, [400]), ("/v1/shed", {"limit": "nowhere", "deny": 1}, [404]),
    ("/v1/breaker", {"limit": "payments", "key": "eu", "state": "open"}, [200]),
    ("/v1/breaker", {"limit": "payments", "key": "eu", "state": "x"}, [400]),
    ("/v1/acquire", {"limit": "payments", "key": "eu"}, [503]),
    ("/", None, [200]), ("/", None, [200]), ("/v1/status", None, [200]), ("/v1/stats?since=1h", None, [200]), ("/v1/stats?n=1", None, [400]), ("/v1/limits", None, [200]), ("/v1/reload", "", [200]),
    ("/throttle", {"key": "k", "max_burst": 1, "count_per_period": 1, "period": 60}, [200, 200, 200]),
    ("/throttle", {"key": "k"}, [422]), ("/throttle", "{", [400]),
    ("/throttle", {"key": "k", "max_burst": 1, "count_per_period": 1, "period": 0}, [500]), ("/health", None, [200]),
    ("/rule/browse?path=/login&ip=192.0.2.9", None, [200]), ("/rule/browse?path=/banned", None, [200]),
    ("/rule/browse_complete?path=/banned", None, [200]), ("/rule/update?path=/login&ip=192.0.2.9", None, [200]),
    ("/rule/feedback?path=/login&ip=192.0.2.9", None, [200]), ("/rule/feedback?_feedbackType=x", None, [400]),
    ("/rule/value?rule_no=login-by-ip&path=/login&ip=192.0.2.9", None, [200]), ("/rule/value?rule_no=x", None, [400]),
    (f"/multi/browse?{BROWSES}", None, [200]), ("/multi/browse?argsJson=1", None, [400]),
    ("/dump/policy", None, [200]), ("/dump/counter", None, [200]), ("/dump/policy?rule_no=x", None, [400]),
]


def ask(server, path, body, headers=None):
    if body is None:
        return server.get(path, headers)
    text = body if isinstance(body, str) else json.dumps(body)
    return server.get(path, {"Content-Type": "application/json", **(headers or {})}, "POST", text)


def check_events(server):
    """The stream of events, up to the end of its header."""
    with Wire(server.http) as wire:
        wire.send(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        status, *fields = iter(lambda: wire.file.readline().decode().strip(), "")
    headers = dict(field.split(": ", 1) for field in fields)
    operation, response = described("/v1/events", "get", int(status.split()[1]))
    assert headers["Content-Type"].partition(";")[0] in response["content"]
    return operation


def test_each_answer_of_a_server_is_as_described(serve):
    server = serve(config=CONFIG)
    answered = {check_events(server)}
    for path, body, statuses in ANSWERS:
        for status in statuses:
            answer = ask(server, path, body)
            assert answer.status == status, (path, body, answer.text)
            operation = check(path, "get" if body is None else "post", answer)
            answered |= {operation} if status < 300 else set()
    for path in [path for path, _, _ in ROUTES if path.startswith(("/rule/", "/multi/", "/dump/", "/monitor/"))]:
        parameters = BROWSES if path == "/multi/browse" else as_query(
            path="/login", ip="192.0.2.9", **({"rule_no": "login-by-ip"} if path in ("/rule/value", "/dump/policy") else {}))
        answer = server.get(path, {"Content-Type": "application/x-www-form-urlencoded"}, "POST", parameters)
        answered.add(check(path, "post", answer))
    # The points of a second follow its end.
    until(lambda: server.get("/v1/stats").json["limits"], "a point of the history")
    check("/v1/stats", "get", server.get("/v1/stats"))
    until(lambda: server.get("/monitor/alive").status == 500, "the store to be known as away")
    check("/monitor/alive", "get", server.get("/monitor/alive"))
    granted = ask(server, "/v1/acquire", {"limit": "payments", "key": "us"}).json["permit"]
    answer = ask(server, "/v1/report", {"permit": granted, "outcome": "success", "latency_ms": 5})
    answered.add(check("/v1/report", "post", answer))
    again = ask(server, "/v1/report", {"permit": granted, "outcome": "success"})
    assert check("/v1/report", "post", again) and again.status == 404
    unasked = operations().keys() - answered - {("/monitor/alive", "get"), ("/monitor/alive", "post")}
    assert not unasked, f"add requests that succeed for these to ANSWERS in this file: {unasked}"


def test_a_wrong_method_is_answered_as_described(server):
    for path, verb in operations():
        if "{" not in path and not path.startswith(("/auth", "/rule", "/multi", "/dump", "/monitor")):
            answer = server.get(path, method="DELETE")
            assert answer.status == 405
            check(path, verb, answer)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Host": "evil.example"}])
def test_refusals_are_answered_as_described(serve, headers):
    server = serve(config=CONFIG + f"users: [{{ name: shop, token: {'ab' * 32}, may: [ask] }}]\n")
    for path, verb in operations():
        path = path.replace("{limit}", "login").replace("{path}", "login")
        with Http(server.http) as client:
            answer = client.request(verb.upper(), path, "{}" if verb == "post" else None, headers)
        assert answer.status in (200, 400, 401, 403, 422, 500, 503), (path, answer.status)
        check(path, verb, answer)
