"""If several limits deny, an answer names the first, and its time until retry is the longest."""

import itertools
import json

import pytest
from harness import Server, Wire, weir

# The first limit of a rule denies for about a minute, the second for about an hour.
LIMITS = """
store_timeout: 10s
denied_cache: 0s
trusted_proxies: [127.0.0.0/8]
limits:
  minute: {{ algorithm: fixed_window, rate: 1/m, align: first_request, store: "{0}" }}
  hour: {{ algorithm: fixed_window, rate: 1/h, align: first_request, store: "{1}" }}
order: {order}
rules:
  - {{ name: brief, key: [ip], limits: [minute], result: {{ code: 1 }} }}
  - {{ name: long, key: [ip], limits: [hour], result: {{ code: 2 }} }}
"""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
numbers = itertools.count()


@pytest.fixture(scope="module", params=[
    (places, order) for places in itertools.product(("memory", "redis"), repeat=2) for order in ("all", "first")],
    ids=lambda param: "-".join(param[0]) + "-" + param[1])
def server(request, shared_redis, tmp_path_factory):
    places, order = request.param
    urls = [shared_redis.url if place == "redis" else place for place in places]
    server = Server("--threads", "1", config=LIMITS.format(*urls, order=order),
                    directory=tmp_path_factory.mktemp("several"))
    yield server
    assert server.stop() == 0


def denial_of(body):
    return body["allowed"], body["retry_after_ms"], body["limit"], body["rule"], body["code"]


def by_http(server, op, ip):
    return denial_of(server.post(f"/v1/{op}", {"attributes": {"ip": ip}}).json)


def in_batch(server, op, ip):
    return denial_of(server.post("/v1/batch", [{"op": op, "attributes": {"ip": ip}}]).json[0])


def by_resp(server, _, ip):
    with Wire(server.resp) as wire:
        answer = wire.command("WEIR.CHECK", "ip", ip)
    return bool(answer[0]), answer[3], answer[7].decode(), answer[8].decode(), 1


def spend(server, ip):
    assert server.post("/v1/acquire", {"attributes": {"ip": ip}}).json["allowed"]


@pytest.mark.parametrize(("ask", "op"), [(by_http, "acquire"), (by_http, "peek"), (in_batch, "acquire"),
                                         (in_batch, "peek"), (by_resp, "acquire")])
def test_the_first_denying_limit_is_named_with_the_longest_time(server, ask, op):
    ip = f"10.0.0.{next(numbers)}"
    spend(server, ip)
    for _ in range(2):
        allowed, retry_ms, *named = ask(server, op, ip)
        assert (allowed, named) == (False, ["minute", "brief", 1])
        assert MINUTE_MS < retry_ms <= HOUR_MS


def test_retry_after_is_the_longest_time(server):
    ip = f"10.0.0.{next(numbers)}"
    spend(server, ip)
    answer = server.get("/auth", {"X-Forwarded-For": ip})
    assert answer.status == 429
    assert MINUTE_MS // 1000 < int(answer.headers["Retry-After"]) <= HOUR_MS // 1000


def test_a_denial_consumes_nothing_and_only_earlier_shadow_rules_count(shared_redis, serve):
    """The rule in the middle denies, and `order: first` evaluates no later rule."""
    config = (f"store_timeout: 10s\norder: first\nlimits:\n"
              f"  above: {{ algorithm: token_bucket, rate: 9/h, store: '{shared_redis.url}' }}\n"
              f"  spent: {{ algorithm: token_bucket, rate: 1/h }}\n"
              f"  below: {{ algorithm: token_bucket, rate: 9/h, store: '{shared_redis.url}' }}\n"
              "rules:\n"
              "  - { name: tried, key: [user], limits: [above], mode: shadow }\n"
              "  - { name: denies, key: [user], limits: [spent] }\n"
              "  - { name: unused, key: [user], limits: [below], mode: shadow }\n")
    user = f"shadow-{shared_redis.port}"
    server = serve(config=config)
    for allowed in (True, False, False):
        body = server.post("/v1/acquire", {"attributes": {"user": user}}).json
        assert body["allowed"] is allowed
    left = {name: server.get(f"/v1/peek/{name}?key={user}").json["remaining"] for name in ("above", "below")}
    assert left == {"above": 6, "below": 8}


