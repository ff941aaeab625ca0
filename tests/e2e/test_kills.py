"""Kills servers and programs that share a store file, at random instants under load.

Each client counts its answers. Afterwards the file must have counted every grant that a
client has received, and no more than those plus the requests without an answer.

WEIR_TEST_SEED=N replays the choices (the scheduler's are its own), WEIR_TEST_KILLS=N
kills as often.
"""

import array
import ctypes
import mmap
import os
import random
import re
import socket
import subprocess
import threading
import time

import pytest
from harness import BUILD, WEIR, encode, weir

pytestmark = pytest.mark.first

# A program with a sanitizer starts slowly.
KILLS = int(os.environ.get("WEIR_TEST_KILLS", 60 if BUILD.name in ("asan", "tsan") else 300))
KEYS, QUOTA, CAPACITY = 40000, 20, 150000
EPOCHS, RATE, WINDOW = 256, 8, 256  # the same as in tests/crash/acquirer.c
LIMITS = ("window", "bucket")
# Nothing refills while the test runs.
CONFIG = f"""
limits:
  window: {{ algorithm: fixed_window, rate: {QUOTA}/13w, align: first_request }}
  bucket: {{ algorithm: token_bucket, rate: 1/13w, burst: {QUOTA} }}
"""


class Report(ctypes.Structure):
    """The counts of an acquirer, in a mapped file that outlives its process."""
    class Key(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint32) for name in ("asked", "answered", "granted")]

    _fields_ = [("start_ns", ctypes.c_uint64), ("epoch", ctypes.c_uint64),
                ("answers", ctypes.c_uint64), ("gap_ns", ctypes.c_uint64 * EPOCHS),
                ("keys", Key * (2 * KEYS))]

    @classmethod
    def make(cls, path):
        path.write_bytes(bytes(ctypes.sizeof(cls)))
        with open(path, "r+b") as file:
            return cls.from_buffer(mmap.mmap(file.fileno(), 0))


class Counts:
    """Requests, answers and grants of one client, by limit and key."""

    def __init__(self):
        self.asked, self.answered, self.granted = (array.array("I", bytes(8 * KEYS)) for _ in range(3))


class Acquirer:
    def __init__(self, run, number):
        self.run, self.seed = run, run.chance.randrange(2**31)
        self.path = run.directory / f"acquirer-{number}"
        self.report = Report.make(self.path)
        self.report.start_ns = run.start_ns

    process = None

    def start(self):
        self.seed, self.log = self.seed + 1, []
        self.process = subprocess.Popen([*self.run.acquirer(self.path), str(self.seed)])


