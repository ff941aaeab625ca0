"""Measures the CPU time of Weir per HTTP/2 request, beside a bare server with the same library.

Both run all the time and take turns under the load of h2load: 50 streams on each of 10 connections.
The bare server's fixed answer is as long as Weir's.
"""

import contextlib
import re
import statistics
import subprocess
import tempfile

from servers import Missing, Server, built, tool, weir

CONNECTIONS, STREAMS = 10, 50
PATH = "/v1/acquire/bench?key=a"
BARE, WEIR = "bare nghttp2 server", "weir GET /v1/acquire, HTTP/2"


def ask(server, requests):
    """CPU nanoseconds of the server per request, and bytes of a body."""
    url = f"http://127.0.0.1:{server.wait_for('http')}{PATH}"
    before = server.cpu_ns()
    done = subprocess.run([tool("h2load"), "-n", str(requests), "-c", str(CONNECTIONS), "-m", str(STREAMS), url],
                          capture_output=True, text=True, check=True, timeout=60)
    spent = (server.cpu_ns() - before) / requests
    if not re.search(rf"\b{requests} 2xx", done.stdout):
        raise Missing(f"h2load: {done.stdout.strip()[-200:]}")
    return spent, int(re.search(r"\((\d+)\) data", done.stdout)[1]) / requests


def measure(table, rounds, requests):
    samples = {BARE: [], WEIR: []}
    body_bytes = {}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers = {BARE: Server([built("bench/loop_http2"), "http"]), WEIR: weir(directory)}
        for server in servers.values():
            stack.enter_context(server)
        for turn in range(rounds + 1):
            for name, server in servers.items():
                spent, body_bytes[name] = ask(server, requests)
                if turn > 0:  # the first one only warms up
                    samples[name].append(spent)
    for name, spent in samples.items():
        table.row(name, statistics.median(spent), "ns CPU", BARE, (min(spent), max(spent)))
    ratios = [ours / bare for ours, bare in zip(samples[WEIR], samples[BARE])]
    table.row("HTTP/2: weir to the bare server", statistics.median(ratios), "x", None, (min(ratios), max(ratios)))
    longer = body_bytes[WEIR] / body_bytes[BARE]
    if abs(longer - 1) > 0.02:
        table.note(WEIR, f"its bodies are {longer:.2f} times as long as the first one's")


def run(table, rounds, quick):
    try:
        measure(table, rounds, 5000 if quick else 50000)
    except (Missing, OSError, subprocess.SubprocessError) as why:
        table.note("http2", why)
