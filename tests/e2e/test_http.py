"""Requests over HTTP/1 and their answers: shapes, status codes, headers and errors."""

import re
import time

import pytest
from harness import ROOT, Http, Wire, until, weir
from test_http2 import Http2

HOUR_MS = 3_600_000


def test_acquire_by_json_answers_in_the_documented_shape(server, key):
    answer = server.post("/v1/acquire", {"limit": "login", "key": key, "cost": 1})
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json == {
        "allowed": True, "limit": "login", "quota": 10, "remaining": 9, "retry_after_ms": 0,
        "reset_after_ms": HOUR_MS // 10, "reason": "ok"}


def test_acquire_by_query_is_the_same(server, key):
    answer = server.get(f"/v1/acquire/login?key={key}&cost=4")
    assert (answer.status, answer.json["remaining"]) == (200, 6)
    assert server.get(f"/v1/acquire/login?key={key}").json["remaining"] == 5


def test_a_key_in_a_query_is_percent_decoded(server, key):
    server.get(f"/v1/acquire/login?key={key}%2F%C3%A4%20b")
    assert server.post("/v1/peek", {"limit": "login", "key": f"{key}/ä b"}).json["remaining"] == 9


def test_a_denial_is_429_with_retry_after_in_whole_seconds(server, key):
    server.get(f"/v1/acquire/one?key={key}")
    denied = server.get(f"/v1/acquire/one?key={key}")
    assert denied.status == 429
    assert denied.json["allowed"] is False
    assert denied.json["reason"] == "over_limit"
    assert 3590 <= int(denied.headers["Retry-After"]) <= 3600
    assert denied.json["retry_after_ms"] <= int(denied.headers["Retry-After"]) * 1000


def test_retry_after_is_at_least_1(serve, key):
    server = serve(config="limits: { ms: { algorithm: token_bucket, rate: 1/100ms } }")

    def denied():
        answer = server.get(f"/v1/acquire/ms?key={key}")
        return answer if answer.status == 429 else None

    assert until(denied, "a denial").headers["Retry-After"] == "1"


def test_identical_retry_after_synchronises_callers_unless_jittered(serve, key):
    limits = "limits: { daily: { algorithm: token_bucket, rate: 1/d } }\n"
    server = serve(config=limits)
    day_ms = 24 * HOUR_MS

    def retry_times():
        """For each protocol the times until retry of ten requests that are denied one after the other."""
        answers = [server.get(f"/v1/acquire/daily?key={key}") for _ in range(10)]
        batch = server.post("/v1/batch", 10 * [{"limit": "daily", "key": key}]).json
        with Wire(server.resp) as wire:
            plain = [wire.command("WEIR.ACQUIRE", "daily", key)[3] for _ in range(10)]
            cell = [wire.command("CL.THROTTLE", key, 0, 1, 86400)[3] * 1000 for _ in range(10)]
        return [[answer.json["retry_after_ms"] for answer in answers],
                [int(answer.headers["Retry-After"]) * 1000 for answer in answers],
                [item["retry_after_ms"] for item in batch], plain, cell]

    def peek():
        return server.get(f"/v1/peek/daily?key={key}").json["retry_after_ms"]

    begin = time.monotonic()
    assert server.get(f"/v1/acquire/daily?key={key}").status == 200
    with Wire(server.resp) as wire:
        assert wire.command("CL.THROTTLE", key, 0, 1, 86400)[0] == 0
    apart = (time.monotonic() - begin) * 1000 + 1  # the most milliseconds between the two
    begin = peek()
    for times in retry_times():
        assert sorted(times, reverse=True) == times
        assert all(peek() - apart <= ms < begin + apart + 1000 for ms in times)
    server.reload(limits + "retry_jitter: 0.5\n")
    server.line_with("reloaded")
    for times in retry_times():
        assert all(peek() - apart <= ms <= 1.5 * day_ms + 1000 for ms in times)
        assert max(times) - min(times) > day_ms / 100
    assert peek() <= begin


def test_rate_limit_headers_are_structured_fields(server, key):
    answer = server.get(f"/v1/acquire/window?key={key}")
    assert answer.headers["RateLimit-Policy"] == '"window";q=3;w=3600'
    found = re.fullmatch(r'"window";r=(\d+);t=(\d+)', answer.headers["RateLimit"])
    assert found[1] == "2"
    assert 3590 <= int(found[2]) <= 3600


def test_peek_refund_and_reset_are_always_200(server, key):
    server.get(f"/v1/acquire/one?key={key}")
    peek = server.get(f"/v1/peek/one?key={key}")
    assert (peek.status, peek.json["allowed"]) == (200, False)
    refund = server.post("/v1/refund", {"limit": "one", "key": key})
    assert (refund.status, refund.json["remaining"]) == (200, 1)
    server.get(f"/v1/acquire/one?key={key}")
    reset = server.post("/v1/reset", {"limit": "one", "key": key})
    assert (reset.status, reset.json["remaining"]) == (200, 1)


def test_attributes_go_through_the_rules(server, key):
    body = {"attributes": {"path": "/login", "ip": key}}
    answer = server.post("/v1/acquire", body)
    assert (answer.status, answer.json["limit"], answer.json["remaining"]) == (200, "login", 9)
    assert server.post("/v1/peek", body).json["remaining"] == 9
    assert server.post("/v1/acquire", {"attributes": {"path": "/other"}}).json["allowed"] is True


def test_health_and_readiness(server):
    assert server.get("/healthz").status == 200
    assert server.get("/readyz").status == 200


RESULTS = """
limits:
  pace: { algorithm: pacer, rate: 1/h, max_wait: 1s }
  places: { algorithm: concurrency, max: 1 }
  away: { algorithm: token_bucket, rate: 1/h, store: "redis://127.0.0.1:1" } # where no Redis is
rules:
  - { match: { path: /pace }, key: [ip], limits: [pace], result: { code: 7, why: { allowed: yes } } }
  - { match: { path: /places }, key: [ip], limits: [places] }
"""


def test_a_result_cannot_have_the_name_of_a_field_of_answers(serve, tmp_path):
    server = serve(config=RESULTS)
    batch = server.post("/v1/batch", [
        *[{"attributes": {"path": "/pace", "ip": "1.2.3.4"}, "wait_ms": 0}] * 20,
        {"attributes": {"path": "/places", "ip": "1.2.3.4"}}, {"limit": "nosuch", "key": "k"},
        {"limit": "away", "key": "k"}]).json
    denied = [answer for answer in batch if answer.get("allowed") is False]
    assert denied[0]["code"] == 7 and denied[0]["why"] == {"allowed": "yes"}
    names = {name for answer in batch for name in answer} - {"code", "why"}
    assert {"allowed", "permit", "wait_ms", "error", "rule", "degraded"} <= names
    page = (ROOT / "docs/rules.md").read_text()
    described = re.search(r"so these names, in any case, are errors:(.*?)\.", page, re.S)[1]
    assert names == set(re.findall(r"`(\w+)`", described))
    for name in sorted(names):
        for spelled in (name, name.upper()):
            file = tmp_path / "result.yaml"
            file.write_text(RESULTS.replace("code:", f"{spelled}:"))
            refused = weir("lint", file)
            assert refused.returncode == 1
            assert f"{file}:7:68: error: expected a name that" in refused.stderr
    server.reload(file.read_text())
    assert "reload_failed" in server.line_with("reload")


# /auth


def auth(server, **headers):
    return server.get("/auth", {name.replace("_", "-"): value for name, value in headers.items()})


def test_auth_reads_attributes_from_the_headers_of_the_proxy(server, key):
    for _ in range(10):
        assert auth(server, X_Forwarded_Uri="/login?user=x", X_Forwarded_For="203.0.113.1").status == 200
    denied = auth(server, X_Original_URI="/login", X_Forwarded_For="203.0.113.1")
    assert denied.status == 429
    assert auth(server, X_Original_URI="/login", X_Forwarded_For="203.0.113.2").status == 200
    assert auth(server, X_Original_URI="/other", X_Forwarded_For="203.0.113.1").status == 200


def test_deny_replaces_the_code_of_a_denial_only(server):
    headers = {"X-Original-URI": "/login", "X-Forwarded-For": "203.0.113.3"}
    assert [server.get("/auth?deny=403", headers).status for _ in range(11)] == [200] * 10 + [403]


def test_a_client_cannot_choose_its_key_by_a_longer_x_forwarded_for(server):
    # The proxy appends; only the rightmost hop that it does not trust counts.
    address = "198.51.100.1"
    answers = [
        auth(server, X_Original_URI="/login", X_Forwarded_For=forged.format(address)).status
        for forged in [f"{i}.2.3.4, {{}}" for i in range(11)]
        + ["garbage, {}, 127.0.0.1", ", ,{}", "{}, 127.0.0.1"]]
    assert answers == [200] * 10 + [429] * 4


def test_a_rule_for_a_path_applies_to_its_variants_if_configured(serve):
    server = serve(config="""
limits:
  exact: { algorithm: token_bucket, rate: 10/h, burst: 10 }
  all: { algorithm: token_bucket, rate: 10/h, burst: 10 }
rules:
  - { match: { path: /login }, limits: [exact] }
  - { match: { path: [/Login, /admin/*] }, path_variants: yes, limits: [all] }
trusted_proxies: [127.0.0.0/8]
""")

    def charged(path):
        """The limits that count a request for this path."""
        def left():
            return {name: server.get(f"/v1/peek/{name}?key=").json["remaining"]
                    for name in ("exact", "all")}
        before = left()
        assert auth(server, X_Original_URI=path).status == 200
        after = left()
        for name in before:
            server.post("/v1/reset", {"limit": name, "key": ""})
        return {name for name in before if after[name] < before[name]}

    for path in ("/login", "/login?x", "/%6cogin", "//login", "/./login", "/a/../login", "/%2flogin"):
        assert charged(path) == {"exact", "all"}, path
    for path in ("/login/", "/LOGIN", "/login;x", "/login%3bx", "/lo%47in/", "/a/..;x/login",
                 "/admin", "/ADMIN/", "/admin;x/y"):
        assert charged(path) == {"all"}, path
    for path in ("/", "/login.", "/login%20", "/login%00", "/a%5clogin", "/%256cogin", "/loginx",
                 "/administrator"):
        assert charged(path) == set(), path


@pytest.mark.parametrize("forwarded", [True, False])
def test_a_host_in_other_letters_or_with_a_port_has_the_same_count(serve, forwarded):
    server = serve(config="""
limits: { one: { algorithm: fixed_window, rate: 5/h } }
rules: [ { match: { host: example.com }, key: [host], limits: [one] } ]
trusted_proxies: [127.0.0.0/8]
hosts: [example.com]
""")
    hosts = ["example.com", "Example.COM", "EXAMPLE.com:80", "example.com.", "example.com.:8080", "exAmple.com"]
    headers = [{"X-Forwarded-Host" if forwarded else "Host": host} for host in hosts]
    assert [server.get("/auth", fields).status for fields in headers] == [200] * 5 + [429]
    assert [row["key"] for row in server.get("/v1/top").json] == ["example.com"]


def test_auth_answers_every_method(server):
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert server.get("/auth", {"X-Original-URI": "/"}, method).status == 200
    head = server.get("/auth", {"X-Original-URI": "/"}, "HEAD")
    assert (head.status, head.text) == (200, "")


# Errors


ERRORS = [
    ("GET", "/nosuch", None, 404),
    ("GET", "/v1/acquire/nosuch?key=k", None, 404),
    ("POST", "/v1/acquire", '{"limit":"nosuch","key":"k"}', 404),
    ("DELETE", "/v1/acquire", None, 405),
    ("POST", "/healthz", "", 405),
    ("GET", "/v1/acquire/login?key=k&cost=x", None, 400),
    ("GET", "/v1/acquire/login?key=k&cost=-1", None, 400),
    ("GET", "/v1/acquire/login?key=k&cost=99999999999999999999", None, 400),
    ("GET", "/v1/acquire/login?key=k&cost=11", None, 400),
    ("GET", "/v1/acquire/login?key=%zz", None, 400),
    ("GET", "/v1/acquire/login?key=" + "k" * 1025, None, 400),
    ("POST", "/v1/acquire", "", 400),
    ("POST", "/v1/acquire", "{", 400),
    ("POST", "/v1/acquire", "[]", 400),
    ("POST", "/v1/acquire", "[" * 20000, 400),
    ("POST", "/v1/acquire", '{"limit":"login"', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","cost":1.5}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","cost":-1}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","cost":"1"}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","cost":1e400}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","cost":99999999999999999999}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","cost":11}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","surprise":1}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","key":"l"}', 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"%s"}' % ("k" * 1025), 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"\ud800"}', 400),
    ("POST", "/v1/acquire",
     '{"attributes":{%s}}' % ",".join(f'"a{i}":"v"' for i in range(65)), 400),
    ("POST", "/v1/acquire", '{"limit":"login","key":"k","attributes":{}}', 400),
    ("GET", "/auth?deny=9999", None, 400),
]


