"""
Histories of real servers: one or two `weir serve` and a Redis, in real time. Nothing here depends on how
fast the machine is: periods are a day, and waits end when they end.
"""

import json
import pathlib
import select
import sys
import tempfile
import time

import algorithms
import history as format_of
from client_calls import ORDERED, Http2, Wire, ask, comparable, encode, http_reply
from generate import Draw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from harness import PATIENCE, Server, metric, until, until_pending  # noqa: E402
from redis_servers import RedisServer  # noqa: E402


# Drawing

LIMITS = ["token_bucket", "leaky_bucket", "fixed_window", "resetting_bucket", "sliding_log", "concurrency"]


def draw_limit(draw, without=()):
    algorithm = draw.choice([name for name in LIMITS if name not in without])
    count = draw.choice([3, 5, 8])
    if algorithm == "concurrency":
        return {"algorithm": algorithm, "max": count, "lease": "1h"}
    limit = {"algorithm": algorithm, "rate": f"{count}/d"}
    if algorithm == "fixed_window":
        limit["align"] = "first_request"
    return limit


def other_count(draw, limit):
    """The same limit at a server that was configured before."""
    count = draw.choice([2, 4, 7, 9])
    return {**limit, **({"max": count} if "max" in limit else {"rate": f"{count}/d"})}


def draw_config(draw):
    names = "abc"[:draw.choice([1, 2, 3])]
    limits = {name: draw_limit(draw) for name in names}
    for limit in limits.values():
        if draw.often(0.4):
            limit["store"] = "memory"
    rules = [{"name": f"r{i}", "key": ["k"], "limits": draw.sample(names, draw.randint(1, min(2, len(names))))}
             for i in range(draw.choice([1, 2]))]
    return {"limits": limits, "rules": rules, **({"order": "first"} if draw.often(0.5) else {})}


def draw_request(draw, config):
    op = draw.choice(["acquire"] * 4 + ["check"] * 4 + ["peek", "checkpeek", "reset", "refund"])
    if op in ("check", "checkpeek"):
        return {"op": op}
    request = {"op": op, "limit": draw.choice(sorted(config["limits"]))}
    if op != "reset" and draw.often(0.3):
        request["cost"] = draw.choice([2, 3])
    return request


def generate_order(seed):
    """Requests of one connection, sent before the first is answered."""
    draw = Draw(f"order {seed}")
    config = draw_config(draw)
    configs = [config]
    if draw.often(0.5):
        configs.append({**config, "limits": {name: other_count(draw, limit)
                                             for name, limit in config["limits"].items()}})
    ops = []
    for _ in range(draw.choice([2, 4, 6])):
        how = draw.choice(ORDERED)
        requests = [draw_request(draw, config) for _ in range(draw.choice([1, 2, 4, 8]))]
        for request in requests:
            if how in ("pipeline", "multi") and request["op"] == "checkpeek":
                request["op"] = "check"
        ops.append({"how": how, "server": draw.randrange(len(configs)), "requests": requests})
    # A server repeats denials although the other one has given back: for how long is not certain.
    denied_cache = draw.choice(["0s", "1s"]) if len(configs) == 1 else "0s"
    return {"world": "order", "seed": seed, "denied_cache": denied_cache, "configs": configs, "ops": ops}


