#!/usr/bin/env python3
"""Compares limits on what is in flight at a server that can be overloaded, in virtual time.

    run.py [--only NAME,NAME] [--limits NAME,NAME] [--seeds N]

Each figure is of several runs with the seeds 0, 1, …, so a run prints the same again.
"""

import argparse
import dataclasses
import functools
import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests/model"))

import controllers
import simulation
from controllers import Library
from models.adaptive import Knee
from simulation import MS, SECOND, Change, Server, percentile

MEAN = 10 * MS
CLIENTS = 1000
WORKERS = (16,)  # of `collapse`
STEP = 2  # bins, of a mean service time each, by which a run is looked at
LOOK = 20  # and over so many


class Modelled(controllers.Controller):
    """The library's default limit, by its model in tests/model, for rules that the library does not have."""

    def __init__(self):
        self.knee = Knee(most=1000)
        self.value = self.knee.limit

    def acquired(self, now, in_flight):
        return self.knee.window

    def report(self, now, latency, in_flight, then, outcome="success"):
        window = self.knee.window
        self.knee.sample(latency, in_flight, then, dropped=outcome == "timeout")
        if self.knee.window != window:
            self.value = self.knee.limit


class Apart(Modelled):
    """Requests of high priority may go `over` the limit, others stay `below` it: in roots of the limit."""

    def __init__(self, below, over):
        super().__init__()
        self.below, self.over = below, over

    def allows(self, now, in_flight, is_high):
        return in_flight < self.value + (self.over if is_high else -self.below) * math.sqrt(self.value)


class Moving(Modelled):
    """So far apart as denials of high priority make them: parts `below` and `over` of a headroom.

    The headroom rises by one when a request of high priority is denied, up to `most` roots of the
    limit, and falls by 1/400 when one is let through.
    """

    def __init__(self, below, over, most):
        super().__init__()
        self.below, self.over, self.most, self.headroom = below, over, most, 0.0

    def allows(self, now, in_flight, is_high):
        most = self.most * math.sqrt(self.value)
        headroom = min(self.headroom, most)
        allowed = in_flight < self.value + (self.over if is_high else -self.below) * headroom
        if is_high:
            headroom = max(0.0, headroom - 1 / 400) if allowed else min(most, headroom + 1)
        self.headroom = headroom
        return allowed


# How knee may know priorities. The first and the last way are the library's.
WAYS = {
    "first come, first served": Library,
    "two roots below": lambda: Apart(2, 0),
    "two roots over": lambda: Apart(0, 2),
    "a root below, two over": lambda: Apart(1, 2),
    "moves, all below": lambda: Moving(1, 0, math.inf),
    "moves, all over": lambda: Moving(0, 1, 4),
    "moves, half below": lambda: Moving(0.5, 1, 2),
    "preferred": lambda: Library(has_priorities=True),
}

LIMITS = {
    "none": lambda workers: controllers.Unlimited(),
    "aimd": lambda workers: controllers.Aimd(),
    "vegas": lambda workers: controllers.Vegas(),
    "gradient2": lambda workers: controllers.Gradient2(),
    "bbr": controllers.Bbr,
    "envoy": lambda workers: controllers.Envoy(),
    "failsafe-go": lambda workers: controllers.Failsafe(),
    "failsafe-go 50 ms": lambda workers: controllers.Failsafe(window=50 * MS),
    "knee": lambda workers: Library(),
    "best": lambda workers: controllers.Fixed(workers + math.isqrt(workers)),
}


@functools.cache
def unloaded(service, share=0.99):
    return percentile(simulation.service_times(service, 100000), share) * MEAN


@dataclasses.dataclass
class Phase:
    """A part of runs in which nothing changes."""
    from_ns: int
    to_ns: int
    capacity: float  # or what is asked for, if that is less; a second
    p99_ns: float


def runs(limit, service, workers, seconds, load, seeds, changes=(), **server):
    for seed in range(seeds):
        made = LIMITS[limit](workers)
        yield simulation.run(Server(workers, service, MEAN, **server), made,
                             seconds * SECOND, load, CLIENTS, seed, changes)


def goodput(done, phase):
    answers = sum(1 for run in done for when, _ in run.answers if phase.from_ns <= when < phase.to_ns)
    return answers * SECOND / (phase.to_ns - phase.from_ns) / len(done) / phase.capacity


