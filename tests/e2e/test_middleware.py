"""examples/middleware in front of real applications, asking a real server."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys

import pytest
from harness import PATIENCE, ROOT, Http, programs_of_others, until
from test_tls import papers  # pylint: disable=unused-import

pytestmark = programs_of_others

EXAMPLES = ROOT / "examples/middleware"
APPS = ROOT / "tests/clients/middleware"
NODE = ROOT / "build/clients/node/express.js"

LIMITS = """
limits:
  login: { algorithm: fixed_window, rate: 3/h, align: first_request }
  relief: { algorithm: random, deny: 1, retry: 7s }
rules:
  - { match: { path: "/log in/ü" }, key: [ip], limits: [login] }
  - { match: { path: /shed, method: GET }, limits: [relief] }
"""


class App:
    """A program that tells its port on stdout."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(EXAMPLES), **(env or {})})
        line = self.process.stdout.readline()
        assert line.strip().isdigit(), (line, self.process.poll())
        self.port = int(line)

    def stop(self):
        """What it has logged."""
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)[1]


class Php(App):
    """PHP's own server takes no port 0, so one that was free a moment ago."""

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


@pytest.fixture(params=["asgi", "wsgi", "express", "go", "php"])
def start(request):
    """Starts an application in that language."""
    started = []

    def make(url, failing="open", seconds=str(PATIENCE), **env):
        how = [url, failing, seconds]
        if request.param == "php":
            started.append(Php(*how, env))
        elif request.param == "express":
            started.append(App(["node", NODE, EXAMPLES / "weir.mjs", *how], env))
        elif request.param == "go":
            started.append(App([request.getfixturevalue("go_app"), *how], env))
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


def test_denied_requests_are_answered_and_all_learn_the_limit(start, serve):
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
    # Another path has no limit; its answer is as it was.
    assert get(app, "/").status == 200
    shed = get(app, "/shed")
    assert (shed.status, shed.headers["Retry-After"]) == (503, "7")


def test_a_server_that_comes_back_is_asked_again(start, serve):
    server = serve("--http", "127.0.0.1:0", config=LIMITS)
    app = start(f"http://127.0.0.1:{server.http}")
    assert get(app).status == 200
    server.stop()
    assert [get(app).status for _ in range(5)] == [200] * 5
    serve("--http", f"127.0.0.1:{server.http}", "--resp", "127.0.0.1:0", config=LIMITS, ports=False)
    assert [get(app).status for _ in range(4)] == [200] * 3 + [429]


@pytest.mark.parametrize(("failing", "status"), [("open", 200), ("closed", 503)])
def test_without_a_server_requests_pass_or_fail_as_asked(start, failing, status):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        app = start(f"http://127.0.0.1:{nobody.getsockname()[1]}", failing)
        assert [get(app).status for _ in range(2)] == [status] * 2


@pytest.mark.parametrize(("failing", "status"), [("open", 200), ("closed", 503)])
def test_a_server_that_hangs_holds_nobody(start, failing, status):
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        app = start(f"http://127.0.0.1:{hanging.getsockname()[1]}", failing, "0.1")
        assert [get(app).status for _ in range(2)] == [status] * 2


@pytest.mark.parametrize(("env", "statuses"), [
    ({"TOKEN": "weir_app"}, [200] * 3 + [429]), ({"TOKEN": "weir_x"}, [503] * 4), ({}, [503] * 4),
    ({"WEIR_TOKEN": "weir_app"}, [200] * 3 + [429]), ({"WEIR_TOKEN": "weir_x"}, [503] * 4),
    ({"TOKEN": "weir_app", "WEIR_TOKEN": "weir_x"}, [200] * 3 + [429])],
    ids=["option", "wrong", "none", "variable", "wrong-variable", "both"])
def test_an_application_is_a_user_over_tls(start, serve, papers, env, statuses):
    """By an option of its own, TOKEN here, or else by the variable."""
    hashed = hashlib.sha256(b"weir_app").hexdigest()
    server = serve(config=f"tls: {{ cert: {papers}/server.pem, key: {papers}/server.key }}\n{LIMITS}users:\n"
                          f"  - {{ name: app, token: {hashed}, may: [ask] }}\n")
    app = start(f"https://127.0.0.1:{server.http}", "closed", **env, SSL_CERT_FILE=f"{papers}/right.pem",
                NODE_EXTRA_CA_CERTS=f"{papers}/right.pem")
    assert [get(app).status for _ in statuses] == statuses


def test_an_error_is_no_denial(start, serve):
    server = serve(config=LIMITS)
    app = start(f"http://127.0.0.1:{server.http}/nowhere")
    assert get(app).status == 200
    assert "no decision" in app.stop()
