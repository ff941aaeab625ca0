"""Random histories. A seed and the name of a world give the same history always."""

import copy
import random

import algorithms
import company as companies
from player import START

WORLDS = {}


def world(function):
    WORLDS[function.__name__] = function
    return function


def generate(name, seed, **fixed):
    """`fixed`: what a world does not draw then."""
    draw = Draw(f"{name} {seed}")
    history = WORLDS[name](draw, **fixed)
    return {"world": name, "seed": seed, **history}


class Draw(random.Random):
    def often(self, share):
        return self.random() < share


# Limits

COMMON = ["token_bucket", "leaky_bucket", "fixed_window", "resetting_bucket", "sliding_window",
          "sliding_counter", "sliding_log", "base", "concurrency", "pacer", "leaky_queue", "warm_up"]
LEARNING = ["random", "breaker", "throttle", "adaptive"]


def draw_limit(draw, names):
    algorithm = draw.choice(names)
    limit = {"algorithm": algorithm}
    for name, values in algorithms.ALGORITHMS[algorithm].draws.items():
        give(limit, name, draw.choice(values))
    return limit


def give(limit, name, value):
    """None: the parameter is not given. Each parameter of a tuple has its own value."""
    for one, its in zip(name, value) if isinstance(name, tuple) else [(name, value)]:
        limit.pop(one, None)
        if its is not None:
            limit[one] = its


def same_period(rate, values):
    period = rate.split("/")[1]
    counts = [value for value in values if value.split("/")[1] == period]
    return counts + [f"{count}/{period}" for count in (1, 2, 5, 15, 60, 600)]


def change(draw, limit):
    """The limit after a reload: mostly another count or burst, or room for other `keys`."""
    if draw.often(0.05):
        return draw_limit(draw, COMMON)
    changed = dict(limit)
    draws = algorithms.of(limit).draws
    names = [name for name in draws if name not in ("lease", "align", "slots")] or list(draws)
    for name in draw.sample(names, min(len(names), draw.choice([1, 1, 2]))):
        values = draws[name]
        if name == "rate" and draw.often(0.85):
            values = same_period(limit["rate"], [v for v in values if v])
        give(changed, name, draw.choice(values))
    return changed


def draw_configs(draw, names, count, with_rules, limits=(1, 3)):
    config = {"limits": {name: draw_limit(draw, names)
                         for name in "abc"[:draw.randint(*limits)]}}
    if with_rules:
        draw_rules(draw, config)
    configs = [config]
    while len(configs) < count:
        other = copy.deepcopy(draw.choice(configs))
        for name in draw.sample(sorted(other["limits"]), draw.choice([1, len(other["limits"])])):
            other["limits"][name] = change(draw, other["limits"][name])
        configs.append(other)
    return configs


def draw_rules(draw, config):
    names = sorted(config["limits"])
    if draw.often(0.4):
        config["order"] = "first"
    rules = []
    for i in range(draw.randint(1, 4)):
        rule = {"name": f"r{i}", "key": ["k"]}
        if draw.often(0.4):
            rule["match"] = {"p": draw.choice([["x"], ["y"], ["x", "y"]])}
        if draw.often(0.08):
            rule = {name: rule[name] for name in ("name", "match") if name in rule}
            rule["answer"] = draw.choice(["allow", "deny"])
        else:
            rule["limits"] = draw.sample(names, draw.randint(1, min(2, len(names))))
            if draw.often(0.25):
                rule["mode"] = "shadow"
            if draw.often(0.15):
                rule["priority"] = draw.choice([0, 3, 9])
        rules.append(rule)
    config["rules"] = rules


# Operations

