#!/usr/bin/env python3
"""Prints what things cost here: yardsticks of the machine, the library, the servers.

Servers are judged by the CPU time that they spend on a request, not by how many
a second they answer: the load generator shares the machine and takes the larger
part of it. They take turns over several rounds, and the median counts.

A program that prints lines `name value unit` joins the table by being named in
PROGRAMS, and its figures get a ratio by being named in YARDSTICKS.
"""

import argparse
import os
import pathlib
import re
import select
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build"))
PROGRAMS = ["yardsticks", "library"]
YARDSTICKS = {
    "prefetched_read": "dependent_read",
    "prefetched_read_2_threads": "dependent_read",
    "limiter_own_clock": "clock_read",
    "limiter_given_time": "cas_16",
    "keyed_1m_given_time": "dependent_read",
    "keyed_1m_own_clock": "dependent_read",
    "keyed_1m_batch": "dependent_read",
    "keyed_10m_given_time": "dependent_read",
    "keyed_10m_own_clock": "dependent_read",
    "keyed_10m_batch": "dependent_read",
}
START_SECONDS = 10

CONFIG = "limits:\n  bench: { algorithm: token_bucket, rate: 1000000/s, burst: 1000000 }\n"
THROTTLE = ["CL.THROTTLE", "key:__rand_int__", "15", "1000", "1"]
GET = ["GET", "key:__rand_int__"]


class Missing(Exception):
    """What can't be measured here, and why."""


def tool(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"{name} is not installed")
    return found


def built(name):
    if not (BUILD / name).exists():
        raise Missing(f"{name} is not built")
    return str(BUILD / name)


class Server:
    """A running server: `ports` by protocol, and the CPU time that it has used."""

    def __init__(self, command, ports=None):
        self.ports = ports or {}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.name = os.path.basename(command[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def wait_for(self, protocol):
        """The port of `protocol`, once the server says that it listens there or does."""
        deadline = time.monotonic() + START_SECONDS
        said = b""
        while time.monotonic() < deadline and self.process.poll() is None:
            if protocol in self.ports:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", self.ports[protocol])) == 0:
                        return self.ports[protocol]
            if select.select([self.process.stderr], [], [], 0.02)[0]:
                said += os.read(self.process.stderr.fileno(), 4096)
                for name, port in re.findall(rb"listening: (\w+) \S+:(\d+)\s", said):
                    self.ports[name.decode()] = int(port)
        raise Missing(f"{self.name} did not start: {said.decode(errors='replace').strip()[-200:]}")

    def cpu_ns(self):
        return sum(int((task / "schedstat").read_text().split()[0])
                   for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir())


def bare(mode):
    return Server([built("bench/bare_server"), mode])


def weir(directory):
    config = pathlib.Path(directory, "bench.yaml")
    config.write_text(CONFIG)
    return Server([built("weir"), "serve", "-c", str(config), "--threads", "1",
                   "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"])


def redis():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return Server([tool("redis-server"), "--bind", "127.0.0.1", "--port", str(port),
                   "--save", "", "--appendonly", "no"], {"resp": port})


def answer(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return connection.recv(4096)


def load_resp(server, command, depth, requests):
    """CPU nanoseconds per request under redis-benchmark."""
    port = server.wait_for("resp")
    packed = f"*{len(command)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in command)
    if answer(port, packed.encode()).startswith(b"-"):
        raise Missing(f"{server.name} refuses {command[0]}")
    before = server.cpu_ns()
    subprocess.run([tool("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port), "-c", "50",
                    "-P", str(depth), "-n", str(requests), "-r", "1000000", "-q", *command],
                   check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (server.cpu_ns() - before) / requests


def load_http(server):
    """CPU nanoseconds per request under a second of wrk."""
    port = server.wait_for("http")
    if b" 200 " not in answer(port, b"GET /v1/acquire/bench?key=1 HTTP/1.1\r\nHost: bench\r\n\r\n"):
        raise Missing(f"{server.name} refuses the request")
    before = server.cpu_ns()
    done = subprocess.run([tool("wrk"), "-t", "1", "-c", "50", "-d", "1",
                           "-s", str(ROOT / "bench/keys.lua"), f"http://127.0.0.1:{port}"],
                          check=True, timeout=60, capture_output=True, text=True)
    spent = server.cpu_ns() - before
    return spent / max(1, int(re.search(r"(\d+) requests in", done.stdout).group(1)))


def measures(directory, requests):
    """What to measure: its name, the name that it is compared with, the server, the load."""
    for depth in requests:
        def load(server, command=THROTTLE, depth=depth):
            return load_resp(server, command, depth, requests[depth])

        base = f"bare RESP server, pipeline {depth}"
        yield base, None, lambda: bare("resp"), load
        yield f"weir CL.THROTTLE, pipeline {depth}", base, lambda: weir(directory), load
        yield (f"redis GET, pipeline {depth}", base, redis,
               lambda server, load=load: load(server, GET))
    yield "bare HTTP server", None, lambda: bare("http"), load_http
    yield "weir GET /v1/acquire", "bare HTTP server", lambda: weir(directory), load_http


class Table:
    def __init__(self):
        self.values = {}

    def row(self, name, value, unit, yardstick=None):
        self.values[name] = value
        ratio = ""
        if self.values.get(yardstick):
            ratio = f"{value / self.values[yardstick]:8.2f} x {yardstick}"
        print(f"{name:36} {value:10.2f} {unit:8} {ratio}".rstrip(), flush=True)

    def note(self, name, text):
        print(f"{name:36} {'-':>10} {text}", flush=True)


def run_program(table, name, arguments):
    try:
        done = subprocess.run([built(f"bench/{name}"), *arguments], capture_output=True, text=True,
                              check=False)
    except Missing as why:
        return table.note(name, why)
    for line in done.stdout.splitlines():
        figure, value, unit = line.split()
        table.row(figure, float(value), unit, YARDSTICKS.get(figure))
    if done.returncode != 0:
        table.note(name, f"failed: {done.stderr.strip()}")


def run_servers(table, rounds, requests):
    with tempfile.TemporaryDirectory() as directory:
        plan = list(measures(directory, requests))
        samples = {name: [] for name, *_ in plan}
        missing = {}
        for _ in range(rounds):
            for name, _, start, load in plan:
                if name in missing:
                    continue
                try:
                    with start() as server:
                        samples[name].append(load(server))
                except (Missing, OSError, subprocess.SubprocessError) as why:
                    missing[name] = why
    for name, yardstick, *_ in plan:
        if name in missing:
            table.note(name, missing[name])
        else:
            table.row(name, statistics.median(samples[name]), "ns CPU", yardstick)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    quick = parser.parse_args().quick
    table = Table()
    print(f"{'what':36} {'median':>10} {'unit':8} {'ratio':>8}")
    for name in PROGRAMS:
        run_program(table, name, ["--quick"] if quick else [])
    if quick:
        run_servers(table, 1, {1: 10000, 16: 50000})
    else:
        run_servers(table, 5, {1: 50000, 16: 400000})


if __name__ == "__main__":
    main()
