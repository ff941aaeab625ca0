"""Logins: failed guesses slow an address down, passwords wait for their hash, accounts of Unix sockets are users."""

import base64
import contextlib
import getpass
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time

import pytest
from harness import PATIENCE, Server, Wire, cpu_seconds, encode, until, weir
from test_users import (CONFIG, TLS, USERS, authorization, config_of, from_address, make_certificate, user,
                        users)  # pylint: disable=unused-import


def test_failed_logins_slow_down_guesses_of_their_address_alone(serve):
    server = serve("--threads", "1", config=CONFIG)
    guess = ["AUTH", "everything", "guess"]
    assert from_address(server, "127.0.0.2", "AUTH", "everything", "all") == b"+OK\r\n"
    for _ in range(10):
        assert from_address(server, "127.0.0.2", *guess).startswith(b"-WRONGPASS expected the token")
    slowed = from_address(server, "127.0.0.2", *guess)
    assert re.match(rb"-WRONGPASS too many wrong logins from this address: try again in [1-6] s", slowed)
    message = server.line_with("login_refused")
    assert " warning login_refused listener=resp peer=127.0.0.2 too many wrong logins" in message
    # Tokens are refused as well; logins that were right before pass; other addresses have their own failures.
    assert b"too many" in from_address(server, "127.0.0.2", "AUTH", "weir_guess")
    assert from_address(server, "127.0.0.2", "AUTH", "everything", "all") == b"+OK\r\n"
    assert from_address(server, "127.0.0.2", "AUTH", "weir_asker") == b"+OK\r\n"
    assert b"too many" not in from_address(server, "127.0.0.3", *guess)
    # Correct logins are not counted.
    for _ in range(30):
        assert from_address(server, "127.0.0.4", "AUTH", "admin", "pass: word") == b"+OK\r\n"
    # Further guesses are not logged.
    assert server.stop() == 0
    assert not [line for line in server.lines.queue if line and "login_refused" in line]

def test_a_wrong_login_at_a_public_path_is_not_counted_as_a_guess(serve):
    """A page with a login of its own may ask for such a path."""
    server = serve(config=CONFIG)
    wrong = {"Authorization": "Basic " + base64.b64encode(b"everything:guess").decode()}
    for path in 15 * ["/healthz", "/readyz"]:
        assert server.get(path, wrong).status == 200
    assert b"too many" not in from_address(server, "127.0.0.1", "AUTH", "everything", "guess")


def test_an_unknown_user_gets_the_same_refusal_as_a_wrong_password(users):
    def refusal(name):
        return from_address(users, "127.0.0.5", "AUTH", name, "guess")

    assert refusal("nobody") == refusal("everything") == refusal("asker")
    # For an unknown name the hash of some user is computed; its password must not be accepted.
    for name in ("nobody", "asker", "default"):
        for secret in ("all", "pass: word"):
            found = from_address(users, "127.0.0.6", "AUTH", name, secret)
            assert found.startswith(b"-WRONGPASS expected the token"), (name, secret)

def test_a_secret_must_match_as_a_whole(users):
    for secret in (b"all\0", b"all\0more", b"al", b"all ", b"All"):
        assert from_address(users, "127.0.0.7", "AUTH", "everything", secret).startswith(b"-WRONGPASS"), secret
    assert from_address(users, "127.0.0.7", "AUTH", "asker", b"weir_asker\0").startswith(b"-WRONGPASS")
    assert from_address(users, "127.0.0.7", "AUTH", b"everything\0", "all").startswith(b"-WRONGPASS")

def test_a_login_of_any_length_is_refused(users):
    for size in 511, 512, 513, 5000, 50000:
        for login in ["everything", "x" * size], ["x" * size, "all"], ["x" * size]:
            assert from_address(users, "127.0.0.8", "AUTH", *login).startswith(b"-WRONGPASS"), size
    assert from_address(users, "127.0.0.9", "AUTH", "everything", "all") == b"+OK\r\n"


