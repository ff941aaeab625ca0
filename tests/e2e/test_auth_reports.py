"""Limits whose requests are reported, at /auth: the setting `auth`, warnings, and reports by proxies."""

import re
import threading

import pytest
from harness import ROOT, Http, metric, until, weir
from test_http2 import Http2

REPORTED = {
    "concurrency": "max: 2",
    "breaker": "max_concurrent: 2",
    "throttle": "minimum: 100000",
    "adaptive": "initial: 2, min: 2, max: 2",
}
RULE = "rules:\n  - { name: site, match: { path: \"/site*\" }, key: [host], limits: [free, backend] }\n"


def config(algorithm="concurrency", auth=None, more="", rule=RULE):
    setting = f"auth: {auth}\n" if auth else ""
    return (f"{setting}limits:\n  free: {{ algorithm: fixed_window, rate: 1000/d }}\n"
            f"  backend: {{ algorithm: {algorithm}, {REPORTED[algorithm]}{more} }}\n{rule}")


def ask(server, path="/site", **headers):
    return server.get("/auth", {"X-Forwarded-Uri": path, "Host": "127.0.0.1", **headers})


def report(server, permit, outcome="success"):
    return server.post("/v1/report", {"permit": permit, "outcome": outcome}).status


WARNED = {
    'match: { path: "/x*" }, key: [path]': True,
    "key: [ip]": True,
    "key: [service]": True,
    "match: { method: GET, host: a, ip: 10.0.0.1 }": True,
    "match: { header.x: y, cookie.z: \"*\", query.q: \"!b\" }, key: [path]": True,
    "match: { path: /x, service: \"!*\" }": True,
    "match: { path: /x }, mode: shadow": True,
    "match: { path: /x, service: \"*\" }": False,
    "match: { path: /x, service: \"!a\" }": False,
    "match: { service: { not: [a, b] } }": False,
    "match: { purpose: search }, key: [path]": False,
}


@pytest.mark.parametrize("algorithm", [*REPORTED, "fixed_window"])
@pytest.mark.parametrize("rule, warned", WARNED.items())
def test_lint_warns_of_a_rule_whose_requests_a_proxy_can_not_report(tmp_path, algorithm, rule, warned):
    file = tmp_path / "weir.yaml"
    warned = warned and algorithm != "fixed_window"
    parameters = REPORTED.get(algorithm, "rate: 5/d")
    for auth in ("", "auth: yes\n", "auth: no\n", "auth: reports\n"):
        file.write_text(f"limits: {{ backend: {{ algorithm: {algorithm}, {parameters} }} }}\n"
                        f"rules:\n  - {{ name: site, {rule}, limits: [backend] }}\n{auth}")
        is_warned = warned and auth in ("", "auth: yes\n")
        done = weir("lint", "--strict", file)
        advised = [line for line in done.stderr.splitlines() if "waits for a report" in line]
        assert (done.returncode, len(advised)) == (1 if is_warned else 0, 1 if is_warned else 0), done.stderr
        if is_warned:
            assert re.fullmatch(rf"{file}:3:13: warning: expected `auth: no`, `auth: reports`, or an attribute "
                                r"in `match` that no proxy sends, found none: limit \"backend\" .* rule \"site\" .*",
                                advised[0])
            fate = {"concurrency": "its places come back only when the lease ends",
                    "adaptive": "it stays in flight until permit_timeout ends", "throttle": "it counts as rejected"}
            assert fate.get(algorithm, "it counts as a failure when permit_timeout ends") in advised[0]
            assert advised[0].endswith("Behind nginx, HAProxy or Envoy write `auth: reports` and let the proxy report; "
                                       "otherwise let the application ask at /v1/acquire and report")
        printed = weir("lint", "--to", "yaml", file).stdout
        assert ("auth:" in printed) == (auth in ("auth: no\n", "auth: reports\n"))
        assert auth in printed or auth == "auth: yes\n"


@pytest.mark.parametrize("document", ["adaptive", "breaker", "throttle", "guide", "proxies", "rules"])
def test_the_rule_files_of_the_documents_cause_no_such_warning(tmp_path, document):
    file = tmp_path / "weir.yaml"
    for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / f"docs/{document}.md").read_text(), re.M | re.S):
        file.write_text(block)
        assert "waits for a report" not in weir("lint", file).stderr, block


