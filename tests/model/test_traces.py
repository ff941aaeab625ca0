"""Random traces in virtual time: the library against the models, exact in every field."""

import math
from fractions import Fraction

import models
import weir
from hypothesis import given, settings
from hypothesis import strategies as st

YEAR_NS = 365 * 86400 * 10**9
DEPTH_MAX = 16 * YEAR_NS
# A cell knows times half of 2^60 ns either way; a trace stays well within.
SPAN_MAX = 2 * YEAR_NS
STEP_BACK_MAX = YEAR_NS

RATES = [
    (1, 365, weir.DAY),
    (1, 1, weir.SECOND),
    (3, 1, weir.SECOND),
    (7, 100, weir.MILLISECOND),
    (5, 1, weir.DAY),
    (1000, 1, weir.MINUTE),
    (10**9, 1, weir.SECOND),
    (10**9 + 7, 1, weir.SECOND),
    (2**32, 1, weir.MILLISECOND),
    (2**32 - 1, 1, weir.NANOSECOND),
    (2**32 - 5, 366, weir.DAY),
    (1, 1, weir.NANOSECOND),
]
BASES = [1, 10**9, 1_700_000_000 * 10**9, 1_709_164_800 * 10**9 - 1, 4 * 10**18]

rates = st.sampled_from(RATES) | st.tuples(
    st.integers(1, 2**32), st.integers(1, 1000),
    st.sampled_from([weir.NANOSECOND, weir.MILLISECOND, weir.SECOND, weir.MINUTE, weir.HOUR]))


