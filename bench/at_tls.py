"""Measures the CPU time of servers per request with TLS and without, and per handshake.

All servers run all the time and take turns under load. Weir stands beside redis-server, and its
handshake beside that of openssl s_server.
"""

import contextlib
import pathlib
import re
import statistics
import subprocess
import tempfile

from servers import (CONFIG, CONNECTIONS, GET, KEY_BYTES, SET, Missing, Server, filled, free_port, generate, redis,
                     tool, weir)

THROTTLE = "CL.THROTTLE key:{key} 15 1000 1"
VERSIONS = ("1.2", "1.3")


def make_papers(directory):
    """A certificate of 127.0.0.1, signed by its own key of P-256."""
    cert, key = pathlib.Path(directory, "cert.pem"), pathlib.Path(directory, "key.pem")
    subprocess.run([tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def s_server(cert, key):
    """With one ticket, as Weir has. Without -www it hangs with a client of s_time and TLS 1.3."""
    port = free_port()
    return Server([tool("openssl"), "s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(cert), "-key", str(key),
                   "-www", "-quiet", "-num_tickets", "1"], {"handshake": port})


def handshakes(server, protocol, version, seconds):
    """CPU nanoseconds of the server per full handshake."""
    port = server.wait_for(protocol)
    before = server.cpu_ns()
    done = subprocess.run([tool("openssl"), "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-time", str(seconds),
                           f"-tls{version.replace('.', '_')}"], capture_output=True, text=True, check=True,
                          timeout=60)
    return (server.cpu_ns() - before) / int(re.search(r"(\d+) connections in", done.stdout)[1])


def start(stack, directory, keys):
    """Servers by their names, each with its keys, and the flags to reach it."""
    cert, key = make_papers(directory)
    tls = f"tls: {{ cert: {cert}, key: {key} }}\n"
    flags = ["--tls", "--cacert", str(cert)]
    port = free_port()
    secure_redis = redis("--port", "0", "--tls-port", str(port), "--tls-cert-file", str(cert), "--tls-key-file",
                         str(key), "--tls-ca-cert-file", str(cert), "--tls-auth-clients", "no")
    secure_redis.ports["resp"] = port
    room = ("--capacity", str(keys))
    found = {("redis", ""): (redis(), []), ("redis", " over TLS"): (secure_redis, flags),
             ("weir", ""): (weir(directory, CONFIG, *room), []),
             ("weir", " over TLS"): (weir(directory, CONFIG + tls, *room), flags)}
    for (name, _), (server, words) in found.items():
        filled(stack.enter_context(server), SET if name == "redis" else THROTTLE, keys, *words)
    return found, stack.enter_context(s_server(cert, key))


def measure(table, rounds, requests, keys, seconds):
    samples = {}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers, bare = start(stack, directory, keys)
        for turn in range(rounds + 1):
            for depth, n in requests.items():
                for (name, how), (server, words) in servers.items():
                    spent = generate(server, "resp", "--command", GET if name == "redis" else THROTTLE, "--pipeline",
                                     depth, "--connections", CONNECTIONS, "--keys", keys, "--key-length", KEY_BYTES,
                                     "--requests", n, "--seed", turn, *words)["server_cpu_ns"]
                    samples.setdefault((name, how, depth), []).append(spent)
            for version in VERSIONS:
                ours = handshakes(servers["weir", " over TLS"][0], "resp", version, seconds)
                samples.setdefault(("weir", "handshake", version), []).append(ours)
                samples.setdefault(("openssl s_server", "handshake", version), []).append(
                    handshakes(bare, "handshake", version, seconds))
    medians = {what: statistics.median(spent[1:]) for what, spent in samples.items()}  # the first only warms up
    for depth in requests:
        for how in "", " over TLS":
            yardstick = f"redis GET{how}, pipeline {depth}"
            table.row(yardstick, medians["redis", how, depth], "ns CPU")
            table.row(f"weir{how}, pipeline {depth}", medians["weir", how, depth], "ns CPU", yardstick)
    for version in VERSIONS:
        yardstick = f"openssl s_server, handshake {version}"
        table.row(yardstick, medians["openssl s_server", "handshake", version] / 1000, "us CPU")
        table.row(f"weir, handshake {version}", medians["weir", "handshake", version] / 1000, "us CPU", yardstick)


def run(table, rounds, quick):
    try:
        measure(table, rounds, {1: 5000, 16: 30000} if quick else {1: 20000, 16: 250000}, 100000, 1)
    except (Missing, OSError, subprocess.SubprocessError) as why:
        table.note("tls", why)
