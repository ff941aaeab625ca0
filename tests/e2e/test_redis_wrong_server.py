"""A server of another kind at Redis's address: policies decide, memory is bounded, and the log names the fault."""

import contextlib
import pathlib
import socket
import threading

import pytest
from harness import Wire, until
from redis_sentinel import commands

LIMITS = "".join(
    f"  {name}: {{ algorithm: {algorithm}, on_store_failure: {policy} }}\n" for name, algorithm, policy in (
        ("closed", "token_bucket, rate: 1/d, burst: 1000", "closed"),
        ("open", "token_bucket, rate: 1/d, burst: 1000", "open"),
        ("local", "token_bucket, rate: 1/d, burst: 1000", "local"),
        ("window", "fixed_window, rate: 1000/year", "closed"),
        ("slots", "sliding_window, rate: 1000/d", "closed"),
        ("log", "sliding_log, rate: 1000/d", "closed"),
        ("places", "concurrency, max: 9, lease: 1h", "closed")))
CONFIG = f"""
store_timeout: 10s
nodes: 2
limits:
{LIMITS}  memory: {{ algorithm: token_bucket, rate: 1/d, burst: 1000, store: memory }}
"""
MEBIBYTE = 1 << 20


@contextlib.contextmanager
def listening(serve_client):
    """Serves each connection in a thread; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    threading.Thread(target=run, args=(client,), daemon=True).start()

        def run(client):
            with client, contextlib.suppress(OSError):
                serve_client(client)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def endless(text):
    def send(client):
        while True:
            client.sendall(text)
    return send


def answering(value, time):
    """Connects as a Redis does, but returns the same value and time for each call of a script."""
    def answer(client):
        for words in commands(client):
            if words[0] == b"EVALSHA" and words[1] != b"0" * 40:
                keys = int(words[2])
                client.sendall(b"*%d\r\n" % (keys + 1) + value * keys + time)
            else:
                client.sendall({b"PING": b"+PONG\r\n", b"EVALSHA": b"-NOSCRIPT No script\r\n"}.get(words[0], b"+OK\r\n"))
    return answer


LARGEST = b":9223372036854775807\r\n"
LEAST = b":-9223372036854775808\r\n"
DIGITS = b"$16\r\n9999999999999999\r\n"
STRANGERS = {
    "bytes": (endless(bytes(range(256)) * 256), "expected "),
    "a line": (endless(b"+" + b"x" * 65535), "expected "),
    "a text": (endless(b"$4000000\r\n" + b"x" * 65536), "expected "),
    "a long text": (endless(b"$4000000000\r\n" + b"x" * 65536), "expected "),
    "replies": (endless(b"+PONG\r\n" * 8192), "expected "),
    "numbers": (endless(b":1\r\n" * 16384), "expected PONG to PING, found another reply"),
    "arrays": (endless(b"*1\r\n" * 16384), "expected "),
    "the largest numbers": (answering(LARGEST, LARGEST), "expected 1 values and a time from a script, found 2"),
    "the least numbers": (answering(LEAST, LEAST), "expected 1 values and a time from a script, found 2"),
    "no numbers": (answering(DIGITS, DIGITS), "expected 1 values and a time from a script, found 2"),
}


def peak(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def serves_by_policy(server, key):
    with Wire(server.resp) as wire:
        for limit, allowed in (("closed", 0), ("open", 1), ("local", 1), ("window", 0), ("slots", 0), ("log", 0),
                               ("places", 0)):
            assert wire.command("WEIR.ACQUIRE", limit, key)[0] == allowed
        assert wire.command("WEIR.ACQUIRE", "memory", key)[2] == 999


def until_logged(server, what):
    before = [line for line in server.log if "store_away" in line]
    line = before[0] if before else server.line_with("store_away")
    assert what in line


@pytest.mark.parametrize("what", STRANGERS)
def test_a_server_that_is_no_redis_leaves_decisions_to_the_policy_and_is_logged(serve, key, what):
    behaviour, says = STRANGERS[what]
    with listening(behaviour) as port:
        server = serve("--threads", "1", "--store", f"redis://127.0.0.1:{port}", config=CONFIG)
        before = peak(server)
        serves_by_policy(server, key)
        until_logged(server, says)
        for i in range(20):
            serves_by_policy(server, f"{key}-{i}")
        assert peak(server) - before < 64 * MEBIBYTE  # replies of up to 4 MiB are buffered


@pytest.mark.parametrize("port", ["resp", "http"])
def test_a_weir_is_not_accepted_as_a_redis(serve, key, port):
    other = serve(config="limits:\n  a: { algorithm: token_bucket, rate: 5/s }\n")
    server = serve("--threads", "1", "--store", f"redis://127.0.0.1:{getattr(other, port)}", config=CONFIG)
    serves_by_policy(server, key)
    until_logged(server, {"resp": "Redis says ERR unknown command", "http": "got \"H\" as reply type byte"}[port])
    assert other.get("/readyz").status == 200
    until(lambda: other.get("/v1/limits").json[0]["name"] == "a", "the other to go on")


@pytest.mark.parametrize("value", [LARGEST, LEAST])
def test_invalid_values_with_a_valid_time_grant_nothing(serve, key, value):
    """Another program may have written the value, so the node stays in use and only the call fails."""
    with listening(answering(value, b":1795341598000000\r\n")) as port:
        server = serve("--threads", "1", "--store", f"redis://127.0.0.1:{port}", config=CONFIG)
        with Wire(server.resp) as wire:
            for limit in ("closed", "window", "slots", "log", "places"):
                assert wire.command("WEIR.ACQUIRE", limit, key)[0] == 0
        assert not [line for line in server.log if "store_away" in line]
