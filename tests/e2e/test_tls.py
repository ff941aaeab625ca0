"""TLS of the listeners: accepted certificates and versions, certificates as logins, and reloads."""

import http.client
import json
import os
import re
import socket
import ssl
import subprocess

import pytest
import redis
from harness import PATIENCE, Http, Wire, encode, until, weir

LIMITS = """
limits:
  login: { algorithm: token_bucket, rate: 1000/h }
"""


def openssl(directory, *words):
    return subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A directory with two authorities and certificates of servers and clients that they signed."""
    directory = tmp_path_factory.mktemp("tls")
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for name in "right", "wrong":
        openssl(directory, *new, "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN={name}")
    for name, authority, names in (
            ("server", "right", "IP:127.0.0.1,DNS:localhost"), ("next", "right", "IP:127.0.0.1,DNS:next"),
            ("client", "right", "email:shop@example.com,DNS:shop.example.com,URI:spiffe://shop"),
            ("foreign", "wrong", "email:shop@example.com")):
        openssl(directory, *new, "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN={name}-of-{authority}", "-addext", f"subjectAltName={names}", "-addext",
                "basicConstraints=critical,CA:false", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key")
    openssl(directory, "req", "-new", "-key", "client.key", "-out", "old.csr", "-subj", "/CN=old")
    openssl(directory, "x509", "-req", "-in", "old.csr", "-CA", "right.pem", "-CAkey", "right.key",
            "-CAcreateserial", "-out", "old.pem", "-days", "-1")
    return directory


def config(certificates, more="", cert="server", clients="none", users=""):
    return (f"tls: {{ cert: {certificates}/{cert}.pem, key: {certificates}/{cert}.key, ca: {certificates}/right.pem, "
            f"clients: {clients}{more} }}\n{LIMITS}{users}")


def trusting(certificates, cert=None, key=None, ca="right", version=None):
    context = ssl.create_default_context(cafile=certificates / f"{ca}.pem")
    if cert:
        context.load_cert_chain(certificates / f"{cert}.pem", certificates / f"{key or cert}.key")
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def wrapped(port, context):
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE),
                               server_hostname="127.0.0.1")


def command(client, *words):
    client.sendall(encode(*words))
    return client.recv(4096)


def https(server, context, path="/v1/peek/login?key=k"):
    client = http.client.HTTPSConnection("127.0.0.1", server.http, timeout=PATIENCE, context=context)
    client.request("GET", path)
    answer = client.getresponse()
    return answer.status, answer.read()


def fails(port, context):
    """Checks that a client is refused. With TLS 1.3 it sees this only when it reads an answer."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with wrapped(port, context) as client:
            client.sendall(b"PING\n")
            assert client.recv(100) == b""
            raise ConnectionError


