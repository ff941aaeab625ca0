#!/usr/bin/env python3
"""Prints what things cost here: yardsticks of the machine, the library, the servers.

Servers are judged by the CPU time that they spend on a request, not by how many
a second they answer: the load generator shares the machine and takes the larger
part of it. They take turns over several rounds, and the median counts.

A program that prints lines `name value unit` joins the table by being named in
PROGRAMS, and its figures get a ratio by being named in YARDSTICKS.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import at_batches
import at_http2
import at_redis
import at_tls
import at_unix_sockets
from servers import (BUILD, CONFIG, CONNECTIONS, GET, KEY_BYTES, ROOT, SET, START_SECONDS, Missing, Server,
                     Table, built, filled, generate, redis, tool, weir)

PROGRAMS = ["yardsticks", "library", "rules"]
ATTACK = ["evictions", "attack"]
PEERS = {
    "rust": ["governor", "governor-array", "throttlecrab-adaptive", "throttlecrab-periodic"],
    "go": ["x/time/rate", "uber-go/ratelimit"],
}
# A permit and its report, of failsafe-go and of library.c.
PERMIT_LIMITS = ("adaptive", "breaker", "concurrency")
PERMIT_TURNS = 5
PEER_FIGURES = {"ns": ("keyed 1m", "keyed_1m_own_clock"), "bytes": ("memory", "keyed_1m_memory")}
YARDSTICKS = {
    "prefetched_read": "dependent_read",
    "prefetched_read_2_threads": "dependent_read",
    "limiter_own_clock": "clock_read + cas_8",
    "limiter_given_time": "cas_16",
    "keyed_1m_given_time": "dependent_read",
    "keyed_1m_own_clock": "dependent_read",
    "keyed_1m_batch": "dependent_read",
    "keyed_10m_given_time": "dependent_read",
    "keyed_10m_own_clock": "dependent_read",
    "keyed_10m_batch": "dependent_read",
    "match_10000_rules_3_users": "match_10_rules",
    "match_10000_rules": "match_10_rules",
    "dictionary_word": "dependent_read",
    "dictionary_no_word": "dependent_read",
    "addresses_lookup": "dependent_read",
    "networks_lookup": "dependent_read",
    "limiter_2_threads": "cas_16_2_threads",
    "hot_key_2_threads": "cas_16_2_threads",
    "hot_key_denied_2_threads": "hot_key_denied",
    "breaker_own_clock": "clock_read_twice",
    "breaker_given_time": "cas_16",
    "breaker_2_threads": "counter_2_threads",
    "breaker_key_given_time": "cas_16",
    "breaker_key_2_threads": "counter_2_threads",
    "adaptive_own_clock": "clock_read_twice",
    "adaptive_given_time": "cas_16",
    "adaptive_2_threads": "counter_2_threads",
    "adaptive_key_given_time": "cas_16",
    "adaptive_key_2_threads": "counter_2_threads",
    "concurrency_own_clock": "clock_read_twice",
    "concurrency_given_time": "cas_16",
    "concurrency_2_threads": "counter_2_threads",
    "concurrency_key_given_time": "cas_16",
    "concurrency_key_2_threads": "counter_2_threads",
}
# How often as much two threads do as one: (what, of one thread, of each of two).
SCALING = [
    ("bare loop: 2 threads do", "prefetched_read", "prefetched_read_2_threads"),
    ("batches: 2 threads do", "keyed_10m_batch", "keyed_10m_batch_2_threads"),
    ("denials: 2 threads do", "hot_key_denied", "hot_key_denied_2_threads"),
]
KEYS = 10000000
KEYS_QUICK = 1000000
THROTTLE = "CL.THROTTLE key:{key} 15 1000 1"
ACQUIRE = "/v1/acquire/bench?key={key}"
# Two of the sample rules apply, of which one has a wide state. Replies as long as the bare server's.
BROWSE = "/rule/browse?act=ask&uid={key}&ip={key}&_writeThrough=yes"
BROWSE_PADDING = 54
RULES = 1000
LOG_ADDRESSES = 100000
LOG_SECOND = 10000  # lines in one


def loop(name, *modes):
    return Server([built(f"bench/loop_{name}"), *modes])


@dataclasses.dataclass(frozen=True)
class Load:
    """Requests to a server, in closed loop from 50 connections."""

    protocol: str
    flags: tuple
    requests: int  # in one round
    keys: int

    def run(self, server, turn):
        """CPU nanoseconds of the server per request, and bytes of a reply. Other keys each turn."""
        result = generate(server, self.protocol, *self.flags, "--connections", CONNECTIONS,
                          "--keys", self.keys, "--key-length", KEY_BYTES, "--requests", self.requests,
                          "--seed", turn)
        return result["server_cpu_ns"], result["bytes_received"] / result["answered"]


@dataclasses.dataclass(frozen=True)
class RedisBenchmark:
    """The load of redis-benchmark, of a million keys, from the same connections."""

    protocol: str
    command: str
    depth: int
    requests: int

    def run(self, server, _):
        """CPU nanoseconds of the server per request."""
        port = server.wait_for(self.protocol)
        before = server.cpu_ns()
        subprocess.run([tool("redis-benchmark"), "-p", str(port), "-q", "-n", str(self.requests),
                        "-c", str(CONNECTIONS), "-P", str(self.depth), "-r", str(KEYS_QUICK),
                        *self.command.format(key="__rand_int__").split()],
                       check=True, timeout=60, stdout=subprocess.DEVNULL)
        return (server.cpu_ns() - before) / self.requests, None


def resp(command, depth, requests, keys):
    return Load("resp", ("--command", command, "--pipeline", depth), requests, keys)


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclasses.dataclass(frozen=True)
class Generator:
    """A load generator; it is what is measured."""

    protocol: str
    command: tuple  # PORT and REQUESTS are replaced
    requests: int

    def run(self, server, _):
        """CPU nanoseconds of the generator per request."""
        words = {"PORT": str(server.wait_for(self.protocol)), "REQUESTS": str(self.requests)}
        command = [re.sub("PORT|REQUESTS", lambda word: words[word[0]], text)
                   for text in self.command]
        before = children_cpu()
        done = subprocess.run([built("weir") if command[0] == "weir" else tool(command[0]),
                               *command[1:]], check=True, timeout=60, capture_output=True, text=True)
        said = re.search(r"(\d+) requests in", done.stdout)  # wrk's; the others do as told
        return (children_cpu() - before) * 1e9 / (int(said[1]) if said else self.requests), None


def generators(requests):
    """The clients, on the server that costs least: rows of a table for each protocol."""
    ours = ("weir", "bench", "--server", "127.0.0.1:PORT", "--requests", "REQUESTS")
    for depth, n in requests.items():
        yield [(f"client: redis-benchmark, pipeline {depth}", "resp", Generator("resp", (
                    "redis-benchmark", "-p", "PORT", "-q", "-n", "REQUESTS", "-c", str(CONNECTIONS),
                    "-P", str(depth), "-r", str(KEYS_QUICK),
                    *THROTTLE.format(key="__rand_int__").split()), n)),
               (f"client: weir bench, pipeline {depth}", "resp", Generator("resp", (
                    *ours, "--command", THROTTLE, "--key-length", str(KEY_BYTES),
                    "--pipeline", str(depth)), n))]
    yield [("client: wrk", "http", Generator("http", (
                "wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", "1",
                "-s", str(ROOT / "bench/keys.lua"), "http://127.0.0.1:PORT"), 0)),
           ("client: weir bench, http", "http", Generator("http", (*ours, "--path", ACQUIRE),
                                                          requests[1]))]


def koala(directory, keys):
    """With the sample rules of Koala's language, each key asked for once."""
    rules = pathlib.Path(directory, "koala.conf")
    sample = (ROOT / "examples/koala.conf").read_text()
    rules.write_text(sample.replace('"Other":""', f'"Other":"{BROWSE_PADDING * "x"}"'))
    shutil.copytree(ROOT / "examples/dicts", pathlib.Path(directory, "dicts"))
    return filled(weir(directory, "{}\n", "-c", str(rules), "--capacity", str(keys)),
                  "WEIR.CHECK act ask uid {key} ip {key}", keys)


