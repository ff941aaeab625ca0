"""Kills programs that acquire and report permits in a store file, at random instants.

A killed program has permits, or is acquiring or reporting one. It has recorded its steps in
shared memory, and afterwards the file must agree: no permit is in flight for longer than its time,
no reported permit is, and no breaker stays half-open because its probes were lost.

WEIR_TEST_SEED=N replays the choices (the scheduler's are its own), WEIR_TEST_KILLS=N
kills as often.
"""

import ctypes
import mmap
import os
import random
import subprocess
import time

import pytest
from harness import BUILD, weir

pytestmark = pytest.mark.first

KILLS = int(os.environ.get("WEIR_TEST_KILLS", 100 if BUILD.name in ("asan", "tsan") else 400))
# The same as in tests/crash/permit_limits.h.
KEYS, PERMITS, CALLERS = 8, 12, 256
LIMITS = BREAKER, BULKHEAD, THROTTLE, MEASURED, NARROW, CONCURRENCY = range(6)
MOST = {BULKHEAD: 4, NARROW: 4, CONCURRENCY: 4}
TIMEOUT_NS, PROBES = 20_000_000, 2
FREE, ASKING, HELD, REPORTING = range(4)
CLOSED, _, OPEN, HALF_OPEN = range(4)
U32, U64 = ctypes.c_uint32, ctypes.c_uint64
# An adaptive limit counts permits in parts of a fifth of their timeout, which begin at multiples of 256 ns.
PARTS, START_NS = 6, 256
PART_NS = TIMEOUT_NS // 5 + 1 + START_NS


class Permit(ctypes.Structure):
    _fields_ = [("step", U32), ("place", U32),
                *((name, U64) for name in ("id", "until_ns", "cost", "reserved"))]


class Counts(ctypes.Structure):
    _fields_ = [(name, U32) for name in ("asked", "answered", "succeeds", "succeeded")]


class Caller(ctypes.Structure):
    _fields_ = [("permits", Permit * PERMITS), ("counts", Counts * KEYS)]


class Memory(ctypes.Structure):
    _fields_ = [("now_ns", U64), ("callers", Caller * CALLERS)]


def may_be_in_flight(limit, until_ns, now_ns):
    """(whether an unreported permit may be in flight, whether it must be)"""
    if limit in (MEASURED, NARROW):
        part = (until_ns // START_NS * START_NS - TIMEOUT_NS) // PART_NS
        flies = part + PARTS > now_ns // START_NS * START_NS // PART_NS
        return flies, flies
    if limit in (BULKHEAD, CONCURRENCY):
        return until_ns > now_ns, until_ns > now_ns
    # A breaker without max_concurrent counts permits in parts of an eighth of their timeout.
    return until_ns + TIMEOUT_NS // 8 + 1 > now_ns, until_ns > now_ns


class Run:
    """One store file, from its creation until all its users are killed."""

    def __init__(self, directory, chance):
        self.directory, self.chance = directory, chance
        self.path = directory / "run"
        self.path.write_bytes(bytes(ctypes.sizeof(Memory)))
        with open(self.path, "r+b") as file:
            self.memory = Memory.from_buffer(mmap.mmap(file.fileno(), 0))
        self.memory.now_ns = time.time_ns()
        self.started, self.processes = 0, [None] * 3

    def program(self, name, *arguments):
        return [BUILD / "tests" / "crash" / name, self.directory / "state", self.path,
                *map(str, arguments)]

    def start(self, i):
        self.processes[i] = subprocess.Popen(
            self.program("reporter", self.started, self.chance.randrange(2**31)),
            stderr=subprocess.PIPE, text=True)
        self.started += 1

    def kill(self, i):
        self.processes[i].kill()
        _, said = self.processes[i].communicate()
        assert self.processes[i].returncode == -9, f"ended by itself: {said}"

    def go(self, kills):
        try:
            for i in range(len(self.processes)):
                self.start(i)
            for _ in range(kills):
                time.sleep(self.chance.uniform(0, 0.02))
                i = self.chance.randrange(len(self.processes))
                self.kill(i)
                self.start(i)
            time.sleep(self.chance.uniform(0, 0.02))
            for i in range(len(self.processes)):
                self.kill(i)
        finally:
            for process in self.processes:
                if process:
                    process.kill()

    def is_untouched(self):
        """Whether all programs were killed before their first request."""
        return not any(bytes(caller).strip(b"\0") for caller in self.memory.callers[:self.started])

    def noted(self, place):
        """(permits that must be in flight, permits that may be in flight)"""
        sure = most = 0
        for caller in self.memory.callers[:self.started]:
            for permit in caller.permits:
                if permit.step == FREE or permit.place != place:
                    continue
                may, does = may_be_in_flight(place // KEYS, permit.until_ns, self.memory.now_ns)
                most += permit.step == ASKING or may
                sure += permit.step == HELD and does
        return sure, most

    def counted(self, key):
        """For requests and for successes: [number sent, number acknowledged]."""
        callers = self.memory.callers[:self.started]
        return [[sum(getattr(caller.counts[key], name) for caller in callers) for name in names]
                for names in (("answered", "asked"), ("succeeded", "succeeds"))]

    def compare(self):
        """Compares the file with the records: (permits in flight, breakers that were half-open)."""
        done = weir("store", "check", self.directory / "state")
        assert done.returncode == 0, done.stderr
        done = subprocess.run(self.program("inspector"), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        flew = half_open = 0
        for place, line in enumerate(done.stdout.splitlines()):
            phase, flying, good, in_flight, requests, accepts, later, denials, probes, last = map(
                int, line.split())
            limit, (sure, most), context = place // KEYS, self.noted(place), (place, line)
            if limit == THROTTLE:
                (least, asked), (succeeded, succeeds) = self.counted(place % KEYS)
                assert least <= requests <= asked, (context, least, asked)
                assert succeeded <= accepts <= succeeds, (context, succeeded, succeeds)
                continue
            assert sure <= in_flight <= most, (context, sure, most)
            assert in_flight <= MOST.get(limit, most), context
            assert later == 0, f"a permit is held for longer than its time: {context}"
            assert last == CLOSED, f"a breaker does not close again: {context}"
            assert denials <= 1 and probes <= PROBES, context
            assert phase != HALF_OPEN or flying + good <= PROBES, context
            flew, half_open = flew + in_flight, half_open + (phase == HALF_OPEN and flying > 0)
        done = weir("store", "check", self.directory / "state")
        assert done.returncode == 0, done.stderr
        return flew, half_open


def test_no_permit_of_a_killed_program_is_in_flight_for_longer_than_its_time(tmp_path):
    seed = int(os.environ.get("WEIR_TEST_SEED", time.time_ns() % 2**32))
    print(f"WEIR_TEST_SEED={seed}")
    chance = random.Random(seed)
    kills = runs = flew = half_open = 0
    while kills < KILLS:
        directory = tmp_path / str(runs)
        directory.mkdir()
        run = Run(directory, chance)
        run.go(chance.randrange(20))
        kills, runs = kills + run.started, runs + 1
        if not (directory / "state").exists():
            assert run.is_untouched(), "a caller asked, and there is no file"
            continue
        found = run.compare()
        flew, half_open = flew + found[0], half_open + found[1]
        (directory / "state").unlink()
    print(f"{kills} kills on {runs} files: {flew} permits were in flight at the end of one, and "
          f"{half_open} breakers were half-open")
    assert flew > runs
