"""Users: their permissions over each protocol, and their logins by passwords, tokens and certificates."""

import base64
import hashlib
import json
import re
import socket
import ssl
import subprocess
import urllib.parse

import pytest
import redis
from harness import PATIENCE, ROOT, Http, Server, Wire, encode, until, weir

LIMITS = """
limits:
  login: { algorithm: token_bucket, rate: 1000/h }
  window: { algorithm: fixed_window, rate: 1000/h, align: first_request }
  relief: { algorithm: random, deny: 0.5 }
  back: { algorithm: breaker }
rules:
  - name: login-by-ip
    match: { path: /login }
    key: [ip]
    limits: [login]
  - name: pages-by-ip
    match: { path: /page }
    key: [ip]
    limits: [window]
  - name: both-by-ip
    match: { path: /both }
    key: [ip]
    limits: [login, window]
trusted_proxies: [127.0.0.0/8]
"""


def hashed(password, parameters):
    """The hash of a password by another program, with parameters that make it fast."""
    script = 'print crypt($ARGV[0], "\\$y\\$$ARGV[1]\\$abcdefghijklmnop")'
    return subprocess.run(["perl", "-e", script, password, parameters], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def user(name, *, may, limits=None, token=None, password=None, parameters="j75"):
    proof = (f'token: "{hashlib.sha256(token.encode()).hexdigest()}"' if token
             else f'password: "{hashed(password, parameters)}"')
    names = f", limits: {json.dumps(limits)}" if limits else ""
    return f"  - {{ name: {name}, {proof}, may: [{', '.join(may)}]{names} }}\n"


ALL = ("ask", "change", "admin")
USERS = {
    "asker": user("asker", token="weir_asker", may=["ask"]),
    "changer": user("changer", token="weir_changer", may=["change"]),
    "admin": user("admin", password="pass: word", may=["admin"]),
    "everything": user("everything", password="all", may=ALL),
    "some": user("some", token="weir_some", may=ALL, limits=["log*", "THROTTLE"]),
}
CONFIG = LIMITS + "users:\n" + "".join(USERS.values())
MAY = {None: (), "asker": ("ask",), "changer": ("change",), "admin": ("admin",),
       "everything": ALL, "some": ALL}
SECRETS = {"asker": "weir_asker", "changer": "weir_changer", "admin": "pass: word",
           "everything": "all", "some": "weir_some"}


def basic(name, secret):
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def authorization(name):
    secret = SECRETS[name]
    return f"Bearer {secret}" if secret.startswith("weir_") else basic(name, secret)


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    server = Server(config=CONFIG, directory=tmp_path_factory.mktemp("users"))
    yield server
    assert server.stop() == 0


# ---- Every route and command, by every user -----------------------------------------------------

def listed(test):
    """The lines that a unit test expects, which list every route or every command."""
    source = (ROOT / "tests/unit/proto/test_classes.c").read_text()
    body = source[source.index(test):]
    body = body[:body.index(");\n}")]
    return [line.split() for line in re.findall(r'"([^"\\%]+)\\n"', body)]


LOGIN = {"limit": "login", "key": "k"}
# A valid request for each route. `some` may not make those of WHOLE.
ROUTES = {
    "/auth": ("GET", "/auth", None), "/auth/": ("GET", "/auth/login", None),
    "/v1/acquire": ("POST", "/v1/acquire", LOGIN),
    "/v1/acquire/": ("GET", "/v1/acquire/login?key=k", None),
    "/v1/peek": ("POST", "/v1/peek", LOGIN), "/v1/peek/": ("GET", "/v1/peek/login?key=k", None),
    "/v1/refund": ("POST", "/v1/refund", LOGIN), "/v1/reset": ("POST", "/v1/reset", LOGIN),
    "/v1/report": ("POST", "/v1/report", {"permit": "x", "outcome": "success"}),
    "/v1/shed": ("POST", "/v1/shed", {"limit": "relief", "deny": 0.5}),
    "/v1/breaker": ("POST", "/v1/breaker", {"limit": "back", "key": "k", "state": "auto"}),
    "/v1/batch": ("POST", "/v1/batch", [LOGIN]),
    "/throttle": ("POST", "/throttle", {"key": "k", "max_burst": 9, "count_per_period": 9, "period": 9}),
    "/health": ("GET", "/health", None), "/healthz": ("GET", "/healthz", None),
    "/readyz": ("GET", "/readyz", None), "/metrics": ("GET", "/metrics", None),
    "/v1/limits": ("GET", "/v1/limits", None), "/v1/top": ("GET", "/v1/top", None),
    "/v1/denials": ("GET", "/v1/denials", None), "/v1/key": ("POST", "/v1/key", {"key": "k"}),
    "/v1/reload": ("POST", "/v1/reload", None),
    "/v1/status": ("GET", "/v1/status", None), "/v1/stats": ("GET", "/v1/stats", None),
    "/v1/events": ("GET", "/v1/events", None), "/": ("GET", "/", None),
    "/rule/browse": ("GET", "/rule/browse?path=/login&ip=1.2.3.4", None),
    "/rule/update": ("GET", "/rule/update?path=/login&ip=1.2.3.4", None),
    "/rule/browse_complete": ("GET", "/rule/browse_complete?path=/login&ip=1.2.3.4", None),
    "/rule/feedback": ("GET", "/rule/feedback?path=/login&ip=1.2.3.4", None),
    "/rule/value": ("GET", "/rule/value?rule_no=login-by-ip&path=/login&ip=1.2.3.4", None),
    "/multi/browse": ("GET", "/multi/browse?" + urllib.parse.urlencode({"argsJson": json.dumps(
        [{"Id": 1, "Arg": "path%3D%2Flogin%26ip%3D1.2.3.4"}])}), None),
    "/monitor/alive": ("GET", "/monitor/alive", None),
    "/dump/policy": ("GET", "/dump/policy", None), "/dump/counter": ("GET", "/dump/counter", None),
}
OF_OTHER_LIMITS = {"/", "/v1/shed", "/v1/breaker", "/v1/limits", "/v1/top", "/v1/denials", "/v1/status", "/v1/stats",
                   "/v1/reload", "/v1/events", "/dump/policy", "/dump/counter"}


TLS = "tls: { cert: cert.pem, key: key.pem }\n"


def make_certificate(directory):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=weir"],
                   cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module", params=["port", "unix", "tls", "beside", "admin"])
def connector(request, users, tmp_path_factory):
    """Functions that connect to the port of HTTP and of RESP. "beside" and "admin" are the ports of a server
    with an admin listener."""
    directory = tmp_path_factory.mktemp("door")
    kind, server = request.param, None

    def to_port(port):
        return socket.create_connection(("127.0.0.1", port), PATIENCE)

    def to_unix(path):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(str(path))
        return client

    if kind == "port":
        ports = {"http": users.http, "resp": users.resp}
        connect = to_port
    elif kind == "unix":
        ports = {"http": directory / "http", "resp": directory / "resp"}
        server = Server("--http", f"unix:{ports['http']}", "--resp", f"unix:{ports['resp']}", ports=False,
                        config=CONFIG, directory=directory)
        connect = to_unix
    elif kind == "tls":
        make_certificate(directory)
        server = Server(config=TLS + CONFIG, directory=directory)
        ports = {"http": server.http, "resp": server.resp}
        context = ssl.create_default_context(cafile=directory / "cert.pem")
        context.check_hostname = False

        def connect(port):
            return context.wrap_socket(to_port(port))
    else:
        server = Server(config="listen: { admin: 127.0.0.1:0 }\n" + CONFIG, directory=directory)
        admin = int(server.line_with("listening: admin").rsplit(":", 1)[1])
        ports = {"http": admin if kind == "admin" else server.http, "resp": server.resp}
        connect = to_port
    yield kind, lambda protocol: connect(ports[protocol])
    if server:
        assert server.stop() == 0


def ask(connect, path, name):
    """The status only, since a stream of events does not end."""
    method, target, body = ROUTES[path]
    header = "Weir-Authorization" if path.startswith("/auth") else "Authorization"
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
    if name:
        lines.append(f"{header}: {authorization(name)}")
    text = json.dumps(body) if body else ""
    if method == "POST":
        lines.append(f"Content-Length: {len(text)}")
    with connect("http") as client:
        client.sendall(("\r\n".join(lines) + "\r\n\r\n" + text).encode())
        return int(client.makefile("rb").readline().split()[1])


def expected_status(kind, path, right, name):
    """The expected status, or None for any status but 401 and 403."""
    if right == "free":
        return None
    if kind == "beside" and right == "admin":
        return 403
    may = right in MAY[name] and not (name == "some" and path in OF_OTHER_LIMITS)
    if path.startswith("/auth"):
        return 200 if may else 500
    return None if may else 403 if name else 401


@pytest.mark.parametrize("name", MAY, ids=str)
def test_every_route_is_for_users_with_its_permission(connector, name):
    kind, connect = connector
    routes = listed("test_every_route_has_methods_and_a_class")
    assert {route[0] for route in routes} == set(ROUTES)
    for path, *_, right in routes:
        expected, found = expected_status(kind, path, right, name), ask(connect, path, name)
        assert found == expected if expected else found not in (401, 403), (path, right)


COMMANDS = {
    "CL.THROTTLE": ["k", 9, 9, 60], "WEIR.ACQUIRE": ["login", "k"],
    "WEIR.CHECK": ["path", "/login", "ip", "1.2.3.4"], "WEIR.CHECKPEEK": ["path", "/login"], "THROTTLE": ["k", 9, 9, 60],
    "WEIR.PEEK": ["login", "k"], "WEIR.REFUND": ["login", "k"], "WEIR.RESET": ["login", "k"],
    "WEIR.REPORT": ["x", "success"], "WEIR.SHED": ["relief", "0.5"], "DEL": ["k"], "EXISTS": ["k"],
    "TTL": ["k"], "PTTL": ["k"], "PING": [], "MULTI": [], "EXEC": [], "DISCARD": [], "WATCH": ["k"],
    "UNWATCH": [], "ECHO": ["x"], "HELLO": [], "AUTH": ["x", "y"], "SELECT": [0], "CLIENT": ["ID"],
    "ACL": ["CAT"], "COMMAND": ["COUNT"], "INFO": [], "CONFIG": ["GET", "save"], "RESET": [], "QUIT": [],
}


@pytest.mark.parametrize("name", MAY, ids=str)
def test_every_command_is_for_users_with_its_permission(connector, name):
    kind, connect = connector
    commands = listed("test_every_command_has_a_class")
    assert {command for command, _ in commands} == set(COMMANDS)
    for command, right in commands:
        may = right == "free" or (right in MAY[name] and (name, command) != ("some", "WEIR.SHED"))
        beside = kind in ("beside", "admin") and right == "admin"
        may = may and not beside
        with connect("resp") as client, client.makefile("rb") as file:
            if name:
                client.sendall(encode("AUTH", name, SECRETS[name]))
                assert file.readline() == b"+OK\r\n"
            client.sendall(encode(command, *COMMANDS[command]))
            found = file.readline()
        refused = found.startswith((b"-NOAUTH", b"-NOPERM"))
        assert refused is not may, (command, found)
        if not may:
            assert found.startswith(b"-NOPERM" if name or beside else b"-NOAUTH"), (command, found)


def test_a_user_cannot_charge_limits_without_permission(users, key):
    window = {"limit": "window", "key": key}
    with Http(users.http) as client:
        def post(path, value, name="some"):
            return client.request("POST", path, json.dumps(value), {"Authorization": authorization(name)})

        answer = post("/v1/acquire", window)
        assert answer.status == 403 and "'window'" in answer.json["error"]["message"]
        page = {"attributes": {"path": "/page", "ip": key}}
        assert post("/v1/acquire", page).status == 403
        both = {"attributes": {"path": "/both", "ip": key}}
        answer = post("/v1/acquire", both)
        assert answer.status == 403 and "'window'" in answer.json["error"]["message"]
        assert post("/v1/peek", both, "asker").json["remaining"] == 1000
        items = post("/v1/batch", [window, {"limit": "login", "key": key}]).json
        assert items[0]["error"]["code"] == "forbidden" and items[1]["remaining"] == 999
        assert post("/v1/peek", window, "asker").json["remaining"] == 1000
        assert post("/v1/peek", page, "asker").json["remaining"] == 1000
    with Wire(users.resp) as wire:
        assert wire.command("AUTH", "weir_some") == b"+OK"
        wire.send(b"MULTI\nWEIR.ACQUIRE login %s\nWEIR.ACQUIRE window %s\nEXEC\n" % (2 * (key.encode(),)))
        assert [wire.reply() for _ in range(3)] == [b"+OK", b"+QUEUED", b"+QUEUED"]
        done, refused = wire.reply()
        assert done[:3] == [1, 1000, 998] and refused.startswith(b"-NOPERM")
        wire.command("RESET")
        wire.command("AUTH", "weir_asker")
        assert wire.command("WEIR.PEEK", "window", key)[2] == 1000


# ---- Limits of others -----------------------------------------------------------------------------

# The user `other` may use none of these limits. An answer that depends on one would show its quota,
# for a cost above it, its wait, or the count of a key.
FOREIGN = """
limits:
  login: { algorithm: token_bucket, rate: 7/d }
  window: { algorithm: fixed_window, rate: 7/d, align: first_request }
  paced: { algorithm: pacer, rate: 1/m, slack: 0, max_wait: 1h }
  relief: { algorithm: random, deny: 0.5 }
  back: { algorithm: breaker }
  log: { algorithm: sliding_log, rate: 7/d }
  own: { algorithm: token_bucket, rate: 7/d }
rules:
  - { name: white, match: { path: /both, ip: 9.9.9.9 }, answer: allow, result: { Ret_type: 1 } }
  - { name: own-by-ip, match: { path: /both }, key: [ip], limits: [own] }
  - { name: login-by-ip, match: { path: /both }, key: [ip], limits: [login] }
  - { name: window-by-ip, match: { path: /both }, key: [ip], limits: [window] }
  - { name: log-by-ip, match: { path: /both }, key: [ip], limits: [log], feedback: [1, 2] }
  - { name: own-alone, match: { path: /own }, key: [ip], limits: [own] }
  - { name: white-alone, match: { path: /white }, answer: allow, result: { Ret_type: 1 } }
trusted_proxies: [127.0.0.0/8]
"""
OTHER = user("other", token="weir_other", may=ALL, limits=["own"])
LONG = "x" * 1000
ARGS = urllib.parse.urlencode({"argsJson": json.dumps([{"Id": "1", "Arg": "path%3D%2Fboth%26ip%3Dk"}])})


def calls(command, *least):
    """Yields the command with each cost, wait and length of key on which an answer can depend."""
    for key in ("k", "new"):
        yield [command, *least, key]
        for cost in (0, 1, 7, 8, 10**9):
            yield [command, *least, key, "COST", cost]


# Commands and routes without a limit. Those that show all limits are refused as a whole.
NO_LIMIT = {"CLIENT", "WEIR.REPORT", "/metrics", "/monitor/alive", "/v1/key", "/v1/report"}


def foreign_commands():
    for command in ("CL.THROTTLE", "THROTTLE"):
        for quantity in (0, 1, 10, 11, 10**9):
            yield [command, "k", 9 + (command == "THROTTLE"), 5, 60, quantity]
    for limit in ("login", "window", "paced", "relief", "back"):
        for command in ("WEIR.ACQUIRE", "WEIR.PEEK", "WEIR.REFUND"):
            yield from calls(command, limit)
        yield ["WEIR.ACQUIRE", limit, "k", "COST", 7, "WAIT", 1]
        yield ["WEIR.ACQUIRE", limit, "k", "PERMIT"]
        yield ["WEIR.REFUND", limit, "k", "PERMIT", "x"]
        yield ["WEIR.RESET", limit, "k"]
    for command in ("WEIR.CHECK", "WEIR.CHECKPEEK"):
        for address in ("k", "new", LONG + LONG):
            yield [command, "path", "/both", "ip", address]
    yield from (["WEIR.SHED", "relief", 0.1], ["WEIR.SHED", "login", 0.1], ["WEIR.RESET", "CL.THROTTLE", "k"],
                ["DEL", "k"], ["EXISTS", "k"], ["TTL", "k"], ["PTTL", "k"], ["DEL", "new"])


def foreign_requests():
    for limit in ("login", "window", "paced", "relief", "back"):
        for path in ("acquire", "peek", "refund", "reset"):
            for cost in (0, 1, 7, 8, 10**9) if path != "reset" else (1,):
                body = {"limit": limit, "key": "k", **({"cost": cost} if path != "reset" else {})}
                yield "POST", f"/v1/{path}", body
                if path in ("acquire", "peek"):
                    yield "GET", f"/v1/{path}/{limit}?key=k&cost={cost}", None
        yield "POST", "/v1/acquire", {"limit": limit, "key": "k", "cost": 7, "wait_ms": 1}
        yield "POST", "/v1/refund", {"limit": limit, "key": "k", "permit": "x"}
    for address in ("k", "new", LONG + LONG):
        for path in ("acquire", "peek"):
            for cost in (0, 1, 7, 8):
                yield "POST", f"/v1/{path}", {"attributes": {"path": "/both", "ip": address}, "cost": cost}
        for path in ("browse", "update", "browse_complete", "feedback"):
            yield "GET", f"/rule/{path}?path=/both&ip={address}&_writeThrough=yes", None
        yield "GET", f"/rule/value?rule_no=login-by-ip&path=/both&ip={address}", None
    for quantity in (0, 1, 10, 11, 10**9):
        yield "POST", "/throttle", {"key": "k", "max_burst": 10, "count_per_period": 5, "period": 60,
                                    "quantity": quantity}
    yield "POST", "/v1/shed", {"limit": "relief", "deny": 0.1}
    yield "POST", "/v1/shed", {"limit": "login", "deny": 0.1}
    yield "POST", "/v1/breaker", {"limit": "back", "key": "k", "state": "open"}
    yield "POST", "/v1/breaker", {"limit": "login", "key": "k", "state": "open"}
    for path in ("/", "/v1/limits", "/v1/top", "/v1/denials", "/v1/status", "/v1/stats", "/v1/events", "/dump/policy",
                 "/dump/counter"):
        yield "GET", path, None
    yield "POST", "/v1/reload", None


@pytest.fixture(scope="module", params=["", "order: first\n"], ids=["together", "first"])
def foreign(request, tmp_path_factory):
    """A server at which another user has used a part of each key."""
    server = Server(config=request.param + FOREIGN + "users:\n" + OTHER + USERS["everything"],
                    directory=tmp_path_factory.mktemp("foreign"))
    with Wire(server.resp) as wire:
        wire.command("AUTH", "everything", "all")
        wire.command("CL.THROTTLE", "k", 9, 5, 60, 3)
        for limit in ("login", "window"):
            wire.command("WEIR.ACQUIRE", limit, "k", "COST", 3)
    yield server
    assert server.stop() == 0


def shown(server):
    """All state that a refused request may not change."""
    with Http(server.http) as client, Wire(server.resp) as wire:
        headers = {"Authorization": basic("everything", "all")}
        assert wire.command("AUTH", "everything", "all") == b"+OK"
        states = [wire.command("WEIR.PEEK", limit, key)[:3] for limit in ("login", "window", "own")
                  for key in ("k", "new")]
        return (client.request("GET", "/v1/top", None, headers).json, wire.command("EXISTS", "k", "new"),
                wire.command("CL.THROTTLE", "k", 9, 5, 60, 0)[:2], states)


def all_are_covered(asked, test):
    """Whether every route or command that needs a permission is tested, or has no limit."""
    return {line[0] for line in listed(test) if line[-1] != "free"} <= asked | NO_LIMIT


def test_no_command_reveals_a_limit_that_its_user_may_not_use(foreign):
    commands = list(foreign_commands())
    assert all_are_covered({command[0] for command in commands}, "test_every_command_has_a_class")
    before = shown(foreign)
    with Wire(foreign.resp) as wire:
        assert wire.command("AUTH", "weir_other") == b"+OK"
        for command in commands:
            assert wire.command(*command).startswith(b"-NOPERM expected a limit of user"), command
        for some in (commands[i:i + 100] for i in range(0, len(commands), 100)):
            wire.send(encode("MULTI") + b"".join(encode(*command) for command in some) + encode("EXEC"))
            assert wire.reply() == b"+OK"
            assert {wire.reply() for _ in some} == {b"+QUEUED"}
            for command, found in zip(some, wire.reply(), strict=True):
                assert found.startswith(b"-NOPERM expected a limit of user"), command
        # An unknown limit and an unreadable request are answered the same for all users.
        assert wire.command("WEIR.PEEK", "none", "k").startswith(b"-ERR expected the name of a limit")
        assert wire.command("CL.THROTTLE", "k", "x", 5, 60).startswith(b"-ERR expected max_burst")
        assert wire.command("CL.THROTTLE", "k", 9, 10**18, 1).startswith(b"-ERR ")
        assert wire.command("WEIR.SHED", "none", 0.1).startswith(b"-ERR expected the name of a limit")
        assert wire.command("WEIR.ACQUIRE", "own", "k", "COST", 8).startswith(b"-ERR ")
    assert shown(foreign) == before


def test_no_route_reveals_a_limit_that_its_user_may_not_use(foreign):
    requests = list(foreign_requests())
    asked = {path.split("?")[0] for _, path, _ in requests}
    asked |= {"/v1/acquire/", "/v1/peek/", "/v1/batch", "/multi/browse", "/auth", "/auth/"}
    assert all_are_covered(asked, "test_every_route_has_methods_and_a_class")
    before = shown(foreign)
    headers = {"Authorization": "Bearer weir_other"}
    with Http(foreign.http) as client:
        for method, path, body in requests:
            answer = client.request(method, path, json.dumps(body) if body else None, headers)
            assert answer.status == 403, (method, path, body, answer.text)
        items = [body for _, path, body in requests if path == "/v1/acquire"]
        for answer in client.request("POST", "/v1/batch", json.dumps(items), headers).json:
            assert answer["error"]["code"] == "forbidden"
        [item] = client.request("GET", f"/multi/browse?{ARGS}", None, headers).json
        assert "expected a limit of user 'other'" in str(item)
        proxied = {"Weir-Authorization": "Bearer weir_other"}
        for target in ("/auth", "/auth/x"):
            for address in ("10.0.0.1", "10.0.0.2"):
                visit = {"X-Original-URI": "/both", "X-Forwarded-For": address}
                assert client.request("GET", target, None, {**proxied, **visit}).status == 500
        assert client.request("POST", "/v1/acquire", json.dumps({"limit": "own", "key": "k", "cost": 8}),
                              headers).status == 400
        assert client.request("POST", "/v1/acquire", json.dumps({"limit": "none", "key": "k"}),
                              headers).status == 404
        # A rule that answers by itself has no limit that the user may not use.
        assert client.request("GET", "/rule/browse_complete?path=/white", None, headers).status == 200
    assert shown(foreign) == before


SECRETS["other"] = "weir_other"


# ---- Logins -------------------------------------------------------------------------------------

def test_a_resp_connection_is_logged_in_until_reset(users):
    with Wire(users.resp) as wire:
        wire.send(b"ACL WHOAMI\nAUTH weir_asker\nACL WHOAMI\nAUTH admin x\nACL WHOAMI\n"
                  b"AUTH everything all\nACL WHOAMI\nWEIR.PEEK login k\nRESET\nACL WHOAMI\n")
        assert wire.reply().startswith(b"-NOAUTH")
        assert [wire.reply(), wire.reply()] == [b"+OK", b"asker"]
        assert wire.reply().startswith(b"-WRONGPASS")
        assert [wire.reply(), wire.reply(), wire.reply()] == [b"asker", b"+OK", b"everything"]
        assert wire.reply()[0] == 1
        assert wire.reply() == b"+RESET"
        assert wire.reply().startswith(b"-NOAUTH")
        assert wire.command("HELLO", 3, "AUTH", "asker", "wrong").startswith(b"-WRONGPASS")
        assert wire.command("HELLO", 4, "AUTH", "asker", "weir_asker").startswith(b"-NOPROTO")
        assert wire.command("ACL", "WHOAMI").startswith(b"-NOAUTH")


def test_each_request_over_http_has_its_own_user(users):
    with Http(users.http) as client:
        def status(value):
            headers = {} if value is None else {"Authorization": value}
            return client.request("GET", "/v1/limits", None, headers).status

        assert [status(basic("admin", "pass: word")), status(None), status(basic("admin", "pass: word")),
                status(basic("admin", "pass:")), status("Bearer weir_asker"), status("Bearer weir_"),
                status(basic("asker", "weir_asker")), status(basic("admin", "weir_asker")),
                status(basic("", "weir_asker")), status("Digest x"), status("")] == [
                    200, 401, 200, 401, 403, 401, 403, 401, 403, 401, 401]
        answer = client.request("GET", "/v1/limits")
        assert answer.headers.get_all("WWW-Authenticate") == ["Bearer", 'Basic realm="weir", charset="UTF-8"']


def test_a_visitors_login_is_never_read_at_auth(serve):
    users = serve(config=CONFIG)  # of its own, as the log has few of such lines
    visit = {"X-Original-URI": "/login", "Authorization": authorization("everything")}
    answer = users.get("/auth", visit)
    assert answer.status == 500 and "WWW-Authenticate" not in answer.headers
    assert "by Weir-Authorization, its certificate or its account, found no login" in \
        users.line_with("proxy_refused")
    ours = {"X-Original-URI": "/login", "Authorization": "Basic eDp5",
            "Weir-Authorization": authorization("asker")}
    assert users.get("/auth", ours).status == 200
    assert users.get("/auth", {**ours, "X-Original-URI": "/page",
                               "Weir-Authorization": authorization("some")}).status == 500


def test_clients_of_redis_log_in(users):
    url = f"redis://everything:all@127.0.0.1:{users.resp}"
    for protocol in (2, 3):
        client = redis.Redis.from_url(url, protocol=protocol)
        assert client.execute_command("WEIR.PEEK", "login", "k")[0] == 1
        assert client.acl_whoami() in (b"everything", "everything")
    for protocol in (2, 3):  # with 3 redis-py also sends the name "default"
        client = redis.Redis(port=users.resp, password="weir_asker", protocol=protocol)
        assert client.acl_whoami() in (b"asker", "asker")
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis.Redis(port=users.resp, username="everything", password="x").ping()
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis.Redis(port=users.resp).execute_command("WEIR.PEEK", "login", "k")
    said = subprocess.run(["redis-cli", "-p", str(users.resp), "--user", "everything", "--pass", "all",
                           "--no-auth-warning", "ACL", "WHOAMI"], check=True, text=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE).stdout
    assert said.strip() == "everything"


def test_a_user_named_default_gets_logins_without_a_name_that_are_no_token(serve):
    server = serve(config=LIMITS + "users:\n" + user("default", password="all", may=ALL) + USERS["asker"])
    with Wire(server.resp) as wire:
        for login, name in ((["all"], b"default"), (["default", "all"], b"default"), (["weir_asker"], b"asker"),
                            (["default", "weir_asker"], b"asker")):
            assert wire.command("AUTH", *login) == b"+OK"
            assert wire.command("ACL", "WHOAMI") == name
        assert wire.command("AUTH", "other").startswith(b"-WRONGPASS")
        assert wire.command("AUTH", "default", "weir_askes").startswith(b"-WRONGPASS")


def test_both_logins_of_default_pass_after_wrong_ones(serve):
    """Both are one login, and a login that was right before passes despite failed guesses of its address."""
    server = serve(config=LIMITS + "users:\n" + user("default", password="all", may=ALL))
    with Wire(server.resp) as wire:
        assert wire.command("AUTH", "all") == b"+OK"
        assert wire.command("AUTH", "default", "all") == b"+OK"
        while b"too many wrong logins" not in wire.command("AUTH", "wrong"):
            pass
        for _ in range(3):
            assert wire.command("AUTH", "default", "all") == b"+OK"
            assert wire.command("AUTH", "all") == b"+OK"


def from_address(server, address, *words):
    """The reply to a command sent from an address of this machine."""
    with socket.create_connection(("127.0.0.1", server.resp), PATIENCE, (address, 0)) as client:
        client.sendall(encode(*words))
        return client.makefile("rb").readline()


def test_the_log_and_the_list_of_limits_name_the_user_who_switched(serve):
    server = serve(config=CONFIG)
    logins = [encode("AUTH", name, SECRETS[name]) for name in ("everything", "admin")]
    with Wire(server.resp) as wire:
        wire.send(b"".join(logins))  # so that both logins are cached
        assert [wire.file.readline() for _ in logins] == [b"+OK\r\n"] * 2
        wire.send(logins[0] + encode("WEIR.SHED", "relief", "0.1") + logins[1])  # all are decided in one iteration
        assert [wire.file.readline() for _ in range(3)] == [b"+OK\r\n"] * 3
    server.line_with("shed limit=relief deny=0.1 by=everything@127.0.0.1")
    headers = {"Authorization": authorization("admin")}
    force = json.dumps({"limit": "back", "key": "k", "state": "open"})
    with Http(server.http) as client:
        assert client.request("POST", "/v1/breaker", force, headers).status == 200
        limits = {limit["name"]: limit for limit in client.request("GET", "/v1/limits", None, headers).json}
    server.line_with("breaker_forced limit=back key=k state=open by=admin@127.0.0.1")
    assert limits["relief"]["switched"]["by"] == "everything@127.0.0.1"
    assert limits["back"]["breakers"][0]["switched"]["by"] == "admin@127.0.0.1"


def test_the_log_names_the_user_and_the_key_of_a_reset(serve):
    server = serve(config=CONFIG)
    headers = {"Authorization": authorization("everything")}

    def post(path, body):
        with Http(server.http) as client:
            return client.request("POST", path, json.dumps(body), headers)

    def use_flags(*words):
        return weir(*words, "--server", f"127.0.0.1:{server.resp}", "--user", "everything", env={"WEIR_PASSWORD": SECRETS["everything"]})

    def logged(limit, key):
        digest = post("/v1/key", {"key": key}).json["digest"] if key else '""'
        assert server.line_with(" reset ").endswith(f" info reset limit={limit} key={digest} by=everything@127.0.0.1")

    assert post("/v1/reset", {"limit": "login", "key": "http"}).status == 200
    logged("login", "http")
    assert post("/v1/batch", [{"op": "reset", "limit": "login", "key": ""}]).status == 200
    logged("login", "")
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode("AUTH", name, SECRETS[name]) for name in ("admin", "everything")))
        assert [wire.file.readline() for _ in range(2)] == [b"+OK\r\n"] * 2
        wire.send(encode("WEIR.RESET", "login", "resp") + encode("AUTH", "admin", SECRETS["admin"]))  # decided together
        assert len([wire.file.readline() for _ in range(9)]) == 9
        logged("login", "resp")
        wire.command("AUTH", "everything", SECRETS["everything"])
        wire.command("CL.THROTTLE", "k", "5", "1", "60")
        wire.command("DEL", "k", "no-such-key")  # the second has nothing to forget
        logged("CL.THROTTLE", "k")
    assert use_flags("reset", "login", "cli").returncode == 0
    logged("login", "cli")
    assert post("/v1/batch", [{"op": "reset", "limit": "login", "key": f"k{n}"} for n in range(300)]).status == 200
    with Http(server.http) as client:
        assert int(re.search(r"^weir_log_lines_dropped_total (\d+)", client.request("GET", "/metrics", None, headers).text, re.M)[1]) > 150
    assert server.stop() == 0
    server.line_with(" stopped")
    assert sum(" reset " in line for line in server.log) < 150


