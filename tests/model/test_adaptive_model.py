"""Measured limits: the library against the model over random histories, and traps by name."""

import ctypes

import models
import pytest
import weir
from hypothesis import given, settings
from hypothesis import strategies as st
from permits import OUTCOMES, Permit, key_permit, key_report, lib, limiter_permit, limiter_report

NOW = 1_700_000_000_123_456_789
S = 10**9
PARTS = 6  # of permits in flight
METHODS = ["knee", "gradient2", "vegas", "aimd", "bbr"]


class Both:
    """The library and the model, asked the same and compared."""

    def __init__(self, method="knee", permit_timeout_ns=60 * S, retry_ns=S, **bounds):
        self.limiter = weir.Limiter(weir.options(
            weir.ADAPTIVE, retry_ns=retry_ns,
            **weir.own("adaptive", method=METHODS.index(method),
                       permit_timeout_ns=permit_timeout_ns, **bounds)))
        self.model = models.Adaptive({"method": method, "permit_timeout_ns": permit_timeout_ns,
                                      "retry_ns": retry_ns, **bounds})
        self.now, self.permits = NOW, []

    def same(self, operation, *arguments):
        found = self.limiter.call(operation, self.now, *arguments)
        assert found == self.model.call(operation, self.now, *arguments)
        return found

    def acquire(self):
        raw, permit, known = weir.RawDecision(), Permit(), {"id": 1}
        assert limiter_permit(
            self.limiter.handle, 1, self.now, ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        assert weir._plain(raw) == self.model.call("acquire", self.now, 1, known)
        assert permit.until_ns == known.get("until_ns", 0)
        if raw.allowed:
            self.permits.append((permit, known))
        return raw.allowed

    def report(self, outcome="success", which=0, latency=0):
        permit, known = self.permits.pop(which)
        status = limiter_report(
            self.limiter.handle, ctypes.byref(permit), OUTCOMES.index(outcome), latency, self.now)
        expected = self.model.call("report", self.now, 1 if known["until_ns"] > self.now else 0,
                                   known, outcome=outcome, latency_ns=latency)
        assert status == (weir.OK if expected["allowed"] else weir.ENOTFOUND)
        return status == weir.OK

    def refund(self, which):
        permit, known = self.permits.pop(which)
        raw = weir.RawDecision()
        lib.weir_limiter_refund_permit(self.limiter.handle, ctypes.byref(permit), self.now,
                                       ctypes.byref(raw))
        cost = 1 if known["until_ns"] > self.now else 0
        assert weir._plain(raw) == self.model.call("refund", self.now, cost, known)


@st.composite
def bounds(draw):
    least, most = sorted([draw(st.integers(1, 60)), draw(st.integers(1, 60))])
    return draw(st.sampled_from([{}, {"min": least}, {"max": most}, {"min": least, "max": most},
                                 {"initial": (least + most) // 2, "min": least, "max": most}]))


@settings(deadline=None)
@given(st.data())
def test_random_histories(data):
    timeout = data.draw(st.integers(10**6, 100 * S))
    both = Both(data.draw(st.sampled_from(METHODS)), timeout, **data.draw(bounds()))
    steps = st.sampled_from([0, 0, 0, 1, 255, 256, 10**6, timeout // 5, timeout - 1, timeout,
                             timeout * 6 // 5, 3600 * S - 1, 3600 * S, -timeout // 5,
                             -3 * models.DAY_NS]) | st.integers(0, timeout // 3)
    for _ in range(data.draw(st.integers(1, 60))):
        both.now += data.draw(steps)
        kind = data.draw(st.integers(0, 11))
        if kind < 5 or not both.permits:
            both.acquire()
        elif kind < 9:
            both.report(data.draw(st.sampled_from(OUTCOMES)),
                        data.draw(st.integers(0, len(both.permits) - 1)),
                        data.draw(st.sampled_from([0, 1, 10**6, 10**9, 2**60])))
        elif kind == 9:
            both.refund(data.draw(st.integers(0, len(both.permits) - 1)))
        elif kind == 10:
            both.same("refund", data.draw(st.integers(0, 3)))
        else:
            both.same(data.draw(st.sampled_from(["reset", "peek", "peek", "peek"])))


@pytest.mark.parametrize("method", METHODS)
def test_a_clock_that_goes_back_and_returns_holds_no_permit_for_longer(method):
    """Parts are told apart by twelve bits of their number; a clock may go back by any number of them."""
    timeout = 10**6
    for hours in range(1, 25):
        both = Both(method, timeout, min=1, max=100, initial=10)
        part, latest = both.model.part_ns, NOW
        for now in (NOW, NOW - hours * 3600 * S, NOW - hours * 3600 * S + 1, NOW, NOW + part):
            raw, permit = weir.RawDecision(), Permit()
            latest = max(latest, now)
            assert limiter_permit(both.limiter.handle, 1, now, ctypes.byref(raw),
                                                   ctypes.byref(permit)) == weir.OK
            assert raw.allowed and now < permit.until_ns <= latest + timeout + part
        after = both.limiter.call("peek", latest + PARTS * part)
        assert after["remaining"] == after["quota"]


def serve(both, answers, workers, draw, wanted=200):
    """`workers`, each at work for some 10 ms on a request: first come, first served."""
    for n in range(answers):
        while len(both.permits) < wanted and both.acquire():
            pass
        both.now += 2 * (draw() % 10**7) // min(workers, len(both.permits))
        outcome = "failure" if draw() % 64 == 0 else "success"
        assert both.report(outcome, latency=[0, 1][n % 200 == 0])
    return both.same("peek")["quota"]


@pytest.mark.parametrize("method", ["knee", "gradient2", "aimd"])
def test_a_long_history_of_windows(method):
    both, draw = Both(method), models.splitmix64(7)
    for workers in [16, 8, 40]:
        quota = serve(both, 6000, workers, draw)
        if method == "knee":
            assert workers / 2 <= quota <= 2 * workers


def test_one_lucky_sample_does_not_sink_the_limit():
    both, draw = Both(), models.splitmix64(3)
    serve(both, 20000, 30, draw)  # one of 200 takes a nanosecond there
    assert serve(both, 2000, 30, draw) > 20


def test_a_lasting_overload_does_not_drift_the_baseline_upwards():
    both, draw = Both(), models.splitmix64(4)
    before = serve(both, 10000, 30, draw, 300)
    assert serve(both, 40000, 30, draw, 300) < 1.5 * before


def test_samples_from_an_earlier_epoch_do_not_count():
    both, draw = Both(), models.splitmix64(5)
    for _ in range(8):
        assert both.acquire()
    old, both.permits = both.permits, []
    serve(both, 4000, 16, draw)
    for each in both.permits[:]:
        both.report(which=0)
    before = vars(both.model.estimator).copy()
    both.permits = old
    for _ in range(8):  # found, but no samples
        assert both.report(latency=59 * S)
    assert vars(both.model.estimator) == before
    serve(both, 1000, 16, draw)  # and the library goes on as the model does


def test_a_report_of_a_key_that_was_reset_and_has_made_room_is_refused():
    """Its head is gone while its permit is still held."""
    limit = weir.Limit(weir.options(weir.ADAPTIVE, keys=40))
    table, raw, permit, key = weir.Table(1000), weir.RawDecision(), Permit(), b"key"
    assert key_permit(table.handle, limit.handle, key, 1, NOW, ctypes.byref(raw),
                                   ctypes.byref(permit)) == weir.OK and raw.allowed
    table.call(limit, key, "reset", NOW)
    for n in range(400):
        table.call(limit, b"other %d" % n, "acquire", NOW + S)
    assert key_report(table.handle, limit.handle, key, ctypes.byref(permit), 0, 0,
                           NOW + S) == weir.ENOTFOUND
