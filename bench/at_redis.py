"""Measures a check at a Redis that many servers share: its CPU time and memory, and its other users.

Each case has a redis-server of its own, loaded over 50 connections in all: alone (one request at
once on each) and by 16. Cases take turns, and the median of the turns counts. Where Weir stands
between, redis-server's time is divided by the checks that Weir answered.
"""

import contextlib
import dataclasses
import itertools
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

from servers import (BUILD, CONNECTIONS, GET, KEY_BYTES, ROOT, SET, Missing, Server, filled, free_port,
                     generate, load, redis, said, tool, weir)

DEPTHS = (1, 16)
WEIRS = 4
# Every limit grants all that is asked but for `denied`, and keys outlive the run but for `idle`:
# there a key is full, and so forgotten, long before it comes again.
LIMITS = """
limits:
  token: { algorithm: token_bucket, rate: 10/h, burst: 10000, STORE }
  idle: { algorithm: token_bucket, rate: 10/s, burst: 10000, STORE }
  window: { algorithm: fixed_window, rate: 10000/h, STORE }
  hot: { algorithm: token_bucket, rate: 100000000/s, burst: 100000000, STORE }
  chunk: { algorithm: token_bucket, rate: 10000000/s, burst: 10000000, STORE, CHUNK }
  denied: { algorithm: token_bucket, rate: 1/h, STORE }
  log: { algorithm: sliding_log, rate: 10000/h, STORE }
  places: { algorithm: concurrency, max: 10000, lease: 1h, STORE }
"""
DENIED_KEYS = 100
ACQUIRE = "WEIR.ACQUIRE {limit} key:{{key}}"
CELL = "CL.THROTTLE key:{key} 9999 10 3600"
YARDSTICK = "go-zero token"


