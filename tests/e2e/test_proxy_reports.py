"""Proxies that report the outcomes of requests, configured as docs/proxies.md shows."""

import contextlib
import hashlib
import http.client
import http.server
import json
import queue
import re
import threading

import pytest
import yaml
from harness import PATIENCE, metric, programs_of_others, until
from test_docs import blocks
from test_proxies import DOCUMENT, Proxy, reserved_port

pytestmark = [programs_of_others, pytest.mark.first]

REPORTERS = ["nginx", "haproxy", "envoy"]
[RULES] = [block for block in blocks(DOCUMENT, "yaml") if block.startswith("auth: reports")]
DENIED = {"Retry-After": "1", "Content-Length": "0"}


def added(language, holding):
    """A block of the document that is added to another block."""
    [block] = [block for block in blocks(DOCUMENT, language) if holding in block]
    return block


class Reporter(Proxy):
    """A proxy with the document's lines for reports, and with the timeout `wait` for its backend."""

    wait = f"{PATIENCE}s"

    def login(self):
        """The line that sends a user's token with a report."""
        if not self.token:
            return ""
        [line] = self.advised("Reporting how requests end")
        return line.replace("TOKEN", self.token) + "\n"

    def shown(self, language, holding="", **more):
        text = super().shown(language, holding, **more)
        # Longer than a busy machine delays Weir.
        text = re.sub(r"(timeout:? )(100ms|500ms|0\.1s|0\.5s)", rf"\g<1>{PATIENCE}s", text)
        return {"nginx": self.add_nginx, "haproxy": self.add_haproxy, "lua": self.add_lua,
                "yaml": self.add_envoy}[language](text)

    def add_nginx(self, text):
        maps, server = added("nginx", "post_action").split("server {\n")
        lines, location, report = re.fullmatch(r"(.*?)\n    location / {\n(.*?)    }\n\n(.*)}\n", server,
                                               re.S).groups()
        pages = f"{location}        proxy_pass http://{self.backend};\n        proxy_read_timeout {self.wait};\n"
        redirect = f"    location /old/ {{\n{location}        try_files /none /shop/200;\n    }}\n"
        text = text.replace("    location / {\n", f"{redirect}    location / {{\n{pages}")
        report = re.sub("(timeout) [15]00ms", rf"\g<1> {PATIENCE}s", report)
        report = report.replace('Connection "";', f'Connection "";\n{self.login()}')
        return maps + text.replace("    location = /_weir {", f"{lines}\n{report}    location = /_weir {{")

    def add_haproxy(self, text):
        [name, *lines] = added("haproxy", "weir-report").splitlines(keepends=True)
        assert name == "frontend site\n"
        text = text.replace("timeout server 30s", f"timeout server {self.wait}")
        return text.replace("    default_backend", "".join(lines) + "    default_backend")

    def add_lua(self, text):
        report = added("lua", "weir-report").replace("127.0.0.1:8081", self.addresses["127.0.0.1:8081"])
        return text + report.replace("post{", f"post{{ {self.login()}")


    def add_envoy(self, text):
        whole = yaml.safe_load(text)
        [listener] = whole["static_resources"]["listeners"]
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["timeout"] = self.wait
        authz, router = manager["http_filters"]
        more, lua = yaml.safe_load(added("yaml", "http.lua"))["http_filters"]
        assert more["name"] == authz["name"]
        authz["typed_config"]["http_service"].update(more["typed_config"]["http_service"])
        source = lua["typed_config"]["default_source_code"]
        source["inline_string"] = source["inline_string"].replace(
            '"localhost",\n', f'"localhost",\n{self.login()}').replace("500, true", f"{PATIENCE}000, true")
        manager["http_filters"] = [authz, lua, router]
        return yaml.safe_dump(whole)


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


class Site(Quiet):
    """/shop/STATUS has that status; /shop/hang waits until `ended` is set; /shop/cut cuts its answer off."""

    def do_GET(self):
        what = self.path.partition("?")[0].rpartition("/")[2]
        assert self.headers["X-Weir-Permit"] in (None, "a-visitor-s")
        if what == "cut":
            self.close_connection = True
        elif what == "hang":
            self.server.arrived.put(what)
            self.server.ended.wait()
            self.close_connection = True
        else:
            self.answer(200 if what == "free" else int(what))


class Recorder(Quiet):
    """A server that plays Weir: it numbers its permits and records reports."""

    def do_GET(self):
        path = self.headers["X-Forwarded-Uri"] or self.path
        if path.endswith("/denied"):
            self.answer(403 if "deny=403" in self.path else 429, Retry_After="7")
        elif path.endswith("/free"):
            self.answer(200)
        else:
            self.server.given += 1
            self.answer(200, X_Weir_Permit=f"permit-{self.server.given}")

    def do_POST(self):
        body = self.chunks() if self.headers["Transfer-Encoding"] else self.rfile.read(
            int(self.headers["Content-Length"]))
        self.server.reports.put((self.path, self.headers["Host"], json.loads(body)))
        self.answer(self.server.status)


    def chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


