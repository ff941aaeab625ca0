"""weir top: frames of text and JSON, and the live view in a terminal."""

import fcntl
import itertools
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from harness import PATIENCE, WEIR, one_thread, until, weir
from test_hostile_answers import ESCAPES, fake_server, http, is_safe
from test_users import user

pytestmark = one_thread

CONFIG = """
limits:
  login: { algorithm: fixed_window, rate: 1/h, align: first_request }
  back: { algorithm: breaker, preset: hystrix }
"""


def top(server, *flags):
    return weir("top", "--server", f"127.0.0.1:{server.http}", *flags)


@pytest.fixture
def busy(serve):
    """A server whose last seconds have denials of a key, and a forced breaker."""
    server = serve(config=CONFIG)
    server.post("/v1/breaker", {"limit": "back", "key": "db-1", "state": "open"})
    server.post("/v1/batch", [{"limit": "login", "key": "ann\x1b[2J"}] * 100)
    return server


def frame_with_login(server, wanted, *flags):
    """A frame in which a text is found. A point is only shown for ten seconds, which a busy machine may miss."""
    for number in itertools.count():
        server.post("/v1/batch", [{"limit": "login", "key": f"user {number}"}] * 100)
        until(lambda: '"limit":"login"' in server.get("/v1/stats?since=10s").text, "a point of login")
        done = top(server, "--once", *flags)
        if re.search(wanted, done.stdout, re.M) or number == 9:
            return done


def test_one_frame_has_limits_breakers_and_keys(busy):
    row = r"^LIMIT +ALLOWED/S +DENIED/S +DENIED\n(.*\n)*login +[\d.]+ +[\d.]+ +99.0%$"
    done = frame_with_login(busy, row)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"weir \S+, ready: (about|fewer than) \d+ of 1000000 keys, [\d.]+ MB, \d+ connections, 0 requests wait\n", done.stdout)
    assert "open breakers: back db-1\n" in done.stdout
    assert re.search(row, done.stdout, re.M), done.stdout
    assert re.search(r"^ann\\x1b\[2J +login +\d+ +0 of 1$", done.stdout, re.M) and is_safe(done.stdout)


def test_an_adaptive_limit_shows_what_a_secret_key_has_left(serve):
    server = serve(config="""
limits: { ad: { algorithm: adaptive, initial: 2, min: 1, max: 3 } }
rules: [{ key: [header.x-api-key], limits: [ad] }]
""")
    server.post("/v1/batch", [{"attributes": {"header.x-api-key": "k1"}}] * 5)
    digest = server.post("/v1/key", {"key": "k1"}).json["digest"]
    assert re.search(rf"^KEY DENIED MOST +LIMIT +DENIED +LEFT\n{digest} +ad +\d+ +0 of 2$", top(server, "--once").stdout, re.M)


def test_a_user_who_may_not_ask_sees_no_such_column(serve):
    server = serve(config=CONFIG + "users:\n" + user("all", token="all", may=["ask", "admin"]) + user("adm", token="adm", may=["admin"]))
    server.get("/v1/batch", {"Authorization": "Bearer all"}, "POST", json.dumps([{"limit": "login", "key": "k"}] * 9))
    for name, columns in (("all", r"k +login +\d+ +0 of 1"), ("adm", r"k +login +\d+")):
        done = weir("top", "--once", "--server", f"127.0.0.1:{server.http}", env={"WEIR_TOKEN": name})
        assert done.returncode == 0 and re.search(f"^{columns}$", done.stdout, re.M), done


def test_a_store_that_is_away_is_shown(serve, start_redis):
    redis = start_redis()
    server = serve(config=f"store: {redis.url}\nstore_timeout: 100ms\n{CONFIG}")
    server.post("/v1/acquire", {"limit": "login", "key": "k"})
    shown = top(server, "--once").stdout
    assert re.match(r"weir \S+, ready: keys at Redis, [\d.]+ MB, \d+ connections, 0 requests wait\nstore redis \S+ reachable\n\n", shown), shown
    redis.stop()
    server.post("/v1/acquire", {"limit": "login", "key": "k"})
    shown = until(lambda: re.search("^store .* NOT REACHABLE$", top(server, "--once").stdout, re.M), "the store to be shown")
    remote = server.get("/v1/status").json["stores"][1]
    assert shown[0] == f"store {remote['kind']} {remote['address']} NOT REACHABLE"


def test_one_frame_as_json(busy):
    done = frame_with_login(busy, '"limit":"login","allowed"', "--json")
    assert (done.returncode, done.stderr) == (0, "")
    frame = json.loads(done.stdout)
    assert frame.keys() == {"status", "stats", "top"} and frame["status"]["ready"] is True
    assert "login" in {limit["limit"] for limit in frame["stats"]["limits"]}
    assert done.stdout.endswith("}\n") and "\x1b" not in done.stdout


