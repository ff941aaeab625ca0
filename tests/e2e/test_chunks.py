"""Units that servers hold at Redis: other requests, servers, refunds and resets know of them."""

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
    """Two servers at one Redis, whose calls may be late on a busy machine."""
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
    """How many pass until one is denied."""
    passed = 0
    while acquire(wire, limit, key, *more)[0]:
        passed += 1
    return passed


def value(redis, limit, key):
    return redis.client.get(f"weir:{{{key}}}:{limit}") or ""


def settled(redis, limit, key):
    """Waits until no server holds units of the key."""
    until(lambda: ";" not in value(redis, limit, key), "chunks to be given back")


def take_chunk(wire, redis, limit, key):
    """Acquires by ones until the server holds a chunk; how many."""
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
def test_a_rest_that_is_too_small_is_not_lost(wires, key, cost):
    """A chunk of 20 units leaves 6 of each two requests of 7."""
    assert exhaust(wires[0], "slow", key, "COST", cost) == 1000 // cost
    assert exhaust(wires[0], "slow", key) == 1000 % cost


def test_large_costs_go_on_at_the_rate(wires, key):
    """Requests of a whole chunk, as fast as one connection asks, do not starve."""
    began = time.monotonic()
    passed = 0

    def three_times_the_burst():
        nonlocal passed
        passed += 40 * exhaust(wires[0], "fast", key, "COST", 40)
        return passed >= 6000

    until(three_times_the_burst, "the bucket to refill")
    assert passed <= 2000 + 2020 * (time.monotonic() - began)


@pytest.mark.parametrize("limit", COUNTED)
def test_a_refund_never_takes_what_another_server_holds(wires, shared_redis, key, limit):
    one, other = wires
    for _ in range(40):
        assert acquire(one, limit, key)[0]
    taken = take_chunk(other, shared_redis, limit, key)
    assert one.command("WEIR.REFUND", limit, key, "COST", 40)[0] == 1
    # More than is in use gives back no more.
    one.command("WEIR.REFUND", limit, key, "COST", 40)
    passed = exhaust(one, limit, key) + exhaust(other, limit, key) + exhaust(one, limit, key)
    assert passed <= 100
    settled(shared_redis, limit, key)
    passed += exhaust(one, limit, key)
    assert 100 - taken <= passed <= 100


@pytest.mark.parametrize("limit", COUNTED)
def test_after_a_reset_no_more_passes_than_the_limit(wires, shared_redis, key, limit):
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
def test_pauses_lose_nothing(wires, shared_redis, key, limit):
    """Chunks lie side by side: each is given back, whatever was taken after it."""
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
def test_a_server_finds_its_own_chunk_for_other_requests(wires, shared_redis, key, limit):
    wire = wires[0]
    passed = take_chunk(wire, shared_redis, limit, key)
    passed += exhaust(wire, limit, key, "PERMIT")
    assert passed == 100


def test_a_server_finds_its_own_chunk_for_several_limits(wires, shared_redis, key):
    passed = take_chunk(wires[0], shared_redis, "window", key)
    while wires[0].command("WEIR.CHECK", "path", "/two", "user", key)[0]:
        passed += 1
    assert passed == 100


@pytest.mark.parametrize("limit", COUNTED)
def test_refunds_and_costs_leave_what_remains_steady(wires, shared_redis, key, limit):
    """One server: each answer is as without a chunk."""
    wire = wires[0]
    left = 100 - take_chunk(wire, shared_redis, limit, key)
    for step in [("ACQUIRE", 1), ("REFUND", 1), ("ACQUIRE", 5), ("PEEK", 1), ("ACQUIRE", 25),
                 ("REFUND", 20), ("ACQUIRE", 1), ("REFUND", 3), ("PEEK", 1), ("ACQUIRE", 2)]:
        reply = wire.command(f"WEIR.{step[0]}", limit, key, "COST", step[1])
        left += {"ACQUIRE": -1, "REFUND": 1, "PEEK": 0}[step[0]] * step[1]
        assert reply[2] == left, step
    assert exhaust(wire, limit, key) == left


def test_requests_of_a_pipeline_keep_their_order(wires, key):
    """A reset forgets the requests before it and none behind it, also while a chunk is on its way."""
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


def test_a_dead_servers_chunk_of_a_bucket_comes_back(shared_redis, wires, tmp_path, key):
    """Its units count as used when its time is over: 10 s, and then the rate refills them."""
    config = f"store: {shared_redis.url}\nstore_timeout: 30s\nnodes: 2\n{CHUNKS}"
    server = Server(config=config, directory=tmp_path)
    with Wire(server.resp) as wire:
        take_chunk(wire, shared_redis, "fast", key)
    server.process.kill()
    server.process.wait()
    until(lambda: wires[0].command("WEIR.PEEK", "fast", key)[2] == 2000, "all to be there again")