def test_lint_lists_the_values_of_auth(tmp_path):
    file = tmp_path / "weir.yaml"
    file.write_text("auth: report\n")
    done = weir("lint", file)
    assert done.returncode == 1
    assert 'expected auth to be one of yes, no, reports, found "report": did you mean "reports"?' in done.stderr


def test_the_start_and_a_reload_warn_as_lint_does(serve):
    server = serve(config=config(auth="yes"))

    def warnings():
        return [line.partition(" config_warning ")[2].partition(" expected ")[0] for line in server.log
                if 'limit "backend" waits for a report' in line]

    place = f"file={server.config} line=6 column=13"
    assert warnings() == [place]  # before it listens
    server.reload(config(auth="reports"))
    server.line_with(" reloaded ")
    server.reload(config(auth="yes", more=", queue: 1"))
    server.line_with("waits for a report")
    assert warnings() == [place] * 2


@pytest.mark.parametrize("algorithm", REPORTED)
def test_a_request_that_no_proxy_can_report_is_counted_and_logged_once(serve, algorithm):
    server = serve("--threads", "1", config=config(algorithm))
    answers = [ask(server) for _ in range(2)]
    assert {answer.status for answer in answers} == {200}
    assert not any("X-Weir-Permit" in answer.headers for answer in answers)
    # Callers of /v1/acquire can report, so they cause no warning.
    assert server.post("/v1/acquire", {"limit": "backend", "key": "other"}).json["permit"]
    assert server.post("/v1/acquire", {"attributes": {"path": "/site", "host": "own"}}).json["permit"]
    assert metric(server, 'weir_permits_withheld_total{limit="backend"}') == 2
    assert 'weir_permits_withheld_total{limit="free"}' not in server.get("/metrics").text
    line = server.line_with("permit_withheld")
    assert " warning permit_withheld limit=backend rule=site expected a report of each request" in line
    server.reload(config(algorithm, more=", keys: 1000"))
    server.line_with(" reloaded ")
    assert ask(server, Host="another").status == 200
    assert metric(server, 'weir_permits_withheld_total{limit="backend"}') == 3
    server.stop()
    rest = list(iter(server.lines.get, None))
    assert not any("permit_withheld" in line for line in rest)


@pytest.mark.parametrize("protocol", ["http1", "http2"])
@pytest.mark.parametrize("store", ["memory", "file", "redis"])
@pytest.mark.parametrize("algorithm", REPORTED)
def test_a_proxy_reports_by_the_permit_of_the_answer(serve, start_redis, tmp_path, algorithm, store, protocol):
    url = {"memory": lambda: "memory", "file": lambda: f"file:{tmp_path}/counts",
           "redis": lambda: f"redis://127.0.0.1:{start_redis().port}"}[store]()
    server = serve("--store", url, "--capacity", "1000", config=f"store_timeout: 30s\nnodes: 1\n{config(algorithm, 'reports')}")

    def permit_of(path):
        if protocol == "http1":
            answer = ask(server, path, **{"X-Weir-Permit": "a-visitor-s"})
            return answer.status, answer.headers["X-Weir-Permit"], answer.text
        with Http2(server) as client:
            status, fields, body = client.get("/auth", headers=[("x-forwarded-uri", path),
                                                                ("x-weir-permit", "a-visitor-s")])
            return status, fields.get(b"x-weir-permit", b"").decode() or None, body.decode()

    held = []
    for _ in range(2):
        status, permit, body = permit_of("/site")
        assert (status, body) == (200, "")
        assert re.fullmatch(r"[\w-]{40,}", permit)
        held.append(permit)
    if algorithm != "throttle":  # `throttle` bounds no requests in flight
        status, permit, body = permit_of("/site")
        assert (status, permit) == (429, None) and "permit" not in body
    assert [report(server, permit) for permit in (held[0], held[0], held[1])] == [200, 404, 200]
    assert permit_of("/site")[0] == 200
    # Requests of other limits and requests without a rule get no permit.
    assert permit_of("/elsewhere")[:2] == (200, None)
    assert "weir_permits_withheld_total{" not in server.get("/metrics").text
    assert metric(server, 'weir_permits_total{event="handed_out"}') == 3


@pytest.mark.parametrize("algorithm", ["concurrency", "breaker", "adaptive"])
def test_permits_run_out_unless_the_proxy_reports(serve, algorithm):
    server = serve(config=config(algorithm))
    assert [ask(server).status for _ in range(4)] == [200] * 2 + [429] * 2
    server = serve(config=config(algorithm, "reports"))
    for _ in range(40):
        answer = ask(server)
        assert answer.status == 200
        assert report(server, answer.headers["X-Weir-Permit"]) == 200


