"""Rule files in Koala's language: several in one configuration, and printed as Weir's own language."""

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
        assert done.stdout.count("timezone: Europe/Berlin") == 3  # once for the file, and once for each of two limits
        server = Server(*both("-c", paths))
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.CHECK", "act", "ask", "uid", "7")[0] == 0
        assert server.stop() == 0


def test_conflicts_between_files_name_both_places(tmp_path):
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
    assert f"{other}: error: expected at most one YAML file, found another beside {ours}" in done.stderr
    assert f"{ours}:2:9: error: expected `order: first`" in done.stderr
    alone = run("lint", "-c", ours, "-c", other).stderr
    assert alone == f"{other}: error: expected at most one YAML file, found another beside {ours}\n"
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


def messages(done, *paths):
    """The messages of lint, with the names of files without their directories."""
    text = done.stderr
    for path in paths:
        text = text.replace(f"{path.parent}/", "")
    return text.splitlines()


SLIPS = """[rules]
rule : [count] [a==5; b=1 - 3] [time=60; count=5] [result=2; return=1]
rule : [count] [ip=256.0.0.*,10.*] [time=60; count=5] [result=2; return=2]
rule : [count] [a=!x] [time=60; count=5] [result=2; return=3]
rule : [count] [a=1{~] [time=60; count=5] [result=2; return=4]
rule : [count] [a=1; b=2; a=2] [time=60; count=5] [result=2; return=5]
rule : [count] [] [time=60; count=5] [result=2; return=6]
"""
OF_SLIPS = [
    '2:19: warning: expected one operator, found "=5", which Weir reads as text: did you mean "a=5"?',
    '2:25: warning: expected a range without blanks, found "1 - 3", which Weir reads as text: did you mean "1-3"?',
    '3:20: warning: expected an address like 10.0.*.*, or a range like 10.0.0.1-10.0.0.9 or 10.0.0.0/8, '
    'found "256.0.0.*", which Weir reads as text',
    '3:30: warning: expected an address like 10.0.*.*, or a range like 10.0.0.1-10.0.0.9 or 10.0.0.0/8, '
    'found "10.*", which Weir reads as text: did you mean "10.*.*.*"?',
    '4:19: warning: expected one operator, found "!x", which Weir reads as text: did you mean "a!=x"?',
    '5:19: warning: expected {~} after the last value of a condition, or nowhere, found "1{~", which '
    'Weir reads as text',
    '6:27: warning: expected conditions that a request can meet, found ones that exclude each other in rule '
    '"5"',
    '7:17: warning: expected conditions, found none: the rule applies to every request',
]


def test_probable_mistakes_cause_warnings_in_lint_and_at_the_start(tmp_path):
    conf = tmp_path / "rules.conf"
    conf.write_text(SLIPS + RESULTS)
    done = run("lint", conf)
    assert (done.returncode, messages(done, conf)) == (0, [f"rules.conf:{line}" for line in OF_SLIPS])
    assert run("lint", "--strict", conf).returncode == 1
    server = Server("-c", conf)
    for line in OF_SLIPS:
        number, column, text = line.split(":", 2)
        logged = f"warning config_warning file={conf} line={number} column={column} "
        assert sum(found.endswith(logged + text.removeprefix(" warning: ")) for found in server.log) == 1
    # They are read as the warnings say.
    taken = server.get("/rule/browse?_writeThrough=yes&a=%3D5&b=1+-+3")
    assert taken.json["Ret_type"] == 1
    for query, used in (("a=%3D5&b=1+-+3", 1), ("a=5&b=2", 0)):
        assert server.get(f"/rule/value?rule_no=1&{query}").json["cache_val"] == used
    assert server.stop() == 0


def test_two_values_that_must_both_match_cause_a_warning_at_the_second(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n  - match: { a: { all: [1,\n      2] } }\n    answer: deny\n")
    assert messages(run("lint", path), path)[0] == (
        'rules.yaml:3:7: warning: expected conditions that a request can meet, found ones that exclude each '
        'other in rule "rule-1"')


@pytest.mark.parametrize("language", ["conf", "yaml"])
def test_each_wrong_line_of_a_dictionary_is_an_error_with_its_place(tmp_path, language):
    words, path = tmp_path / "words.dat", tmp_path / f"rules.{language}"
    if language == "yaml":
        path.write_text("rules: [{ answer: deny, match: { a: { in: words.dat }, b: { in: words.dat } } }]\n")
    else:
        path.write_text("[dicts]\nwords : words.dat\nagain : words.dat\n[rules]\n"
                        + rule(1, "a @ words; b @ again") + RESULTS)
    network = "expected a range of addresses such as 10.0.0.0/8 or 10.0.0.1-10.0.0.9, found 10.0.0.0/33"
    words.write_bytes(b"ann\n10.0.0.0/33\n\n# 10.0.0.0/33\nbob\na\x01b\n" + 2000 * b"x" + b"\n")
    done = run("lint", path)
    assert done.returncode == 1
    found = messages(done, path)
    assert [line for line in found if line.startswith("words.dat")] == [
        f"words.dat:2:1: error: {network}",
        "words.dat:6:1: error: expected a word, found a control character in it",
        "words.dat:7:1: error: expected a word of at most 1024 bytes, found a longer one"]
    assert found[0].startswith(f"rules.{language}:")
    assert found[0].endswith(f'expected a dictionary, found "words.dat": line 2: {network} (and 2 more)')
    words.write_text(250 * "10.0.0.0/33\n")
    found = [line for line in messages(run("lint", path), path) if line.startswith("words.dat")]
    assert found == [f"words.dat:{n}:1: error: {network}" for n in range(1, 101)] + [
        "words.dat: error: expected fewer wrong lines, found 150 more"]
    words.write_text("# nobody\n\n")
    assert messages(run("lint", path), path) == ["words.dat: warning: expected a word or an address on each line, "
                                             "found none: this dictionary matches no value"]
    assert run("lint", "--strict", path).returncode == 1


def test_a_file_that_is_passed_twice_is_an_error(tmp_path):
    conf, ours = write(tmp_path / "rules.conf", rule(1)), tmp_path / "weir.yaml"
    ours.write_text("capacity: 1000\n")
    (tmp_path / "link.conf").symlink_to(conf)
    for again in (conf, tmp_path / "." / ".." / tmp_path.name / "rules.conf", tmp_path / "link.conf"):
        for command in (["lint"], ["serve"], ["simulate", "--trace", "/dev/null"]):
            done = run(*command, *both("-c", [ours, conf, again, ours]))
            assert done.returncode == 1
            found = [line for line in done.stderr.splitlines() if "error" in line]
            assert len(found) == 2, found
            for path in (again, ours):
                assert sum(f"{path}: " in line and line.endswith("expected each file once, found it twice")
                           for line in found) == 1