@contextlib.contextmanager
def serving(handler):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.given, server.status, server.reports = 0, 200, queue.Queue()
        server.arrived, server.ended = queue.Queue(), threading.Event()
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def front(tmp_path):
    """A function that starts a proxy between a site and a Weir at a port."""
    (tmp_path / "site").mkdir()
    with contextlib.ExitStack() as stack:
        def start(name, weir, token=None, wait=Reporter.wait):
            backend = stack.enter_context(serving(Site))
            addresses = {"weir": weir, "backend": backend.server_port,
                         "spare": stack.enter_context(reserved_port())}
            site = Reporter(name, tmp_path, {
                "port": stack.enter_context(reserved_port()),
                **{what: f"127.0.0.1:{port}" for what, port in addresses.items()}}, token=token)
            site.pages, site.wait = backend, wait
            process = site.start()
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.terminate)
            stack.callback(backend.ended.set)
            until(site.listens, f"{name}, see {tmp_path}/proxy.log")
            return site

        yield start


def disconnect_early(site, path):
    """Sends a request and disconnects when the site has received it."""
    client = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    client.request("GET", path, headers={"Host": "example.com"})
    assert site.pages.arrived.get(timeout=PATIENCE) == "hang"
    client.close()


@pytest.mark.parametrize("name", REPORTERS)
def test_each_request_is_reported_once_with_its_outcome(front, name):
    with serving(Recorder) as weir:
        site = front(name, weir.server_port)

        def reported(path, outcome, status):
            answer = site.get(path, X_Weir_Permit="a-visitor-s")
            assert (answer.status, "X-Weir-Permit" in answer.headers) == (status, False), path
            url, host, report = weir.reports.get(timeout=PATIENCE)
            assert url == "/v1/report" and re.match(r"127\.0\.0\.1|localhost$", host)
            assert (report["permit"], report["outcome"]) == (f"permit-{weir.given}", outcome), path
            assert 0 < report.get("latency_ms", 1) < PATIENCE * 1000
            return report

        for status, outcome in ((200, "success"), (204, "success"), (301, "success"), (404, "ignored"),
                                (429, "ignored"), (500, "failure"), (503, "failure")):
            reported(f"/shop/{status}?x=1", outcome, status)
        if name == "nginx":  # nginx redirects the request internally, and acquires and reports once
            reported("/old/200", "success", 200)
        reported("/shop/cut", "failure", 503 if name == "envoy" else 502)
        assert weir.given == (9 if name == "nginx" else 8)
        # A denied request and one without a permit are not reported.
        assert site.get("/shop/denied").status == 429
        assert site.get("/free").status == site.get("/shop/200").status == 200
        assert weir.reports.get(timeout=PATIENCE)[2]["permit"] == f"permit-{weir.given}"
        assert weir.reports.empty()


@pytest.mark.parametrize("name", REPORTERS)
def test_a_missing_answer_is_reported_as_a_timeout(front, name):
    with serving(Recorder) as weir:
        site = front(name, weir.server_port, wait="1s")
        assert site.get("/shop/hang").status == 504
        report = weir.reports.get(timeout=PATIENCE)[2]
        assert (report["permit"], report["outcome"]) == ("permit-1", "timeout")
        assert 900 <= report["latency_ms"] < PATIENCE * 1000


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_the_request_of_a_disconnected_visitor_is_reported(front, name):
    with serving(Recorder) as weir:
        site = front(name, weir.server_port, wait="1s" if name == "haproxy" else Reporter.wait)
        disconnect_early(site, "/shop/hang")
        report = weir.reports.get(timeout=PATIENCE)[2]
        # HAProxy still waits for the site.
        assert (report["permit"], report["outcome"]) == ("permit-1", "ignored" if name == "nginx" else "timeout")


@pytest.mark.parametrize("name", REPORTERS)
def test_a_report_that_fails_changes_nothing_for_the_visitor(front, name):
    with serving(Recorder) as weir:
        site = front(name, weir.server_port)
        for weir.status in (404, 500):
            connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
            for _ in range(3):  # all on one connection
                connection.request("GET", "/shop/200", headers={"Host": "example.com"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                assert weir.reports.get(timeout=PATIENCE)[2]["outcome"] == "success"
            connection.close()


def reported(weir):
    return metric(weir, 'weir_permits_total{event="reported"}')


@pytest.mark.parametrize("name", REPORTERS)
def test_permits_of_an_idle_backend_never_run_out(front, serve, name):
    weir = serve(config=RULES.replace("max_concurrent: 50", "max_concurrent: 1"))
    site = front(name, weir.http)
    for n in range(30):
        assert site.get("/shop/200").status == 200
        until(lambda n=n: reported(weir) == n + 1, "the report")


@pytest.mark.parametrize("name", REPORTERS)
def test_failures_open_the_breaker(front, serve, name):
    weir = serve(config=RULES.replace("window: 10s", "window: 1h, minimum: 5, sleep: 1h"))
    site = front(name, weir.http)
    for n in range(5):
        assert site.get("/shop/500").status == 500
        until(lambda n=n: reported(weir) == n + 1, "the report")
    denied = site.get("/shop/200")
    assert denied.status == (503 if name == "haproxy" else 429)
    assert 3000 < int(denied.headers["Retry-After"]) <= 3600
    assert site.get("/elsewhere/200").status == 200
    assert reported(weir) == 5


@pytest.mark.parametrize("name", REPORTERS)
def test_a_proxy_that_is_a_user_logs_in_to_report(front, serve, name):
    hashed = hashlib.sha256(b"weir_proxy").hexdigest()
    weir = serve(config=f"{RULES}users: [{{ name: proxy, token: {hashed}, may: [ask] }}]\n")
    site = front(name, weir.http, token="weir_proxy")
    for n in range(3):
        assert site.get("/shop/200").status == 200
        until(lambda n=n: weir.get("/metrics", {"Authorization": "Bearer weir_proxy"}).text.count(
            f'weir_permits_total{{event="reported"}} {n + 1}\n'), "the report")
