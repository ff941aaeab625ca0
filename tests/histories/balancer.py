"""
Histories of a balancer: a healthy backend behind servers that share a Redis. The permits of breakers and measured limits
are reported, each at any of the servers, so no breaker opens, no limit shrinks, and in the end nothing is in flight.
"""

import json

from client_calls import Http, Http2, Wire
from generate import Draw
from servers import until

LIMITS = [{"algorithm": "breaker", "minimum": 2, "sleep": "1h", "permit_timeout": "1h", "max_concurrent": 2},
          {"algorithm": "breaker", "minimum": 1, "failure_rate": "1%", "sleep": "1h", "permit_timeout": "1h", "max_concurrent": 5},
          {"algorithm": "breaker", "minimum": 2, "sleep": "1h", "permit_timeout": "1h", "max_concurrent": 3, "quorum": 1},
          {"algorithm": "adaptive", "initial": 2, "max": 2, "permit_timeout": "1h"},
          {"algorithm": "adaptive", "method": "aimd", "initial": 3, "min": 1, "max": 3, "permit_timeout": "1h"}]
WAYS = ["resp", "http", "http2"]


def size_of(limit):
    return limit.get("max_concurrent") or limit["max"]


def generate_balanced(seed):
    draw = Draw(f"balanced {seed}")
    servers = draw.choice([2, 2, 3])
    config = {"limits": {"a": draw.choice(LIMITS)}, "rules": [{"name": "r0", "key": ["k"], "limits": ["a"]}]}
    ops = [{"do": draw.choice(["take", "take", "report", "report", "again", "reload"]), "who": draw.randrange(100),
            "server": draw.randrange(servers), "how": draw.choice(WAYS)} for _ in range(draw.choice([6, 12, 30]))]
    return {"world": "balanced", "seed": seed, "configs": [config] * servers, "ops": ops}


def post(server, how, path, body):
    """The status, and the answer."""
    body = json.dumps(body).encode()
    if how == "http2":
        with Http2(server) as client:
            status, _, text = client.get(path, method="POST", body=body)
            return status, json.loads(text) if text else {}
    with Http(server.http) as client:
        answer = client.request("POST", path, body, {"Content-Type": "application/json"})
        return answer.status, answer.json if answer.text else {}


def take(server, how):
    """A permit, or None: denied."""
    if how == "resp":
        with Wire(server.resp) as wire:
            reply = wire.command("WEIR.ACQUIRE", "a", "k")
            return reply[6].decode() if reply[0] else None
    return post(server, how, "/v1/acquire", {"attributes": {"k": "k"}, "permit": True})[1].get("permit")


def report(server, how, permit):
    """Whether it was held."""
    if how == "resp":
        with Wire(server.resp) as wire:
            return wire.command("WEIR.REPORT", permit, "success") == b"+OK"
    return post(server, how, "/v1/report", {"permit": permit, "outcome": "success", "latency_ms": 5})[0] == 200


def left(server):
    return server.get("/v1/peek/a?key=k").json["remaining"]


def know_each_other(servers):
    """A server accepts a permit when its giver and itself have read the secret at Redis."""
    def is_read(giver):
        permit = take(giver, "resp")
        if not permit:
            return False
        for server in (*(one for one in servers if one is not giver), giver):
            with Wire(server.resp) as wire:
                if b"issued" in wire.command("WEIR.REPORT", permit, "success"):
                    return report(giver, "resp", permit) and False
        return True

    for giver in servers:
        until(lambda giver=giver: is_read(giver), "servers to know each other")


def judge_balanced(stage, history):
    stage.begin(history)
    servers, size = stage.servers, size_of(history["configs"][0]["limits"]["a"])
    know_each_other(servers)
    for server in servers:
        until(lambda server=server: left(server) == size, "nothing to be in flight")
    held, ended = [], []  # (server, permit)
    for i, op in enumerate(history["ops"]):
        if op["server"] >= len(servers):
            continue
        server, how = servers[op["server"]], op["how"]
        if op["do"] == "take" and sum(giver is server for giver, _ in held) < size:
            # The giver learns within store_poll of what was reported elsewhere.
            held.append((server, until(lambda: take(server, how), "a permit of a healthy backend")))
        elif op["do"] == "report" and held:
            ended.append(held.pop(op["who"] % len(held)))
            if not report(server, how, ended[-1][1]):
                return [(i, "permit", "a permit that is held can't be reported")]
        elif op["do"] == "again" and ended:
            if report(server, how, ended[op["who"] % len(ended)][1]):
                return [(i, "permit", "a permit was reported twice")]
        elif op["do"] == "reload":
            server.reload(server.config.read_text())
    for _, permit in held:
        if not report(servers[0], "http", permit):
            return [(len(history["ops"]), "permit", "a permit that is held can't be reported")]
    for server in servers:
        until(lambda server=server: left(server) == size, "nothing to be in flight, and the limit as large as it was")
    return []


WORLDS = {"balanced": (generate_balanced, judge_balanced)}
