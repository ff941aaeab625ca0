"""Clients that speak another protocol, never read their answers, or reset their connections."""

import contextlib
import pathlib
import random
import re
import socket
import statistics
import struct
import time

import pytest
from harness import BUILD, SANITIZED, Http, Wire, encode, until

TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(32))


def http_with(body):
    return (b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
            % len(body)) + body


@pytest.mark.parametrize("data", [TLS, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["TLS", "HTTP"])
def test_another_protocol_on_the_resp_port_gets_an_error_and_is_closed(server, data):
    with Wire(server.resp) as wire:
        wire.send(data)
        assert wire.reply().startswith(b"-ERR Protocol error: expected ")
        assert wire.rest() == b""


def test_a_web_page_cannot_make_a_browser_send_commands(server, key):
    with Wire(server.resp) as wire, Wire(server.resp) as browser:
        assert wire.command("WEIR.ACQUIRE", "one", key)[0] == 1
        browser.send(http_with(b"\r\nWEIR.RESET one %s\r\n" % key.encode()))
        browser.rest()
        assert wire.command("WEIR.PEEK", "one", key)[0] == 0
    line = server.line_with(" warning foreign_protocol ")
    assert "listener=resp peer=127.0.0.1 closed: received HTTP" in line


def test_foreign_protocols_cannot_flood_the_log(serve):
    config = "limits: { one: { algorithm: token_bucket, rate: 1/h } }\n"
    server = serve("--threads", "1", config=config)
    for _ in range(30):
        with Wire(server.resp) as wire:
            wire.send(b"GET / HTTP/1.1\r\n")
            wire.rest()
    server.reload(config)
    server.line_with(" reloaded ")
    assert 1 <= sum("foreign_protocol" in line for line in server.log) <= 4  # one in 10 s


METHODS = """GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PROPFIND PROPPATCH MKCOL COPY MOVE
LOCK UNLOCK SEARCH BIND ACL REPORT M-SEARCH DESCRIBE SETUP PLAY get Post WHATEVER PRI""".split()
TARGETS = ["/", "*", "/a b", "/a  b\tc", "/a\"b", "/'a b'", "http://h:1/a", "h:443", "rtsp://h/a b",
           "/\0a", "/%00", "/\xff", "", "/" + "a " * 5000]
VERSIONS = ["HTTP/1.1", "HTTP/1.0", "RTSP/1.0", "HTTP/2.0"]
FIELDS = ["Host: h", "host:h", "Content-Type: text/plain", "X-a_b.c: d e f", "CSeq: 1"]


@pytest.mark.parametrize("seed", range(3))
def test_no_command_runs_after_an_opening_of_another_protocol(server, key, seed):
    draw = random.Random(seed)
    reset = b"WEIR.RESET one %s" % key.encode()
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "one", key)[0] == 1
        for _ in range(150):
            end = draw.choice(["\r\n", "\n"])
            line = " ".join([draw.choice(METHODS), draw.choice(TARGETS), draw.choice(VERSIONS)])
            head = [draw.choice(["", " ", end]) + line, *draw.choices(FIELDS, k=draw.randrange(4))]
            head = head[draw.random() < 0.2 and len(head) > 1:]
            body = draw.choice([reset, encode(*reset.split()), b"PING\r\n" + reset])
            data = (end.join(head) + end * draw.randrange(1, 3)).encode("latin-1")
            with (Wire(server.resp) as browser,
                  contextlib.suppress(BrokenPipeError, ConnectionResetError)):
                browser.send(data)
                browser.send(body + b"\r\n")
                answer = browser.rest()  # empty if the rest arrived at a closed socket
                assert re.fullmatch(rb"(-ERR Protocol error: [^\r]*\r\n)?", answer), (seed, data)
            assert wire.command("WEIR.PEEK", "one", key)[0] == 0, (seed, data)
        assert wire.command("WEIR.RESET", "one", key)[0] == 1


@pytest.mark.parametrize("data", [encode("PING"), b"PING\r\n\r\n"], ids=["array", "inline"])
def test_resp_on_the_http_port_is_a_bad_request_and_closed(server, data):
    with Wire(server.http) as wire:
        wire.send(data)
        assert wire.rest().startswith(b"HTTP/1.1 400 ")


def test_an_http_client_that_half_closes_gets_its_answers(server):
    with Wire(server.http) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.rest().count(b"HTTP/1.1 200 OK") == 3


def resident(server):
    """The resident memory in bytes."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def worst_wait(server):
    """The longest of 50 round trips of another client, in seconds."""
    waits = []
    with Wire(server.resp) as wire:
        for _ in range(50):
            began = time.monotonic()
            assert wire.command("PING") == b"+PONG"
            waits.append(time.monotonic() - began)
    return max(waits)


# Name: (bytes to send once, bytes to send as long as the server accepts them). No answer is read.
DEAF = {
    "echoes": ("resp", b"", encode("ECHO", b"x" * 60_000)),
    "long answers to short questions": ("resp", b"", b"COMMAND\r\n" * 5000),
    "transactions without an end": ("resp", b"MULTI\r\n", encode("ECHO", b"x" * 60_000)),
    "transactions with long answers": (
        "resp", b"", b"MULTI\r\n" + b"INFO\r\n" * 1000 + b"EXEC\r\n"),
    "long pages": ("http", b"", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "an endless command": ("resp", b"*1000000\r\n", b"$60\r\n%s\r\n" % (b"x" * 60) * 900),
    "an endless head": ("http", b"GET / HTTP/1.1\r\nX: ", b"x" * 60_000),
}
DEAF_CLIENTS = 20 if BUILD.name not in SANITIZED else 5  # sanitizers check accesses, not amounts


class Deaf(Wire):
    """Sends `head` once, then `data` as long as the server accepts it, and never reads."""

    def __init__(self, port, head, data):
        super().__init__(port)
        self.socket.setblocking(False)
        self.left, self.data = head, data

    def push(self):
        with contextlib.suppress(BlockingIOError, ConnectionResetError, BrokenPipeError):
            for _ in range(10):
                self.left = self.left or self.data
                self.left = self.left[self.socket.send(self.left):]


@pytest.mark.parametrize("name", DEAF)
def test_clients_that_never_read_cost_bounded_memory_and_delay_no_other(serve, name):
    server = serve()
    protocol, head, data = DEAF[name]
    worst_wait(server)  # so that the server allocates its own memory first
    before = resident(server)
    waits = []
    with contextlib.ExitStack() as stack:
        deaf_clients = [stack.enter_context(Deaf(server.ports[protocol], head, data)) for _ in range(DEAF_CLIENTS)]
        for _ in range(5):
            for deaf in deaf_clients:
                deaf.push()
            waits.append(worst_wait(server))
        grown = resident(server) - before
    if BUILD.name not in SANITIZED:  # sanitizers are slow, and keep freed memory
        assert statistics.median(waits) < 0.5
        # 1.5 MiB per connection, and 8 MiB for an iteration of the loop.
        assert grown < DEAF_CLIENTS * (3 << 19) + (8 << 20)


def test_connections_that_are_reset_at_any_point_leak_nothing(serve, key):
    server = serve()
    command = encode("WEIR.ACQUIRE", "login", key) * 20
    for cut in range(1, len(command), 7):
        with Wire(server.resp) as wire:
            wire.send(command[:cut])
            # With SO_LINGER of 0 closing sends RST.
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with Http(server.http) as other:
        until(lambda: re.search(r"^weir_connections 1$", other.request("GET", "/metrics").text, re.M),
              "the connections to be gone")