class Stage:
    """The servers of one history, and a Redis for all of them."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-servers-")
        self.directory = pathlib.Path(self.folder.name)
        self.redis = RedisServer(self.directory / "redis")
        self.servers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.redis.stop()
        self.folder.cleanup()

    def begin(self, history, stores=None, head="store_timeout: 30s"):
        """`stores`: of each server; otherwise the stage's Redis."""
        self.end()
        self.redis.client.flushall()
        stores = stores or [self.redis.url] * len(history["configs"])
        self.servers = [self._start(f"store: {store}\ndenied_cache: {history.get('denied_cache', '0s')}\n"
                                    f"{head}\n{format_of.yaml(config)}")
                        for store, config in zip(stores, history["configs"])]

    def _start(self, config):
        return Server(config=config, directory=self.directory)

    def kill(self, i):
        """A server ends by SIGKILL, and starts again."""
        server = self.servers[i]
        server.process.kill()
        server.process.wait()
        self.servers[i] = self._start(server.config.read_text())

    def end(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.stop()
        self.servers = []


def judge_order(stage, history):
    """
    What is sent together takes effect as if each request were sent when the one before was answered: that
    is done to another key.
    """
    stage.begin(history)
    for i, op in enumerate(history["ops"]):
        if op["server"] >= len(stage.servers):
            continue
        server, requests = stage.servers[op["server"]], op["requests"]
        together = ask(server, op["how"], requests, "k")
        alone = [ask(server, op["how"], [request], "j")[0] for request in requests]
        for n, (request, one, other) in enumerate(zip(requests, together, alone)):
            if comparable(request, one) != comparable(request, other):
                return [(i, "order", f"request {n}, {request}: {one} together, {other} alone")]
    return []


# Waiting

RATES = [{"algorithm": "token_bucket", "rate": "200/s", "burst": 3}, {"algorithm": "leaky_queue", "rate": "200/s"},
         {"algorithm": "pacer", "rate": "200/s", "slack": 2, "max_wait": "1h"},
         {"algorithm": "fixed_window", "rate": "20/100ms", "align": "first_request"}]


def generate_waits(seed):
    """Clients that wait for a place, or for units of a rate; they leave, and report."""
    draw = Draw(f"waits {seed}")
    places = draw.choice([1, 2, 3])
    limit = {"algorithm": "concurrency", "max": places, "lease": "1h", "queue": draw.choice([2, 50, 50]), "max_wait": "1h"}
    if draw.often(0.4):
        limit = dict(draw.choice(RATES))
    if draw.often(0.4):
        limit["store"] = "memory"
    servers = 1 if "store" in limit else draw.choice([1, 2])
    config = {"limits": {"a": limit}, "rules": [{"name": "r0", "key": ["k"], "limits": ["a"]}]}
    ops = [{"do": draw.choice(["come", "come", "come", "leave", "reset", "report", "report", "reload"]),
            "server": draw.randrange(servers), "who": draw.randrange(100), "priority": draw.choice([0, 0, 3, 9]),
            "wait_ms": draw.choice([0, 20, 200, 3_000_000, 3_000_000]), "how": draw.choice(["resp", "http", "http2"])}
           for _ in range(draw.choice([10, 20, 40]))]
    return {"world": "waits", "seed": seed, "configs": [config] * servers, "ops": ops}


class Client:
    """A connection whose one request waits, maybe."""

    def __init__(self, server, op):
        self.how, self.server, self.priority = op["how"], server, op["priority"]
        self.is_long = op["wait_ms"] > 1000
        self.permit = self.reason = None
        self.since = time.monotonic()
        body = json.dumps({"limit": "a", "key": "k", "wait_ms": op["wait_ms"], "permit": True,
                           "priority": self.priority}).encode()
        if self.how == "http2":
            self.wire = Http2(server)
            self.wire.socket.settimeout(PATIENCE)
            self.stream = self.wire.ask("/v1/acquire", "POST", body=body)
            self.wire.flush()
            return
        self.wire = Wire(server.resp if self.how == "resp" else server.http)
        if self.how == "resp":
            self.wire.send(encode("WEIR.ACQUIRE", "a", "k", "WAIT", op["wait_ms"], "PRIORITY", self.priority,
                                  "PERMIT"))
        else:
            self.wire.send(b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(body), body))

    def is_answered(self):
        is_readable = bool(select.select([self.wire.socket], [], [], 0)[0])
        if self.how != "http2":
            return is_readable
        if is_readable:
            self.wire.read()
            self.wire.flush()
        return self.wire.answers[self.stream][3] or self.wire.ended

    def take(self):
        """The permit, or None: denied."""
        if self.how == "resp":
            reply = self.wire.reply()
            self.permit, self.reason = reply[6].decode() if reply[0] else None, reply[5].decode()
        else:
            value = http_reply(self.wire) if self.how == "http" else \
                json.loads(self.wire.answers[self.stream][2])
            self.permit, self.reason = value.get("permit"), value["reason"]
        return self.permit

    def leave(self):
        self.wire.__exit__()

    def reset(self):
        """Only the stream ends, where there is one: its connection stays."""
        if self.how != "http2":
            self.leave()
            return
        self.wire.h2.reset_stream(self.stream)
        self.wire.flush()