def plan(directory, requests, keys):
    """Tables of (name, what starts the server, load); the first of each is the yardstick."""
    servers = {
        "resp": lambda: loop("bare", "resp"),
        "http": lambda: loop("bare", "http"),
        "weir": lambda: filled(weir(directory, CONFIG, "--capacity", str(keys)), THROTTLE, keys),
        # To values that make GET's reply as long as ours.
        "redis": lambda: filled(redis(), SET, keys),
        "koala": lambda: koala(directory, KEYS_QUICK),
        "libuv streams": lambda: loop("libuv", "stream", "resp"),
        "libuv polls": lambda: loop("libuv", "poll", "resp"),
        "libevent": lambda: loop("libevent", "resp"),
    }
    tables = []
    for depth, n in requests.items():
        load = resp(THROTTLE, depth, n, keys)
        tables.append([(f"bare RESP server, pipeline {depth}", "resp", load),
                       (f"weir CL.THROTTLE, pipeline {depth}", "weir", load),
                       (f"redis GET, pipeline {depth}", "redis", resp(GET, depth, n, keys))])
    # The servers that hold a million keys.
    servers["weir 1m"] = lambda: filled(weir(directory, CONFIG, "--capacity", str(KEYS_QUICK)),
                                        THROTTLE, KEYS_QUICK)
    servers["redis 1m"] = lambda: filled(redis(), SET, KEYS_QUICK)
    tables.append([(f"redis-benchmark by 16, {name}", server,
                    RedisBenchmark("resp", command, 16, requests[16]))
                   for name, server, command in (("redis GET", "redis 1m", GET),
                                                 ("weir CL.THROTTLE", "weir 1m", THROTTLE),
                                                 ("bare server", "resp", THROTTLE))])
    http = Load("http", ("--path", ACQUIRE), requests[1], keys)
    browse = Load("http", ("--path", BROWSE), requests[1], KEYS_QUICK)
    tables.append([("bare HTTP server", "http", http), ("weir GET /v1/acquire", "weir", http)])
    tables.append([("bare HTTP server, browse", "http", browse),
                   ("weir GET /rule/browse, write-through", "koala", browse)])
    load = resp(THROTTLE, 1, requests[1], keys)
    tables.append([("event loops: bare epoll", "resp", load)] +
                  [(f"event loops: {name}", name, load)
                   for name in ("libuv streams", "libuv polls", "libevent")])
    return servers, [*tables, *generators(requests)]


