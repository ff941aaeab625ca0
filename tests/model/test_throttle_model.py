"""Client-side throttling: the library against the model over random histories, and traps by name."""

import ctypes
from fractions import Fraction

import models
import pytest
import weir
from hypothesis import given, settings
from hypothesis import strategies as st
from permits import OUTCOMES, Permit, key_permit, key_report, lib, limiter_permit, limiter_report

NOW = 1_700_000_000_123_456_789
S = 10**9
WINDOW = 120 * S
PRESETS = ["none", "kratos", "go-zero"]
DEFAULTS = {"none": {"window_ns": WINDOW, "k": 2, "permit_timeout_ns": 60 * S},
            "kratos": {"window_ns": 3 * S, "k": 1 / 0.6, "minimum": 100},
            "go-zero": {"window_ns": 10 * S, "k": 1.5}}


def throttle(preset="none", retry_ns=S, **given):
    """The limiter, and the model of the same parameters, defaults filled in."""
    limiter = weir.Limiter(weir.options(
        weir.THROTTLE, retry_ns=retry_ns,
        **weir.own("throttle", preset=PRESETS.index(preset), **given)))
    full = {**DEFAULTS["none"], **DEFAULTS[preset], **given}
    return limiter, models.Throttle({"preset": preset, "retry_ns": retry_ns, **full})


