"""TLS of the listeners: who gets in with which certificate and version, and what a reload changes."""

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
def papers(tmp_path_factory):
    """Files of two authorities, and certificates of servers and clients that they have signed."""
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


def config(papers, more="", cert="server", clients="none", users=""):
    return (f"tls: {{ cert: {papers}/{cert}.pem, key: {papers}/{cert}.key, ca: {papers}/right.pem, "
            f"clients: {clients}{more} }}\n{LIMITS}{users}")


def trusting(papers, cert=None, key=None, ca="right", version=None):
    context = ssl.create_default_context(cafile=papers / f"{ca}.pem")
    if cert:
        context.load_cert_chain(papers / f"{cert}.pem", papers / f"{key or cert}.key")
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
    """With TLS 1.3 a client learns at its first answer that its certificate is refused."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with wrapped(port, context) as client:
            client.sendall(b"PING\n")
            assert client.recv(100) == b""
            raise ConnectionError


@pytest.fixture
def secure(serve, papers):
    return serve(config=config(papers))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_both_protocols_speak_tls(secure, papers, version):
    context = trusting(papers, version=version)
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
                           papers / "right.pem", "PING"], capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == "PONG\n"
    client = redis.Redis(port=secure.resp, ssl=True, ssl_ca_certs=str(papers / "right.pem"))
    assert client.execute_command("WEIR.PEEK", "login", "other")[0] == 1
    said = subprocess.run(["curl", "-sS", "--cacert", papers / "right.pem",
                           f"https://localhost:{secure.http}/healthz"], capture_output=True, timeout=PATIENCE)
    assert said.returncode == 0, said.stderr


def test_bytes_may_come_one_by_one_and_the_end_is_told(secure, papers):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(papers).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")

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
        assert step(lambda: tls.read(100)) == b""  # a close_notify: else an error


@pytest.mark.parametrize("minimum, version, passes", [
    ("", "TLSv1", False), ("", "TLSv1_1", False), ("", "TLSv1_2", True),
    (', minimum: "1.3"', "TLSv1_2", False), (', minimum: "1.3"', "TLSv1_3", True)])
def test_old_versions_are_refused(serve, papers, minimum, version, passes):
    server = serve(config=config(papers, minimum))
    context = trusting(papers)
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
def test_certificates_of_clients(serve, papers, clients, cert, key, passes):
    server = serve(config=config(papers, clients=clients))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(papers, cert, key, version=version)
        if passes:
            assert https(server, context)[0] == 200
        else:
            fails(server.resp, context)
    if not passes:
        assert re.search("tls_failed listener=resp peer=127.0.0.1 .*certificate",
                         server.line_with("tls_failed"))


@pytest.mark.parametrize("name", ["client-of-right", "shop@example.com", "shop.example.com",
                                  "spiffe://shop"])
def test_a_certificate_is_a_login(serve, papers, name):
    users = (f"users:\n  - {{ name: shop, certificate: '{name}', may: [ask] }}\n"
             "  - { name: root, certificate: shop, may: [admin] }\n")
    server = serve(config=config(papers, clients="optional", users=users))
    with wrapped(server.resp, trusting(papers, "client")) as client:
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        assert command(client, "WEIR.PEEK", "login", "k").startswith(b"*7")
        assert command(client, "WEIR.RESET", "login", "k").startswith(b"-NOPERM")
        assert command(client, "RESET") == b"+RESET\r\n"
        assert command(client, "ACL", "WHOAMI") == b"$4\r\nshop\r\n"
        # The next one has other users.
        server.reload(config(papers, clients="optional",
                             users="users:\n  - { name: x, certificate: x, may: [ask] }\n"))
        server.line_with("reloaded")
        assert command(client, "WEIR.PEEK", "login", "k").startswith(b"-NOAUTH")
    assert https(server, trusting(papers))[0] == 401


def test_at_auth_the_certificate_is_the_proxys(serve, papers):
    users = "users:\n  - { name: proxy, certificate: client-of-right, may: [ask] }\n"
    server = serve(config=config(papers, clients="optional", users=users))
    assert https(server, trusting(papers, "client"), "/auth")[0] == 200
    assert https(server, trusting(papers), "/auth")[0] == 500


def certificate_of(port, papers):
    with wrapped(port, trusting(papers)) as client:
        return dict(pair[0] for pair in client.getpeercert()["subject"])["commonName"]


def test_a_reload_takes_new_certificates_and_loses_no_connection(secure, papers):
    assert certificate_of(secure.http, papers) == "server-of-right"
    with wrapped(secure.resp, trusting(papers)) as client:
        assert command(client, "PING") == b"+PONG\r\n"
        secure.reload(config(papers, cert="next"))
        secure.line_with("reloaded")
        assert certificate_of(secure.http, papers) == certificate_of(secure.resp, papers) == "next-of-right"
        assert command(client, "PING") == b"+PONG\r\n"
        # One that can't be read leaves all as it was.
        secure.reload(config(papers, cert="none"))
        assert "none.pem" in secure.line_with("reload_failed")
        assert certificate_of(secure.http, papers) == "next-of-right"
        assert command(client, "PING") == b"+PONG\r\n"
        secure.reload(LIMITS)
        assert "setting=tls" in secure.line_with("restart_needed")
        assert certificate_of(secure.http, papers) == "next-of-right"


def test_sessions_are_resumed_and_not_beyond_a_reload(secure, papers):
    def resumed(version):
        context = trusting(papers, version=version)
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
                secure.reload(config(papers, cert="next"))
                secure.line_with("reloaded")
        return found

    assert resumed(ssl.TLSVersion.TLSv1_2) == [True, False]
    assert resumed(ssl.TLSVersion.TLSv1_3) == [True, False]


@pytest.mark.parametrize("offered, chosen", [
    (None, None), (["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "h2"), (["h2"], "h2"), (["redis"], None)])
def test_clients_of_http_choose_its_version(secure, papers, offered, chosen):
    context = trusting(papers)
    if offered:
        context.set_alpn_protocols(offered)
    with wrapped(secure.http, context) as client:
        assert client.selected_alpn_protocol() == chosen


@pytest.mark.parametrize("flag, version", [("--http2", "2"), ("--http1.1", "1.1")])
def test_curl_speaks_either_version_over_tls(secure, papers, flag, version):
    said = subprocess.run(["curl", "-sS", flag, "--cacert", papers / "right.pem", "-w", "%{http_version}",
                           f"https://localhost:{secure.http}/v1/peek/login?key=k"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout.endswith("}" + version) and '"remaining":1000' in said.stdout, said


def test_listeners_may_stay_plain(serve, papers, tmp_path):
    path = tmp_path / "resp.sock"
    server = serve("--http", "plain:127.0.0.1:0", "--resp", f"unix:{path}", config=config(papers), ports=False)
    assert server.get("/healthz").status == 200
    said = subprocess.run(["redis-cli", "-s", path, "PING"], capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == "PONG\n"


def test_plain_requests_to_a_port_with_tls_are_told_once(serve, papers):
    secure = serve("--threads", "1", config=config(papers))
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
def test_what_can_t_be_is_told_by_its_place(papers, text, words):
    (papers / "chain-upside-down.pem").write_text(
        "".join((papers / f"{name}.pem").read_text() for name in ("right", "server")))
    if not (papers / "pipe").exists():
        os.mkfifo(papers / "pipe")
    file = papers / "wrong.yaml"
    file.write_text(f"tls: {text}\n{LIMITS}")
    for command in ("lint", file), ("serve", "-c", file, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"):
        run = weir(*command)
        assert run.returncode == 1
        assert words in run.stderr.replace(f"{papers}/", ""), run.stderr


@pytest.mark.parametrize("text, words", [
    ("{ cert: server.pem, key: server.key }", None),
    ("{ cert: server.pem, key: server.key, ca: right.pem, clients: optional }", None),
    ("{ cert: old.pem, key: client.key }", "1:6: warning: expected a certificate that is valid today"),
    ("{ cert: server.pem, key: open.key }", "1:6: warning: expected a key that other users can't read"),
    ("{ cert: server.pem, key: server.key, ca: right.pem }", "beside ca, found none: no client is asked"),
])
def test_what_is_unlikely_meant_is_a_warning(papers, serve, text, words):
    (papers / "open.key").write_bytes((papers / "server.key").read_bytes())
    (papers / "open.key").chmod(0o644)
    file = papers / "unlikely.yaml"
    file.write_text(f"tls: {text}\n{LIMITS}")
    run = weir("lint", file)
    assert run.returncode == 0
    assert words in run.stderr if words else not run.stderr
    there = re.sub("([a-z]+[.](pem|key))", rf"{papers}/\1", text)
    server = serve(config=f"tls: {there}\n{LIMITS}")
    if words:
        assert any("config_warning" in line and words.partition("warning: ")[2] in line for line in server.log)


def test_it_is_printed_as_it_was_read(papers):
    file = papers / "printed.yaml"
    file.write_text(config(papers, ', minimum: "1.3"', clients="optional"))
    assert f"""tls: {{ cert: {papers}/server.pem, key: {papers}/server.key, ca: {papers}/right.pem, """ \
           "clients: optional, minimum: 1.3 }" in weir("lint", "--to", "yaml", file).stdout