class Ops:
    """Draws operations, and knows what they may refer to."""

    def __init__(self, draw, configs, keys, servers=1, waits=0.15, costs=True):
        self.draw, self.configs, self.keys, self.servers = draw, configs, keys, servers
        self.waits, self.costs = waits, costs
        self.config = 0
        self.ops = []
        self.permits = []
        self.requests = []
        self.ids = 0

    def limits(self):
        return self.configs[self.config]["limits"]

    def _id(self):
        self.ids += 1
        return self.ids

    def _server(self):
        return {"server": self.draw.randrange(self.servers)} if self.servers > 1 else {}

    def _cost(self, limit):
        draw = self.draw
        if not self.costs or draw.often(0.6):
            return {}
        quota = algorithms.quota(limit) if "rate" in limit or "max" in limit else 2
        return {"cost": draw.choice([0, 2, 2, 3, quota, max(1, quota - 1), quota + 1])}

    def request(self, **more):
        draw = self.draw
        name = draw.choice(sorted(self.limits()))
        op = {"id": self._id(), **self._server()}
        if self.configs[self.config].get("rules") and draw.often(0.7):
            op = {"do": "check", **op,
                  "attributes": {"k": draw.choice(self.keys), "p": draw.choice(["x", "y"])}}
        else:
            op = {"do": "acquire", **op, "limit": name, "key": draw.choice(self.keys)}
        op.update(self._cost(self.limits()[name]))
        if draw.often(self.waits):
            op["wait_ms"] = draw.choice([0, 10, 300, 5000])
        if draw.often(0.2):
            op["priority"] = draw.choice([1, 5, 9])
        if draw.often(0.5):
            op["permit"] = True
            self.permits.append(op["id"])
        op.update(more)
        self.requests.append(op["id"])
        self.ops.append(op)
        return op

    def burst(self):
        """Alike requests in a row."""
        op = self.request()
        for _ in range(self.draw.choice([1, 2, 4, 9])):
            again = {**op, "id": self._id()}
            if again.get("permit"):
                self.permits.append(again["id"])
            self.requests.append(again["id"])
            self.ops.append(again)

    def refund(self):
        if self.permits and self.draw.often(0.85):
            op = {"do": "refund", **self._server(), "of": self.draw.choice(self.permits[-6:])}
            if self.draw.often(0.3):
                op["cost"] = self.draw.choice([1, 1, 2])
        else:
            op = {"do": "refund", **self._server(), "limit": self.draw.choice(sorted(self.limits())),
                  "key": self.draw.choice(self.keys), "cost": self.draw.choice([1, 1, 2, 100])}
        self.ops.append(op)

    def refund_all(self):
        permits = self.permits[-12:]
        if self.draw.often(0.7):
            self.draw.choice([permits.reverse, lambda: None, lambda: self.draw.shuffle(permits)])()
        self.ops += [{"do": "refund", **self._server(), "of": of} for of in permits]

    def report(self):
        if self.permits:
            self.ops.append({"do": "report", **self._server(), "of": self.draw.choice(self.permits[-6:]),
                             "outcome": self.draw.choice([0, 0, 1, 2, 3])})

    def reset(self):
        self.ops.append({"do": "reset", **self._server(), "limit": self.draw.choice(sorted(self.limits())),
                         "key": self.draw.choice(self.keys)})

    def again(self):
        if self.requests:
            self.ops.append({"do": "again", "of": self.draw.choice(self.requests[-2:])})

    def passes(self):
        limit = self.draw.choice(sorted(self.limits().values(), key=str))
        base = algorithms.period_of(limit) if "rate" in limit else 10**9
        count = algorithms.count_of(limit) if "rate" in limit else 1
        ns = self.draw.choice([1000, 10**6, base // count, base // count // 2, base // 3, base, base // 10,
                               self.draw.randrange(base), 4 * 10**9])
        self.ops.append({"do": "pass", "ns": max(1, ns)})

    def reload(self):
        self.config = self.draw.randrange(len(self.configs))
        self.ops.append({"do": "reload", "config": self.config})

    def reload_one(self):
        """The others keep their configuration."""
        self.config = self.draw.randrange(len(self.configs))
        self.ops.append({"do": "reload", "server": self.draw.randrange(self.servers), "config": self.config})

    def kill(self):
        self.ops.append({"do": "kill", **self._server()})

    def end(self):
        if self.draw.often(0.5):
            self.refund_all()
        limits = {}
        for config in self.configs:
            for name, limit in config["limits"].items():
                limits.setdefault(name, []).append(limit)
        longest = max(algorithms.slowdown(forms) * max(map(algorithms.horizon, forms)) for forms in limits.values())
        self.ops.append({"do": "pass", "ns": min(longest, 5 * 365 * algorithms.UNITS["d"]), "end": True})

    def draw_some(self, weights, count):
        names = list(weights)
        for _ in range(count):
            getattr(self, self.draw.choices(names, [weights[name] for name in names])[0])()
        self.end()
        return self.ops


