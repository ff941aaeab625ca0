"""
Where a limit stands among the limits of a rule must not matter: with a limit beside it that denies nothing, before or
after, each request gets the same answer, and the key has the same state.
"""

# Not `concurrency`: with it a report ends the permit of the whole request, which cannot be refunded then.
WIDE = [{"algorithm": "fixed_window", "rate": "4294967296/d", "align": "first_request"},
        {"algorithm": "token_bucket", "rate": "4294967296/d", "burst": 4294967296},
        {"algorithm": "random", "deny": 0}]


def beside(history, place):
    """The same history, in which each rule has the limit `wide` as well, as the first or the last."""
    configs = []
    for config in history["configs"]:
        rules = [{**rule, "limits": [*rule["limits"][:place], "wide", *rule["limits"][place:]]} for rule in config["rules"]]
        configs.append({**config, "limits": {**config["limits"], "wide": history["company"]}, "rules": rules})
    return {**history, "configs": configs}


def seen(record, limits):
    """What a client and an operator see of the limits of the history."""
    asks = (record.get("again") or record["op"])["do"] in ("acquire", "check")
    answer = record["answer"] if asks and record["answer"] else {}
    # A limit without a quota is never the tightest, so an allowed request may get its answer of the other one.
    names = ("allowed", "status") if answer.get("allowed") else ("allowed", "status", "retry", "reason", "limit")
    states = {pair: {name: value for name, value in state.items() if name != "now"}
              for pair, state in record["state"].items() if pair[0] in limits}
    return [answer.get(name) for name in names], states


def differences(record, other, limits):
    one, two = seen(record, limits), seen(other, limits)
    texts = [] if one[0] == two[0] else [f"{two[0]}, and alone {one[0]}"]
    for pair, state in one[1].items():
        texts += [f"{pair}: {name} {two[1][pair].get(name)}, and alone {value}"
                  for name, value in state.items() if two[1][pair].get(name) != value]
    return "; ".join(texts)


def complaints(player, history, records):
    if "company" not in history:
        return
    limits = history["configs"][0]["limits"]
    for place, where in ((0, "before"), (1, "behind")):
        others = player.play(beside(history, place))
        for i, (record, other) in enumerate(zip(records, others)):
            if seen(record, limits) != seen(other, limits):
                yield i, "company", f"with {history['company']['algorithm']} {where}: {differences(record, other, limits)}"
                break
