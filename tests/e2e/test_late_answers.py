"""A request waits for a key at Redis, and its time is over before Redis answers its last attempt."""

import contextlib
import json
import re
import select

import pytest
from harness import Wire, metric, until, until_pending

# A waiting request asks Redis when it arrives, once more as the first of its queue, and when its time is over.
CONFIG = """
store: {url}
store_timeout: 60s
store_poll: 1m
denied_cache: 0s
limits:
  places: {{ algorithm: concurrency, max: 1, lease: 1h, retry: 1h }}
rules: [{{ name: by-site, key: [site], limits: [places] }}]
"""
WAIT_MS = 500


def left(server, key):
    return server.get(f"/v1/peek/places?key={key}").json["remaining"]


def steps(server):
    """How many steps the server has sent to Redis."""
    return int(re.search(r"^weir_store_steps_total{.*} (\d+)$", server.get("/metrics").text, re.MULTILINE)[1])


def report(server, permit):
    assert server.post("/v1/report", {"permit": permit, "outcome": "success"}).status == 200


class Scene:
    """A server, the permit of the only place, and a client whose request waits for that place."""

    def __init__(self, server, key, names_limit):
        self.server, self.key = server, key
        self.permit = server.post("/v1/acquire", {"limit": "places", "key": key}).json["permit"]
        what = {"limit": "places", "key": key} if names_limit else {"attributes": {"site": key}}
        body = json.dumps({**what, "wait_ms": WAIT_MS}).encode()
        self.client = Wire(server.http)
        self.client.send(b"POST /v1/acquire HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        # It waits, and has made its first two attempts: Redis answers the server's one connection in order.
        until(lambda: self.is_answered() or metric(server, "weir_answers_pending") == 1, "the request to wait")
        for _ in range(3):
            left(server, key)

    def is_answered(self):
        return select.select([self.client.socket], [], [], 0)[0]

    def answer(self):
        return json.loads(self.client.rest().split(b"\r\n\r\n")[1])


@pytest.fixture(params=["named", "by rules"])
def scene(request, serve, start_redis, key):
    redis = start_redis()
    server = serve("--threads", "1", config=CONFIG.format(url=redis.url))
    until(lambda: server.get("/readyz").status == 200, "the store")
    scene = Scene(server, key, request.param == "named")
    scene.redis = redis
    with scene.client:
        yield scene


@contextlib.contextmanager
def last_attempt_in_flight(scene):
    """Redis hangs until the request's time is over and its last attempt is sent. On a machine that stood still before
    that, the request is answered already, with the same result."""
    with scene.redis.hung():
        sent = steps(scene.server)
        until(lambda: scene.is_answered() or steps(scene.server) > sent, "its last attempt")
        yield


def test_a_place_that_is_granted_late_belongs_to_the_client(scene):
    scene.redis.client.delete(f"weir:{{{scene.key}}}:places")  # no server tells the request that the place is free
    with last_attempt_in_flight(scene):
        pass
    answer = scene.answer()
    assert (answer["allowed"], answer["limit"], answer["reason"]) == (True, "places", "ok")
    assert left(scene.server, scene.key) == 0
    report(scene.server, answer["permit"])
    assert left(scene.server, scene.key) == 1


def test_a_late_denial_takes_nothing(scene):
    with last_attempt_in_flight(scene):
        pass
    answer = scene.answer()
    assert (answer["allowed"], answer["limit"], answer["reason"]) == (False, "places", "wait_too_long")
    until_pending(scene.server, 0)
    report(scene.server, scene.permit)
    assert left(scene.server, scene.key) == 1


def test_a_place_that_is_granted_after_the_client_has_left_is_free_again(scene):
    scene.redis.client.delete(f"weir:{{{scene.key}}}:places")
    with last_attempt_in_flight(scene):
        if scene.is_answered():
            report(scene.server, scene.answer()["permit"])
        scene.client.__exit__()
        until_pending(scene.server, 0)
    until(lambda: left(scene.server, scene.key) == 1, "the place to be free")
    assert scene.server.post("/v1/acquire", {"limit": "places", "key": scene.key, "wait_ms": 0}).json["allowed"]