class ChunkOps(Ops):
    """A server takes a chunk when it is asked again within a second."""

    def run(self):
        server = {"server": self.draw.randrange(self.servers)} if self.servers > 1 else {}
        limit = self.draw.choice(sorted(self.limits()))
        cost = self.draw.choice([{}, {}, {"cost": self.draw.choice([2, 3, 7, 13, 40])}])
        permit = {"permit": True} if self.draw.often(0.25) else {}
        for _ in range(self.draw.choice([2, 3, 5, 10, 30])):
            op = {"do": "acquire", "id": self._id(), **server, "limit": limit, "key": "k", **cost, **permit}
            if permit:
                self.permits.append(op["id"])
            self.requests.append(op["id"])
            self.ops.append(op)
            if self.draw.often(0.2):
                self.ops.append({"do": "pass", "ns": self.draw.choice([10**6, 10**8])})

    def large(self):
        """A request for a good part of the quota, which a refund may give back."""
        name = self.draw.choice(sorted(self.limits()))
        quota = algorithms.quota(self.limits()[name])
        self.request(do="acquire", limit=name, key="k", permit=True,
                     cost=self.draw.choice([quota // 2, quota // 3, quota // 10]))

    def drain(self):
        """All servers ask until they are denied."""
        name = self.draw.choice(sorted(self.limits()))
        size = max(1, algorithms.quota(self.limits()[name]) // self.draw.choice([10, 20, 40]))
        for server in self.draw.sample(range(self.servers), self.servers):
            for cost in [size] * 40 + [1] * 8:
                self.ops.append({"do": "acquire", "server": server, "limit": name, "key": "k", "cost": cost})

    def settle(self):
        self.ops.append({"do": "settle"})

    def end(self):
        """A server gives back what it took in advance when it is called again."""
        super().end()
        self.ops[-1].pop("end")
        self.ops.append({"do": "settle", "end": True})


def start(draw):
    return START + draw.randrange(10**5) * 864 * 10**9 + draw.randrange(1000) * 10**6


WEIGHTS = {"request": 10, "burst": 3, "refund": 4, "refund_all": 0.5, "report": 1, "reset": 1, "again": 4,
           "passes": 4, "reload": 2, "kill": 0.4}


@world
def memory(draw, store="memory"):
    """One server that counts in memory."""
    names = [*COMMON, draw.choice(LEARNING)] if draw.often(0.3) else COMMON
    configs = draw_configs(draw, names, draw.choice([1, 2, 3]), draw.often(0.5))
    keys = draw.choice([["k"], ["k", "j"]])
    ops = Ops(draw, configs, keys).draw_some(WEIGHTS, draw.choice([4, 8, 15, 30]))
    return {"store": store, "start": start(draw), "servers": [{}], "keys": keys, "configs": configs,
            "ops": ops}


REMOTE = [name for name, algorithm in algorithms.ALGORITHMS.items() if algorithm.remote]
CHUNKED = [name for name, algorithm in algorithms.ALGORITHMS.items() if algorithm.chunk]


def draw_servers(draw, most=3):
    return [{"ahead_ms": draw.choice([0, 0, 0, 10_000, 40_000, -40_000])} for _ in range(draw.randint(1, most))]


def settings(draw):
    return {"denied_cache_ms": draw.choice([0, 1000, 1000])}


@world
def redis(draw):
    """Some servers, whose clocks differ, at one Redis."""
    configs = draw_configs(draw, REMOTE, draw.choice([1, 2, 3]), draw.often(0.5))
    keys, servers = draw.choice([["k"], ["k", "j"]]), draw_servers(draw)
    ops = Ops(draw, configs, keys, len(servers), waits=0.05).draw_some(WEIGHTS, draw.choice([4, 8, 15, 30]))
    return {"store": "redis", "settings": settings(draw), "start": start(draw), "servers": servers,
            "keys": keys, "configs": configs, "ops": ops}


@world
def uneven(draw):
    """Servers at one Redis whose limits differ, since not all have read the new file."""
    configs = draw_configs(draw, REMOTE, draw.choice([2, 3]), draw.often(0.5), limits=(1, 2))
    keys, servers = draw.choice([["k"], ["k", "j"]]), [{} for _ in range(draw.choice([2, 2, 3]))]
    ops = Ops(draw, configs, keys, len(servers), waits=0.05)
    ops.draw_some({**WEIGHTS, "reload": 0.3, "reload_one": 3}, draw.choice([4, 8, 15, 30]))
    return {"store": "redis", "settings": settings(draw), "start": start(draw), "servers": servers,
            "keys": keys, "configs": configs, "ops": ops.ops}


@world
def mixed(draw):
    """One server; some of its limits count at Redis, and may move when it reloads. Others never count there."""
    names = [*REMOTE, *LEARNING] if draw.often(0.4) else REMOTE
    configs = draw_configs(draw, names, draw.choice([1, 1, 2]), True, limits=(2, 3))
    for config in configs:
        for limit in config["limits"].values():
            if draw.often(0.5) and algorithms.of(limit).remote:
                limit["store"] = "memory"
    ops = Ops(draw, configs, ["k"], 1, waits=0.05).draw_some(WEIGHTS, draw.choice([4, 8, 15]))
    return {"store": "redis", "settings": settings(draw), "start": start(draw), "servers": [{}],
            "keys": ["k"], "configs": configs, "ops": ops}


@world
def adhoc(draw):
    """CL.THROTTLE with parameters that change from call to call."""
    ops, count = [], draw.choice([4, 8, 15])
    drawn = [{"burst": draw.choice([1, 2, 4, 10, 100]), "count": draw.choice([1, 4, 10, 100, 600]),
              "period_s": draw.choice([1, 3, 60, 3600, 72000, 86400, 20 * 86400])} for _ in range(draw.choice([1, 2, 3]))]
    while len(ops) < count:
        parameters = draw.choice(drawn)
        if draw.often(0.3):
            other = draw.choice(drawn)  # whose use may be over then
            ops.append({"do": "pass", "ns": draw.choice([
                10**9, 44 * 10**9, other["period_s"] * 10**9 // other["count"],
                other["period_s"] * 10**9, draw.randrange(1, other["period_s"] * 2) * 10**9])})
        for _ in range(draw.choice([1, 2, 5])):
            ops.append({"do": "adhoc", "key": "k", **parameters,
                        **draw.choice([{}, {}, {"cost": draw.choice([1, 2, 3, 10])}])})
    return {"store": draw.choice(["memory", "file", "redis", "redis"]), "settings": settings(draw),
            "start": start(draw), "servers": [{}], "keys": ["k"],
            "configs": [{"limits": {"a": {"algorithm": "token_bucket", "rate": "1/s"}}}], "ops": ops}


@world
def chunks(draw):
    """Servers that take units in advance, and mostly ask within a second."""
    limits = {}
    for name in "ab"[:draw.choice([1, 1, 2])]:
        limit = draw_limit(draw, CHUNKED)
        limit["rate"] = draw.choice(["100/d", "1000/d", "1000/h", "600/m", "100/m", "50/s", "1000/10m"])
        if "burst" in limit or "capacity" in limit:
            limit["burst" if "burst" in limit else "capacity"] = draw.choice([40, 100, 1000])
        limits[name] = {**limit, "chunk": draw.choice(["2%", "5%", "20%"])}
    configs = [{"limits": limits}]
    if draw.often(0.3):
        draw_rules(draw, configs[0])
    servers = [{} for _ in range(draw.choice([1, 1, 2, 3]))]
    ops = ChunkOps(draw, configs, ["k"], len(servers), waits=0)
    weights = {"request": 2, "run": 6, "refund": draw.choice([0, 1, 3]), "refund_all": 0.3, "reset": draw.choice([0, 0.5]),
               "again": 1, "passes": 2, "settle": 3, "kill": draw.choice([0, 0, 0.4]), "large": draw.choice([0, 2]), "drain": draw.choice([0, 0.5])}
    return {"store": "redis", "settings": settings(draw), "start": start(draw), "servers": servers,
            "keys": ["k"], "configs": configs, "ops": ops.draw_some(weights, draw.choice([3, 6, 12, 25]))}


@world
def refunds(draw):
    """Refunds beside chunks: much is taken, given back, and then all servers ask for what there is."""
    limit = draw_limit(draw, CHUNKED)
    limit["rate"] = draw.choice(["10/s", "100/m", "100/h", "100/d"])
    limit.pop("capacity", None)
    limit.pop("burst", None)
    if algorithms.of(limit).bound == "bucket":
        limit["burst" if limit["algorithm"] == "token_bucket" else "capacity"] = 100
    limit["chunk"] = draw.choice(["5%", "20%", "40%"])
    servers = [{} for _ in range(draw.choice([1, 2, 2]))]
    ops = ChunkOps(draw, [{"limits": {"a": limit}}], ["k"], len(servers), waits=0)
    for _ in range(draw.choice([3, 5, 8])):
        draw.choice([ops.large, ops.run, ops.run, ops.refund, ops.refund, ops.refund_all, ops.passes, ops.drain])()
    ops.drain()
    ops.end()
    return {"store": "redis", "settings": {}, "start": start(draw), "servers": servers, "keys": ["k"],
            "configs": ops.configs, "ops": ops.ops}


KINDS = ["down", "cut", "late", "hang", "flush"]
POLICIES = ["local", "local", "open", "closed"]
BOUNDED = [name for name, algorithm in algorithms.ALGORITHMS.items() if algorithm.bound in ("bucket", "window")]
PACED = ["pacer", "leaky_queue"]


class FaultOps(Ops):
    """Faults that separate servers from Redis, and faults that make Redis lose data."""

    def __init__(self, *words, kinds, **more):
        super().__init__(*words, **more)
        self.kinds = kinds

    def flood(self):
        """Every server is asked for more than there is."""
        name = self.draw.choice(sorted(self.limits()))
        quota = algorithms.quota(self.limits()[name]) + (self.limits()[name].get("slack") or 0)
        cost = max(1, quota // 8)
        for _ in range(quota // cost + 1):
            for server in range(self.servers):
                self.ops.append({"do": "check", "server": server, "attributes": {"k": "k", "p": "x"},
                                 **({"cost": cost} if self.costs and cost > 1 else {})})

    def fault(self):
        kind = self.draw.choice(self.kinds)
        if kind == "flush":
            self.ops.append({"do": "flush"})
            return
        servers = self.draw.choice([range(self.servers), [self.draw.randrange(self.servers)]])
        self.ops += [{"do": "fault", "server": server, "kind": kind} for server in servers]

    def heal(self):
        self.ops += [{"do": "fault", "server": server, "kind": "none"} for server in range(self.servers)]

    def end(self):
        self.heal()
        super().end()


@world
def faults(draw, kind=None, policy=None, algorithm=None):
    """Servers that lose Redis, and a Redis that loses its data."""
    algorithm = algorithm or draw.choice(BOUNDED + PACED)
    limit = {**draw_limit(draw, [algorithm]), "on_store_failure": policy or draw.choice(POLICIES)}
    limit["rate"] = draw.choice(["2/s", "10/s", "100/m", "5/m", "20/h", "10/d", "1/m"])
    for name in ("burst", "capacity"):
        if name in limit:
            limit[name] = draw.choice([1, 2, 10, 40])
    if "slack" in limit:
        limit.update(slack=draw.choice([0, 3, 10]), max_wait="0s")
    servers = [{} for _ in range(draw.choice([1, 2, 3]))]
    # In the library only requests by rules follow a policy.
    config = {"limits": {"a": limit}, "rules": [{"name": "r0", "key": ["k"], "limits": ["a"]}]}
    ops = FaultOps(draw, [config], ["k"], len(servers), waits=0,
                   costs=algorithm not in PACED, kinds=[kind] if kind else KINDS)
    if draw.often(0.3) and kind in (None, "down"):
        ops.kinds = ["down"]
        ops.ops += [{"do": "fault", "server": i, "kind": "down"} for i in range(len(servers))]
    weights = {"request": 4, "flood": 3, "fault": 2, "heal": 1, "passes": 2, "refund": 1, "again": 1}
    return {"store": "redis", "settings": {**settings(draw), "nodes": len(servers)}, "start": start(draw),
            "servers": servers, "keys": ["k"], "configs": ops.configs,
            "ops": ops.draw_some(weights, draw.choice([5, 10, 20]))}


class BreakerOps(Ops):
    """Requests whose end is reported at once, and probes after sleeps."""

    def ended(self):
        for _ in range(self.draw.choice([1, 2, 3])):
            op = self.request(permit=True)
            self.ops.append({"do": "report", **self._server(), "of": op["id"], "outcome": self.draw.choice([0, 1, 1, 2])})

    def probes(self):
        for _ in range(self.draw.choice([1, 2, 4])):
            self.ops.append({"do": "pass", "ns": self.draw.choice([10**9, 4 * 10**9, 20 * 10**9, 70 * 10**9])})
            self.ended()


@world
def breakers(draw):
    """One server, in memory or a file, whose breakers are told how requests end."""
    store = draw.choice(["memory", "file"])
    configs = draw_configs(draw, ["breaker"], draw.choice([1, 1, 2, 3]), draw.often(0.5), limits=(1, 2))
    keys = draw.choice([["k"], ["k", "j"]])
    ops = BreakerOps(draw, configs, keys).draw_some({**WEIGHTS, "report": 4, "ended": 6, "probes": 4},
                                                    draw.choice([4, 8, 15, 30]))
    for op in ops:
        if op["do"] == "reload" and store == "file" and draw.often(0.5):
            op["do"] = "restart"
    return {"store": store, "start": start(draw), "servers": [{}], "keys": keys, "configs": configs, "ops": ops}


@world
def company(draw):
    """A rule with one limit, for company.py, which plays it with another limit beside."""
    store = draw.choice(["memory", "file", "redis"])
    limit = draw_limit(draw, draw.choice([COMMON] if store == "redis" else [COMMON, ["breaker"], ["breaker"], ["adaptive"]]))
    if limit["algorithm"] == "breaker":
        limit["ramp"] = "0s"  # requests in a ramp pass by chance
        give(limit, "preset", draw.choice([None, "hystrix", "hystrix", "resilience4j"]))
    config = {"limits": {"a": limit}, "rules": [{"name": "r0", "key": ["k"], "limits": ["a"]}]}
    ops = BreakerOps(draw, [config], ["k"]).draw_some({**WEIGHTS, "reload": 0, "report": 4, "ended": 4, "probes": 2},
                                                      draw.choice([4, 8, 15, 30]))
    wide = dict(draw.choice(companies.WIDE))
    if algorithms.of(wide).remote and draw.often(0.3):
        wide["store"] = "memory"
    return {"store": store, "company": wide, "start": start(draw), "servers": [{}], "keys": ["k"], "configs": [config],
            "ops": ops}


# Workers, and how long a limit needs to settle in front of them: a window of few lasts many service times.
BACKENDS = [(4, 12_000), (8, 6_000), (16, 3_000), (16, 3_000), (32, 3_000)]


@world
def overload(draw):
    """Clients of two priorities at a measured limit, and a server that they overload together."""
    workers, settles_ms = draw.choice(BACKENDS)
    silent = draw.choice([0, 0, 0.002, 0.01])
    limit = {"algorithm": "adaptive", "max": draw.choice([200, 1000, 1000])}
    for name, values in {"initial": [None, None, 5, 4 * workers], "min": [None, None, 2]}.items():
        give(limit, name, draw.choice(values))
    if silent:
        limit["permit_timeout"] = draw.choice(["500ms", "1s"])
    configs = [{"limits": {"a": limit}}]
    while len(configs) < draw.choice([1, 1, 2]):
        configs.append({"limits": {"a": {**limit, "max": draw.choice([200, 400, 1000])}}})
    load = {"do": "load", "limit": "a", "key": "k", "high": draw.choice([0.1, 0.5, 0.9, 0.9, 1.5, 3]),
            "low": draw.choice([0.5, 1.5, 1.5, 3]), "priorities": draw.choice([[0, 9], [0, 9], [3, 4], [0, 1]])}
    ops = [{**load, "ms": settles_ms}]
    for _ in range(draw.choice([1, 2, 3])):
        if len(configs) > 1:
            ops.append({"do": "reload", "config": draw.randrange(len(configs))})
        ops.append({**load, "ms": 2 * settles_ms, "is_judged": True})
    backend = {"workers": workers, "service": draw.choice(["exponential", "constant", "bimodal"]), "mean_ms": 10,
               "strain": draw.choice([0.05, 0.1, 0.1, 0.2]), "attempts": draw.choice([1, 3, 3]),
               "patience_ms": draw.choice([200, 500]), "backoff_ms": draw.choice([0, 20, 20]),
               "notifies": draw.often(0.5), "silent": silent}
    return {"store": draw.choice(["memory", "memory", "file"]), "backend": backend, "start": start(draw),
            "servers": [{}], "keys": ["k"], "configs": configs, "ops": ops}


@world
def file(draw):
    """One server that counts in a file, and is started again."""
    history = memory(draw, "file")
    for op in history["ops"]:
        if op["do"] == "reload" and draw.often(0.5):
            op["do"] = "restart"
    return history