# ---- Reload -------------------------------------------------------------------------------------

def config_of(*users):
    return LIMITS + ("users:\n" + "".join(users) if users else "")


def test_a_reload_of_users_applies_to_open_connections(serve):
    server = serve(config=CONFIG)

    def reload(*users):
        server.reload(config_of(*users))
        server.line_with("reloaded")

    with Wire(server.resp) as wire, Http(server.http) as client:
        def may(right="ask"):
            command = {"ask": ["WEIR.PEEK", "login", "k"], "change": ["WEIR.RESET", "login", "k"]}[right]
            found = wire.command(*command)
            method, path, body = ROUTES["/v1/peek" if right == "ask" else "/v1/reset"]
            status = client.request(method, path, json.dumps(body), {"Authorization": basic("everything", "all")}).status
            return found[:7] if isinstance(found, bytes) else "yes", status

        assert wire.command("AUTH", "everything", "all") == b"+OK"
        assert may("change") == ("yes", 200)
        # Other permissions with the same password and salt.
        reload(USERS["everything"].replace("change, ", ""))
        assert may("change") == (b"-NOPERM", 403)
        assert may("ask") == ("yes", 200)
        reload(USERS["everything"].replace(" }", ", limits: [window] }"))
        assert may("ask") == (b"-NOPERM", 403)
        reload(user("everything", password="another", may=ALL))
        assert may("ask") == (b"-NOAUTH", 401)
        reload(USERS["everything"])
        assert may("ask") == ("yes", 200)  # no other user has logged in meanwhile
        reload(USERS["asker"])
        assert may("ask") == (b"-NOAUTH", 401)
        assert wire.command("AUTH", "weir_asker") == b"+OK"
        assert may("ask")[0] == "yes"
        # Without users `protected` decides.
        reload()
        assert may("change") == ("yes", 200)
        assert wire.command("ACL", "WHOAMI") == b"default"
        reload(USERS["asker"])
        assert may("ask") == (b"-NOAUTH", 401)


