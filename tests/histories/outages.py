"""Histories of real servers in which Redis, connections or servers fail, and bounds on allowed requests and remaining units."""

import algorithms
from client_calls import WAYS, Broken, Library, Wire, ask, ask_broken, encode, resp
from generate import Draw
from faulty_connections import KINDS, FaultyConnection
from servers import RedisServer, draw_limit, until

# Losing Redis

STOPS = ["kill", "start", "hang", "go_on", "cut", "flush", "readonly"]


def generate_outages(seed):
    """The parts that fail: Redis and its connections, the connections of clients, or both."""
    draw = Draw(f"outages {seed}")
    servers = draw.choice([1, 2])
    limit = draw_limit(draw, without=("concurrency",))
    limit["on_store_failure"] = draw.choice(["local", "local", "closed"])
    config = {"limits": {"a": limit}, "rules": [{"name": "r0", "key": ["k"], "limits": ["a"]}]}
    fails = draw.choice(["redis", "redis", "client", "both"])
    ops = []
    for _ in range(draw.choice([3, 6, 9])):
        if fails != "client" and draw.often(0.6):
            ops.append({"do": draw.choice(STOPS)})
        else:
            of = draw.choice(["redis", "client"]) if fails == "both" else fails
            ops.append({"do": "link", "of": of, "server": draw.randrange(servers), "kind": draw.choice(KINDS)})
        ops += [{"do": "ask", "server": server, "how": draw.choice(WAYS), "count": draw.choice([1, 4, 12])}
                for server in draw.sample(range(servers), servers)]
    return {"world": "outages", "seed": seed, "fails": fails, "configs": [config] * servers, "ops": ops}


class Way:
    """To a server, over connections that may fail."""

    def __init__(self, server, library):
        self.links = [FaultyConnection(server.http), FaultyConnection(server.resp)]
        self.http, self.resp = (link.port for link in self.links)
        self.library = library


class Outage:
    """Redis, the servers, and links between all of them."""

    def __init__(self, stage, history):
        self.redis = RedisServer(stage.directory / f"outage-{history['seed']}")
        self.is_dead = self.is_hung = False
        self.lost = 0  # how often Redis lost its data
        self.stage = stage
        nodes = len(history["configs"]) + 1
        timeout_ms = 30_000 if history["fails"] == "client" else 20
        self.to_redis = [FaultyConnection(self.redis.port) for _ in range(nodes)]
        stage.begin(history, [link.url for link in self.to_redis],
                    f"store_timeout: {timeout_ms}ms\nnodes: {nodes}")
        self.library = Library(self.to_redis[-1].port, history["configs"][0], timeout_ms, nodes)
        self.ways = [Way(server, self.library) for server in stage.servers]

    def close(self):
        self.redis.stop()
        self.library.close()
        self.stage.end()
        for link in [*self.to_redis, *(link for way in self.ways for link in way.links)]:
            link.close()

    def fail(self, op):
        redis, kind = self.redis, op["do"]
        if kind == "link":
            links = [self.to_redis[op["server"]]] if op["of"] == "redis" else self.ways[op["server"]].links
            for link in links:
                link.kind = op["kind"]
        elif kind == "kill" and not self.is_dead:
            redis.stop()
            self.is_dead, self.is_hung, self.lost = True, False, self.lost + 1
        elif kind == "start" and self.is_dead:
            redis.restart()
            self.is_dead = False
        elif kind in ("hang", "go_on") and not self.is_dead:
            getattr(redis, kind)()
            self.is_hung = kind == "hang"
        elif kind in ("flush", "cut", "readonly") and not self.is_dead and not self.is_hung:
            if kind == "flush":
                redis.client.config_set("min-replicas-to-write", 0)
                redis.client.flushall()
                self.lost += 1
            elif kind == "cut":
                redis.cut_clients()
            else:
                redis.client.config_set("min-replicas-to-write", 1)