@st.composite
def buckets(draw):
    count, period, unit = draw(rates)
    period_ns = period * weir.UNIT_NS[unit]
    most = min(2**32, DEPTH_MAX * count // period_ns)
    burst = draw(st.sampled_from([1, 2, count, 2**32]) | st.integers(1, 2**32))
    burst = max(1, min(burst, most))
    algorithm = draw(st.sampled_from([weir.TOKEN_BUCKET, weir.LEAKY_BUCKET]))
    options = weir.options(algorithm, count, period, unit, burst)
    interval = Fraction(period_ns, count)
    return options, lambda: models.Bucket(count, period_ns, burst), [interval, burst * interval]


@st.composite
def paced(draw):
    count, period, unit = draw(rates)
    period_ns = period * weir.UNIT_NS[unit]
    interval = Fraction(period_ns, count)
    most = DEPTH_MAX * count // period_ns
    few = st.sampled_from([0, 1, 10, 2**32 - 1]) | st.integers(0, 2**32 - 1)
    wait = draw(st.sampled_from([None, 0, 1, 10**9, 366 * models.DAY_NS])
                | st.integers(0, 366 * models.DAY_NS))
    given_wait = {"max_wait_ns": 0 if wait is None else wait or weir.ZERO}
    if draw(st.booleans()):
        slack = draw(few)
        if wait is None:
            wait = 30 * 10**9
        slack = max(0, min(slack, most - math.ceil(wait / interval) - 2))
        options = weir.options(weir.PACER, count, period, unit, slack=slack or weir.ZERO,
                               **given_wait)
        return (options, lambda: models.pacer(count, period_ns, slack, wait),
                [interval, Fraction(wait), (slack + 1) * interval + wait])
    capacity = max(1, min(draw(few), most - 2))
    options = weir.options(weir.LEAKY_QUEUE, count, period, unit, capacity, **given_wait)
    return (options, lambda: models.leaky_queue(count, period_ns, capacity, wait),
            [interval, (capacity + 1) * interval])


@st.composite
def windows(draw):
    count, period, unit = draw(rates)
    period_ns = period * weir.UNIT_NS[unit]
    algorithm, align = draw(st.sampled_from(
        [(weir.FIXED_WINDOW, weir.FIRST_REQUEST), (weir.RESETTING_BUCKET, 0)]))
    options = weir.options(algorithm, count, period, unit, align=align)
    return options, lambda: models.first_request(count, period_ns), [period_ns]


@st.composite
def days(draw):
    count = draw(st.sampled_from([1, 2, 5, 2**32]) | st.integers(1, 2**32))
    options = weir.options(weir.FIXED_WINDOW, count, 1, weir.DAY)
    return options, lambda: models.utc_days(count), [models.DAY_NS]


@st.composite
def bases(draw):
    count, period, unit = draw(st.sampled_from([(1, 5, weir.SECOND), (2, 1, weir.DAY)]) | rates)
    period_ns = period * weir.UNIT_NS[unit]
    most = 2**32 - count + 1
    base = min(draw(st.sampled_from([1, 2, 3, most]) | st.integers(1, most)), most)
    options = weir.options(weir.BASE, count, period, unit, base=base)
    return (options, lambda: models.Base(base, count, period_ns, models.end_of_utc_day),
            sorted([period_ns, models.DAY_NS]))


@st.composite
def sliding_windows(draw):
    count, period, unit = draw(rates)
    period_ns = period * weir.UNIT_NS[unit]
    slots = draw(st.sampled_from([0, 1, 2, 3, 7, 10, 60, 1000]) | st.integers(1, 1000))
    options = weir.options(weir.SLIDING_WINDOW, count, period, unit, slots=slots)
    slots = min(slots or 10, period_ns)  # finer ones than a nanosecond tell nothing more
    slot = Fraction(period_ns, slots)
    return (options, lambda: models.SlidingWindow(count, period_ns, slots),
            [slot, period_ns - slot, period_ns])


@st.composite
def sliding_counters(draw):
    count, period, unit = draw(rates)
    period_ns = period * weir.UNIT_NS[unit]
    options = weir.options(weir.SLIDING_COUNTER, count, period, unit)
    return (options, lambda: models.SlidingCounter(count, period_ns),
            [Fraction(period_ns, count), period_ns, 2 * period_ns])


@st.composite
def sliding_logs(draw):
    _, period, unit = draw(rates)
    count = draw(st.sampled_from([1, 2, 3, 10, 10_000]) | st.integers(1, 10_000))
    period_ns = period * weir.UNIT_NS[unit]
    options = weir.options(weir.SLIDING_LOG, count, period, unit)
    return options, lambda: models.SlidingLog(count, period_ns), [period_ns]


@st.composite
def concurrencies(draw):
    most = draw(st.sampled_from([1, 2, 12, 13, 128, 1000, 10_000]) | st.integers(1, 10_000))
    lease, retry = (draw(st.integers(1, 10**6) | st.integers(1, 366 * models.DAY_NS))
                    for _ in range(2))
    options = weir.options(weir.CONCURRENCY, max=most, lease_ns=lease, retry_ns=retry)
    return options, lambda: models.Concurrency(most, lease, retry), [retry, lease]


any_limit = (buckets() | paced() | windows() | days() | bases() | sliding_windows()
             | sliding_counters() | sliding_logs())


def costs(quota):
    few = st.sampled_from(sorted({0, 1, min(2, quota), quota // 2, quota - 1, quota}))
    return few | st.integers(0, min(quota, 5)) | st.integers(0, quota)


def steps(lengths, backwards):
    """How far time goes on: nothing, to the edge of a token, slot or state, at random, back."""
    edges = {0, 1, *(edge for length in lengths for edge in (math.floor(length), math.ceil(length)))}
    edges = {min(edge + d, SPAN_MAX // 20) for edge in edges for d in (-1, 0, 1)}
    far = max(1, min(math.ceil(2 * lengths[-1]), SPAN_MAX // 20))
    back = max(1, min(math.ceil(lengths[-1]), STEP_BACK_MAX // 20))
    if not backwards:
        return st.sampled_from(sorted(edges - {-1})) | st.integers(0, far)
    return st.sampled_from(sorted(edges)) | st.integers(0, far) | st.integers(-back, 0)


def trace(draw, limit, backwards):
    """Yields (operation, now, cost, which key)."""
    _, make, lengths = limit
    quota = make().quota
    # What a clock that lags finds after a refund of the newest is left open for sliding limits,
    # and for base where a window ends that is opened again after all was given back.
    left_open = (["refund", "reset"] if isinstance(make(), models.Base) else
                 ["refund"] if isinstance(make(), models.Sliding) else [])
    operations = st.sampled_from(["acquire"] * 6 + ["peek", "peek"] + [
        "peek" if backwards and operation in left_open else operation
        for operation in ("refund", "reset")])
    start = draw(st.sampled_from(BASES))
    now = start
    for operation, step, cost, key in draw(st.lists(
            st.tuples(operations, steps(lengths, backwards), costs(quota), st.integers(0, 1)),
            min_size=1, max_size=20)):
        now = max(now + step, 1)
        yield operation, now, cost, key


def agree(draw, limit, steps_back=True):
    options, make, _ = limit
    alone, alone_model = weir.Limiter(options), make()
    # Spent units leave space for another key. So where time steps back and would
    # want it again, each key has a table to itself.
    backwards, shared = steps_back and draw(st.booleans()), weir.Limit(options)
    tables = [weir.Table(1000), weir.Table(1000)] if backwards else [weir.Table(1000)] * 2
    keys = [weir.Keyed(table, shared, key)
            for table, key in zip(tables, (b"", b"\x00any bytes\xff"))]
    key_models = [make(), make()]
    for step in trace(draw, limit, backwards):
        operation, now, cost, key = step
        assert alone.call(operation, now, cost) == alone_model.call(operation, now, cost), step
        assert (keys[key].call(operation, now, cost)
                == key_models[key].call(operation, now, cost)), step


@given(st.data())
def test_buckets_agree_with_the_model(data):
    agree(data.draw, data.draw(buckets()))


@given(st.data())
def test_paced_limits_agree_with_the_model(data):
    agree(data.draw, data.draw(paced()))


@given(st.data())
def test_random_agrees_with_the_model_draw_by_draw(data):
    deny = data.draw(st.sampled_from([0.0, 0.001, 0.5, 1.0]) | st.floats(2**-10, 1))
    seed = data.draw(st.integers(0, 2**64 - 1))
    limiter = weir.Limiter(weir.options(weir.RANDOM, deny=deny, retry_ns=7))
    model = models.Random(deny, 7, models.splitmix64(seed))
    weir.lib.weir_seed(seed)
    for operation, now, cost, _ in trace(
            data.draw, (None, lambda: model, [Fraction(1)]), backwards=True):
        assert limiter.call(operation, now, cost) == model.call(operation, now, cost)


@given(st.data())
def test_windows_from_the_first_request_agree_with_the_model(data):
    agree(data.draw, data.draw(windows()))


@given(st.data())
def test_days_in_utc_agree_with_the_model(data):
    agree(data.draw, data.draw(days()))


@given(st.data())
def test_base_agrees_with_the_model(data):
    agree(data.draw, data.draw(bases()))


@given(st.data())
def test_sliding_windows_agree_with_the_model(data):
    agree(data.draw, data.draw(sliding_windows()))


@given(st.data())
def test_sliding_counters_agree_with_the_model(data):
    agree(data.draw, data.draw(sliding_counters()))


@given(st.data())
def test_sliding_logs_agree_with_the_model(data):
    agree(data.draw, data.draw(sliding_logs()))


@settings(max_examples=20)
@given(st.integers(128, 150), st.sampled_from([10**6, 10**9]),
       st.lists(st.tuples(st.integers(0, 3), st.integers(1, 100), st.integers(0, 120)), max_size=6))
def test_long_logs_in_whole_ticks_agree_with_the_model(count, tick, rounds):
    """Many at each tick, some of which are given back at once."""
    options = weir.options(weir.SLIDING_LOG, count, 4 * tick, weir.NANOSECOND)
    limiter, model, now = weir.Limiter(options), models.SlidingLog(count, 4 * tick), 10**18
    for ticks, taken, back in rounds:
        now += ticks * tick
        for call in [("acquire", now, 1)] * taken + [("refund", now, back), ("peek", now, 1)]:
            assert limiter.call(*call) == model.call(*call), call


@given(st.data())
def test_concurrency_agrees_with_the_model(data):
    # Places whose leases are over are anybody's, so a clock that goes back may find them or not.
    agree(data.draw, data.draw(concurrencies()), steps_back=False)


@given(st.data())
def test_a_batch_decides_like_its_requests_one_by_one(data):
    limits = [data.draw(kind()) for kind in (buckets, paced, windows, days, bases, sliding_windows,
                                       sliding_counters, sliding_logs, concurrencies)]
    opened = [weir.Limit(options) for options, _, _ in limits]
    table = weir.Table(capacity=1000)
    expected = {}
    requests = data.draw(st.lists(
        st.tuples(st.integers(0, len(limits) - 1), st.sampled_from([b"a", b"b"]), st.integers(0, 3)),
        min_size=1, max_size=40))
    now = data.draw(st.sampled_from(BASES))
    answers = table.batch(now, [(opened[i], key, cost) for i, key, cost in requests])
    for (i, key, cost), (status, decision) in zip(requests, answers):
        model = expected.setdefault((i, key), limits[i][1]())
        if cost > model.quota:
            assert status == weir.ECOST
        else:
            assert (status, decision) == (weir.OK, model.call("acquire", now, cost))


@given(st.data())
def test_retry_after_is_exactly_when_the_same_request_passes(data):
    options, make, _ = data.draw(any_limit)
    limiter = weir.Limiter(options)
    now = BASES[2]
    quota = make().quota
    limiter.call("acquire", now, data.draw(st.integers(1, quota)))
    cost = data.draw(st.integers(1, quota))
    denied = limiter.call("peek", now, cost)
    if not denied["allowed"]:
        wait = denied["retry_after_ns"]
        assert not limiter.call("peek", now + wait - 1, cost)["allowed"]
        assert limiter.call("peek", now + wait, cost)["allowed"]


@given(st.data())
def test_after_reset_after_the_key_is_as_new(data):
    options, make, _ = data.draw(any_limit)
    limiter = weir.Limiter(options)
    now = BASES[2]
    quota = make().quota
    used = limiter.call("acquire", now, data.draw(st.integers(1, quota)))
    later = limiter.call("acquire", now + used["reset_after_ns"], quota)
    assert later["allowed"]
    assert later["remaining"] == 0