def all_lines(server):
    """Stops the server and returns all lines of its log."""
    assert server.stop() == 0
    until(lambda: server.lines.queue and server.lines.queue[-1] is None, "the end of its log")
    return server.log + [line for line in server.lines.queue if line]


@pytest.mark.parametrize("login, message", [
    (None, "expected a proxy that is a user, by Weir-Authorization, its certificate or its account, found no login"),
    (authorization("changer"), "expected a user who may ask, found 'changer'"),
    ("Bearer weir_wrong", "expected the token, or the name and the password, of a user, found others")])
def test_the_reason_why_a_proxy_was_refused_is_logged_once(serve, login, message):
    server = serve("--threads", "1", config=CONFIG)
    for _ in range(5):
        assert server.get("/auth", {"Weir-Authorization": login} if login else {}).status == 500
    lines = [line for line in all_lines(server) if "proxy_refused" in line]
    assert len(lines) == 1 and lines[0].endswith(f" warning proxy_refused peer=127.0.0.1 {message}"), lines


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_name_of_a_failed_login_is_not_logged(serve, form):
    """Users type passwords in place of names, and a name may contain any bytes."""
    server = serve("--threads", "1", "--log", form, config=CONFIG)
    for name in "s3cret", 's3cret"', "s3cret\n2026-05-01T12:00:00.123Z info reloaded", "s3cret" * 80:
        for _ in range(5):
            assert from_address(server, "127.0.0.1", "AUTH", name, "guess").startswith(b"-WRONGPASS")
        login = "Basic " + base64.b64encode(f"{name}:guess".encode()).decode()
        for header in "Authorization", "Weir-Authorization":
            assert server.get("/auth", {header: login}).status == 500
    lines = all_lines(server)
    assert any("login_refused" in line for line in lines) and any("proxy_refused" in line for line in lines)
    assert not [line for line in lines if re.search("s3cret|guess|reloaded", line)]


@pytest.mark.parametrize("text, message", [
    ("weir_some\n", None), ("weir_some\nits hash\n", None), ("some:weir_some", None),
    ("everything:all\n", None), ("asker:weir_asker\r\n", None),
    ("weir_wrong", "weir ask: WRONGPASS expected the token, or the name and the password, of a user"),
    ("\n", "weir ask: WRONGPASS expected the token"),
    ("changer:weir_changer", "weir ask: NOPERM expected a user who may ask, found 'changer'"),
    ("x" * 3000, "weir ask: WRONGPASS"), ("x" * 2000000, "weir ask: --login: "), (None, "weir ask: --login: "),
])
def test_ask_logs_in(users, tmp_path, text, message):
    file = tmp_path / "login"
    if text is not None:
        file.write_bytes(text.encode())
    server = f"127.0.0.1:{users.resp}"
    done = weir("ask", "login", "asked", "--peek", "--server", server, "--login", file)
    assert (done.returncode, done.stderr.startswith(message or "login asked: allowed")) == (2, True) if message else \
           (done.returncode, done.stdout.startswith("login asked: allowed")) == (0, True), done
    assert "NOAUTH" in weir("ask", "login", "asked", "--peek", "--server", server).stderr


@pytest.mark.parametrize("protocol", ["resp", "http"])
@pytest.mark.parametrize("text", ["weir_asker\n", "asker:weir_asker", "everything:all"])
def test_bench_logs_in(users, tmp_path, protocol, text):
    file = tmp_path / "login"
    file.write_text(text)
    arguments = ["bench", "--server", f"127.0.0.1:{getattr(users, protocol)}", "--protocol", protocol,
                 "--limit", "login", "--connections", "3", "--requests", "30", "--json"]
    done = weir(*arguments, "--login", file)
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stdout)[found] for found in ("allowed", "denied")) == 30, done.stdout
    refused = weir(*arguments)
    assert refused.returncode == 2 and re.search("NOAUTH|401", refused.stderr), refused


