"""Limits at a Redis through TLS, whose certificate must be signed by the configured authority."""

import pytest
from harness import Wire, until
from redis_servers import free_port
from redis_tls import tls_options

LIMIT = """
limits:
  ten: { algorithm: token_bucket, rate: 10/d, on_store_failure: closed }
"""


@pytest.fixture
def secure(start_redis, certificates):
    """(a Redis, its port for TLS)"""
    port = free_port()
    redis = start_redis(*tls_options(certificates, port))
    return redis, port


def configuration(url):
    return f"store: {url}\nstore_timeout: 5s\n{LIMIT}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_counts_at_a_redis_through_tls(serve, secure, certificates, key, host):
    redis, port = secure
    server = serve(config=configuration(f"rediss://{host}:{port}?ca={certificates}/right.pem"))
    with Wire(server.resp) as wire:
        assert [wire.command("WEIR.ACQUIRE", "ten", key)[2] for _ in range(3)] == [9, 8, 7]
    assert redis.client.exists(f"weir:{{{key}}}:ten")


def test_a_certificate_of_another_authority_is_refused_and_the_log_says_so(
        serve, secure, certificates, key):
    _, port = secure
    server = serve(config=configuration(f"rediss://127.0.0.1:{port}?ca={certificates}/wrong.pem"))
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "ten", key)[5] == b"store_failure"
        line = server.line_with("store_away")
        assert "certificate" in line and f":{port}" in line, line
        assert wire.command("WEIR.ACQUIRE", "ten", key)[5] == b"store_failure"
    # A reload with the right authority needs no restart.
    server.reload(configuration("memory").replace(
        "closed }", f"closed, store: 'rediss://127.0.0.1:{port}?ca={certificates}/right.pem' }}"))
    with Wire(server.resp) as wire:
        until(lambda: wire.command("WEIR.ACQUIRE", "ten", key)[0] == 1, "the right authority")
