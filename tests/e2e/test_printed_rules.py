"""Random rule files that `weir lint` prints and reads again are printed the same and decide the same."""

import json
import os
import random
import subprocess

from harness import BUILD, PATIENCE, SANITIZED, WEIR, one_thread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = one_thread

DICTIONARIES = {"few.txt": "7\nask\n10.1.0.0/16\n", "more words.txt": "42\nx7\n2001:db8::/32\n10.*.1.3\n"}
LIMITS = [
    "{ algorithm: token_bucket, rate: 2/m, burst: 3 }", "{ algorithm: leaky_bucket, rate: 5/100s, capacity: 2 }",
    "{ algorithm: fixed_window, rate: 3/d, timezone: Asia/Shanghai }",
    "{ algorithm: fixed_window, rate: 2/2w, week_start: sunday }",
    "{ algorithm: fixed_window, rate: 2/m, align: first_request, on_store_failure: closed }",
    "{ algorithm: resetting_bucket, rate: 3/90s }", "{ algorithm: sliding_window, rate: 3/m, slots: 6, keys: 100 }",
    "{ algorithm: sliding_counter, rate: 2/m }", "{ algorithm: base, base: 2, rate: 1/30s, timezone: Europe/Berlin }",
    "{ algorithm: random, deny: 0.25, retry: 2s }", "{ algorithm: pacer, rate: 1/s, slack: 0, max_wait: 2s }",
    "{ algorithm: leaky_queue, rate: 30/m, capacity: 2 }", "{ algorithm: warm_up, rate: 2/s, cold: 2.5 }"]
REQUESTS = 300
LOG = "{ algorithm: sliding_log, rate: 2/m }"

NUMBERS = ["1-5", "-9--6", "100-200", ">5", "<-7", ">99999999"]
NETWORKS = ["10.0.0.0/8", "192.0.2.*", "10.*.0.3", "10.1.0.1-10.2.0.3", "2001:db8::/32", "::1-::9"]
FORMS = {
    "ip": [*NETWORKS, "10.1.2.3", "::1", "*"],
    "path": ["/a*", "/b", "*", "/", "/A;x", *NUMBERS],
    "act": ["ask", "7", "a-b", "true", "1e5", "null", "", "10.1.2.3", *NUMBERS, *NETWORKS, "*"],
}
FORMS["é b"] = FORMS["act"]
WORDS = ["ask", "7", "a-b", "42", "-7", "x7", "7.5", "9" * 30, "\\x", "*", "!x", "1-5", "null", "10.1.2.3", "10.1.0.3"]
VALUES = {
    "ip": ["10.1.0.3", "10.2.0.3", "10.1.2.3", "192.0.2.9", "::ffff:10.1.0.3", "2001:db8::1", "::5", "x"],
    "path": ["/a/b", "/b", "/B/", "/a", "/A;x", "/", "7", "*"],
    "act": WORDS,
    "é b": WORDS,
}
ODD = "\n\t\r\x01\x7f\x85\u2028\ufeff\U0001f600é\"'\\:#,[]{}&*!|>%@` -?~"


def quoted(text):
    return '"' + "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08x}" for c in text) + '"'


def among(items):
    """One item or a list, as YAML."""
    return items[0] if len(items) == 1 else "[" + ", ".join(items) + "]"


def value(chance, name, negated=False):
    """A random pattern, or any text after a backslash."""
    kind = chance.random()
    text = chance.choice(FORMS[name])
    if name != "ip" and kind < 0.3:
        text = "\\" + chance.choice(VALUES[name])
    elif name != "ip" and kind < 0.4:
        text = "\\" + "".join(chance.choices(ODD, k=chance.randint(0, 4)))
    if negated:
        text = "!" + (text or "\\")
        text = "!10.1.2.3" if text == "!*" else text  # "!*" has another meaning
    return quoted(text)


def mapping(chance, name, depth):
    parts = []
    for key in ("in", "not_in", "not", "all"):
        if chance.random() < 0.4:
            many = range(chance.randint(1, 2))
            of = [quoted(chance.choice(list(DICTIONARIES))) if key in ("in", "not_in") else
                  value(chance, name) if key == "not" else condition(chance, name, depth + 1) for _ in many]
            parts.append(f"{key}: " + ("[" + ", ".join(of) + "]" if key == "all" else among(of)))
    return "{ " + ", ".join(parts or ["not_in: few.txt"]) + " }"


