"""
Priorities at a measured limit: the library in front of a server that can be overloaded, in virtual time.

Some clients have a high priority. Whatever share of the load they are, the limit must not follow an
overload, and the server must do nearly as much as with one priority. WEIR_TEST_WORKERS=64 plays a
larger server, which takes as long as all others.
"""

import os

import drift
import player as players
import pytest

TIMES = {4: (36, 12), 16: (9, 3), 64: (12, 4)}  # by workers: seconds of a run, and from when on it counts
WORKERS = [int(workers) for workers in os.environ.get("WEIR_TEST_WORKERS", "4,16").split(",")]
MEAN_MS = 10
LOW = 1.5          # times the capacity, beside what is high
LEAST_GOODPUT = 0.9
SHARES = (0.1, 0.5, 0.9, 1.5, 3)
SERVICES = {"exponential": 1, "constant": 1, "bimodal": 2}  # and so many runs, as chance tells much there
CLIENTS = {"": {"attempts": 1, "patience_ms": 10**6, "backoff_ms": 0},
           "retries": {"attempts": 3, "patience_ms": 200, "backoff_ms": 20}}


pytestmark = pytest.mark.skipif(float(os.environ.get("WEIR_TEST_HISTORIES", "1")) < 1,
                                reason="a sanitizer sees no more here than in the world `overload`")


@pytest.fixture(scope="module")
def player():
    with players.Player(with_redis=False) as one:
        yield one


def history_of(workers, service, clients, high, seed):
    seconds, settled = TIMES[workers]
    load = {"do": "load", "limit": "a", "key": "k", "high": high, "low": LOW, "priorities": [0, 9]}
    return {"store": "memory", "seed": seed, "servers": [{}], "keys": ["k"],
            "backend": {"workers": workers, "service": service, "mean_ms": MEAN_MS, "strain": 0.1, "notifies": True,
                        "silent": 0, **CLIENTS[clients]},
            "configs": [{"limits": {"a": {"algorithm": "adaptive", "max": 1000}}}],
            "ops": [{**load, "ms": settled * 1000}, {**load, "ms": (seconds - settled) * 1000, "is_judged": True}]}


def measure(player, histories, workers):
    """The most that the limit was, and the goodput, of the capacity."""
    seconds, settled = TIMES[workers]
    limits, done = zip(*(drift.measured(player.play(history)) for history in histories))
    return max(limits), sum(done) / (workers * 1000 / MEAN_MS * (seconds - settled) * len(done))


@pytest.mark.parametrize("clients", CLIENTS)
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("workers", WORKERS)
def test_a_limit_follows_no_overload_of_high_priority(player, workers, service, clients):
    for high in SHARES:
        histories = [history_of(workers, service, clients, high, seed) for seed in range(SERVICES[service])]
        one_limit, one = measure(player, map(drift.alike, histories), workers)
        limit, goodput = measure(player, histories, workers)
        seen = f"{high} x capacity: limit {limit}, with one priority {one_limit}; goodput {goodput:.1%}, {one:.1%}"
        assert limit <= drift.MOST * one_limit, seen
        assert goodput >= LEAST_GOODPUT * one, seen