class Both:
    """The library and the model, asked the same and compared."""

    def __init__(self, *args, seed=5, **others):
        self.limiter, self.model = throttle(*args, **others)
        self.now, self.permits = NOW, []
        self.seed(seed)

    def seed(self, seed):
        weir.lib.weir_seed(seed)
        self.model.draw = models.splitmix64(seed)

    def acquire(self, after=0, cost=1):
        self.now += after
        raw, permit = weir.RawDecision(), Permit()
        assert limiter_permit(
            self.limiter.handle, cost, self.now, ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        known = {"id": 1}
        assert weir._plain(raw) == self.model.call("acquire", self.now, cost, known)
        assert permit.until_ns == known.get("until_ns", 0)
        if raw.allowed and cost:
            self.permits.append((permit, known))
        return raw.allowed

    def call(self, operation, cost=None):
        found = self.limiter.call(operation, self.now, *([] if cost is None else [cost]))
        assert found == self.model.call(operation, self.now, cost)
        return found

    def report(self, outcome="success", which=0, after=0, keep=False):
        """Whether the permit was held."""
        self.now += after
        permit, known = self.permits[which] if keep else self.permits.pop(which)
        status = limiter_report(
            self.limiter.handle, ctypes.byref(permit), OUTCOMES.index(outcome), 0, self.now)
        expected = self.model.call("report", self.now, 1, known, outcome=outcome)
        assert status == (weir.OK if expected["allowed"] else weir.ENOTFOUND)
        return status == weir.OK

    def refund(self, which=0):
        permit, known = self.permits.pop(which)
        raw = weir.RawDecision()
        lib.weir_limiter_refund_permit(self.limiter.handle, ctypes.byref(permit), self.now,
                                       ctypes.byref(raw))
        assert weir._plain(raw) == self.model.call("refund", self.now, 1, known)

    def calls(self, n, outcome, after=0):
        """So many calls; how many passed."""
        passed = 0
        for _ in range(n):
            if self.acquire(after):
                self.report(outcome, -1)
                passed += 1
        return passed

    @property
    def share(self):
        return self.model.share(self.model.at(self.now))


@st.composite
def parameters(draw):
    some = {"window_ns": st.integers(10**6, 30 * S),
            "k": st.floats(1, 5) | st.sampled_from([1, 1.1, 1000]),
            "minimum": st.integers(1, 8), "permit_timeout_ns": st.integers(10**6, 40 * S)}
    chosen = draw(st.sets(st.sampled_from(sorted(some))))
    return draw(st.sampled_from(sorted(PRESETS))), {name: draw(some[name])
                                                    for name in sorted(chosen)}


@settings(deadline=None)
@given(st.data())
def test_random_histories(data):
    preset, given_parameters = data.draw(parameters())
    both = Both(preset, seed=data.draw(st.integers(0, 2**64 - 1)), **given_parameters)
    part = both.model.part_ns
    steps = st.sampled_from([0, 0, 0, 1, 10**6, part, S - 1, S, both.model.timeout,
                             both.model.window_ns, -1, -part, -3 * part,
                             -2 * both.model.window_ns]) | st.integers(0, 2 * S)
    bad = data.draw(st.sampled_from([0, 0.5, 0.9, 1]))
    for _ in range(data.draw(st.integers(1, 60))):
        both.now += data.draw(steps)
        what = data.draw(st.sampled_from(["acquire"] * 9 + ["report"] * 6 + ["peek", "refund",
                                                                            "take", "reset"]))
        if what in ("report", "refund") and not both.permits:
            what = "acquire"
        which = data.draw(st.integers(0, max(len(both.permits) - 1, 0)))
        if what == "report":
            failed = data.draw(st.floats(0, 1)) < bad
            both.report(data.draw(st.sampled_from(OUTCOMES[1:] if failed else ["success"])), which)
        elif what == "refund":
            both.refund(which)
        elif what == "take":
            both.call("refund", data.draw(st.integers(0, 9)))
        elif what == "acquire":
            both.acquire(cost=data.draw(st.sampled_from([0, 1, 1, 1, 1, 1, 7])))
        else:
            both.call(what)


def test_healthy_traffic_loses_nothing():
    both = Both()
    assert both.calls(1000, "success", after=10**8) == 1000


def test_half_accepted_is_fine_with_k_2_and_less_is_not():
    both = Both()
    for _ in range(500):
        both.calls(1, "success")
        both.calls(1, "failure")
    both.now += 1
    assert both.share <= Fraction(1, 500)
    both.calls(2000, "failure", after=10**6)
    assert both.share > Fraction(1, 2)


def test_denied_attempts_count_as_requests():
    both = Both()
    shares = []
    for _ in range(5):
        both.calls(50, "failure", after=10**6)
        shares.append(both.share)
    assert shares == sorted(shares) and shares[-1] == Fraction(250, 251)


def test_calls_in_flight_count_as_requests():
    both = Both()
    assert both.acquire()
    assert both.share == Fraction(1, 2)
    both.report("success")
    assert both.share == 0


def test_hung_calls_are_seen():
    """Nobody reports them, and they are not counted on completion."""
    both = Both()
    passed = sum(both.acquire(after=10**6) for _ in range(500))
    assert passed < 20


def test_at_least_one_request_a_second_passes():
    both = Both()
    both.calls(3000, "failure", after=10**6)
    passed = []
    for _ in range(30_000):
        if both.acquire(after=10**6):
            passed.append(both.now)
            both.report("failure", -1)
    assert max(b - a for a, b in zip(passed, passed[1:], strict=False)) <= S
    assert 29 <= len(passed) < 60


def test_a_pass_each_second_is_one_however_many_ask():
    both = Both()
    both.calls(3000, "failure")
    assert sum(both.acquire() for _ in range(3000)) <= 3


def test_it_recovers_when_the_thing_behind_does():
    both = Both("go-zero")
    both.calls(2000, "failure", after=10**7)
    assert both.share > Fraction(9, 10)
    both.calls(3000, "success", after=10**7)
    assert both.share == 0


def test_ignored_results_count_neither_way():
    both = Both()
    for _ in range(100):
        assert both.acquire()
        both.report("ignored")
    assert both.share == 0 and both.call("peek")["reset_after_ns"] == 0


def test_a_request_that_a_later_rule_refuses_is_not_counted():
    both = Both()
    for _ in range(100):
        assert both.acquire()
        both.refund()
    assert both.share == 0


def test_an_ignored_result_leaves_with_its_part():
    both = Both()
    assert both.acquire()
    both.now += WINDOW
    both.calls(1, "success")
    both.permits.pop()
    assert both.share == 0


def test_cost_0_and_peek_count_nothing():
    both = Both()
    for _ in range(10):
        assert both.call("peek", 1)["allowed"] and both.call("peek", 0)["allowed"]
        assert both.acquire(cost=0)
    assert both.call("peek")["reset_after_ns"] == 0


def test_a_permit_that_is_reported_late_says_nothing():
    both = Both()
    assert both.acquire()
    assert not both.report("success", after=60 * S)
    assert both.share == Fraction(1, 2)


def test_a_limiter_without_keys_counts_each_report_of_a_permit():
    """As weir.h says: it keeps no list of permits. Their callers report each once."""
    both = Both()
    for _ in range(10):
        assert both.acquire()
        assert both.report("failure", -1, keep=True)
        assert both.report("success", -1, keep=True)
    assert [sum(column) for column in list(zip(*both.model.counts.values()))[:2]] == [10, 10]
    assert both.share == 0
    assert not both.report("success", after=60 * S)  # but none whose time is over


def test_a_second_report_of_a_tables_permit_has_no_effect():
    limit = weir.Limit(weir.options(weir.THROTTLE))
    table, one = weir.Table(1000), (b"one",)
    raw, permit, passed = weir.RawDecision(), Permit(), 0
    weir.lib.weir_seed(5)
    for _ in range(200):
        assert key_permit(table.handle, limit.handle, *one, 1, NOW, ctypes.byref(raw),
                                       ctypes.byref(permit)) == weir.OK
        if not raw.allowed:
            continue
        passed += 1
        for status, outcome in ((weir.OK, "failure"), *3 * [(weir.ENOTFOUND, "success")]):
            assert key_report(table.handle, limit.handle, *one, ctypes.byref(permit),
                                   OUTCOMES.index(outcome), 0, NOW) == status
    assert passed < 40  # each success that counted would let two more through


def test_slow_calls_of_a_healthy_thing_are_no_rejections():
    """They take longer than the window: what comes back now counts now."""
    both = Both("kratos", minimum=1)
    for _ in range(400):
        both.acquire(after=10**7)
    both.now += 20 * S
    passed = 0
    while both.permits:
        both.report("success", after=10**7)
        passed += both.acquire()
        if passed > 300:
            break
    assert passed > 300


def test_a_clock_that_was_set_back_locks_nothing():
    both = Both()
    both.calls(3000, "failure", after=10**6)
    both.now -= 3600 * S
    assert both.calls(100, "success", after=10**6) == 100


def test_a_clock_that_is_a_little_behind_forgets_nothing():
    both = Both()
    both.calls(3000, "failure", after=10**6)
    share = both.share
    both.now -= 60 * S
    assert both.share == share
    assert both.calls(1000, "failure") <= 2


def test_alternating_clocks_mint_no_passes():
    both = Both()
    both.calls(3000, "failure", after=10**6)
    passed = 0
    for _ in range(1000):
        passed += both.calls(1, "failure", after=10 * S) + both.calls(1, "failure", after=-10 * S)
    assert passed < 10


def test_a_window_that_is_over_says_nothing():
    both = Both()
    both.calls(3000, "failure")
    both.now += WINDOW - 3 * S
    assert both.share > 0
    both.now += 3 * S
    assert both.share == 0 and both.call("peek")["reset_after_ns"] == 0


def test_presets_have_the_numbers_of_what_they_are_named_after():
    kratos, go_zero = Both("kratos"), Both("go-zero")
    for _ in range(99):
        assert kratos.acquire()
    assert kratos.share == 0
    assert kratos.acquire() and kratos.share == Fraction(100, 101)
    for _ in range(5):
        assert go_zero.acquire()
    assert go_zero.share == 0  # five are not held against anybody
    assert go_zero.acquire() and go_zero.share == Fraction(1, 7)


@pytest.mark.parametrize("changes", [{"k": 0.99}, {"k": 1001}, {"k": float("nan")},
                                     {"window_ns": 1}, {"preset": 3}, {"minimum": 1000001}])
def test_impossible_parameters_are_refused(changes):
    with pytest.raises(weir.WeirError):
        weir.Limiter(weir.options(weir.THROTTLE, **weir.own("throttle", **changes)))
