"""Four servers at one Redis hold one limit together: exactly, from the first hits on."""

import contextlib
import threading
import time

import pytest
from harness import PATIENCE, Server, Wire, encode, until

FLEET = 4
KEYS = 8
ASKED = 20  # of each key, by each server
# How many of a key pass at once, of all that is asked; nothing comes back in an hour but where
# `WINDOW` says so.
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
    # What takes longer than usual under a sanitizer is not what these tests are about.
    return (f"store: {redis.url}\nstore_timeout: 10s\nnodes: {FLEET}\nlimits:\n"
            + "".join(f"  {name}: {{ algorithm: {name}, {parameters} }}\n"
                      for name, (parameters, _) in LIMITS.items()) + MORE)


@pytest.fixture(scope="session")
def fleet(shared_redis, tmp_path_factory):
    directory = tmp_path_factory.mktemp("fleet")
    servers = [Server(config=configuration(shared_redis), directory=directory)
               for _ in range(FLEET)]
    yield servers
    for server in servers:
        assert server.process.poll() is None, f"died: {server.log}"
        assert server.stop() == 0


def at_once(servers, commands):
    """The replies of each server to all these commands, which they get at the same time."""
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
    """How many were; each must be an answer."""
    flat = [reply for each in replies for reply in each]
    assert {reply[0] for reply in flat} <= {0, 1}, flat
    return sum(reply[0] for reply in flat)


@pytest.mark.parametrize("limit", [*LIMITS, "first_request"])
def test_parallel_first_hits_get_exactly_the_limit(fleet, key, limit):
    """Many keys at once, each new to all four: published limiters counted 60 such hits as 50."""
    quota = LIMITS.get(limit, (None, 30))[1]
    keys = [f"{key}-{i}" for i in range(KEYS)]
    commands = [("WEIR.ACQUIRE", limit, k, "WAIT", 0) for _ in range(ASKED) for k in keys]
    replies = at_once(fleet, commands)
    counts = {k: granted([each[i::KEYS] for each in replies]) for i, k in enumerate(keys)}
    assert counts == dict.fromkeys(keys, quota)
    # And all servers see the same.
    left = [[reply[1:3] for reply in each]
            for each in at_once(fleet, [("WEIR.PEEK", limit, k) for k in keys])]
    assert left == [left[0]] * FLEET


def test_two_first_requests_of_a_limit_of_one(fleet, key):
    commands = [("WEIR.ACQUIRE", "one", f"{key}-{i}") for i in range(200)]
    assert granted(at_once(fleet, commands)) == 200


def seconds_of(redis):
    seconds, micros = redis.client.time()
    return seconds + micros / 1e6


