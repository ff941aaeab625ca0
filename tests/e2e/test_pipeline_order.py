"""Random scripts of pipelined requests that wait: answers and their order equal those of a small model."""

import collections
import itertools
import json
import os

import pytest
from harness import Server, Wire, encode, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Nothing refills while a script runs.
QUOTA = 6
CONFIG = f"limits: {{ hour: {{ algorithm: token_bucket, rate: {QUOTA}/h, burst: {QUOTA} }} }}\n"
LONG = 3_000_000  # ms
KEYS = 3
numbers = itertools.count()


class Request:
    def __init__(self, client, op, key=0, cost=1, waits=False):
        self.client, self.op, self.key, self.cost, self.waits = client, op, key, cost, waits
        self.answer = None  # (allowed, remaining) or the text of the reply, once it is decided


class Model:
    """A bucket for each key, a queue for each key, and the unanswered requests of each client."""

    def __init__(self):
        self.used = collections.Counter()
        self.queues = collections.defaultdict(list)
        self.unanswered = collections.defaultdict(list)
        self.decided = 0

    def left(self, key):
        return QUOTA - self.used[key]

    def decide(self, request, allowed):
        if allowed and request.op == "acquire":
            self.used[request.key] += request.cost
        request.answer = (int(allowed), self.left(request.key))
        self.decided += 1

    def serve(self, key):
        queue = self.queues[key]
        while queue and queue[0].cost <= self.left(key):
            self.decide(queue.pop(0), True)

    def send(self, request):
        key, queue = request.key, self.queues[request.key]
        self.unanswered[request.client].append(request)
        if request.op == "ping":
            request.answer = "pong"
            self.decided += 1
        elif not queue and request.cost <= self.left(key):
            self.decide(request, True)
        elif request.op == "acquire" and request.waits:
            queue.append(request)
        else:
            self.decide(request, False)

    def give(self, key, n):
        self.used[key] = max(self.used[key] - n, 0)
        self.serve(key)

    def leave(self, client):
        for request in self.unanswered.pop(client, []):
            if not request.answer:
                self.queues[request.key].remove(request)
            elif request.op == "acquire" and request.answer[0]:
                self.used[request.key] = max(self.used[request.key] - request.cost, 0)
        for key in range(KEYS):
            self.serve(key)

    def answers_due(self, client):
        """The answers that are sent now, up to the first undecided request."""
        waiting = self.unanswered[client]
        while waiting and waiting[0].answer:
            yield waiting.pop(0)

    def kept(self, key):
        return any(r.answer and r.key == key for rs in self.unanswered.values() for r in rs)

    def waiting(self):
        return sum(map(len, self.queues.values()))


class DrivenServer:
    """Drives a real server as the model; clients with odd numbers speak HTTP."""

    def __init__(self, server):
        self.server, self.model = server, Model()
        self.prefix = f"order-{next(numbers)}-"
        self.clients = {}
        self.scrapes = 0
        self.admin = Wire(server.resp)
        self.asked = 0  # calls of the test itself
        self.before = self.total()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for wire in [self.admin, *self.clients.values()]:
            wire.__exit__()
        until(lambda: self.metric("weir_answers_pending") == 0, "all to leave")

    def page(self):
        self.scrapes += 1
        return self.server.get("/metrics").text

    def metric(self, name):
        return sum(float(line.split()[-1]) for line in self.page().splitlines()
                   if line.startswith((name + " ", name + "{")))

    def total(self):
        """Requests decided so far, without the scrapes."""
        scrapes = self.scrapes
        return self.metric("weir_requests_total") - scrapes

    def bytes_of(self, request):
        key = f"{self.prefix}{request.key}"
        if request.client % 2 == 0:
            if request.op == "ping":
                return encode("PING")
            wait = ["WAIT", LONG] if request.waits and request.op == "acquire" else []
            return encode("WEIR." + request.op.upper(), "hour", key, "COST", request.cost, *wait)
        if request.op == "ping":
            return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        body = {"limit": "hour", "key": key, "cost": request.cost}
        if request.waits and request.op == "acquire":
            body["wait_ms"] = LONG
        body = json.dumps(body).encode()
        return (b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (request.op.encode(), len(body), body))

    def read(self, client):
        wire = self.clients[client]
        if client % 2 == 0:
            reply = wire.reply()
            return "pong" if reply == b"+PONG" else (reply[0], reply[2])
        while (line := wire.file.readline()) != b"\r\n":
            assert line, "connection closed"
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = wire.file.read(length)
        if body == b"ok\n":
            return "pong"
        body = json.loads(body)
        return int(body["allowed"]), body["remaining"]

    def settle(self):
        """Waits until the server has decided and answered as much as the model."""
        def same():
            return (self.metric("weir_answers_pending") == self.model.waiting()
                    and self.total() - self.before == self.model.decided + self.asked)
        until(same, "the server to decide as much as the model")
        for client in self.clients:
            for request in self.model.answers_due(client):
                assert self.read(client) == request.answer, (client, vars(request))

    def ask(self, *words):
        self.asked += 1
        return self.admin.command(*words)

    def send(self, client, requests):
        if client not in self.clients:
            self.clients[client] = Wire(self.server.http if client % 2 else self.server.resp)
        requests = [Request(client, *request) for request in requests]
        for request in requests:
            self.model.send(request)
        self.clients[client].send(b"".join(map(self.bytes_of, requests)))

    def refund(self, key, n):
        n = min(n, self.model.used[key])
        if n > 0:
            self.ask("WEIR.REFUND", "hour", f"{self.prefix}{key}", "COST", n)
            self.model.give(key, n)

    def reset(self, key):
        # A disconnected client would refund units of a state that the reset removed.
        if not self.model.kept(key):
            self.ask("WEIR.RESET", "hour", f"{self.prefix}{key}")
            self.model.give(key, QUOTA)

    def reload(self):
        self.server.reload(CONFIG + f"# {next(numbers)}\n")
        self.server.line_with("reloaded")

    def leave(self, client):
        if client in self.clients:
            self.clients.pop(client).__exit__()
            self.model.leave(client)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server("--threads", "2", config=CONFIG, directory=tmp_path_factory.mktemp("order"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


keys, clients = st.integers(0, KEYS - 1), st.integers(0, 3)
request = st.one_of(
    st.tuples(st.just("acquire"), keys, st.integers(1, 3), st.sampled_from([True, True, False])),
    st.tuples(st.just("peek"), keys, st.integers(1, 2)),
    st.just(("ping",)),
)
act = st.one_of(
    st.tuples(st.just("send"), clients, st.lists(request, min_size=1, max_size=12)),
    st.tuples(st.just("send"), clients, st.lists(request, min_size=1, max_size=12)),
    st.tuples(st.just("refund"), keys, st.integers(1, 4)),
    st.tuples(st.just("reset"), keys),
    st.just(("reload",)),
    st.tuples(st.just("leave"), clients),
)


@settings(max_examples=int(os.environ.get("WEIR_TEST_EXAMPLES", "25")), deadline=None,
          print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(act, min_size=5, max_size=20))
def test_answers_are_in_order_whatever_happens(server, script):
    with DrivenServer(server) as world:
        for name, *arguments in script:
            getattr(world, name)(*arguments)
            world.settle()