def peer(name):
    """Where a peer is, once it is built."""
    done = subprocess.run([ROOT / "bench/peers/build.sh", name, BUILD / "peers"],
                          capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise Missing("not built: " + " ".join(done.stderr.split())[-200:])
    return BUILD / "peers" / name


def ask(server, *words):
    return subprocess.run(["redis-cli", "-p", str(server.wait_for("resp")), *map(str, words)],
                          check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def go_zero(server, name):
    """The SHA of one of its scripts, loaded from the module as it is."""
    script = peer("go-zero") / f"core/limit/{name}script.lua"
    return ask(server, "SCRIPT", "LOAD", script.read_text())


def weir_at(directory, server=None):
    """A Weir with LIMITS at a Redis, in memory without one."""
    text = LIMITS
    if server:
        text = "store_timeout: 1s\n" + text.replace("CHUNK", "chunk: 5%").replace(
            "STORE", f"store: redis://127.0.0.1:{server.wait_for('resp')}, on_store_failure: closed")
    return weir(directory, text.replace(", STORE", "").replace(", CHUNK", ""))


@dataclasses.dataclass
class Measured:
    """The CPU time of one round, in nanoseconds for each check."""

    redis_ns: float
    weir_ns: float


class Case:
    """A redis-server under a load, maybe through some Weirs."""

    weirs = 0
    limit = None
    keys = None  # as many as the run has
    is_denied = False

    def __init__(self, stack, directory, keys):
        self.stack = stack
        self.keys = self.keys or keys
        self.redis = stack.enter_context(self.start_redis())
        self.empty_bytes = self.bytes_used()
        self.command = ACQUIRE.format(limit=self.limit)
        self.asked = [self.redis]
        if self.weirs:
            self.asked = [stack.enter_context(weir_at(directory, self.redis))
                          for _ in range(self.weirs)]
        self.prepare()
        if self.weirs and ask(self.redis, "DBSIZE") == "0":
            raise Missing("what it counts is not at Redis")

    def start_redis(self):
        return redis()

    def prepare(self):
        filled(self.asked[0], self.command, self.keys)

    def bytes_used(self):
        return int(re.search(r"used_memory:(\d+)", ask(self.redis, "INFO", "memory"))[1])

    def call_ms(self):
        """How long its calls of scripts took, since CONFIG RESETSTAT: p50 and p99."""
        stats = ask(self.redis, "INFO", "latencystats")
        found = re.search(r"usec_evalsha:p50=([0-9.]+),p99=([0-9.]+)", stats)
        return [float(us) / 1e3 for us in found.groups()] if found else []

    def flags(self, n, depth, requests, turn):
        return ["--command", self.command, "--pipeline", depth, "--connections",
                CONNECTIONS // n, "--requests", requests // n, "--keys", self.keys,
                "--key-length", KEY_BYTES, "--seed", turn]

    def turn(self, depth, requests, turn):
        before = self.redis.cpu_ns()
        n = len(self.asked)
        loads = [load(server, "resp", *self.flags(n, depth, requests, turn))
                 for server in self.asked]
        results = [said(one) for one in loads]
        answered = sum(result["answered"] for result in results)
        as_meant = sum(result["denied" if self.is_denied else "allowed"] for result in results)
        if self.weirs and as_meant < 0.999 * answered:
            raise Missing(f"{answered - as_meant} of {answered} answers are not as meant")
        return Measured((self.redis.cpu_ns() - before) / answered,
                        sum(result["server_cpu_ns"] for result in results) / n)


class Get(Case):
    def prepare(self):
        filled(self.redis, SET, self.keys)
        self.command = GET


class GoZeroToken(Case):
    """Its TokenLimiter sends exactly this: a script, two keys, rate, burst, Unix time, cost."""

    def prepare(self):
        sha = go_zero(self.redis, "token")
        self.command = (f"EVALSHA {sha} 2 {{{{key}}}}.tokens {{{{key}}}}.ts 10 10000 "
                        f"{int(time.time())} 1")
        super().prepare()


class GoZeroPeriod(Case):
    """Its PeriodLimit: a script, a key, quota, seconds."""

    def prepare(self):
        self.command = f"EVALSHA {go_zero(self.redis, 'period')} 1 key:{{key}} 10000 3600"
        super().prepare()


class Cell(Case):
    def start_redis(self):
        module = peer("redis-cell")
        return redis("--loadmodule", str(module),
                     env={"LD_LIBRARY_PATH": str(BUILD / "peers/redis-cell-needs")})

    def prepare(self):
        self.command = CELL
        super().prepare()


class Token(Case):
    weirs = 1
    limit = "token"


class Idle(Case):
    weirs = 1
    limit = "idle"


class Window(Case):
    weirs = 1
    limit = "window"


class Log(Case):
    weirs = 1
    limit = "log"


class Places(Case):
    """All of them are held to the end."""

    weirs = 1
    limit = "places"


class Hot(Case):
    weirs = WEIRS
    limit = "hot"
    keys = 1


class Chunk(Hot):
    limit = "chunk"


class Denied(Case):
    weirs = 1
    limit = "denied"
    keys = DENIED_KEYS
    is_denied = True


class Memory(Case):
    """The same limit in Weir's own table: its redis-server has nothing to do."""

    limit = "token"

    def __init__(self, stack, directory, keys):
        self.own = stack.enter_context(weir_at(directory))
        super().__init__(stack, directory, keys)

    def prepare(self):
        self.asked = [self.own]
        super().prepare()


# name: (what it is, the row that it is compared with)
CASES = {
    YARDSTICK: (GoZeroToken, YARDSTICK),
    "go-zero period": (GoZeroPeriod, "go-zero period"),
    "redis GET": (Get, YARDSTICK),
    "redis-cell": (Cell, YARDSTICK),
    "weir, token bucket": (Token, YARDSTICK),
    "weir, token bucket, idle keys": (Idle, YARDSTICK),
    "weir, fixed window": (Window, "go-zero period"),
    "weir, sliding log": (Log, YARDSTICK),
    "weir, concurrency": (Places, YARDSTICK),
    "weir x 4, one hot key": (Hot, YARDSTICK),
    "weir, denied keys": (Denied, YARDSTICK),
    "weir x 4, hot key, chunk": (Chunk, YARDSTICK),
    "weir, token bucket in memory": (Memory, None),
}


def p99_ms(result):
    return result["from_send_ns"]["p99"] / 1e6


HAPROXY = """
global
  nbthread 1
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
listen relay
  bind 127.0.0.1:{port}
  server redis 127.0.0.1:{to}
"""


def relay(directory, server):
    """A program that hands on bytes and no more: as many hops as through Weir."""
    port = free_port()
    config = pathlib.Path(tempfile.mkdtemp(dir=directory), "haproxy.cfg")
    config.write_text(HAPROXY.format(port=port, to=server.wait_for("resp")))
    return Server([tool("haproxy"), "-db", "-f", str(config)], {"resp": port})


def depth_name(depth):
    return "alone" if depth == 1 else f"by {depth}"


class Run:
    """All cases run all the time and take turns under load."""

    def __init__(self, table, stack, directory, keys):
        self.table, self.stack, self.directory, self.keys = table, stack, directory, keys
        self.cases = {}
        self.missing = {}

    def case(self, name):
        """None where it can't be had."""
        if name not in self.cases and name not in self.missing:
            try:
                self.cases[name] = CASES[name][0](self.stack, self.directory, self.keys)
            except (Missing, OSError, subprocess.SubprocessError) as why:
                self.missing[name] = why
                self.table.note(name, why)
        return self.cases.get(name)

    def samples(self, rounds, requests):
        """{(name, depth): [Measured, …]}, without the first turn, which only warms up."""
        out = {}
        for turn, name, depth in itertools.product(range(rounds + 1), CASES, DEPTHS):
            case = self.case(name)
            if case is None:
                continue
            try:
                measured = case.turn(depth, requests[depth], turn)
            except (Missing, OSError, subprocess.SubprocessError) as why:
                self.missing[name] = why
                del self.cases[name]
                self.table.note(name, why)
                continue
            if turn > 0:
                out.setdefault((name, depth), []).append(measured)
        return out

    def show_costs(self, samples):
        for depth in DEPTHS:
            for name, (_, yardstick) in CASES.items():
                spent = [one.redis_ns for one in samples.get((name, depth), [])]
                if name in self.missing or yardstick is None or not spent:
                    continue
                what = f"{name}, {depth_name(depth)}"
                self.table.row(what, statistics.median(spent) / 1e3, "us Redis",
                               f"{yardstick}, {depth_name(depth)}",
                               (min(spent) / 1e3, max(spent) / 1e3) if spent[1:] else None)
            for name in ("weir, token bucket in memory", "weir, token bucket"):
                spent = [one.weir_ns for one in samples.get((name, depth), [])]
                if spent and name not in self.missing:
                    self.table.row(f"{name}, {depth_name(depth)}: its own", statistics.median(spent),
                                   "ns CPU", f"weir, token bucket in memory, {depth_name(depth)}: its own")

    def show_bytes(self):
        """Prints the MEMORY USAGE of some keys, and the growth of used_memory by all."""
        for name in (YARDSTICK, "go-zero period", "redis-cell", "weir, token bucket", "weir, fixed window"):
            if name not in self.cases:
                continue
            case = self.cases[name]
            some = [ask(case.redis, "RANDOMKEY") for _ in range(20)]
            each = statistics.median(int(ask(case.redis, "MEMORY", "USAGE", key)) for key in some)
            kept = int(ask(case.redis, "DBSIZE")) / case.keys  # go-zero's are two for each
            self.table.row(f"{name}: MEMORY USAGE", each * kept, "bytes", f"{YARDSTICK}: MEMORY USAGE")
            self.table.row(f"{name}: of used_memory", (case.bytes_used() - case.empty_bytes) / case.keys,
                           "bytes", f"{YARDSTICK}: of used_memory")

    def show_latency(self, rounds, seconds):
        """Beyond a bare GET, at half of what the case can do; at the 99th percentile.

        A decision goes by Weir to Redis, two hops where a GET is one: so does a GET by a relay.
        """
        through, bare = self.case("weir, token bucket"), self.case("redis GET")
        if through is None or bare is None:
            return
        flags = ("--connections", CONNECTIONS, "--keys", self.keys, "--key-length", KEY_BYTES)
        most = generate(through.asked[0], "resp", "--command", through.command, *flags,
                        "--requests", 20000)["per_second"]
        flags += ("--rate", int(most / 2), "--duration", f"{seconds}s", "--warmup", "200ms")
        asked = {"weir, token bucket": (through.asked[0], through.command)}
        try:
            asked["redis GET through haproxy"] = (
                self.stack.enter_context(relay(self.directory, bare.redis)), GET)
        except Missing as why:
            self.table.note("redis GET through haproxy", why)
        plain, beyond = [], {name: [] for name in asked}
        for _ in range(rounds):
            plain.append(p99_ms(generate(bare.redis, "resp", "--command", GET, *flags)))
            for name, (server, command) in asked.items():
                beyond[name].append(
                    p99_ms(generate(server, "resp", "--command", command, *flags)) - plain[-1])
        self.table.row(f"redis GET at {int(most / 2)}/s, p99", statistics.median(plain), "ms",
                       spread=(min(plain), max(plain)))
        for name, values in beyond.items():
            self.table.row(f"{name}, p99 beyond that", statistics.median(values), "ms",
                           spread=(min(values), max(values)))

    def show_neighbour(self, rounds, seconds):
        """A foreign GET at a redis-server: alone, and beside the full load of a case.

        Beside GETs by 16 it waits for processors and for what Redis has read before, not for scripts.
        """
        get = ("--command", GET, "--connections", 1, "--rate", 500, "--keys", 1000,
               "--duration", f"{seconds}s", "--warmup", "100ms")
        calm = "foreign GET, p99"
        samples = {calm: []}
        for _, name in itertools.product(range(rounds), ("redis GET", YARDSTICK, "weir, token bucket")):
            case = self.case(name)
            if case is None:
                continue
            samples[calm].append(p99_ms(generate(case.redis, "resp", *get)))
            ask(case.redis, "CONFIG", "RESETSTAT")
            busy = load(case.asked[0], "resp", "--command", case.command, "--pipeline", 16,
                        "--connections", CONNECTIONS, "--keys", self.keys, "--key-length", KEY_BYTES,
                        "--duration", f"{seconds + 1}s")
            beside = p99_ms(generate(case.redis, "resp", *get))
            said(busy)
            samples.setdefault(f"foreign GET beside {name} by 16, p99", []).append(beside)
            for percentile, ms in zip(("p50", "p99"), case.call_ms()):
                samples.setdefault(f"a call of {name} by 16, in Redis, {percentile}", []).append(ms)
        for what, values in samples.items():
            if values:
                self.table.row(what, statistics.median(values), "ms", spread=(min(values), max(values)))


def run(table, rounds, quick):
    requests = {1: 5000, 16: 40000} if quick else {1: 20000, 16: 100000}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        one = Run(table, stack, directory, 100000 if quick else 1000000)
        one.show_costs(one.samples(rounds, requests))
        one.show_bytes()
        one.show_latency(rounds, 1)
        one.show_neighbour(rounds, 1)