def test_calendar_windows_hold_exactly_their_count_across_boundaries(fleet, shared_redis, key):
    """The windows are those of Redis's clock, whatever the four say."""
    until(lambda: seconds_of(shared_redis) % WINDOW_S < WINDOW_S / 2, "the first half of a window")
    first = seconds_of(shared_redis) // WINDOW_S
    total = 0
    while True:
        before = seconds_of(shared_redis)
        total += granted(at_once(fleet, [("WEIR.ACQUIRE", "short", key)] * ASKED))
        after = seconds_of(shared_redis)
        # The last window has been asked for more than it has, from its beginning to its end.
        if before // WINDOW_S == after // WINDOW_S >= first + 2:
            break
    assert total == 30 * (after // WINDOW_S - first + 1)


@pytest.mark.parametrize("limit", ["turns", "paced", "warmed"])
def test_turns_of_one_key_are_spaced_over_all_servers(fleet, key, limit):
    """However many have been answered by a time, the rate had room for them by then."""
    answers = []

    def ask(server):
        with Wire(server.resp) as wire:
            wire.send(encode("WEIR.ACQUIRE", limit, key, "WAIT", 10000) * 8)
            for _ in range(8):
                reply = wire.reply()
                answers.append((time.monotonic(), reply[0]))

    began = time.monotonic()
    threads = [threading.Thread(target=ask, args=(server,)) for server in fleet]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [allowed for _, allowed in answers] == [1] * 8 * FLEET
    for n, (at, _) in enumerate(sorted(answers)):
        assert n <= (at - began) * PACE


def test_a_refund_and_a_reset_at_one_server_count_at_the_others(fleet, key):
    one, *others = fleet
    acquire = [("WEIR.ACQUIRE", "token_bucket", key)]
    assert granted(at_once([one], acquire * 30)) == 30
    with Wire(one.resp) as wire:
        assert wire.command("WEIR.REFUND", "token_bucket", key, "COST", 5)[2] == 5
    assert granted(at_once(others, acquire * 30)) == 5
    with Wire(one.resp) as wire:
        wire.command("WEIR.RESET", "token_bucket", key)
    # They may repeat their denial for as long as denied_cache says.
    for server in others:
        until(lambda: granted(at_once([server], acquire)), "a denial to be forgotten")


def test_a_place_is_given_back_at_another_server_than_it_was_taken_at(fleet, key):
    one, other, *_ = fleet
    (replies,) = at_once([one], [("WEIR.ACQUIRE", "concurrency", key)] * 31)
    assert [reply[0] for reply in replies] == [1] * 30 + [0]
    permits = {reply[6] for reply in replies[:30]}
    assert len(permits) == 30
    with Wire(other.resp) as wire:
        for permit in permits:
            assert wire.command("WEIR.REPORT", permit, "success") == b"+OK"
    assert granted(at_once(fleet, [("WEIR.ACQUIRE", "concurrency", key)] * 10)) == 30


def test_one_who_waits_gets_the_place_that_another_server_freed(fleet, key):
    one, other, *_ = fleet
    with Wire(one.resp) as taker, Wire(other.resp) as waiter:
        permits = [taker.command("WEIR.ACQUIRE", "concurrency", key)[6] for _ in range(30)]
        waiter.send(encode("WEIR.ACQUIRE", "concurrency", key, "WAIT", 60000))
        assert taker.command("WEIR.REPORT", permits[0], "success") == b"+OK"
        assert waiter.reply()[0] == 1


def all_read(fleet, giver):
    permit = giver.get("/v1/acquire/concurrency?key=any").json["permit"]
    statuses = {server.post("/v1/report", {"permit": permit, "outcome": "success"}).status
                for server in fleet}
    return 400 not in statuses


@pytest.fixture
def signing_fleet(fleet):
    """Once they share a secret: they have it from Redis a moment after they started."""
    until(lambda: all(all_read(fleet, giver) for giver in fleet), "permits that all can read")
    return fleet


@pytest.mark.parametrize("limit", [limit for limit in [*LIMITS, "first_request"]
                                   if limit not in ("leaky_queue", "pacer", "warm_up")])
def test_a_permit_is_given_back_once_at_whichever_server(signing_fleet, key, limit):
    """All are asked to at once, and again later."""
    with Wire(signing_fleet[0].resp) as wire:
        permits = [wire.command("WEIR.ACQUIRE", limit, key, "COST", 2, "PERMIT")[6]
                   for _ in range(4)]
        before = wire.command("WEIR.PEEK", limit, key)[2]
        refunds = [("WEIR.REFUND", limit, key, "PERMIT", permit) for permit in permits]
        assert granted(at_once(signing_fleet, refunds)) == 4
        assert wire.command("WEIR.PEEK", limit, key)[2] == before + 8
        assert granted(at_once(signing_fleet, refunds)) == 0


def test_a_permit_of_a_rule_is_good_at_other_servers(signing_fleet, key):
    """What it covers in memory is given back by the server that took it, and by no other."""
    one, other, *_ = signing_fleet
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


def test_two_limits_of_a_rule_take_both_or_neither(fleet, key):
    """30 for each user, 50 for the host: what one denies the other must not have counted."""
    check = [[("WEIR.CHECK", "path", "/both", "user", f"{key}-{user}", "host", key)
              for _ in range(10) for user in range(2)]]
    assert granted(at_once(fleet, check[0])) == 50
    with Wire(fleet[0].resp) as wire:
        left = [wire.command("WEIR.PEEK", "user", f"{key}-{user}")[2] for user in range(2)]
        assert sum(left) == 10
        assert wire.command("WEIR.PEEK", "site", key)[2] == 0


def test_two_rules_that_charge_one_key_take_both_or_neither(fleet, key):
    """One unit is left, and each of the two alone would pass."""
    with Wire(fleet[0].resp) as wire:
        assert wire.command("WEIR.ACQUIRE", "user", key, "COST", 27)[2] == 3
        check = ("WEIR.CHECK", "path", "/twice", "user", key)
        assert [wire.command(*check)[0] for _ in range(3)] == [1, 0, 0]
        assert wire.command("WEIR.PEEK", "user", key)[2] == 1


def test_a_limit_in_memory_beside_one_at_redis_takes_both_or_neither(fleet, key):
    """Each server has ten of its own, all together thirty."""
    check = [("WEIR.CHECK", "path", "/mixed", "user", key)]
    counts = [0] * FLEET

    def all_are_granted():
        # While one gives back what its memory had no room for, others are denied; so again.
        for i, replies in enumerate(at_once(fleet, check * 3)):
            counts[i] += granted([replies])
        return sum(counts) == 30

    until(all_are_granted, "thirty to be granted")
    assert granted(at_once(fleet, check * 15)) == 0
    left = []
    for server in fleet:
        with Wire(server.resp) as wire:
            left.append(wire.command("WEIR.PEEK", "here", key)[2])
    assert left == [10 - count for count in counts]


@contextlib.contextmanager
def calls_of_scripts(redis):
    """How many there were, once it is over; nobody else asks this Redis."""
    before = redis.calls().get("evalsha", 0)
    after = []
    yield lambda: after[0] - before
    after.append(redis.calls()["evalsha"])


@pytest.mark.parametrize("limit", ["bucket_chunks", "window_chunks"])
def test_chunks_grant_no_more_than_the_limit_and_in_the_end_all_of_it(fleet, shared_redis, key, limit):
    acquire = [("WEIR.ACQUIRE", limit, key)]
    with Wire(fleet[0].resp) as wire, calls_of_scripts(shared_redis) as calls:
        total = sum(wire.command(*acquire[0])[0] for _ in range(200))
    assert total == 200
    assert calls() <= 10
    total += granted(at_once(fleet, acquire * 400))
    # What three have and don't use, the fourth is denied.
    assert 1000 - 3 * 50 <= total <= 1000

    def asked_until_the_end():
        nonlocal total
        total += granted(at_once(fleet, acquire * 10))
        return total >= 1000

    # What is not used is given back when the key has been idle for a while.
    until(asked_until_the_end, "what was left in chunks")
    assert granted(at_once(fleet, acquire * 60)) == 0
    assert total == 1000


def test_a_denial_is_not_asked_for_again_and_again(fleet, shared_redis, key):
    acquire = [("WEIR.ACQUIRE", "token_bucket", key)]
    assert granted(at_once(fleet, acquire * 30)) == 30
    began = time.monotonic()
    with Wire(fleet[0].resp) as wire, calls_of_scripts(shared_redis) as calls:
        replies = [wire.command(*acquire[0]) for _ in range(200)]
    assert calls() <= time.monotonic() - began + 1
    assert {(reply[0], reply[2], reply[5]) for reply in replies} == {(0, 0, b"over_limit")}
    # Each tells when there is room, which comes nearer.
    waits = [reply[3] for reply in replies]
    assert waits == sorted(waits, reverse=True)


def test_requests_of_a_turn_for_one_key_are_one_step(fleet, shared_redis, key):
    with calls_of_scripts(shared_redis) as calls:
        (replies,) = at_once(fleet[:1], [("WEIR.ACQUIRE", "first_request", key)] * 30)
    assert [reply[2] for reply in replies] == list(range(29, -1, -1))
    assert replies[-1][5] == b"hit_quota"
    assert calls() <= 5