def test_a_token_is_changed_without_an_outage(serve):
    """As docs/security.md describes: the new token has its own name for a while."""
    old, new = (user(name, token=f"weir_{name}", may=["ask"]) for name in ("old", "new"))
    server = serve(config=config_of(old))

    def logs_in(name):
        return from_address(server, "127.0.0.1", "AUTH", f"weir_{name}") == b"+OK\r\n"

    with Wire(server.resp) as wire:
        assert wire.command("AUTH", "weir_old") == b"+OK"
        assert (logs_in("old"), logs_in("new")) == (True, False)
        server.reload(config_of(old, new))
        server.line_with("reloaded")
        assert (logs_in("old"), logs_in("new")) == (True, True)
        assert wire.command("ACL", "WHOAMI") == b"old"
        server.reload(config_of(new))
        server.line_with("reloaded")
        assert (logs_in("old"), logs_in("new")) == (False, True)
        assert wire.command("WEIR.PEEK", "login", "k").startswith(b"-NOAUTH")


def test_a_reload_that_removes_all_users_is_a_warning(serve):
    server = serve("--http", "0.0.0.0:0", "--resp", "127.0.0.1:0", ports=False, config=CONFIG)
    assert not [line for line in server.log if "exposed" in line]
    unprotected = "protected: no\n" + config_of()

    def networks(text):
        return f"protected: [{text}]\n" + config_of()

    for text, is_exposed in ((config_of(), True), (config_of() + "# more\n", False), (CONFIG, False), (unprotected, True),
                       (unprotected + "# more\n", False), (config_of(), False), (unprotected, True),
                       (networks("10.0.0.0/8"), False), (networks("10.0.0.0/8, 10.1.0.0/16"), False),
                       (networks("10.0.0.0/8, 192.168.0.0/16"), True), (networks("10.1.0.0/16"), False),
                       (networks("10.0.0.0/15"), True), (config_of(), False), (networks("10.1.0.0/16"), True)):
        begins = len(server.log)
        server.reload(text)
        server.line_with("reloaded")
        assert sum("exposed listener=http" in line for line in server.log[begins:]) == is_exposed, text