def p99(done, phase):
    return percentile([latency for run in done for when, latency in run.answers
                       if phase.from_ns <= when < phase.to_ns], 0.99) / phase.p99_ns


def settled(done, phase):
    """After how many mean service times it is as it stays: the answers, to 5%, and how long they took."""
    first, last = int(phase.from_ns // MEAN), int(phase.to_ns // MEAN)

    def looks(at, to):
        answers = sum(run.answered[s] for run in done for s in range(at, to))
        took = sum(run.latency_sum[s] for run in done for s in range(at, to))
        return answers / (to - at), took / max(answers, 1)

    rate, latency = looks((first + last) // 2, last)
    for at in range(first, last - LOOK, STEP):
        now = looks(at, at + LOOK)
        if now[0] >= 0.95 * rate and now[1] <= 1.15 * latency:
            return at - first
    return None


def collapse(limit, seeds):
    for workers in WORKERS:
        for service in ("exponential", "constant", "bimodal", "mixed"):
            for shares in (False, True):
                done = list(runs(limit, service, workers, 10, 3.0, seeds, shares=shares))
                phase = Phase(4 * SECOND, 10 * SECOND, workers * SECOND / MEAN, unloaded(service))
                yield (f"{workers} workers, {service}, {'shared' if shares else 'queue'}",
                       f"{goodput(done, phase):.1%}", f"{p99(done, phase):.2f}")


def change(limit, seeds, slower):
    workers, half = 16, 4
    for service in ("exponential", "constant", "bimodal"):
        both = ([Change(half * SECOND, mean_ns=2 * MEAN), Change(2 * half * SECOND, mean_ns=MEAN)] if slower
                else [Change(half * SECOND, workers=workers // 2), Change(2 * half * SECOND, workers=workers)])
        done = list(runs(limit, service, workers, 3 * half, 3.0, seeds, both))
        full = workers * SECOND / MEAN
        row = [service]
        for i, share, longer in ((1, 0.5, 2 if slower else 1), (2, 1.0, 1)):
            phase = Phase(i * half * SECOND, (i + 1) * half * SECOND, full * share, unloaded(service) * longer)
            at = settled(done, phase)
            after = dataclasses.replace(phase, from_ns=phase.from_ns + (at or 0) * MEAN)
            row += ["never" if at is None else str(at), f"{1 - goodput(done, after):.1%}",
                    f"{p99(done, after):.2f}"]
        yield tuple(row)


def spike(limit, seeds):
    workers = 16
    for service in ("exponential", "constant", "bimodal"):
        done = list(runs(limit, service, workers, 6, 0.6, seeds, [Change(3 * SECOND, load=1.4)]))
        phase = Phase(3 * SECOND, 6 * SECOND, workers * SECOND / MEAN, unloaded(service))
        at = settled(done, phase)
        after = dataclasses.replace(phase, from_ns=phase.from_ns + (at or 0) * MEAN)
        yield (service, "never" if at is None else str(at), f"{goodput(done, after):.1%}",
               f"{p99(done, after):.2f}")


def passed(done, from_s, to_s):
    spots = range(int(from_s * SECOND // MEAN), int(to_s * SECOND // MEAN))
    return sum(run.passed[s] for run in done for s in spots) / sum(run.asked[s] for run in done for s in spots)


def passed_high(done, from_s, to_s):
    spots = range(int(from_s * SECOND // MEAN), int(to_s * SECOND // MEAN))
    return (sum(run.high_passed[s] for run in done for s in spots) /
            sum(run.high_asked[s] for run in done for s in spots))


def quiet(limit, seeds):
    """The share of requests that passes although the server has capacity for all."""
    for load in (0.3, 0.7):
        for service in ("exponential", "mixed"):
            done = list(runs(limit, service, 64, 10, load, seeds))
            yield f"load {load}, {service}", f"{passed(done, 5, 10):.2%}"


def drift(limit, seeds):
    """Each request takes longer and longer, up to three times, by no fault of load; then not."""
    steps = [Change(int((5 + i / 10) * SECOND), mean_ns=MEAN * (1 + 2 * i / 100)) for i in range(101)]
    back = [Change(20 * SECOND, mean_ns=MEAN)]
    for load in (0.25, 3.0):
        done = list(runs(limit, "exponential", 16, 25, load, seeds, steps + back))
        slow = Phase(16 * SECOND, 20 * SECOND, 16 * SECOND / MEAN / 3, 3 * unloaded("exponential"))
        fast = Phase(21 * SECOND, 25 * SECOND, 16 * SECOND / MEAN, unloaded("exponential"))
        if load < 1:
            yield f"load {load}", f"{passed(done, 5, 20):.1%}", f"{passed(done, 20, 25):.1%}"
        else:
            yield f"load {load}", f"{goodput(done, slow):.1%}", f"{goodput(done, fast):.1%}"


def lucky(limit, seeds):
    done = list(runs(limit, "lucky", 16, 10, 3.0, seeds))
    phase = Phase(4 * SECOND, 10 * SECOND, 16 * SECOND / MEAN, unloaded("exponential"))
    yield "one of 200", f"{goodput(done, phase):.1%}", f"{p99(done, phase):.2f}"


def priorities(limit, seeds):
    """Beside 12 requests of low priority for each of high priority, which alone would have room."""
    if limit != "knee":
        return
    for way, made in WAYS.items():
        for load in (0.5, 0.9):
            for service in ("exponential", "constant", "bimodal"):
                done = [simulation.run(Server(16, service, MEAN), made(), 10 * SECOND,
                                       13 * load, 13 * 100, seed, high=1 / 13) for seed in range(seeds)]
                phase = Phase(4 * SECOND, 10 * SECOND, 16 * SECOND / MEAN, unloaded(service))
                yield (f"{way}, {load}, {service}", f"{passed_high(done, 4, 10):.2%}",
                       f"{goodput(done, phase):.1%}", f"{p99(done, phase):.2f}")


def mixes(limit, seeds):
    """From little of high priority to three times the capacity, beside 1.5 times of low priority."""
    if limit != "knee":
        return
    for way in ("first come, first served", "moves, all over", "preferred"):
        for retries in (None, simulation.Retries()):
            for high in (0.1, 0.5, 0.9, 1.5, 3):
                load = high + 1.5
                done = [simulation.run(Server(16, "exponential", MEAN), WAYS[way](), 10 * SECOND,
                                       load, CLIENTS, seed, high=high / load, retries=retries)
                        for seed in range(seeds)]
                phase = Phase(4 * SECOND, 10 * SECOND, 16 * SECOND / MEAN, unloaded("exponential"))
                most = max(max(run.limit[phase.from_ns // run.bin_ns:]) for run in done)
                yield (f"{way}, {high}{', retries' if retries else ''}", f"{most}",
                       f"{goodput(done, phase):.1%}", f"{p99(done, phase):.2f}")


EXPERIMENTS = {
    "collapse": (collapse, "3 x capacity", ("goodput", "p99")),
    "halves": (functools.partial(change, slower=False), "half of the workers go, and return",
               ("settled", "lost", "p99", "settled", "lost", "p99")),
    "slower": (functools.partial(change, slower=True), "each request takes twice as long, and not",
               ("settled", "lost", "p99", "settled", "lost", "p99")),
    "spike": (spike, "from 0.6 to 1.4 x capacity", ("settled", "goodput", "p99")),
    "quiet": (quiet, "there is room for all", ("passed",)),
    "drift": (drift, "three times slower, and not", ("slow", "fast")),
    "lucky": (lucky, "some take a thousandth", ("goodput", "p99")),
    "mixes": (mixes, "high priority from 0.1 to 3 x capacity", ("limit", "goodput", "p99")),
    "priorities": (priorities, "12 of low priority for each of high", ("high", "goodput", "p99")),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(EXPERIMENTS))
    parser.add_argument("--limits", default=",".join(LIMITS))
    parser.add_argument("--seeds", type=int, default=2, help="runs for each figure")
    args = parser.parse_args()
    for name in args.only.split(","):
        experiment, what, columns = EXPERIMENTS[name]
        print(f"\n{name}: {what}\n")
        print("| | limit | " + " | ".join(columns) + " |")
        print("|---" * (len(columns) + 2) + "|")
        for limit in args.limits.split(","):
            for row in experiment(limit, args.seeds):
                print(f"| {row[0]} | {limit} | " + " | ".join(row[1:]) + " |", flush=True)


if __name__ == "__main__":
    main()