def figures(*command):
    """The figures of a program that prints lines `name value unit`."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        name, value, unit = line.split()
        yield name, float(value), unit
    if done.returncode != 0:
        raise Missing(f"failed: {done.stderr.strip()[-200:]}")


def run_program(table, program, arguments):
    try:
        for name, value, unit in figures(built(f"bench/{program}"), *arguments):
            table.row(name, value, unit, YARDSTICKS.get(name))
    except Missing as why:
        table.note(program, why)


def show_scaling(table):
    for what, one, two in SCALING:
        if table.values.get(one) and table.values.get(two):
            table.row(what, 2 * table.values[one] / table.values[two], "x", SCALING[0][0])


def build_peer(language):
    done = subprocess.run([ROOT / "bench/peers/build.sh", language, BUILD / "peers"],
                          capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise Missing("not built: " + " ".join(done.stderr.split())[-200:])


def run_peers(table, arguments):
    """Other limiters, each in a process of its own, on the keys of library.c."""
    fastest = []
    for language, peers in PEERS.items():
        try:
            build_peer(language)
            for peer in peers:
                for name, value, unit in figures(BUILD / "peers" / language, peer, *arguments):
                    what, ours = PEER_FIGURES[unit]
                    table.row(f"peer: {name}, {what}", value, unit, ours)
                    fastest += [value] if unit == "ns" else []
        except (Missing, subprocess.SubprocessError) as why:
            table.note(f"peers: {language}", why)
    if fastest:
        table.row("peer: fastest, to our batches", min(fastest), "ns", "keyed_1m_batch")


def run_permits(table, arguments):
    """A permit and its report: failsafe-go and the library take turns."""
    samples = {name: [] for name in PERMIT_LIMITS}
    try:
        build_peer("failsafe-go")
        for _ in range(PERMIT_TURNS):
            ours = {name: value for name, value, _ in
                    figures(built("bench/library"), "--permits", *arguments)}
            for name in PERMIT_LIMITS:
                [(_, theirs, _)] = figures(BUILD / "peers/failsafe-go", name, *arguments)
                samples[name].append((ours[f"{name}_own_clock"], theirs))
    except (Missing, subprocess.SubprocessError) as why:
        table.note("permits: failsafe-go", why)
        return
    for name, pairs in samples.items():
        for whose, values, unit in (
                ("ours", [ours for ours, _ in pairs], "ns"),
                ("failsafe-go's", [theirs for _, theirs in pairs], "ns"),
                ("ratio", [ours / theirs for ours, theirs in pairs], "x")):
            table.row(f"permits: {name}, {whose}", statistics.median(values), unit,
                      spread=(min(values), max(values)))


def run_servers(table, rounds, requests, keys):
    """All servers run all the time and take turns under load: what disturbs one disturbs all."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers, tables = plan(directory, requests, keys)
        running, samples, missing, reply_bytes = {}, {}, {}, {}
        for turn in range(rounds + 1):
            for name, server, load in itertools.chain(*tables):
                if name in missing:
                    continue
                try:
                    if server not in running:
                        running[server] = stack.enter_context(servers[server]())
                    spent, reply_bytes[name] = load.run(running[server], turn)
                except (Missing, OSError, subprocess.SubprocessError) as why:
                    missing[name] = why
                else:
                    if turn > 0:  # the first one only warms up
                        samples.setdefault(name, []).append(spent)
    for group in tables:
        for name, *_ in group:
            if name in missing:
                table.note(name, missing[name])
                continue
            table.row(name, statistics.median(samples[name]), "ns CPU", group[0][0])
            longer = reply_bytes[name] and reply_bytes[name] / reply_bytes[group[0][0]]
            if longer and abs(longer - 1) > 0.02:
                table.note(name, f"its replies are {longer:.2f} times as long as the first one's")