class Server:
    """A server and its two clients, which end with it."""

    process = None

    def __init__(self, run, _):
        self.run = run

    def start(self):
        self.log = []
        self.process = subprocess.Popen(
            [WEIR, "serve", "-c", self.run.config, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0",
             "--threads", "1", "--store", f"file:{self.run.file}", "--capacity", str(CAPACITY)],
            stderr=subprocess.PIPE, text=True)
        self.run.spawn(self.follow, self.process.stderr, self.run.chance.random())

    def follow(self, stderr, seed):
        with stderr:
            for line in stderr:
                self.log.append(line)
                found = re.fullmatch(r"listening: (\w+) .*:(\d+)\n", line)
                if found:
                    ask = self.ask_resp if found[1] == "resp" else self.ask_http
                    self.run.spawn(self.converse, int(found[2]), ask, random.Random(seed))

    def converse(self, port, ask, chance):
        counts = self.run.counts()
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection, \
                    connection.makefile("rb") as replies:
                while True:
                    ask(connection, replies, counts, [self.run.place(chance) for _ in range(16)])
        except OSError:
            pass  # the server was killed: the last requests have no answer

    def ask_resp(self, connection, replies, counts, places):
        """Sends the requests as a pipeline."""
        for place in places:
            counts.asked[place] += 1
        connection.sendall(b"".join(
            encode("WEIR.ACQUIRE", LIMITS[place // KEYS], f"k{place % KEYS}") for place in places))
        for place in places:
            reply = b"".join(replies.readline() for _ in range(12))  # seven elements, two of them strings of two lines
            if not reply.endswith(b"\r\n\r\n"):
                raise OSError("closed")
            counts.granted[place] += reply.startswith(b"*7\r\n:1\r\n")
            counts.answered[place] += 1

    def ask_http(self, connection, replies, counts, places):
        for place in places:
            counts.asked[place] += 1
            connection.sendall(b"GET /v1/acquire/%s?key=k%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (
                LIMITS[place // KEYS].encode(), place % KEYS))
            status, length = replies.readline(), None
            while (line := replies.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if length is None or len(replies.read(length)) < length:
                raise OSError("closed")
            assert status.split()[1] in (b"200", b"429"), status
            counts.granted[place] += status.split()[1] == b"200"
            counts.answered[place] += 1


class Run:
    """One store file, from its creation until all its users are killed at once."""

    def __init__(self, directory, chance):
        self.directory, self.chance = directory, chance
        self.file, self.config = directory / "state", directory / "weir.yaml"
        self.config.write_text(CONFIG)
        self.start_ns = time.monotonic_ns()
        self.threads, self.all_counts = [], []
        self.acquirers = [Acquirer(self, i) for i in range(2)]
        self.slots = [*self.acquirers, Server(self, 0), Server(self, 1)]

    def acquirer(self, report):
        return [BUILD / "tests" / "crash" / "acquirer", self.file, str(CAPACITY), str(QUOTA), str(KEYS),
                report]

    def place(self, chance):
        newest = (time.monotonic_ns() - self.start_ns) // 10**6 * RATE
        return chance.randrange(2) * KEYS + (newest + chance.randrange(WINDOW)) % KEYS

    def counts(self):
        self.all_counts.append(Counts())
        return self.all_counts[-1]

    def spawn(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments)
        self.threads.append(thread)
        thread.start()

    def epoch(self):
        for acquirer in self.acquirers:
            acquirer.report.epoch += 1

    def kill(self, slots):
        for slot in slots:
            slot.process.kill()
        for slot in slots:
            assert slot.process.wait() == -9, f"ended by itself: {slot.log}"

    def go(self, kills):
        try:
            self.start_and_kill(kills)
        finally:
            for slot in self.slots:
                if slot.process:
                    slot.process.kill()  # no effect, except if the run has failed
        for thread in self.threads:  # new threads start while the first end
            thread.join()

    def start_and_kill(self, kills):
        for slot in self.slots:
            slot.start()
        time.sleep(0.02)
        for _ in range(kills):
            time.sleep(self.chance.uniform(0, 0.05))
            slot = self.chance.choice(self.slots)
            self.epoch()  # odd epochs are those around a kill
            self.kill([slot])
            slot.start()
            time.sleep(0.005)
            self.epoch()
        self.kill(self.slots)

    def compare(self):
        """(grants that clients received, grants in the file, answers)"""
        done = weir("store", "check", self.file)
        assert done.returncode == 0, done.stderr
        found = Report.make(self.directory / "found")
        subprocess.run(self.acquirer(self.directory / "found"), check=True)
        received = stored = answers = 0
        for place in range(2 * KEYS):
            clients = [counts for counts in self.all_counts if counts.asked[place]]
            asked = sum(counts.asked[place] for counts in clients)
            answered = sum(counts.answered[place] for counts in clients)
            granted = sum(counts.granted[place] for counts in clients)
            for acquirer in self.acquirers:
                key = acquirer.report.keys[place]
                asked, answered, granted = asked + key.asked, answered + key.answered, granted + key.granted
            there = found.keys[place].granted
            assert granted <= there <= granted + asked - answered, (place, granted, there, asked, answered)
            assert granted <= QUOTA
            received, stored, answers = received + granted, stored + there, answers + answered
        return received, stored, answers

    def gaps(self):
        """The longest CPU time between two answers of a survivor: [around kills, at other times]."""
        return [[max(acquirer.report.gap_ns[epoch] for acquirer in self.acquirers) / 1e6
                 for epoch in range(parity, self.acquirers[0].report.epoch, 2)] for parity in (1, 0)]


def test_no_answered_request_is_lost_when_programs_are_killed_under_load(tmp_path):
    seed = int(os.environ.get("WEIR_TEST_SEED", time.time_ns() % 2**32))
    print(f"WEIR_TEST_SEED={seed}")
    chance = random.Random(seed)
    kills = received = stored = answers = runs = 0
    around, quiet = [], []
    while kills < KILLS:
        directory = tmp_path / str(runs)
        directory.mkdir()
        run = Run(directory, chance)
        some = min(chance.randrange(10, 100), KILLS - kills)
        run.go(some)
        counted = run.compare()
        received, stored, answers = received + counted[0], stored + counted[1], answers + counted[2]
        for all_gaps, gaps in zip((around, quiet), run.gaps()):
            all_gaps += gaps
        kills, runs = kills + some + len(run.slots), runs + 1
        (directory / "state").unlink()
    median = lambda values: sorted(values)[len(values) // 2]
    print(f"{kills} kills on {runs} files: {answers} answers, {received} grants received of {stored} stored; "
          f"a survivor works for an answer around a kill: median {median(around):.2f} ms, "
          f"most {max(around):.1f} ms; without: {median(quiet):.2f} and {max(quiet):.1f} ms")
    assert received > 100 * runs
    assert max(around) < 1000
