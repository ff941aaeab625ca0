"""Starts real programs on free loopback ports, and has plain clients for them."""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
WEIR = BUILD / "weir"


def _left_out(forms, reason):
    return pytest.mark.skipif(BUILD.name in forms, reason=reason)


# Marks of tests that builds with a sanitizer leave out, with the reason; see tests/README.md.
SANITIZED = ("asan", "tsan")
plain_build_only = _left_out(SANITIZED, "a build with a sanitizer is not what users get")
little_of_ours = _left_out(SANITIZED, "texts, or servers of the tests' own, and little or nothing of Weir")
programs_of_others = _left_out(SANITIZED, "they ask what our own clients ask, and the time goes to them")
one_thread = _left_out(("tsan",), "no threads meet here")

PATIENCE = 60  # seconds until a wait fails; a program with a sanitizer on a busy machine is slow

# Periods are an hour, so that nothing refills during a test.
CONFIG = """
limits:
  login: { algorithm: token_bucket, rate: 10/h, burst: 10 }
  level: { algorithm: leaky_bucket, rate: 10/h, capacity: 10 }
  window: { algorithm: fixed_window, rate: 3/h, align: first_request }
  reset: { algorithm: resetting_bucket, rate: 3/h }
  one: { algorithm: token_bucket, rate: 1/h }
rules:
  - name: login-by-ip
    match: { path: /login }
    key: [ip]
    limits: [login]
trusted_proxies: [127.0.0.0/8]
"""


# The `room` in /v1/limits of limits that share the default capacity.
ROOM = {"keys": 1000000, "bytes": 20410368, "shared": True}


def clock_ahead(seconds):
    """The environment of a server whose wall clock is `seconds` ahead, or behind if they are negative."""
    return {"LD_PRELOAD": str(BUILD / "tests" / "libclock.so"), "WEIR_TEST_CLOCK_AHEAD": str(int(seconds)),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def until(condition, what):
    """Polls until `condition()` is true and returns its value; fails after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE} s for {what}")


def is_listening(path):
    """Whether a socket accepts connections at a path; its file exists slightly earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


class Server:
    """A running `weir serve`, with its ports and the lines of its stderr."""

    def __init__(self, *flags, config=None, directory=None, ports=True, env=None, program=WEIR, account=()):
        command = [*account, program, "serve"]
        self.config = None
        if config is not None:
            # Each server has its own file, since a server reloads its file when it is written.
            names = (f"weir{n or ''}.yaml" for n in itertools.count())
            self.config = next(path for path in map(pathlib.Path(directory).joinpath, names)
                               if not path.exists())
            self.config.write_text(config)
            command += ["-c", self.config]
        if ports:
            command += ["--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *flags], stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.lines = queue.Queue()
        self.log = []
        self.ports, self.addresses = {}, {}
        threading.Thread(target=self._read, daemon=True).start()
        while len(self.addresses) < 2:
            found = re.fullmatch(r"listening: (\w+) (.*?:(\d+|/.*))", self.line())
            if found:
                self.addresses[found[1]] = found[2]
                self.ports[found[1]] = int(found[3]) if found[3].isdigit() else None
        self.http, self.resp = self.ports["http"], self.ports["resp"]

    def _read(self):
        for line in self.process.stderr:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self):
        try:
            line = self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"no more than {self.log} on stderr") from None
        assert line is not None, f"exit {self.process.wait()}: {self.log}"
        self.log.append(line)
        return line

    def line_with(self, text):
        while text not in (line := self.line()):
            pass
        return line

    def reload(self, config):
        """Replaces the file and sends SIGHUP. The server is stopped meanwhile, since it might reload for the change alone."""
        # The new file is renamed into place, as an earlier reload may be reading the old one.
        fresh = self.config.with_suffix(".new")
        fresh.write_text(config)
        self.process.send_signal(signal.SIGSTOP)
        fresh.replace(self.config)
        self.process.send_signal(signal.SIGHUP)
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Sends SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def get(self, path, headers=None, method="GET", body=None):
        with Http(self.http) as client:
            return client.request(method, path, body, headers)

    def post(self, path, value):
        return self.get(path, {"Content-Type": "application/json"}, "POST", json.dumps(value))


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


class Http:
    """An HTTP connection that is kept open."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def request(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, headers or {})
        return Answer(self.connection.getresponse())


class Wire:
    """A TCP connection that sends bytes and reads bytes or RESP2 replies."""

    def __init__(self, port, address="127.0.0.1"):
        self.socket = socket.create_connection((address, port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), f"connection closed after {line!r}"
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        return int(rest) if kind == b":" else line[:-2]

    def command(self, *words):
        self.send(encode(*words))
        return self.reply()

    def rest(self):
        """Reads all bytes until the other side closes."""
        try:
            return self.file.read()
        except ConnectionResetError:
            return b""


def encode(*words):
    """A command as an array of bulk strings."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def weir(*arguments, env=None, input=None):
    return subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, input=input,
                          timeout=PATIENCE, check=False, env={**os.environ, **(env or {})})


def metric(server, name):
    return float(re.search(rf"^{name} (\S+)$", server.get("/metrics").text, re.MULTILINE)[1])


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def until_at_rest(server):
    """Waits for a second in which the server uses at most a twentieth of a processor.

    On a busy machine that need not be the first second. A server that polls never has one."""
    ticks = os.sysconf("SC_CLK_TCK")

    def at_rest():
        before = cpu_seconds(server)
        time.sleep(1)
        return round((cpu_seconds(server) - before) * ticks) <= ticks // 20

    until(at_rest, "a second at rest")


@contextlib.contextmanager
def small_disk(directory, size):
    """A file system of that size, at a new directory."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True, timeout=PATIENCE)


def until_pending(server, n):
    """Waits until `n` answers are pending."""
    until(lambda: metric(server, "weir_answers_pending") == n, f"{n} to be pending")