def rules_config():
    """A limit and a rule for each of RULES paths."""
    lines = ["limits:"]
    lines += [f"  l{i}: {{ algorithm: token_bucket, rate: 1000000/s }}" for i in range(RULES)]
    lines += ["rules:"]
    lines += [f"  - {{ name: r{i}, match: {{ path: /p{i} }}, key: [ip], limits: [l{i}] }}"
              for i in range(RULES)]
    return "\n".join(lines) + "\n"


def ahead_of_all_others():
    """Other work on this machine would count as a stall of the server's or of the client's."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def put_workers_ahead(pid):
    """The threads that answer, and not the one that reads the file: that one may wait."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(PermissionError):
            if int(task) != pid:
                os.sched_setscheduler(int(task), os.SCHED_FIFO, os.sched_param(1))


def longest_wait_ms(server, reload):
    """The longest wait of the requests of an open loop, with a reload in the middle or not."""
    port = server.wait_for("resp")
    command = [built("weir"), "bench", "--json", "--server", f"127.0.0.1:{port}", "--rate", "5000",
               "--connections", "10", "--warmup", "100ms", "--duration", "400ms", "--keys", "100",
               "--command", f"WEIR.CHECK path /p{RULES // 2} ip 10.0.0.{{key}}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=ahead_of_all_others) as load:
        time.sleep(0.25)
        if reload:
            server.process.send_signal(signal.SIGHUP)
            while b"reloaded" not in server.process.stderr.readline():
                pass
            if load.poll() is not None:
                raise Missing("a reload outlasted the load")
        return json.load(load.stdout)["from_send_ns"]["max"] / 1e6


def run_reloads(table, rounds):
    try:
        with tempfile.TemporaryDirectory() as directory, weir(directory, rules_config()) as server:
            server.wait_for("resp")
            put_workers_ahead(server.process.pid)
            longest_wait_ms(server, True)  # once to warm up
            pairs = [(longest_wait_ms(server, False), longest_wait_ms(server, True))
                     for _ in range(rounds)]
    except (Missing, OSError) as why:
        return table.note("reloads", why)
    calm, reloaded = zip(*pairs)
    table.row("longest wait, no reload", statistics.median(calm), "ms")
    table.row(f"longest wait, reload of {RULES} rules", statistics.median(reloaded), "ms",
              "longest wait, no reload")
    table.row("stall of a reload", statistics.median(b - a for a, b in pairs), "ms")
    table.row("worst of all reloads", max(reloaded), "ms")


def turns_config(rate):
    return f"limits: {{ bench: {{ algorithm: pacer, rate: {rate}/s, slack: 0 }} }}\n"


def spacing_errors_ms(port, rate, seconds):
    """How far from 1/rate each answer comes after the one before, by who waits for them."""
    ask = b"WEIR.ACQUIRE bench k\r\n"
    times = []
    with contextlib.ExitStack() as stack, select.epoll() as poll:
        clients = {}
        for _ in range(4):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            clients[client.fileno()] = client
            poll.register(client, select.EPOLLIN)
            client.sendall(ask)
        while len(times) < rate * seconds:
            for fd, _ in poll.poll(START_SECONDS):
                times.append(time.monotonic_ns())
                clients[fd].recv(4096)
                clients[fd].sendall(ask)
    return sorted(abs(b - a - 1e9 / rate) / 1e6 for a, b in itertools.pairwise(times))


def run_turns(table, seconds):
    """Answers that are held: how evenly they come, and whether lateness adds up."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            with weir(directory, turns_config(100)) as server:
                port = server.wait_for("resp")
                put_workers_ahead(server.process.pid)
                ahead_of_all_others()
                errors = spacing_errors_ms(port, 100, seconds)
            table.row("turns at 100/s, spacing p99", errors[len(errors) * 99 // 100], "ms off")
            with weir(directory, turns_config(10000)) as server:
                port = server.wait_for("resp")
                put_workers_ahead(server.process.pid)
                result = generate(server, "resp", "--limit", "bench", "--keys", 1, "--connections",
                                  256, "--warmup", "200ms", "--duration", f"{seconds}s")
        table.row("turns at 10,000/s, the rate is",
                  abs(result["answered"] / seconds / 10000 - 1) * 100, "% off")
        table.row("turns at 10,000/s", result["server_cpu_ns"], "ns CPU")
    except (Missing, OSError, subprocess.SubprocessError) as why:
        table.note("turns", why)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def write_log(path, lines):
    """A combined log: LOG_ADDRESSES clients, a second for every 10,000 lines."""
    chance = random.Random(1)
    tail = ('"GET /api/v1/items/4711?page=3 HTTP/1.1" 200 5120 "https://example.com/start" '
            '"Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0"\n')
    with open(path, "w") as log:
        for second in range(lines // LOG_SECOND):
            at = time.strftime("[%d/%b/%Y:%H:%M:%S +0000]", time.gmtime(1767225600 + second))
            addresses = (chance.randrange(LOG_ADDRESSES) for _ in range(LOG_SECOND))
            log.write("".join(f"10.{a >> 16}.{a >> 8 & 255}.{a & 255} - - {at} {tail}"
                              for a in addresses))


def run_simulate(table, lines, rounds):
    try:
        with tempfile.TemporaryDirectory() as directory:
            config, log = pathlib.Path(directory, "bench.yaml"), pathlib.Path(directory, "log")
            config.write_text("limits:\n  bench: { algorithm: token_bucket, rate: 10/m }\n")
            write_log(log, lines)
            spent = []
            for _ in range(rounds + 1):  # the first one only warms up
                before = children_cpu()
                subprocess.run([built("weir"), "simulate", "-c", config, "--limit", "bench", "--json",
                                "--trace", log], check=True, stdout=subprocess.DEVNULL, timeout=120)
                spent.append((children_cpu() - before) / lines)
    except (Missing, OSError, subprocess.SubprocessError) as why:
        return table.note("simulate", why)
    spent = statistics.median(spent[1:])
    table.row("simulate, a line of a log", spent * 1e9, "ns CPU")
    table.row("simulate", 1e-6 / spent, "M lines of a log a second")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--servers", action="store_true", help="nothing but the servers")
    parser.add_argument("--peers", action="store_true", help="the library beside its peers")
    parser.add_argument("--permits", action="store_true",
                        help="permits and their reports beside failsafe-go's")
    parser.add_argument("--attack", action="store_true",
                        help="evictions, and a flood of 100 million keys: minutes")
    parser.add_argument("--simulate", action="store_true", help="nothing but the simulator")
    parser.add_argument("--turns", action="store_true", help="nothing but answers that are held")
    parser.add_argument("--redis", action="store_true", help="what checks cost a Redis: minutes")
    parser.add_argument("--tls", action="store_true", help="what TLS costs servers")
    parser.add_argument("--http2", action="store_true", help="HTTP/2 beside a bare server")
    parser.add_argument("--unix-sockets", action="store_true", help="Unix sockets beside TCP on this host")
    parser.add_argument("--batches", action="store_true", help="what others wait for beside long batches")
    parser.add_argument("--dearest", action="store_true",
                        help="the dearest call of each algorithm, on keys that are full")
    parser.add_argument("--closed-loop", action="store_true",
                        help="limits and breakers at a server that can be overloaded: minutes")
    arguments = parser.parse_args()
    if arguments.closed_loop:
        sys.exit(subprocess.call([sys.executable, ROOT / "bench/closed_loop/real.py",
                                  "--json", BUILD / "closed_loop.json",
                                  *(["--quick"] if arguments.quick else [])]))
    everything = not (arguments.servers or arguments.peers or arguments.attack
                      or arguments.simulate or arguments.turns or arguments.redis or arguments.tls
                      or arguments.http2 or arguments.permits or arguments.batches or arguments.dearest
                      or arguments.unix_sockets)
    quick = arguments.quick
    flags = ["--quick"] if quick else []
    table = Table()
    print(f"{'what':38} {'median':>10} {'unit':8} {'ratio':>8}")
    for name in PROGRAMS if everything or arguments.peers else []:
        run_program(table, name, flags)
    show_scaling(table)
    if arguments.peers or everything and not quick:
        run_peers(table, flags)
    if arguments.permits or arguments.peers or everything and not quick:
        run_permits(table, flags)
    if arguments.dearest or everything and not quick:
        run_program(table, "dearest", [])
    if arguments.attack or everything and not quick:
        for name in ATTACK:
            run_program(table, name, flags if arguments.attack else ["--quick"])
    if everything or arguments.simulate:
        run_simulate(table, 200000 if quick else 2000000, 1 if quick else 3)
    if everything or arguments.turns:
        run_turns(table, 2 if quick else 10)
    if everything or arguments.redis:
        at_redis.run(table, 1 if quick else 5, quick)
    if everything or arguments.tls:
        at_tls.run(table, 1 if quick else 5, quick)
    if everything or arguments.http2:
        at_http2.run(table, 1 if quick else 7, quick)
    if everything or arguments.unix_sockets:
        at_unix_sockets.run(table, 3 if quick else 7, quick)
    if everything or arguments.batches:
        at_batches.run(table, 1 if quick else 5, 2 if quick else 5)
    if not (everything or arguments.servers):
        return
    if quick:
        run_servers(table, 1, {1: 10000, 16: 50000}, KEYS_QUICK)
        run_reloads(table, 3)
    else:
        run_servers(table, 5, {1: 20000, 16: 250000}, KEYS)
        run_reloads(table, 11)


if __name__ == "__main__":
    main()