@pytest.mark.parametrize("kind", ["tls", "unix"])
def test_bench_logs_in_over_tls_and_at_a_unix_socket(serve, tmp_path, kind):
    make_certificate(tmp_path)
    (tmp_path / "login").write_text("everything:all")
    if kind == "tls":
        server = serve(config=TLS + CONFIG)
        ways = {protocol: [f"127.0.0.1:{getattr(server, protocol)}", "--tls", "--cacert", tmp_path / "cert.pem",
                           "--sni", "weir"] for protocol in ("http", "resp")}
    else:
        ways = {protocol: [f"unix:{tmp_path}/{protocol}"] for protocol in ("http", "resp")}
        serve("--http", ways["http"][0], "--resp", ways["resp"][0], ports=False, config=CONFIG)
    for protocol, way in ways.items():
        arguments = ["bench", "--protocol", protocol, "--limit", "login", "--connections", "2", "--requests",
                     "20", "--server", *way]
        done = weir(*arguments, "--login", tmp_path / "login")
        assert done.returncode == 0, done.stderr
        assert re.search("NOAUTH|401", weir(*arguments).stderr)


@pytest.mark.parametrize("protocol, message", [
    ("resp", "weir bench: WRONGPASS expected the token"),
    ("http", "weir bench: error reply: HTTP/1.1 401 Unauthorized"),
])
def test_bench_reports_a_wrong_login(users, tmp_path, protocol, message):
    file = tmp_path / "login"
    arguments = ["bench", "--server", f"127.0.0.1:{getattr(users, protocol)}", "--protocol", protocol,
                 "--limit", "login", "--connections", "1", "--requests", "1", "--login", file]
    missing = weir(*arguments)
    assert missing.returncode == 2 and missing.stderr.startswith(f"weir bench: --login: {file}: "), missing
    file.write_text("everything:s3cret")
    done = weir(*arguments)
    assert done.returncode == 2 and re.search(message, done.stderr), done
    assert "s3cret" not in done.stdout + done.stderr


# ---- Passwords that wait for their hash ----------------------------------------------------------

SLOW = user("slow", password="x", may=["ask"], parameters="jBT")


def test_the_number_of_pending_logins_is_bounded(serve):
    server = serve("--threads", "1", config=config_of(SLOW, USERS["asker"]))
    clients = [socket.create_connection(("127.0.0.1", server.resp), PATIENCE, (f"127.0.1.{i}", 0))
               for i in range(150)]
    received = {client: b"" for client in clients}
    for client in clients:
        client.sendall(LOGINS * b"AUTH slow guess\n")
        client.setblocking(False)
    # Meanwhile other clients log in and are served.
    assert from_address(server, "127.0.0.1", "AUTH", "weir_asker") == b"+OK\r\n"
    until(lambda: any(is_refused_as_too_many_pending(client, received) for client in clients), "an address without a place")
    for client in clients:
        client.close()
    # Hashes for disconnected clients delay no other login for long.
    until(lambda: from_address(server, "127.0.3.1", "AUTH", "slow", "x") == b"+OK\r\n", "a place among them")


LOGINS = 12  # more failures than an address may have


def is_refused_as_too_many_pending(client, received):
    """Whether all logins of a client were refused since too many are pending, which counts no failure. A client
    whose login is pending gets no answer until its hash is computed."""
    with contextlib.suppress(BlockingIOError):
        received[client] += client.recv(4096)
    return received[client].count(b"too many logins wait") == LOGINS


def test_connections_that_end_free_their_pending_logins(serve):
    """Connections beyond `connections` end, so that other logins can be pending."""
    server = serve("--threads", "1", config="connections: 1\n" + config_of(SLOW, USERS["asker"]))
    clients = [Wire(server.resp)]
    for i in range(60):
        clients.append(socket.create_connection(("127.0.0.1", server.resp), PATIENCE, (f"127.0.1.{i}", 0)))
        clients[-1].sendall(encode("AUTH", "slow", "x"))
    until(lambda: from_address(server, "127.0.3.1", "AUTH", "slow", "x") == b"+OK\r\n", "a place among them")


