"""When a limit's parameters change, units in use leak as the new parameters say, each unit
until its own time, and earlier permits stay valid."""

import time

import pytest
from harness import Server, Wire, until
from test_algorithms import ZONE

# A key consumes a cost several times under the old parameters; then it waits for a second at most.
CHANGES = {
    "rate": ("token_bucket", "rate: 10/d, burst: 5", "rate: 86400/d, burst: 5", 1, 5),
    "burst": ("token_bucket", "rate: 86400/d, burst: 3600", "rate: 86400/d, burst: 2", 3600, 1),
    "odd": ("token_bucket", "rate: 7/d, burst: 5", "rate: 86401/d, burst: 4", 1, 5),
    "level": ("leaky_bucket", "rate: 10/d, capacity: 5", "rate: 86400/d, capacity: 5", 1, 5),
    "pacer": ("pacer", "rate: 10/d, slack: 4", "rate: 86400/d, slack: 4", 1, 5),
    "queue": ("leaky_queue", "rate: 10/d, capacity: 4", "rate: 86400/d, capacity: 4", 1, 1),
    "warm": ("warm_up", "rate: 10/d, cold: 1", "rate: 86400/d, cold: 1", 1, 1),
}
SECOND = 1000  # in milliseconds, as in answers


def configuration(index, **keys):
    return "store_timeout: 30s\nlimits:\n" + "".join(
        f"  {name}: {{ algorithm: {algorithm}, {parameters[index]} }}\n"
        for name, (algorithm, *parameters, _, _) in CHANGES.items()) + "".join(
        f"  {name}: {{ {text} }}\n" for name, text in keys.items())


def ask(server, *words):
    with Wire(server.resp) as wire:
        return wire.command(*words)


def passes_by_the_new_rate(server, limit, key):
    """A key that waits for retry_after gets its unit; at the old rate it would wait for hours."""
    for _ in range(3):
        allowed, _, _, retry, *_ = ask(server, "WEIR.ACQUIRE", limit, key, "WAIT", 0)
        if allowed:
            return True
        assert 0 < retry <= SECOND + 10, retry
        time.sleep(retry / 1000)
    return False


@pytest.fixture(params=["memory", "file", "redis"])
def changed(request, tmp_path, key):
    """A server after a reload, or after a restart on its file, with keys that have used up their quota."""
    store = {"memory": "memory", "file": f"file:{tmp_path}/state"}.get(request.param)
    server = Server("--store", store or request.getfixturevalue("start_redis")().url,
                    config=configuration(0), directory=tmp_path)
    for limit, (*_, cost, times) in CHANGES.items():
        for _ in range(times):
            assert ask(server, "WEIR.ACQUIRE", limit, key, "COST", cost, "WAIT", 0)[0] == 1, limit
        assert ask(server, "WEIR.ACQUIRE", limit, key, "WAIT", 0)[0] == 0, limit
    if request.param == "file":
        assert server.stop() == 0
        server = Server("--store", store, config=configuration(1), directory=tmp_path)
    else:
        server.reload(configuration(1))
        server.line_with("reloaded")
    yield request.param, server
    assert server.stop() == 0


@pytest.mark.parametrize("limit", CHANGES)
def test_a_denied_key_waits_as_the_new_parameters_say(changed, key, limit):
    store, server = changed
    if store == "redis" and limit in ("burst", "odd"):
        counts_down(server, limit, key)
    else:
        assert passes_by_the_new_rate(server, limit, key)


def counts_down(server, limit, key):
    """The quota in use falls. At Redis another server may still have the higher burst, so all of it leaks."""
    first = ask(server, "WEIR.ACQUIRE", limit, key)[3]
    until(lambda: ask(server, "WEIR.PEEK", limit, key)[3] <= first - 5, "5 ms")
    assert ask(server, "WEIR.ACQUIRE", limit, key)[3] <= first - 5