@pytest.mark.parametrize("method,path,body,status", ERRORS,
                         ids=lambda value: str(value)[:40] if value else "-")
def test_bad_input_is_an_error_and_the_connection_stays_open(
        server, key, method, path, body, status):
    with Http(server.http) as client:
        encoded = body.encode("utf-8", "surrogatepass") if body is not None else None
        answer = client.request(method, path, encoded)
        assert answer.status == status, answer.text
        error = answer.json["error"]
        assert error["code"] and error["message"]
        # http.client would open a second connection if this one were closed.
        socket = client.connection.sock
        assert client.request("GET", f"/v1/acquire/one?key={key}").status == 200
        assert client.connection.sock is socket


def test_405_names_the_methods_that_are_allowed(server):
    assert "POST" in server.get("/v1/acquire", method="DELETE").headers["Allow"]


def test_a_body_over_64_kib_is_413(server):
    answer = server.get("/v1/acquire", method="POST",
                        body='{"limit":"login","key":"' + "k" * 70_000 + '"}')
    assert answer.status == 413
    assert answer.json["error"]["message"]


BROKEN = {
    "header over 16 KiB": (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 17_000 + b"\r\n\r\n", {400, 413, 431}),
    "endless header without an end": (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, {400, 413, 431}),
    "long request line": (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", {400, 413, 414, 431}),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
    "unknown version": (b"GET / HTTP/9.9\r\n\r\n", {400, 505}),
    "length and chunks": (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    "two lengths": (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"
        b"123456", {400}),
    "negative length": (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", {400}),
    "huge length": (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        {400, 413}),
    "bad chunk": (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
    "endless chunks": (
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\nx\r\n" * 70_000, {400, 413}),
    "folded header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", {400}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_http_is_an_error_that_affects_no_other_connection(server, key, name):
    data, statuses = BROKEN[name]
    with Wire(server.http) as wire, Http(server.http) as other:
        assert other.request("GET", f"/v1/acquire/one?key={key}").status == 200
        try:
            wire.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server answered and closed before it had read everything
        line = wire.file.readline().split()
        assert line and int(line[1]) in statuses, line
        assert other.request("GET", f"/v1/peek/one?key={key}").json["remaining"] == 0


@pytest.mark.parametrize("host, status", [
    ("localhost:", 200), ("localhost:0", 200), ("localhost:65535", 200), ("[::1]:80", 200), ("[::1]", 200),
    ("localhost:65536", 400), ("localhost:x", 400), ("localhost:-1", 400), ("[::1]:x", 400)])
def test_the_port_of_a_host_is_optional_and_must_be_a_number(server, host, status):
    assert server.get("/healthz", {"Host": host}).status == status
    with Http2(server) as client:
        assert client.get("/healthz", authority=host)[0] == status


def test_chunked_bodies_and_pipelines(server, key):
    body = b'{"limit":"login","key":"%s"}' % key.encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    request = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    with Wire(server.http) as wire:
        wire.send(request * 3 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = wire.rest()
    assert [int(n) for n in re.findall(rb'"remaining":(\d+)', answer)] == [9, 8, 7]
    assert answer.count(b"HTTP/1.1 200") == 4


def test_http_1_0_is_answered_and_closed(server):
    with Wire(server.http) as wire:
        wire.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in wire.rest()
