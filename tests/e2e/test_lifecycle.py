"""A server starts, reloads its configuration, and stops."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from harness import BUILD, CONFIG, PATIENCE, WEIR, Http, Wire, encode, until, weir

pytestmark = pytest.mark.first


def wait_for_limit(server, name):
    """Waits until a reload has added the limit; returns its quota."""
    def there():
        answer = server.get(f"/v1/peek/{name}?key=k")
        return answer.status == 200 and answer.json["quota"]
    return until(there, f"limit {name}")


def test_sighup_replaces_the_rules_by_those_of_a_valid_file(serve):
    server = serve()
    assert server.get("/v1/peek/fresh?key=k").status == 404
    server.reload(CONFIG.replace("  one:", "  fresh: { algorithm: token_bucket, rate: 7/h }\n  one:"))
    assert wait_for_limit(server, "fresh") == 7


def test_an_invalid_file_changes_nothing_and_its_error_names_the_place(serve):
    server = serve()
    server.reload(CONFIG.replace("rate: 1/h", "rate: 0/h"))
    line = server.line_with("error: expected")
    assert f" error reload_failed {server.config}:7:" in line
    assert server.get("/v1/peek/one?key=k").json["quota"] == 1
    server.reload(CONFIG.replace("  one:", "  fresh: { algorithm: token_bucket, rate: 7/h }\n  one:"))
    assert wait_for_limit(server, "fresh") == 7


def test_a_reload_keeps_the_use_of_keys_up_to_the_new_limit(serve):
    server = serve()
    server.get("/v1/acquire/login?key=k&cost=3")
    server.get("/v1/acquire/window?key=k&cost=3")
    server.get("/v1/acquire/reset?key=k&cost=3")
    server.reload(CONFIG.replace("rate: 10/h, burst: 10", "rate: 10/h, burst: 20")
                  .replace("fixed_window, rate: 3/h", "fixed_window, rate: 2/h")
                  .replace("resetting_bucket, rate: 3/h", "resetting_bucket, rate: 3/m")
                  .replace("  one:", "  fresh: { algorithm: token_bucket, rate: 7/h }\n  one:"))
    wait_for_limit(server, "fresh")
    assert server.get("/v1/peek/login?key=k").json["remaining"] == 17
    window = server.get("/v1/peek/window?key=k").json
    assert (window["allowed"], window["quota"], window["remaining"]) == (False, 2, 0)
    # A limit with another period counts anew.
    assert server.get("/v1/peek/reset?key=k").json["remaining"] == 3


def test_a_reload_that_lowers_a_burst_shortens_the_wait(serve):
    server = serve()
    server.get("/v1/acquire/login?key=k&cost=10")
    server.reload(CONFIG.replace("rate: 10/h, burst: 10", "rate: 10/h, burst: 2")
                  .replace("  one:", "  fresh: { algorithm: token_bucket, rate: 7/h }\n  one:"))
    wait_for_limit(server, "fresh")
    lowered = server.get("/v1/peek/login?key=k").json
    assert (lowered["allowed"], lowered["quota"], lowered["remaining"]) == (False, 2, 0)
    assert lowered["retry_after_ms"] <= 3_600_000 // 10


def test_reloads_under_load_lose_no_request(serve):
    server = serve("--threads", "4")
    with Wire(server.resp) as wire:
        for i in range(50):
            server.reload(CONFIG)
            wire.send(encode("WEIR.ACQUIRE", "login", f"k{i}") * 20)
            assert [wire.reply()[0] for _ in range(20)] == [1] * 10 + [0] * 10


def reloads(client):
    """The number of successful reloads."""
    page = client.request("GET", "/metrics").text
    return int(re.search(r'^weir_reloads_total{result="success"} (\d+)', page, re.M)[1])


def test_a_thousand_reloads_under_load_lose_no_count(serve):
    # The rates differ, about a token in ten minutes; the burst is the same, and is granted once only.
    burst, config = 200_000, "limits: {{ it: {{ algorithm: token_bucket, rate: {}/w, burst: 200000 }} }}\n"
    server = serve("--threads", "4", config=config.format(1000))
    allowed, stop = [], threading.Event()

    def load():
        granted = 0
        with Wire(server.resp) as wire:
            while not stop.is_set():
                wire.send(encode("WEIR.ACQUIRE", "it", "k") * 50)
                granted += sum(wire.reply()[0] for _ in range(50))
        allowed.append(granted)

    clients = [threading.Thread(target=load) for _ in range(3)]
    for client in clients:
        client.start()
    deadline = time.monotonic() + 3 * PATIENCE
    with Http(server.http) as watch:
        for i in range(1000 if BUILD.name == "build" else 200):  # sanitizers are slow
            server.reload(config.format(1000 + i % 7))
            while reloads(watch) <= i:
                assert time.monotonic() < deadline
    with Wire(server.resp) as wire:
        until(lambda: wire.command("WEIR.ACQUIRE", "it", "k", "COST", 0)[0] == 0, "the last token")
    stop.set()
    for client in clients:
        client.join()
    assert sum(allowed) == burst


def test_sigterm_answers_received_requests_and_exits(serve):
    server = serve()
    with Wire(server.resp) as wire, Wire(server.http):  # the second connection is idle, and delays nothing
        assert wire.command("PING") == b"+PONG"
        wire.send(encode("WEIR.ACQUIRE", "login", "k") * 200)
        wire.reply()
        server.process.send_signal(signal.SIGTERM)
        answered = wire.rest()
    assert server.process.wait(PATIENCE) == 0
    # The bytes end with a complete reply of seven elements.
    assert answered == b"" or answered.endswith(b"$0\r\n\r\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.resp))


def test_sigint_exits_with_0(serve):
    server = serve()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(PATIENCE) == 0


def test_without_a_file_commands_with_limits_in_their_arguments_work(serve):
    server = serve(config=None)
    with Wire(server.resp) as wire:
        assert wire.command("CL.THROTTLE", "k", 9, 5, 3600)[:3] == [0, 10, 9]
        assert wire.command("WEIR.ACQUIRE", "login", "k").startswith(b"-ERR ")


def test_flags_override_the_environment_and_that_overrides_the_file(serve):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        taken = "127.0.0.1:%d" % busy.getsockname()[1]
        config = f"listen: {{ http: '{taken}', resp: '{taken}' }}\n"
        serve("--resp", "127.0.0.1:0", config=config, ports=False,
              env={"WEIR_HTTP": "127.0.0.1:0", "WEIR_RESP": taken})


def test_an_address_in_use_is_an_error_and_exits_1():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        taken = "127.0.0.1:%d" % busy.getsockname()[1]
        done = weir("serve", "--http", taken, "--resp", "127.0.0.1:0")
    assert done.returncode == 1
    assert taken in done.stderr


@pytest.mark.parametrize("flags", [
    ("--store", "nosuch"), ("--capacity", "x"), ("--capacity", "-1"), ("--threads", "x"),
    ("--http", "nonsense:port"), ("-c", "/nonexistent/weir.yaml"), ("--nosuch",)])
def test_an_invalid_flag_is_an_error_and_stops_the_start(flags):
    done = weir("serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", *flags)
    assert done.returncode in (1, 2)
    assert done.stderr.strip()


def test_an_invalid_file_stops_the_start_and_its_error_names_the_place(tmp_path):
    file = tmp_path / "weir.yaml"
    file.write_text("limits:\n  login: { algorithm: token_bucket, rate: 0/s }\n")
    done = weir("serve", "-c", file, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0")
    assert done.returncode == 1
    assert f"{file}:2:" in done.stderr
    assert "listening:" not in done.stderr


def test_a_blocked_stderr_stops_neither_requests_nor_reloads_nor_the_exit(tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text(CONFIG)
    reading, writing = os.pipe()
    server = subprocess.Popen([WEIR, "serve", "-c", config, "--threads", "1", "--http", "127.0.0.1:0",
                               "--resp", "127.0.0.1:0"], stderr=writing)
    try:
        said = b""
        while said.count(b"listening: ") < 2 or not said.endswith(b"\n"):
            said += os.read(reading, 4096)
        http, resp = (int(port) for port in re.findall(rb"listening: \w+ .*:(\d+)", said))
        # Opened again, so that O_NONBLOCK applies to this descriptor only.
        full = os.open(f"/proc/self/fd/{writing}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, b"x" * 4096)
        with Http(http) as watch:
            for i in range(3):
                server.send_signal(signal.SIGHUP)
                with Wire(resp) as other:
                    other.send(b"GET / HTTP/1.1\r\n\r\n")  # this is logged
                    assert b"-ERR" in other.rest()
                until(lambda: reloads(watch) > i, "a reload")  # noqa: B023
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        os.close(writing)
        os.close(full)
        writing = -1
    finally:
        server.kill()
        server.wait()
        os.close(reading)
        if writing >= 0:
            os.close(writing)
