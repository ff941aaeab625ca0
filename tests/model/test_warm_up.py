"""warm_up: the library against its model, exact in every field, and against the formula itself."""

import math
from fractions import Fraction

import models
import pytest
import weir
from hypothesis import assume, given
from hypothesis import strategies as st
from test_traces import agree, rates

MS = 10**6
S = 10**9
YEAR = 366 * models.DAY_NS
NOW = 1_700_000_000 * S

durations = st.sampled_from([MS, S, 10 * S, 3600 * S, YEAR]) | st.integers(MS, YEAR)
colds = st.sampled_from([1000, 1500, 3000, 10**7]) | st.integers(1000, 10**7)


def most_stored(count, period_ns, warm_up, cold):
    return warm_up * Fraction(count, period_ns) * (5 + cold) / (2 * (1 + cold))


@st.composite
def warm_ups(draw):
    count, period, unit = draw(rates)
    period_ns = period * weir.UNIT_NS[unit]
    cold = Fraction(draw(colds), 1000)
    warm_up = draw(durations)
    if most_stored(count, period_ns, warm_up, cold) > 2**32:
        warm_up = max(MS, int(2**32 * 2 * (1 + cold) / (5 + cold) * Fraction(period_ns, count)))
        count = min(count, 2**32 * period_ns // (2 * warm_up)) or 1  # where 1 ms is too long
    wait = draw(st.sampled_from([0, 1, S, 30 * S, YEAR]) | st.integers(0, YEAR))
    options = weir.options(weir.WARM_UP, count, period, unit, warm_up_ns=warm_up, cold=float(cold),
                           max_wait_ns=wait or weir.ZERO)
    interval = Fraction(period_ns, count)
    return (options, lambda: models.WarmUp(count, period_ns, warm_up, cold, wait),
            [interval, cold * interval, Fraction(warm_up), Fraction(wait), 2 * warm_up + wait])


@given(st.data())
def test_it_agrees_with_the_model(data):
    agree(data.draw, data.draw(warm_ups()))


class Formula:
    """Its words, and nothing rounded."""

    def __init__(self, count, period_ns, warm_up, cold):
        self.interval, self.warm_up, self.cold = Fraction(period_ns, count), warm_up, cold
        self.threshold = warm_up / (2 * self.interval)
        self.most = self.threshold + 2 * warm_up / (self.interval + cold * self.interval)
        self.end, self.stored = Fraction(0), self.most

    def length(self, stored):
        slope = (self.cold - 1) * self.interval / (self.most - self.threshold)
        return self.interval + max(stored - self.threshold, 0) * slope

    def start(self, now, cost):
        """When a request starts."""
        if now > self.end:
            self.stored = min(self.stored + (now - self.end) * self.most / self.warm_up, self.most)
            self.end = Fraction(now)
        start, taken = self.end, min(self.stored, cost)
        slow = min(taken, max(self.stored - self.threshold, 0))
        lengths = self.length(self.stored) + self.length(self.stored - slow)
        self.end += slow * lengths / 2 + (cost - slow) * self.interval
        self.stored -= taken
        return start


@given(st.sampled_from([(5, S), (3, S), (100, S), (7000, S), (10**6, S), (1, 60 * S), (99_991, S)]),
       st.sampled_from([MS, S, 10 * S, 3600 * S]), st.sampled_from([1000, 1500, 3000, 20_000]),
       st.lists(st.tuples(st.booleans(), st.integers(0, 100), st.integers(1, 50)), max_size=40))
def test_starts_are_those_of_the_formula_to_what_is_kept(rate, warm_up, cold, requests):
    cold = Fraction(cold, 1000)
    formula, now = Formula(*rate, warm_up, cold), NOW
    assume(formula.most < 2**31)
    limiter = weir.Limiter(weir.options(weir.WARM_UP, *rate, weir.NANOSECOND, warm_up_ns=warm_up,
                                        cold=float(cold), max_wait_ns=YEAR))
    kept = max(Fraction(1, 2**20), formula.most / 2**32)
    # How much more or less may be stored, and how much later or earlier the end may be.
    stored_off, end_off, rested = Fraction(0), Fraction(0), False
    for rests, share, cost in requests:
        if rests:
            now = max(now, math.ceil(formula.end + 1)) + warm_up * share // 50
            rested = rested or now > NOW
            stored_off += kept + (end_off + 1) * formula.most / warm_up
        start = formula.start(now, cost)
        decision = limiter.call("acquire", now, cost)
        found = now + decision["wait_ns"]
        assert decision["allowed"]
        assert abs(found - start) <= end_off + 1
        assert rested or found >= start, "before the first rest, none is early"
        end_off = 1 + (stored_off + kept) * cold * formula.interval


@given(st.sampled_from([(5, S), (3, S), (100, S), (2, 3 * S), (1, 60 * S), (100, 86_400 * S)]),
       st.sampled_from([MS, S, 10 * S]), st.sampled_from([1000, 1500, 3000, 20_000]),
       st.lists(st.tuples(st.integers(1, 30), st.integers(0, 60)), max_size=8),
       st.lists(st.integers(1, 30), min_size=1, max_size=3))
def test_turns_given_back_at_once_leave_the_key_as_it_was(rate, warm_up, cold, before, costs):
    """After any use and rests, newest first; `before` has costs, and rests in parts of the warm-up."""
    limiter = weir.Limiter(weir.options(weir.WARM_UP, *rate, weir.NANOSECOND, warm_up_ns=warm_up,
                                        cold=cold / 1000, max_wait_ns=YEAR))
    now, f = NOW, Fraction(cold, 1000)
    part = Fraction(1, 2**20)
    colder = part * (warm_up / most_stored(*rate, warm_up, f) + f * Fraction(rate[1], rate[0])) + 2
    for cost, rest in before:
        limiter.call("acquire", now, cost)
        if rest:
            now += limiter.call("peek", now)["wait_ns"] + warm_up * rest // 50
    known = [limiter.call("peek", now)]
    for cost in costs:
        assert limiter.call("acquire", now, cost)["allowed"]
        known.append(limiter.call("peek", now))
    while costs:
        assert limiter.call("refund", now, costs.pop())["allowed"]
        known.pop()
        found = limiter.call("peek", now)
        assert found["allowed"]
        # The first turn after a rest rounds up what was stored, by less than a part: towards colder.
        assert 0 <= found["wait_ns"] - known[-1]["wait_ns"] <= 1
        assert 0 <= known[-1]["remaining"] - found["remaining"] <= 1
        assert -colder <= found["reset_after_ns"] - known[-1]["reset_after_ns"] <= 2


@pytest.mark.parametrize("cold", [1, 2, 3, 10])
def test_a_cold_key_is_warm_after_warm_up_of_use(cold):
    limiter = weir.Limiter(weir.options(weir.WARM_UP, 100, warm_up_ns=10 * S, cold=float(cold)))
    starts = [limiter.call("acquire", NOW, 1)["wait_ns"] for _ in range(1500)]
    gaps = [b - a for a, b in zip(starts, starts[1:])]
    assert gaps[0] == pytest.approx(cold * S // 100, rel=0.01)
    assert all(a >= b for a, b in zip(gaps, gaps[1:]))
    warm = next(start for start, gap in zip(starts, gaps) if gap == S // 100)
    assert cold == 1 or warm == pytest.approx(10 * S, rel=0.01)
    assert gaps[-1] == S // 100


@pytest.mark.parametrize("count", [3, 7, 7000, 99_991])
def test_no_rate_drifts(count):
    """T is not whole nanoseconds, and a million requests come in a row."""
    limiter = weir.Limiter(weir.options(weir.WARM_UP, count, warm_up_ns=S, max_wait_ns=YEAR))
    limiter.call("acquire", NOW, 2 * count)
    first = limiter.call("acquire", NOW, 1)["wait_ns"]
    for _ in range(999):
        limiter.call("acquire", NOW, 1000)
    last = limiter.call("acquire", NOW, 1)["wait_ns"]
    assert abs(last - first - Fraction(999_001 * S, count)) < 1


def test_a_rest_makes_it_cold_again_bit_by_bit():
    limiter = weir.Limiter(weir.options(weir.WARM_UP, 100, warm_up_ns=10 * S, max_wait_ns=60 * S))
    used = limiter.call("acquire", NOW, 2000)
    end = NOW + limiter.call("peek", NOW)["wait_ns"]
    assert NOW + used["reset_after_ns"] == end + 10 * S

    def gap(now):
        limiter.call("acquire", now, 1)
        return limiter.call("peek", now)["wait_ns"]

    # Up to the threshold, which is reached at half of it, it's warm.
    assert gap(end + 4 * S) == S // 100
    assert gap(end + 9 * S) > 2 * S // 100
    assert gap(end + 60 * S) > 29 * S // 1000


def test_more_than_a_word_can_tell_is_refused():
    most = dict(count=2**32, warm_up_ns=S, cold=3.0)
    weir.Limiter(weir.options(weir.WARM_UP, **most))
    with pytest.raises(weir.WeirError, match="warm_up_ns: expected at most 2\\^32 permits") as error:
        weir.Limiter(weir.options(weir.WARM_UP, **{**most, "warm_up_ns": S + 1}))
    assert error.value.status == weir.ERANGE
