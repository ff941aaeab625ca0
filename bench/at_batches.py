"""Measures how long others wait beside clients with batches: the 99th percentile of a PING.

One server, by turns under three loads: 8 connections with batches of 1,000 acquires, 8 that pipeline
1,000 acquires, and none. Each acquire is at a `concurrency` limit of 10,000 whose places are all held.
"""

import multiprocessing
import socket
import statistics
import tempfile
import time

from servers import weir

RULES = "limits: { wide: { algorithm: concurrency, max: 10000, lease: 1h } }\n"
CONNECTIONS, REQUESTS = 8, 1000
ONE = b"*3\r\n$12\r\nWEIR.ACQUIRE\r\n$4\r\nwide\r\n$1\r\nk\r\n"
END = b"*1\r\n$4\r\nPING\r\n"
LOADS = {
    "batches of 1,000": b"*1\r\n$5\r\nMULTI\r\n" + ONE * REQUESTS + b"*1\r\n$4\r\nEXEC\r\n" + END,
    "pipelines of 1,000": ONE * REQUESTS + END,
    "idle": None,
}


def ask(port, words):
    """Asks again and again; each time the answers end with that to PING."""
    with socket.create_connection(("127.0.0.1", port)) as wire:
        while True:
            wire.sendall(words)
            last = b""
            while not last.endswith(b"+PONG\r\n"):
                data = wire.recv(1 << 16)
                if not data:
                    return
                last = (last + data)[-7:]


def percentile(port, words, seconds):
    """The 99th percentile of a PING, in milliseconds."""
    loaders = [multiprocessing.Process(target=ask, args=(port, words), daemon=True)
               for _ in range(CONNECTIONS if words else 0)]
    for loader in loaders:
        loader.start()
    times = []
    try:
        with socket.create_connection(("127.0.0.1", port)) as wire:
            time.sleep(0.5)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                before = time.monotonic()
                wire.sendall(END)
                assert wire.recv(100) == b"+PONG\r\n"
                times.append(time.monotonic() - before)
                time.sleep(0.001)
    finally:
        for loader in loaders:
            loader.terminate()
            loader.join()
    return statistics.quantiles(times, n=100)[98] * 1000


def run(table, rounds, seconds):
    samples = {name: [] for name in LOADS}
    with tempfile.TemporaryDirectory() as directory, weir(directory, RULES) as server:
        port = server.wait_for("resp")
        with socket.create_connection(("127.0.0.1", port)) as wire:
            wire.sendall(ONE.replace(b"*3", b"*5", 1) + b"$4\r\nCOST\r\n$5\r\n10000\r\n")
            assert wire.recv(1000).startswith(b"*7\r\n:1\r\n")
        for _ in range(rounds):
            for name, words in LOADS.items():
                samples[name].append(percentile(port, words, seconds))
    for name, of in samples.items():
        table.row(f"PING p99 beside {name}", statistics.median(of), "ms", None, (min(of), max(of)))
    ratios = [batch / single for batch, single in zip(*list(samples.values())[:2])]
    table.row("batches to pipelines", statistics.median(ratios), "x", None, (min(ratios), max(ratios)))
