#!/usr/bin/env python3
"""Limits and breakers in front of a real server that can be overloaded, ours and others'.

    bench/closed_loop/real.py [--quick] [--only NAME,...] [--limits NAME,...] [--json FILE]

Prints a table for each experiment; README.md here says what is measured, and how.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import statistics
import subprocess
import sys

from measure import ANSWERED, DENIED, MS, SECOND, UNLOADED_P99, Workload, java, percentile, run
from servers import BUILD, ROOT, Missing, built

SERVICES = ("exponential", "constant", "bimodal")
TOGETHER = 3    # runs at a time: they sleep most of the time
STEP = 2        # by so many mean service times a run is looked at, to see whether it has settled,
LOOK = 20       # each time over so many
BIN = 50 * MS   # of what is drawn

GATES = {
    "none": lambda: [built("bench/closed_loop_gate"), "none"],
    "fixed": lambda: [built("bench/closed_loop_gate"), "fixed"],
    "weir": lambda: [built("bench/closed_loop_gate"), "adaptive"],
    "weir breaker": lambda: [built("bench/closed_loop_gate"), "breaker"],
    "failsafe-go": lambda: [BUILD / "peers/failsafe-go", "limiter"],
    "failsafe-go queue": lambda: [BUILD / "peers/failsafe-go", "queue"],
    "failsafe-go priority": lambda: [BUILD / "peers/failsafe-go", "priority"],
    "failsafe-go breaker": lambda: [BUILD / "peers/failsafe-go", "breaker"],
    "gradient2": lambda: [*java(), "gradient2"],
    "resilience4j": lambda: [*java(), "breaker"],
}
ADAPTIVE = ("weir", "failsafe-go", "failsafe-go queue", "gradient2", "fixed")


@dataclasses.dataclass
class Figure:
    """A median, and the least and the most of the runs."""
    values: list
    form: str = "{:.1%}"

    def __str__(self):
        values = sorted(value for value in self.values if value is not None)
        if not values:
            return "never"
        middle = self.form.format(statistics.median(values))
        if len(values) == 1:
            return middle
        return f"{middle} [{self.form.format(values[0])} to {self.form.format(values[-1])}]"


@dataclasses.dataclass
class Phase:
    """A part of a run in which nothing changes, with the best that is possible in it."""
    workload: Workload
    from_ns: int
    to_ns: int
    workers: float

    def lost(self, done):
        return 1 - self.goodput(done)

    def goodput(self, done):
        return done.work(self.from_ns, self.to_ns) / self.workers

    def p99(self, done):
        alone = UNLOADED_P99[self.workload.service] * self.workload.mean_ns
        return percentile(done.latencies(self.from_ns, self.to_ns), 0.99) / alone

    def after(self, settled):
        from_ns = self.from_ns + (settled or 0) * self.workload.mean_ns
        return dataclasses.replace(self, from_ns=from_ns)


def settled(runs, phases):
    """After how many mean service times the runs together are as they stay: work and latencies."""
    mean_ns = phases[0].workload.mean_ns
    last = min(phase.to_ns - phase.from_ns for phase in phases) // mean_ns

    def look(at, to):
        work, latencies = 0, []
        for done, phase in zip(runs, phases):
            span = phase.from_ns + at * mean_ns, phase.from_ns + to * mean_ns
            work += done.work(*span)
            latencies += done.latencies(*span)
        return work, statistics.fmean(latencies or [0])

    work, latency = look(last // 2, last)
    for at in range(0, last - LOOK, STEP):
        now = look(at, at + LOOK)
        if now[0] >= 0.95 * work and now[1] <= 1.15 * latency:
            return at
    return None


def each(function, runs, phases, form="{:.1%}"):
    return Figure([function(phase, done) for done, phase in zip(runs, phases)], form)


def goodput_and_p99(runs, phases):
    return [each(Phase.goodput, runs, phases), each(Phase.p99, runs, phases, "{:.2f}")]


def steady_and_halves(service, seconds=4):
    """3 x the capacity; half of the workers go and return."""
    if seconds == 0:
        return Workload(service, seconds=5)
    return Workload(service, seconds=1 + 3 * seconds,
                    changes=((1 + seconds, "server", "workers 8"), (1 + 2 * seconds, "server", "workers 16")))


def steady(workload, runs):
    """Before the first change, or to the end."""
    first = [int((workload.changes[0][0] if workload.changes else workload.seconds) * SECOND)] * len(runs)
    phases = [Phase(workload, 2 * SECOND, to, workload.workers) for to in first]
    return goodput_and_p99(runs, phases)


def first_second(workload, runs, i):
    """Goodput in the second after a change, of the capacity that is there then."""
    part = 0.5 if workload.changes[i][2] == f"workers {workload.workers // 2}" else 1.0
    return each(Phase.goodput, runs, [Phase(workload, done.changed[i], done.changed[i] + SECOND,
                                            part * workload.workers) for done in runs])


def first_seconds(workload, runs):
    return [first_second(workload, runs, i) for i in range(len(workload.changes))]


def storm(workload, runs):
    """Before the fault, in the first seconds of it and after it, and in the last two."""
    end = int(workload.seconds * SECOND)
    asked = workload.workers * min(workload.load, 1)
    before, last = ([Phase(workload, done.changed[0] - 2 * SECOND, done.changed[0], asked) for done in runs],
                    [Phase(workload, end - 2 * SECOND, end, asked)] * len(runs))
    return [each(Phase.goodput, runs, before), *first_seconds(workload, runs),
            each(Phase.goodput, runs, last), each(Phase.p99, runs, last, "{:.2f}")]


def halves(workload, runs):
    figures = steady(workload, runs)
    for i, part in ((0, 0.5), (1, 1.0)):
        phases = [Phase(workload, done.changed[i],
                        done.changed[1] if i == 0 else int(workload.seconds * SECOND),
                        part * workload.workers) for done in runs]
        at = settled(runs, phases)
        after = [phase.after(at) for phase in phases]
        figures += ["never" if at is None else str(at), each(Phase.lost, runs, after),
                    each(Phase.p99, runs, after, "{:.2f}")]
    return figures + first_seconds(workload, runs)


def spike(workload, runs):
    phases = [Phase(workload, done.changed[0], int(workload.seconds * SECOND), workload.workers)
              for done in runs]
    at = settled(runs, phases)
    before = Figure([1 - sum(record.status == ANSWERED for record in records) / len(records)
                     for records in (done.within(SECOND, done.changed[0]) for done in runs)])
    return [before, "never" if at is None else str(at),
            *goodput_and_p99(runs, [phase.after(at) for phase in phases]), *first_seconds(workload, runs)]


def full_after(done, workload):
    """Seconds from the start to where each second that follows has the usual work; None: never."""
    killed, started = done.changed
    end = int(workload.seconds * SECOND)
    usual, full = done.work(SECOND, killed), None
    for at in range(end - SECOND, started, -50 * MS):
        if done.work(at, at + SECOND) < 0.85 * usual:
            break
        full = (at - started) / SECOND
    return full


def returns(workload, runs):
    """The server was killed, and started again."""
    end = int(workload.seconds * SECOND)
    full = [full_after(done, workload) for done in runs]
    never = f" ({full.count(None)} never)" if None in full else ""
    calls, most, goodput = [], [], []
    for done in runs:
        killed, started = done.changed
        calls.append(sum(record.status != DENIED for record in done.within(killed, started)))
        most.append(max((record.inside for record in done.within(started, end)), default=0))
        goodput.append(done.work(end - SECOND, end) / done.work(SECOND, killed))
    return [f"{Figure(full, '{:.2f}')}{never}", Figure(calls, "{:.0f}"), Figure(most, "{:.0f}"), Figure(goodput)]


def passed(workload, runs):
    """The share of requests that was answered, by class."""
    figures = []
    for low in (0, 1):
        asked = [[record for record in done.within(2 * SECOND, int(workload.seconds * SECOND))
                  if (record.priority > 0) == low] for done in runs]
        figures.append(Figure([sum(record.status == ANSWERED for record in records) / max(len(records), 1)
                               for records in asked], "{:.2%}"))
    phases = [Phase(workload, 2 * SECOND, int(workload.seconds * SECOND), workload.workers)] * len(runs)
    return figures + goodput_and_p99(runs, phases)


@dataclasses.dataclass
class Experiment:
    what: str
    workloads: dict
    gates: tuple
    judge: object
    columns: tuple


RETURN = Workload("exponential", load=0.6, seconds=9, again=1 / 3, timeout_ms=500,
                  changes=((3, "kill", ""), (5.5, "start", "")))
PREFETCH = Workload("exponential", load=5.2, seconds=6, low=923)

# Requests that do not wait for one another; clients give up after 200 ms, and ask three times in all.
OPEN = Workload("exponential", seconds=6, arrivals="open", timeout_ms=200)
RETRIES = {"at once": {"attempts": 3}, "backoff": {"attempts": 3, "backoff_ms": 100}}
STORM = dataclasses.replace(OPEN, load=0.8, seconds=12,
                            changes=((3, "server", "workers 8"), (5, "server", "workers 16")))
HIGH = dataclasses.replace(OPEN, low=500)


def with_retries(workload, **names):
    return {name: dataclasses.replace(workload, **more) for name, more in {**names, **RETRIES}.items()}


EXPERIMENTS = {
    "collapse": Experiment("3 x capacity, no limit", {name: steady_and_halves(name, 0) for name in SERVICES},
                           ("none",), steady, ("goodput", "p99")),
    "halves": Experiment(
        "3 x capacity; half of the workers go, and return",
        {name: steady_and_halves(name) for name in SERVICES}, ADAPTIVE, halves,
        ("goodput", "p99", "settled", "lost", "p99", "settled", "lost", "p99", "first second", "first second back")),
    "spike": Experiment(
        "from 0.6 to 1.4 x capacity",
        {name: Workload(name, load=0.6, seconds=6, changes=((3, "load", f"faster {1.4 / 0.6}"),))
         for name in SERVICES}, ADAPTIVE, spike, ("lost before", "settled", "goodput", "p99", "first second")),
    "returns": Experiment(
        "the server is killed, and started 2.5 s later; breakers sleep 1 s", {"exponential": RETURN},
        ("none", "weir breaker", "resilience4j", "failsafe-go breaker"), returns,
        ("full after, s", "calls meanwhile", "most inside", "goodput in the last second")),
    "open": Experiment("3 x capacity, arrivals that do not wait for answers", with_retries(OPEN, once={}),
                       ("none", *ADAPTIVE), steady, ("goodput", "p99")),
    "storm": Experiment(
        "0.8 x capacity, three attempts; half of the workers go for 2 s", with_retries(STORM),
        ("none", *ADAPTIVE), storm,
        ("before", "first second", "first second back", "last two seconds", "p99")),
    "high": Experiment("3 x capacity, half of it of high priority", with_retries(HIGH, once={}),
                       ("weir", "failsafe-go priority"), passed, ("high passed", "low passed", "goodput", "p99")),
    "prefetch": Experiment(
        "12 of 13 requests have a low priority, 5.2 x capacity", {"exponential": PREFETCH},
        ("weir", "failsafe-go priority"), passed, ("high passed", "low passed", "goodput", "p99")),
}


def build_peers():
    """Builds the peers. Those that can't be built are printed and left out."""
    for peer in ("failsafe-go", "java"):
        done = subprocess.run([ROOT / "bench/peers/build.sh", peer, BUILD / "peers"], capture_output=True,
                              text=True, check=False, timeout=300)
        if done.returncode != 0:
            print(f"{peer}: not built: {' '.join(done.stderr.split())[-200:]}")


