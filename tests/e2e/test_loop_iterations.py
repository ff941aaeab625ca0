"""An iteration of a server's loop shares its work among connections, and a connection takes bounded memory."""

import contextlib
import os
import re
import signal
import socket
import time

from harness import BUILD, Http, Wire, encode, one_thread, until
from test_hostile import resident

pytestmark = one_thread

CONFIG = "limits: { one: { algorithm: token_bucket, rate: 1/h } }\n"
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


def requests(page, protocol="http"):
    """The number of answered requests in a page of metrics."""
    return int(re.search(rf'^weir_requests_total{{protocol="{protocol}"}} (\d+)', page, re.M)[1])


def deny(server, keys):
    """Denies `keys` keys, so that they are in the list of the most denied."""
    with Wire(server.resp) as wire:
        for i in range(keys):
            wire.send(encode("WEIR.ACQUIRE", "one", f"key-{i:040}") * 2)
            assert [wire.reply()[0] for _ in range(2)] == [1, 0]


@contextlib.contextmanager
def stopped(server):
    """Stops the process, so that it finds all requests sent meanwhile at once."""
    server.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, server.process.pid, os.WSTOPPED)
    yield
    server.process.send_signal(signal.SIGCONT)


def page_of(wire):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += wire.file.readline()
    return wire.file.read(int(re.search(rb"Content-Length: (\d+)", head)[1])).decode()


def test_pipelines_of_long_answers_get_one_answer_each_before_others_are_answered(serve):
    server = serve("--threads", "1", config=CONFIG)
    deny(server, 100)
    clients, pipeline = 60, 15
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.http)) for _ in range(clients)]
        others = wires[::20] + [wires[-1]]  # at several positions in the kernel's list of ready sockets
        flooders = [wire for wire in wires if wire not in others]
        for wire in wires:
            wire.send(GET % b"/healthz")
            assert page_of(wire) == "ok\n"
        with stopped(server):
            for wire in flooders:
                wire.send(GET % b"/v1/top?n=100" * pipeline)
            for wire in others:
                wire.send(GET % b"/metrics")
        before = [requests(page_of(wire)) - clients for wire in others]
        assert max(before) <= 2 * clients, before
        # No answer is lost, and each is the connection's own.
        first = [page_of(flooders[0]) for _ in range(pipeline)]
        assert first[0].count('"limit":"one"') == 100
        for wire in flooders[1:]:
            assert [page_of(wire) for _ in range(pipeline)] == first


def test_lists_of_every_length_are_prefixes_of_the_longest(serve):
    server = serve("--threads", "1", config=CONFIG)
    deny(server, 20)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.http)) for _ in range(25)]
        with stopped(server):
            for n, wire in enumerate(wires, 1):
                wire.send(GET % b"/v1/top?n=%d" % n)
        lists = [page_of(wire) for wire in wires]
    whole = lists[-1][1:-1]
    for n, text in enumerate(lists, 1):
        assert text.count('"limit"') == min(n, 20)
        assert whole.startswith(text[1:-1])
        assert text[0] + text[-1] == "[]"


def test_an_iteration_bounds_the_small_requests_of_a_pipeline(serve):
    server = serve("--threads", "1", config=CONFIG)
    pings = 5000
    with Wire(server.http) as other, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.resp)) for _ in range(20)]
        for wire in wires:
            assert wire.command("PING") == b"+PONG"
        with stopped(server):
            for wire in wires:
                wire.send(b"PING\r\n" * pings)
            other.send(GET % b"/metrics")
        assert requests(page_of(other), "resp") <= len(wires) * (1 + 2 * 1024)
        for wire in wires:
            assert wire.file.read(7 * pings) == b"+PONG\r\n" * pings


def settled(server):
    """Waits until the resident memory stops growing; returns it."""
    last = 0

    def same():
        nonlocal last
        time.sleep(0.3)
        last, before = resident(server), last
        return last - before < 1 << 18
    until(same, "memory to settle")
    return last


def grown(server, data, clients=60):
    """Bytes of memory per connection if `clients` clients send all that the server accepts and read nothing."""
    before = resident(server)
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(clients):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.resp))
            deaf.setblocking(False)
            sockets.append([deaf, data])
        for _ in range(40):
            for one in sockets:
                with contextlib.suppress(BlockingIOError, ConnectionResetError, BrokenPipeError):
                    one[1] = (one[1] or data)[one[0].send(one[1] or data):]
            time.sleep(0.02)
        return (settled(server) - before) / clients


