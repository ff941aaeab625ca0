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
KEYS = 1000000
VALUE_BYTES = 20
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


def loop(name, *modes):
    return Server([built(f"bench/loop_{name}"), *modes])


def weir(directory):
    config = pathlib.Path(directory, "bench.yaml")
    config.write_text(CONFIG)
    return Server([built("weir"), "serve", "-c", str(config), "--threads", "1",
                   "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"])


def redis():
    """A server in which every key is set, to a value that makes GET's reply as long as ours."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server([tool("redis-server"), "--bind", "127.0.0.1", "--port", str(port),
                     "--save", "", "--appendonly", "no"], {"resp": port})
    fill = (f"for i = 0, {KEYS - 1} do "
            "redis.call('SET', string.format('key:%012d', i), ARGV[1]) end")
    server.wait_for("resp")
    answer(port, pack(["EVAL", fill, "0", "v" * VALUE_BYTES]))
    return server


def pack(words):
    return "".join([f"*{len(words)}\r\n", *(f"${len(w)}\r\n{w}\r\n" for w in words)]).encode()


def answer(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS) as connection:
        connection.sendall(request)
        return connection.recv(4096)


@dataclasses.dataclass(frozen=True)
class Load:
    """What is asked of a server, and what the CPU time of each request is compared with."""

    protocol: str
    request: bytes   # one of its kind, to see that the replies are as long as they should be
    command: tuple   # of the load generator, behind the port
    requests: int    # in one round; 0: as many as it gets done in a second

    def run(self, server):
        """CPU nanoseconds per request."""
        port = server.wait_for(self.protocol)
        before = server.cpu_ns()
        if self.protocol == "resp":
            command = [tool("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port), "-q",
                       "-n", str(self.requests), *self.command]
        else:
            command = [tool("wrk"), *self.command, f"http://127.0.0.1:{port}"]
        done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
        count = self.requests or int(re.search(r"(\d+) requests in", done.stdout).group(1))
        return (server.cpu_ns() - before) / max(1, count)

    def check(self, server):
        """Bytes of the reply."""
        reply = answer(server.wait_for(self.protocol), self.request)
        if reply.startswith(b"-") or reply.startswith(b"HTTP/1.1 4"):
            raise Missing(f"{server.name} refuses the request: {reply[:60]}")
        return len(reply)


def resp(words, depth, requests):
    return Load("resp", pack([word.replace("__rand_int__", "%012d" % 1) for word in words]),
                ("-c", "50", "-P", str(depth), "-r", str(KEYS), *words), requests)


HTTP = Load("http", b"GET /v1/acquire/bench?key=1 HTTP/1.1\r\nHost: bench\r\n\r\n",
            ("-t", "1", "-c", "50", "-d", "1", "-s", str(ROOT / "bench/keys.lua")), 0)


def plan(directory, requests):
    """Tables of (name, what starts the server, load); the first of each is the yardstick."""
    servers = {
        "resp": lambda: loop("bare", "resp"),
        "http": lambda: loop("bare", "http"),
        "weir": lambda: weir(directory),
        "redis": redis,
        "libuv streams": lambda: loop("libuv", "stream", "resp"),
        "libuv polls": lambda: loop("libuv", "poll", "resp"),
        "libevent": lambda: loop("libevent", "resp"),
    }
    tables = []
    for depth, n in requests.items():
        load = resp(THROTTLE, depth, n)
        tables.append([(f"bare RESP server, pipeline {depth}", "resp", load),
                       (f"weir CL.THROTTLE, pipeline {depth}", "weir", load),
                       (f"redis GET, pipeline {depth}", "redis", resp(GET, depth, n))])
    tables.append([("bare HTTP server", "http", HTTP), ("weir GET /v1/acquire", "weir", HTTP)])
    tables.append([("event loops: bare epoll", "resp", resp(THROTTLE, 1, requests[1]))] +
                  [(f"event loops: {name}", name, resp(THROTTLE, 1, requests[1]))
                   for name in ("libuv streams", "libuv polls", "libevent")])
    return servers, tables


class Table:
    def __init__(self):
        self.values = {}

    def row(self, name, value, unit, yardstick=None):
        self.values[name] = value
        ratio = ""
        if self.values.get(yardstick) and yardstick != name:
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
    """All servers run all the time and take turns under load: what disturbs one disturbs all."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers, tables = plan(directory, requests)
        running, samples, missing, reply_bytes = {}, {}, {}, {}
        for turn in range(rounds + 1):
            for name, server, load in itertools.chain(*tables):
                if name in missing:
                    continue
                try:
                    if server not in running:
                        running[server] = stack.enter_context(servers[server]())
                    if turn == 0:
                        reply_bytes[name] = load.check(running[server])
                    spent = load.run(running[server])
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
            if reply_bytes[name] != reply_bytes.get(group[0][0], reply_bytes[name]):
                table.note(name, f"replies with {reply_bytes[name]} bytes, not as many as the others")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--servers", action="store_true", help="no library, no yardsticks")
    arguments = parser.parse_args()
    quick = arguments.quick
    table = Table()
    print(f"{'what':36} {'median':>10} {'unit':8} {'ratio':>8}")
    for name in [] if arguments.servers else PROGRAMS:
        run_program(table, name, ["--quick"] if quick else [])
    if quick:
        run_servers(table, 1, {1: 10000, 16: 50000})
    else:
        run_servers(table, 5, {1: 30000, 16: 400000})


if __name__ == "__main__":
    main()
