"""A slow server gets its share at a hot key of a limit that servers read, decide and swap."""

import threading
import time

import pytest
from tampering_proxy import TamperingProxy
from harness import PATIENCE, Server, Wire

SERVERS = 4
QUOTA = 6000  # more than the servers request in a window
WINDOW_S = 20
ROUND_S = 0.03  # how much longer the slow server's round trip to Redis is
# A window with slots that are too short for a script, and a pacer whose turns get closer as the key warms up.
LIMITS = f"""
  slots: {{ algorithm: sliding_window, rate: {QUOTA}/{WINDOW_S}s, slots: 500, on_store_failure: closed }}
  warmed: {{ algorithm: warm_up, rate: 100000/s, warm_up: 1s, on_store_failure: closed }}
"""


@pytest.fixture(scope="module")
def servers(shared_redis, tmp_path_factory):
    directory = tmp_path_factory.mktemp("turns")
    port = int(shared_redis.url.split(":")[2].split("/")[0])
    with TamperingProxy(port) as proxy:
        proxy.tamper = lambda client, data: (time.sleep(ROUND_S), client.sendall(data))
        urls = [proxy.url] + [shared_redis.url] * (SERVERS - 1)
        servers = [Server(config=f"store: {url}\nstore_timeout: 30s\nnodes: {SERVERS}\n"
                                 f"limits:{LIMITS}", directory=directory) for url in urls]
        yield servers
        for server in servers:
            assert server.stop() == 0


def ask_all(servers, limit, key, enough):
    """The grants of each server, which sends one request after another until the slow server has `enough` grants."""
    granted = [0] * SERVERS
    asked = [0] * SERVERS
    start = threading.Barrier(SERVERS)
    ends = time.monotonic() + PATIENCE

    def ask(i):
        with Wire(servers[i].resp) as wire:
            start.wait()
            while asked[i] == 0 or (granted[0] < enough and time.monotonic() < ends):
                granted[i] += wire.command("WEIR.ACQUIRE", limit, key)[0]
                asked[i] += 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(SERVERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return granted


@pytest.mark.parametrize("limit", ["slots", "warmed"])
def test_a_slow_server_is_granted_requests_at_a_hot_key(servers, key, limit):
    began = time.monotonic()
    granted = ask_all(servers, limit, key, 5)
    for server in servers:  # the policy decided no request
        assert "weir_store_failures_total{" not in server.get("/metrics").text
    assert granted[0] >= 5, granted
    with Wire(servers[1].resp) as wire:
        left = wire.command("WEIR.PEEK", limit, key)[2]
    # All grants are counted as long as none has expired.
    if limit == "slots" and time.monotonic() - began < WINDOW_S:
        assert left == QUOTA - sum(granted), granted
