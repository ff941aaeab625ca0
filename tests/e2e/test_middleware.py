"""The middleware in examples/middleware, in real applications, with a real server."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from harness import PATIENCE, ROOT, Http, metric, programs_of_others, until
from test_tls import certificates  # pylint: disable=unused-import

pytestmark = programs_of_others

EXAMPLES = ROOT / "examples/middleware"
APPS = ROOT / "tests/clients/middleware"
NODE = ROOT / "build/clients/node/express.js"
GIN = ROOT / "build/clients/gin"

LIMITS = """
limits:
  login: { algorithm: fixed_window, rate: 3/h, align: first_request }
  relief: { algorithm: random, deny: 1, retry: 7s }
rules:
  - { match: { path: "/log in/ü" }, key: [ip], limits: [login] }
  - { match: { path: /shed, method: GET }, limits: [relief] }
"""


class App:
    """An application that prints its port on stdout."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(EXAMPLES), **(env or {})})
        line = self.process.stdout.readline()
        assert line.strip().isdigit(), (line, self.process.poll())
        self.port = int(line)

    def logs(self, text):
        """Waits for a line with `text` in the application's log."""
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        assert any(text in line for line in self.process.stderr)
        timer.cancel()

    def stop(self):
        """Stops the application; returns its log."""
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)[1]


class Php(App):
    """PHP's own server does not accept port 0, so it gets a port that was free a moment ago."""

    def __init__(self, url, failing, seconds, env):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["php", "-S", f"127.0.0.1:{self.port}", APPS / "index.php"], text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "WEIR": str(EXAMPLES / "weir.php"), "URL": url, "FAILING": failing,
                 "SECONDS": seconds, **env})
        until(self.listens, "PHP listens")

    def listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="module")
def go_app(tmp_path_factory):
    top = tmp_path_factory.mktemp("go")
    (top / "go.mod").write_text("module weir\n\ngo 1.18\n")
    (top / "examples/middleware").mkdir(parents=True)
    shutil.copy(EXAMPLES / "weir.go", top / "examples/middleware")
    shutil.copy(APPS / "main.go", top)
    subprocess.run(["go", "vet", "./..."], cwd=top, check=True, timeout=PATIENCE * 5)
    subprocess.run(["go", "build", "-buildvcs=false", "-o", "app", "."], cwd=top, check=True, timeout=PATIENCE * 5)
    return top / "app"


@pytest.fixture(params=["asgi", "wsgi", "express", "go", "gin", "php"])
def start(request):
    """A function that starts an application in the language of the parameter."""
    started = []

    def make(url, failing="open", seconds=str(PATIENCE), **env):
        how = [url, failing, seconds]
        if request.param == "php":
            started.append(Php(*how, env))
        elif request.param == "express":
            started.append(App(["node", NODE, EXAMPLES / "weir.mjs", *how], env))
        elif request.param == "go":
            started.append(App([request.getfixturevalue("go_app"), *how], env))
        elif request.param == "gin":
            started.append(App([GIN, *how], env))
        else:
            started.append(App([sys.executable, APPS / "app.py", request.param, *how], env))
        return started[-1]

    yield make
    for app in started:
        if app.process.poll() is None:
            app.stop()


def get(app, path="/log%20in/%C3%BC?next=1", method="GET"):
    with Http(app.port) as client:
        return client.request(method, path)


def test_denied_requests_get_429_and_all_answers_have_headers_of_the_limit(start, serve):
    server = serve(config=LIMITS)
    app = start(f"http://127.0.0.1:{server.http}/")
    answers = [get(app) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert [answer.text for answer in answers[:3]] == ["welcome\n"] * 3
    assert "welcome" not in answers[3].text
    assert answers[0].headers["RateLimit"].startswith('"login";r=2;')
    assert "RateLimit-Policy" in answers[0].headers and "Retry-After" not in answers[0].headers
    assert 3500 < int(answers[3].headers["Retry-After"]) <= 3600
    assert answers[3].headers["RateLimit"].startswith('"login";r=0;')
    # A path without a limit is answered unchanged.
    assert get(app, "/").status == 200
    shed = get(app, "/shed")
    assert (shed.status, shed.headers["Retry-After"]) == (503, "7")


def test_over_a_unix_socket(start, serve, tmp_path):
    path = tmp_path / "http.sock"
    flags = ("--http", f"unix:{path}", "--resp", "127.0.0.1:0")
    report = "  place: { algorithm: concurrency, max: 1, lease: 1h }\nrules:\n  - { match: { path: /slow }, limits: [place] }\n"
    config = "auth: no\n" + LIMITS.replace("rules:\n", report)
    server = serve(*flags, config=config, ports=False)
    app = start(f"unix:{path}")
    answers = [get(app) for _ in range(4)]
    assert [answer.status for answer in answers] == [200] * 3 + [429]
    assert 3500 < int(answers[3].headers["Retry-After"]) <= 3600
    # Each is reported, so the only place is free again.
    for _ in range(3):
        until(lambda: get(app, "/slow").status == 200, "a place")
    server.stop()
    assert [get(app).status for _ in range(3)] == [200] * 3
    serve(*flags, config=config, ports=False)
    assert [get(app).status for _ in range(4)] == [200] * 3 + [429]


def test_over_a_unix_socket_a_server_that_hangs_delays_a_request_until_the_timeout_only(start, tmp_path):
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / "hangs.sock"))
        hanging.listen()
        app = start(f"unix:{tmp_path}/hangs.sock", "closed", "0.1")
        assert [get(app).status for _ in range(2)] == [503] * 2


