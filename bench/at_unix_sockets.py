"""Measures the CPU time of Weir for each request from its own host, over TCP and over a Unix socket.

Two servers run all the time and take turns under load, so that both see the same machine. A ratio is of
the two transports of one turn.
"""

import contextlib
import pathlib
import re
import select
import statistics
import subprocess
import tempfile
import time

from servers import CONFIG, CONNECTIONS, KEY_BYTES, START_SECONDS, Missing, Server, built, said, weir

REQUESTS = {
    "GET /v1/acquire": ["--path", "/v1/acquire/bench?key={key}"],
    "CL.THROTTLE": ["--command", "CL.THROTTLE key:{key} 15 1000 1"],
}
DEPTHS = (1, 16)
TRANSPORTS = ("TCP", "Unix socket")


class UnixServer(Server):
    """A server that listens at Unix sockets; `paths` by protocol."""

    def __init__(self, directory):
        config = pathlib.Path(tempfile.mkdtemp(dir=directory), "bench.yaml")
        config.write_text(CONFIG)
        self.paths = {name: f"{directory}/{name}.sock" for name in ("http", "resp")}
        super().__init__([built("weir"), "serve", "-c", str(config), "--threads", "1",
                          "--http", f"unix:{self.paths['http']}", "--resp", f"unix:{self.paths['resp']}"])

    def wait_for(self, protocol):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if pathlib.Path(self.paths[protocol]).exists():
                return self.paths[protocol]
            select.select([], [], [], 0.02)
        raise Missing("weir did not start at a Unix socket")


def address(server, protocol):
    place = server.wait_for(protocol)
    return f"unix:{place}" if isinstance(place, str) else f"127.0.0.1:{place}"


def spend(server, words, depth, requests, turn):
    """CPU nanoseconds of the server for each request."""
    protocol = "http" if "--path" in words else "resp"
    return said(subprocess.Popen(
        [built("weir"), "bench", "--json", "--server", address(server, protocol), "--protocol", protocol,
         "--pid", str(server.process.pid), *words, "--connections", str(CONNECTIONS), "--pipeline", str(depth),
         "--keys", "100000", "--key-length", str(KEY_BYTES), "--requests", str(requests), "--seed", str(turn)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))["server_cpu_ns"]


def measure(table, rounds, requests):
    samples = {}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers = dict(zip(TRANSPORTS, (stack.enter_context(weir(directory)),
                                        stack.enter_context(UnixServer(directory)))))
        for turn in range(rounds + 1):  # the first one only warms up
            for what, words in REQUESTS.items():
                for depth in DEPTHS:
                    for transport, server in servers.items():
                        spent = spend(server, words, depth, requests * depth, turn)
                        samples.setdefault((what, depth, transport), []).append(spent)
    for what in REQUESTS:
        for depth in DEPTHS:
            by_tcp, by_unix = (samples[what, depth, transport][1:] for transport in TRANSPORTS)
            name = re.sub(r"^.*[/ ]", "", what) + f", pipeline {depth}"
            table.row(f"{name}, TCP", statistics.median(by_tcp), "ns CPU", None, (min(by_tcp), max(by_tcp)))
            table.row(f"{name}, Unix socket", statistics.median(by_unix), "ns CPU", None, (min(by_unix), max(by_unix)))
            ratios = [one / other for one, other in zip(by_unix, by_tcp)]
            table.row(f"{name}: Unix socket to TCP", statistics.median(ratios), "x", None, (min(ratios), max(ratios)))


def run(table, rounds, quick):
    try:
        measure(table, rounds, 5000 if quick else 20000)
    except (Missing, OSError, subprocess.SubprocessError) as why:
        table.note("unix sockets", why)
