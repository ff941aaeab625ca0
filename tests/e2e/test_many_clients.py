"""Slow, idle and many clients, and more keys than fit into the table."""

import contextlib

from harness import Wire, encode


def http_acquire(key):
    body = b'{"limit":"login","key":"%s"}' % key.encode()
    return (b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
            % len(body)) + body


def test_a_command_that_arrives_byte_by_byte_is_answered(server, key):
    with Wire(server.resp) as slow, Wire(server.resp) as other:
        for byte in encode("WEIR.ACQUIRE", "login", key):
            slow.send(bytes([byte]))
            assert other.command("PING") == b"+PONG"
        assert slow.reply()[2] == 9


def test_an_http_request_that_arrives_byte_by_byte_is_answered(server, key):
    with Wire(server.http) as slow, Wire(server.resp) as other:
        for byte in http_acquire(key):
            slow.send(bytes([byte]))
            assert other.command("PING") == b"+PONG"
        assert b'"remaining":9' in slow.rest()


def test_incomplete_requests_of_disconnected_clients_consume_nothing(server, key):
    whole = encode("WEIR.ACQUIRE", "login", key)
    for cut in range(1, len(whole)):
        with Wire(server.resp) as half:
            half.send(whole[:cut])
    whole = http_acquire(key)
    for cut in range(1, len(whole), 7):
        with Wire(server.http) as half:
            half.send(whole[:cut])
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.PEEK", "login", key)[2] == 10


def test_incomplete_requests_delay_no_other_client(server, key):
    with contextlib.ExitStack() as stack:
        for port in (server.resp, server.http):
            for _ in range(50):
                stack.enter_context(Wire(port)).send(b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf")
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.ACQUIRE", "login", key)[2] == 9


def test_a_client_that_half_closes_gets_its_answers(server, key):
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "login", key) * 12)
        wire.socket.shutdown(1)
        assert [wire.reply()[0] for _ in range(12)] == [1] * 10 + [0] * 2
        assert wire.rest() == b""


IDLE = 900  # many systems give a process a thousand descriptors


def test_other_clients_are_served_beside_hundreds_of_idle_connections(server, key):
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(Wire(server.resp if i % 2 else server.http))
                for i in range(IDLE)]
        with Wire(server.resp) as wire:
            assert [wire.command("WEIR.ACQUIRE", "login", key)[0] for _ in range(12)] == (
                [1] * 10 + [0] * 2)
        assert idle[IDLE - 1].command("PING") == b"+PONG"


def test_a_full_table_still_answers_exactly_for_the_worst_offender(serve):
    server = serve("--capacity", "100")
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "login", "offender", "COST", "10"))
        for i in range(5000):
            wire.send(encode("WEIR.ACQUIRE", "login", f"stranger-{i}"))
        replies = [wire.reply() for _ in range(5001)]
        assert all(reply[0] == 1 for reply in replies)
        assert wire.command("WEIR.PEEK", "login", "offender")[0] == 0
    evictions = [line for line in server.get("/metrics").text.splitlines()
                 if line.startswith("weir_table_evictions_total")]
    assert float(evictions[0].split()[-1]) >= 4000


def test_a_refused_request_consumes_nothing(server):
    with Wire(server.resp) as wire:
        wire.command("WEIR.ACQUIRE", "one", "traceless", "COST", "2")
        assert wire.command("WEIR.PEEK", "one", "traceless")[2] == 1
