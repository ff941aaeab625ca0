"""
Histories of users who may use some limits alone. What a user may ask is answered as at a server without users; what it
may not is refused, whatever else is wrong with it, and leaves no trace.
"""

import hashlib
import json

import algorithms
import history as format_of
from client_calls import Http, Http2, Wire, comparable, from_json, from_resp, http_reply, item, replies_of, resp, verb
from generate import Draw
from servers import draw_config

WAYS = ["pipeline", "multi", "http", "batch", "http2"]
COMMANDS = ("cl.throttle", "throttle")  # which bring their limit along
NAMES = ("CL.THROTTLE", "THROTTLE")     # either stands for that of both in `users`
ALL = "all"


def user(name, limits):
    token = hashlib.sha256(secret(name).encode()).hexdigest()
    return {"name": name, "token": token, "may": ["ask", "change", "admin"], **({"limits": limits} if limits else {})}


def secret(name):
    return f"weir_{name}"


def draw_request(draw, limits, how):
    op = draw.choice(["acquire"] * 3 + ["check"] * 2 + ["cl.throttle"] * 3 + ["throttle", "peek", "refund", "reset"])
    if op in COMMANDS and how == "batch":
        op = "acquire"
    if op == "cl.throttle" and how in ("http", "http2"):
        op = "throttle"
    if op in COMMANDS:
        burst = draw.choice([1, 3, 9])
        return {"op": op, "burst": burst, "cost": draw.choice([0, 1, 1, 2, burst + 1, burst + 2, 10**9])}
    if op == "check":
        return {"op": op, **draw.choice([{}, {"cost": 10**9}])}
    name = draw.choice([*sorted(limits), "none"])
    request = {"op": op, "limit": name}
    if op != "reset" and draw.often(0.5):
        quota = algorithms.quota(limits[name]) if name in limits else 1
        request["cost"] = draw.choice([0, 2, quota, quota + 1, 10**9])
    return request


def generate_access(seed):
    draw = Draw(f"access {seed}")
    config = draw_config(draw)
    names = [*sorted(config["limits"]), *NAMES]
    users = [user(name, draw.sample(names, draw.randint(1, len(names) - 1))) for name in ("one", "two")]
    ops = []
    for _ in range(draw.choice([2, 4, 8])):
        how = draw.choice(WAYS)
        ops.append({"how": how, "user": draw.choice(["one", "two"]),
                    "requests": [draw_request(draw, config["limits"], how) for _ in range(draw.choice([1, 2, 5]))]})
    return {"world": "access", "seed": seed, "redis": draw.often(0.4),
            "configs": [{**config, "users": [*users, user(ALL, None)]}, config], "ops": ops}


def is_permitted(config, name, request):
    """Whether the user may use all limits that the request asks, and those of its rules."""
    limits = next(one for one in config["users"] if one["name"] == name)["limits"]
    if request["op"] in COMMANDS:
        return any(name in limits for name in NAMES)
    if request["op"] == "check":
        return all(limit in limits for _, limit, _ in format_of.charges(config, {"k": "k"}))
    return request["limit"] in limits or request["limit"] == "none"


# Asking

def words(request):
    if request["op"] not in COMMANDS:
        return resp(request, "k")
    burst = request["burst"] + (request["op"] == "throttle")
    return [request["op"], "k", burst, 1, 86400, request["cost"]]


def told_resp(request, reply):
    if isinstance(reply, bytes) and reply.startswith(b"-NOPERM"):
        return ("refused",)
    if request["op"] in COMMANDS:
        return tuple(reply[:3]) if isinstance(reply, list) else ("error", "command")
    return comparable(request, from_resp(request, reply))


def told_json(request, value):
    if "expected a limit of user" in str(value.get("error")):
        return ("refused",)
    if request["op"] in COMMANDS:
        return ("error", "command") if "error" in value else (value["allowed"], value["limit"], value["remaining"])
    return comparable(request, from_json(request, value))


def route(request):
    if request["op"] not in COMMANDS:
        return f"/v1/{verb(request)}", json.dumps(item(request, "k")).encode()
    return "/throttle", json.dumps({"key": "k", "max_burst": request["burst"] + 1, "count_per_period": 1, "period": 86400,
                                    "quantity": request["cost"]}).encode()


def ask_resp(server, how, requests, token):
    with Wire(server.resp) as wire:
        if token:
            assert wire.command("AUTH", token) == b"+OK"
        replies = replies_of(wire, how, [words(request) for request in requests])
    return [told_resp(request, reply) for request, reply in zip(requests, replies)]


def ask(server, how, requests, token=None):
    """The answers of requests that are sent together; streams of HTTP/2, which have no order, one by one."""
    if how in ("pipeline", "multi"):
        return ask_resp(server, how, requests, token)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if how == "batch":
        body = json.dumps([{**item(request, "k"), "op": verb(request)} for request in requests])
        with Http(server.http) as client:
            values = client.request("POST", "/v1/batch", body, headers).json
    elif how == "http":
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        with Wire(server.http) as wire:
            wire.send(b"".join(b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s"
                               % (path.encode(), lines, len(body), body) for path, body in map(route, requests)))
            values = [http_reply(wire) for _ in requests]
    else:
        with Http2(server) as client:
            values = [json.loads(client.get(path, method="POST", headers=headers.items(), body=body)[2])
                      for path, body in map(route, requests)]
    return [told_json(request, value) for request, value in zip(requests, values)]


def left(server, config, token=None):
    """All that requests may have left: the state of each key, how many of each limit were decided, and who was denied."""
    states = [{"op": "peek", "limit": name} for name in sorted(config["limits"])]
    buckets = [{"op": op, "burst": 9, "cost": 0} for op in COMMANDS]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with Http(server.http) as client:
        top = client.request("GET", "/v1/top", None, headers).json
        lines = client.request("GET", "/metrics", None, headers).text.splitlines()
    counts = sorted(line for line in lines if line.startswith("weir_decisions_total{"))
    return ask(server, "pipeline", states + buckets, token), counts, {(one["limit"], one["key"]) for one in top}


def judge_access(stage, history):
    """A server without users is asked what is permitted alone."""
    if len(history["configs"]) < 2:
        return []
    config = history["configs"][0]
    stores = [f"{stage.redis.url}/{i}" for i in range(2)] if history["redis"] else ["memory"] * 2
    stage.begin(history, stores, "store_timeout: 30s" if history["redis"] else "")
    server, open_to_all = stage.servers
    for i, op in enumerate(history["ops"]):
        permitted = [is_permitted(config, op["user"], request) for request in op["requests"]]
        answers = ask(server, op["how"], op["requests"], secret(op["user"]))
        asked = [request for request, may in zip(op["requests"], permitted) if may]
        others = iter(ask(open_to_all, op["how"], asked) if asked else [])
        for request, may, answer in zip(op["requests"], permitted, answers):
            wanted = next(others) if may else ("refused",)
            if answer != wanted:
                return [(i, "access", f"{request} of {op['user']}: {answer}, expected {wanted}")]
    *wanted, all_denied = left(open_to_all, config)
    *found, denied = left(server, config, secret(ALL))  # later, since these counts fade
    if found != wanted or not denied <= all_denied:
        return [(len(history["ops"]), "access", f"{found} and {denied} are left, expected {wanted} and {all_denied}")]
    return []


WORLDS = {"access": (generate_access, judge_access)}
