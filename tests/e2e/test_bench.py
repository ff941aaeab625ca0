"""weir bench against our server, and against small servers that stall, stop answering or disconnect."""

import contextlib
import json
import re
import selectors
import signal
import socket
import subprocess
import threading
import time

import pytest
from harness import PATIENCE, WEIR, until, weir

STALL = 0.2  # seconds


def bench(port, *flags):
    """(figures, exit code, standard error)"""
    done = weir("bench", "--server", f"127.0.0.1:{port}", "--json", *flags)
    return json.loads(done.stdout), done.returncode, done.stderr


@contextlib.contextmanager
def toy(on_data):
    """A server of one thread on a free port: `on_data(connection, bytes)` answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    wake, woken = socket.socketpair()
    selector = selectors.DefaultSelector()
    for sock in (listener, woken):
        selector.register(sock, selectors.EVENT_READ)

    def serve():
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    return
                if key.fileobj is listener:
                    connection = listener.accept()[0]
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(connection, selectors.EVENT_READ)
                elif data := key.fileobj.recv(65536):
                    on_data(key.fileobj, data)
                else:
                    selector.unregister(key.fileobj)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    wake.close()
    thread.join()
    for key in list(selector.get_map().values()):
        key.fileobj.close()


def stalling(after):
    """Answers PINGs, and sleeps once, after `after` of them."""
    left = after

    def on_data(connection, data):
        nonlocal left
        n = data.count(b"PING")
        if 0 < left <= n:
            time.sleep(STALL)
        left -= n
        connection.send(b"+PONG\r\n" * n)

    return on_data


def test_an_open_loop_counts_a_stall_in_every_request_that_it_delays():
    rate = 500
    with toy(stalling(after=200)) as port:
        result, code, _ = bench(port, "--command", "PING", "--rate", rate, "--connections", 4,
                                "--duration", "1s", "--warmup", "0s")
    # If the machine pauses until the load ends, requests that were due are not sent, but have waited as well.
    assert (code, result["loop"], result["sent"] + result["unsent"]) == (0, "open", rate)
    # Requests are due at an even pace, so half of those due in the stall wait for more than half of it.
    assert result["slower_than_ms"]["100"] >= rate * STALL / 2 * 0.9
    assert result["slower_than_ms"]["10"] >= rate * STALL * 0.9
    assert result["latency_ns"]["max"] >= STALL * 0.95e9
    assert result["latency_ns"]["p99"] >= STALL * 0.5e9
    # Only requests that had been sent waited for a reply.
    assert result["from_send_ns"]["p90"] < 0.1e9 < result["from_send_ns"]["max"]


def test_a_closed_loop_counts_a_stall_once_per_connection():
    with toy(stalling(after=200)) as port:
        result, code, _ = bench(port, "--command", "PING", "--connections", 4,
                                "--duration", "700ms", "--warmup", "0s")
    assert (code, result["loop"]) == (0, "closed")
    # Up to four each, since the machine stalls as well.
    assert 1 <= result["slower_than_ms"]["100"] <= 4 * 8
    assert result["latency_ns"]["max"] >= STALL * 0.95e9


def test_a_closed_loop_sends_the_next_batch_when_the_last_is_answered():
    batches = []

    def on_data(connection, data):
        batches.append(data.count(b"PING"))
        for _ in range(batches[-1]):
            connection.send(b"+PONG\r\n")  # one by one, so that the client reads parts of a batch

    with toy(on_data) as port:
        bench(port, "--command", "PING", "--connections", 1, "--pipeline", 8, "--requests", 84)
    assert batches == [8] * 10 + [4]


def test_a_silent_server_ends_the_load_and_unanswered_requests_are_counted():
    with toy(lambda connection, data: None) as port:
        result, code, said = bench(port, "--command", "PING", "--rate", 1000, "--connections", 2,
                                   "--timeout", "300ms", "--warmup", "0s")
    assert (code, result["answered"], result["sent"], result["unanswered"]) == (2, 0, 2, 2)
    assert "silent" in said
    assert result["unsent"] >= 298
    assert result["latency_ns"]["p50"] >= 0.1e9
    assert result["latency_ns"]["max"] >= 0.3e9


def test_a_server_that_disconnects_ends_the_load():
    served = 0

    def on_data(connection, data):
        nonlocal served
        served += 1
        if served < 20:
            connection.send(b"+PONG\r\n")
        else:
            connection.shutdown(socket.SHUT_RDWR)

    with toy(on_data) as port:
        result, code, said = bench(port, "--command", "PING", "--connections", 5,
                                   "--warmup", "0s")
    assert (code, result["answered"], result["disconnects"], result["unanswered"]) == (2, 19, 5, 5)
    assert "connection closed by the server" in said


@pytest.mark.parametrize("reply", [b"?\r\n", b"+PONG\r\n+PONG\r\n"])
def test_a_server_of_another_protocol_is_an_error(reply):
    with toy(lambda connection, data: connection.send(reply)) as port:
        result, code, said = bench(port, "--command", "PING", "--connections", 2)
    assert (code, result["disconnects"]) == (2, 2)
    assert "a reply" in said


@pytest.mark.parametrize("protocol", ["resp", "http"])
@pytest.mark.parametrize("flags", [(), ("--rate", 20000), ("--pipeline", 16, "--threads", 3)])
def test_each_request_is_sent_once_and_its_answer_counted(serve, protocol, flags):
    server = serve()  # ten of each key
    result, code, _ = bench(server.ports[protocol], "--protocol", protocol, "--limit", "login",
                            "--requests", 997, "--keys", 20, "--distribution", "sequential",
                            "--connections", 7, "--pid", server.process.pid, *flags)
    assert code == 0
    assert result["sent"] == result["answered"] == 997
    assert (result["allowed"], result["denied"], result["errors"]) == (200, 797, 0)
    assert result["server_cpu_ns"] >= 0 and result["client_cpu_ns"] >= 0  # of milliseconds the system may count none
    assert result["bytes_received"] > result["bytes_sent"] > 997 * 30


def test_the_time_of_processors_is_measured(serve):
    server = serve()

    def uses_time():
        result, _, _ = bench(server.resp, "--limit", "login", "--requests", 20000, "--pid", server.process.pid)
        return result["server_cpu_ns"] > 0 and result["client_cpu_ns"] > 0

    until(uses_time, "a run that takes time")


def test_a_warm_up_is_not_counted(serve):
    server = serve()
    result, code, _ = bench(server.resp, "--limit", "login", "--distribution", "single",
                            "--warmup", "50ms", "--requests", 100, "--connections", 3)
    assert (code, result["answered"], result["allowed"]) == (0, 100, 0)


def test_keys_have_the_length_asked_for(serve):
    server = serve()
    bench(server.resp, "--limit", "one", "--distribution", "single", "--key-length", 40,
          "--requests", 1)
    assert server.get(f"/v1/peek/one?key={'0' * 40}").json["remaining"] == 0


def test_error_replies_are_counted_and_quoted(server):
    for protocol in ("resp", "http"):
        result, code, said = bench(server.ports[protocol], "--protocol", protocol,
                                   "--limit", "nosuch", "--requests", 10)
        assert (code, result["answered"], result["errors"]) == (2, 10, 10)
        assert "error reply: " in said


def test_an_interrupt_prints_what_was_measured_so_far(serve):
    server = serve()
    command = [WEIR, "bench", "--server", f"127.0.0.1:{server.resp}", "--json", "--warmup", "0s",
               "--duration", "1h"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        # More requests than connections: so bench has read answers to the first.
        until(lambda: int(re.search(r'^weir_requests_total{protocol="resp"} (\d+)',
                                    server.get("/metrics").text, re.M)[1]) > 1000, "requests")
        process.send_signal(signal.SIGINT)
        result = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert process.returncode == 0
    assert result["interrupted"]
    assert 0 < result["answered"] <= result["sent"]


def test_the_text_names_the_kind_of_loop(server):
    for flags, loop in (((), "closed loop"), (("--rate", "1000"), "open loop, 1000 a second")):
        done = weir("bench", "--server", f"127.0.0.1:{server.resp}", "--requests", 100, *flags)
        assert done.returncode == 0
        assert loop in done.stdout
        assert "100 answered" in done.stdout
        assert "p99.99" in done.stdout


@pytest.mark.parametrize("flags", [
    ("--connections", "0"), ("--connections", "x"), ("--pipeline", "10001"), ("--rate", "-1"),
    ("--duration", "10"), ("--duration", "25h"), ("--duration", "0s"), ("--keys", "0"),
    ("--distribution", "zipf"), ("--key-length", "3"), ("--protocol", "grpc"), ("--protocol", "http"),
    ("--path", "a"), ("--path", "/a", "--command", "b"), ("--path", "/a", "--protocol", "resp"),
    ("--command", "a", "--protocol", "http"), ("--threads", "3", "--connections", "2"),
    ("--requests", "1", "--duration", "1s"), ("--server", "nonsense"), ("--command", " "), ("more",)])
def test_errors_of_flags_name_the_expected_values(flags):
    done = weir("bench", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected" in done.stderr


def test_a_missing_server_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:%d" % free.getsockname()[1]
    done = weir("bench", "--server", address)
    assert done.returncode == 2
    assert f"can't reach {address}" in done.stderr
    assert weir("bench", "--nosuch").returncode == 2
