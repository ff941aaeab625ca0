"""Priorities at a measured limit: the library in front of a server that can be overloaded, in virtual time.

Some clients have a high priority. Whatever share of the load they are, the limit must not follow an
overload, and the server must do nearly as much as with one priority. WEIR_TEST_WORKERS=64 plays a
larger server, which the suite leaves out as it takes minutes.
"""

import ctypes
import os
import pathlib
import sys

import pytest
import weir
from permits import OUTCOMES, Permit, lib

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/closed_loop"))

import controllers
import simulation
from simulation import SECOND, Retries, Server

NOW = 1_700_000_000 * SECOND
MEAN_NS = 10 * simulation.MS
TIMES = {4: (36, 12), 16: (9, 3), 64: (12, 4)}  # by workers: seconds of a run, and from when on it counts
WORKERS = [int(workers) for workers in os.environ.get("WEIR_TEST_WORKERS", "4,16").split(",")]
LOW = 1.5          # times the capacity, beside what is high
MOST_LIMIT = 1.5   # times that of one priority
LEAST_GOODPUT = 0.9
SHARES = (0.1, 0.5, 0.9, 1.5, 3)
SERVICES = {"exponential": (simulation.exponential, 1), "constant": (simulation.constant, 1),
            "bimodal": (simulation.bimodal, 2)}  # and so many runs, as chance tells much there


class Ask(ctypes.Structure):
    _fields_ = [("cost", weir.U64), ("priority", weir.U64), ("now_ns", weir.U64),
                ("deadline_ns", weir.U64), ("reserved", weir.U64 * 4)]


lib.weir_limiter_ask.argtypes = [ctypes.c_void_p, ctypes.POINTER(Ask), ctypes.c_void_p, ctypes.c_void_p]


class Library(controllers.Controller):
    """An adaptive limit; requests of low priority are of the last one. Permits end in any order."""

    def __init__(self):
        weir.lib.weir_seed(1)
        self.limiter = weir.Limiter(weir.options(weir.ADAPTIVE, max=1000))
        self.decision, self.permits, self.value = weir.RawDecision(), {}, 0

    def limit(self, now):
        return self.value

    def allows(self, now, in_flight, is_high):
        permit = Permit()
        ask = Ask(priority=0 if is_high else 9, now_ns=NOW + int(now))
        assert lib.weir_limiter_ask(self.limiter.handle, ctypes.byref(ask), ctypes.byref(self.decision),
                                    ctypes.byref(permit)) == weir.OK
        self.value = self.decision.quota
        if self.decision.allowed:
            self.permits.setdefault(int(now), []).append(permit)
        return self.decision.allowed

    def report(self, now, latency, in_flight, then, timeout=False):
        sent = next(at for at in range(now - latency - 1, now - latency + 2) if at in self.permits)
        permit = self.permits[sent].pop()
        if not self.permits[sent]:
            del self.permits[sent]
        outcome = OUTCOMES.index("timeout" if timeout else "success")
        assert lib.weir_limiter_report(self.limiter.handle, ctypes.byref(permit), outcome, latency,
                                       NOW + now) == weir.OK


def play(service, workers, load, high, retries):
    """The most that the limit was, and the goodput, of the capacity."""
    draw, seeds = SERVICES[service]
    seconds, settled = TIMES[workers]
    answers = limit = 0
    for seed in range(seeds):
        run = simulation.run(Server(workers, draw, MEAN_NS), Library(), seconds * SECOND, load=load,
                             seed=seed, high=high, retries=retries)
        answers += sum(when >= settled * SECOND for when, _ in run.answers)
        limit = max(limit, *run.limit[settled * SECOND // run.bin_ns:])
    return limit, answers / (workers * SECOND / MEAN_NS * (seconds - settled) * seeds)


@pytest.mark.parametrize("retries", [None, Retries()], ids=["", "retries"])
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("workers", WORKERS)
def test_a_limit_follows_no_overload_of_high_priority(workers, service, retries):
    for high in SHARES:
        one_limit, one = play(service, workers, high + LOW, 1.0, retries)
        limit, goodput = play(service, workers, high + LOW, high / (high + LOW), retries)
        seen = f"{high} x capacity: limit {limit}, with one priority {one_limit}; goodput {goodput:.1%}, {one:.1%}"
        assert limit <= MOST_LIMIT * one_limit, seen
        assert goodput >= LEAST_GOODPUT * one, seen
