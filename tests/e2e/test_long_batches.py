"""A batch with too much work for one iteration of the loop is decided in parts, and others are answered in between."""

import contextlib
import hashlib
import json
import re
import socket
import struct

import pytest
from harness import Wire, encode, one_thread, until
from test_http2 import Http2
from test_loop_iterations import stopped

pytestmark = one_thread

# An acquire of `wide` reads 10,240 records, which is 81 units of work; an iteration does 1,024 units of a batch.
LIMITS = """
limits:
  wide: { algorithm: concurrency, max: 10000, lease: 1h }
  count: { algorithm: fixed_window, rate: 1000/h, align: first_request }
  few: { algorithm: fixed_window, rate: 5/h, align: first_request }
  paced: { algorithm: pacer, rate: 20/s, slack: 0, max_wait: 1m }
"""
PER_ITERATION = 13
SLOW_RULES = 300
# Each request is SLOW_RULES * 81 units, so it takes an iteration of some 10 ms.
SLOW = LIMITS + "rules:\n" + "".join(
    f"  - {{ name: r{n}, match: {{ kind: slow }}, key: [who], limits: [wide] }}\n" for n in range(SLOW_RULES))
# Each request is one unit for each of its rules.
RULES = LIMITS + "rules:\n" + "".join(
    f"  - {{ name: r{n}, match: {{ kind: many }}, key: [who], limits: [count{n}] }}\n" for n in range(SLOW_RULES))
RULES = RULES.replace("rules:\n", "".join(
    f"  count{n}: {{ algorithm: fixed_window, rate: 1000/h, align: first_request }}\n"
    for n in range(SLOW_RULES)) + "rules:\n", 1)


def metric(server, name):
    return int(re.search(rf"^{name} (\d+)", server.get("/metrics").text, re.M)[1])


def continued(server):
    return metric(server, "weir_batches_continued_total")