def test_a_server_that_recovers_is_used_again(start, serve):
    server = serve("--http", "127.0.0.1:0", config=LIMITS)
    app = start(f"http://127.0.0.1:{server.http}")
    assert get(app).status == 200
    server.stop()
    assert [get(app).status for _ in range(5)] == [200] * 5
    serve("--http", f"127.0.0.1:{server.http}", "--resp", "127.0.0.1:0", config=LIMITS, ports=False)
    assert [get(app).status for _ in range(4)] == [200] * 3 + [429]


@pytest.mark.parametrize(("failing", "status"), [("open", 200), ("closed", 503)])
def test_without_a_server_requests_pass_or_fail_as_configured(start, failing, status):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but not listening
        app = start(f"http://127.0.0.1:{nobody.getsockname()[1]}", failing)
        assert [get(app).status for _ in range(2)] == [status] * 2


@pytest.mark.parametrize(("failing", "status"), [("open", 200), ("closed", 503)])
def test_a_server_that_hangs_delays_a_request_until_the_timeout_only(start, failing, status):
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        app = start(f"http://127.0.0.1:{hanging.getsockname()[1]}", failing, "0.1")
        assert [get(app).status for _ in range(2)] == [status] * 2


@pytest.mark.parametrize(("env", "statuses"), [
    ({"TOKEN": "weir_app"}, [200] * 3 + [429]), ({"TOKEN": "weir_x"}, [503] * 4), ({}, [503] * 4),
    ({"WEIR_TOKEN": "weir_app"}, [200] * 3 + [429]), ({"WEIR_TOKEN": "weir_x"}, [503] * 4),
    ({"TOKEN": "weir_app", "WEIR_TOKEN": "weir_x"}, [200] * 3 + [429])],
    ids=["option", "wrong", "none", "variable", "wrong-variable", "both"])
def test_an_application_is_a_user_over_tls(start, serve, certificates, env, statuses):
    """The token comes from an option, for which the test uses the variable TOKEN, or from WEIR_TOKEN."""
    hashed = hashlib.sha256(b"weir_app").hexdigest()
    server = serve(config=f"tls: {{ cert: {certificates}/server.pem, key: {certificates}/server.key }}\n{LIMITS}users:\n"
                          f"  - {{ name: app, token: {hashed}, may: [ask] }}\n")
    app = start(f"https://127.0.0.1:{server.http}", "closed", **env, SSL_CERT_FILE=f"{certificates}/right.pem",
                NODE_EXTRA_CA_CERTS=f"{certificates}/right.pem")
    assert [get(app).status for _ in statuses] == statuses


def test_an_error_of_the_server_is_not_taken_as_a_denial(start, serve):
    server = serve(config=LIMITS)
    app = start(f"http://127.0.0.1:{server.http}/nowhere")
    assert get(app).status == 200
    assert "no decision" in app.stop()