def cpu_seconds_of_ended():
    """CPU seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_server_that_stops_computes_no_more_hashes(serve):
    """If it did, clients that guess could delay the exit."""
    server = serve("--threads", "1", config=config_of(user("slow", password="x", may=["ask"], parameters="jDT")))
    before = cpu_seconds(server)
    assert from_address(server, "127.0.0.1", "AUTH", "slow", "x") == b"+OK\r\n"
    one = cpu_seconds(server) - before
    clients = []
    for i in range(60):
        clients.append(socket.create_connection(("127.0.0.1", server.resp), PATIENCE, (f"127.0.1.{i}", 0)))
        clients[-1].sendall(encode("AUTH", "slow", "guess"))
    others = cpu_seconds_of_ended()
    assert server.stop() == 0
    assert cpu_seconds_of_ended() - others - before < 20 * one


@pytest.mark.parametrize("then, reply", [
    (SLOW, b"+OK"), (SLOW.replace("slow", "other"), b"-WRONGPASS"), (USERS["asker"], b"-WRONGPASS")],
    ids=["stays", "renamed", "gone"])
def test_a_reload_while_passwords_wait(serve, then, reply):
    server = serve(config=config_of(SLOW))
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.resp)) for _ in range(3)]
        for wire in wires:
            wire.send(encode("AUTH", "slow", "x"))
        server.reload(config_of(then))
        server.line_with("reloaded")
        for wire in wires:
            found = wire.reply()
            assert found == b"+OK" or found.startswith(reply), found  # the hash was computed before the reload or after it
            assert wire.command("AUTH", "slow", "x").startswith(reply)


# ---- Accounts of a Unix socket -------------------------------------------------------------------

ME = f"  - {{ name: me, unix: {getpass.getuser()}, may: [ask, change] }}\n"


@pytest.fixture
def at_unix():
    """(a server at Unix sockets that all accounts may connect to, the directory of the sockets)"""
    with tempfile.TemporaryDirectory(prefix="weir-logins-") as place:
        os.chmod(place, 0o755)
        listen = "".join(f"  {name}: {{ path: {place}/{name}.sock, mode: 0666 }}\n" for name in ("http", "resp"))
        server = Server(config=f"listen:\n{listen}{config_of(ME, USERS['asker'])}", directory=place, ports=False)
        yield server, place
        assert server.stop() == 0


SAY = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
file = client.makefile("rb")
for command in sys.argv[2:]:
    client.sendall(command.encode() + b"\\r\\n")
    line = file.readline()
    print((file.readline() if line[:1] == b"$" else line).decode().strip())
"""


def at_socket(place, *commands, account=()):
    """The reply to each command of a client of that account; of an array, which must be last, its first line."""
    return subprocess.run([*account, sys.executable, "-c", SAY, f"{place}/resp.sock", *commands], check=True,
                          text=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout.splitlines()


def test_an_account_at_a_unix_socket_is_a_login(at_unix):
    server, place = at_unix
    assert at_socket(place, "ACL WHOAMI", "AUTH weir_asker", "ACL WHOAMI", "WEIR.RESET login k", "RESET",
                     "ACL WHOAMI", "WEIR.PEEK login k") == [
                         "me", "+OK", "asker", "-NOPERM expected a user who may change, found 'asker'", "+RESET",
                         "me", "*7"]
    server.reload(server.config.read_text().replace("may: [ask, change]", "may: [change]"))
    server.line_with("reloaded")
    assert at_socket(place, "WEIR.PEEK login k") == ["-NOPERM expected a user who may ask, found 'me'"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_another_account_at_a_unix_socket_is_no_login(at_unix):
    nobody = ["setpriv", "--reuid=nobody", "--clear-groups"]
    found = at_socket(at_unix[1], "WEIR.PEEK login k", "ACL WHOAMI", "AUTH weir_asker", "ACL WHOAMI", account=nobody)
    assert [line.split()[0] for line in found] == ["-NOAUTH", "-NOAUTH", "+OK", "asker"]


def test_the_same_account_at_a_port_is_no_login(serve):
    server = serve(config=config_of(ME))
    assert from_address(server, "127.0.0.1", "WEIR.PEEK", "login", "k").startswith(b"-NOAUTH")
    assert server.get("/v1/peek/login?key=k").status == 401
