"""The shortest history that still fails: fewer operations, servers, limits and rules; smaller numbers."""

import copy


def shrink(history, fails, rounds=12):
    """`fails(history)` says whether it still does."""
    for _ in range(rounds):
        before = copy.deepcopy(history)
        for step in (_fewer_ops, _fewer_parts, _simpler_ops):
            history = step(history, fails)
        if history == before:
            break
    return history


def _try(history, change, fails):
    """The history after `change`, if it still fails, else None."""
    other = copy.deepcopy(history)
    if change(other) is False or other == history:
        return None
    return other if fails(other) else None


def _fewer_ops(history, fails):
    size = max(1, len(history["ops"]) // 2)
    while size:
        at = 0
        while at < len(history["ops"]):
            other = _try(history, lambda h: h["ops"].__delitem__(slice(at, at + size)), fails)
            if other:
                history = other
            else:
                at += size
        size //= 2
    return history


def _remove(path, name):
    def change(history):
        for step in path:
            history = history[step]
        del history[name]
    return change


def _one_config(index):
    def change(history):
        history["configs"] = [history["configs"][index]]
        history["ops"] = [op for op in history["ops"] if op["do"] != "reload"]
        for op in history["ops"]:
            op.pop("config", None)
    return change


def _drop_limit(name):
    def change(history):
        for config in history["configs"]:
            config["limits"].pop(name, None)
            for rule in config.get("rules", []):
                if name in rule.get("limits", []):
                    rule["limits"].remove(name)
            if "rules" in config:
                config["rules"] = [rule for rule in config["rules"] if rule.get("limits") != []]
        history["ops"] = [op for op in history["ops"] if op.get("limit") != name]
        return all(config["limits"] for config in history["configs"])
    return change


def _drop_rule(name):
    def change(history):
        for config in history["configs"]:
            if "rules" in config:
                config["rules"] = [rule for rule in config["rules"] if rule["name"] != name]
    return change


def _parts(history):
    if len(history["configs"]) > 1:
        yield from (_one_config(i) for i in range(len(history["configs"])))
    for name in sorted(history["configs"][0]["limits"]):
        yield _drop_limit(name)
    for rule in history["configs"][0].get("rules", []):
        yield _drop_rule(rule["name"])
    for i, config in enumerate(history["configs"]):
        for name in ("order", "rules"):
            if name in config:
                yield _remove(["configs", i], name)
        for k, rule in enumerate(config.get("rules", [])):
            for name in ("match", "mode"):
                if name in rule:
                    yield _remove(["configs", i, "rules", k], name)
        for limit, parameters in config["limits"].items():
            for name in parameters:
                if name not in ("algorithm", "rate", "max", "base", "lease"):
                    yield _remove(["configs", i, "limits", limit], name)
    for name in history.get("settings", {}):
        yield _remove(["settings"], name)
    if len(history["servers"]) > 1:
        yield lambda h: h["servers"].pop()
    if len(history["keys"]) > 1:
        yield lambda h: (h["keys"].pop(), h.update(ops=[
            op for op in h["ops"] if op.get("key", op.get("attributes", {}).get("k")) in (*h["keys"], None)]))
    if "start" in history:
        yield lambda h: h.pop("start")


def _fewer_parts(history, fails):
    done = False
    while not done:
        done = True
        for change in list(_parts(history)):
            try:
                other = _try(history, change, fails)
            except (KeyError, IndexError):  # gone with an earlier one
                continue
            if other:
                history, done = other, False
                break
    return history


def _simpler_ops(history, fails):
    for i in range(len(history["ops"])):
        for name in ("cost", "wait_ms", "permit", "priority", "server", "outcome", "id"):
            if name in history["ops"][i]:
                history = _try(history, _remove(["ops", i], name), fails) or history
        for name in ("ns", "cost", "wait_ms"):
            history = _smaller(history, i, name, fails)
    return history


def _smaller(history, i, name, fails):
    """The roundest number that still fails."""
    value = history["ops"][i].get(name)
    if not isinstance(value, int) or value < 2 or history["ops"][i].get("end"):
        return history
    tries = [10**k for k in range(len(str(value)))] + [5 * 10**k for k in range(len(str(value)))]
    tries += [value // 10**k * 10**k for k in range(len(str(value)), 0, -1)] + [value // 2]
    for smaller in sorted({t for t in tries if 0 < t < value}):
        other = _try(history, lambda h: h["ops"][i].update({name: smaller}), fails)
        if other:
            return other
    return history
