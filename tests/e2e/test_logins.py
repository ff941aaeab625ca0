"""Logins: what guessing brings, what waits for its hash, and who is there by an account."""

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


def test_guessing_is_slowed_down_by_failures_of_the_address_alone(serve):
    server = serve("--threads", "1", config=CONFIG)
    guess = ["AUTH", "everything", "guess"]
    assert from_address(server, "127.0.0.2", "AUTH", "everything", "all") == b"+OK\r\n"
    for _ in range(10):
        assert from_address(server, "127.0.0.2", *guess).startswith(b"-WRONGPASS expected the token")
    slowed = from_address(server, "127.0.0.2", *guess)
    assert re.match(rb"-WRONGPASS too many wrong logins from this address: try again in [1-6] s", slowed)
    told = server.line_with("login_refused")
    assert " warning login_refused listener=resp peer=127.0.0.2 too many wrong logins" in told
    # Tokens count, too; what is known passes; others have failures of their own.
    assert b"too many" in from_address(server, "127.0.0.2", "AUTH", "weir_guess")
    assert from_address(server, "127.0.0.2", "AUTH", "everything", "all") == b"+OK\r\n"
    assert from_address(server, "127.0.0.2", "AUTH", "weir_asker") == b"+OK\r\n"
    assert b"too many" not in from_address(server, "127.0.0.3", *guess)
    # A login that is right costs nothing, however often.
    for _ in range(30):
        assert from_address(server, "127.0.0.4", "AUTH", "admin", "pass: word") == b"+OK\r\n"
    # Who guesses can't fill the log.
    assert server.stop() == 0
    assert not [line for line in server.lines.queue if line and "login_refused" in line]

def test_what_anybody_may_ask_is_no_guess(serve):
    """Whatever it brings along: a page may ask it that has a login of its own."""
    server = serve(config=CONFIG)
    wrong = {"Authorization": "Basic " + base64.b64encode(b"everything:guess").decode()}
    for path in 15 * ["/healthz", "/readyz"]:
        assert server.get(path, wrong).status == 200
    assert b"too many" not in from_address(server, "127.0.0.1", "AUTH", "everything", "guess")


def test_a_user_that_is_not_there_takes_as_long_and_says_the_same(users):
    def refusal(name):
        return from_address(users, "127.0.0.5", "AUTH", name, "guess")

    assert refusal("nobody") == refusal("everything") == refusal("asker")
    # Nor is it the user whose hash is computed for it, whoever that is.
    for name in ("nobody", "asker", "default"):
        for secret in ("all", "pass: word"):
            found = from_address(users, "127.0.0.6", "AUTH", name, secret)
            assert found.startswith(b"-WRONGPASS expected the token"), (name, secret)

def test_a_secret_is_right_as_a_whole(users):
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
    """The whole of its log, once it has ended."""
    assert server.stop() == 0
    until(lambda: server.lines.queue and server.lines.queue[-1] is None, "the end of its log")
    return server.log + [line for line in server.lines.queue if line]


@pytest.mark.parametrize("login, told", [
    (None, "expected a proxy that is a user, by Weir-Authorization, its certificate or its account, found no login"),
    (authorization("changer"), "expected a user who may ask, found 'changer'"),
    ("Bearer weir_wrong", "expected the token, or the name and the password, of a user, found others")])
def test_a_proxy_that_is_refused_is_told_once_why(serve, login, told):
    server = serve("--threads", "1", config=CONFIG)
    for _ in range(5):
        assert server.get("/auth", {"Weir-Authorization": login} if login else {}).status == 500
    lines = [line for line in all_lines(server) if "proxy_refused" in line]
    assert len(lines) == 1 and lines[0].endswith(f" warning proxy_refused peer=127.0.0.1 {told}"), lines


@pytest.mark.parametrize("form", ["text", "json"])
def test_who_somebody_says_he_is_stays_out_of_the_log(serve, form):
    """People type a password where a name belongs; and a name may hold anything."""
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


@pytest.mark.parametrize("text, told", [
    ("weir_some\n", None), ("weir_some\nits hash\n", None), ("some:weir_some", None),
    ("everything:all\n", None), ("asker:weir_asker\r\n", None),
    ("weir_wrong", "weir ask: WRONGPASS expected the token, or the name and the password, of a user"),
    ("\n", "weir ask: WRONGPASS expected the token"),
    ("changer:weir_changer", "weir ask: NOPERM expected a user who may ask, found 'changer'"),
    ("x" * 3000, "weir ask: WRONGPASS"), ("x" * 2000000, "weir ask: --login: "), (None, "weir ask: --login: "),
])
def test_ask_logs_in(users, tmp_path, text, told):
    file = tmp_path / "login"
    if text is not None:
        file.write_bytes(text.encode())
    server = f"127.0.0.1:{users.resp}"
    done = weir("ask", "login", "asked", "--peek", "--server", server, "--login", file)
    assert (done.returncode, done.stderr.startswith(told or "login asked: allowed")) == (2, True) if told else \
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