TWO_KEYS = """
store_timeout: 10s
denied_cache: 60s
limits:
  minute: {{ algorithm: fixed_window, rate: 1/m, align: first_request, store: "{0}" }}
  hour: {{ algorithm: fixed_window, rate: 1/h, align: first_request, store: "{1}" }}
rules:
  - {{ name: brief, key: [user], limits: [minute] }}
  - {{ name: long, key: [ip], limits: [hour] }}
"""


def ask_for(server, user, ip):
    return server.post("/v1/acquire", {"attributes": {"user": user, "ip": ip}}).json


def test_a_cached_denial_does_not_hide_an_earlier_denying_limit(serve, start_redis):
    url = start_redis().url
    server = serve("--threads", "1", config=TWO_KEYS.format(url, url))
    assert ask_for(server, "ann", "10.0.0.1")["allowed"]
    assert ask_for(server, "bob", "10.0.0.1")["limit"] == "hour"  # now the denial is cached
    assert ask_for(server, "cat", "10.0.0.2")["allowed"]
    body = ask_for(server, "cat", "10.0.0.1")
    assert (body["allowed"], body["limit"]) == (False, "minute")
    assert body["retry_after_ms"] > MINUTE_MS


@pytest.mark.parametrize("denies", ["memory", "redis"])
def test_repeated_denials_rarely_call_redis(serve, start_redis, denies):
    """One limit denies, in memory or at Redis; another limit at Redis would allow."""
    redis = start_redis()
    server = serve("--threads", "1",
                   config=TWO_KEYS.format(redis.url, redis.url if denies == "redis" else "memory"))
    assert ask_for(server, "ann", "10.0.0.1")["allowed"]
    before = redis.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    for _ in range(50):
        assert ask_for(server, "bob", "10.0.0.1")["limit"] == "hour"
    assert redis.client.info("commandstats")["cmdstat_evalsha"]["calls"] - before < 10


SHEDDING = {
    "random": "algorithm: random, deny: 0.9",
    "throttle": "algorithm: throttle, k: 1, permit_timeout: 1h",
}


@pytest.mark.parametrize("limits", ["[relief, site]", "[site, relief]"])
@pytest.mark.parametrize("relief", SHEDDING)
def test_a_shed_request_does_not_reach_redis(serve, start_redis, relief, limits):
    """It is denied before the limit at Redis is charged, so there is nothing to give back."""
    redis = start_redis()
    server = serve("--threads", "1", config=(
        f"store: {redis.url}\nstore_timeout: 10s\ndenied_cache: 1m\nlimits:\n  relief: {{ {SHEDDING[relief]} }}\n"
        "  site: { algorithm: token_bucket, rate: 1000/d }\n"
        f"rules:\n  - {{ name: shed, key: [ip], limits: {limits} }}\n"))
    with Wire(server.resp) as wire:
        for _ in range(50):  # none is reported as accepted, so `throttle` sheds
            wire.command("WEIR.CHECK", "ip", "a")
        before = redis.calls()["evalsha"]
        answers = [wire.command("WEIR.CHECK", "ip", "a")[:6] for _ in range(200)]
        passed = sum(answer[0] for answer in answers)
        assert {answer[5] for answer in answers if not answer[0]} == {b"shed"}
        assert passed < 50
        # After each charge, the next denial asks once when the other limit would let it pass.
        assert redis.calls()["evalsha"] - before <= 2 * passed + 5


def test_the_simulator_reports_the_longest_time(tmp_path):
    """The simulator's clock is the log's."""
    config, log, out = tmp_path / "weir.yaml", tmp_path / "log.jsonl", tmp_path / "decisions"
    config.write_text(LIMITS.format("memory", "memory", order="all"))
    log.write_text("".join(f'{{"time": {1_800_000_000 + second}, "ip": "a"}}\n' for second in range(2)))
    assert weir("simulate", "-c", config, "--trace", log, "--decisions", out).returncode == 0
    last = json.loads(out.read_text().splitlines()[-1])
    assert (last["allowed"], last["limit"], last["retry_after_ms"]) == (False, "minute", HOUR_MS - 1000)


