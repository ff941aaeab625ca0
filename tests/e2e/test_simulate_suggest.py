"""`weir simulate` counts the keys that a limit denies, and suggests limits."""

import collections
import json
import random
import subprocess

import pytest
from harness import BUILD, PATIENCE, SANITIZED, WEIR, one_thread, weir

pytestmark = one_thread

START = 1_800_000_000  # a whole minute


def write_log(path, requests):
    """Writes a log of [(milliseconds after START, key, cost)]."""
    path.write_text("time,ip,cost\n" + "".join(
        f"{START + at // 1000}.{at % 1000:03d},{key},{cost}\n" for at, key, cost in requests))
    return path


def random_log(chance, requests, costs=(1,)):
    """A log in which some keys send much more than others, in bursts."""
    at, weights = 0, [1 / (n + 1) for n in range(30)]
    for _ in range(requests):
        at += chance.choice([0, 0, 1, chance.randrange(50), chance.randrange(500), 5000])
        yield at, f"k{chance.choices(range(30), weights)[0]}", chance.choice(costs)


def simulate(log, *flags):
    done = weir("simulate", "--trace", log, "--json", *flags)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def rank(numbers, percent):
    """The percentile by the nearest rank."""
    ordered = sorted(numbers)
    return ordered[-(-len(ordered) * percent // 100) - 1]


def spread(numbers):
    return {f"p{p}": rank(numbers, p) for p in (50, 90, 99)} | {"max": max(numbers)}


@pytest.mark.parametrize("seed", [1, 2])
def test_denied_keys_and_their_denials_are_counted(tmp_path, seed):
    log = write_log(tmp_path / "log", random_log(random.Random(seed), 3000))
    out = tmp_path / "decisions"
    limit = simulate(log, "--decisions", out, "--try",
                     "a: { algorithm: token_bucket, rate: 10/m, burst: 12 }")["limits"]["a"]
    asked, denied = collections.Counter(), collections.Counter()
    for line in out.read_text().splitlines():
        decision = json.loads(line)
        asked[decision["key"]] += 1
        denied[decision["key"]] += not decision["allowed"]
    hit = [n for n in denied.values() if n > 0]
    assert 0 < len(hit) < len(asked)
    assert limit["denied_share"] == pytest.approx(sum(hit) / 3000, abs=1e-8)
    assert limit["hits"]["share"] == pytest.approx(len(hit) / len(asked), abs=1e-8)
    assert limit["hits"] | {"share": 0} == {
        "keys": len(hit), "share": 0, "requests_per_key": spread(asked.values()),
        "denied_per_key": spread(hit)}


ALGORITHMS = {  # each with the parameter that is its count
    "token_bucket": "burst", "leaky_bucket": "capacity", "leaky_queue": "capacity", "pacer": None,
    "warm_up": None, "fixed_window": None, "resetting_bucket": None, "sliding_window": None,
    "sliding_log": None, "sliding_counter": None,
}


def limit_of(algorithm, count, period, name="suggested"):
    more = f", {ALGORITHMS[algorithm]}: {count}" if ALGORITHMS[algorithm] else ""
    return f"{name}: {{ algorithm: {algorithm}, rate: {count}/{period}{more} }}"


def denials(log, requests, out, limits, *flags):
    """{limit: (denied requests, keys with a denial)}, from the decisions of a simulation."""
    simulate(log, "--decisions", out, *flags, *(f for text in limits for f in ("--try", text)))
    found = {text.split(":")[0]: (0, set()) for text in limits}
    for line in out.read_text().splitlines():
        decision = json.loads(line)
        if not decision.get("allowed"):  # a request that costs more than the limit is an error
            count, keys = found[decision["limit"]]
            found[decision["limit"]] = (count + 1, keys | {requests[decision["n"]][1]})
    return found


# With a sanitizer one log for each algorithm is enough.
LOGS = slice(1 if BUILD.name in SANITIZED else None)


@pytest.mark.parametrize("costs", [(1, 1, 1, 2, 5), (1,)][LOGS], ids=["costs", "unit"][LOGS])
@pytest.mark.parametrize("by, deny", [("keys", "0.1%"), ("keys", "20%"), ("requests", "0.03")][LOGS])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_suggested_limit_is_the_smallest_with_the_wanted_denials(tmp_path, algorithm, by, deny, costs):
    """A replay of each smaller limit has more denials."""
    chance = random.Random(f"{algorithm} {by} {deny} {costs}")
    requests = list(random_log(chance, 400, costs))
    log, period = write_log(tmp_path / "log", requests), chance.choice(["m", "10s", "3s"])
    report = simulate(log, "--suggest", f"{algorithm}/{period}", "--by", by, "--deny", deny)
    suggestion = report["suggestion"]
    count = suggestion["count"]
    assert suggestion["limit"] == limit_of(algorithm, count, period) and not suggestion["unsure"]
    limits = [limit_of(algorithm, n, period, f"n{n}") for n in range(1, count + 1)]
    found = denials(log, requests, tmp_path / "out", limits)
    total, keys = len(requests), len({key for _, key, _ in requests})
    share = {"0.1%": 0.001, "20%": 0.2, "0.03": 0.03}[deny]
    for name, (denied, hit) in found.items():
        part = denied / total if by == "requests" else len(hit) / keys
        assert (part <= share) == (name == f"n{count}"), (name, denied, len(hit))
    # The curve contains the same counts as these replays.
    for point in suggestion["curve"]:
        if point["count"] <= count:
            denied, hit = found[f"n{point['count']}"]
            assert point == {"count": point["count"], "requests": total, "denied": denied,
                             "keys": keys, "hit": len(hit)}
    assert {count, max(count - 1, 1)} <= {point["count"] for point in suggestion["curve"]}
    # The report is about the suggested limit.
    limit = report["limits"]["suggested"]
    assert limit["hits"]["keys"] == len(found[f"n{count}"][1])


def test_with_different_costs_a_smaller_limit_may_deny_fewer_requests(tmp_path):
    """One large request uses the units of several small ones; a bisection alone would find 6."""
    log = write_log(tmp_path / "log", [(0, "a", 4)] + [(1, "a", 1)] * 4 + [
        (60_000 * n, key, 1) for n, key in enumerate("bcdefghijk", 1)])
    flags = ["--suggest", "fixed_window/m", "--by", "requests", "--deny", "14%"]  # 14% are two of 15
    suggestion = simulate(log, *flags)["suggestion"]
    curve = {point["count"]: point["denied"] for point in suggestion["curve"]}
    assert suggestion["count"] == 3
    assert [curve[n] for n in (1, 2, 3, 4, 5, 6)] == [4, 3, 2, 4, 3, 2]


def test_the_last_line_is_the_limit_as_in_a_file(tmp_path):
    log = write_log(tmp_path / "log", random_log(random.Random(5), 300))
    done = weir("simulate", "--trace", log, "--suggest", "token_bucket/m")
    assert done.returncode == 0, done
    last = done.stdout.splitlines()[-1]
    count = simulate(log, "--suggest", "token_bucket/m")["suggestion"]["count"]
    assert last == limit_of("token_bucket", count, "m")
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80 and done.stdout.isascii()
    config = tmp_path / "weir.yaml"
    config.write_text(f"limits:\n  {last}\n")
    assert weir("lint", config).returncode == 0
    # Beside a file with a limit of that name.
    done = weir("simulate", "-c", config, "--trace", log, "--suggest", "token_bucket/m")
    assert "--suggest: expected a name that no other limit has" in done.stderr
    config.write_text("limits:\n  mine: { algorithm: sliding_log, rate: 2/m }\n")
    limits = simulate(log, "-c", config, "--suggest", "token_bucket/m")["limits"]
    assert list(limits) == ["mine", "suggested"]


@pytest.mark.parametrize("keys, said", [(2, True), (99, True), (100, False)])
def test_a_share_of_so_few_keys_that_none_may_be_denied_is_said(tmp_path, keys, said):
    log = write_log(tmp_path / "log", ((i, f"k{i % keys}", 1) for i in range(300)))
    flags = "--trace", log, "--suggest", "token_bucket/m", "--deny", "1%"
    assert (f"\n1% of {keys} keys is none: the limit must deny no key\n" in weir("simulate", *flags).stdout) == said
    text = weir("simulate", *flags, "--per", "ip").stdout
    assert text.endswith("\n1% of fewer than 100 keys is none: limits of so few deny no key\n")


def test_a_log_from_a_pipe_is_stored_for_the_replays(tmp_path):
    log = write_log(tmp_path / "log", random_log(random.Random(6), 2000))
    of_file = simulate(log, "--suggest", "sliding_log/m")
    command = [WEIR, "simulate", "--trace", "-", "--json", "--suggest", "sliding_log/m"]
    piped = subprocess.run(command, input=log.read_bytes(), capture_output=True, timeout=PATIENCE,
                           check=True)
    assert json.loads(piped.stdout) | {"source": of_file["source"]} == of_file
    with log.open("rb") as file:
        redirected = subprocess.run(command, stdin=file, capture_output=True, timeout=PATIENCE,
                                    check=True)
    assert json.loads(redirected.stdout)["limits"] == of_file["limits"]


@pytest.mark.parametrize("flags, status, said", [
    (["--suggest", "token_bucket"], 2, "--suggest: expected ALGORITHM/PERIOD"),
    (["--suggest", "token_bucket/"], 2, "--suggest: expected ALGORITHM/PERIOD"),
    (["--suggest", "token_bucket/m } x: {"], 2, "--suggest: expected ALGORITHM/PERIOD"),
    (["--suggest", "nothing/m"], 2, "expected an algorithm with a rate, found 'nothing'"),
    (["--suggest", "concurrency/m"], 2, "expected an algorithm with a rate, found 'concurrency'"),
    (["--suggest", "token_bucket/q"], 1, "--suggest:1:"),
    (["--suggest", "token_bucket/m", "--deny", "x"], 2, "--deny: expected a share such as 0.1% or 0.001"),
    (["--suggest", "token_bucket/m", "--deny", "101%"], 2, "--deny: expected a share"),
    (["--suggest", "token_bucket/m", "--by", "x"], 2, "--by: expected keys or requests, found 'x'"),
    (["--deny", "1%"], 2, "expected --suggest with --deny, --by and --per, found none"),
])
def test_mistakes_in_options_of_suggestions_are_errors(tmp_path, flags, status, said):
    log = write_log(tmp_path / "log", [(0, "a", 1)])
    done = weir("simulate", "--trace", log, *flags)
    assert done.returncode == status and said in done.stderr, done


def test_each_value_of_a_field_gets_a_suggestion_of_its_own(tmp_path):
    """The same as a search in a log of that value's requests alone, from a file and from a pipe."""
    paths = ["/login", "/api", "", *(f"/p{n}" for n in range(12))]
    requests = [(n * 37 % 5000, f"k{n % 7}", paths[min(n % (3 + 4 * (n % 5)), len(paths) - 1)]) for n in range(3000)]
    requests.sort(key=lambda request: request[0])

    def log(name, wanted):
        trace = tmp_path / name
        trace.write_text("time,ip,path\n" + "".join(
            f"{START + at // 1000}.{at % 1000:03d},{key},{path}\n" for at, key, path in requests if wanted(path)))
        return trace

    flags = ("--suggest", "fixed_window/s", "--deny", "20%", "--by", "requests")
    every = log("every", lambda path: True)
    done = weir("simulate", "--trace", every, *flags, "--per", "path", "--json")
    found = json.loads(done.stdout)
    assert found["per"] == "path" and len(found["suggestions"]) == 11
    *named, rest = found["suggestions"]
    values = [row["value"] for row in named]
    assert rest["value"] is None and {"/login", "/api", ""} <= set(values)
    counts = [row["requests"] for row in named]
    assert counts == sorted(counts, reverse=True) and sum(counts) + rest["requests"] == 3000
    for row in (*named[:3], rest):
        alone = log("alone", lambda path: path == row["value"] if row["value"] is not None else path not in values)
        report = json.loads(weir("simulate", "--trace", alone, *flags, "--json").stdout)
        suggestion = report["suggestion"]
        assert "suggested: " + row["limit"] == suggestion["limit"]
        point = next(point for point in suggestion["curve"] if point["count"] == row["count"])
        assert point == {name: row[name] for name in point}
    piped = weir("simulate", "--trace", "-", *flags, "--per", "path", "--json", input=every.read_text())
    assert piped.stdout == done.stdout
    text = weir("simulate", "--trace", every, *flags, "--per", "path").stdout
    assert f"\n{'/login':<12} " in text and "\n(none) " in text and "\n(all others) " in text
    assert named[0]["limit"] in text


def test_a_search_for_each_value_is_refused_with_other_reports(tmp_path):
    trace = tmp_path / "trace"
    trace.write_text(f"time,ip,path\n{START},a,\x1b[31m\n")
    for flags, said in ((("--suggest", "fixed_window/s", "--html", tmp_path / "x"), "--per without --html"),
                        (("--suggest", "fixed_window/s", "--try", "a: {}"), "--per without --html"),
                        ((), "expected --suggest with --deny, --by and --per, found none")):
        done = weir("simulate", "--trace", trace, "--per", "path", *flags)
        assert (done.returncode, done.stdout) == (2, "") and said in done.stderr
    # A path is what clients choose: no control characters reach the terminal.
    assert "\x1b" not in weir("simulate", "--trace", trace, "--suggest", "fixed_window/s", "--per", "path").stdout
    trace.write_text("time,ip,path\n")
    done = weir("simulate", "--trace", trace, "--suggest", "fixed_window/s", "--per", "path")
    assert done.returncode == 1 and "expected requests, found none" in done.stderr


@pytest.mark.parametrize("value, row", [("/a\0b", None), ("/" + "x" * 300 + "\0", None), *[("/" + "x" * n,) * 2 for n in (63, 64, 300)]])
def test_a_long_value_has_its_row_and_one_with_a_nul_hides_no_other(tmp_path, value, row):
    """Though it has the most requests."""
    trace = tmp_path / "trace"
    trace.write_text("".join(json.dumps({"time": START + n, "ip": "a", "path": path}) + "\n"
                             for n, path in enumerate([value] * 50 + ["/x"] * 20 + ["/y"] * 10)))
    done = weir("simulate", "--trace", trace, "--suggest", "fixed_window/s", "--per", "path", "--json")
    assert done.returncode == 0, done.stderr
    found = [(each["value"], each["requests"]) for each in json.loads(done.stdout)["suggestions"]]
    assert found == ([(row, 50), ("/x", 20), ("/y", 10)] if row else [("/x", 20), ("/y", 10), (None, 50)])
    text = weir("simulate", "--trace", trace, "--suggest", "fixed_window/s", "--per", "path").stdout
    assert f"\n{row if row and len(row) <= 64 else '/' + 'x' * 60 + '...' if row else '(all others)'} " in text


def test_long_values_with_the_same_beginning_are_told_apart(tmp_path):
    trace = tmp_path / "trace"
    paths = ["/" + "x" * 100 + end for end in "aab"]
    trace.write_text("time,ip,path\nnonsense\n" + "".join(f"{START + n},k,{path}\n" for n, path in enumerate(paths)))
    done = weir("simulate", "--trace", trace, "--suggest", "fixed_window/s", "--per", "path", "--json")
    assert [each["value"] for each in json.loads(done.stdout)["suggestions"]] == [paths[0], paths[2]]
    assert done.stderr.count("trace:2:") <= 1
