"""Servers at one hot key of a limit that is read, decided and swapped: a slow one has its turns."""

import threading
import time

import pytest
from tampering_proxy import TamperingProxy
from harness import PATIENCE, Server, Wire

FLEET = 4
QUOTA = 6000  # more than is asked for in a window
WINDOW_S = 20
ROUND_S = 0.03  # how much longer the slow server's way to Redis is
# Slots that are too short for a script, and a limit whose turns get nearer as the key warms up.
LIMITS = f"""
  slots: {{ algorithm: sliding_window, rate: {QUOTA}/{WINDOW_S}s, slots: 500, on_store_failure: closed }}
  warmed: {{ algorithm: warm_up, rate: 100000/s, warm_up: 1s, on_store_failure: closed }}
"""


@pytest.fixture(scope="module")
def fleet(shared_redis, tmp_path_factory):
    directory = tmp_path_factory.mktemp("turns")
    port = int(shared_redis.url.split(":")[2].split("/")[0])
    with TamperingProxy(port) as proxy:
        proxy.tamper = lambda client, data: (time.sleep(ROUND_S), client.sendall(data))
        urls = [proxy.url] + [shared_redis.url] * (FLEET - 1)
        servers = [Server(config=f"store: {url}\nstore_timeout: 30s\nnodes: {FLEET}\n"
                                 f"limits:{LIMITS}", directory=directory) for url in urls]
        yield servers
        for server in servers:
            assert server.stop() == 0


def ask_all(fleet, limit, key, enough):
    """How many each is granted of requests that it sends one after another, until the slow one has enough."""
    granted = [0] * FLEET
    asked = [0] * FLEET
    start = threading.Barrier(FLEET)
    ends = time.monotonic() + PATIENCE

    def ask(i):
        with Wire(fleet[i].resp) as wire:
            start.wait()
            while asked[i] == 0 or (granted[0] < enough and time.monotonic() < ends):
                granted[i] += wire.command("WEIR.ACQUIRE", limit, key)[0]
                asked[i] += 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(FLEET)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return granted


@pytest.mark.parametrize("limit", ["slots", "warmed"])
def test_a_slow_server_gets_through_at_a_hot_key(fleet, key, limit):
    began = time.monotonic()
    granted = ask_all(fleet, limit, key, 5)
    for server in fleet:  # none of them was left to the policy
        assert "weir_store_failures_total{" not in server.get("/metrics").text
    assert granted[0] >= 5, granted
    with Wire(fleet[1].resp) as wire:
        left = wire.command("WEIR.PEEK", limit, key)[2]
    # Each grant counted, while none of them is over.
    if limit == "slots" and time.monotonic() - began < WINDOW_S:
        assert left == QUOTA - sum(granted), granted
