"""A history: servers, their configurations, and what clients and the world do, as data (README.md)."""

import json


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def dump(history):
    """JSON with a line for each operation, limit and rule, so that it can be read and edited."""
    def one(value):
        return json.dumps(value, ensure_ascii=False)

    def lines(name, items):
        body = ",\n".join(f"  {item}" for item in items)
        return f' "{name}": [\n{body}\n ]'

    parts = [f' "{name}": {one(value)}' for name, value in history.items()
             if name not in ("configs", "ops")]
    parts.append(lines("configs", map(one, history["configs"])))
    parts.append(lines("ops", map(one, history["ops"])))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def yaml(config, without=()):
    """A rule file: JSON is YAML. Limits are written without these parameters."""
    text = ""
    if config.get("order"):
        text += f"order: {config['order']}\n"
    text += "limits:\n"
    for name, limit in config["limits"].items():
        text += f"  {name}: {json.dumps({k: v for k, v in limit.items() if v is not None and k not in without})}\n"
    for part in ("rules", "users"):
        if config.get(part):
            text += f"{part}:\n" + "".join(f"  - {json.dumps(one)}\n" for one in config[part])
    return text


def applies(rule, attributes):
    """Whether a rule of the generator applies: its `match` has lists of values."""
    return all(attributes.get(name) in values for name, values in rule.get("match", {}).items())


def key_of(rule, attributes):
    """The key of a rule of the generator, which has one attribute or none."""
    names = rule.get("key", [])
    return attributes.get(names[0], "") if names else None


def charges(config, attributes):
    """The (rule, limit, key) that a request charges, in order; of rules that answer limit None."""
    for rule in config.get("rules", []):
        if applies(rule, attributes):
            for name in rule.get("limits", [None]):
                yield rule, name, key_of(rule, attributes)