@pytest.mark.parametrize("op", ["acquire", "peek"])
def test_a_cost_too_large_for_a_limit_after_a_denying_one_is_a_denial(shared_redis, serve, op):
    config = (f"store_timeout: 10s\norder: first\nlimits:\n"
              f"  large: {{ algorithm: token_bucket, rate: 9/h, store: '{shared_redis.url}' }}\n"
              f"  small: {{ algorithm: token_bucket, rate: 2/h }}\n"
              "rules:\n"
              "  - { name: one, key: [user], limits: [large] }\n"
              "  - { name: two, key: [user], limits: [small] }\n")
    ask = {"attributes": {"user": f"{op}-{shared_redis.port}"}, "cost": 3}
    server = serve(config=config)
    assert server.post(f"/v1/{op}", ask).json["error"]["code"] == "cost_too_large"
    server.post("/v1/acquire", {"limit": "large", "key": ask["attributes"]["user"], "cost": 9})
    body = server.post(f"/v1/{op}", ask).json
    assert (body["allowed"], body["rule"]) == (False, "one")


CHARGED_TWICE = """
store_timeout: 10s
store: "{0}"
limits:
  few: {{ algorithm: token_bucket, rate: 3/h }}
  one: {{ algorithm: sliding_log, rate: 1/h }}
  spaced: {{ algorithm: pacer, rate: 10/h, slack: 0, max_wait: 1h }}
rules:
  - {{ name: first, match: {{ path: /few }}, key: [user], limits: [few] }}
  - {{ name: second, match: {{ path: /few }}, key: [user], limits: [few] }}
  - {{ match: {{ path: /one }}, key: [user], limits: [one] }}
  - {{ match: {{ path: /one }}, key: [user], limits: [one] }}
  - {{ match: {{ path: /spaced }}, key: [user], limits: [spaced] }}
  - {{ match: {{ path: /spaced }}, key: [user], limits: [spaced] }}
  - {{ match: {{ path: /shaded }}, key: [user], limits: [few] }}
  - {{ match: {{ path: /shaded }}, key: [user], limits: [few] }}
  - {{ match: {{ path: /shaded }}, key: [user], limits: [few], mode: shadow }}
"""


@pytest.mark.parametrize("store", ["memory", "file", "redis"])
def test_charges_of_one_count_that_never_fit_together_are_errors(shared_redis, serve, tmp_path, store):
    url = {"memory": "memory", "file": f"file:{tmp_path}/state", "redis": shared_redis.url}[store]
    server = serve("--capacity", "1000", config=CHARGED_TWICE.format(url))
    user = f"twice-{next(numbers)}-{shared_redis.port}"

    def ask(path, op="acquire", **more):
        return server.post(f"/v1/{op}", {"attributes": {"path": path, "user": user}, **more}).json

    few = {"code": "cost_too_large", "message": "expected a cost of at most 3 for limit 'few', found 4"}
    paced = {"code": "cost_too_large",
             "message": "expected a wait of at least 360000 ms for a cost of 2 of limit 'spaced', found 0 ms"}
    for op in ("acquire", "peek"):
        assert ask("/few", op, cost=2)["error"] == few
        assert ask("/spaced", op, wait_ms=0)["error"] == paced
        assert ask("/spaced", op, wait_ms=359_999)["error"]["code"] == "cost_too_large"
    assert server.post("/v1/batch", [{"attributes": {"path": "/few", "user": user}, "cost": 2}]).json[0]["error"] == few
    with Wire(server.resp) as wire:
        assert wire.command("WEIR.CHECK", "path", "/one", "user", user) == \
            b"-ERR expected a cost of at most 1 for limit 'one', found 2"
        assert wire.command("WEIR.CHECK", "path", "/few", "user", user)[:3] == [1, 3, 1]
    assert ask("/spaced", "peek", wait_ms=360_000)["allowed"]
    denied = ask("/few")
    assert (denied["allowed"], denied["rule"], denied["limit"]) == (False, "second", "few")


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_the_time_until_retry_includes_the_charge_of_a_shadow_rule(shared_redis, serve, store):
    """The shadow rule consumes the last unit of a count that cannot serve the request."""
    server = serve(config=CHARGED_TWICE.format(shared_redis.url if store == "redis" else store))
    user = f"shaded-{next(numbers)}-{shared_redis.port}"
    ask = {"attributes": {"path": "/shaded", "user": user}}
    server.post("/v1/acquire", {"limit": "few", "key": user, "cost": 2})
    third = HOUR_MS // 3
    assert 0 < server.post("/v1/peek", ask).json["retry_after_ms"] <= third
    denied = server.post("/v1/acquire", ask).json
    assert (denied["allowed"], denied["limit"]) == (False, "few")
    assert third < denied["retry_after_ms"] <= 2 * third
    assert server.get(f"/v1/peek/few?key={user}").json["remaining"] == 0
