"""The server refuses requests of web pages, proxies and other machines that they may not make."""

import getpass
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from browser import Browser
from harness import CONFIG, PATIENCE, ROOT, Http, Server, Wire, is_listening, until, weir
from test_tls import certificates  # pylint: disable=unused-import

NON_LOOPBACK_CALLERS = pathlib.Path(__file__).parent / "non_loopback_callers.py"
SHED = CONFIG.replace("rules:", "  relief: { algorithm: random, deny: 0.5 }\nrules:")
TEXT = {"Content-Type": "text/plain"}


def post(path, value, headers=None):
    return {"method": "POST", "path": path, "body": json.dumps(value), "headers": headers or {}}


def get(path, headers=None):
    return {"method": "GET", "path": path, "headers": headers or {}}


def assert_forbidden(answer, word):
    assert answer.status == 403, answer.text
    assert answer.json["error"]["code"] == "forbidden"
    assert word in answer.json["error"]["message"]


ASKS = [
    get("/v1/acquire/login?key={key}"), get("/v1/peek/login?key={key}"), get("/metrics"),
    post("/v1/acquire", {"limit": "login", "key": "{key}"}),
    post("/v1/acquire", {"attributes": {"path": "/login", "ip": "{key}"}}),
    post("/v1/batch", [{"limit": "login", "key": "{key}"}]),
]
CHANGES = [post("/v1/refund", {"limit": "login", "key": "{key}"}),
           post("/v1/reset", {"limit": "login", "key": "{key}"})]
ADMINISTRATES = [post("/v1/shed", {"limit": "relief", "deny": 1}), get("/v1/limits"),
                 get("/v1/top"), get("/v1/denials"), get("/v1/status"), post("/v1/key", {"key": "k"})]


@pytest.fixture(scope="module")
def server_with_shedding(tmp_path_factory):
    server = Server(config=SHED, directory=tmp_path_factory.mktemp("door"))
    yield server
    assert server.stop() == 0


def carry_out(server, call, key, headers):
    body = call.get("body")
    with Http(server.http) as client:
        return client.request(call["method"], call["path"].replace("{key}", key),
                              body and body.replace("{key}", key), {**call["headers"], **headers})


def state(server, key):
    return (server.get(f"/v1/peek/login?key={key}").json["remaining"],
            re.findall('"deny":([0-9.]+)', server.get("/v1/limits").text))


@pytest.mark.parametrize("headers, word", [
    ({"Origin": "http://example.com"}, "Origin"),
    ({"Origin": "null"}, "Origin"),
    ({"Origin": "http://127.0.0.1:1", **TEXT}, "Origin"),
    ({"Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site"),
    ({"Host": "example.com"}, "`hosts`"),
    ({"Host": "127.0.0.1.example.com:8080"}, "`hosts`"),
], ids=lambda value: "+".join(value) if isinstance(value, dict) else "")
def test_requests_of_pages_of_other_sites_are_refused(server_with_shedding, key, headers, word):
    carry_out(server_with_shedding, ASKS[0], key, {})
    before = state(server_with_shedding, key)
    for call in ASKS + CHANGES + ADMINISTRATES + [get("/healthz")]:
        assert_forbidden(carry_out(server_with_shedding, call, key, headers), word)
    assert state(server_with_shedding, key) == before
    assert server_with_shedding.get("/auth", {"X-Original-URI": "/login", **headers}).status == 200


def test_pages_of_the_server_and_local_programs_may_make_every_call(server_with_shedding, key):
    assert not [line for line in server_with_shedding.log if "exposed" in line]
    own = f"127.0.0.1:{server_with_shedding.http}"
    for headers in ({}, {"Origin": f"http://{own}"}, {"Sec-Fetch-Site": "same-origin"},
                    {"Host": "localhost:1"}, {"Host": "[::1]:8080"}):
        for call in ASKS + CHANGES + ADMINISTRATES:
            assert carry_out(server_with_shedding, call, key, headers).status == 200, (call, headers)
    with Wire(server_with_shedding.http) as wire:
        wire.send(b"GET /v1/limits HTTP/1.0\r\n\r\n")
        assert b" 200 OK" in wire.rest()


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP",
                                    "Forwarded", "Via"])
def test_a_request_that_a_proxy_forwards_may_acquire_but_not_administrate(server_with_shedding, key, header):
    for call in ASKS + [get("/healthz")]:
        assert carry_out(server_with_shedding, call, key, {header: "x"}).status == 200
    before = state(server_with_shedding, key)
    for call in CHANGES + ADMINISTRATES:
        assert_forbidden(carry_out(server_with_shedding, call, key, {header: "x"}), "`protected`")
    assert state(server_with_shedding, key) == before
    permit = server_with_shedding.get(f"/v1/acquire/login?key={key}&permit=true").json["permit"]
    refund = carry_out(server_with_shedding, post("/v1/refund", {"permit": permit}), key, {header: "x"})
    assert refund.json["allowed"] is True


def of_security_page(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs/security.md").read_text(),
                      re.M | re.S)


