"""A limit whose parameters change keeps its counts at Redis as it does in memory."""

import pytest
from harness import Server, Wire

# The parameters of each limit, first and later. Periods are so long that nothing refills.
PARAMETERS = {
    "token_bucket": ("rate: 30/365d, burst: 30", "rate: 90/365d, burst: 40"),
    "leaky_bucket": ("rate: 30/365d, capacity: 30", "rate: 30/365d, capacity: 40"),
    "fixed_window": ("rate: 30/year", "rate: 12/year"),
    "resetting_bucket": ("rate: 30/365d", "rate: 40/365d"),
    "sliding_window": ("rate: 30/365d, slots: 4", "rate: 40/365d, slots: 4"),
    "sliding_counter": ("rate: 30/365d", "rate: 40/365d"),
    "sliding_log": ("rate: 30/365d", "rate: 12/365d"),
    "base": ("base: 30, rate: 5/d", "base: 40, rate: 5/d"),
    "concurrency": ("max: 30, lease: 1h", "max: 12, lease: 1h"),
}
LIMITS = {name: (name, *both) for name, both in PARAMETERS.items()} | {
    "lowered_bucket": ("token_bucket", "rate: 30/365d, burst: 30", "rate: 30/365d, burst: 20"),
    "lowered_base": ("base", "base: 30, rate: 5/d", "base: 10, rate: 5/d"),
    "lowered_rate": ("base", "base: 10, rate: 25/d", "base: 10, rate: 5/d"),
}


def configuration(index):
    return "store_timeout: 30s\nnodes: 1\nlimits:\n" + "".join(
        f"  {name}: {{ algorithm: {algorithm}, {parameters[index]} }}\n"
        for name, (algorithm, *parameters) in LIMITS.items())


@pytest.fixture(scope="module")
def servers(shared_redis, tmp_path_factory):
    directory = tmp_path_factory.mktemp("reload")
    pair = [Server("--store", store, config=configuration(0), directory=directory)
            for store in ("memory", shared_redis.url)]
    yield pair
    for server in pair:
        assert server.stop() == 0


def ask(servers, *words):
    """[(allowed, quota, remaining)] of each server."""
    answers = []
    for server in servers:
        with Wire(server.resp) as wire:
            answers.append(wire.command(*words)[:3])
    return answers


def test_counts_continue_as_in_memory(servers, key):
    for turn, index in enumerate((0, 1, 0)):
        for server in servers:
            server.reload(configuration(index))
            server.line_with("reloaded")
        for limit in LIMITS:
            memory, redis = ask(servers, "WEIR.PEEK", limit, key)
            assert memory == redis, (turn, limit)
            assert (memory[2] == memory[1]) == (turn == 0), (turn, limit)
            for _ in range(2):
                memory, redis = ask(servers, "WEIR.ACQUIRE", limit, key, "COST", 7)
                assert memory == redis, (turn, limit)


@pytest.mark.parametrize("limit", [name for name in LIMITS if name.startswith("lowered")])
def test_a_limit_that_is_lowered_and_raised_again_grants_no_more(servers, key, limit):
    """Under the lower parameters nothing is granted, and no unit in use is forgotten."""
    taken = 0
    for index in (0, 1, 0):
        for server in servers:
            server.reload(configuration(index))
            server.line_with("reloaded")
        for _ in range(40):
            memory, redis = ask(servers, "WEIR.ACQUIRE", limit, key, "WAIT", 0)
            assert memory == redis
            taken += redis[0]
    assert taken == (30 if limit == "lowered_bucket" else 34)
