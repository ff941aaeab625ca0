"""A server that can be overloaded and the clients around it, in virtual time.

The server has workers, a queue in front of them, and thrashes: with more requests in it than
`strains`, each costs more. The clients are a closed loop: each thinks, asks the limiter, and if it
is let through waits for its answer. Time is in nanoseconds.
"""

import dataclasses
import heapq
import math
import random
from collections import deque

MS = 10**6
SECOND = 10**9


def exponential(rng):
    return rng.expovariate(1.0)


def constant(_):
    return 1.0


def bimodal(rng):
    """One of ten takes 19 times as long as the others."""
    return 6.785714 if rng.random() < 0.1 else 0.357143


def mixed(rng):
    """One of a hundred takes 50 times the mean."""
    return 50.0 if rng.random() < 0.01 else 0.5 / 0.99


def lucky(rng):
    """One of two hundred, a hit of a cache, takes a thousandth."""
    return 0.001 if rng.random() < 0.005 else rng.expovariate(1.0)


@dataclasses.dataclass
class Server:
    workers: int
    service: object
    mean_ns: float = 10 * MS
    strains: float = 1.0  # of workers: with more in it than these it thrashes
    strain: float = 0.1   # so much longer does a request take for each `workers` beyond
    shares: bool = False  # all in it are worked on at once, each more slowly; else first come, first served


@dataclasses.dataclass
class Change:
    """Sets the given values of `load`, `workers` or `mean_ns` at a time."""
    at_ns: int
    load: float = None
    workers: int = None
    mean_ns: float = None


class Run:
    """The results of a run: counts in bins of `bin_ns`, and each answer."""

    def __init__(self, bin_ns, duration_ns):
        self.bin_ns = bin_ns
        bins = int(duration_ns // bin_ns) + 1
        self.asked, self.passed, self.answered = [0] * bins, [0] * bins, [0] * bins
        self.high_asked, self.high_passed = [0] * bins, [0] * bins
        self.limit, self.latency_sum = [0.0] * bins, [0.0] * bins
        self.answers = []  # (when, latency)


@dataclasses.dataclass
class Retries:
    """A client that is denied, or gets no answer for so long, asks again. The server works on all the same."""
    attempts: int = 3
    pause_ns: float = 10 * MS  # on average, after a denial
    patience_ns: float = 200 * MS


def run(server, controller, duration_ns, load=3.0, clients=1000, seed=1, changes=(), bin_ns=None,
        high=1.0, retries=None):
    """Runs it; `load` is of the server's first capacity, `high` the share of clients of high priority."""
    rng = random.Random(seed)
    mean = server.mean_ns
    capacity = server.workers / mean
    out = Run(bin_ns or int(mean), duration_ns)
    workers, busy, queue, inside = server.workers, 0, deque(), 0
    strains = server.strains * server.workers
    factor = server.strain / server.workers
    events = []  # (when, order, kind, data)
    push, pop, order = heapq.heappush, heapq.heappop, 0
    attempts = retries.attempts if retries else 1
    left = set()  # calls that their clients have given up
    think = clients / (load * capacity)
    for change in changes:
        push(events, (change.at_ns, order, 2, change))
        order += 1
    for client in range(clients):
        push(events, (rng.random() * think, order, 0, (client < high * clients, attempts)))
        order += 1
    in_flight, bin_ns = 0, out.bin_ns
    draw = server.service
    shares, progress, at, running = server.shares, 0.0, 0.0, []

    def pace():
        rate = workers / inside if inside > workers else 1.0
        return rate / (1 + factor * (inside - strains)) if inside > strains else rate

    def again(now, is_high, tries, pause_ns):
        nonlocal order
        order += 1
        if tries > 1:
            push(events, (now + pause_ns, order, 0, (is_high, tries - 1)))
        else:
            push(events, (now + rng.expovariate(1.0) * think, order, 0, (is_high, attempts)))

    def begin(now, sent):
        nonlocal order
        took = draw(rng) * mean
        if inside > strains:
            took *= 1 + factor * (inside - strains)
        order += 1
        push(events, (now + took, order, 1, sent))

    while events:
        if running:
            rate = pace()
            ends = at + (running[0][0] - progress) / rate
        if running and ends <= events[0][0]:
            progress, at = running[0][0], ends
            now, kind, data = ends, 1, pop(running)[2]
        else:
            now, _, kind, data = pop(events)
            if running:
                progress += (now - at) * rate
            at = now
        if now >= duration_ns:
            break
        spot = int(now // bin_ns)
        if kind == 0:
            is_high, tries = data
            out.asked[spot] += 1
            out.high_asked[spot] += is_high
            if controller.allows(now, in_flight, is_high):
                out.passed[spot] += 1
                out.high_passed[spot] += is_high
                in_flight += 1
                inside += 1
                controller.acquired(now, in_flight)
                order += 1
                call = (now, in_flight, is_high, tries, order)
                if retries:
                    push(events, (now + retries.patience_ns, order, 3, call))
                if shares:
                    order += 1
                    push(running, (progress + draw(rng) * mean, order, call))
                elif busy < workers:
                    busy += 1
                    begin(now, call)
                else:
                    queue.append(call)
            else:
                controller.denied(now, in_flight)
                again(now, is_high, tries, rng.expovariate(1.0) * retries.pause_ns if retries else 0)
        elif kind == 1:
            sent, then, is_high, tries, call = data
            latency = now - sent
            inside -= 1
            busy -= 1
            while queue and busy < workers:
                busy += 1
                begin(now, queue.popleft())
            if call in left:
                left.remove(call)
                continue
            if retries:
                left.add(call)  # it is over, when its client's patience ends
            out.answered[spot] += 1
            out.latency_sum[spot] += latency
            out.answers.append((now, latency))
            controller.report(int(now), int(latency), in_flight, then)
            in_flight -= 1
            again(now, is_high, 1, 0)
        elif kind == 3:
            sent, then, is_high, tries, call = data
            if call in left:
                left.remove(call)
                continue
            left.add(call)
            controller.report(int(now), int(now - sent), in_flight, then, timeout=True)
            in_flight -= 1
            again(now, is_high, tries, 0)
        else:
            if data.load is not None:  # also for those that think just then
                ratio = clients / (data.load * capacity) / think
                think *= ratio
                events = [(now + (event[0] - now) * ratio, *event[1:]) if event[2] == 0 else event
                          for event in events]
                heapq.heapify(events)
            if data.workers is not None:
                workers = data.workers
                strains = server.strains * workers
                factor = server.strain / workers
                while queue and busy < workers:
                    busy += 1
                    begin(now, queue.popleft())
            if data.mean_ns is not None:
                mean = data.mean_ns
        out.limit[spot] = controller.limit(now)
    return out


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else 0