@pytest.mark.parametrize("protocol, told", [
    ("resp", "weir bench: WRONGPASS expected the token"),
    ("http", "weir bench: error reply: HTTP/1.1 401 Unauthorized"),
])
def test_bench_tells_of_a_wrong_login(users, tmp_path, protocol, told):
    file = tmp_path / "login"
    arguments = ["bench", "--server", f"127.0.0.1:{getattr(users, protocol)}", "--protocol", protocol,
                 "--limit", "login", "--connections", "1", "--requests", "1", "--login", file]
    missing = weir(*arguments)
    assert missing.returncode == 2 and missing.stderr.startswith(f"weir bench: --login: {file}: "), missing
    file.write_text("everything:s3cret")
    done = weir(*arguments)
    assert done.returncode == 2 and re.search(told, done.stderr), done
    assert "s3cret" not in done.stdout + done.stderr


# ---- Passwords that wait for their hash ----------------------------------------------------------

SLOW = user("slow", password="x", may=["ask"], parameters="jBT")


def test_logins_that_wait_are_bounded(serve):
    server = serve("--threads", "1", config=config_of(SLOW, USERS["asker"]))
    clients = [socket.create_connection(("127.0.0.1", server.resp), PATIENCE, (f"127.0.1.{i}", 0))
               for i in range(150)]
    told = {client: b"" for client in clients}
    for client in clients:
        client.sendall(LOGINS * b"AUTH slow guess\n")
        client.setblocking(False)
    # Meanwhile others log in, and are served.
    assert from_address(server, "127.0.0.1", "AUTH", "weir_asker") == b"+OK\r\n"
    until(lambda: any(is_charged_nothing(client, told) for client in clients), "an address without a place")
    for client in clients:
        client.close()
    # What is computed for clients that have left does nobody harm.
    until(lambda: from_address(server, "127.0.3.1", "AUTH", "slow", "x") == b"+OK\r\n", "a place among them")


LOGINS = 12  # more than an address may fail


def is_charged_nothing(client, told):
    """Whether all its logins were refused since too many wait: that is no failure of its own. The client
    of an address whose login found a place is told nothing until that is computed."""
    with contextlib.suppress(BlockingIOError):
        told[client] += client.recv(4096)
    return told[client].count(b"too many logins wait") == LOGINS


def test_connections_that_end_while_they_wait(serve):
    """Those beyond `connections` make room for others."""
    server = serve("--threads", "1", config="connections: 1\n" + config_of(SLOW, USERS["asker"]))
    clients = [Wire(server.resp)]
    for i in range(60):
        clients.append(socket.create_connection(("127.0.0.1", server.resp), PATIENCE, (f"127.0.1.{i}", 0)))
        clients[-1].sendall(encode("AUTH", "slow", "x"))
    until(lambda: from_address(server, "127.0.3.1", "AUTH", "slow", "x") == b"+OK\r\n", "a place among them")


def cpu_seconds_of_ended():
    """Of all processes that this one has started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_server_that_stops_computes_no_more(serve):
    """Else those that guess decide how long it takes."""
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
            assert found == b"+OK" or found.startswith(reply), found  # it was computed before the reload, or not
            assert wire.command("AUTH", "slow", "x").startswith(reply)


# ---- Accounts of a Unix socket -------------------------------------------------------------------

ME = f"  - {{ name: me, unix: {getpass.getuser()}, may: [ask, change] }}\n"


@pytest.fixture
def at_unix():
    """A server at Unix sockets that others may connect to, and their directory."""
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
    """What a client of that account gets for each command. An array may come last: its first line is told."""
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
def test_another_account_is_not(at_unix):
    nobody = ["setpriv", "--reuid=nobody", "--clear-groups"]
    found = at_socket(at_unix[1], "WEIR.PEEK login k", "ACL WHOAMI", "AUTH weir_asker", "ACL WHOAMI", account=nobody)
    assert [line.split()[0] for line in found] == ["-NOAUTH", "-NOAUTH", "+OK", "asker"]


def test_the_same_account_at_a_port_is_not(serve):
    server = serve(config=config_of(ME))
    assert from_address(server, "127.0.0.1", "WEIR.PEEK", "login", "k").startswith(b"-NOAUTH")
    assert server.get("/v1/peek/login?key=k").status == 401
