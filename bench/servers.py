"""Runs servers under load for the benchmarks, and prints their table.

Servers are judged by the CPU time that they spend on a request, not by how many
a second they answer: the load generator shares the machine and takes the larger
part of it.
"""

import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
START_SECONDS = 10

CONFIG = "limits:\n  bench: { algorithm: token_bucket, rate: 1000000/s, burst: 1000000 }\n"
VALUE_BYTES = 20
KEY_BYTES = 12
CONNECTIONS = 50
GET = "GET key:{key}"
SET = f"SET key:{{key}} {'v' * VALUE_BYTES}"


class Missing(Exception):
    """Raised, with the reason, if something can't be measured here."""


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

    def __init__(self, command, ports=None, env=None):
        self.ports = ports or {}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env={**os.environ, **(env or {})})
        self.name = os.path.basename(command[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def cpu_ns(self):
        """Processor time of all its threads so far."""
        clock = ~self.process.pid << 3 | 2  # CLOCK_PROCESS_CPUTIME_ID of that process
        return time.clock_gettime_ns(clock)

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


def weir(directory, rules=CONFIG, *flags):
    # Each server has a file of its own, since it reads the file again when that changes.
    config = pathlib.Path(tempfile.mkdtemp(dir=directory), "bench.yaml")
    config.write_text(rules)
    return Server([__import__("os").environ.get("WEIR_BIN") or built("weir"), "serve", "-c", str(config), "--threads", "1",
                   "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", *flags])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def redis(*options, env=None):
    port = free_port()
    return Server([tool("redis-server"), "--bind", "127.0.0.1", "--port", str(port),
                   "--save", "", "--appendonly", "no", *options], {"resp": port}, env)


def load(server, protocol, *flags):
    """Begins to load a server; `said` waits for the end."""
    port = server.wait_for(protocol)
    return subprocess.Popen(
        [built("weir"), "bench", "--json", "--server", f"127.0.0.1:{port}",
         "--protocol", protocol, "--pid", str(server.process.pid), *map(str, flags)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(generator):
    """The report of `weir bench` on a server under its load."""
    with generator:
        out, trouble = generator.communicate(timeout=300)
    if generator.returncode != 0:
        raise Missing(trouble.strip()[-200:])
    return json.loads(out)


def generate(server, protocol, *flags):
    return said(load(server, protocol, *flags))


def filled(server, command, keys, *flags):
    """The server, once it has been asked for every key."""
    generate(server, "resp", "--command", command, "--pipeline", 100, "--connections", CONNECTIONS,
             "--keys", keys, "--key-length", KEY_BYTES, "--distribution", "sequential",
             "--requests", keys, *flags)
    return server


class Table:
    def __init__(self):
        self.values = {}

    def row(self, name, value, unit, yardstick=None, spread=None):
        """`spread`: the least and the most of the values whose median this is."""
        self.values[name] = value
        ratio = ""
        parts = [self.values.get(part) for part in (yardstick or "").split(" + ")]
        if all(parts) and yardstick != name:
            what = f"({yardstick})" if len(parts) > 1 else yardstick
            ratio = f"{value / sum(parts):8.2f} x {what}"
        between = f"  [{spread[0]:.2f} to {spread[1]:.2f}]" if spread else ""
        print(f"{name:38} {value:10.2f} {unit:8} {ratio}{between}".rstrip(), flush=True)

    def note(self, name, text):
        print(f"{name:38} {'-':>10} {text}", flush=True)