def drawn(workload, runs):
    """Means of the runs, a value for each BIN."""
    bins = int(workload.seconds * SECOND) // BIN
    spans = [(i * BIN, (i + 1) * BIN) for i in range(bins)]

    def mean(function):
        return [round(statistics.fmean(function(done, *span) for done in runs), 3) for span in spans]

    def latency(done, *span):
        return percentile(done.latencies(*span), 0.9) / workload.mean_ns if done.latencies(*span) else 0

    def limit(done, *span):
        return max((record.limit for record in done.within(*span)), default=0)

    return {"goodput": mean(lambda done, *span: done.work(*span) / workload.workers),
            "p90": mean(latency), "limit": mean(limit),
            "inside": mean(lambda done, *span: max((r.inside for r in done.within(*span)), default=0)),
            "changed": [statistics.fmean(done.changed[i] for done in runs) / SECOND
                        for i in range(len(workload.changes))]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run each, exponential service times")
    parser.add_argument("--only", default=",".join(EXPERIMENTS))
    parser.add_argument("--limits", help="of those of each experiment")
    parser.add_argument("--services", default=",".join(SERVICES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=argparse.FileType("w"), help="what charts.py draws")
    arguments = parser.parse_args()
    runs = 1 if arguments.quick else arguments.runs
    services = SERVICES[:1] if arguments.quick else arguments.services.split(",")
    build_peers()
    results = {}
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        begun = {}
        for name in arguments.only.split(","):
            experiment = EXPERIMENTS[name]
            for service in (name for name in experiment.workloads if name not in SERVICES or name in services):
                for gate in experiment.gates:
                    if not arguments.limits or gate in arguments.limits.split(","):
                        begun[name, service, gate] = [
                            pool.submit(run, GATES[gate](), experiment.workloads[service], seed)
                            for seed in range(1, runs + 1)]
        shown = None
        for (name, service, gate), waiting in begun.items():
            experiment = EXPERIMENTS[name]
            if name != shown:
                shown = name
                print(f"\n{name}: {experiment.what}\n\n| | | {' | '.join(experiment.columns)} |")
                print("|---" * (len(experiment.columns) + 2) + "|")
            try:
                done = [future.result() for future in waiting]
            except (Missing, OSError, subprocess.SubprocessError) as why:
                print(f"| {service} | {gate} | {why} |", flush=True)
                continue
            figures = experiment.judge(experiment.workloads[service], done)
            print(f"| {service} | {gate} | {' | '.join(map(str, figures))} |", flush=True)
            results.setdefault(name, {}).setdefault(service, {})[gate] = drawn(
                experiment.workloads[service], done)
            begun[name, service, gate] = None  # its records are not needed any more
    if arguments.json:
        json.dump(results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