def test_long_answers_to_short_commands_wait_in_bounded_memory(serve):
    server = serve("--threads", "1", config=CONFIG)
    each = grown(server, encode("COMMAND") * 3000)
    assert each > 0
    if BUILD.name not in ("asan", "tsan"):
        assert each < 450_000  # 256 KiB of answers, 64 KiB of commands


def test_answers_after_a_pending_one_take_bounded_memory(serve):
    server = serve("--threads", "1", config=CONFIG)
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "one", "k")[0] == 1
    waits = encode("WEIR.ACQUIRE", "one", "k", "WAIT", 3_600_000) + encode("PING") * 20_000
    each = grown(server, waits)
    with Http(server.http) as http:
        assert "weir_answers_pending 60" in http.request("GET", "/metrics").text
    if BUILD.name not in ("asan", "tsan"):
        assert each < 450_000  # 256 KiB of answers, 64 KiB of commands, as above


def test_incomplete_requests_are_not_counted(serve):
    server = serve(config=CONFIG)
    body = b'{"limit":"one","key":"k"}'
    with Wire(server.http) as wire:
        wire.send(b"POST /v1/peek HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        assert wire.file.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert wire.file.readline() == b"\r\n"
        wire.send(body)
        assert '"allowed":true' in page_of(wire)
        wire.send(GET % b"/metrics")
        assert requests(page_of(wire)) == 1
    with Wire(server.resp) as wire:
        wire.send(b"\r\n*0\r\n\r\n")
        for part in (b"*2\r\n$4\r\nECHO\r\n$300000\r\n", *[b"x" * 60_000] * 5, b"\r\n"):
            wire.send(part)
            time.sleep(0.01)  # so that the server reads piece by piece
        assert b"at most 65536 bytes" in wire.reply()
        assert wire.command("PING") == b"+PONG"
    assert requests(server.get("/metrics").text, "resp") == 2


WIDE = "limits: { wide: { algorithm: fixed_window, rate: 1000000/d } }\n"


def taken_before(server, clients, bytes_of_each, key):
    """The units that `clients` has acquired when a single request, sent after all of theirs, is answered."""
    with Wire(server.resp) as other:
        assert other.command("PING") == b"+PONG"
        server.get("/healthz")  # otherwise the kernel may still list the other connection as ready, before the clients
        with stopped(server):
            for wire in clients:
                wire.send(bytes_of_each)
            other.send(encode("WEIR.PEEK", "wide", key))
        return 1_000_000 - other.reply()[2]


def some_taken(attempt):
    """Repeats an attempt in which the kernel listed the single request first, as it proves nothing."""
    for key in range(10):
        if taken := attempt(key):
            return taken
    raise AssertionError("the single request was first in every attempt")


def test_the_share_of_a_connection_is_smaller_if_many_are_ready(serve):
    server = serve("--threads", "1", config=WIDE)

    def attempt(key):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Wire(server.resp)) for _ in range(250)]
            for wire in clients:
                assert wire.command("PING") == b"+PONG"
            return taken_before(server, clients, encode("WEIR.ACQUIRE", "wide", key) * 1024, key)

    assert some_taken(attempt) <= 64 * 1024 + 64 * 512 + 122 * 256


def test_long_requests_of_many_connections_do_not_delay_another_connection(serve):
    server = serve("--threads", "1", config=WIDE)

    def attempt(key):
        body = b"[" + b",".join([b'{"limit":"wide","key":"%d"}' % key] * 1000) + b"]"
        begin, end = body[:20_000], body[20_000:]
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Wire(server.http)) for _ in range(60)]
            for wire in clients:
                wire.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(body) + begin)
            for _ in range(3):  # by then the server has read the first parts
                server.get("/healthz")
            taken = taken_before(server, clients, end, key)
            for wire in clients:
                assert page_of(wire).count('"allowed":true') == 1000
        return taken

    assert some_taken(attempt) <= 20_000


def test_transactions_of_many_connections_do_not_delay_another_connection(serve, at):
    server = serve("--threads", "1", config=at + WIDE)

    def attempt(key):
        queued = encode("MULTI") + encode("WEIR.ACQUIRE", "wide", key) * 1000
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Wire(server.resp)) for _ in range(60)]
            for wire in clients:
                wire.send(queued)
                assert wire.reply() == b"+OK"
                assert {wire.reply() for _ in range(1000)} == {b"+QUEUED"}
            taken = taken_before(server, clients, encode("EXEC"), key)
            for wire in clients:
                assert [one[0] for one in wire.reply()] == [1] * 1000
        return taken

    assert some_taken(attempt) <= 20_000
