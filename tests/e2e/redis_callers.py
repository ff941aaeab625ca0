"""Callers of a Redis in tests of connections: a server of Weir, and a program that uses the library."""

import contextlib
import itertools
import subprocess

from harness import BUILD, Wire, until
from redis import ConnectionError

TIMEOUT_MS = 20000  # longer than a busy machine delays Redis
QUOTA = 10
CONFIG = f"""
store: {{url}}
store_timeout: {{timeout_ms}}ms
denied_cache: 0s
limits:
  one: {{{{ algorithm: fixed_window, rate: {QUOTA}/h, align: first_request, on_store_failure: closed }}}}
"""


class Library:
    """A program that uses the library; `words` precede its command."""

    def __init__(self, url, words=(), timeout_ms=TIMEOUT_MS):
        self.process = subprocess.Popen(
            [*words, BUILD / "tests" / "clients" / "library", url, str(QUOTA), str(timeout_ms)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, key):
        """Acquires one unit: the remaining units, or None if it was not granted."""
        self.process.stdin.write(f"{key}\n")
        self.process.stdin.flush()
        status, allowed, left = self.process.stdout.readline().split()
        return int(left) if status == "0" and allowed == "1" else None

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


class Served:
    """A server of one thread, so with one connection to Redis."""

    def __init__(self, serve, url, words=(), timeout_ms=TIMEOUT_MS):
        self.server = serve("--threads", "1", config=CONFIG.format(url=url, timeout_ms=timeout_ms),
                            account=words)

    def ask(self, key):
        with Wire(self.server.resp) as wire:
            reply = wire.command("WEIR.ACQUIRE", "one", key)
        return reply[2] if reply[0] else None

    def stop(self):
        pass  # the fixture `serve` stops it


_keys = itertools.count()


def until_reached(asker, at=None):
    """Waits until requests are decided at Redis; at the server `at`, if given.

    It uses keys of its own, since a request without an answer may have consumed a unit.
    """
    def is_reached():
        key = f"until-{next(_keys)}"
        if asker.ask(key) is None:
            return False
        # A Sentinel ends connections to a server whose role it changes.
        with contextlib.suppress(ConnectionError):
            return not at or at.client.exists(f"weir:{{{key}}}:one")

    until(is_reached, "Redis to be reached")
