"""Limits at a Redis through TLS: the right authority's certificate is trusted, and no other's."""

import subprocess

import pytest
from harness import Wire, until
from redis_servers import free_port

LIMIT = """
limits:
  ten: { algorithm: token_bucket, rate: 10/d, on_store_failure: closed }
"""


def openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """The files of two authorities, and a server's certificate that one of them has signed."""
    directory = tmp_path_factory.mktemp("papers")
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-days", "2"]
    for name in "right", "wrong":
        openssl(directory, *new, "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN={name}")
    openssl(directory, *new, "-keyout", "server.key", "-out", "server.pem", "-subj", "/CN=server",
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext",
            "basicConstraints=critical,CA:false", "-CA", "right.pem", "-CAkey", "right.key")
    return directory


@pytest.fixture
def secure(start_redis, papers):
    """A Redis, and the port at which it speaks TLS."""
    port = free_port()
    redis = start_redis("--tls-port", port, "--tls-cert-file", papers / "server.pem",
                        "--tls-key-file", papers / "server.key",
                        "--tls-ca-cert-file", papers / "right.pem", "--tls-auth-clients", "no")
    return redis, port


def configuration(url):
    return f"store: {url}\nstore_timeout: 5s\n{LIMIT}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_counts_at_a_redis_through_tls(serve, secure, papers, key, host):
    redis, port = secure
    server = serve(config=configuration(f"rediss://{host}:{port}?ca={papers}/right.pem"))
    with Wire(server.resp) as wire:
        assert [wire.command("WEIR.ACQUIRE", "ten", key)[2] for _ in range(3)] == [9, 8, 7]
    assert redis.client.exists(f"weir:{{{key}}}:ten")


def test_a_certificate_of_another_authority_is_refused_and_the_log_says_so(
        serve, secure, papers, key):
    _, port = secure
    server = serve(config=configuration(f"rediss://127.0.0.1:{port}?ca={papers}/wrong.pem"))
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "ten", key)[5] == b"store_failure"
        line = server.line_with("store_away")
        assert "certificate" in line and f":{port}" in line, line
        assert wire.command("WEIR.ACQUIRE", "ten", key)[5] == b"store_failure"
    # What is right is taken over without a restart.
    server.reload(configuration("memory").replace(
        "closed }", f"closed, store: 'rediss://127.0.0.1:{port}?ca={papers}/right.pem' }}"))
    with Wire(server.resp) as wire:
        until(lambda: wire.command("WEIR.ACQUIRE", "ten", key)[0] == 1, "the right authority")
