"""Servers with wrong clocks share limits at one Redis, whose clock decides."""

import datetime
import time

import pytest
from harness import Wire, clock_ahead

OFFSETS = [-10, 0, 10]

# Ten seconds make a difference for each of these limits.
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


def serve_ahead(serve, offset, config):
    """A server whose clock is `offset` seconds ahead."""
    return serve(config=config, env=clock_ahead(offset))


@pytest.fixture
def servers(serve, start_redis):
    """(a Redis, a server for each offset)"""
    redis = start_redis()
    return redis, [serve_ahead(serve, offset, CONFIG.format(url=redis.url)) for offset in OFFSETS]


def test_the_clocks_of_these_servers_are_wrong(servers):
    """The next test depends on this."""
    for offset, server in zip(OFFSETS, servers[1]):
        started = datetime.datetime.fromisoformat(server.log[0].split()[0])
        assert abs(time.time() - started.timestamp() + offset) < 5, (offset, server.log[0])


def test_servers_with_clocks_ten_seconds_apart_grant_no_more_than_one_server(servers, key):
    redis, started = servers
    wires = [Wire(server.resp) for server in started]
    for limit in LIMITS:
        begin = seconds(redis)
        replies = []
        for _ in range(2):  # in both orders
            for wire in (*wires, *reversed(wires)):
                replies += [wire.command("WEIR.ACQUIRE", limit, key) for _ in range(5)]
        passed = seconds(redis) - begin
        # Each boundary of windows that Redis passed meanwhile allows another window's requests.
        borders = int((begin + passed) / 10) - int(begin / 10)
        most = 10 + (10 * borders if limit == "calendar" else 10 * passed / 10)
        assert 10 <= sum(reply[0] for reply in replies) <= most, limit
        assert b"store_failure" not in {reply[5] for reply in replies}
        # All servers answer the same end of the window.
        told = [wire.command("WEIR.PEEK", limit, key)[4] for wire in wires]
        late = (seconds(redis) - begin) * 1000
        assert borders or max(told) - min(told) <= late, (limit, told)
    for wire in wires:
        wire.__exit__()


# Each limit grants one unit in 20 minutes, and clocks are 50 minutes apart: by the clock of a server that
# is ahead, a charge ends before it was made.
AHEAD = 3000
PERMITS = """
store: {url}
store_timeout: 30s
limits:
  token_bucket: {{ algorithm: token_bucket, rate: 1/20m, on_store_failure: closed }}
  leaky_bucket: {{ algorithm: leaky_bucket, rate: 1/20m, on_store_failure: closed }}
  leaky_queue: {{ algorithm: leaky_queue, rate: 1/20m, max_wait: 1s, on_store_failure: closed }}
  pacer: {{ algorithm: pacer, rate: 1/20m, slack: 0, max_wait: 1s, on_store_failure: closed }}
  warm_up: {{ algorithm: warm_up, rate: 1/20m, warm_up: 20m, cold: 1, max_wait: 1s, on_store_failure: closed }}
  calendar: {{ algorithm: fixed_window, rate: 1/d, timezone: {zone}, on_store_failure: closed }}
  fixed_window: {{ algorithm: fixed_window, rate: 1/20m, align: first_request, on_store_failure: closed }}
  resetting_bucket: {{ algorithm: resetting_bucket, rate: 1/20m, on_store_failure: closed }}
  sliding_window: {{ algorithm: sliding_window, rate: 1/20m, on_store_failure: closed }}
  sliding_counter: {{ algorithm: sliding_counter, rate: 1/20m, on_store_failure: closed }}
  sliding_log: {{ algorithm: sliding_log, rate: 1/20m, on_store_failure: closed }}
  base: {{ algorithm: base, base: 1, rate: 1/20m, timezone: {zone}, on_store_failure: closed }}
  concurrency: {{ algorithm: concurrency, max: 1, lease: 20m, on_store_failure: closed }}
  here: {{ algorithm: concurrency, max: 1, lease: 20m, store: memory }}
  healthy: {{ algorithm: breaker, permit_timeout: 20m, max_concurrent: 1 }}
rules:
  - {{ name: all, match: {{ path: /all }}, key: [user], limits: [here, healthy, concurrency] }}
"""
AT_REDIS = ["token_bucket", "leaky_bucket", "leaky_queue", "pacer", "warm_up", "calendar", "fixed_window",
            "resetting_bucket", "sliding_window", "sliding_counter", "sliding_log", "base", "concurrency"]


def zone_at_noon():
    """A timezone in which no day ends soon."""
    hours = 12 - datetime.datetime.now(datetime.UTC).hour
    return f"Etc/GMT{-hours:+}" if hours else "UTC"


def permit_of(answer):
    assert answer["allowed"], answer
    return answer["permit"]


@pytest.mark.parametrize("offset", [-AHEAD, AHEAD])
def test_a_server_with_a_wrong_clock_refunds_permits(serve, start_redis, key, offset):
    server = serve_ahead(serve, offset, PERMITS.format(url=start_redis().url, zone=zone_at_noon()))

    def ask(call, limit, **fields):
        return server.post(f"/v1/{call}", {"limit": limit, "key": key} | fields).json

    for limit in AT_REDIS:
        permit = permit_of(ask("acquire", limit, permit=True))
        assert not ask("acquire", limit, wait_ms=0)["allowed"], limit
        assert ask("refund", limit, permit=permit)["allowed"], limit
        again = permit_of(ask("acquire", limit, permit=True))
        assert not ask("refund", limit, permit=permit)["allowed"], limit
        report = server.post("/v1/report", {"permit": again, "outcome": "success"}).json
        assert "error" not in report, (limit, report)


@pytest.mark.parametrize("offset", [-AHEAD, AHEAD])
def test_a_server_with_a_wrong_clock_reports_permits(serve, start_redis, key, offset):
    """Concurrency limits at Redis and in memory, and a breaker, all of which allow one request in flight."""
    server = serve_ahead(serve, offset, PERMITS.format(url=start_redis().url, zone=zone_at_noon()))
    attributes = {"attributes": {"path": "/all", "user": key}}
    for call in ("report", "refund", "report"):
        permit = permit_of(server.post("/v1/acquire", attributes).json)
        assert not server.post("/v1/acquire", attributes).json["allowed"]
        fields = {"outcome": "success"} if call == "report" else attributes
        answer = server.post(f"/v1/{call}", fields | {"permit": permit}).json
        assert answer.get("allowed", True) and "error" not in answer, (call, answer)
        permit_of(server.post("/v1/acquire", {"limit": "concurrency", "key": key}).json)
        assert server.post("/v1/reset", {"limit": "concurrency", "key": key}).status == 200
