"""A limit in front of the server and the clients of src/simulate/closed_loop/backend.h, in virtual time.

The clients are a closed loop: each thinks, asks the limit, and if it passes waits for its answer. Times are in
nanoseconds from the beginning of a run.
"""

import ctypes
import dataclasses
import math
import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests/model"))

import weir
from permits import OUTCOMES, Permit

MS = 10**6
SECOND = 10**9
ROUND_TRIP = MS  # of a closed loop's clients, beside the time for which they think
NEVER = 2**62
HIGH, LOW = 0, 9  # priorities


class Options(ctypes.Structure):
    _fields_ = [
        ("seed", ctypes.c_uint64), ("workers", ctypes.c_uint), ("service", ctypes.c_void_p),
        ("mean_ns", ctypes.c_double), ("strain", ctypes.c_double), ("shares", ctypes.c_bool),
        ("attempts", ctypes.c_uint), ("patience_ns", ctypes.c_uint64), ("backoff_ns", ctypes.c_uint64),
        ("notifies", ctypes.c_bool), ("silent", ctypes.c_double), ("clients", ctypes.c_uint),
        ("think_ns", ctypes.c_double), ("attempts_max", ctypes.c_uint64)]


class Demand(ctypes.Structure):
    _fields_ = [("load", ctypes.c_double), ("low", ctypes.c_double), ("priorities", ctypes.c_uint8 * 2)]


class Attempt(ctypes.Structure):
    _fields_ = [("client", ctypes.c_uint32), ("priority", ctypes.c_uint8), ("now_ns", ctypes.c_uint64),
                ("permit", Permit), ("wait_ns", ctypes.c_uint64)]


ALLOWS = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(Attempt))
REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Permit), ctypes.c_int, ctypes.c_uint64)


class Limit(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("allows", ALLOWS), ("report", REPORT), ("answered", ctypes.c_void_p)]


STRUCTS = {"backend_options": Options, "backend_demand": Demand, "backend_attempt": Attempt, "backend_limit": Limit}

lib = ctypes.CDLL(str(weir.BUILD / "tests/libclosed_loop.so"))
_BACKEND = ctypes.c_void_p
for _name, _result, *_arguments in (
        ("service_named", ctypes.c_void_p, ctypes.c_char_p),
        ("backend_open", _BACKEND, ctypes.POINTER(Options), Limit),
        ("backend_close", None, _BACKEND),
        ("backend_set_demand", None, _BACKEND, Demand),
        ("backend_set_think", None, _BACKEND, ctypes.c_double),
        ("backend_set_server", None, _BACKEND, ctypes.c_uint, ctypes.c_double),
        ("backend_run_until", ctypes.c_int, _BACKEND, ctypes.c_uint64),
        ("backend_inside", ctypes.c_uint, _BACKEND)):
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = _result, _arguments


def service_times(name, count, seed=1):
    """So many draws of a distribution, in means."""
    draw = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lib.service_named(name.encode()))
    rng = random.Random(seed)
    return [draw(rng.random()) for _ in range(count)]


@dataclasses.dataclass
class Server:
    workers: int
    service: str
    mean_ns: int = 10 * MS
    strain: float = 0.1   # a call takes so much longer for each `workers` in the server beyond those at work
    shares: bool = False  # all calls in it are served at once, the more the slower; otherwise they queue


@dataclasses.dataclass
class Change:
    """Sets the given values of `load`, `workers` or `mean_ns` at a time."""
    at_ns: int
    load: float = None
    workers: int = None
    mean_ns: float = None


@dataclasses.dataclass
class Retries:
    """A client that is denied, or gets no answer for so long, asks again. The server works on all the same."""
    attempts: int = 3
    backoff_ns: int = 20 * MS  # the most of the first pause, doubled for the next
    patience_ns: int = 200 * MS


class Run:
    """A run's calls in flight, and its results: counts in bins of `bin_ns`, and each answer."""

    def __init__(self, controller, bin_ns, duration_ns):
        self.controller, self.bin_ns = controller, bin_ns
        bins = duration_ns // bin_ns + 1
        self.asked, self.passed, self.answered = [0] * bins, [0] * bins, [0] * bins
        self.high_asked, self.high_passed = [0] * bins, [0] * bins
        self.limit, self.latency_sum = [0.0] * bins, [0.0] * bins
        self.answers = []  # (when, latency)
        self.calls, self.permits, self.error = {}, 0, None

    def allows(self, attempt):
        now, is_high = attempt.now_ns, attempt.priority == HIGH
        spot = now // self.bin_ns
        self.asked[spot] += 1
        self.high_asked[spot] += is_high
        allowed = self.controller.allows(now, len(self.calls), is_high)
        if allowed:
            self.passed[spot] += 1
            self.high_passed[spot] += is_high
            self.permits += 1
            attempt.permit.id = self.permits
            self.calls[self.permits] = now, self.controller.acquired(now, len(self.calls) + 1)
        else:
            self.controller.denied(now, len(self.calls))
        self.limit[spot] = self.controller.limit(now)
        return allowed

    def report(self, permit, outcome, now):
        sent, then = self.calls[permit.id]
        outcome, spot = OUTCOMES[outcome], now // self.bin_ns
        if outcome == "success":
            self.answered[spot] += 1
            self.latency_sum[spot] += now - sent
            self.answers.append((now, now - sent))
        self.controller.report(now, now - sent, len(self.calls), then, outcome)
        del self.calls[permit.id]
        self.limit[spot] = self.controller.limit(now)

    def callback(self, kind, function):
        """A function for the model, which cannot pass on an exception."""
        def call(_, structure, *others):
            try:
                return function(structure.contents, *others)
            except BaseException as error:
                self.error = self.error or error
                return False

        return kind(call)

    def until(self, backend, at_ns):
        status = lib.backend_run_until(backend, at_ns)
        if self.error:
            raise self.error
        assert status == 0, f"the model stopped with status {status}"


def run(server, controller, duration_ns, load=3.0, clients=1000, seed=1, changes=(), bin_ns=None,
        high=1.0, retries=None):
    """Runs it; `load` is of the server's first capacity, `high` the share of requests of high priority."""
    def think_ns(load):
        think = clients * server.mean_ns / (load * server.workers) - ROUND_TRIP
        assert think > 0, "more clients are needed for this load"
        return think

    out = Run(controller, bin_ns or server.mean_ns, duration_ns)
    retries = retries or Retries(1, 0, NEVER)
    options = Options(
        seed=seed, workers=server.workers, service=lib.service_named(server.service.encode()),
        mean_ns=server.mean_ns, strain=server.strain, shares=server.shares, attempts=retries.attempts,
        patience_ns=retries.patience_ns, backoff_ns=retries.backoff_ns, notifies=True, clients=clients,
        think_ns=think_ns(load))
    limit = Limit(allows=out.callback(ALLOWS, out.allows), report=out.callback(REPORT, out.report))
    backend = lib.backend_open(options, limit)
    lib.backend_set_demand(backend, Demand(0, 1 - high, (HIGH, LOW)))
    workers, mean_ns = server.workers, server.mean_ns
    try:
        for change in sorted(changes, key=lambda change: change.at_ns):
            out.until(backend, change.at_ns)
            if change.load is not None:
                lib.backend_set_think(backend, think_ns(change.load))
            workers, mean_ns = change.workers or workers, change.mean_ns or mean_ns
            lib.backend_set_server(backend, workers, mean_ns)
        out.until(backend, duration_ns)
    finally:
        lib.backend_close(backend)
    return out


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else 0