@pytest.mark.parametrize("after", [(USERS["everything"],), (USERS["admin"].replace(" }", ", limits: [login] }"),)],
                         ids=["gone", "with limits"])
def test_a_stream_of_events_ends_when_its_user_loses_the_permission(serve, after):
    server = serve(config=CONFIG)
    with Wire(server.http) as wire:
        wire.send(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
                  f"Authorization: {authorization('admin')}\r\n\r\n".encode())
        assert b" 200 " in wire.file.readline()
        server.reload(config_of(USERS["everything"], USERS["admin"]))
        until(lambda: b"reloaded" in wire.file.readline(), "an event")
        server.reload(config_of(*after))
        assert b"event: reloaded" not in wire.file.read()  # that event would be after the end


@pytest.mark.parametrize("limit", ["place", "turn"])
def test_a_pending_request_ends_when_its_user_is_removed(serve, limit):
    """Its connection closes, and other requests stay pending."""
    limits = """limits:
  place: { algorithm: concurrency, max: 1, lease: 1h }
  turn: { algorithm: pacer, rate: 6/h, slack: 0, max_wait: 1h }
users:
"""
    others = USERS["everything"] + USERS["changer"]
    server = serve(config=limits + USERS["asker"] + others)
    asks = encode("WEIR.ACQUIRE", limit, "k", "WAIT", 3_600_000)

    def waiting(n):
        text = server.get("/metrics", {"Authorization": authorization("everything")}).text
        return f"\nweir_answers_pending {n}\n" in text

    with Wire(server.resp) as first, Wire(server.resp) as stays, Wire(server.resp) as gone, \
            Wire(server.http) as gone_too:
        first.command("AUTH", "everything", "all")
        stays.command("AUTH", "everything", "all")
        gone.command("AUTH", "weir_asker")
        permit = first.command("WEIR.ACQUIRE", limit, "k", "PERMIT")[6]
        stays.send(asks)
        until(lambda: waiting(1), "the first to wait")
        gone.send(asks)
        gone_too.send(f"GET /v1/acquire/{limit}?key=k&wait_ms=3600000 HTTP/1.1\r\nHost: localhost\r\n"
                      f"Authorization: {authorization('asker')}\r\n\r\n".encode())
        until(lambda: waiting(3), "all to wait")
        server.reload(limits + others)
        assert gone.rest() == gone_too.rest() == b""
        until(lambda: waiting(1), "one to wait on")
        if limit == "place":
            first.command("WEIR.REPORT", permit, "success")
            assert stays.reply()[0] == 1


def test_no_secret_appears_in_logs_or_answers(serve):
    server = serve(config=CONFIG)
    with Wire(server.resp) as wire:
        wire.command("AUTH", "everything", "s3cret")
        wire.command("HELLO", 3, "AUTH", "everything", "s3cret")
    answer = server.get("/metrics", {"Authorization": basic("everything", "s3cret")})
    assert "s3cret" not in answer.text
    for path in ("/metrics", "/v1/limits", "/v1/top", "/v1/denials", "/v1/status", "/dump/policy"):
        text = server.get(path, {"Authorization": basic("everything", "all")}).text
        assert not re.search(r"s3cret|\$y\$|weir_asker", text)
    assert server.stop() == 0
    until(lambda: server.lines.queue and server.lines.queue[-1] is None, "the end of its log")
    assert not re.search(r"s3cret|\$y\$|weir_", "".join(map(str, server.lines.queue)))
