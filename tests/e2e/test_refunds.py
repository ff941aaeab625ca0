"""Refunds with a permit and without one, with limits in memory, in a file and at Redis."""

import pytest
from test_algorithms import ZONE
from test_permits import HttpPermits, RespPermits

LIMITS = """
limits:
  daily: {{ algorithm: base, base: 2, rate: 4/h, timezone: {zone} }}
  three: {{ algorithm: base, base: 3, rate: 1/h, timezone: {zone} }}
  bucket: {{ algorithm: token_bucket, rate: 5/h, burst: 5 }}
  level: {{ algorithm: leaky_bucket, rate: 5/h, capacity: 5 }}
  window: {{ algorithm: fixed_window, rate: 5/h, align: first_request }}
  refill: {{ algorithm: resetting_bucket, rate: 5/h }}
  slots: {{ algorithm: sliding_window, rate: 5/30d }}
  fading: {{ algorithm: sliding_counter, rate: 5/30d }}
  log: {{ algorithm: sliding_log, rate: 5/h }}
  cold: {{ algorithm: warm_up, rate: 100/d, max_wait: 0s }}
  colder: {{ algorithm: warm_up, rate: 100/d, max_wait: 866s }}
  flight: {{ algorithm: concurrency, max: 5, lease: 1h }}
rules:
  - {{ name: both, match: {{ path: /both }}, key: [user], limits: [window, log] }}
{twice}
  - {{ name: one, match: {{ path: /thrice }}, limits: [three] }}
  - {{ name: two, match: {{ path: /thrice }}, limits: [three] }}
  - {{ name: three, match: {{ path: /thrice }}, limits: [three] }}
  - {{ name: once, match: {{ path: /cold }}, limits: [colder] }}
  - {{ name: again, match: {{ path: /cold }}, limits: [colder] }}
"""


# A request charges each of these limits twice for one key.
TWICE = ["bucket", "level", "window", "refill", "slots", "fading", "log", "flight"]
RULES = "\n".join(f"  - {{ name: {limit}-{n}, match: {{ path: /{limit} }}, key: [user], limits: [{limit}] }}"
                  for limit in TWICE for n in (1, 2))


@pytest.fixture(params=["memory", "file", "redis"])
def refunding(request, serve, tmp_path):
    """A server whose limits count in the store of the parameter."""
    config = LIMITS.format(zone=ZONE, twice=RULES)
    if request.param == "file":
        return serve("--store", f"file:{tmp_path}/state", "--capacity", "1000", config=config)
    if request.param == "redis":
        url = request.getfixturevalue("start_redis")().url
        config = f"store: {url}\nstore_timeout: 30s\n" + config
    return serve(config=config)


@pytest.fixture(params=[HttpPermits, RespPermits])
def caller(request, refunding):
    return request.param(refunding)


COUNTING = ["bucket", "level", "window", "refill", "slots", "fading", "log", "daily"]


@pytest.mark.parametrize("limit", COUNTING)
def test_a_refund_without_units_in_use_is_not_allowed(refunding, caller, key, limit):
    _, _, permit = caller.acquire(limit, key, 2)
    refunding.post("/v1/reset", {"limit": limit, "key": key})
    assert caller.refund(limit, key, permit) == (False, 5, "")


def test_permits_of_a_day_are_refunded_in_any_order(caller, key):
    permits = [caller.acquire("daily", key)[2] for _ in range(3)]
    assert [caller.refund("daily", key, permit) for permit in permits] == [
        (True, 3, ""), (True, 4, ""), (True, 5, "")]


def test_a_request_that_a_rule_denies_consumes_nothing_of_a_day(refunding):
    """The third rule denies; the first two had consumed a unit of the base and one of the window."""
    client = HttpPermits(refunding)
    client.acquire("three", "")
    assert client.call("acquire", attributes={"path": "/thrice"})[:2] == (False, 0)
    assert client.peek("three", "") == 2


def test_a_turn_of_a_cold_key_is_refunded_completely(caller, key):
    """The first turn of a cold key takes longer than others; the refund returns all of it."""
    _, _, permit = caller.acquire("cold", key)
    assert caller.refund("cold", key, permit) == (True, 1, "")
    assert caller.acquire("cold", key)[:2] == (True, 0)


def test_a_request_that_a_rule_denies_consumes_no_turn_of_a_cold_key(refunding):
    """A turn takes 864 s, the first one of a cold key 5 s more, so the second charge would wait too long."""
    client = HttpPermits(refunding)
    assert client.call("acquire", attributes={"path": "/cold"})[0] is False
    assert client.peek("colder", "") == 2
    assert client.acquire("colder", "")[0]


def test_a_log_refunds_a_part_of_an_older_request(caller, key):
    _, _, permit = caller.acquire("log", key, 3)
    caller.acquire("log", key)
    assert caller.refund("log", key, permit, cost=1) == (True, 2, "")
    assert caller.refund("log", key, permit) == (False, 2, "")


def test_a_partial_refund_applies_to_all_limits_of_a_request(refunding, key):
    client = HttpPermits(refunding)
    request = {"attributes": {"path": "/both", "user": key}, "permit": True}
    _, _, permit = client.call("acquire", **request, cost=3)
    client.call("acquire", **request)
    assert client.call("refund", permit=permit, cost=2)[:2] == (True, 3)
    assert (client.peek("window", key), client.peek("log", key)) == (3, 3)


def test_a_partial_refund_of_a_concurrency_permit_releases_it(caller, key):
    _, _, permit = caller.acquire("flight", key, 3)
    assert caller.refund("flight", key, permit, cost=1) == (True, 3, "")
    assert caller.refund("flight", key, permit, cost=1) == (False, 3, "")
    assert "not held" in caller.report(permit)
    assert caller.peek("flight", key) == 3


@pytest.mark.parametrize("limit", TWICE)
def test_two_charges_of_one_limit_and_key_are_both_refunded(refunding, key, limit):
    client = HttpPermits(refunding)
    request = {"attributes": {"path": f"/{limit}", "user": key}, "permit": True}
    permits = [client.call("acquire", **request)[2] for _ in range(2)]
    assert client.peek(limit, key) == 1
    for permit, left in zip(permits, (3, 5)):
        assert client.call("refund", permit=permit)[0] is True
        assert client.peek(limit, key) == left
        assert client.call("refund", permit=permit)[0] is False


def test_a_partial_refund_of_two_concurrency_charges_happens_once(refunding, key):
    client = HttpPermits(refunding)
    request = {"attributes": {"path": "/flight", "user": key}, "permit": True, "cost": 2}
    _, _, permit = client.call("acquire", **request)
    assert client.call("refund", permit=permit, cost=1)[0] is True
    assert client.peek("flight", key) == 3
    assert client.call("refund", permit=permit)[0] is False
    assert client.peek("flight", key) == 3
