"""The worlds of real servers: drawing, judging and shrinking."""

import access
import balancer
import outages
import recovery
import servers

WORLDS = {**servers.WORLDS, **outages.WORLDS, **access.WORLDS, **balancer.WORLDS, **recovery.WORLDS}
Stage = servers.Stage


def generate(world, seed):
    return WORLDS[world][0](seed)


def complaints_of(stage, history):
    """The violations, in the form of main.complaints_of. That nothing comes of a wait is wrong, too."""
    try:
        return WORLDS[history["world"]][1](stage, history)
    except AssertionError as failure:
        return [(len(history["ops"]), "failed", str(failure))]


def shortest(stage, history, rule):
    """Fewer operations, and fewer requests in them."""
    def fails(other):
        return any(rule == found for _, found, _ in complaints_of(stage, other))

    def without(items, put):
        """`put(items)` is the history with these."""
        at = 0
        while at < len(items):
            fewer = items[:at] + items[at + 1:]
            if fails(put(fewer)):
                items = fewer
            else:
                at += 1
        return put(items)

    history = without(history["ops"], lambda ops: {**history, "ops": ops})
    for i, op in enumerate(history["ops"]):
        if "requests" in op:
            history = without(op["requests"], lambda requests: {**history, "ops": [
                *history["ops"][:i], {**op, "requests": requests}, *history["ops"][i + 1:]]})
    return history