def condition(chance, name, depth=0):
    """A random condition on an attribute."""
    kind = chance.choice(["any", "any", "any", "none", "none", "absent", "mapping", "mapping"])
    if kind == "absent":
        return '"!*"'
    if kind == "mapping" and depth < 2:
        return mapping(chance, name, depth)
    return among([value(chance, name, kind == "none") for _ in range(chance.randint(1, 3))])


def rule(chance, number, first, limits):
    names = chance.sample(list(FORMS), chance.choice([0, 1, 1, 1, 2]))
    key = chance.sample(list(FORMS), chance.randint(1, 2))
    parts = []
    if names:
        parts.append("match: { " + ", ".join(f"{quoted(name)}: {condition(chance, name)}" for name in names) + " }")
    if chance.random() < 0.5:
        parts.append("name: " + quoted(f"r{number}" + chance.choice(["", ": x", "#", "ü"])))
    if chance.random() < 0.4:
        parts.append(f"answer: {chance.choice(['allow', 'deny'])}")
    else:
        log = chance.random() < 0.3
        charged = ["log"] if log else [f"l{i}" for i in chance.sample(range(limits), min(limits, chance.randint(1, 2)))]
        parts.append(f"limits: [{', '.join(charged)}]")
        parts.append(f"key: [{', '.join(map(quoted, key))}]")
        parts += [text for text, wanted in (
            (f"feedback: [{chance.randint(0, 3)}, 4]", log), ("ipv6_prefix: 56", "ip" in key),
            ("answer: allow", first), ("on_store_failure: open", True)) if wanted and chance.random() < 0.5]
    parts += [text for text, wanted in (
        ("path_variants: yes", "path" in names), ("mode: shadow", chance.random() < 0.3),
        ('result: { Ret_code: 5, "a b": [1, 2.5, null, "x"] }', True)) if wanted and chance.random() < 0.5]
    return "  - { " + ", ".join(parts) + " }\n"


def random_file(chance):
    first = chance.random() < 0.5
    limits = chance.sample(LIMITS, chance.randint(1, 4))
    top = chance.choice(["", "path_variants: yes\n", "ipv6_prefix: 48\n"]) + first * "order: first\n"
    return (top + f"limits:\n  log: {LOG}\n" + "".join(f"  l{i}: {limit}\n" for i, limit in enumerate(limits))
            + "rules:\n" + "".join(rule(chance, n, first, len(limits)) for n in range(chance.randint(2, 5))))


def requests(chance):
    now = 1_700_000_000.0
    for _ in range(REQUESTS):
        now += chance.choice([0, 0, 0.25, 1, 7, 3600])
        attributes = {name: chance.choice([*of, *of, ""]) for name, of in VALUES.items() if chance.random() < 0.9}
        yield json.dumps({"time": now, **attributes}) + "\n"


def lint(path):
    done = subprocess.run([WEIR, "lint", "--to", "yaml", path], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 0, f"{done.stderr}\n{path.read_text()}"
    return done.stdout


def decide(path, trace):
    out = path.with_suffix(".out")
    done = subprocess.run([WEIR, "simulate", "-c", path, "--trace", trace, "--json", "--decisions", out],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{path.read_text()}"
    report = json.loads(done.stdout)
    return out.read_text(), [report[name] for name in ("allowed", "denied", "unlimited", "answered")]


@settings(max_examples=int(os.environ.get("WEIR_TEST_EXAMPLES", 100 if BUILD.name in SANITIZED else 300)) // 5, deadline=None, print_blob=True,
          suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_a_printed_file_is_printed_the_same_again_and_decides_the_same(tmp_path_factory, seed):
    chance, directory = random.Random(seed), tmp_path_factory.mktemp("printed")
    text = random_file(chance)
    for name, lines in DICTIONARIES.items():
        (directory / name).write_text(lines)
    written, printed, trace = (directory / name for name in ("rules.yaml", "printed.yaml", "trace.jsonl"))
    written.write_text(text, encoding="utf-8")
    printed.write_text(lint(written), encoding="utf-8")
    assert lint(printed) == printed.read_text(encoding="utf-8"), text
    trace.write_text("".join(requests(chance)))
    assert decide(printed, trace) == decide(written, trace), text