@pytest.mark.parametrize("block", of_security_page("yaml"))
def test_each_configuration_of_the_security_page_is_valid(tmp_path, certificates, block):
    for name, shown in ("server.pem", "server.pem"), ("server.key", "server.key"), ("right.pem", "clients.pem"):
        shutil.copy(certificates / name, tmp_path / shown)
    file = tmp_path / "weir.yaml"
    file.write_text(block)
    done = weir("lint", "--strict", file)
    assert done.returncode == 0, done.stderr


NGINX = """
daemon off;
user {user};
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen unix:{socket};
        {shown}
        location /all/ {{
            proxy_pass http://127.0.0.1:8080/;
            proxy_set_header X-Forwarded-For $remote_addr;
        }}
    }}
}}
"""


def test_nginx_as_the_security_page_configures_it_forwards_no_admin_calls(server_with_shedding, tmp_path, key):
    path = tmp_path / "s"
    (tmp_path / "nginx.conf").write_text(NGINX.format(
        user=getpass.getuser(), socket=path, shown=of_security_page("nginx")[0]
    ).replace("127.0.0.1:8080", f"127.0.0.1:{server_with_shedding.http}"))
    process = subprocess.Popen(["/usr/sbin/nginx", "-e", "stderr", "-p", tmp_path, "-c", "nginx.conf"],
                               stderr=subprocess.DEVNULL)

    def ask(method, target, body=b""):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"%s %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s"
                           % (method.encode(), target.encode(), len(body), body))
            return int(client.makefile("rb").read().split()[1])

    try:
        until(lambda: is_listening(path), "nginx to listen")
        before = state(server_with_shedding, key)
        reset = json.dumps({"limit": "login", "key": key}).encode()
        assert ask("GET", "/metrics") == 200
        assert ask("GET", "/v1/limits") == ask("POST", "/v1/reset", reset) == 404
        assert ask("GET", "/all/v1/limits") == ask("POST", "/all/v1/reset", reset) == 403
        assert ask("POST", "/all/v1/acquire", reset) == 200
        assert state(server_with_shedding, key) == (before[0] - 1, before[1])
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_a_forbidden_item_of_a_batch_fails_alone(server_with_shedding, key):
    items = [{"limit": "login", "key": key, "cost": 2}, {"op": "reset", "limit": "login", "key": key},
             {"op": "peek", "limit": "login", "key": key}]
    answer = carry_out(server_with_shedding, post("/v1/batch", items), key, {"Via": "1.1 a"})
    assert [item.get("remaining") for item in answer.json] == [8, None, 8]
    assert answer.json[1]["error"]["code"] == "forbidden"


def test_a_reload_applies_hosts_and_protected(serve, key):
    server = serve()
    named = {"Host": "Limits.example.com:80"}
    assert_forbidden(carry_out(server, CHANGES[1], key, named), "found 'Limits.example.com'")
    server.reload(CONFIG + "hosts: [limits.example.com]\n")
    server.line_with("reloaded")
    assert carry_out(server, CHANGES[1], key, named).status == 200
    assert_forbidden(carry_out(server, CHANGES[1], key, {"Via": "a"}), "`protected`")
    server.reload(CONFIG + "protected: no\n")
    server.line_with("reloaded")
    assert carry_out(server, CHANGES[1], key, {"Via": "a"}).status == 200
    assert_forbidden(carry_out(server, ASKS[0], key, named), "`hosts`")