def test_peeks_alone_show_the_units_leak(tmp_path):
    """No request but peeks arrives, and the request passes at the time that they give."""
    server = Server(config=configuration(0), directory=tmp_path)
    for _ in range(5):
        assert ask(server, "WEIR.ACQUIRE", "rate", "k")[0] == 1
    server.reload(configuration(1))
    server.line_with("reloaded")
    until(lambda: ask(server, "WEIR.PEEK", "rate", "k")[0] == 1, "a token of the new rate")
    assert ask(server, "WEIR.ACQUIRE", "rate", "k")[0] == 1
    assert server.stop() == 0


GROWING = {
    "log": "algorithm: sliding_log, rate: 2/h",
    "slots": "algorithm: sliding_window, rate: 2/h, slots: 1000",
    "counter": "algorithm: sliding_counter, rate: 2/h",
    "daily": f"algorithm: base, base: 1, rate: 2/h, timezone: {ZONE}",
    "up": "algorithm: breaker, max_concurrent: 2",
    "places": "algorithm: concurrency, max: 2",
}


@pytest.fixture(params=["memory", "file"])
def grown(request, tmp_path):
    """(a server, a function that makes its tables larger)"""
    def text(keys):
        return configuration(0, **{name: f"{own}, keys: {keys}" for name, own in GROWING.items()})

    def grow():
        server.reload(text(2000))
        server.line_with("reloaded")

    store = "memory" if request.param == "memory" else f"file:{tmp_path}/state"
    server = Server("--store", store, config=text(50), directory=tmp_path)
    yield server, grow
    assert server.stop() == 0


@pytest.mark.parametrize("limit", ["log", "slots", "counter", "daily"])
def test_a_larger_table_keeps_the_time_of_each_use(grown, limit):
    server, grow = grown

    def retry():
        return ask(server, "WEIR.PEEK", limit, "k")[3]

    for _ in range(2):
        assert ask(server, "WEIR.ACQUIRE", limit, "k")[0] == 1
    first = retry()
    until(lambda: retry() <= first - 5, "5 ms")
    before = retry()
    grow()
    assert 0 < retry() <= before


@pytest.mark.parametrize("limit", ["up", "places", "log", "daily"])
def test_a_larger_table_keeps_permits_valid(grown, limit):
    server, grow = grown

    def acquire():
        return server.post("/v1/acquire", {"limit": limit, "key": "k", "permit": True}).json

    permits = [acquire()["permit"] for _ in range(2)]
    assert not acquire()["allowed"]
    grow()
    assert not acquire()["allowed"]
    for permit in permits:
        if limit in ("up", "places"):
            answer = server.post("/v1/report", {"permit": permit, "outcome": "success"})
        else:
            answer = server.post("/v1/refund", {"limit": limit, "key": "k", "permit": permit})
            assert answer.json["allowed"]
        assert answer.status == 200
    assert [acquire()["allowed"] for _ in range(3)] == [True, True, False]


def test_a_permit_refunds_its_units_after_the_rate_was_lowered(tmp_path):
    """For a bucket, and for a pacer whose newest turn the permit has."""
    limits = {"bucket": "algorithm: token_bucket, rate: {}/h, burst: 3",
              "turns": "algorithm: pacer, rate: {}/h, slack: 2"}

    def text(rate):
        return configuration(0, **{name: own.format(rate) for name, own in limits.items()})

    server = Server(config=text(60), directory=tmp_path)
    permits = {name: [server.post("/v1/acquire", {"limit": name, "key": "k", "permit": True, "wait_ms": 0}
                                  ).json["permit"] for _ in range(3)] for name in limits}
    server.reload(text(1))
    server.line_with("reloaded")
    for name in limits:
        for n, permit in enumerate(reversed(permits[name])):
            answer = server.post("/v1/refund", {"limit": name, "key": "k", "permit": permit}).json
            assert answer["allowed"], name
            assert answer["reset_after_ms"] <= (2 - n) * 3600 * SECOND, name
    assert server.stop() == 0
