"""Chunks of units that servers reserve at Redis: other requests, servers, refunds and resets account for them."""

import time

import pytest
from harness import Server, Wire, encode, metric, until

CHUNKS = """
limits:
  slow: { algorithm: token_bucket, rate: 1000/d, burst: 1000, chunk: 2% }
  slow_wide: { algorithm: token_bucket, rate: 1000/d, burst: 1000, chunk: 5% }
  fast: { algorithm: token_bucket, rate: 2000/s, burst: 2000, chunk: 2% }
  hundred: { algorithm: token_bucket, rate: 100/d, burst: 100, chunk: 20% }
  window: { algorithm: fixed_window, rate: 100/year, chunk: 20% }
  other: { algorithm: fixed_window, rate: 100/year }
rules:
  - { match: { path: /two }, key: [user], limits: [window, other] }
"""
COUNTED = ["hundred", "window"]


@pytest.fixture(scope="module")
def pair(shared_redis, tmp_path_factory):
    """Two servers at one Redis, with a long timeout for busy machines."""
    directory = tmp_path_factory.mktemp("chunks")
    config = f"store: {shared_redis.url}\nstore_timeout: 30s\ndenied_cache: 0s\nnodes: 2\n{CHUNKS}"
    servers = [Server(config=config, directory=directory) for _ in range(2)]
    yield servers
    for server in servers:
        assert server.stop() == 0


@pytest.fixture
def wires(pair):
    with Wire(pair[0].resp) as one, Wire(pair[1].resp) as other:
        yield one, other


def acquire(wire, limit, key, *more):
    return wire.command("WEIR.ACQUIRE", limit, key, *more)


def exhaust(wire, limit, key, *more):
    """Acquires until a request is denied; returns how many were allowed."""
    passed = 0
    while acquire(wire, limit, key, *more)[0]:
        passed += 1
    return passed


def value(redis, limit, key):
    return redis.client.get(f"weir:{{{key}}}:{limit}") or ""


def settled(redis, limit, key):
    """Waits until no server has a chunk of the key."""
    until(lambda: ";" not in value(redis, limit, key), "chunks to be given back")


def take_chunk(wire, redis, limit, key):
    """Acquires single units until the server has a chunk; returns how many."""
    taken = 0

    def holds():
        nonlocal taken
        for _ in range(3):
            assert acquire(wire, limit, key)[0]
        taken += 3
        return ";" in value(redis, limit, key)

    until(holds, "a chunk")
    return taken


@pytest.mark.parametrize("cost", [7, 13, 40])
def test_the_rest_of_a_chunk_that_is_too_small_is_not_lost(wires, key, cost):
    """A chunk of 20 units serves two requests of 7 and leaves 6."""
    assert exhaust(wires[0], "slow", key, "COST", cost) == 1000 // cost
    assert exhaust(wires[0], "slow", key) == 1000 % cost


def test_large_costs_are_allowed_at_the_rate(wires, key):
    """Requests that cost a whole chunk do not starve, though one connection sends them without a pause."""
    began = time.monotonic()
    passed = 0

    def three_times_the_burst():
        nonlocal passed
        passed += 40 * exhaust(wires[0], "fast", key, "COST", 40)
        return passed >= 6000

    until(three_times_the_burst, "the bucket to refill")
    assert passed <= 2000 + 2020 * (time.monotonic() - began)


@pytest.mark.parametrize("limit", COUNTED)
def test_a_refund_never_frees_the_chunk_of_another_server(wires, shared_redis, key, limit):
    one, other = wires
    for _ in range(40):
        assert acquire(one, limit, key)[0]
    taken = take_chunk(other, shared_redis, limit, key)
    assert one.command("WEIR.REFUND", limit, key, "COST", 40)[0] == 1
    # A refund of more units than are in use frees those in use only.
    one.command("WEIR.REFUND", limit, key, "COST", 40)
    passed = exhaust(one, limit, key) + exhaust(other, limit, key) + exhaust(one, limit, key)
    assert passed <= 100
    settled(shared_redis, limit, key)
    passed += exhaust(one, limit, key)
    assert 100 - taken <= passed <= 100


@pytest.mark.parametrize("limit", COUNTED)
def test_after_a_reset_no_more_than_the_limit_is_allowed(wires, shared_redis, key, limit):
    one, other = wires
    for _ in range(30):
        assert acquire(one, limit, key)[0]
    take_chunk(other, shared_redis, limit, key)
    assert one.command("WEIR.RESET", limit, key)[0] == 1
    passed = exhaust(one, limit, key) + exhaust(other, limit, key)
    settled(shared_redis, limit, key)
    passed += exhaust(one, limit, key)
    assert 70 <= passed <= 100


