"""`weir simulate --clients`: clients that retry, and a backend that is slow for a while."""

import json
import re
import resource
import subprocess

import pytest
from harness import PATIENCE, WEIR, one_thread, plain_build_only, weir

pytestmark = one_thread

# As in docs/overload.md: 16 workers of 10 ms, three attempts, 200 ms until a client gives up.
STORM = ("--clients", "1000", "--timeout", "200ms")
LIMITS = {"adapt": "algorithm: adaptive", "fixed": "algorithm: concurrency, max: 20",
          "bucket": "algorithm: token_bucket, rate: 1200/s, burst: 50", "guard": "algorithm: breaker"}


def tries(*names):
    return [word for name in names for word in ("--try", f"{name}: {{ {LIMITS[name]} }}")]


def simulate(*flags):
    done = weir("simulate", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def configurations(report):
    return {each["name"]: each for each in report["clients"]["configurations"]}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_storm_of_retries_ends_behind_a_limit_on_requests_in_flight_and_not_without(seed):
    found = configurations(simulate(*STORM, "--seed", seed, *tries(*LIMITS)))
    assert list(found) == ["without limits", *LIMITS]
    assert all(each["healthy_before"] for each in found.values())
    assert {name: each["recovers"] for name, each in found.items()} == {
        "without limits": False, "adapt": True, "fixed": True, "bucket": False, "guard": True}
    none, adapt, fixed = found["without limits"], found["adapt"], found["fixed"]
    # As measured at a real server: without a limit nothing is answered in time, with one all is as it was.
    assert none["after"]["answered"] == 0 and none["after"]["wasted_share"] > 0.99 and none["end_share"] == 0
    for each in adapt, fixed:
        assert each["end_share"] > 0.95 and each["recovered_after_ms"] <= 5000
        assert each["after"]["wasted_share"] < 0.05
        # In the overload the backend does a fifth of the work, nearly all of it useful.
        assert 200 < each["overload"]["goodput"] < 340
    # A breaker opens, and the backend works off what was abandoned.
    assert found["guard"]["recovered_after_ms"] > 20_000


def test_a_single_client_or_worker_is_named_in_the_singular():
    done = weir("simulate", "--clients", "1", "--backend", "1,10ms,0.2", "--attempts", "1")
    assert done.stdout.startswith("1 client thinks for 1s between requests, and gives up after 1s.\nIt does not retry.\n"
                                  "The backend has 1 worker. A request takes 10ms on average, so it can answer 100 a second.\n"
                                  "Each request that waits makes it slower by 20%.\n"), done.stdout


def test_the_report_says_so_in_plain_words():
    done = weir("simulate", *STORM, *tries("adapt"))
    assert "1000 clients think for 1s between requests, and give up after 200ms." in done.stdout
    assert "Overload: from 10s to 20s of 80s, a request takes 5 times as long." in done.stdout
    none, adapt = done.stdout.split("\nadapt:\n")[:2]
    assert "=> with these retries this configuration does not recover: " in none
    assert re.search(r"^=> \S+ m?s after the overload it has recovered$", adapt, re.M)
    chart = re.search(r"^answered (\|.*\|)$", none, re.M)[1].split("|")
    assert chart[1] == "@@@@@" and chart[3].strip() == ""
    assert done.stdout.isascii()
    assert max(len(line) for line in none.splitlines() if not line.startswith("=>")) <= 96


def test_without_retries_or_with_little_load_all_recover():
    gentle = configurations(simulate("--clients", "200", "--timeout", "200ms"))["without limits"]
    assert gentle["recovers"] and gentle["before"]["retries"] == 0
    # A backend that does not get slower by waiting requests works off its queue.
    calm = configurations(simulate("--clients", "1000", "--timeout", "2s", "--attempts", "1", "--backend",
                                   "16,10ms,0"))["without limits"]
    assert calm["recovers"] and calm["after"]["retries"] == 0
    assert calm["before"]["attempts"] == calm["before"]["requests"]


@pytest.mark.parametrize("clients", [1, 3, 10, 100])
def test_without_an_overload_a_few_clients_recover_by_no_chance(clients):
    found = [configurations(simulate("--clients", clients, "--overload", "1", "--seed", seed))["without limits"]
             for seed in range(1, 21)]
    assert all(each["recovers"] for each in found)
    assert all(each["before"]["answered"] > 900 for each in found)


@pytest.mark.parametrize("flag", ["--think", "--backoff", "--timeout"])
def test_the_parts_are_long_enough_for_every_wait(flag):
    report = simulate("--clients", "10", "--backend", "10,1ms", "--think", "100ms", flag, "30s")
    assert configurations(report)["without limits"]["overload"]["seconds"] >= 300


def test_the_rules_of_a_file_decide_by_the_attributes_of_the_clients(tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("""
limits: { places: { algorithm: concurrency, max: 20 }, each: { algorithm: token_bucket, rate: 1/m, burst: 1 },
          never: { algorithm: token_bucket, rate: 1/d, burst: 1 } }
rules:
  - { name: api, match: { path: /api }, limits: [places] }
  - { name: address, match: { path: /slow }, key: [ip], limits: [each] }
  - { name: trial, limits: [never], mode: shadow }
""")
    report = simulate(*STORM, "-c", config, "--attr", "path=/api")
    found = configurations(report)
    assert list(found) == ["without limits", "the rules"] and found["the rules"]["recovers"]
    assert report["shadow"]["trial"]["denied"] > 1000  # which denied none of them
    assert report["limits"]["never"]["shadow"] is True and report["limits"]["each"]["allowed"] == 0
    # Each client has an address of its own, so each gets one request a minute and its first at once.
    report = simulate(*STORM, "-c", config, "--attr", "path=/slow")
    assert report["limits"]["each"]["keys"] == 1000
    assert 1000 <= report["limits"]["each"]["allowed"] <= 2400
    # Without an attribute no enforced rule applies.
    found = configurations(simulate(*STORM, "-c", config))
    assert found["the rules"]["timeline"] == found["without limits"]["timeline"]
    # A limit alone: one key for all, or one for each client.
    alone = simulate(*STORM, *tries("bucket"))["limits"]["bucket"]
    own = simulate(*STORM, *tries("bucket"), "--key", "ip")["limits"]["bucket"]
    assert (alone["keys"], own["keys"]) == (1, 1000) and own["denied"] == 0


@plain_build_only
@pytest.mark.parametrize("of_rule", ["places", "places, each"])
def test_clients_of_high_priority_pass_while_low_ones_are_denied(tmp_path, of_rule):
    """One client of ten has a high priority. Shadow rules count the attempts: a client that passes makes fewer."""
    config = tmp_path / "weir.yaml"
    rules = """
limits: {{ places: {{ algorithm: adaptive }}, each: {{ algorithm: token_bucket, rate: 1000000/s }} }}
rules:
  - {{ name: high, match: {{ ip: 10.0.0.0-10.0.1.143 }}, limits: [{0}]{1} }}
  - {{ name: low, match: {{ ip: 10.0.1.144-10.0.15.159 }}, limits: [{0}]{2} }}
  - {{ name: of high, match: {{ ip: 10.0.0.0-10.0.1.143 }}, limits: [each], mode: shadow }}
  - {{ name: of low, match: {{ ip: 10.0.1.144-10.0.15.159 }}, limits: [each], mode: shadow }}
"""
    parts = []
    for priorities in (", priority: 1", ", priority: 8"), ("", ""):
        config.write_text(rules.format(of_rule, *priorities))
        shadow = simulate("--clients", "4000", "-c", config, "--overload", "1")["shadow"]
        parts.append(shadow["of high"]["asked"] / 400 / (shadow["of low"]["asked"] / 3600))
    assert parts[0] < 0.6 and 0.95 < parts[1] < 1.05, parts


THROTTLED = """
limits: {{ shed: {{ algorithm: throttle, k: 1.1, window: 10s }}, wide: {{ algorithm: token_bucket, rate: 1000000/s }},
          each: {{ algorithm: token_bucket, rate: 1000000/s }} }}
rules:
  - {{ name: high, match: {{ ip: 10.0.0.0-10.0.0.99 }}, limits: [{limits}]{high} }}
  - {{ name: low, match: {{ ip: 10.0.0.100-10.0.3.231 }}, limits: [{limits}]{low} }}
  - {{ name: of high, match: {{ ip: 10.0.0.0-10.0.0.99 }}, limits: [each], mode: shadow }}
  - {{ name: of low, match: {{ ip: 10.0.0.100-10.0.3.231 }}, limits: [each], mode: shadow }}
"""


@plain_build_only
@pytest.mark.parametrize("limits", ["wide, shed", "shed, wide"])
def test_a_throttle_sheds_clients_of_low_priority(tmp_path, limits):
    """As the test before: a client that passes makes fewer attempts. Another limit that grants all takes none of them."""
    config = tmp_path / "weir.yaml"
    flags = ("--clients", "1000", "--timeout", "200ms", "--backend", "4,10ms,0", "--overload", "1", "-c", config)
    parts = []
    for high, low in (", priority: 1", ", priority: 8"), ("", ""):
        config.write_text(THROTTLED.format(limits=limits, high=high, low=low))
        report = simulate(*flags)
        shadow, throttle, found = report["shadow"], report["limits"]["shed"], configurations(report)["the rules"]
        attempts = [sum(found[part][what] for part in ("before", "overload", "after"))
                    for what in ("attempts", "denied")]
        assert [throttle["allowed"] + throttle["denied"], throttle["denied"]] == attempts
        assert shadow["of high"]["asked"] + shadow["of low"]["asked"] == attempts[0]
        parts.append(shadow["of high"]["asked"] / 100 / (shadow["of low"]["asked"] / 900))
    assert parts[0] < 0.6 and 0.95 < parts[1] < 1.05, parts
    if limits == "wide, shed":  # the throttle draws as often as alone
        config.write_text(THROTTLED.format(limits="shed", high=high, low=low))
    again = configurations(simulate(*flags))["the rules"]
    assert again["timeline"] == found["timeline"]


def test_a_shadow_rule_on_the_limit_of_another_rule_takes_places_as_in_the_server(tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("""
limits: { places: { algorithm: concurrency, max: 20 }, few: { algorithm: token_bucket, rate: 100/s } }
rules:
  - { name: enforced, match: { plan: "*" }, limits: [places] }
  - { name: rate, match: { tier: "*" }, limits: [few] }
  - { name: trial, limits: [places], mode: shadow }
""")
    alone = simulate("--clients", "100", "--timeout", "200ms", "-c", config)
    both = simulate("--clients", "100", "--timeout", "200ms", "-c", config, "--attr", "plan=free")
    attempts = [sum(configurations(report)["the rules"][part]["attempts"] for part in ("before", "overload", "after"))
                for report in (alone, both)]
    places = [report["limits"]["places"] for report in (alone, both)]
    assert [place["allowed"] + place["denied"] for place in places] == [attempts[0], 2 * attempts[1]]
    assert alone["shadow"]["trial"]["asked"] == attempts[0]
    assert configurations(alone)["the rules"]["timeline"] == configurations(alone)["without limits"]["timeline"]
    # A place that a shadow rule takes for a denied request is free at once, or 20 would be in use for ever.
    denied = simulate(*STORM, "-c", config, "--attr", "tier=free")
    assert denied["limits"]["few"]["denied"] > 10_000 and denied["shadow"]["trial"]["denied"] == 0


@pytest.mark.parametrize("stores, said", [
    ("store: redis://127.0.0.1:1/0", "2 limits, such as 'places', count in memory here, as one server alone does"),
    ("nodes: 1", "'each' counts in memory here, as one server alone does, and not at its Redis"),
])
def test_limits_at_a_redis_are_simulated_in_memory_and_the_report_says_so(tmp_path, stores, said):
    """Nothing listens at port 1."""
    text = """
limits:
  places: {{ algorithm: concurrency, max: 20 {0}}}
  each: {{ algorithm: token_bucket, rate: 1200/s {1}}}
rules: [ {{ name: api, limits: [places, each] }} ]
"""
    config, memory = tmp_path / "weir.yaml", tmp_path / "memory.yaml"
    config.write_text(stores + text.format("", "" if said[0] == "2" else ", store: redis://127.0.0.1:1/0, chunk: 5% "))
    memory.write_text(text.format("", ""))
    done = weir("simulate", "--json", *STORM, "-c", config)
    assert done.returncode == 0 and done.stderr.count(said) == done.stderr.count("\n") == 1, done.stderr
    plain = weir("simulate", "--json", *STORM, "-c", memory)
    assert plain.stderr == "" and json.loads(plain.stdout)["clients"] == json.loads(done.stdout)["clients"]


def test_a_pacer_holds_requests_on_their_way_to_the_backend():
    found = configurations(simulate("--clients", "100", "--think", "100ms", "--timeout", "1s", "--try",
                                    "pace: { algorithm: pacer, rate: 500/s, slack: 0, max_wait: 500ms }"))
    before = found["pace"]["before"]
    # 100 clients ask for 900 requests a second. 500 of them pass, and those that wait do not overload the backend.
    assert 480 <= before["goodput"] <= 510 and before["latency_ms"]["p50"] > 50
    assert found["pace"]["recovers"]


def test_the_counts_agree():
    report = simulate(*STORM, *tries("adapt", "bucket"))
    for name, each in configurations(report).items():
        parts = [each[part] for part in ("before", "overload", "after")]
        series = each["timeline"]
        for counter, of in (("asked", "requests"), *((n, n) for n in ("attempts", "answered", "denied", "refused",
                                                                      "timeouts"))):
            assert sum(series[counter]) == sum(part[of] for part in parts), (name, counter)
        assert [part["seconds"] for part in parts] == [10, 10, 60]
        assert len(series["inside"]) == len(series["asked"]) == 80 / series["width"]
        attempts = sum(part["attempts"] for part in parts)
        ended = sum(part[how] for part in parts for how in ("answered", "denied", "refused", "timeouts"))
        assert 0 <= attempts - ended <= 1000  # each client has one attempt at most that has not ended
        if name in report["limits"]:
            limit = report["limits"][name]
            assert limit["allowed"] + limit["denied"] == attempts
            assert limit["denied"] == sum(part["denied"] for part in parts)


def test_a_seed_decides_everything():
    flags = (*STORM, *tries("adapt"), "--try", "luck: { algorithm: random, deny: 0.3 }")
    first, again, other = (weir("simulate", "--json", *flags, "--seed", seed).stdout for seed in (7, 7, 8))
    assert first == again != other


@pytest.mark.parametrize("flags, said", [
    (("--clients", "0"), "--clients: expected a number from 1 to 100000, found '0'"),
    (("--clients", "-1"), "--clients: expected a number from 1 to 100000, found '-1'"),
    (("--clients", "99999999999999999999"), "--clients: expected a number from 1 to 100000"),
    (("--clients", "5", "--attempts", "0"), "--attempts: expected a number from 1 to 100, found '0'"),
    (("--clients", "5", "--attempts", "101"), "--attempts: expected a number from 1 to 100"),
    (("--clients", "5", "--timeout", "0"), "--timeout: expected a time from 1ms to 1h, such as 500ms, found '0'"),
    (("--clients", "5", "--timeout", "2h"), "--timeout: expected a time from 1ms"),
    (("--clients", "5", "--think", "-1s"), "--think: expected a time up to 1h, such as 500ms, found '-1s'"),
    (("--clients", "5", "--think", "18446744073709551616s"), "--think: expected a time up to 1h"),
    (("--clients", "5", "--backoff", "1"), "--backoff: expected a time up to 1h"),
    (("--clients", "5", "--backend", "16"), "--backend: expected WORKERS,SERVICE_TIME or"),
    (("--clients", "5", "--backend", "0,10ms"), "--backend: expected WORKERS,SERVICE_TIME or"),
    (("--clients", "5", "--backend", "10001,10ms"), "--backend: expected WORKERS,SERVICE_TIME or"),
    (("--clients", "5", "--backend", "16,0s"), "--backend: expected WORKERS,SERVICE_TIME or"),
    (("--clients", "5", "--backend", "16,10ms,-1"), "--backend: expected WORKERS,SERVICE_TIME or"),
    (("--clients", "5", "--backend", "16,10ms,1e999"), "--backend: expected WORKERS,SERVICE_TIME or"),
    (("--clients", "5", "--overload", "0.5"), "--overload: expected FACTOR or FACTOR,TIME"),
    (("--clients", "5", "--overload", "5,0s"), "--overload: expected FACTOR or FACTOR,TIME"),
    (("--clients", "5", "--overload", "nan"), "--overload: expected FACTOR or FACTOR,TIME"),
    (("--clients", "5", "--seed", "-1"), "--seed: expected a whole number, found '-1'"),
    (("--clients", "5", "--attr", "path"), "--attr: expected NAME=VALUE, found 'path'"),
    (("--clients", "5", "--pattern", "steady"), "expected one of --trace, --pattern and --clients, found two"),
    (("--clients", "5", "--decisions", "-"), "expected --trace with --decisions, found --clients"),
    (("--clients", "5", "--suggest", "token_bucket/s"), "expected --trace with --suggest, found --clients"),
    (("--pattern", "steady", "--think", "1s"), "expected --clients with --think, found none"),
])
def test_a_wrong_flag_is_refused_with_the_remedy(flags, said):
    done = weir("simulate", *flags)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done


@plain_build_only
@pytest.mark.parametrize("flags", [
    ("--clients", "100000", "--attempts", "100", "--timeout", "1ms", "--think", "0", "--backoff", "0"),
    ("--clients", "20000", "--attempts", "100", "--timeout", "1h", "--think", "0", "--backend", "10000,1h,10",
     "--overload", "1000,1d"),
    ("--clients", "100000", "--attempts", "1", "--timeout", "1h", "--think", "1h", "--backend", "1,1h,10",
     "--overload", "1000,1d"),
    ("--clients", "1", "--attempts", "100", "--timeout", "1ms", "--think", "1h", "--backoff", "1h", "--backend", "1,1h"),
])
def test_time_and_memory_are_bounded(flags):
    """A run ends with a report or with an error that says what to change."""
    done = subprocess.run([WEIR, "simulate", "--json", *flags, *tries("adapt")], capture_output=True, text=True,
                          timeout=PATIENCE * 10, check=False)
    if done.returncode:
        assert (done.returncode, done.stdout) == (1, "")
        assert re.search(r"expected clients that make at most 5000000 attempts, found more: have fewer clients|"
                         r"expected at most 1,048,576 calls at once", done.stderr), done.stderr
    else:
        assert configurations(json.loads(done.stdout))["adapt"]["before"]["requests"] >= 0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1_500_000, "KiB"
