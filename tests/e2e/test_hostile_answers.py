"""Commands meet servers that are not Weir, or that answer with anything."""

import contextlib
import json
import socket
import subprocess
import threading
import time

import pytest
from harness import PATIENCE, WEIR, one_thread, weir

pytestmark = one_thread


@contextlib.contextmanager
def fake_server(answer):
    """Answers each connection with the bytes `answer`, or calls it with the connection; yields the address."""
    def run(listener):
        while True:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                if client.recv(65536) == b"end":
                    return
                if callable(answer):
                    answer(client)
                else:
                    client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run, args=[listener])
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            with socket.create_connection(listener.getsockname()) as last:
                last.sendall(b"end")
            thread.join()


def http(body, status="200 OK", fields=b""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status.encode(), fields, len(body)) + body


def is_safe(text):
    return all(" " <= character <= "~" or character == "\n" or character == "é" for character in text)


ESCAPES = "\x1b]0;owned\x07\x9b1m\u202eé"
DENIAL = {"id": ESCAPES, "time": ESCAPES, "rule": ESCAPES, "limit": ESCAPES, "key": ESCAPES, "reason": ESCAPES,
          "retry_after_ms": 1, "shadow": True, "attributes": {ESCAPES: ESCAPES}}


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_control_character_of_a_server_reaches_the_terminal(flags, ascii_only):
    body = json.dumps([DENIAL], ensure_ascii=ascii_only)
    with fake_server(http(body.encode())) as address:
        done = weir("why", "k", "--server", address, *flags)
    assert done.returncode == 0 and is_safe(done.stdout) and done.stderr == ""
    if flags:
        assert json.loads(done.stdout) == [DENIAL]
    else:
        assert r"\x1b]0;owned\x07\xc2\x9b1m\xe2\x80\xaeé" in done.stdout
    with fake_server(http({"error": {"code": "x", "message": ESCAPES}}, "404 Not Found")) as address:
        for words in (["why", "k"], ["key", "k"], ["reset", "l", "k"], ["ask", "l", "k"]):
            done = weir(*words, "--server", f"http://{address}")
            assert done.returncode == 2 and is_safe(done.stderr) and "owned" in done.stderr and not done.stdout


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRONG = {
    "nothing": b"",
    "an error of Redis": b"-ERR unknown command\r\n",
    "a page": http(b"<html>hello</html>"),
    "an object where a list is": http({}),
    "a list where an object is": http([1]),
    "a list of numbers": http([1, 2]),
    "broken JSON": http(b"[{"),
    "two values": http(b"[] []"),
    "an empty body": http(b""),
    "a body that is cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]",
    "a head that is cut off": b"HTTP/1.1 200 OK\r\nContent-Le",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]",
    "a length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n") + b"2\r\n[]\r\n0\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n[]",
    "a huge length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n[]",
    "a length that no memory has": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n[]",
    "a chunk that is cut off": CHUNKED + b"5\r\n[",
    "a chunk of a wrong size": CHUNKED + b"zz\r\n[]\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n[]",
    "only interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 3,
    "a redirect": http(b"", "302 Found", b"Location: http://127.0.0.1:1/\r\n"),
    "an error without words": http(b"", "500 Internal Server Error"),
    "deep JSON": http(b"[" * 100_000),
    "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_is_not_weirs_is_an_error(name):
    with fake_server(WRONG[name]) as address:
        for words in (["why", "k"], ["why", "k", "--json"], ["key", "k"], ["reset", "l", "k"], ["ask", "l", "k"]):
            done = weir(*words, "--server", f"http://{address}")
            assert (done.returncode, done.stdout) == (2, ""), done
            assert is_safe(done.stderr) and done.stderr.count("\n") == 1, done


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 100 Continue\r\n\r\n" + http([]), CHUNKED + b"1;x=y\r\n[\r\n1\r\n]\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\n[]", http([]) + b"garbage"], ids=["interim", "chunks", "until the end", "more"])
def test_every_framing_of_http_is_read(answer):
    with fake_server(answer) as address:
        done = weir("why", "k", "--server", address, "--json")
    assert (done.returncode, done.stdout, done.stderr) == (1, "[]\n", "")


def flood(head, piece):
    def send(client):
        client.sendall(head)
        for _ in range(600):
            client.sendall(piece)
    return send