@pytest.fixture
def secure(serve, certificates):
    return serve(config=config(certificates))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_both_protocols_speak_tls(secure, certificates, version):
    context = trusting(certificates, version=version)
    with wrapped(secure.resp, context) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        client.sendall(1000 * encode("WEIR.ACQUIRE", "login", "k"))
        seen = b""
        while seen.count(b"*7") < 1000 or not seen.endswith(b"\r\n$0\r\n\r\n"):
            more = client.recv(65536)
            assert more, seen[-100:]
            seen += more
        assert b":999\r\n" in seen and b":0\r\n" in seen
    assert https(secure, context)[0] == 200
    status, text = https(secure, context, "/metrics")
    assert status == 200 and text.endswith(b"\n") and len(text) > 8000
    said = subprocess.run(["redis-cli", "-p", str(secure.resp), "--tls", "--cacert",
                           certificates / "right.pem", "PING"], capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == "PONG\n"
    client = redis.Redis(port=secure.resp, ssl=True, ssl_ca_certs=str(certificates / "right.pem"))
    assert client.execute_command("WEIR.PEEK", "login", "other")[0] == 1
    said = subprocess.run(["curl", "-sS", "--cacert", certificates / "right.pem",
                           f"https://localhost:{secure.http}/healthz"], capture_output=True, timeout=PATIENCE)
    assert said.returncode == 0, said.stderr


def test_single_bytes_are_accepted_and_the_connection_ends_with_close_notify(secure, certificates):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(certificates).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")

    def step(call):
        while True:
            try:
                result = call()
                break
            except ssl.SSLWantReadError:
                pass
            flush()
            if not incoming.write(wire.socket.recv(7)):
                incoming.write_eof()
        flush()
        return result

    def flush():
        for byte in outgoing.read():
            wire.send(bytes([byte]))

    with Wire(secure.resp) as wire:
        step(tls.do_handshake)
        for _ in range(3):
            step(lambda: tls.write(b"PING\n"))
            assert step(lambda: tls.read(100)) == b"+PONG\r\n"
        step(lambda: tls.write(b"QUIT\n"))
        assert step(lambda: tls.read(100)) == b"+OK\r\n"
        assert step(lambda: tls.read(100)) == b""  # a close_notify; without one this is an error


@pytest.mark.parametrize("minimum, version, passes", [
    ("", "TLSv1", False), ("", "TLSv1_1", False), ("", "TLSv1_2", True),
    (', minimum: "1.3"', "TLSv1_2", False), (', minimum: "1.3"', "TLSv1_3", True)])
def test_old_versions_are_refused(serve, certificates, minimum, version, passes):
    server = serve(config=config(certificates, minimum))
    context = trusting(certificates)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if passes:
        assert https(server, context)[0] == 200
    else:
        fails(server.http, context)
        assert "version" in server.line_with("tls_failed") or "protocol" in server.log[-1]


@pytest.mark.parametrize("clients, cert, key, passes", [
    ("none", None, None, True), ("none", "foreign", None, True),
    ("optional", None, None, True), ("optional", "client", None, True),
    ("optional", "foreign", None, False), ("optional", "old", "client", False),
    ("required", None, None, False), ("required", "client", None, True),
    ("required", "foreign", None, False), ("required", "old", "client", False)])
def test_certificates_of_clients_are_checked_as_configured(serve, certificates, clients, cert, key, passes):
    server = serve(config=config(certificates, clients=clients))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(certificates, cert, key, version=version)
        if passes:
            assert https(server, context)[0] == 200
        else:
            fails(server.resp, context)
    if not passes:
        assert re.search("tls_failed listener=resp peer=127.0.0.1 .*certificate",
                         server.line_with("tls_failed"))


@pytest.mark.parametrize("name", ["client-of-right", "shop@example.com", "shop.example.com",
                                  "spiffe://shop"])
def test_a_certificate_is_a_login(serve, certificates, name):
    users = (f"users:\n  - {{ name: shop, certificate: '{name}', may: [ask] }}\n"
             "  - { name: root, certificate: shop, may: [admin] }\n")
    server = serve(config=config(certificates, clients="optional", users=users))
    with wrapped(server.resp, trusting(certificates, "client")) as client:
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        assert command(client, "WEIR.PEEK", "login", "k").startswith(b"*7")
        assert command(client, "WEIR.RESET", "login", "k").startswith(b"-NOPERM")
        assert command(client, "RESET") == b"+RESET\r\n"
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        # A reload with other users.
        server.reload(config(certificates, clients="optional",
                             users="users:\n  - { name: x, certificate: x, may: [ask] }\n"))
        server.line_with("reloaded")
        assert command(client, "WEIR.PEEK", "login", "k").startswith(b"-NOAUTH")
    assert https(server, trusting(certificates))[0] == 401


def test_at_auth_the_certificate_logs_in_the_proxy(serve, certificates):
    users = "users:\n  - { name: proxy, certificate: client-of-right, may: [ask] }\n"
    server = serve(config=config(certificates, clients="optional", users=users))
    assert https(server, trusting(certificates, "client"), "/auth")[0] == 200
    assert https(server, trusting(certificates), "/auth")[0] == 500


def certificate_of(port, certificates):
    with wrapped(port, trusting(certificates)) as client:
        return dict(pair[0] for pair in client.getpeercert()["subject"])["commonName"]


def test_a_reload_applies_new_certificates_and_closes_no_connection(secure, certificates):
    assert certificate_of(secure.http, certificates) == "server-of-right"
    with wrapped(secure.resp, trusting(certificates)) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        secure.reload(config(certificates, cert="next"))
        secure.line_with("reloaded")
        assert certificate_of(secure.http, certificates) == certificate_of(secure.resp, certificates) == "next-of-right"
        assert command(client, "PING") == b"+PONG\r\n"
        # A certificate that can't be read fails the reload.
        secure.reload(config(certificates, cert="none"))
        assert "none.pem" in secure.line_with("reload_failed")
        assert certificate_of(secure.http, certificates) == "next-of-right"
        assert command(client, "PING") == b"+PONG\r\n"
        secure.reload(LIMITS)
        assert "setting=tls" in secure.line_with("restart_needed")
        assert certificate_of(secure.http, certificates) == "next-of-right"


def test_sessions_are_resumed_but_not_after_a_reload(secure, certificates):
    def resumed(version):
        context = trusting(certificates, version=version)
        with wrapped(secure.resp, context) as client:
            assert command(client, "PING") == b"+PONG\r\n"
            session = client.session
        found = []
        for _ in range(2):
            with context.wrap_socket(socket.create_connection(("127.0.0.1", secure.resp), PATIENCE),
                                     server_hostname="127.0.0.1", session=session) as client:
                assert command(client, "PING") == b"+PONG\r\n"
                found.append(client.session_reused)
            if not found[1:]:
                secure.reload(config(certificates, cert="next"))
                secure.line_with("reloaded")
        return found

    assert resumed(ssl.TLSVersion.TLSv1_2) == [True, False]
    assert resumed(ssl.TLSVersion.TLSv1_3) == [True, False]


@pytest.mark.parametrize("offered, chosen", [
    (None, None), (["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "h2"), (["h2"], "h2"), (["redis"], None)])
def test_clients_of_http_choose_its_version(secure, certificates, offered, chosen):
    context = trusting(certificates)
    if offered:
        context.set_alpn_protocols(offered)
    with wrapped(secure.http, context) as client:
        assert client.selected_alpn_protocol() == chosen


@pytest.mark.parametrize("flag, version", [("--http2", "2"), ("--http1.1", "1.1")])
def test_curl_speaks_either_version_over_tls(secure, certificates, flag, version):
    said = subprocess.run(["curl", "-sS", flag, "--cacert", certificates / "right.pem", "-w", "%{http_version}",
                           f"https://localhost:{secure.http}/v1/peek/login?key=k"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout.endswith("}" + version) and '"remaining":1000' in said.stdout, said


def test_listeners_can_be_without_tls(serve, certificates, tmp_path):
    path = tmp_path / "resp.sock"
    server = serve("--http", "plain:127.0.0.1:0", "--resp", f"unix:{path}", config=config(certificates), ports=False)
    assert server.get("/healthz").status == 200
    said = subprocess.run(["redis-cli", "-s", path, "PING"], capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == "PONG\n"


def test_plain_requests_to_a_port_with_tls_are_logged_once(serve, certificates):
    secure = serve("--threads", "1", config=config(certificates))
    for _ in range(20):
        with Wire(secure.http) as wire:
            wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert wire.file.read() == b""
    assert "listener=http peer=127.0.0.1 expected TLS: http request" in secure.line_with("tls_failed")
    assert secure.stop() == 0
    assert not [line for line in secure.lines.queue if line and "tls_failed" in line]


@pytest.mark.parametrize("text, words", [
    ("{ cert: none.pem }", "1:6: error: tls: expected a file in PEM in cert=none.pem, found: No such file"),
    ("{ cert: server.pem, key: right.key }",
     "key=right.key: expected the key of the first certificate in cert=server.pem, found that of another"),
    ("{ cert: chain-upside-down.pem, key: server.key }", "expected the key of the first certificate"),
    ("{ cert: server.key }", "expected a file in PEM in cert=server.key, found: no certificate in it"),
    ("{ cert: server.pem }", "expected a file in PEM in key=server.pem, found: no key in it"),
    ("{ cert: ., key: server.key }", "expected a file in PEM in cert=., found: a directory"),
    ("{ key: server.key }", "expected cert"),
    ("{ cert: pipe, key: server.key }", "expected a file in PEM in cert=pipe, found: not a regular file"),
    ("{ cert: server.pem, key: pipe }", "expected a file in PEM in key=pipe, found: not a regular file"),
    ("{ cert: server.pem, key: server.key, ca: pipe, clients: optional }", "ca=pipe, found: not a regular file"),
    ("{ cert: server.pem, clients: required }", "1:35: error: expected `ca` beside clients"),
    ("{ cert: server.pem, key: server.key, minimum: 1.1 }", "expected minimum to be one of 1.2, 1.3"),
    ("{ cert: server.pem, key: server.key, ca: server.key, clients: optional }", "ca=server.key"),
])
def test_invalid_settings_are_errors_with_their_place(certificates, text, words):
    (certificates / "chain-upside-down.pem").write_text(
        "".join((certificates / f"{name}.pem").read_text() for name in ("right", "server")))
    if not (certificates / "pipe").exists():
        os.mkfifo(certificates / "pipe")
    file = certificates / "wrong.yaml"
    file.write_text(f"tls: {text}\n{LIMITS}")
    for command in ("lint", file), ("serve", "-c", file, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"):
        run = weir(*command)
        assert run.returncode == 1
        assert words in run.stderr.replace(f"{certificates}/", ""), run.stderr


@pytest.mark.parametrize("text, words", [
    ("{ cert: server.pem, key: server.key }", None),
    ("{ cert: server.pem, key: server.key, ca: right.pem, clients: optional }", None),
    ("{ cert: old.pem, key: client.key }", "1:6: warning: expected a certificate that is valid today"),
    ("{ cert: server.pem, key: open.key }", "1:6: warning: expected a key that other users can't read"),
    ("{ cert: server.pem, key: server.key, ca: right.pem }", "beside ca, found none: no client is asked"),
])
def test_probable_mistakes_are_warnings(certificates, serve, text, words):
    (certificates / "open.key").write_bytes((certificates / "server.key").read_bytes())
    (certificates / "open.key").chmod(0o644)
    file = certificates / "unlikely.yaml"
    file.write_text(f"tls: {text}\n{LIMITS}")
    run = weir("lint", file)
    assert run.returncode == 0
    assert words in run.stderr if words else not run.stderr
    there = re.sub("([a-z]+[.](pem|key))", rf"{certificates}/\1", text)
    server = serve(config=f"tls: {there}\n{LIMITS}")
    if words:
        assert any("config_warning" in line and words.partition("warning: ")[2] in line for line in server.log)


def test_tls_settings_are_printed_as_they_were_read(certificates):
    file = certificates / "printed.yaml"
    file.write_text(config(certificates, ', minimum: "1.3"', clients="optional"))
    assert f"""tls: {{ cert: {certificates}/server.pem, key: {certificates}/server.key, ca: {certificates}/right.pem, """ \
           "clients: optional, minimum: 1.3 }" in weir("lint", "--to", "yaml", file).stdout
