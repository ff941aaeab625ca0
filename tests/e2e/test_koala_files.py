"""Rule files in Koala's language: several at once, and as our own language."""

import json
import os
import random
import subprocess

import pytest
from harness import PATIENCE, ROOT, WEIR, Server, Wire

RESULTS = """
[result]
0 : { "Ret_type":0, "Ret_code":0 }
1 : { "Ret_type":1, "Ret_code":0 }
2 : { "Ret_type":2, "Ret_code":0 }
"""


def run(*arguments):
    return subprocess.run([WEIR, *arguments], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)


def rule(code, conditions="act=ask", method="count", thresholds="time=86400; count=5", result=2):
    return f"rule : [{method}] [{conditions}] [{thresholds}] [result={result}; return={code}]\n"


def write(path, *rules):
    path.write_text("[rules]\n" + "".join(rules) + RESULTS)
    return path


def both(option, paths):
    return [word for path in paths for word in (option, path)]


def test_several_files_are_one_configuration_whatever_their_order(tmp_path):
    ours = tmp_path / "weir.yaml"
    ours.write_text("capacity: 1000\nkoala: { timezone: Europe/Berlin }\norder: first\n"
                    "rules: [{ name: mine, match: { uid: \"7\" }, answer: deny }]\n")
    one, two = write(tmp_path / "one.conf", rule(1)), write(tmp_path / "two.conf", rule(2))
    for paths, order in (([one, ours, two], ["1", "mine", "2"]), ([ours, two, one], ["mine", "2", "1"])):
        done = run("lint", "--to", "yaml", *both("-c", paths))
        assert done.returncode == 0, done.stderr
        names = [line.split(": ")[1] for line in done.stdout.splitlines() if "- name: " in line]
        assert names == order
        assert done.stdout.count("timezone: Europe/Berlin") == 3  # of the file, and of two limits
        server = Server(*both("-c", paths))
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.CHECK", "act", "ask", "uid", "7")[0] == 0
        assert server.stop() == 0


def test_mistakes_between_files_tell_both_places(tmp_path):
    ours, other = tmp_path / "weir.yaml", tmp_path / "other.yaml"
    ours.write_text("limits: { \"1\": { algorithm: token_bucket, rate: 1/s } }\n"
                    "rules: [{ limits: [\"1\"] }]\n")
    other.write_text("capacity: 5\n")
    one, two = write(tmp_path / "one.conf", rule(1)), write(tmp_path / "two.conf", rule(3), rule(1))
    done = run("lint", *both("-c", [one, two]))
    assert done.returncode == 1
    assert done.stderr == (f"{two}:3:66: error: expected each rule once, found \"1\" again; "
                           f"the other one is at {one}:2:66\n")
    done = run("lint", *both("-c", [ours, one, other]))
    assert f"{other}: error: expected one file of ours at most, found another one beside {ours}" in done.stderr
    assert f"{ours}:2:9: error: expected `order: first`" in done.stderr
    assert f"{one}:2:66: error: expected each limit once, found \"1\" again; the other one is at {ours}:1:11" in done.stderr
    server = subprocess.run([WEIR, "serve", *both("-c", [one, two])], capture_output=True, text=True,
                            timeout=PATIENCE, check=False)
    assert server.returncode == 1
    assert f"start_failed {two}:3:66: error: expected each rule once" in server.stderr


def conditions(rng):
    pool = ["act=ask", "act=ask,answer", "act!=ask", "uid=+", "uid>3", "uid<7", "uid=2-5,8", "uid!=4",
            "act=add-comment,1-5", "ip=10.0.*.*", "ip=10.*.0.*", "ip=10.0.0.1-10.0.0.9,::1", "uid=1,2,3{~}",
            "ip=+{~}", "ip!=10.0.0.0/24"]
    return "; ".join(rng.sample(pool, rng.randint(0, 4)))


def some_rule(rng, code):
    method, thresholds = rng.choice([
        ("direct", ""), ("count", f"time=86400; count={rng.randint(1, 6)}"),
        ("count", f"time={rng.randint(1, 50)}; count={rng.randint(1, 6)}"),
        ("base", f"base={rng.randint(1, 4)}; time=20; count={rng.randint(1, 3)}"),
        ("leak", f"time=30; count={rng.randint(1, 5)}; erase1=1; erase2=2")])
    return rule(code, conditions(rng), method, thresholds, rng.choice([1, 2, 2]))


def requests(rng, count):
    time = 1_700_000_000
    for _ in range(count):
        time += rng.choice([0, 0, 1, 3, 20_000])
        yield {"time": time, "act": rng.choice(["ask", "answer", "add-comment", "3", ""]),
               "uid": rng.choice(["1", "2", "4", "5", "9", "x", ""]),
               "ip": rng.choice(["10.0.0.1", "10.5.0.7", "10.0.7.7", "::1"])}


@pytest.mark.parametrize("seed", range(8))
def test_printed_as_yaml_the_rules_decide_the_same(tmp_path, seed):
    rng = random.Random(f"{os.environ.get('WEIR_TEST_SEED', '')}{seed}")
    conf = write(tmp_path / "koala.conf", *(some_rule(rng, code) for code in range(1, 9)), rule(99, "uid=zz"))
    printed = run("lint", "--to", "yaml", conf)
    assert printed.returncode == 0, printed.stderr
    yaml = tmp_path / "koala.yaml"
    yaml.write_text(printed.stdout)
    assert run("lint", "--to", "yaml", yaml).stdout == printed.stdout
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(request) + "\n" for request in requests(rng, 400)))
    decided = []
    for path in (conf, yaml):
        done = run("simulate", "-c", path, "--trace", trace, "--json", "--decisions", tmp_path / "out")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        decided.append(((tmp_path / "out").read_text(), report["allowed"], report["denied"]))
    assert decided[0] == decided[1]
    assert decided[0][1] + decided[0][2] == 400


def test_examples_are_printed_as_themselves(tmp_path):
    for example in [*(ROOT / "examples").glob("*.yaml"), ROOT / "examples/koala.conf"]:
        first = run("lint", "--to", "yaml", example)
        assert first.returncode == 0, first.stderr
        again = tmp_path / "again.yaml"
        again.write_text(first.stdout.replace("dicts/", f"{ROOT}/examples/dicts/"))
        assert run("lint", "--to", "yaml", again).stdout == again.read_text()


def test_a_bad_file_prints_nothing(tmp_path):
    conf = write(tmp_path / "bad.conf", rule(1, thresholds="time=0; count=x"))
    done = run("lint", "--to", "yaml", conf)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 2
    assert run("lint", "--to", "json", conf).returncode == 2
    assert run("lint", "-c", conf, conf).returncode == 2