def continuations(items):
    """How often a batch of `items` acquires of `wide` is continued in a later iteration."""
    return -(-items // PER_ITERATION) - 1


class Resp(Wire):
    """Sends batches of (limit, key, operation); outcomes are [(allowed, remaining)]."""

    def __init__(self, server):
        super().__init__(server.resp)
        self.count = 0

    def batch(self, items):
        self.count = len(items)
        words = [(f"WEIR.{op.upper()}", limit, key) for limit, key, op in items]
        self.send(b"".join(encode(*each) for each in [("MULTI",), *words, ("EXEC",)]))

    def outcomes(self):
        assert [self.reply() for _ in range(self.count + 1)] == [b"+OK"] + [b"+QUEUED"] * self.count
        return [(bool(one[0]), one[2]) for one in self.reply()]


def body_of(items):
    return json.dumps([{"limit": limit, "key": key, "op": op} for limit, key, op in items],
                      separators=(",", ":")).encode()


def outcomes_of(text):
    return [(one["allowed"], one["remaining"]) for one in json.loads(text)]


class Http1(Wire):
    def __init__(self, server):
        super().__init__(server.http)

    def batch(self, items):
        body = body_of(items)
        self.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def outcomes(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.file.readline()
        assert head.startswith(b"HTTP/1.1 200 ")
        return outcomes_of(self.file.read(int(re.search(rb"Content-Length: (\d+)", head)[1])))


class Streams(Http2):
    def post(self, body):
        self.stream = self.ask("/v1/batch", "POST", end=False)
        for at in range(0, len(body), 16384):
            self.h2.send_data(self.stream, body[at:at + 16384], end_stream=at + 16384 >= len(body))

    def batch(self, items):
        self.post(body_of(items))
        self.flush()

    def outcomes(self):
        status, _, body = self.wait(self.stream)[0]
        assert status == 200
        return outcomes_of(body)


every_protocol = pytest.mark.parametrize("protocol", [Resp, Http1, Streams])


@every_protocol
def test_others_are_answered_between_the_items_of_a_batch(serve, protocol):
    server = serve("--threads", "1", config=LIMITS)
    items = [("count", "k", "peek"), *[("wide", "w", "acquire")] * 600, ("count", "k", "peek")]
    with protocol(server) as client, Wire(server.resp) as other:
        client.batch([("count", "k", "peek")])
        assert client.outcomes() == [(True, 1000)]
        with stopped(server):
            client.batch(items)
            other.send(encode("WEIR.ACQUIRE", "count", "k"))
        answers = client.outcomes()
        assert other.reply()[:3] == [1, 1000, 999]
    assert answers[1:-1] == [(True, 10000 - n) for n in range(1, 601)]
    assert answers[-1] == (True, 999)
    assert continued(server) == continuations(601)


@every_protocol
def test_the_answers_of_a_batch_do_not_depend_on_its_parts(serve, protocol):
    """The items differ in their work, share keys, and some are denied."""
    server = serve("--threads", "1", config=LIMITS)
    ops = ["acquire", "peek", "acquire", "refund", "acquire", "acquire", "reset"]
    limits = ["wide", "few", "few", "wide", "count"]
    if protocol is Resp:  # a transaction does not wait for a pacer
        limits.append("paced")
    items = [(limits[n % len(limits)], f"k{n % 3}", ops[n % len(ops)]) for n in range(700)]
    with protocol(server) as client, Resp(server) as single:
        client.batch(items)
        answers = client.outcomes()
        assert len(answers) == len(items) and continued(server) > 10
        for n in range(3):
            for limit in set(limits):
                single.send(encode("WEIR.RESET", limit, f"k{n}"))
                single.reply()
        before = continued(server)
        for (limit, key, op), answer in zip(items, answers):
            single.send(encode(f"WEIR.{op.upper()}", limit, key) if limit != "paced" or op != "acquire" else
                        encode("WEIR.ACQUIRE", limit, key, "WAIT", 0))
            one = single.reply()
            if limit != "paced":
                assert (bool(one[0]), one[2]) == answer, (limit, key, op)
        assert continued(server) == before


def test_requests_after_a_batch_are_decided_and_answered_after_it(serve):
    server = serve("--threads", "1", config=LIMITS)
    with Resp(server) as wire:
        with stopped(server):
            wire.send(encode("WEIR.ACQUIRE", "count", "k"))
            wire.batch([("wide", "w", "acquire")] * 300 + [("count", "k", "acquire")])
            wire.send(encode("WEIR.ACQUIRE", "count", "k") + encode("PING"))
        assert wire.reply()[2] == 999
        assert wire.outcomes()[-1] == (True, 998)
        assert wire.reply()[2] == 997
        assert wire.reply() == b"+PONG"
    assert continued(server) == continuations(300)


def test_a_request_of_many_rules_counts_as_many_units(serve):
    """A pipeline of 60 requests is 60 * 300 units, so it takes several iterations."""
    server = serve("--threads", "1", config=RULES)
    peek = encode("WEIR.PEEK", "count", "k")
    check = encode("WEIR.CHECK", "kind", "many", "who", "me")
    with Wire(server.resp) as pipeline, Wire(server.resp) as other:
        with stopped(server):
            pipeline.send(peek + check * 60 + peek)
            other.send(encode("WEIR.ACQUIRE", "count", "k"))
        assert pipeline.reply()[2] in (999, 1000)
        assert [pipeline.reply()[0] for _ in range(60)] == [1] * 60
        assert pipeline.reply()[2] == 999
        assert other.reply()[2] == 999


def test_a_batch_of_few_items_of_many_rules_takes_several_iterations(serve):
    server = serve("--threads", "1", config=RULES)
    items = [{"attributes": {"kind": "many", "who": f"user {n % 2}"}} for n in range(20)]
    answer = server.post("/v1/batch", items)
    assert [(one["allowed"], one["remaining"], one["rule"]) for one in answer.json] == \
        [(True, 999 - n // 2, "r0") for n in range(20)]
    assert continued(server) == 4  # an iteration decides 4 items of 300 units


def test_a_batch_of_a_thousand_cheap_items_takes_one_iteration(serve):
    server = serve("--threads", "1", config=LIMITS)
    with Resp(server) as wire:
        wire.batch([("few", f"k{n}", "acquire") for n in range(1000)])
        assert wire.outcomes() == [(True, 4)] * 1000
    assert continued(server) == 0


def test_errors_permits_and_waits_of_a_batch_survive_its_parts(serve):
    server = serve("--threads", "1", config=LIMITS.replace("20/s", "1/s"))
    wide = [{"limit": "wide", "key": "w"}] * 50
    first = [{"limit": "nowhere", "key": "k"}, {"limit": "wide", "key": "p", "permit": True},
             {"limit": "paced", "key": "t", "wait_ms": 0}]
    items = [*first, *wide, *first, {"limit": "paced", "key": "t"}, *wide, *first, {"limit": "few"}]
    answer = server.post("/v1/batch", items).json
    assert continued(server) >= 7
    named = [answer[at] for at in (0, 53, 107)]
    assert [one["error"]["code"] for one in named] == ["unknown_limit"] * 3
    assert {one["error"]["message"] for one in named} == {"expected the name of a limit, found 'nowhere'"}
    assert "error" in answer[-1]
    assert answer[2]["allowed"] and answer[56]["allowed"] and 0 < answer[56]["wait_ms"] <= 1000
    permits = [answer[at]["permit"] for at in (1, 54, 108)]
    assert len(set(permits)) == 3
    for permit in permits:
        assert server.post("/v1/report", {"permit": permit, "outcome": "success"}).status == 200
    assert server.get("/v1/peek/wide?key=p").json["remaining"] == 10000


def test_del_of_many_keys_in_a_long_transaction_deletes_all(serve):
    server = serve("--threads", "1", config=LIMITS)
    keys = [f"k{n}" for n in range(5)]
    with Wire(server.resp) as wire:
        wide = encode("WEIR.ACQUIRE", "wide", "w") * 40
        throttle = b"".join(encode("CL.THROTTLE", key, 4, 5, 3600) for key in keys)
        wire.send(encode("MULTI") + wide + throttle + wide + encode("EXISTS", *keys, "none") + wide +
                  encode("DEL", *keys) + wide + encode("EXISTS", *keys) + encode("EXEC"))
        count = 4 * 40 + 5 + 3
        assert [wire.reply() for _ in range(count + 1)] == [b"+OK"] + [b"+QUEUED"] * count
        answers = wire.reply()
        assert [one[0] for one in answers[40:45]] == [0] * 5
        assert [one for one in answers if isinstance(one, int)] == [5, 5, 0]
    assert continued(server) > 10


def test_a_client_that_half_closes_gets_the_answer_of_its_batch(serve):
    server = serve("--threads", "1", config=LIMITS)
    with Resp(server) as wire:
        with stopped(server):
            wire.batch([("wide", "w", "acquire")] * 200)
            wire.socket.shutdown(socket.SHUT_WR)
        assert len(wire.outcomes()) == 200
        assert wire.file.read() == b""
    assert continued(server) == continuations(200)


def slow_items(server, count):
    """Items for `count` iterations of some 10 ms each. Acquires once first, since only then the key has records."""
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "wide", "me"))
        assert wire.reply()[0] == 1
    return json.dumps([{"op": "peek", "attributes": {"kind": "slow", "who": "me"}}] * count).encode()


@contextlib.contextmanager
def started_batch(server, count):
    """A connection with a batch of which some parts are decided."""
    body = slow_items(server, count)
    with Wire(server.http) as wire:
        wire.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: continued(server) > 0, "the second turn")
        yield wire


MANY = 1000


def test_a_batch_ends_when_its_client_disconnects(serve):
    server = serve("--threads", "1", config=SLOW)
    with started_batch(server, MANY) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.file.close()
        wire.socket.close()
        until(lambda: metric(server, "weir_answers_pending") == 0, "the end of the batch")
    assert continued(server) < MANY - 1


def test_a_stream_reset_ends_its_own_batch_only(serve):
    server = serve("--threads", "1", config=SLOW)
    with Streams(server) as http2:
        http2.post(slow_items(server, MANY))
        http2.flush()
        until(lambda: continued(server) > 0, "the second turn")
        http2.h2.reset_stream(http2.stream)
        assert http2.get("/healthz")[0] == 200
        assert not http2.answers[http2.stream][3]
    assert continued(server) < MANY - 1
    assert metric(server, "weir_answers_pending") == 0


def test_a_stream_that_is_reset_at_once_is_never_decided(serve):
    server = serve("--threads", "1", config=LIMITS)
    with Streams(server) as http2:
        with stopped(server):
            http2.post(body_of([("wide", "w", "acquire")] * 200))
            http2.h2.reset_stream(http2.stream)
            http2.flush()
        http2.batch([("wide", "w", "peek")])
        assert http2.outcomes() == [(True, 10000)]
    assert continued(server) == 0


def test_a_batch_is_decided_by_the_rules_at_its_start(serve):
    server = serve("--threads", "1", config=SLOW)
    count = 300
    with started_batch(server, count) as wire:
        server.reload(LIMITS)
        server.line_with("reloaded")
        assert continued(server) < count - 1
        answers = Http1.outcomes(wire)
        assert answers == [(True, 9999)] * count


USERS = """
users:
  - { name: kept, token: "%s", may: [ask, change, admin] }
"""


def test_a_batch_ends_when_a_reload_removes_its_user(serve):
    kept, gone = (hashlib.sha256(word).hexdigest() for word in (b"kept", b"gone"))
    both = SLOW + USERS % kept + f'  - {{ name: gone, token: "{gone}", may: [ask] }}\n'
    server = serve("--threads", "1", config=both)
    admin = {"Authorization": "Bearer kept"}

    def of(name):
        return int(re.search(rf"^{name} (\d+)", server.get("/metrics", admin).text, re.M)[1])

    body = json.dumps([{"op": "peek", "attributes": {"kind": "slow", "who": "me"}}] * MANY).encode()
    server.get("/v1/acquire/wide?key=me", admin)
    with Wire(server.http) as wire:
        wire.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer gone\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: of("weir_batches_continued_total") > 0, "the second turn")
        server.reload(SLOW + USERS % kept)
        assert wire.file.read() == b""
    assert of("weir_batches_continued_total") < MANY - 1


def test_a_server_that_stops_ends_its_batches(serve):
    server = serve("--threads", "1", config=SLOW)
    with started_batch(server, 15) as wire:
        assert server.stop() == 0
        assert len(Http1.outcomes(wire)) == 15


def test_few_long_batches_are_in_memory_at_once_and_all_are_answered(serve):
    server = serve("--threads", "1", config=LIMITS)
    crowd = 40
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(protocol(server)) for protocol in (Resp, Http1, Streams) * (crowd // 3)]
        with stopped(server):
            for wire in wires:
                wire.batch([("wide", "w", "peek")] * 200)
        held = []
        while len(held) < 3:
            held.append(metric(server, "weir_answers_pending"))
        assert max(held) <= 16
        for wire in wires:
            assert wire.outcomes() == [(True, 10000)] * 200
    assert continued(server) == len(wires) * continuations(200)