@pytest.mark.parametrize("head, piece", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n", b"[" * 100_000),
    (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 100_000),
    (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 10_000),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000),
    (CHUNKED + b"1;", b"x" * 1_000_000),
    (CHUNKED + b"0\r\n", b"X: y\r\n" * 200_000),
], ids=["body", "field", "fields", "interim", "extension", "trailers"])
def test_an_endless_answer_ends_with_an_error(head, piece):
    with fake_server(flood(head, piece)) as address:
        done = weir("why", "k", "--server", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected" in done.stderr


@pytest.mark.parametrize("answer", [b"*2147483647\r\n", b"*1000000000\r\n" * 7], ids=["long", "nested"])
def test_an_array_that_is_said_to_be_long_takes_no_time(answer):
    with fake_server(answer) as address:
        done = subprocess.run(["prlimit", "--cpu=5", WEIR, "ask", "l", "k", "--server", address], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "") and "expected Weir's RESP address" in done.stderr


def test_a_handshake_that_never_ends_is_given_up():
    def send(client):
        client.sendall(b"\x16\x03\x03\x40\x00")  # the head of a record of TLS with 16 KiB
        while True:
            client.sendall(b"\x02")
            time.sleep(0.1)

    with fake_server(send) as address:
        done = weir("why", "k", "--server", f"https://{address}")
    assert (done.returncode, done.stdout) == (2, "") and "Connection timed out" in done.stderr


def test_a_server_that_accepts_no_more_connections_is_given_up():
    with socket.socket() as listener, contextlib.ExitStack() as others:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        done = weir("why", "k", "--server", f"127.0.0.1:{listener.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.endswith(": Connection timed out\n")


def test_only_a_decision_is_waited_for_without_end():
    """A limit may hold a decision for long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        commands = [["reset", "l", "k", "--server", address], ["reset", "l", "k", "--server", f"http://{address}"],
                    ["ask", "l", "k", "--peek", "--server", address], ["why", "k", "--server", address]]
        running = [subprocess.Popen([WEIR, *words], stderr=subprocess.PIPE, text=True) for words in commands]
        try:
            for process in running:
                _, said = process.communicate(timeout=PATIENCE)
                assert process.returncode == 2 and said.endswith(": Connection timed out\n")
        finally:
            for process in running:
                process.kill()
                process.communicate()


def test_many_rows_of_long_texts_take_little_memory():
    rows = [{"id": "x" * 100_000}] + [{"id": "y"}] * 100_000
    with fake_server(http(rows)) as address:
        done = weir("why", "k", "--server", address)
    assert done.returncode == 0 and done.stdout.count("\n") == 1001
    assert max(map(len, done.stdout.splitlines())) < 1000


STATUS = {"version": ESCAPES, "uptime_s": 90061, "started": ESCAPES, "ready": False, "keys": None, "listeners": [1, {}],
          "configuration": {"files": [ESCAPES], "read": ESCAPES, "error": ESCAPES * 100}, "stores": 7,
          "open_breakers": [{"limit": ESCAPES, "key": "k" * 10_000}] * 1000, "denials": [],
          "switched": [{"limit": ESCAPES, "deny": {"x": ESCAPES}, "by": [ESCAPES]}, 3, {"key": ESCAPES, "state": 1}]}


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_status_of_any_content_is_printed_safely(flags):
    with fake_server(http(STATUS)) as address:
        done = weir("status", "--server", address, *flags)
    assert done.returncode == 1 and is_safe(done.stdout) and done.stderr == ""
    if flags:
        assert json.loads(done.stdout) == STATUS
    else:
        assert "NOT READY" in done.stdout and "1 d 1 h" in done.stdout and "and 980 more" in done.stdout


@pytest.mark.parametrize("name", WRONG)
def test_a_status_or_reload_that_is_not_weirs_is_an_error(name):
    with fake_server(WRONG[name]) as address:
        for words in (["status"], ["status", "--json"], ["reload"]):
            done = weir(*words, "--server", f"http://{address}")
            assert (done.returncode, done.stdout) == (2, ""), done
            assert is_safe(done.stderr), done


@pytest.mark.parametrize("status, code, shown", [
    ("503 Service Unavailable", 1, "state  NOT READY\n"), ("200 OK", 0, "state  ready\n"), ("500 Oh", 2, "")])
def test_a_server_of_an_earlier_version_says_whether_it_is_ready(status, code, shown):
    answers = iter([http({"error": {"code": "not_found", "message": "expected a known path"}}, "404 Not Found"),
                    http(b"x\n", status)])
    with fake_server(lambda client: client.sendall(next(answers))) as address:
        done = weir("status", "--server", address)
    assert (done.returncode, done.stdout) == (code, shown)