def test_the_reports_of_a_proxy_open_a_breaker(serve):
    server = serve(config="auth: reports\nlimits: { backend: { algorithm: breaker, minimum: 3, sleep: 1h, permit_timeout: 1h } }\n"
                          "rules: [{ key: [host], limits: [backend] }]\n")
    for outcome in ("success", "failure", "timeout"):
        assert report(server, ask(server).headers["X-Weir-Permit"], outcome) == 200
    denied = server.get("/auth?deny=403")
    assert (denied.status, denied.json["reason"]) == (403, "breaker_open")
    assert "X-Weir-Permit" not in denied.headers


def test_a_permit_with_long_keys_fits_into_the_answer(serve, start_redis):
    """At Redis a permit contains its keys, so that every server accepts the report."""
    limits = "".join(f"  l{i}: {{ algorithm: breaker, minimum: 2, quorum: 2 }}\n" for i in range(8))
    limits += "".join(f"  f{i}: {{ algorithm: concurrency, max: 9 }}\n" for i in range(8))
    names = ", ".join(f"{kind}{i}" for i in range(8) for kind in "lf")
    server = serve("--store", f"redis://127.0.0.1:{start_redis().port}",
                   config=f"auth: reports\nstore_timeout: 30s\nnodes: 1\nlimits:\n{limits}"
                          f"rules: [{{ key: [path], limits: [{names}] }}]\n")
    for length, least in ((500, 5000), (4000, 4000), (6000, 500)):
        answer = ask(server, "/" + length * "x")
        assert answer.status == 200
        permit = answer.headers["X-Weir-Permit"]
        assert least < len(permit) <= 6400
        assert report(server, permit) == 200


def test_a_request_that_waits_at_auth_gets_its_permit_with_the_answer(serve):
    server = serve(config=config(auth="reports", more=", queue: 5, max_wait: 1h, lease: 1h"))
    first = [ask(server).headers["X-Weir-Permit"] for _ in range(2)]
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(ask(server)))
    waiting.start()
    until(lambda: metric(server, "weir_answers_pending") == 1, "a request that waits")
    assert report(server, first[0]) == 200
    waiting.join()
    [answer] = answers
    assert answer.status == 200
    assert report(server, answer.headers["X-Weir-Permit"]) == 200
    # A request whose client disconnects consumes nothing, whether or not its proxy reports.
    for auth in ("reports", "yes"):
        server.reload(config(auth=auth, more=", queue: 5, max_wait: 1h, lease: 1h"))
        until(lambda: any(" reloaded " in line for line in (server.line(),)), "the reload")
        assert server.get("/v1/peek/backend?key=127.0.0.1").json["remaining"] == 1
        taken = server.post("/v1/acquire", {"limit": "backend", "key": "127.0.0.1"}).json["permit"]
        with Http(server.http) as client:
            client.connection.request("GET", "/auth", headers={"X-Forwarded-Uri": "/site", "Host": "127.0.0.1"})
            until(lambda: metric(server, "weir_answers_pending") == 1, "a request that waits")
        until(lambda: metric(server, "weir_answers_pending") == 0, "the end of its wait")
        assert report(server, taken) == 200
        assert server.get("/v1/peek/backend?key=127.0.0.1").json["remaining"] == 1


def test_auth_can_be_closed(serve):
    server = serve(config=config(auth="no"))
    refused = ask(server)
    assert (refused.status, refused.json["error"]["code"]) == (500, "forbidden")
    message = "expected `auth: yes` or `auth: reports` in the configuration, found `auth: no`"
    assert message in refused.json["error"]["message"]
    assert message in server.line_with("proxy_refused")
    with Http2(server) as client:
        assert client.get("/auth", headers=[("x-forwarded-uri", "/site")])[0] == 500
    assert metric(server, 'weir_errors_total{protocol="http",status="EPERM"}') == 2
    assert server.get("/v1/peek/free?key=127.0.0.1").json["remaining"] == 1000
    permit = server.post("/v1/acquire", {"attributes": {"path": "/site", "host": "a"}}).json["permit"]
    assert report(server, permit) == 200
    server.reload(config(auth="reports"))
    server.line_with(" reloaded ")
    assert report(server, ask(server).headers["X-Weir-Permit"]) == 200