class Waiting:
    """Those who wait at some servers, in the order in which they came, and those who hold a permit."""

    def __init__(self, stage, limit):
        self.stage, self.limit = stage, limit
        self.waiting, self.holding, self.found = [], [], []
        self.left = []  # connections stay open behind a reset
        self.began = time.monotonic()
        self.granted = 0

    def look(self):
        """Takes what was answered."""
        answered = [client for client in self.waiting if client.is_answered()]
        self.waiting = [client for client in self.waiting if client not in answered]
        for client in answered:
            if client.take():
                self.holding.append(client)
                self.granted += 1
            else:
                self._check_drop(client)
                client.leave()
        if "max" in self.limit and len(self.holding) > self.limit["max"]:
            self.found.append((0, "bound", f"{len(self.holding)} hold {self.limit['max']} places"))
        elif "max" not in self.limit and self.granted > (most := self._most()):
            self.found.append((0, "bound", f"{self.granted} passed, {most} may have"))

    def _most(self):
        """The most units that may have passed by now."""
        ns = int((time.monotonic() - self.began) * 10**9)
        count, period = algorithms.count_of(self.limit), algorithms.period_of(self.limit)
        if "align" in self.limit:
            return count * (ns // period + 2)
        at_once = self.limit.get("burst") or 1 + self.limit.get("slack", 0)
        return at_once + ns * count // period + 1

    def _check_drop(self, dropped):
        """
        A full queue drops its newest of the lowest priority. With counts in memory nobody waits for Redis, so it
        is known who was in the queue.
        """
        if dropped.reason != "queue_full" or self.limit.get("store") != "memory":
            return
        for client in self.waiting:
            if client.server is dropped.server and client.priority > dropped.priority:
                self.found.append((0, "queue", f"priority {dropped.priority} was dropped, {client.priority} waits"))

    def come(self, server, op):
        """Comes back when it is answered, or waits."""
        self.waiting.append(Client(server, op))
        until(self._is_settled, "a request to wait")

    def _is_settled(self):
        """Whether all who are not answered wait at their server."""
        self.look()
        return sum(metric(server, "weir_answers_pending") for server in self.stage.servers) == len(self.waiting)

    def report(self, i):
        client = self.holding.pop(i % len(self.holding))
        if "max" in self.limit:
            with Wire(client.server.resp) as wire:
                reply = wire.command("WEIR.REPORT", client.permit, "success")
            if reply != b"+OK":
                self.found.append((0, "permit", f"a place that is held can't be reported: {reply}"))
        client.leave()

    def leave(self, who, how):
        """
        One who surely waits: all places are held by others, and nobody can drop it. Whoever is granted one
        just then keeps it.
        """
        long = [client for client in self.waiting if client.is_long]
        if how is Client.reset:
            long = [client for client in long if client.how == "http2"] or long
        if long and len(self.holding) == self.limit.get("max") and self.limit["queue"] > 10:
            client = long[who % len(long)]
            before = metric(client.server, "weir_waits_cancelled_total")
            self.waiting.remove(client)
            self.left.append(client)
            how(client)
            until(lambda: metric(client.server, "weir_waits_cancelled_total") > before, "a wait to be cancelled")
        elif long and "max" not in self.limit:
            client = long[who % len(long)]
            self.waiting.remove(client)
            self.left.append(client)
            how(client)

    def finish(self):
        """Each report lets the next one in."""
        while (self.waiting or self.holding) and not self.found:
            until(self._goes_on, "an answer to one who waits")
            if self.holding:
                self.report(0)

    def _goes_on(self):
        self.look()
        return self.holding or not self.waiting


def judge_waits(stage, history):
    stage.begin(history)
    limit = history["configs"][0]["limits"]["a"]
    crowd = Waiting(stage, limit)
    for op in history["ops"]:
        server = stage.servers[op["server"]]
        if op["do"] == "come":
            crowd.come(server, op)
        elif op["do"] == "leave":
            crowd.leave(op["who"], Client.leave)
        elif op["do"] == "reset":
            crowd.leave(op["who"], Client.reset)
        elif op["do"] == "report" and crowd.holding:
            crowd.report(op["who"])
        elif op["do"] == "reload":
            server.reload(server.config.read_text())
        crowd.look()
    crowd.finish()
    for server in stage.servers:
        if crowd.found:
            break
        until_pending(server, 0)
        if "max" in limit:
            until(lambda server=server: server.get("/v1/peek/a?key=k").json["remaining"] == limit["max"],
                  "all places to be free")
    return crowd.found


WORLDS = {"order": (generate_order, judge_order), "waits": (generate_waits, judge_waits)}
