"""Breakers: the library against the model over random histories, and the traps by name."""

import ctypes
import random

import models
import pytest
import weir
from hypothesis import given, settings
from hypothesis import strategies as st
from permits import OUTCOMES, Permit, key_force, key_permit, key_refund, key_report, lib, limiter_permit, limiter_report

NOW = 1_700_000_000_123_456_789
S = 10**9
PRESETS = ["none", "hystrix", "resilience4j"]
FEWER = settings.default.max_examples // 5  # of what takes longer
FIELDS = {"failure_rate": "failure_percent", "slow_rate": "slow_percent"}


def breaker_options(preset, retry_ns=S, **given):
    own = {FIELDS.get(name, name): value or weir.ZERO for name, value in given.items()}
    return weir.options(weir.BREAKER, retry_ns=retry_ns,
                        **weir.own("breaker", preset=PRESETS.index(preset), **own))


def breaker_limit(preset, **given):
    return weir.Limit(breaker_options(preset, **given))


def breaker(preset="none", retry_ns=S, **given):
    """The limiter, and the model of the same parameters, defaults filled in."""
    limiter = weir.Limiter(breaker_options(preset, retry_ns, **given))
    return limiter, models.breaker(preset, retry_ns, **given)


class Both:
    """The library and the model, asked the same and compared."""

    def __init__(self, *args, seed=5, **others):
        self.limiter, self.model = breaker(*args, **others)
        self.now, self.permits = NOW, []
        weir.lib.weir_seed(seed)
        self.model.draw = models.splitmix64(seed)

    def acquire(self, after=0):
        self.now += after
        raw, permit = weir.RawDecision(), Permit()
        assert limiter_permit(
            self.limiter.handle, 1, self.now, ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        known = {"id": 1}
        expected = self.model.call("acquire", self.now, 1, known)
        assert weir._plain(raw) == expected
        assert permit.until_ns == known.get("until_ns", 0)
        if raw.allowed:
            self.permits.append((permit, known))
        return raw.allowed

    def peek(self):
        found = self.limiter.call("peek", self.now)
        assert found == self.model.call("peek", self.now)
        return found

    def report(self, outcome="success", which=0, latency=0, after=0, keep=False):
        """Whether the permit was held."""
        self.now += after
        permit, known = self.permits[which] if keep else self.permits.pop(which)
        status = limiter_report(
            self.limiter.handle, ctypes.byref(permit), OUTCOMES.index(outcome), latency, self.now)
        expected = self.model.call("report", self.now, 1, known, outcome=outcome,
                                   latency_ns=latency)
        assert status == (weir.OK if expected["allowed"] else weir.ENOTFOUND)
        return status == weir.OK

    def refund(self, which=0):
        permit, known = self.permits.pop(which)
        raw = weir.RawDecision()
        lib.weir_limiter_refund_permit(self.limiter.handle, ctypes.byref(permit), self.now,
                                       ctypes.byref(raw))
        assert weir._plain(raw) == self.model.call("refund", self.now, 1, known)

    def reset(self):
        assert self.limiter.call("reset", self.now) == self.model.call("reset", self.now)

    def calls(self, n, outcome):
        for _ in range(n):
            assert self.acquire()
            assert self.report(outcome, -1)

    def open(self):
        self.calls(self.model.minimum, "failure")
        assert self.model.phase == "open"
        return self


@st.composite
def parameters(draw):
    preset = draw(st.sampled_from(PRESETS))
    some = {
        "minimum": st.integers(1, 8), "failure_rate": st.integers(1, 100),
        "slow_ns": st.integers(1, 3 * S), "slow_rate": st.integers(1, 100),
        "sleep_ns": st.integers(10**6, 20 * S), "probes": st.integers(1, 5),
        "ramp_ns": st.integers(0, 10 * S), "max_concurrent": st.integers(1, 5),
        "permit_timeout_ns": st.integers(10**6, 40 * S), "probe_timeout_ns": st.integers(10**6, 40 * S),
        "sleep_max_ns": st.integers(10**6, 200 * S), "judge_only": st.just(1)}
    window = draw(st.sampled_from([{}, {"window_ns": st.integers(10**6, 30 * S)},
                                   {"calls": st.integers(1, 40)}]))
    chosen = draw(st.sets(st.sampled_from(sorted(some))))
    given = {name: draw({**some, **window}[name]) for name in [*sorted(chosen), *window]}
    if draw(st.booleans()):
        given.setdefault("minimum", draw(st.integers(1, 8)))
    else:
        given.pop("minimum", None), given.pop("failure_rate", None)
        given["failures"] = draw(st.integers(1, 8))
    return preset, given


@settings(deadline=None)
@given(st.data())
def test_random_histories(data):
    preset, given_parameters = data.draw(parameters())
    both = Both(preset, seed=data.draw(st.integers(0, 2**64 - 1)), **given_parameters)
    p = both.model.p
    steps = st.sampled_from([0, 0, 0, 1, 10**6, S, p["sleep_ns"] - 1, p["sleep_ns"],
                             p["ramp_ns"] // 2, both.model.timeout, both.model.timeout // 8,
                             p.get("window_ns", S) // 10, 2 * models.DAY_NS]) | st.integers(0, 9 * S)
    bad = data.draw(st.sampled_from([0.1, 0.5, 0.9]))
    for _ in range(data.draw(st.integers(1, 60))):
        both.now += data.draw(steps)
        what = data.draw(st.sampled_from(["acquire"] * 5 + ["report"] * 4 + ["peek", "refund",
                                                                            "reset"]))
        if what in ("report", "refund") and not both.permits:
            what = "acquire"
        which = data.draw(st.integers(0, max(len(both.permits) - 1, 0)))
        if what == "report":
            failed = data.draw(st.floats(0, 1)) < bad
            outcome = data.draw(st.sampled_from(OUTCOMES[1:] if failed else ["success"]))
            both.report(outcome, which, data.draw(st.sampled_from([0, 1, S, 2 * S])))
        elif what == "refund":
            both.refund(which)
        elif what == "reset":
            both.reset()
            both.permits.clear()
        elif what == "peek":
            both.peek()
        else:
            both.acquire()


class Key:
    """A key of a table and its model, asked the same and compared."""

    def __init__(self, table, limit, name, model):
        self.table, self.limit, self.name, self.model = table, limit, name, model
        self.permits = []

    def ask(self, function, *args):
        return function(self.table.handle, self.limit.handle, self.name, *args)

    def acquire(self, now):
        raw, permit, known = weir.RawDecision(), Permit(), {"id": 1}
        assert self.ask(key_permit, 1, now, ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        assert weir._plain(raw) == self.model.call("acquire", now, 1, known)
        if raw.allowed:
            self.permits.append((permit, known))

    def end(self, now, which, function, *args, **told):
        permit, known = self.permits.pop(which)
        status = self.ask(function, ctypes.byref(permit), *args)
        held = self.model.call("report", now, 1, known, **told)["allowed"]
        assert status == (weir.OK if held else weir.ENOTFOUND)

    def report(self, now, which, outcome, latency):
        self.end(now, which, key_report, OUTCOMES.index(outcome), latency, now,
                 outcome=outcome, latency_ns=latency)

    def refund(self, now, which):
        self.end(now, which, key_refund, now, ctypes.byref(weir.RawDecision()))

    def look(self, operation, now):
        found = self.table.call(self.limit, self.name, operation, now)
        assert found == self.model.call(operation, now)
        if operation == "reset":
            self.permits.clear()

    def force(self, now, how, after):
        until = now + after if after else 0
        assert self.ask(key_force, HOW.index(how), until, now) == weir.OK
        self.model.force(how, until, now)


HOW = ("auto", "open", "closed")


@settings(deadline=None, max_examples=FEWER)
@given(st.data())
def test_random_histories_of_the_keys_of_a_table_with_forced_phases(data):
    """Three keys of one limit, and their draws in the order in which they come."""
    preset, given_parameters = data.draw(parameters())
    seed = data.draw(st.integers(0, 2**64 - 1))
    weir.lib.weir_seed(seed)
    draw, table, limit = models.splitmix64(seed), weir.Table(1000), breaker_limit(preset, **given_parameters)
    keys = []
    for name in (b"a", b"b", b"c"):
        keys.append(Key(table, limit, name, models.breaker(preset, **given_parameters)))
        keys[-1].model.draw = draw
    p, now = keys[0].model.p, NOW
    steps = st.sampled_from([0, 0, 0, 1, 10**6, S, p["sleep_ns"] - 1, p["sleep_ns"], p["ramp_ns"] // 2,
                             p["permit_timeout_ns"], p.get("window_ns", S) // 10, 2 * models.DAY_NS])
    bad = data.draw(st.sampled_from([0.1, 0.5, 0.9]))
    for _ in range(data.draw(st.integers(1, 80))):
        now += data.draw(steps | st.integers(0, 9 * S))
        key = data.draw(st.sampled_from(keys))
        what = data.draw(st.sampled_from(["acquire"] * 6 + ["report"] * 4 + ["peek", "refund", "reset", "force"]))
        if what in ("report", "refund") and not key.permits:
            what = "acquire"
        which = data.draw(st.integers(0, max(len(key.permits) - 1, 0)))
        if what == "report":
            failed = data.draw(st.floats(0, 1)) < bad
            key.report(now, which, data.draw(st.sampled_from(OUTCOMES[1:] if failed else ["success"])),
                       data.draw(st.sampled_from([0, 1, S, 2 * S])))
        elif what == "refund":
            key.refund(now, which)
        elif what == "force":
            key.force(now, data.draw(st.sampled_from(HOW)), data.draw(st.sampled_from([0, 1, S, 5 * S, 3 * models.DAY_NS])))
        elif what == "acquire":
            key.acquire(now)
        else:
            key.look(what, now)


@settings(deadline=None, max_examples=FEWER, derandomize=True)
@given(st.data())
def test_no_steps_of_the_clock_keep_a_breaker_from_closing_again(data):
    """
    What must hold without a model: the clock goes back by seconds and hours, and forward, between
    calls. Once it is past all that it has told, calls that succeed pass and close the breaker.
    """
    preset, given_parameters = data.draw(parameters())
    weir.lib.weir_seed(1)
    limiter, model = breaker(preset, **given_parameters)
    p, now, permits = model.p, NOW, []
    latest, window, longest = now, p.get("window_ns", 0), max(p["sleep_ns"], p["sleep_max_ns"])

    def acquire(at):
        raw, permit = weir.RawDecision(), Permit()
        assert limiter_permit(
            limiter.handle, 1, at, ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        return raw, permit

    def report(permit, outcome, at):
        return limiter_report(limiter.handle, ctypes.byref(permit), outcome, 1, at)

    steps = st.sampled_from([0, 0, 1, S, p["sleep_ns"], p["permit_timeout_ns"], 3600 * S, 5 * 3600 * S,
                             -S, -7 * S, -p["sleep_ns"], -3600 * S, -5 * 3600 * S, -2 * models.DAY_NS])
    for _ in range(data.draw(st.integers(1, 40))):
        now += data.draw(steps)
        latest = max(latest, now)
        if permits and data.draw(st.booleans()):
            permit = permits.pop(data.draw(st.integers(0, len(permits) - 1)))
            status = report(permit, data.draw(st.sampled_from([0, 1, 1, 1, 2, 3])), now)
            assert status in ((weir.OK, weir.ENOTFOUND) if permit.until_ns > now else (weir.ENOTFOUND,))
            continue
        raw, permit = acquire(now)
        if raw.allowed:
            assert now < permit.until_ns <= latest + p["permit_timeout_ns"] + p.get("judge_only", 0)
            permits.append(permit)
        else:
            assert 0 < raw.retry_after_ns <= max(S, models.DAY_NS + longest)
    # Each call finds all over that an earlier one has begun. It is no day: nothing is forgotten.
    step = p["permit_timeout_ns"] + longest + p["ramp_ns"] + window + 1
    at = latest
    for n in range(p.get("calls", 0) + p["probes"] + 5):
        raw, permit = acquire(at)
        assert raw.allowed or n <= 1  # the time of the last permits is over at the second one
        assert not raw.allowed or report(permit, 0, at) == weir.OK
        at += step
    at_once = [acquire(at)[0].allowed for _ in range(min(p["probes"] + 1, model.most or 9999))]
    assert all(at_once)  # as no half-open one would


def test_presets_have_the_defaults_of_what_they_are_named_after():
    hystrix, resilience4j = Both("hystrix"), Both("resilience4j")
    assert hystrix.peek()["quota"] == 10
    hystrix.calls(19, "failure")
    hystrix.now += S
    assert hystrix.peek()["allowed"]
    hystrix.calls(1, "failure")
    assert hystrix.model.phase == "closed"  # the part of now does not count yet
    assert not hystrix.acquire(after=S // 2)
    resilience4j.calls(99, "failure")
    resilience4j.calls(1, "success")
    assert resilience4j.model.phase == "open"
    assert resilience4j.peek()["retry_after_ns"] == 60 * S


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bound", [{}, {"max_concurrent": 3}, {"preset": "hystrix"}])
def test_a_breaker_that_only_judges_denies_nobody_and_counts_as_one_that_denies(bound, seed):
    """The reports of requests that the other one denied are taken, and count for nothing. All times are even."""
    draw, options = random.Random(seed), {"minimum": 3, "ramp_ns": 0, "sleep_max_ns": 60 * S, **bound}
    judge, denies = Both(judge_only=1, **options), Both(**options)
    judge.now = denies.now = NOW + 1
    phases, denied = set(), 0
    for _ in range(300):
        after = draw.choice([0, 0, 0, 2, S, 2 * S, 5 * S, 9 * S])
        if denies.permits and draw.random() < 0.5:
            which, outcome = draw.randrange(len(denies.permits)), draw.choice(["success", "failure", "ignored"])
            assert judge.report(outcome, which, after=after) == denies.report(outcome, which, after=after)
        else:
            assert judge.acquire(after)
            if not denies.acquire(after):
                denied += 1
                assert judge.report(draw.choice(["success", "failure"]), -1)
        assert judge.peek()["allowed"]
        assert (judge.model.phase, judge.model.since) == (denies.model.phase, denies.model.since)
        assert judge.model.in_flight() == denies.model.in_flight()
        phases.add(judge.model.phase)
    assert denied > 10 and phases == {"closed", "open", "half_open"}


def test_a_breaker_that_only_judges_passes_while_it_is_forced_open():
    table, limit = weir.Table(100), breaker_limit("none", judge_only=1)
    key = Key(table, limit, b"key", models.breaker(judge_only=1))
    key.force(NOW, "open", 0)
    key.acquire(NOW + 1)
    assert key.permits
    key.report(NOW + 2, 0, "failure", 0)


@pytest.mark.parametrize("bound", [{}, {"max_concurrent": 100}])
@pytest.mark.parametrize("before, after", [({}, {"judge_only": 1}), ({"judge_only": 1}, {})])
def test_a_reload_of_judge_only_loses_no_permit(bound, before, after):
    """One permit that were lost would count as a timeout, and open it."""
    table = weir.Table(1000)
    one, other = (breaker_limit("none", failures=1, permit_timeout_ns=10 * S, **judges, **bound)
                  for judges in (before, after))
    keys = [Key(table, one, b"key", models.breaker(failures=1, permit_timeout_ns=10 * S, **bound))]
    permits = []
    for n in range(40):
        raw, permit = weir.RawDecision(), Permit()
        assert keys[0].ask(key_permit, 1, NOW + n, ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        assert raw.allowed
        permits.append(permit)
    keys[0].limit = other
    for permit in permits:
        assert keys[0].ask(key_report, ctypes.byref(permit), 0, 1, NOW + S) == weir.OK
    # An open one has a state until it may probe.
    assert table.call(other, b"key", "peek", NOW + 14 * S)["reset_after_ns"] == 0


def test_a_number_of_failures_opens_it_whatever_their_share():
    both = Both(failures=3)
    both.calls(2, "failure")
    both.calls(50, "success")
    assert both.acquire()
    both.report("failure")
    assert both.model.phase == "open"


def test_a_number_of_failures_above_that_of_probes_is_all_of_them():
    both = Both("resilience4j", failures=40, probes=3)
    both.calls(40, "failure")
    for outcomes, phase in ((["failure"] * 3, "open"), (["failure", "failure", "success"], "closed")):
        both.now += 60 * S
        for _ in outcomes:
            assert both.acquire()
        for outcome in outcomes:
            both.report(outcome)
        assert both.model.phase == phase


def test_half_open_is_not_stuck_after_an_ignored_probe():
    both = Both(ramp_ns=0).open()
    assert both.acquire(after=5 * S) and not both.acquire()
    both.report("ignored")
    assert both.acquire() and both.report("success")
    assert both.model.phase == "closed"


def test_half_open_is_not_stuck_after_a_lost_probe():
    both = Both().open()
    assert both.acquire(after=5 * S)
    assert not both.acquire(after=5 * S - 1)
    assert not both.acquire(after=1)  # it counts as failed: open again, since then
    assert both.acquire(after=5 * S)


@pytest.mark.parametrize("given_parameters, timeout", [
    ({}, 5 * S), ({"slow_ns": 4 * S}, 8 * S), ({"slow_ns": 100 * S}, 60 * S), ({"permit_timeout_ns": S}, S),
    ({"preset": "hystrix"}, 60 * S), ({"preset": "hystrix", "permit_timeout_ns": 9 * S}, 9 * S),
    ({"probe_timeout_ns": 30 * S}, 30 * S), ({"probe_timeout_ns": 90 * S}, 60 * S)])
def test_a_lost_probe_ends_after_its_own_time(given_parameters, timeout):
    both = Both(**{"minimum": 1, **given_parameters})
    both.acquire()
    both.report("failure")
    both.now += 5 * S
    if "hystrix" in given_parameters.values():
        both.acquire()  # its window counts finished parts only
        both.now += 5 * S
    while not both.acquire():
        both.now += S // 10
    assert both.model.phase == "half_open"
    assert not both.acquire(after=timeout - 1) and both.model.phase == "half_open"
    assert not both.acquire(after=1) and both.model.phase == "open"


def test_a_lost_probe_keeps_its_place_of_the_bulkhead_until_its_permit_ends():
    both = Both(minimum=1, max_concurrent=2, ramp_ns=0)
    both.calls(1, "failure")
    assert both.acquire(after=5 * S) and not both.acquire(after=5 * S)  # lost: open again
    assert both.acquire(after=5 * S)
    both.report("success", -1)
    assert both.model.phase == "closed"
    assert both.acquire() and not both.acquire()
    assert both.report("success")  # of the lost probe: it ends the permit, and says nothing
    assert both.acquire()


def test_half_open_with_sparse_traffic_closes():
    both = Both(probes=3, ramp_ns=0).open()
    for _ in range(3):
        assert both.acquire(after=3600 * S)
        both.report("success", after=S)
    assert both.model.phase == "closed"


def test_a_lost_probe_of_sparse_traffic_costs_no_further_denial():
    both = Both().open()
    assert both.acquire(after=3600 * S)
    assert both.acquire(after=3600 * S)  # it opened again when the probe's time was over


def test_each_failed_probe_doubles_the_sleep_up_to_the_greatest_and_closing_resets_it():
    both = Both(sleep_max_ns=60 * S, ramp_ns=0).open()

    def sleeps():
        both.now += both.peek()["retry_after_ns"] - 1
        assert not both.acquire() and both.acquire(after=1)
        return both.now - both.model.since

    def retries():
        return both.peek()["retry_after_ns"]

    assert retries() == 5 * S
    for about in (10, 20, 40, 60, 60, 60):
        sleeps()
        both.report("failure")
        assert abs(retries() - about * S) <= about * S // 10 and retries() <= 60 * S
    sleeps()
    both.report("success")
    assert both.model.phase == "closed"
    assert both.open().peek()["retry_after_ns"] == 5 * S


@pytest.mark.parametrize("later", [60 * S, 15 * S, 300 * S])
@pytest.mark.parametrize("in_half_open", [False, True])
def test_a_file_keeps_a_doubled_sleep_over_a_restart(tmp_path, in_half_open, later):
    """Each probe fails, and the table is opened again after it, or while the probe is on its way."""
    path = str(tmp_path / "state").encode()
    given_parameters = {"failures": 1, "ramp_ns": 0, "sleep_max_ns": 60 * S}
    table, limit, now = weir.Table(1000, path), breaker_limit("none", **given_parameters), NOW
    key = Key(table, limit, b"key", models.breaker(**given_parameters))

    def restart(sleep_max_ns):
        key.table = None  # closes it
        key.table = weir.Table(path=path)
        key.limit = breaker_limit("none", **{**given_parameters, "sleep_max_ns": sleep_max_ns})
        key.model.p["sleep_max_ns"] = sleep_max_ns
        key.look("peek", now)

    def fail(restarts):
        key.acquire(now)
        if restarts and in_half_open:
            restart(later)
        key.report(now, 0, "failure", 0)
        if restarts and not in_half_open:
            restart(later)

    def retry():
        return key.table.call(key.limit, key.name, "peek", now)["retry_after_ns"]

    fail(restarts=False)
    for about in (5, 10, 20, 40, 80, 160):
        expected = min(about * S, later)
        assert abs(retry() - expected) <= expected // 10 and retry() <= later
        now += retry()
        fail(restarts=True)


def test_minimum_calls_above_permitted_probes_does_not_keep_it_half_open():
    both = Both("resilience4j", probes=2, minimum=50)
    both.calls(50, "failure")
    assert both.acquire(after=60 * S) and both.acquire() and not both.acquire()
    both.report("success")
    both.report("success")
    assert both.model.phase == "closed"


def test_late_success_does_not_close_a_breaker_that_has_opened_again():
    both = Both(probes=2).open()
    assert both.acquire(after=5 * S) and both.acquire()
    both.report("failure")
    assert both.model.phase == "open"
    assert both.report("success")  # its permit was held, and says nothing
    assert both.model.phase == "open"
    assert both.acquire(after=5 * S)
    assert both.model.phase == "half_open"


def test_results_from_before_a_transition_do_not_count_after_it():
    both = Both(minimum=1, ramp_ns=0)
    for _ in range(5):
        assert both.acquire()
    both.report("failure")
    assert both.acquire(after=5 * S)
    both.report("success", -1)
    assert both.model.phase == "closed"
    for _ in range(4):
        assert both.report("failure")
    assert both.acquire()


def test_hung_calls_are_seen_by_a_breaker_that_counts_on_completion():
    both = Both()
    for _ in range(20):
        assert both.acquire()
    assert not both.acquire(after=60 * S)


def test_its_own_refusals_are_no_failures():
    both = Both(ramp_ns=0).open()
    for _ in range(100):
        assert not both.acquire()
    assert both.acquire(after=5 * S)
    both.report("success")
    assert both.model.phase == "closed" and both.acquire()


def test_probe_limit_holds_and_a_refunded_probe_is_free_again():
    """As when a later rule refuses the request that would have been the probe."""
    both = Both().open()
    assert both.acquire(after=5 * S) and not both.acquire()
    both.refund()
    assert both.acquire()


def test_after_closing_calls_come_back_bit_by_bit():
    both = Both().open()
    assert both.acquire(after=5 * S)
    both.report("success")
    passed = []
    for _ in range(5):
        passed.append(sum(both.acquire(after=10**6) for _ in range(1000)))
        while both.permits:
            both.report("success")
    assert sorted(passed) == passed and passed[0] < 300 and passed[-1] > 800
    assert both.acquire(after=S) and both.model.phase == "closed"


def test_a_bulkhead_takes_back_what_is_lost():
    both = Both(max_concurrent=3)
    assert [both.acquire(after=S) for _ in range(4)] == [True, True, True, False]
    assert both.peek()["reason"] == "over_limit"
    both.report("success")
    assert both.acquire() and not both.acquire()
    both.now += 59 * S - 2 * S
    assert not both.acquire() and both.acquire(after=S)


def test_a_clock_that_was_set_back_locks_no_bulkhead():
    limiter, _ = breaker(max_concurrent=1)
    assert limiter.call("acquire", NOW)["allowed"]
    assert not limiter.call("acquire", NOW - 3600 * S)["allowed"]
    assert limiter.call("acquire", NOW - 30 * models.DAY_NS)["allowed"]


def test_a_permit_that_is_reported_late_says_nothing():
    both = Both(minimum=1)
    assert both.acquire()
    assert not both.report("success", after=60 * S)
    assert not both.acquire()


@pytest.mark.parametrize("changes", [{"window_ns": S, "calls": 5}, {"calls": 1001}, {"probes": 101},
                                     {"failure_percent": 101}, {"sleep_ns": 1},
                                     {"failures": 5, "minimum": 5}, {"failures": 5, "failure_percent": 50},
                                     {"failures": 1000001}, {"preset": 3}])
def test_impossible_parameters_are_refused(changes):
    with pytest.raises(weir.WeirError):
        weir.Limiter(weir.options(weir.BREAKER, **weir.own("breaker", **changes)))
