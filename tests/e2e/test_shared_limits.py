"""Four servers at one Redis together grant exactly one limit, from the first requests on."""

import contextlib
import threading
import time

import pytest
from harness import PATIENCE, Server, Wire, encode, until

SERVERS = 4
KEYS = 8
ASKED = 20  # requests to each key at each server
# (limit, number of requests that are allowed at once). Nothing refills within an hour, except for
# limits with `WINDOW`.
LIMITS = {
    "token_bucket": ("rate: 30/d, burst: 30", 30),
    "leaky_bucket": ("rate: 30/d, capacity: 30", 30),
    "leaky_queue": ("rate: 30/d, capacity: 30", 1),
    "pacer": ("rate: 30/d, slack: 6", 7),
    "warm_up": ("rate: 30/d", 1),
    "fixed_window": ("rate: 30/year", 30),
    "resetting_bucket": ("rate: 30/d", 30),
    "sliding_window": ("rate: 30/d, slots: 4", 30),
    "sliding_counter": ("rate: 30/365d", 30),
    "sliding_log": ("rate: 30/d", 30),
    "base": ("base: 10, rate: 21/d", 30),
    "concurrency": ("max: 30, lease: 1h", 30),
}
WINDOW_S = 2
PACE = 40  # a second
MORE = f"""
  first_request: {{ algorithm: fixed_window, rate: 30/d, align: first_request }}
  one: {{ algorithm: token_bucket, rate: 1/d }}
  short: {{ algorithm: fixed_window, rate: 30/{WINDOW_S}s }}
  turns: {{ algorithm: leaky_queue, rate: {PACE}/s, capacity: 100 }}
  paced: {{ algorithm: pacer, rate: {PACE}/s, slack: 0 }}
  warmed: {{ algorithm: warm_up, rate: {PACE}/s, warm_up: 1s, cold: 2 }}
  user: {{ algorithm: token_bucket, rate: 30/d }}
  site: {{ algorithm: fixed_window, rate: 50/year }}
  here: {{ algorithm: token_bucket, rate: 10/d, store: memory }}
  bucket_chunks: {{ algorithm: token_bucket, rate: 1000/d, chunk: 5% }}
  window_chunks: {{ algorithm: fixed_window, rate: 1000/year, chunk: 5% }}
rules:
  - {{ match: {{ path: /both }}, key: [user], limits: [user] }}
  - {{ match: {{ path: /both }}, key: [host], limits: [site] }}
  - {{ match: {{ path: /twice }}, key: [user], limits: [user] }}
  - {{ match: {{ path: /twice }}, key: [user], limits: [user] }}
  - {{ match: {{ path: /mixed }}, key: [user], limits: [user, here] }}
"""


def configuration(redis):
    # The timeout is long, since servers with a sanitizer are slow.
    return (f"store: {redis.url}\nstore_timeout: 10s\nnodes: {SERVERS}\nlimits:\n"
            + "".join(f"  {name}: {{ algorithm: {name}, {parameters} }}\n"
                      for name, (parameters, _) in LIMITS.items()) + MORE)


@pytest.fixture(scope="session")
def servers(shared_redis, tmp_path_factory):
    directory = tmp_path_factory.mktemp("servers")
    servers = [Server(config=configuration(shared_redis), directory=directory)
               for _ in range(SERVERS)]
    yield servers
    for server in servers:
        assert server.process.poll() is None, f"died: {server.log}"
        assert server.stop() == 0


def at_once(servers, commands):
    """Sends all commands to each server at the same time; returns the replies of each."""
    start = threading.Barrier(len(servers))
    replies = [None] * len(servers)

    def ask(i):
        with Wire(servers[i].resp) as wire:
            start.wait()
            wire.send(b"".join(encode(*words) for words in commands))
            replies[i] = [wire.reply() for _ in commands]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert None not in replies
    return replies


