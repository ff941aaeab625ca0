"""Requests of one connection to one key take effect in order, in a pipeline, MULTI or batch.

Each script of requests runs twice: one request after the other to one key, and all at once to
another. Both must get the same answers.
"""

import itertools
import json
import os
import random
import time

import pytest
from harness import Server, Wire, encode

# Windows begin with the first request, so that none ends while a script runs.
CONFIG = """
store_timeout: 10s
nodes: 1
denied_cache: {denied_cache}
order: {order}
limits:
  near:  {{ algorithm: fixed_window, rate: 5/d, align: first_request, store: memory }}
  far:   {{ algorithm: fixed_window, rate: 6/d, align: first_request, store: "{url}" }}
  drops: {{ algorithm: token_bucket, rate: 1/d, burst: {burst}, store: "{url}" }}
  log:   {{ algorithm: sliding_log, rate: 6/d, store: "{url}" }}
  day:   {{ algorithm: base, base: 2, rate: 6/d, store: "{url}" }}
  fades: {{ algorithm: sliding_counter, rate: 6/d, store: "{url}" }}
rules:
  - {{ name: both, match: {{ path: /both }}, key: [ip], limits: [near, far] }}
  - {{ name: remote, match: {{ path: /remote }}, key: [ip], limits: [drops, far] }}
  - {{ name: again, match: {{ path: /remote }}, key: [ip], limits: [log] }}
  - {{ name: slow, match: {{ path: /slow }}, key: [ip], limits: [fades, day] }}
"""
LIMITS = ["near", "far", "drops", "log", "day", "fades"]
PATHS = ["/both", "/remote", "/slow"]
SCRIPTS = 25
numbers = itertools.count()


def config(redis, **changes):
    return CONFIG.format(**{"url": redis.url, "denied_cache": "0s", "order": "all", "burst": 7, **changes})


@pytest.fixture(scope="module", params=["all", "first"])
def server(request, shared_redis, tmp_path_factory):
    server = Server("--threads", "1", config=config(shared_redis, order=request.param),
                    directory=tmp_path_factory.mktemp("order"))
    yield server
    assert server.stop() == 0


def fresh_key():
    return f"order-{os.getpid()}-{next(numbers)}"


def random_script(chance):
    """A list of (op, limit or path, cost); with a path only operations that RESP has for rules."""
    script = []
    for _ in range(chance.randint(2, 12)):
        if chance.random() < 0.5:
            script.append(("check", chance.choice(PATHS), 1))
        else:
            op = chance.choice(["acquire", "acquire", "peek", "refund", "reset"])
            script.append((op, chance.choice(LIMITS), chance.randint(1, 2)))
    return script


def words(step, key):
    op, name, cost = step
    if op == "check":
        return ["WEIR.CHECK", "path", name, "ip", key]
    return ["WEIR." + op.upper(), name, key, *(["COST", cost] if op != "reset" else [])]


def element(step, key):
    op, name, cost = step
    if op == "check":
        return {"attributes": {"path": name, "ip": key}}
    return {"op": op, "limit": name, "key": key, **({"cost": cost} if op != "reset" else {})}


def result_of(answer):
    """(allowed, remaining) of an answer; its times would differ between two runs."""
    if isinstance(answer, dict):
        return answer["allowed"], answer["remaining"]
    return bool(answer[0]), answer[2]


def one_by_one(server, script, key):
    with Wire(server.resp) as wire:
        return [result_of(wire.command(*words(step, key))) for step in script]


def pipelined(server, script, key):
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode(*words(step, key)) for step in script))
        return [result_of(wire.reply()) for _ in script]


def in_multi(server, script, key):
    with Wire(server.resp) as wire:
        wire.send(encode("MULTI") + b"".join(encode(*words(step, key)) for step in script) + encode("EXEC"))
        for _ in range(len(script) + 1):
            wire.reply()
        return [result_of(answer) for answer in wire.reply()]


def in_batch(server, script, key):
    return [result_of(answer) for answer in server.post("/v1/batch", [element(step, key) for step in script]).json]


def over_http(server, script, key):
    """A pipeline of HTTP/1.1."""
    sent = b""
    for step in script:
        body = element(step, key)
        op = body.pop("op", "acquire")
        text = json.dumps(body).encode()
        sent += (b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n%s" % (op.encode(), len(text), text))
    answers = []
    with Wire(server.http) as wire:
        wire.send(sent)
        for _ in script:
            length = 0
            while (line := wire.file.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.append(result_of(json.loads(wire.file.read(length))))
    return answers


def within_a_day(run):
    """Runs again if a day has ended meanwhile, since some limits count by days."""
    while True:
        day = time.time() // 86400
        result = run()
        if time.time() // 86400 == day:
            return result


WAYS = [pipelined, in_multi, in_batch, over_http]


@pytest.mark.parametrize("ask", WAYS)
def test_random_scripts_are_answered_as_one_request_at_a_time(server, ask):
    seed = int(os.environ.get("WEIR_TEST_SEED", "20261123"))
    chance = random.Random(f"{seed}-{ask.__name__}")
    for number in range(SCRIPTS):
        script = random_script(chance)
        found, expected = within_a_day(lambda script=script: (ask(server, script, fresh_key()),
                                                              one_by_one(server, script, fresh_key())))
        assert found == expected, (seed, number, script)


@pytest.mark.parametrize("ask", WAYS)
def test_memory_does_not_overtake_a_request_at_redis(server, ask):
    script = [("check", "/both", 1), ("peek", "near", 1), ("reset", "near", 1), ("acquire", "near", 1)]
    assert [left for _, left in ask(server, script, fresh_key())] == [4, 4, 5, 4]


@pytest.mark.parametrize("ask", WAYS)
def test_a_reset_takes_effect_after_a_request_that_needs_a_second_call(shared_redis, serve, ask):
    """The value at Redis was written under another server's parameters, so the request needs a second call."""
    key = fresh_key()
    other = serve(config=config(shared_redis, burst=9))
    assert other.post("/v1/acquire", {"limit": "drops", "key": key}).json["remaining"] == 8
    server = serve(config=config(shared_redis, burst=8))
    ask(server, [("acquire", "drops", 1), ("reset", "drops", 1)], key)
    assert server.get(f"/v1/peek/drops?key={key}").json["remaining"] == 8


def test_equal_requests_of_a_pipeline_share_one_call_to_redis(server, shared_redis):
    key, n = fresh_key(), 200
    before = shared_redis.client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    pipelined(server, [("acquire", "far", 1)] * n, key)
    after = shared_redis.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before < n / 4
