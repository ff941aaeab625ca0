"""`weir ask` and `weir bench` over TLS."""

import contextlib
import json
import socket
import ssl
import threading

import pytest
from harness import PATIENCE, weir
from test_tls import LIMITS, certificates, config, openssl  # pylint: disable=unused-import


@pytest.fixture
def closed(serve, certificates):
    """A server that requires a certificate of its clients."""
    return serve(config=config(certificates, clients="required"))


def flags(certificates, cert="client", ca="right"):
    return ["--tls", "--cacert", certificates / f"{ca}.pem", "--cert", certificates / f"{cert}.pem",
            "--key", certificates / f"{cert}.key"]


def ask(port, *words, host="127.0.0.1"):
    return weir("ask", "login", "k", "--server", f"{host}:{port}", *words)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_ask_works_over_tls(closed, certificates, host):
    asked = ask(closed.resp, *flags(certificates), host=host)
    assert (asked.returncode, "999 of 1000 left" in asked.stdout) == (0, True), asked
    assert ask(closed.resp, "--cost", 999, *flags(certificates), host=host).returncode == 0
    assert ask(closed.resp, *flags(certificates), host=host).returncode == 1
    chained = certificates / "both.pem"
    chained.write_text((certificates / "client.pem").read_text() + (certificates / "client.key").read_text())
    peeked = ask(closed.resp, "--peek", "--tls", "--cacert", certificates / "right.pem", "--cert", chained, host=host)
    assert peeked.returncode == 1, peeked


def test_ask_reports_why_tls_fails(closed, certificates, serve):
    def fails(*words, port=closed.resp):
        asked = ask(port, *words)
        assert (asked.returncode, asked.stdout) == (2, "")
        return asked.stderr

    assert "its certificate is refused: " in fails(*flags(certificates, ca="wrong"))
    assert "hostname mismatch" in fails(*flags(certificates), "--sni", "other.example.com").lower()
    assert "certificate required" in fails("--tls", "--cacert", certificates / "right.pem")
    assert "unknown ca" in fails(*flags(certificates, cert="foreign")).lower()
    assert "no answer from" in fails()  # this client does not speak TLS
    plain = serve(config=LIMITS)
    assert "expected TLS" in fails(*flags(certificates), port=plain.resp)
    for words, said in [
            (["--cacert", "a"], "expected --tls beside --cacert"),
            (["--sni", "a"], "expected --tls beside --sni"),
            (["--tls", "--cacert", certificates / "none.pem"],
             f"--tls: expected a file in PEM in ca={certificates}/none.pem, found: No such file or directory"),
            (["--tls", "--key", certificates / "client.key"], "expected cert=FILE beside it")]:
        assert said in fails(*words)


def test_the_expected_name_of_the_server_can_be_set(serve, certificates):
    server = serve(config=config(certificates, cert="next"))
    asked = ask(server.resp, "--tls", "--cacert", certificates / "right.pem", "--sni", "next")
    assert (asked.returncode, asked.stderr) == (0, "")


@contextlib.contextmanager
def impostor(certificates, cert, set_up=lambda context: None):
    """A server with another certificate, for one client. Yields (its port, a list of the names that clients request)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{cert}.pem", certificates / f"{cert}.key")
    names = []
    context.sni_callback = lambda _, name, __: names.append(name)
    set_up(context)

    def answer(listener):
        with contextlib.suppress(OSError), listener.accept()[0] as client:
            client.settimeout(PATIENCE)
            with context.wrap_socket(client, server_side=True) as secure:
                secure.recv(4096)
                secure.sendall(b"-ERR an impostor\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], names
        thread.join(PATIENCE)


@pytest.mark.parametrize("cert, flags, refused", [
    ("server", [], None), ("client", [], "IP address mismatch"), ("star", ["--sni", "a.star.test"], None),
    ("star", ["--sni", "part.wild.test"], "hostname mismatch")])
def test_the_certificate_must_be_of_the_requested_server(certificates, cert, flags, refused):
    if cert == "star":
        openssl(certificates, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                "star.key", "-out", "star.pem", "-subj", "/CN=star", "-CA", "right.pem", "-CAkey", "right.key", "-addext",
                "subjectAltName=DNS:*.star.test,DNS:p*.wild.test", "-addext", "basicConstraints=critical,CA:false")
    with impostor(certificates, cert) as (port, names):
        asked = ask(port, "--tls", "--cacert", certificates / "right.pem", *flags)
    assert (f"its certificate is refused: {refused}" if refused else "an impostor") in asked.stderr, asked
    assert names == (flags[1:] or [None])


def test_a_server_of_an_old_version_is_refused(certificates, tmp_path):
    """Even if the system's configuration allows old versions."""
    def set_up(context):
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    allow = tmp_path / "openssl.cnf"
    allow.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1\n"
                     "CipherString = DEFAULT:@SECLEVEL=0\n")
    with impostor(certificates, "server", set_up) as (port, _):
        asked = weir("ask", "login", "k", "--server", f"127.0.0.1:{port}", "--tls", "--cacert", certificates / "right.pem",
                     env={"OPENSSL_CONF": str(allow)})
    assert asked.returncode == 2 and "protocol" in asked.stderr, asked


@pytest.mark.parametrize("protocol, depth", [("resp", 1), ("resp", 16), ("http", 1)])
def test_bench_works_over_tls(closed, certificates, protocol, depth):
    done = weir("bench", "--server", f"127.0.0.1:{closed.ports[protocol]}", "--protocol", protocol,
                "--limit", "login", "--connections", 10, "--threads", 2, "--requests", 3200, "--keys", 100,
                "--pipeline", depth, "--json", *flags(certificates))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["answered"], result["errors"], result["disconnects"]) == (3200, 0, 0)
    assert result["allowed"] == 3200


def test_bench_reports_why_tls_fails(closed, certificates):
    def fails(*words):
        done = weir("bench", "--server", f"127.0.0.1:{closed.resp}", "--limit", "login", "--requests", 10, *words)
        assert done.returncode == 2
        return done.stderr

    assert "(connection 1): its certificate is refused" in fails(*flags(certificates, ca="wrong"))
    assert "certificate required" in fails("--tls", "--cacert", certificates / "right.pem")
    assert "expected --tls beside --cert" in fails("--cert", certificates / "client.pem")