@pytest.mark.parametrize("limit", ["slow_wide", "window"])
def test_unused_units_of_chunks_return_in_pauses(wires, shared_redis, key, limit):
    """Each chunk is returned, also if another was taken after it."""
    passed = 0
    for _ in range(5):
        for wire in wires:
            passed += take_chunk(wire, shared_redis, limit, key)
        settled(shared_redis, limit, key)
    quota = 1000 if limit == "slow_wide" else 100
    for wire in wires:
        assert wire.command("WEIR.PEEK", limit, key)[2] == quota - passed
    assert exhaust(wires[0], limit, key) == quota - passed


@pytest.mark.parametrize("limit", COUNTED)
def test_a_server_uses_its_own_chunk_for_other_requests(wires, shared_redis, key, limit):
    wire = wires[0]
    passed = take_chunk(wire, shared_redis, limit, key)
    passed += exhaust(wire, limit, key, "PERMIT")
    assert passed == 100


def test_a_server_uses_its_own_chunk_for_several_limits(wires, shared_redis, key):
    passed = take_chunk(wires[0], shared_redis, "window", key)
    while wires[0].command("WEIR.CHECK", "path", "/two", "user", key)[0]:
        passed += 1
    assert passed == 100


@pytest.mark.parametrize("limit", COUNTED)
def test_remaining_is_exact_after_refunds_and_costs(wires, shared_redis, key, limit):
    """With one server each answer is the same as without a chunk."""
    wire = wires[0]
    left = 100 - take_chunk(wire, shared_redis, limit, key)
    for step in [("ACQUIRE", 1), ("REFUND", 1), ("ACQUIRE", 5), ("PEEK", 1), ("ACQUIRE", 25),
                 ("REFUND", 20), ("ACQUIRE", 1), ("REFUND", 3), ("PEEK", 1), ("ACQUIRE", 2)]:
        reply = wire.command(f"WEIR.{step[0]}", limit, key, "COST", step[1])
        left += {"ACQUIRE": -1, "REFUND": 1, "PEEK": 0}[step[0]] * step[1]
        assert reply[2] == left, step
    assert exhaust(wire, limit, key) == left


def test_requests_of_a_pipeline_keep_their_order(wires, key):
    """A reset forgets the requests before it and none after it, also while a chunk is being fetched."""
    wire = wires[0]
    operations = ["ACQUIRE", "ACQUIRE", "RESET", "ACQUIRE", "PEEK", "REFUND", "ACQUIRE", "ACQUIRE"]
    for _ in range(20):
        wire.command("WEIR.RESET", "window", key)
        wire.send(b"".join(encode(f"WEIR.{operation}", "window", key) for operation in operations))
        assert [wire.reply()[2] for _ in operations] == [99, 98, 100, 99, 99, 100, 99, 98]


def test_a_failed_call_does_not_keep_units(start_redis, serve):
    redis = start_redis()
    config = (f"store: {redis.url}\nstore_timeout: 500ms\nnodes: 1\nlimits:\n  window: "
              "{ algorithm: fixed_window, rate: 1000/year, chunk: 50%, on_store_failure: closed }\n")
    server = serve(config=config)
    with Wire(server.resp) as wire:
        take_chunk(wire, redis, "window", "k")
        timeouts = rf'weir_store_timeouts_total{{store="{redis.url}"}}'
        with redis.hung():
            def has_failed():
                acquire(wire, "window", "k", "PERMIT")  # which settles the chunk
                return metric(server, timeouts) > 0

            until(has_failed, "a call to fail")
        settled(redis, "window", "k")


def test_chunks_go_on_after_many_reloads(start_redis, serve):
    redis = start_redis()
    config = (f"store: {redis.url}\nstore_timeout: 30s\nnodes: 1\nlimits:\n  bucket: "
              "{ algorithm: token_bucket, rate: 100000/d, burst: BURST, chunk: 5% }\n")
    server = serve(config=config.replace("BURST", "50000"))
    with Wire(server.resp) as wire:
        for burst in range(50001, 50301):
            server.reload(config.replace("BURST", str(burst)))
            for _ in range(2):
                assert acquire(wire, "bucket", f"k{burst}")[0]
        take_chunk(wire, redis, "bucket", "last")


def test_the_chunk_of_a_dead_server_refills_after_its_expiry(shared_redis, wires, tmp_path, key):
    """When the chunk expires, after 10 s, its units count as used, and then the rate refills them."""
    config = f"store: {shared_redis.url}\nstore_timeout: 30s\nnodes: 2\n{CHUNKS}"
    server = Server(config=config, directory=tmp_path)
    with Wire(server.resp) as wire:
        take_chunk(wire, shared_redis, "fast", key)
    server.process.kill()
    server.process.wait()
    until(lambda: wires[0].command("WEIR.PEEK", "fast", key)[2] == 2000, "all to be there again")
