"""Listeners at Unix sockets: real clients, the life and permissions of the file, and the access of peers."""

import getpass
import grp
import http.client
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile

import pytest
import redis
from harness import CONFIG, PATIENCE, WEIR, Answer, Server, encode, is_listening, until, weir
from test_proxies import NGINX

QUEUE = CONFIG.replace("limits:", "limits:\n  queue: "
                       "{ algorithm: leaky_queue, rate: 1/h, capacity: 5, max_wait: 2h }", 1)


@pytest.fixture
def place():
    """A directory with a short path, since pytest's own may be too long for a socket."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="weir-unix-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(place):
    servers = []

    def begin(*flags, config=CONFIG, **more):
        servers.append(Server("--http", f"unix:{place}/http.sock", "--resp", f"unix:{place}/resp.sock",
                              *flags, config=config, directory=place, ports=False, **more))
        return servers[-1]

    yield begin
    for server in servers:
        if server.process.poll() is None:
            assert server.stop() == 0


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


def ask(path, method, target, headers=None, body=None):
    connection = Connection(path)
    connection.request(method, target, body, headers or {})
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=PATIENCE, check=True).stdout


def test_clients_of_both_protocols_connect(start, place):
    server = start("--threads", "2")
    assert server.addresses == {"http": f"unix:{place}/http.sock", "resp": f"unix:{place}/resp.sock"}
    assert run("redis-cli", "-s", place / "resp.sock", "WEIR.ACQUIRE", "login", "a").split()[:3] == \
        ["1", "10", "9"]
    with redis.Redis(unix_socket_path=f"{place}/resp.sock") as client:
        assert client.ping()
        assert client.execute_command("WEIR.PEEK", "login", "a")[2] == 9
        pipeline = client.pipeline()
        for _ in range(20):
            pipeline.execute_command("WEIR.ACQUIRE", "login", "b")
        assert [int(reply[0]) for reply in pipeline.execute()] == [1] * 10 + [0] * 10
    assert run("curl", "-s", "--unix-socket", place / "http.sock", "http://localhost/healthz") == "ok\n"
    asked = weir("ask", "login", "a", "--server", f"unix:{place}/resp.sock")
    assert (asked.returncode, "8 of 10 left" in asked.stdout) == (0, True)


@pytest.mark.parametrize("protocol", ["http", "resp"])
def test_bench_measures_at_a_unix_socket(start, place, protocol):
    start()
    done = weir("bench", "--server", f"unix:{place}/{protocol}.sock", "--protocol", protocol,
                "--limit", "login", "--connections", 20, "--threads", 2, "--requests", 2000, "--json")
    assert done.returncode == 0, done.stderr
    assert f"unix:{place}/{protocol}.sock" in done.stdout
    assert '"errors":0' in done.stdout.replace(" ", "")


def test_the_file_is_only_for_the_servers_account_and_is_removed_with_it(start, place):
    server = start()
    for name in "http.sock", "resp.sock":
        mode = (place / name).stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    assert server.stop() == 0
    assert not list(place.glob("*.sock"))


def test_the_file_of_a_killed_server_is_replaced(start, place):
    server = start()
    server.process.kill()
    server.process.wait()
    assert (place / "resp.sock").exists()
    start()
    assert run("redis-cli", "-s", place / "resp.sock", "PING") == "PONG\n"


def test_the_file_of_a_running_server_is_not_replaced(start, place):
    start()
    for flags in [("--resp", f"unix:{place}/resp.sock", "--http", "127.0.0.1:0"),
                  ("--resp", "127.0.0.1:0", "--http", f"unix:{place}/http.sock")]:
        second = weir("serve", *flags)
        name = "resp" if "unix" in flags[1] else "http"
        assert second.returncode == 1
        assert f"start_failed {name}: can't listen on unix:{place}/{name}.sock: " \
               "another program listens on it" in second.stderr
    assert run("redis-cli", "-s", place / "resp.sock", "PING") == "PONG\n"


def test_a_server_that_stops_does_not_remove_the_file_of_another(start, place):
    first = start()
    for name in "http.sock", "resp.sock":
        (place / name).unlink()
    start()
    assert first.stop() == 0
    assert run("redis-cli", "-s", place / "resp.sock", "PING") == "PONG\n"


def test_a_start_that_fails_leaves_no_file(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = weir("serve", "--http", f"unix:{place}/http.sock", "--resp", f"127.0.0.1:{port}")
    assert (failed.returncode, list(place.iterdir())) == (1, [])
    assert f"resp: can't listen on 127.0.0.1:{port}" in failed.stderr


def test_errors_name_the_setting_and_its_place(place):
    file = place / "weir.yaml"
    (place / "text").write_text("precious")
    for address, message in [
            (f"unix:{place}/text", f"http: can't listen on unix:{place}/text: the file exists and is not a socket"),
            (f"unix:{place}/none/a", f"http: can't listen on unix:{place}/none/a: No such file or directory"),
            ("unix:/" + 107 * "a", "expected a path of at most 107 bytes behind unix:, found 108"),
            ("unix:weir.sock", "expected HOST:PORT or unix:/PATH, found 'unix:weir.sock'")]:
        forms = [(address, 9)]
        if address.startswith("unix:/"):
            forms.append((f"{{ path: {address.removeprefix('unix:')} }}", 17))
        for form, column in forms:
            file.write_text(f"listen:\n  resp: 127.0.0.1:0\n  http: {form}\n")
            failed = weir("serve", "-c", file)
            assert failed.returncode == 1
            assert f"{file}:3:{column}: {message}" in failed.stderr.replace("error: ", "")
    assert (place / "text").read_text() == "precious"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_file_gets_its_mode_and_group_whatever_the_umask(place, umask):
    gid = os.getgid() or grp.getgrnam("nogroup").gr_gid
    listen = ("listen:\n  http: { path: %s/http.sock, mode: 0666 }\n"
              "  resp: { path: %s/resp.sock, mode: 0660, owner: %s, group: %s }\n"
              % (place, place, os.getuid() or 1, gid))
    before = os.umask(umask)
    try:
        server = Server(config=listen + CONFIG, directory=place, ports=False)
    finally:
        os.umask(before)
    http_file, resp_file = (place / "http.sock").stat(), (place / "resp.sock").stat()
    assert stat.S_IMODE(http_file.st_mode) == 0o666
    assert (stat.S_IMODE(resp_file.st_mode), resp_file.st_gid) == (0o660, gid)
    assert (resp_file.st_uid, http_file.st_uid) == (os.getuid() or 1, os.getuid())
    assert http_file.st_gid == os.getgid()
    server.reload(listen.replace("0666", "0606") + CONFIG)
    assert "setting=listen.http" in server.line_with("restart_needed")
    for word in "owner", "group":
        server.reload(listen.replace(f", {word}: ", f", {word}: 4") + CONFIG)
        assert "setting=listen.resp" in server.line_with("restart_needed")
        server.line_with("reloaded")
    assert server.stop() == 0
    assert not list(place.glob("*.sock"))


@pytest.mark.skipif(os.getuid() != 0, reason="root alone becomes somebody who gives no files away")
def test_a_file_whose_group_cannot_be_set_is_removed(place):
    place.chmod(0o777)
    file = place / "weir.yaml"
    file.write_text(f"listen: {{ http: 127.0.0.1:0, resp: {{ path: {place}/resp.sock, owner: root }} }}\n")
    failed = subprocess.run(["timeout", "-k", "1", str(PATIENCE), "setpriv", "--reuid=nobody", "--clear-groups", WEIR,
                             "serve", "-c", file], capture_output=True, text=True, check=False)
    assert failed.returncode == 1, failed
    assert "this process may not change the owner or group of the file" in failed.stderr
    assert not list(place.glob("*.sock"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_other_accounts_connect_if_the_mode_allows_it(place):
    place.chmod(0o755)
    listen = ("listen:\n  http: { path: %s/http.sock, mode: 0600, owner: nobody }\n"
              "  resp: { path: %s/resp.sock }\n" % (place, place))
    server = Server(config=listen + CONFIG, directory=place, ports=False)

    def connects(name, user):
        return subprocess.run(
            ["setpriv", f"--reuid={user}", "--clear-groups", sys.executable, "-c",
             "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])",
             place / name], check=False, stderr=subprocess.DEVNULL).returncode == 0

    assert connects("http.sock", "nobody")
    assert not connects("http.sock", "daemon")
    assert not connects("resp.sock", "nobody")
    assert server.stop() == 0


def test_a_changed_listener_needs_a_restart_and_an_unchanged_one_stays(place):
    config = f"listen: {{ http: 'unix:{place}/http.sock', resp: 'unix:{place}/resp.sock' }}\n" + CONFIG
    server = Server(config=config, directory=place, ports=False)
    with redis.Redis(unix_socket_path=f"{place}/resp.sock") as client:
        client.ping()
        server.reload(config + "hosts: [a.example]\n")
        server.line_with("reloaded")
        server.reload(config.replace("resp.sock", "other.sock"))
        assert "setting=listen.resp" in server.line_with("restart_needed")
        server.line_with("reloaded")
        assert client.ping()
    assert not [line for line in server.log if "restart_needed" in line and "http" in line]
    assert not (place / "other.sock").exists()
    assert server.stop() == 0


def test_a_peer_counts_as_loopback_unless_a_proxy_forwards_it(start, place):
    start()
    path = place / "http.sock"
    assert ask(path, "GET", "/v1/limits").status == 200
    body = '{"limit":"login","key":"k"}'
    assert ask(path, "POST", "/v1/reset", body=body).status == 200
    for header in "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via":
        refused = ask(path, "POST", "/v1/reset", {header: "127.0.0.1"}, body)
        assert (refused.status, refused.json["error"]["code"]) == (403, "forbidden")
    assert ask(path, "GET", "/v1/limits", {"Host": "example.com"}).status == 403


def test_a_disconnected_client_frees_its_connection(start, place):
    """Also if the server has not read all of its input."""
    start(config=QUEUE)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place / "resp.sock"))
        client.sendall(2 * encode("WEIR.ACQUIRE", "queue", "k"))
        until(lambda: metric_at(place, "weir_answers_pending") == 1, "one to be held")
        client.setblocking(False)
        try:
            while client.send(encode("PING") * 1000):
                pass
        except BlockingIOError:
            pass
    until(lambda: metric_at(place, "weir_answers_pending") == 0, "the place of the client")


def metric_at(place, name):
    lines = ask(place / "http.sock", "GET", "/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name + " ")))


SITE = """
    upstream weir {{ server unix:{place}/http.sock; keepalive 4; }}
    server {{
        listen unix:{place}/site.sock;
        location / {{ auth_request /_weir; return 204; }}
        location /login {{ auth_request /_weir; root {place}; try_files /page =404; }}
        location = /_weir {{
            internal;
            proxy_pass http://weir/auth?deny=403;
            proxy_http_version 1.1;
            proxy_set_header Host localhost;
            proxy_set_header Connection "";
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header X-Original-URI $request_uri;
            proxy_set_header X-Forwarded-For $http_x_visitor;
        }}
        location = /through {{ proxy_pass http://unix:{place}/http.sock:/v1/limits; proxy_set_header Via nginx; }}
    }}
"""


@pytest.fixture
def nginx(place):
    (place / "page").write_text("page")
    (place / "nginx.conf").write_text(
        NGINX.format(user=getpass.getuser(), site=SITE.format(place=place)))
    process = subprocess.Popen(["/usr/sbin/nginx", "-e", "stderr", "-p", place, "-c", "nginx.conf"],
                               cwd=place)
    until(lambda: is_listening(place / "site.sock"), "nginx to listen")
    yield place / "site.sock"
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)


@pytest.mark.parametrize("trusted", ["[127.0.0.0/8]", "[10.0.0.0/8]"])
def test_behind_nginx_visitors_are_counted_if_loopback_is_trusted(start, nginx, trusted):
    start(config=CONFIG.replace("[127.0.0.0/8]", trusted))

    def visit(visitor):
        return ask(nginx, "GET", "/login", {"X-Visitor": visitor}).status

    assert [visit("192.0.2.1") for _ in range(11)] == [200] * 10 + [403]
    assert visit("192.0.2.2") == (200 if "127" in trusted else 403)
    assert ask(nginx, "GET", "/through").status == 403
