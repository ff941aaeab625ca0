"""
Histories of a backend that fails for a while. Servers ask it through a breaker of their own, or of their group at a
Redis, beside other limits: when the backend is well again, all servers must let requests pass again.
"""

from balancer import post
from generate import Draw
from servers import until

WIDE = "4294967296/d"


def generate_recoveries(seed):
    draw = Draw(f"recoveries {seed}")
    servers = draw.choice([1, 2, 3])
    breaker = {"algorithm": "breaker", "failures": draw.choice([1, 2]), "sleep": draw.choice(["1ms", "50ms"]),
               "probes": draw.choice([1, 1, 2]), "ramp": "0s", "permit_timeout": "1h", "probe_timeout": "1h"}
    if servers > 1 and draw.often(0.8):
        breaker["quorum"] = draw.choice([1, servers])
    limits = {"a": breaker}
    order = ["a"]
    for name in "bc"[:draw.choice([0, 1, 1, 2])]:
        limits[name] = {"algorithm": "fixed_window", "rate": WIDE, "align": "first_request"}
        if draw.often(0.5):
            limits[name]["store"] = "memory"
        order.insert(draw.choice([0, len(order)]), name)
    config = {"limits": limits, "rules": [{"name": "r0", "key": ["k"], "limits": order}]}
    ops = [{"outcome": draw.choice(["failure", "failure", "timeout", "success"]), "server": draw.randrange(servers),
            "how": draw.choice(["http", "http2"])} for _ in range(draw.choice([4, 10, 20]))]
    return {"world": "recoveries", "seed": seed, "configs": [config] * servers, "ops": ops}


def ask(server, how, outcome):
    """Whether a request passed. Its outcome is reported at once."""
    status, answer = post(server, how, "/v1/acquire", {"attributes": {"k": "k"}, "permit": True})
    if not answer["allowed"]:
        return False
    status, answer = post(server, how, "/v1/report", {"permit": answer["permit"], "outcome": outcome})
    assert status == 200, answer
    return True


def judge_recoveries(stage, history):
    stage.begin(history)
    for op in history["ops"]:
        ask(stage.servers[op["server"]], op["how"], op["outcome"])
    # One that passes may have been a probe: the breaker is closed where more pass than there are probes.
    until(lambda: all([ask(server, "http", "success") for server in stage.servers * 3]), "all servers to let requests pass")
    return []


WORLDS = {"recoveries": (generate_recoveries, judge_recoveries)}