def test_the_row_of_others_is_shown_only_if_they_have_traffic(serve):
    idle = top(serve(config=CONFIG), "--once")
    assert idle.returncode == 0 and idle.stdout.count("LIMIT") == 2 and "others" not in idle.stdout
    for others, shown in ({"allowed": [0, 0]}, 0), ({"allowed": [2, 0]}, 1), ({"denied": [0, 4]}, 1):
        answers = iter([http({"version": "1"}), http({"limits": [], "others": others}), http([])])
        with fake_server(lambda client, answers=answers: client.sendall(next(answers))) as address:
            done = weir("top", "--server", address, "--once")
        assert done.returncode == 0 and done.stdout.count("\n(others) ") == shown, done.stdout


def test_without_a_terminal_frames_follow_each_other(busy):
    command = [WEIR, "top", "--json", "--server", f"127.0.0.1:{busy.http}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        frames = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(PATIENCE) == -signal.SIGTERM
    assert all(frame["status"]["ready"] for frame in frames)


class Screen:
    """`weir top` in a terminal of 6 lines and 40 columns."""

    def __init__(self, address):
        self.leader, follower = pty.openpty()
        self.resize(6, 40)
        self.before = termios.tcgetattr(follower)
        self.follower = follower
        self.process = subprocess.Popen([WEIR, "top", "--server", address], stdin=follower, stdout=follower,
                                        stderr=follower)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.leader], [], [], 0)[0]:
            self.text += os.read(self.leader, 65536).decode()
        return self.text

    def frames(self):
        """The lines of each frame that is complete."""
        return [[line.removesuffix("\x1b[K") for line in re.split("\r+\n", frame)]
                for frame in re.findall(r"\x1b\[H(.*?)\x1b\[J", self.read(), re.S)]

    def end(self):
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
            time.sleep(0.01)
        self.read()
        assert self.text.endswith("\x1b[?25h\x1b[?1049l")
        assert termios.tcgetattr(self.follower) == self.before
        os.close(self.leader)
        os.close(self.follower)
        return self.process.returncode


@pytest.mark.parametrize("how, code", [("q", 0), (signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM)])
def test_the_live_view_fits_the_terminal_and_restores_it(busy, how, code):
    screen = Screen(f"127.0.0.1:{busy.http}")
    until(lambda: len(screen.frames()) >= 2, "two frames")
    assert screen.text.startswith("\x1b[?1049h\x1b[?25l")
    assert all(len(frame) <= 6 and all(len(line) <= 40 for line in frame) for frame in screen.frames())
    screen.resize(30, 120)
    os.kill(screen.process.pid, signal.SIGWINCH)
    until(lambda: len(screen.frames()[-1]) > 6 and len(screen.frames()[-1][0]) > 40, "a frame in the new size")
    assert any(line.startswith(r"ann\x1b[2J") for line in screen.frames()[-1])
    if how == "q":
        os.write(screen.leader, b"q")
    else:
        screen.process.send_signal(how)
    assert screen.end() == code


def test_the_live_view_outlives_its_server(serve):
    server = serve(config=CONFIG)
    screen = Screen(f"127.0.0.1:{server.http}")
    until(lambda: len(screen.frames()) >= 1, "a frame")
    assert server.stop() == 0
    until(lambda: screen.frames()[-1][0].startswith("weir: no answer from"), "an error in the frame")
    os.write(screen.leader, b"q")
    assert screen.end() == 0


def test_no_server_or_no_right_is_an_error(serve):
    for flags in ([], ["--once"], ["--once", "--json"]):
        assert weir("top", "--server", "127.0.0.1:1", *flags).returncode == 2
    assert weir("top", "more").returncode == 2


@pytest.mark.parametrize("flags", [["--once"], ["--once", "--json"]])
def test_hostile_answers_are_printed_safely(flags):
    stats = {"limits": [{"limit": ESCAPES * 50, "allowed": [10**30, -1, "x"], "denied": {}}] * 1000, "others": 7}
    keys = [{"key": ESCAPES, "limit": ESCAPES, "denied": 1.5}] * 1000
    answers = iter([http({"version": ESCAPES, "open_breakers": [7] * 100, "recovering_breakers": [{"phase": ESCAPES * 9}] * 9}), http(stats), http(keys),
                    http([7, {"quota": 1.5, "remaining": ESCAPES}, {"quota": 1}])])
    with fake_server(lambda client: client.sendall(next(answers))) as address:
        done = weir("top", "--server", address, *flags)
    assert (done.returncode, done.stderr) == (0, "") and is_safe(done.stdout)
    answers = iter([http({}), http([]), http([])])
    with fake_server(lambda client: client.sendall(next(answers))) as address:
        assert weir("top", "--server", address, *flags).returncode == 2
