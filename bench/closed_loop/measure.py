"""One run with real programs, and what its records say.

The server, the gate with its limiter and the clients are processes; see wire.h. A run's changes are
told to them while it lasts. All times are in nanoseconds from its start.
"""

import bisect
import contextlib
import dataclasses
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from servers import BUILD, Missing, Server, built

MS = 10**6
SECOND = 10**9
RECORD = struct.Struct("<QQQIHBB")
ANSWERED, DENIED, FAILED = range(3)
CLIENTS = 1000

# The 99th percentile of service times without others, in means.
UNLOADED_P99 = {"exponential": math.log(100), "constant": 1.0, "bimodal": 19 / 2.8}


@dataclasses.dataclass
class Workload:
    """Clients ask `load` times what the server can do."""
    service: str
    load: float = 3.0
    seconds: float = 5.0
    mean_ns: int = 10 * MS
    workers: int = 16
    low: int = 0          # clients of low priority
    again: float = 1.0    # so much shorter is the time to a retry
    timeout_ms: int = 0   # of a call
    arrivals: str = "closed"  # clients that wait for answers; or "open"
    attempts: int = 1
    backoff_ms: int = 0   # the most of the first pause, doubled for the next
    changes: tuple = ()   # (second, who, line), who: server, load; or (second, "kill" | "start", "")

    @property
    def think_us(self):
        return CLIENTS * self.mean_ns / 1000 / (self.load * self.workers)


@dataclasses.dataclass(slots=True)
class Record:
    asked: int
    ended: int
    alone: int  # what it takes by itself
    limit: int
    inside: int
    status: int
    priority: int


class Run:
    def __init__(self, said, changed):
        start = struct.unpack_from("<Q", said)[0]
        self.records = sorted((Record(asked, asked + took, *rest) for asked, took, *rest
                               in RECORD.iter_unpack(said[8:])), key=lambda record: record.ended)
        self.ends = [record.ended for record in self.records]
        self.changed = [at - start for at in changed]  # when

    def within(self, from_ns, to_ns):
        """The requests that ended in that time."""
        return self.records[bisect.bisect_left(self.ends, from_ns):bisect.bisect_left(self.ends, to_ns)]

    def latencies(self, from_ns, to_ns):
        return sorted(record.ended - record.asked for record in self.within(from_ns, to_ns)
                      if record.status == ANSWERED)

    def work(self, from_ns, to_ns):
        """How many workers the answered requests kept busy, each by what it takes alone.

        So what chance drew for those that were answered does not count, as it would in answers a second.
        """
        return sum(record.alone for record in self.within(from_ns, to_ns)
                   if record.status == ANSWERED) / (to_ns - from_ns)


def percentile(values, share):
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else math.nan


class Process(Server):
    """A program that takes commands."""

    def __init__(self, *command, out=subprocess.DEVNULL):
        self.ports = {}
        self.name = os.path.basename(command[0])
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=out, stderr=subprocess.PIPE)

    def __exit__(self, *_):
        self.process.kill()
        self.process.stdin.close()
        super().__exit__()


def sleep_until(when):
    time.sleep(max(when - time.monotonic_ns(), 0) / SECOND)


def server_for(workload, seed, port=0):
    return Process(built("bench/closed_loop_server"), port, workload.service, workload.mean_ns // 1000,
                   workload.workers, seed)


def change(stack, workload, seed, running, who, line):
    """`running`: the server and the clients by their names; of a server that is started, the new one."""
    server = running["server"]
    if who == "kill":
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    elif who == "start":
        port = server.ports["frames"]
        running["server"] = stack.enter_context(server_for(workload, seed, port))
        running["server"].wait_for("frames")
    else:
        running[who].process.stdin.write(f"{line}\n".encode())
        running[who].process.stdin.flush()
    return time.monotonic_ns()


def run(gate, workload, seed):
    """`gate`: the command of the program that has the limiter, and the limiter's name."""
    with tempfile.TemporaryFile() as out, contextlib.ExitStack() as stack:
        server = stack.enter_context(server_for(workload, seed))
        between = stack.enter_context(Process(*gate[:-1], server.wait_for("frames"), gate[-1],
                                              workload.timeout_ms))
        load = stack.enter_context(Process(
            built("bench/closed_loop_load"), between.wait_for("frames"), CLIENTS, workload.think_us, seed,
            workload.seconds, workload.low, workload.again, workload.arrivals, workload.attempts,
            workload.backoff_ms * 1000, out=out))
        began, changed, running = time.monotonic_ns(), [], {"server": server, "load": load}
        for at, who, line in workload.changes:
            sleep_until(began + int(at * SECOND))
            changed.append(change(stack, workload, seed, running, who, line))
        trouble = load.process.communicate(timeout=workload.seconds + 30)[1]
        if load.process.returncode != 0:
            raise Missing(f"the clients: {trouble.decode().strip()}")
        out.seek(0)
        return Run(out.read(), changed)


def java():
    return ["java", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
            f"{BUILD}/peers/java:{BUILD}/peers/java/lib/*", "Gate"]