def granted(replies):
    """The number of allowed replies; none may be an error."""
    flat = [reply for each in replies for reply in each]
    assert {reply[0] for reply in flat} <= {0, 1}, flat
    return sum(reply[0] for reply in flat)


@pytest.mark.parametrize("limit", [*LIMITS, "first_request"])
def test_parallel_first_requests_get_exactly_the_limit(servers, key, limit):
    """Many keys at once, each new to all four servers: published limiters counted 60 such requests as 50."""
    quota = LIMITS.get(limit, (None, 30))[1]
    keys = [f"{key}-{i}" for i in range(KEYS)]
    commands = [("WEIR.ACQUIRE", limit, k, "WAIT", 0) for _ in range(ASKED) for k in keys]
    replies = at_once(servers, commands)
    counts = {k: granted([each[i::KEYS] for each in replies]) for i, k in enumerate(keys)}
    assert counts == dict.fromkeys(keys, quota)
    # All servers read the same counts.
    left = [[reply[1:3] for reply in each]
            for each in at_once(servers, [("WEIR.PEEK", limit, k) for k in keys])]
    assert left == [left[0]] * SERVERS


def test_a_limit_of_one_allows_one_of_parallel_first_requests(servers, key):
    commands = [("WEIR.ACQUIRE", "one", f"{key}-{i}") for i in range(200)]
    assert granted(at_once(servers, commands)) == 200


def seconds_of(redis):
    seconds, micros = redis.client.time()
    return seconds + micros / 1e6


