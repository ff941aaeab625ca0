"""Servers of Weir whose clocks are wrong, on one Redis: its clock counts."""

import datetime
import pathlib
import time

import pytest
from harness import Wire

LIBRARY = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
OFFSETS = [-10, 0, 10]

# Ten seconds are much for each.
CONFIG = """
store: {url}
store_timeout: 30s
denied_cache: 0s
limits:
  token_bucket: {{ algorithm: token_bucket, rate: 1/s, burst: 10, on_store_failure: closed }}
  leaky_bucket: {{ algorithm: leaky_bucket, rate: 1/s, capacity: 10, on_store_failure: closed }}
  resetting_bucket: {{ algorithm: resetting_bucket, rate: 10/10s, on_store_failure: closed }}
  calendar: {{ algorithm: fixed_window, rate: 10/10s, on_store_failure: closed }}
  fixed_window: {{ algorithm: fixed_window, rate: 10/10s, align: first_request, on_store_failure: closed }}
  sliding_window: {{ algorithm: sliding_window, rate: 10/10s, on_store_failure: closed }}
  sliding_log: {{ algorithm: sliding_log, rate: 10/10s, on_store_failure: closed }}
  sliding_counter: {{ algorithm: sliding_counter, rate: 10/10s, on_store_failure: closed }}
"""
LIMITS = ["token_bucket", "leaky_bucket", "resetting_bucket", "calendar", "fixed_window",
          "sliding_window", "sliding_log", "sliding_counter"]


def seconds(redis):
    whole, microseconds = redis.client.time()
    return whole + microseconds / 1e6


@pytest.fixture
def servers(serve, start_redis):
    """One for each offset, and their Redis."""
    redis = start_redis()
    started = [serve(config=CONFIG.format(url=redis.url), env={
        "LD_PRELOAD": str(LIBRARY), "FAKETIME": f"{offset:+}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "ASAN_OPTIONS": "verify_asan_link_order=0"}) for offset in OFFSETS]
    return redis, started


def test_the_clocks_of_these_servers_are_wrong(servers):
    """Else the next test would say nothing."""
    for offset, server in zip(OFFSETS, servers[1]):
        started = datetime.datetime.fromisoformat(server.log[0].split()[0])
        assert abs(time.time() - started.timestamp() + offset) < 5, (offset, server.log[0])


def test_clocks_ten_seconds_apart_grant_what_one_would(servers, key):
    redis, started = servers
    wires = [Wire(server.resp) for server in started]
    for limit in LIMITS:
        begin = seconds(redis)
        replies = []
        for _ in range(2):  # there and back again
            for wire in (*wires, *reversed(wires)):
                replies += [wire.command("WEIR.ACQUIRE", limit, key) for _ in range(5)]
        passed = seconds(redis) - begin
        # A window more for each border between two that Redis has seen meanwhile.
        borders = int((begin + passed) / 10) - int(begin / 10)
        most = 10 + (10 * borders if limit == "calendar" else 10 * passed / 10)
        assert 10 <= sum(reply[0] for reply in replies) <= most, limit
        assert b"store_failure" not in {reply[5] for reply in replies}
        # All of them tell the same end.
        told = [wire.command("WEIR.PEEK", limit, key)[4] for wire in wires]
        late = (seconds(redis) - begin) * 1000
        assert borders or max(told) - min(told) <= late, (limit, told)
    for wire in wires:
        wire.__exit__()