class Recorder(http.server.BaseHTTPRequestHandler):
    """A server that plays Weir: it numbers its permits and records reports; `fault` makes reports fail."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/report":
            server.reports.put(body)
            if server.fault == "hangs":
                server.ended.wait()
            if server.fault in ("hangs", "breaks off"):
                self.close_connection = True
            else:
                self.answer(server.fault or 200, {"ok": True})
        elif body["attributes"]["path"] == "/denied":
            self.answer(429, {"allowed": False})
        elif body["attributes"]["path"] == "/free":
            self.answer(200, {"allowed": True})
        else:
            server.given += 1
            self.answer(200, {"allowed": True, "permit": f"permit-{server.given}"})


@pytest.fixture
def recorder():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        server.given, server.reports, server.fault, server.ended = 0, queue.Queue(), None, threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.ended.set()
        server.shutdown()
        thread.join()


def reported(recorder, outcome, permit=None):
    report = recorder.reports.get(timeout=PATIENCE)
    assert report.keys() == {"permit", "outcome", "latency_ms"}
    assert (report["permit"], report["outcome"]) == (permit or f"permit-{recorder.given}", outcome)
    assert isinstance(report["latency_ms"], int) and report["latency_ms"] >= 1
    return report


@pytest.mark.parametrize(("path", "outcome"), [
    ("/", "success"), ("/status/201", "success"), ("/status/302", "success"), ("/status/400", "ignored"),
    ("/status/404", "ignored"), ("/status/429", "ignored"), ("/status/500", "failure"),
    ("/status/503", "failure"), ("/status/504", "timeout"), ("/raise", "failure")])
def test_an_allowed_request_is_reported_once_with_its_outcome(start, recorder, path, outcome):
    app = start(recorder.url)
    with contextlib.suppress(*[http.client.RemoteDisconnected] * (path == "/raise")):  # Go's server closes the connection
        answer = get(app, path)
        if path != "/raise":
            assert answer.status == int(path[8:] or 200)
        if path == "/":
            assert answer.text == "welcome\n"
    reported(recorder, outcome, "permit-1")
    assert get(app, "/").status == 200
    reported(recorder, "success", "permit-2")
    assert recorder.reports.empty()


def test_a_report_contains_the_latency_of_the_request(start, recorder):
    assert get(start(recorder.url), "/slow").text == "welcome\n"
    assert 50 <= reported(recorder, "success")["latency_ms"] < PATIENCE * 1000


def test_an_answer_that_is_cut_off_is_reported_as_a_failure(start, recorder):
    app = start(recorder.url)
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        get(app, "/broken")
    reported(recorder, "failure")


@pytest.mark.parametrize("start", ["asgi", "wsgi", "php"], indirect=True)
def test_a_timeout_of_the_application_is_reported_as_a_timeout(start, recorder):
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        get(start(recorder.url), "/late")
    reported(recorder, "timeout")


def test_a_request_of_a_disconnected_client_is_reported_as_ignored(start, recorder):
    app = start(recorder.url)
    with socket.create_connection(("127.0.0.1", app.port), timeout=PATIENCE) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        seen = b""
        while b"welcome" not in seen:
            seen += client.recv(4096)
    reported(recorder, "ignored")


def test_a_request_without_a_permit_is_not_reported(start, recorder):
    app = start(recorder.url)
    assert get(app, "/denied").status == 429
    assert get(app, "/free").status == 200
    assert get(app, "/").status == 200
    reported(recorder, "success", "permit-1")
    assert recorder.reports.empty()


@pytest.mark.parametrize("fault", [404, 500, "breaks off", "hangs"])
def test_a_report_that_fails_changes_nothing_for_the_client(start, recorder, fault):
    app = start(recorder.url, seconds="3" if fault == "hangs" else str(PATIENCE))
    recorder.fault = fault
    for n in range(1 if fault == "hangs" else 3):
        answer = get(app, "/")
        assert (answer.status, answer.text) == (200, "welcome\n")
        while recorder.reports.get(timeout=PATIENCE)["permit"] != f"permit-{n + 1}":
            pass  # Python repeats a report if its kept connection broke
        app.logs("no report")


AT_WORK = """
auth: no
limits:
  place: { algorithm: concurrency, max: 1, lease: 1h }
  site: { algorithm: breaker, window: 1h, minimum: 5, sleep: 1h, permit_timeout: 1h }
rules:
  - { match: { path: "!/elsewhere" }, limits: [place, site] }
"""


def count(server, event):
    return metric(server, f'weir_permits_total{{event="{event}"}}')


def test_reported_permits_do_not_run_out_and_failures_open_the_breaker(start, serve):
    server = serve(config=AT_WORK)
    app = start(f"http://127.0.0.1:{server.http}")
    for n, path in enumerate(["/"] * 10 + ["/status/404"] * 5 + ["/status/500"] * 10):
        assert get(app, path).status == int(path[8:] or 200)
        until(lambda n=n: count(server, "reported") == n + 1, "the report")
    assert get(app, "/").status == 503
    assert get(app, "/elsewhere").status == 200
    assert [count(server, event) for event in ("handed_out", "reported", "not_held")] == [25, 25, 0]


def test_a_user_with_a_token_can_report(start, serve):
    hashed = hashlib.sha256(b"weir_app").hexdigest()
    server = serve(config=f"{AT_WORK}users: [{{ name: app, token: {hashed}, may: [ask] }}]\n")
    app = start(f"http://127.0.0.1:{server.http}", "closed", TOKEN="weir_app")
    for n in range(3):
        assert get(app, "/").status == 200
        until(lambda n=n: server.get("/metrics", {"Authorization": "Bearer weir_app"}).text.count(
            f'weir_permits_total{{event="reported"}} {n + 1}\n'), "the report")