def test_calendar_windows_allow_exactly_their_count_across_boundaries(servers, shared_redis, key):
    """Redis's clock determines the windows, not those of the servers."""
    until(lambda: seconds_of(shared_redis) % WINDOW_S < WINDOW_S / 2, "the first half of a window")
    first = seconds_of(shared_redis) // WINDOW_S
    total = 0
    while True:
        before = seconds_of(shared_redis)
        total += granted(at_once(servers, [("WEIR.ACQUIRE", "short", key)] * ASKED))
        after = seconds_of(shared_redis)
        # The last window got more requests than its count, from its beginning to its end.
        if before // WINDOW_S == after // WINDOW_S >= first + 2:
            break
    assert total == 30 * (after // WINDOW_S - first + 1)


@pytest.mark.parametrize("limit", ["turns", "paced", "warmed"])
def test_turns_of_one_key_are_spaced_across_all_servers(servers, key, limit):
    """At each time no more requests have been answered than the rate allows."""
    answers = []

    def ask(server):
        with Wire(server.resp) as wire:
            wire.send(encode("WEIR.ACQUIRE", limit, key, "WAIT", 10000) * 8)
            for _ in range(8):
                reply = wire.reply()
                answers.append((time.monotonic(), reply[0]))

    began = time.monotonic()
    threads = [threading.Thread(target=ask, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [allowed for _, allowed in answers] == [1] * 8 * SERVERS
    for n, (at, _) in enumerate(sorted(answers)):
        assert n <= (at - began) * PACE


def test_a_refund_and_a_reset_at_one_server_count_at_the_others(servers, key):
    one, *others = servers
    acquire = [("WEIR.ACQUIRE", "token_bucket", key)]
    assert granted(at_once([one], acquire * 30)) == 30
    with Wire(one.resp) as wire:
        assert wire.command("WEIR.REFUND", "token_bucket", key, "COST", 5)[2] == 5
    assert granted(at_once(others, acquire * 30)) == 5
    with Wire(one.resp) as wire:
        wire.command("WEIR.RESET", "token_bucket", key)
    # They may repeat a cached denial for the time of denied_cache.
    for server in others:
        until(lambda: granted(at_once([server], acquire)), "a denial to be forgotten")


def test_a_permit_is_released_at_another_server(servers, key):
    one, other, *_ = servers
    (replies,) = at_once([one], [("WEIR.ACQUIRE", "concurrency", key)] * 31)
    assert [reply[0] for reply in replies] == [1] * 30 + [0]
    permits = {reply[6] for reply in replies[:30]}
    assert len(permits) == 30
    with Wire(other.resp) as wire:
        for permit in permits:
            assert wire.command("WEIR.REPORT", permit, "success") == b"+OK"
    assert granted(at_once(servers, [("WEIR.ACQUIRE", "concurrency", key)] * 10)) == 30


def test_a_permit_released_at_one_server_admits_a_pending_request_at_another_server(servers, key):
    one, other, *_ = servers
    with Wire(one.resp) as taker, Wire(other.resp) as waiter:
        permits = [taker.command("WEIR.ACQUIRE", "concurrency", key)[6] for _ in range(30)]
        waiter.send(encode("WEIR.ACQUIRE", "concurrency", key, "WAIT", 60000))
        assert taker.command("WEIR.REPORT", permits[0], "success") == b"+OK"
        assert waiter.reply()[0] == 1


def all_read(servers, giver):
    permit = giver.get("/v1/acquire/concurrency?key=any").json["permit"]
    statuses = {server.post("/v1/report", {"permit": permit, "outcome": "success"}).status
                for server in servers}
    return 400 not in statuses


@pytest.fixture
def signing_servers(servers):
    """The servers once they share the secret of permits, which they read from Redis shortly after the start."""
    until(lambda: all(all_read(servers, giver) for giver in servers), "permits that all can read")
    return servers


@pytest.mark.parametrize("limit", [limit for limit in [*LIMITS, "first_request"]
                                   if limit not in ("leaky_queue", "pacer", "warm_up")])
def test_a_permit_is_refunded_once_at_any_server(signing_servers, key, limit):
    """All servers get the refund at the same time, and again later."""
    with Wire(signing_servers[0].resp) as wire:
        permits = [wire.command("WEIR.ACQUIRE", limit, key, "COST", 2, "PERMIT")[6]
                   for _ in range(4)]
        before = wire.command("WEIR.PEEK", limit, key)[2]
        refunds = [("WEIR.REFUND", limit, key, "PERMIT", permit) for permit in permits]
        assert granted(at_once(signing_servers, refunds)) == 4
        assert wire.command("WEIR.PEEK", limit, key)[2] == before + 8
        assert granted(at_once(signing_servers, refunds)) == 0


def test_a_permit_of_a_rule_is_valid_at_other_servers(signing_servers, key):
    """Its charges in memory are refunded only by the server that made them."""
    one, other, *_ = signing_servers
    permit = one.post("/v1/acquire", {"attributes": {"path": "/mixed", "user": key},
                                      "permit": True}).json["permit"]
    assert other.post("/v1/report", {"permit": permit, "outcome": "success"}).status == 200
    with Wire(other.resp) as wire:
        assert wire.command("WEIR.REFUND", "user", key, "PERMIT", permit)[0] == 1
        assert wire.command("WEIR.PEEK", "user", key)[2] == 30
    assert other.post("/v1/report", {"permit": permit, "outcome": "success"}).status == 404
    with Wire(one.resp) as wire:
        assert wire.command("WEIR.PEEK", "here", key)[2] == 9
        assert wire.command("WEIR.REFUND", "here", key, "PERMIT", permit)[0] == 1
        assert wire.command("WEIR.PEEK", "here", key)[2] == 10
        assert wire.command("WEIR.PEEK", "user", key)[2] == 30


def test_two_limits_of_a_rule_are_charged_both_or_not_at_all(servers, key):
    """30 for each user and 50 for the host: if one denies, the other must not count the request."""
    check = [[("WEIR.CHECK", "path", "/both", "user", f"{key}-{user}", "host", key)
              for _ in range(10) for user in range(2)]]
    assert granted(at_once(servers, check[0])) == 50
    with Wire(servers[0].resp) as wire:
        left = [wire.command("WEIR.PEEK", "user", f"{key}-{user}")[2] for user in range(2)]
        assert sum(left) == 10
        assert wire.command("WEIR.PEEK", "site", key)[2] == 0


def test_two_rules_that_charge_one_key_charge_both_or_not_at_all(servers, key):
    """One unit remains, which would be enough for each rule alone."""
    with Wire(servers[0].resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "user", key, "COST", 27)[2] == 3
        check = ("WEIR.CHECK", "path", "/twice", "user", key)
        assert [wire.command(*check)[0] for _ in range(3)] == [1, 0, 0]
        assert wire.command("WEIR.PEEK", "user", key)[2] == 1


def test_a_limit_in_memory_and_one_at_redis_are_charged_both_or_not_at_all(servers, key):
    """Each server has a limit of ten in memory, and all share a limit of thirty."""
    check = [("WEIR.CHECK", "path", "/mixed", "user", key)]
    counts = [0] * SERVERS

    def all_are_granted():
        # Others may be denied while a server refunds units that its limit in memory denied, so it repeats.
        for i, replies in enumerate(at_once(servers, check * 3)):
            counts[i] += granted([replies])
        return sum(counts) == 30

    until(all_are_granted, "thirty to be granted")
    assert granted(at_once(servers, check * 15)) == 0
    left = []
    for server in servers:
        with Wire(server.resp) as wire:
            left.append(wire.command("WEIR.PEEK", "here", key)[2])
    assert left == [10 - count for count in counts]


@contextlib.contextmanager
def calls_of_scripts(redis):
    """Yields a list that contains, after the block, the number of script calls; no other client uses this Redis."""
    before = redis.calls().get("evalsha", 0)
    after = []
    yield lambda: after[0] - before
    after.append(redis.calls()["evalsha"])


@pytest.mark.parametrize("limit", ["bucket_chunks", "window_chunks"])
def test_chunks_grant_no_more_than_the_limit_and_finally_all_of_it(servers, shared_redis, key, limit):
    acquire = [("WEIR.ACQUIRE", limit, key)]
    with Wire(servers[0].resp) as wire, calls_of_scripts(shared_redis) as calls:
        total = sum(wire.command(*acquire[0])[0] for _ in range(200))
    assert total == 200
    assert calls() <= 10
    total += granted(at_once(servers, acquire * 400))
    # Units in unused chunks of three servers are denied to the fourth.
    assert 1000 - 3 * 50 <= total <= 1000

    def asked_until_the_end():
        nonlocal total
        total += granted(at_once(servers, acquire * 10))
        return total >= 1000

    # Unused units are returned when the key has been idle for a while.
    until(asked_until_the_end, "what was left in chunks")
    assert granted(at_once(servers, acquire * 60)) == 0
    assert total == 1000


def test_repeated_denials_are_answered_from_the_cache(servers, shared_redis, key):
    acquire = [("WEIR.ACQUIRE", "token_bucket", key)]
    assert granted(at_once(servers, acquire * 30)) == 30
    began = time.monotonic()
    with Wire(servers[0].resp) as wire, calls_of_scripts(shared_redis) as calls:
        replies = [wire.command(*acquire[0]) for _ in range(200)]
    assert calls() <= time.monotonic() - began + 1
    assert {(reply[0], reply[2], reply[5]) for reply in replies} == {(0, 0, b"over_limit")}
    # The times until retry decrease.
    waits = [reply[3] for reply in replies]
    assert waits == sorted(waits, reverse=True)


def test_requests_of_an_iteration_to_one_key_are_one_call(servers, shared_redis, key):
    with calls_of_scripts(shared_redis) as calls:
        (replies,) = at_once(servers[:1], [("WEIR.ACQUIRE", "first_request", key)] * 30)
    assert [reply[2] for reply in replies] == list(range(29, -1, -1))
    assert replies[-1][5] == b"hit_quota"
    assert calls() <= 5