def judge_outages(stage, history):
    """
    No more passes than the limit, once more for each loss of data, and the shares of servers. If nothing
    but connections of clients failed, Redis has counted each grant once.
    """
    limit = history["configs"][0]["limits"]["a"]
    outage = Outage(stage, history)
    granted = unknown = 0
    try:
        for op in history["ops"]:
            if op["do"] != "ask":
                outage.fail(op)
                continue
            if op["server"] >= len(outage.ways):
                continue
            try:
                answers = ask_broken(outage.ways[op["server"]], op["how"], [{"op": "check"}] * op["count"], "k")
                granted += sum(answer[0] == 1 for answer in answers)
            except Broken:
                unknown += op["count"]
        quota = algorithms.quota(limit)
        nodes = len(history["configs"]) + 1
        is_local = limit["on_store_failure"] == "local" and history["fails"] != "client"
        bound = quota * (1 + outage.lost) + (max(quota, nodes) if is_local else 0)
        if granted > bound:
            return [(len(history["ops"]), "bound", f"{granted} passed; {bound} may")]
        if history["fails"] == "client":
            return left_over(stage, history, granted, unknown)
        return []
    finally:
        outage.close()


def left_over(stage, history, granted, unknown, held=0):
    """Complaints about what remains in the end. `held`: units that servers may have taken in advance."""
    quota = algorithms.quota(history["configs"][0]["limits"]["a"])
    most = quota - granted
    least = max(0, most - unknown - held)

    def remaining():
        # Of a cost that no chunk covers, so Redis is asked.
        return ask(stage.servers[0], "http", [{"op": "peek", "limit": "a", "cost": quota}], "k")[0][1]

    until(lambda: remaining() >= least, f"{least} of {quota} to remain, where {granted} passed")
    if (found := remaining()) > most:
        return [(len(history["ops"]), "bound", f"{found} of {quota} remain, although {granted} passed")]
    return []


# Killing servers

def generate_kills(seed):
    draw = Draw(f"kills {seed}")
    store = draw.choice(["memory", "file", "redis", "redis"])
    limit = draw_limit(draw)
    if store == "redis" and "max" in limit:
        limit["lease"] = draw.choice(["1s", "1h"])
    elif store == "redis" and limit["algorithm"] != "sliding_log" and draw.often(0.5):
        limit.update(rate="100/d", chunk="10%")
    servers = draw.choice([1, 2]) if store == "redis" else 1
    config = {"limits": {"a": limit}, "rules": [{"name": "r0", "key": ["k"], "limits": ["a"]}]}
    ops = []
    for _ in range(draw.choice([2, 4, 6])):
        ops += [{"do": "ask", "server": draw.randrange(servers), "how": draw.choice(WAYS[:-1]),
                 "count": draw.choice([1, 2, 4, 12])}
                for _ in range(draw.choice([1, 3]))]
        if draw.often(0.7):
            ops.append({"do": "kill", "server": draw.randrange(servers), "count": draw.choice([0, 0, 1, 5])})
    return {"world": "kills", "seed": seed, "store": store, "configs": [config] * servers, "ops": ops}


def send_only(server, count):
    """Requests that the server may still be busy with when it is killed. Returns how many."""
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode(*resp({"op": "check"}, "k")) for _ in range(count)))
    return count


def judge_kills(stage, history):
    """
    What counted in memory is gone; a file and Redis keep all that was answered, and at most what was asked.
    Places and chunks of a server that was killed end in time.
    """
    limit = history["configs"][0]["limits"]["a"]
    quota = algorithms.quota(limit)
    store = f"file:{stage.directory}/state-{history['seed']}" if history["store"] == "file" else history["store"]
    stage.begin(history, None if store == "redis" else [store] * len(history["configs"]))
    granted = unknown = kills = 0
    try:
        for op in history["ops"]:
            if op["server"] >= len(stage.servers):
                continue
            server = stage.servers[op["server"]]
            if op["do"] == "ask":
                answers = ask(server, op["how"], [{"op": "check"}] * op["count"], "k")
                granted += sum(answer[0] == 1 for answer in answers)
            else:
                unknown += send_only(server, op["count"])
                stage.kill(op["server"])
                kills += 1
                if store == "memory":
                    granted = unknown = kills = 0
            if granted > quota and limit.get("lease") != "1s":
                return [(len(history["ops"]), "bound", f"{granted} passed; {quota} may")]
        if limit.get("lease") == "1s":
            granted = unknown = 0
        held = quota // 10 * kills if "chunk" in limit else 0
        return left_over(stage, history, granted, unknown, held)
    finally:
        stage.end()


WORLDS = {"outages": (generate_outages, judge_outages), "kills": (generate_kills, judge_kills)}