def by_non_loopback_callers(directory, *runs):
    """The answers of a server to callers whose address is not loopback, for each (config, calls)."""
    alone = ["unshare", "--map-root-user", "--net"]
    may = subprocess.run([*alone, "true"], check=False, capture_output=True).returncode == 0
    done = subprocess.run(
        [*(alone if may else []), sys.executable, NON_LOOPBACK_CALLERS, directory], input=json.dumps(runs),
        env={**os.environ, **({"WEIR_NAMESPACE": "1"} if may else {})},
        capture_output=True, text=True, timeout=3 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_callers_of_other_machines_may_acquire_but_not_administrate(tmp_path):
    asks = [["CL.THROTTLE", "k", "9", "5", "3600"], ["WEIR.ACQUIRE", "login", "k"],
            ["WEIR.PEEK", "login", "k"], ["WEIR.CHECK", "path", "/login", "ip", "k"],
            [["MULTI"], ["WEIR.PEEK", "login", "k"], ["EXEC"]],
            *ASKS, get("/healthz"), get("/v1/peek/login?key=k", {"Host": "weir"})]
    more = [["WEIR.RESET", "login", "k"], ["WEIR.REFUND", "login", "k"],
            ["WEIR.SHED", "relief", "1"], ["DEL", "k", "j"], ["WEIR.RESET", "CL.THROTTLE", "k"],
            *CHANGES, *ADMINISTRATES]
    queued = [["MULTI"], ["DEL", "k"], ["WEIR.RESET", "login", "k"], ["EXISTS", "k"], ["EXEC"]]
    named = [post("/v1/reset", {"limit": "login", "key": "k"}, {"Host": "weir"})]
    closed, opened, listed = by_non_loopback_callers(
        tmp_path, (SHED, [*asks, queued, *more]), (SHED + "protected: no\n", more + named),
        (SHED + 'protected: [0.0.0.0/0]\nhosts: [weir]\n', more + named))
    for run, word in (closed, "`protected` says who"), (opened, "`protected` is no"):
        exposed = [line for line in run["log"] if " warning exposed " in line]
        assert len(exposed) == 2, run["log"]
        assert all(word in line and "docs/security.md" in line for line in exposed)
    for reply in closed["replies"][:len(asks)]:
        assert reply[0] == 200 if isinstance(reply, list) else reply[0] == "[", reply
    transaction = closed["replies"][len(asks)]
    assert transaction.count("-NOPERM expected ") == 2 and transaction.endswith(", 1]"), transaction
    for reply in closed["replies"][len(asks) + 1:]:
        if isinstance(reply, list):
            assert reply[0] == 403 and "`protected`" in reply[1], reply
        else:
            assert reply.startswith("-NOPERM expected a caller on this server's machine or in its "
                                   "`protected`, found "), reply
    for reply in opened["replies"][:-1] + listed["replies"]:
        assert reply[0] == 200 if isinstance(reply, list) else reply[0] in "[+012", reply
    assert opened["replies"][-1][0] == 403 and "`hosts`" in opened["replies"][-1][1]


ATTACK = """
(async () => {
  const simple = {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'}};
  const tried = [];
  const send = (url, body) => tried.push(fetch(url, {...simple, body}).catch(() => 0));
  const look = url => tried.push(new Promise(done => {
    const image = new Image();
    image.onload = image.onerror = done;
    image.src = url;
  }));
  send('HTTP/v1/shed', '{"limit":"relief","deny":1}');
  send('HTTP/v1/reset', '{"limit":"one","key":"k="}');
  send('HTTP/v1/refund', '{"limit":"one","key":"k="}');
  send('HTTP/v1/acquire', '{"limit":"login","key":"k"}');
  send('HTTP/v1/batch', '[{"op":"reset","limit":"one","key":"k="}]');
  look('HTTP/v1/reset/one?key=k%3D');
  look('HTTP/v1/refund/one?key=k%3D');
  look('HTTP/v1/acquire/login?key=k');
  send('RESP/', '\\r\\nWEIR.SHED relief 1\\r\\nWEIR.RESET one k=\\r\\n');
  send('RESP/a b', 'WEIR.SHED relief 1\\r\\n');
  await Promise.all(tried);
  const form = document.createElement('form');
  const field = document.createElement('input');
  Object.assign(form, {method: 'post', enctype: 'text/plain', action: 'HTTP/v1/reset'});
  Object.assign(field, {name: '{"limit":"one","key":"k', value: '"}'});
  form.append(field);
  document.body.append(form);
  const frame = document.createElement('iframe');
  frame.name = form.target = 'frame';
  document.body.append(frame);
  await new Promise(done => { frame.onload = done; form.submit(); });
  return tried.length;
})()
"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><body></body>")

    def log_message(self, *_):
        pass


def test_an_attack_by_a_page_in_a_browser_changes_nothing(serve, tmp_path):
    server = serve(config=SHED)
    assert server.get("/v1/acquire/one?key=k%3D").json["remaining"] == 0
    evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=evil.serve_forever, daemon=True).start()
    # "rebound.example" resolves to this machine, as after DNS rebinding.
    browser = Browser(tmp_path, "--host-resolver-rules=MAP rebound.example 127.0.0.1",
                      "--disable-features=BlockInsecurePrivateNetworkRequests", network=True)
    try:
        attack = ATTACK.replace("RESP", f"http://127.0.0.1:{server.resp}")
        for page, target in (
                (f"http://localhost:{evil.server_port}/", f"http://127.0.0.1:{server.http}"),
                (f"http://localhost:{evil.server_port}/", f"http://localhost:{server.http}"),
                (f"http://127.0.0.1:{evil.server_port}/", f"http://127.0.0.1:{server.http}"),
                (f"http://rebound.example:{server.http}/healthz",
                 f"http://rebound.example:{server.http}")):
            browser.visit(page)
            assert browser.evaluate(attack.replace("HTTP", target)) == 10
            # An <img> of a page at another port of the same host is of the same site, so it may acquire.
            asked = int(page.split(":")[1] == target.split(":")[1] and "rebound" not in page)
            assert state(server, "k") == (10 - asked, ["0.5"]), page
            assert server.get("/v1/peek/one?key=k%3D").json["remaining"] == 0, page
            server.post("/v1/reset", {"limit": "login", "key": "k"})
    finally:
        browser.close()
        evil.shutdown()
    with Http(server.http) as client:
        refused = re.search(r'weir_errors_total{protocol="http",status="EPERM"} (\d+)',
                            client.request("GET", "/metrics").text)
    assert int(refused[1]) >= 7 + 6 + 6 + 7
