"""Cases in which published limiters failed; each test is named after its case."""

import math
import random
import threading
from datetime import datetime, timezone
from fractions import Fraction

import models
import pytest
import weir

NOW = 1_700_000_000 * 10**9
S = 10**9
DAY = models.DAY_NS


def bucket(count, period=1, unit=weir.SECOND, burst=0):
    return weir.Limiter(weir.options(weir.TOKEN_BUCKET, count, period, unit, burst))


def window(count, period=1, unit=weir.SECOND):
    return weir.Limiter(weir.options(weir.FIXED_WINDOW, count, period, unit,
                                     align=weir.FIRST_REQUEST))


def admitted(limiter, times, cost=1):
    return sum(limiter.call("acquire", now, cost)["allowed"] for now in times)


ALGORITHMS = {
    "token_bucket": lambda count: weir.options(weir.TOKEN_BUCKET, count),
    "leaky_bucket": lambda count: weir.options(weir.LEAKY_BUCKET, count),
    "first_request": lambda count: weir.options(weir.FIXED_WINDOW, count, align=weir.FIRST_REQUEST),
    "calendar": lambda count: weir.options(weir.FIXED_WINDOW, count),
    "resetting_bucket": lambda count: weir.options(weir.RESETTING_BUCKET, count),
    "sliding_window": lambda count: weir.options(weir.SLIDING_WINDOW, count),
    "sliding_log": lambda count: weir.options(weir.SLIDING_LOG, min(count, 10_000)),
    "sliding_counter": lambda count: weir.options(weir.SLIDING_COUNTER, count),
    "base": lambda count: weir.options(weir.BASE, count, base=1),
    "concurrency": lambda count: weir.options(weir.CONCURRENCY, max=min(count, 10_000), lease_ns=S),
    "pacer": lambda count: weir.options(weir.PACER, count, slack=count - 1 or weir.ZERO,
                                        max_wait_ns=weir.ZERO),
    "leaky_queue": lambda count: weir.options(weir.LEAKY_QUEUE, count, burst=max(count - 1, 1),
                                              max_wait_ns=-(-(count - 1) * S // count) or weir.ZERO),
}


@pytest.fixture(params=ALGORITHMS.values(), ids=ALGORITHMS.keys())
def algorithm(request):
    return request.param


# Published code that failed


def test_sixty_parallel_first_hits_are_counted_as_sixty(algorithm):
    limit = weir.Limit(algorithm(100))
    for attempt in range(20):
        table = weir.Table(capacity=100)
        gate = threading.Barrier(60)

        def hit():
            gate.wait()
            table.call(limit, b"new", "acquire", NOW)

        threads = [threading.Thread(target=hit) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert table.call(limit, b"new", "peek", NOW)["remaining"] == 40


def test_check_then_add_never_passes_more_than_the_limit(algorithm):
    limit, table, passed = weir.Limit(algorithm(50)), weir.Table(capacity=100), []
    gate = threading.Barrier(8)

    def work():
        gate.wait()
        passed.append(sum(table.call(limit, b"k", "acquire", NOW)["allowed"] for _ in range(200)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 50


def test_no_key_denies_for_ever(algorithm):
    limiter = weir.Limiter(algorithm(3))
    denials = [limiter.call("acquire", NOW + i)["reset_after_ns"] for i in range(100)]
    assert admitted(limiter, [NOW + 100 + max(denials)] * 5) == 3


def test_an_hour_idle_keeps_no_counts(algorithm):
    limiter = weir.Limiter(algorithm(59_226))
    quota = limiter.call("peek", NOW)["quota"]
    limiter.call("acquire", NOW, quota)
    assert limiter.call("peek", NOW + 3600 * S)["remaining"] == quota


def test_burst_1_admits_1_of_1000():
    assert admitted(bucket(1, 1, weir.HOUR, burst=1), range(NOW, NOW + 1000)) == 1


def test_partial_idleness_admits_10_of_10_and_not_17():
    limiter = bucket(10)
    assert admitted(limiter, [NOW] * 3) == 3
    # 0.7 s later three were refilled long ago; the burst is still only ten.
    assert admitted(limiter, [NOW + 7 * S // 10] * 20) == 10


def test_peeking_writes_nothing(algorithm):
    limiter = weir.Limiter(algorithm(5))
    limiter.call("acquire", NOW, 2)
    before = limiter.call("peek", NOW + 1)
    for _ in range(100):
        assert limiter.call("peek", NOW + 1) == before
        assert limiter.call("acquire", NOW + 1, 0) == before


def test_two_clients_with_clocks_10_s_apart_share_a_fair_55():
    # 5 a second with burst 5 over 10 s of one clock: 5 + 50.
    limiter = bucket(5)
    times = [NOW + i * S // 10 for i in range(101)]
    got = sum(admitted(limiter, [now, now - 10 * S]) for now in times)
    assert got == 55


def test_rate_100_with_burst_10_has_a_lifetime_and_keeps_counting():
    limiter = bucket(100, burst=10)
    assert limiter.call("acquire", NOW, 10)["reset_after_ns"] == S // 10
    assert admitted(limiter, [NOW] * 100) == 0


# Clock


def test_alternating_older_and_newer_times_mint_no_tokens(algorithm):
    limiter = weir.Limiter(algorithm(5))
    base = NOW + S // 2  # half a second is left of an aligned window
    times = [base + (S // 10 if i % 2 else -S // 10) for i in range(1000)]
    assert admitted(limiter, times) <= 6


def test_two_clocks_at_midnight_share_one_quota():
    midnight = (NOW // DAY + 1) * DAY
    limiter = weir.Limiter(weir.options(weir.FIXED_WINDOW, 10, 1, weir.DAY))
    after = sum(admitted(limiter, [midnight + i, midnight - 1]) for i in range(1000))
    assert after == 10


def test_a_late_denied_call_moves_no_time_back():
    limiter = bucket(1, burst=1)
    assert admitted(limiter, [NOW]) == 1
    assert admitted(limiter, [NOW - 100 * S] * 10) == 0
    assert limiter.call("peek", NOW + 1)["retry_after_ns"] == S - 1


def test_whole_second_clocks_double_nothing_at_a_boundary():
    second = NOW // S * S
    for limiter in (bucket(10), window(10)):
        assert admitted(limiter, [second - 1] * 20 + [second] * 20) == 10


def test_a_step_of_the_clock_back_frees_no_key_and_locks_none_longer_than_it_was_ahead(algorithm):
    limiter = weir.Limiter(algorithm(5))
    reset = limiter.call("acquire", NOW, 5)["reset_after_ns"]
    for step in (1, S, 3600 * S):
        decision = limiter.call("peek", NOW - step)
        assert not decision["allowed"]
        assert decision["retry_after_ns"] <= step + reset


@pytest.mark.parametrize("step", [S, 3600 * S, 365 * DAY])
def test_a_step_of_the_clock_and_back_grants_one_burst_and_locks_no_key_for_ever(algorithm, step):
    limiter = weir.Limiter(algorithm(5))
    assert admitted(limiter, [NOW] * 20) == 5
    assert admitted(limiter, [NOW + step] * 20) <= 5
    # Back again: denials mint nothing, and what no clock can be ahead is cut back once.
    assert admitted(limiter, [NOW + i * S // 1000 for i in range(20)]) == 0
    assert admitted(limiter, [NOW + (step if step <= DAY else 0) + 5 * S] * 20) == 5


def test_a_day_counted_in_the_far_future_does_not_lock_its_key():
    limiter = weir.Limiter(weir.options(weir.FIXED_WINDOW, 5, 1, weir.DAY))
    limiter.call("acquire", NOW + 3650 * DAY, 5)
    assert limiter.call("acquire", NOW)["retry_after_ns"] <= 2 * DAY
    assert admitted(limiter, [NOW + 2 * DAY] * 20) == 5


# Arithmetic


@pytest.mark.parametrize("count,period,unit", [
    (1001, 1, weir.SECOND), (10**9 + 1, 1, weir.SECOND), (2**32, 1, weir.MILLISECOND),
    (2**32, 1, weir.NANOSECOND)])
def test_rates_above_one_a_nanosecond_are_exact_over_the_long_run(count, period, unit):
    burst = 2**32
    limiter = bucket(count, period, unit, burst)
    limiter.call("acquire", NOW, burst)
    period_ns = weir.UNIT_NS[unit] * period
    for elapsed in (1, 2, 3, period_ns):
        expected = min(burst, int(Fraction(elapsed * count, period_ns)))
        assert limiter.call("peek", NOW + elapsed)["remaining"] == expected


@pytest.mark.parametrize("changes,status", [
    ({"count": 0}, {weir.EINVAL, weir.ERANGE}),
    ({"count": 2**32 + 1}, {weir.ERANGE}),
    ({"count": 2**64 - 1}, {weir.ERANGE}),
    ({"count": 1, "period": 367, "unit": weir.DAY}, {weir.ERANGE}),
    ({"count": 1, "period": 2**64 - 1, "unit": weir.WEEK}, {weir.ERANGE}),
    ({"count": 1, "unit": weir.MONTH}, {weir.EINVAL}),
    ({"count": 1, "unit": 99}, {weir.EINVAL}),
    ({"count": 1, "burst": 2**32 + 1}, {weir.ERANGE}),
    ({"count": 1, "burst": 2**64 - 1}, {weir.ERANGE}),
    ({"count": 1, "period": 1, "unit": weir.DAY, "burst": 16 * 365 + 1}, {weir.ERANGE}),
    ({"count": 1, "algorithm": 99}, {weir.EINVAL, weir.EUNSUPPORTED}),
    ({"count": 1, "algorithm": weir.SLIDING_WINDOW, "slots": 1001}, {weir.ERANGE}),
    ({"count": 1, "algorithm": weir.SLIDING_WINDOW, "slots": 2**32 - 1}, {weir.ERANGE}),
    ({"count": 1, "slots": 10}, {weir.EINVAL}),
    ({"count": 1, "algorithm": weir.SLIDING_LOG, "slots": 10}, {weir.EINVAL}),
    ({"count": 1, "algorithm": weir.SLIDING_WINDOW, "burst": 2}, {weir.EINVAL}),
    ({"count": 1, "algorithm": weir.SLIDING_WINDOW, "unit": weir.MONTH}, {weir.EINVAL}),
    ({"count": 10_001, "algorithm": weir.SLIDING_LOG}, {weir.ERANGE}),
    ({"algorithm": weir.CONCURRENCY}, {weir.ERANGE}),
    ({"algorithm": weir.CONCURRENCY, "max": 10_001}, {weir.ERANGE}),
    ({"algorithm": weir.CONCURRENCY, "max": 1, "queue": 2**64 - 1}, {weir.ERANGE}),
    ({"algorithm": weir.CONCURRENCY, "max": 1, "lease_ns": 2**64 - 1}, {weir.ERANGE}),
    ({"algorithm": weir.CONCURRENCY, "max": 1, "retry_ns": 367 * DAY}, {weir.ERANGE}),
    ({"algorithm": weir.CONCURRENCY, "max": 1, "count": 1}, {weir.EINVAL}),
    ({"count": 1, "lease_ns": 1}, {weir.EINVAL}),
    ({"count": 1, "name": b"n" * 65}, {weir.EINVAL, weir.ERANGE, weir.ELONG}),
])
def test_zero_negative_and_huge_limits_are_refused_in_words(changes, status):
    # A negative number arrives as a huge one.
    options = weir.options(**{"algorithm": weir.TOKEN_BUCKET, **changes})
    with pytest.raises(weir.WeirError) as caught:
        weir.Limit(options)
    assert caught.value.status in status
    assert "expected" in caught.value.message


def test_an_unknown_zone_is_refused():
    with pytest.raises(weir.WeirError) as caught:
        weir.Limit(weir.options(weir.FIXED_WINDOW, 1, timezone=b"Mars/Olympus"))
    assert caught.value.status == weir.ENOTFOUND


def test_no_overflow_at_a_far_arrival_time():
    limiter = bucket(1, 1, weir.DAY, burst=16 * 365)
    assert limiter.call("acquire", NOW, 16 * 365)["reset_after_ns"] == 16 * 365 * DAY
    denied = limiter.call("acquire", NOW, 16 * 365)
    assert denied["retry_after_ns"] == 16 * 365 * DAY
    limit = weir.Limit(weir.options(weir.TOKEN_BUCKET, 1, 1, weir.DAY, 16 * 365))
    table = weir.Table(capacity=100)
    assert table.call(limit, b"k", "acquire", NOW, 16 * 365)["allowed"]
    assert table.call(limit, b"k", "acquire", NOW, 16 * 365) == denied


def test_no_extra_cell_after_idleness(algorithm):
    limiter = weir.Limiter(algorithm(10))
    admitted(limiter, [NOW] * 10)
    assert admitted(limiter, [NOW + 3600 * S] * 20) == 10


def test_remaining_is_never_above_a_limit_that_was_lowered():
    # Two limits of one name, algorithm and period share their counts.
    table = weir.Table(capacity=100)
    for make in ALGORITHMS.values():
        wide, narrow = (make(count) for count in (10, 3))
        wide.name = narrow.name = b"lowered"
        wide, narrow = weir.Limit(wide), weir.Limit(narrow)
        assert table.call(wide, b"k", "acquire", NOW, 10)["remaining"] == 0
        decision = table.call(narrow, b"k", "acquire", NOW)
        assert (decision["allowed"], decision["quota"], decision["remaining"]) == (False, 3, 0)
        table.call(wide, b"k", "reset", NOW)


def test_refilling_takes_the_lesser_of_tokens_and_burst():
    limiter = bucket(10)
    limiter.call("acquire", NOW, 4)
    assert limiter.call("peek", NOW + S // 10)["remaining"] == 7
    assert limiter.call("peek", NOW + 3600 * S)["remaining"] == 10


def test_retry_after_is_never_0_while_denied():
    limiter = bucket(2**32, 1, weir.NANOSECOND, burst=1)
    assert admitted(limiter, [NOW]) == 1
    denied = limiter.call("acquire", NOW)
    assert (denied["allowed"], denied["retry_after_ns"]) == (False, 1)


def test_reset_is_rounded_up():
    limiter = bucket(3)
    assert limiter.call("acquire", NOW)["reset_after_ns"] == 333_333_334
    assert limiter.call("acquire", NOW)["reset_after_ns"] == 666_666_667
    assert limiter.call("acquire", NOW)["reset_after_ns"] == S


def test_limit_1(algorithm):
    limiter = weir.Limiter(algorithm(1))
    reset = limiter.call("acquire", NOW)["reset_after_ns"]
    assert S <= reset <= 2 * S  # a sliding counter also looks at the last period
    assert admitted(limiter, [NOW] * 10 + [NOW + reset] * 10) == 1


def test_cost_equal_to_burst(algorithm):
    limiter = weir.Limiter(algorithm(10))
    reset = limiter.call("acquire", NOW, 10)["reset_after_ns"]
    assert not limiter.call("acquire", NOW, 10)["allowed"]
    assert limiter.call("acquire", NOW + reset, 10)["allowed"]


def test_cost_above_burst_is_an_error_and_consumes_nothing(algorithm):
    limiter = weir.Limiter(algorithm(10))
    for cost in (11, 2**32 + 10, 2**64 - 1):
        for operation in ("acquire", "peek"):
            with pytest.raises(weir.WeirError) as caught:
                limiter.call(operation, NOW, cost)
            assert caught.value.status == weir.ECOST
    assert limiter.call("peek", NOW)["remaining"] == 10


# Pacing


def pacer(count, **options):
    return weir.Limiter(weir.options(weir.PACER, count, **options))


def waits(limiter, now, n):
    return [limiter.call("acquire", now)["wait_ns"] for _ in range(n)]


@pytest.mark.parametrize("slack", [0, 1, 10, 1000])
def test_the_first_call_after_long_idleness_finds_its_slack_saved_and_no_more(slack):
    limiter = pacer(10, slack=slack or weir.ZERO)
    for idle in (0, 1, 3600, 365 * 86400):
        # New or idle for a year: `slack` turns were saved, one is now, the rest are spaced.
        expected = [0] * (slack + 1) + [S // 10, 2 * S // 10, 3 * S // 10]
        assert waits(limiter, NOW + idle * S, slack + 4) == expected
        limiter.call("reset", NOW + idle * S)


def test_part_of_the_slack_is_saved_by_part_of_the_idleness():
    limiter = pacer(10, slack=5)
    assert waits(limiter, NOW, 6) == [0] * 6
    assert waits(limiter, NOW + 3 * S // 10, 5) == [0, 0, 0, S // 10, 2 * S // 10]


def test_without_slack_turns_are_spaced_strictly_after_idleness_too():
    limiter, draw, now, turns = pacer(10, slack=weir.ZERO), random.Random(1), NOW, []
    for _ in range(1000):
        now += draw.choice([0, 1, S // 10 - 1, S // 10, S // 10 + 1, S, 3600 * S])
        decision = limiter.call("acquire", now)
        if decision["allowed"]:
            turns.append(now + decision["wait_ns"])
    assert min(b - a for a, b in zip(turns, turns[1:])) == S // 10


def test_a_wait_is_never_longer_than_max_wait_and_the_next_is_told_when():
    limiter = pacer(10, slack=weir.ZERO, max_wait_ns=S)
    assert waits(limiter, NOW, 11) == [i * S // 10 for i in range(11)]
    denied = limiter.call("acquire", NOW)
    assert (denied["reason"], denied["wait_ns"]) == ("wait_too_long", 0)
    assert limiter.call("acquire", NOW + denied["retry_after_ns"])["wait_ns"] == S


def test_a_full_queue_denies_at_once_and_an_impatient_one_before():
    for capacity, max_wait, taken, reason in ((5, 0, 6, "queue_full"), (5, S, 6, "queue_full"),
                                              (5, 3 * S // 10, 4, "wait_too_long"),
                                              (5, weir.ZERO, 1, "wait_too_long")):
        limiter = weir.Limiter(weir.options(weir.LEAKY_QUEUE, 10, burst=capacity,
                                            max_wait_ns=max_wait))
        assert waits(limiter, NOW, taken) == [i * S // 10 for i in range(taken)]
        denied = limiter.call("acquire", NOW)
        assert (denied["allowed"], denied["reason"]) == (False, reason)
        assert denied["retry_after_ns"] == S // 10


def test_a_waiting_caller_who_left_gives_the_newest_turn_to_the_next():
    limiter = pacer(10, slack=weir.ZERO)
    assert waits(limiter, NOW, 3) == [0, S // 10, 2 * S // 10]
    limiter.call("refund", NOW + 1)
    assert waits(limiter, NOW + 1, 1) == [2 * S // 10 - 1]


def test_a_cost_is_as_many_requests_at_once_whose_last_turn_counts():
    for kind in (dict(algorithm=weir.PACER, slack=2), dict(algorithm=weir.LEAKY_QUEUE, burst=20)):
        whole, parts = (weir.Limiter(weir.options(count=10, **kind)) for _ in range(2))
        for cost in (1, 4, 2, 7):
            assert whole.call("acquire", NOW, cost)["wait_ns"] == waits(parts, NOW, cost)[-1]


# Chance


def shedder(deny):
    return weir.Limiter(weir.options(weir.RANDOM, deny=deny))


def denied_of(limiter, n):
    return n - admitted(limiter, [NOW] * n)


def test_chance_0_never_denies_and_1_always():
    assert denied_of(shedder(0), 100_000) == 0
    assert denied_of(shedder(1), 100_000) == 100_000


@pytest.mark.parametrize("deny", [0.001, 0.0015, 0.3, 0.999])
def test_a_chance_is_what_was_asked_for_and_not_a_thousandth_more(deny):
    weir.lib.weir_seed(1)
    n = 200_000
    deviation = math.sqrt(n * deny * (1 - deny))
    assert abs(denied_of(shedder(deny), n) - n * deny) < 3 * deviation


def test_peeking_takes_no_draw():
    first, second = (shedder(0.5) for _ in range(2))
    weir.lib.weir_seed(7)
    plain = [first.call("acquire", NOW)["allowed"] for _ in range(100)]
    weir.lib.weir_seed(7)
    for expected in plain:
        assert second.call("peek", NOW)["allowed"] and second.call("acquire", NOW, 0)["allowed"]
        assert second.call("acquire", NOW)["allowed"] == expected


def test_threads_do_not_draw_the_same():
    draws = []

    def draw():
        limiter = shedder(0.5)
        draws.append(tuple(limiter.call("acquire", NOW)["allowed"] for _ in range(64)))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(draws)) == 4


def test_what_is_denied_changes_while_running():
    limiter = shedder(0)
    limiter.shed(1)
    denied = limiter.call("acquire", NOW)
    assert (denied["reason"], denied["retry_after_ns"]) == ("shed", S)
    limiter.shed(0)
    assert denied_of(limiter, 1000) == 0
    for impossible in (-0.1, 1.1, math.nan):
        with pytest.raises(weir.WeirError) as caught:
            limiter.shed(impossible)
        assert caught.value.status == weir.ERANGE
    with pytest.raises(weir.WeirError) as caught:
        bucket(1).shed(0.5)
    assert caught.value.status == weir.EINVAL


def test_a_random_limit_keeps_no_key():
    limit, table = weir.Limit(weir.options(weir.RANDOM, deny=0.5)), weir.Table(100)
    for key in range(1000):
        table.call(limit, b"%d" % key, "acquire", NOW)
    assert table.stats(NOW).live == 0


# Windows


def test_both_halves_of_an_edge_burst_pass_a_fixed_window_by_design():
    limiter = weir.Limiter(weir.options(weir.FIXED_WINDOW, 10, 1, weir.DAY))
    midnight = (NOW // DAY + 1) * DAY
    assert admitted(limiter, [midnight - 1] * 20 + [midnight] * 20) == 20


def test_denied_requests_are_not_counted_and_steady_excess_does_not_block(algorithm):
    limiter = weir.Limiter(algorithm(10))
    times = [NOW + i * S // 100 for i in range(1000)]  # ten times too many for ten seconds
    assert 90 <= admitted(limiter, times) <= 110  # a sliding counter falls short by one a period


def sliding_window(count, slots):
    return weir.Limiter(weir.options(weir.SLIDING_WINDOW, count, slots=slots))


def most_within(times, length):
    """The most of the sorted `times` that lie less than `length` apart."""
    most = first = 0
    for last, time in enumerate(times):
        while time - times[first] >= length:
            first += 1
        most = max(most, last + 1 - first)
    return most


def greedy(limiter, seed):
    """When a crowd gets in that comes at random, at once, and at the edges of slots."""
    draw, now, passed = random.Random(seed), NOW, []
    for _ in range(2000):
        now += draw.choice([0, 0, 1, S // 100, S // 10, S // 7, draw.randrange(S), -now % (S // 10),
                            (-now - 1) % (S // 10)])
        passed += [now] * admitted(limiter, [now] * draw.choice([1, 1, 3, 20]))
    return passed


@pytest.mark.parametrize("slots", [1, 2, 7, 10, 1000])
def test_halves_of_an_edge_burst_are_a_period_less_a_slot_apart_in_a_sliding_window(slots):
    apart = Fraction((slots - 1) * S, slots)
    for slot in range(NOW * slots // S, NOW * slots // S + 3 * slots, max(slots // 5, 1)):
        limiter = sliding_window(10, slots)
        last = math.ceil(Fraction((slot + 1) * S, slots)) - 1  # the end of that slot
        again = math.ceil(Fraction((slot + slots) * S, slots))
        assert admitted(limiter, [last] * 20) == 10
        if again - 1 > last:
            assert limiter.call("acquire", again - 1)["retry_after_ns"] == 1
        assert admitted(limiter, [again] * 20) == 10
        assert apart < again - last < apart + 2


@pytest.mark.parametrize("slots", [1, 2, 7, 10, 1000])
def test_a_period_of_a_sliding_window_sees_its_limit_twice_at_most(slots):
    passed = greedy(sliding_window(10, slots), seed=slots)
    assert most_within(passed, S) <= 20
    assert most_within(passed, (slots - 1) * S // slots + 1) == 10


def test_no_period_of_a_sliding_log_sees_more_than_its_limit():
    limiter = weir.Limiter(weir.options(weir.SLIDING_LOG, 10))
    assert most_within(greedy(limiter, seed=1), S) == 10


def test_slots_shorter_than_a_nanosecond_do_not_overflow():
    limiter = weir.Limiter(weir.options(weir.SLIDING_WINDOW, 3, 1, weir.NANOSECOND, slots=1000))
    assert admitted(limiter, [4 * 10**18] * 5 + [4 * 10**18 + 1] * 5) == 6


@pytest.mark.parametrize("slots", [2, 7, 10, 1000])
def test_stale_slots_after_idleness_are_not_counted(slots):
    limiter = sliding_window(1000, slots)
    for round_of_slots in range(1, 5):
        # A count in every slot, then idle for so long that each place of a ring is met again.
        times = [NOW * round_of_slots + i * S // slots for i in range(slots)]
        assert admitted(limiter, times) == slots
        assert limiter.call("peek", times[-1])["remaining"] == 1000 - slots
        for idle in (1, 2, 3, 1000, 3600):
            assert limiter.call("peek", times[-1] + idle * S + S // slots)["remaining"] == 1000


def test_partial_idleness_frees_the_slots_that_left_and_no_others():
    limiter = sliding_window(10, 10)
    assert admitted(limiter, [NOW + i * S // 10 for i in range(10)]) == 10
    for idle in range(1, 10):
        assert limiter.call("peek", NOW + S + (idle - 1) * S // 10)["remaining"] == idle
    assert admitted(limiter, [NOW + S + 6 * S // 10] * 20) == 7


def test_a_sliding_counter_has_no_edge_and_forgets_evenly():
    limiter = weir.Limiter(weir.options(weir.SLIDING_COUNTER, 10))
    edge = (NOW // S + 1) * S
    assert admitted(limiter, [edge - 1] * 20 + [edge] * 20) == 10
    for tenth in range(1, 11):
        assert limiter.call("peek", edge + tenth * S // 10)["remaining"] == tenth
        assert limiter.call("peek", edge + tenth * S // 10 - 1)["remaining"] == tenth - 1
    assert limiter.call("peek", edge + S)["reset_after_ns"] == 0


def test_stale_windows_of_a_sliding_counter_are_not_counted():
    limiter = weir.Limiter(weir.options(weir.SLIDING_COUNTER, 10))
    edge = NOW // S * S
    for idle in (2, 3, 4, 1001, 3600):
        edge += idle * S
        assert admitted(limiter, [edge] * 20) == 10


def test_partial_idleness_of_a_log_frees_to_the_nanosecond():
    limiter = weir.Limiter(weir.options(weir.SLIDING_LOG, 10))
    assert admitted(limiter, range(NOW, NOW + 10)) == 10
    for idle in range(11):
        assert limiter.call("peek", NOW + S - 1 + idle)["remaining"] == idle


def test_a_log_of_10000_is_exact_from_end_to_end():
    limiter = weir.Limiter(weir.options(weir.SLIDING_LOG, 10_000))
    assert admitted(limiter, range(NOW, NOW + 10_001)) == 10_000
    assert admitted(limiter, range(NOW + S, NOW + S + 5000)) == 5000
    assert limiter.call("acquire", NOW + S + 4999)["retry_after_ns"] == 1
    assert limiter.call("acquire", NOW + S + 4999, 10_000)["retry_after_ns"] == S


def test_the_last_one_allowed_is_told_apart():
    for limiter in (window(3), weir.Limiter(weir.options(weir.RESETTING_BUCKET, 3)),
                    weir.Limiter(weir.options(weir.FIXED_WINDOW, 3))):
        reasons = [limiter.call("acquire", NOW)["reason"] for _ in range(4)]
        assert reasons == ["ok", "ok", "hit_quota", "over_limit"]


def test_a_window_opens_at_the_first_consumed_request_and_not_at_a_peek():
    limiter = window(2)
    limiter.call("peek", NOW)
    limiter.call("acquire", NOW, 0)
    assert limiter.call("acquire", NOW + S // 2)["reset_after_ns"] == S


def test_a_resetting_bucket_is_refilled_whole_and_only_when_the_period_ends():
    limiter = weir.Limiter(weir.options(weir.RESETTING_BUCKET, 10))
    limiter.call("acquire", NOW, 9)
    assert limiter.call("peek", NOW + S - 1)["remaining"] == 1
    assert limiter.call("peek", NOW + S)["remaining"] == 10


# Koala's base


def base(base=3, count=1, period=5, **more):
    return weir.options(weir.BASE, count, period, base=base, **more)


def at(*utc):
    return int(datetime(*utc, tzinfo=timezone.utc).timestamp()) * S


def test_koala_1_two_first_requests_at_once_lose_no_count_and_leave_no_key_without_an_end():
    limit = weir.Limit(base(base=20, count=10))
    for _ in range(20):
        table, gate, passed = weir.Table(capacity=100), threading.Barrier(60), []

        def hit():
            gate.wait()
            passed.append(table.call(limit, b"k", "acquire", NOW)["allowed"])

        threads = [threading.Thread(target=hit) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(passed) == 29
        denied = table.call(limit, b"k", "acquire", NOW)
        assert (denied["retry_after_ns"], denied["reset_after_ns"]) == (5 * S, DAY - NOW % DAY)
        assert table.call(limit, b"k", "peek", NOW + DAY)["remaining"] == 29


def test_koala_2_a_day_in_shanghai_ends_at_midnight_there_after_16_utc_too():
    limiter = weir.Limiter(base(timezone=b"Asia/Shanghai"))
    evening = at(2024, 3, 1, 16, 30)  # half past midnight there
    assert admitted(limiter, [evening] * 9) == 3
    assert limiter.call("peek", evening)["reset_after_ns"] == 47 * DAY // 48
    assert limiter.call("peek", at(2024, 3, 2))["remaining"] == 1
    assert limiter.call("peek", at(2024, 3, 2, 16) - 1)["remaining"] == 1
    assert admitted(limiter, [at(2024, 3, 2, 16)] * 9) == 3


@pytest.mark.parametrize("utc,hours", [((2024, 3, 30, 23), 23), ((2024, 10, 26, 22), 25)])
def test_a_day_of_base_is_as_long_as_it_is_when_clocks_change(utc, hours):
    limiter = weir.Limiter(base(timezone=b"Europe/Berlin"))
    midnight = at(*utc)
    assert admitted(limiter, [midnight - 1] * 9) == 3
    assert admitted(limiter, [midnight] * 9) == 3
    assert limiter.call("peek", midnight)["reset_after_ns"] == hours * 3600 * S
    assert admitted(limiter, [midnight + hours * 3600 * S - 1] * 9) == 1
    assert admitted(limiter, [midnight + hours * 3600 * S] * 9) == 3


def test_base_denies_no_cost_that_a_whole_day_could_grant():
    limiter = weir.Limiter(base(base=10, count=3))
    assert limiter.call("acquire", NOW, 12)["remaining"] == 0
    for cost, wait in ((3, 5 * S), (4, DAY - NOW % DAY)):
        assert limiter.call("acquire", NOW, cost)["retry_after_ns"] == wait
    with pytest.raises(weir.WeirError) as caught:
        limiter.call("acquire", NOW, 13)
    assert caught.value.status == weir.ECOST


# Refund


def test_a_refund_goes_below_zero_use_never(algorithm):
    limiter = weir.Limiter(algorithm(10))
    limiter.call("acquire", NOW, 3)
    assert limiter.call("refund", NOW, 10)["remaining"] == 10
    assert admitted(limiter, [NOW] * 20) == 10


def test_a_refund_does_not_reach_into_the_next_window(algorithm):
    limiter = weir.Limiter(algorithm(10))
    limiter.call("acquire", NOW, 10)
    later = NOW + 2 * S
    assert limiter.call("refund", later, 5)["remaining"] == 10
    assert admitted(limiter, [later] * 20) == 10


def test_a_refund_twice_gives_back_no_more_than_is_in_use(algorithm):
    limiter = weir.Limiter(algorithm(10))
    limiter.call("acquire", NOW, 6)
    assert limiter.call("refund", NOW, 4)["remaining"] == 8
    assert limiter.call("refund", NOW, 4)["remaining"] == 10
    assert admitted(limiter, [NOW] * 20) == 10


@pytest.mark.parametrize("algorithm", [weir.SLIDING_WINDOW, weir.SLIDING_LOG])
def test_a_refund_takes_the_newest_first(algorithm):
    limiter = weir.Limiter(weir.options(algorithm, 10))
    for i, cost in enumerate((4, 3, 2)):
        limiter.call("acquire", NOW + i * S // 10, cost)
    later = NOW + S // 2
    given = limiter.call("refund", later, 3)  # the 2, and one of the 3
    assert (given["remaining"], given["reset_after_ns"]) == (4, S * 6 // 10)
    assert limiter.call("peek", NOW + S)["remaining"] == 8
    assert limiter.call("peek", NOW + S * 11 // 10)["remaining"] == 10


def test_refunds_and_acquires_at_once_lose_nothing(algorithm):
    limit, table = weir.Limit(algorithm(1000)), weir.Table(capacity=100)
    gate = threading.Barrier(8)

    def work():
        gate.wait()
        for _ in range(200):
            if table.call(limit, b"k", "acquire", NOW)["allowed"]:
                table.call(limit, b"k", "refund", NOW)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.call(limit, b"k", "peek", NOW)["remaining"] == 1000


# Table


def test_a_flood_of_fresh_keys_resets_no_offender_and_denies_no_stranger():
    limit = weir.Limit(weir.options(weir.TOKEN_BUCKET, 10, 1, weir.MINUTE))
    table = weir.Table(capacity=1000)
    assert table.call(limit, b"offender", "acquire", NOW, 10)["allowed"]
    for i in range(20_000):
        assert table.call(limit, b"stranger %d" % i, "acquire", NOW + i)["allowed"]
    assert not table.call(limit, b"offender", "acquire", NOW + 20_000)["allowed"]


def test_a_full_table_stays_its_size_answers_and_counts_who_had_to_go():
    limit = weir.Limit(weir.options(weir.TOKEN_BUCKET, 10, 1, weir.HOUR))
    table = weir.Table(capacity=1000)
    before = table.stats(NOW)
    for i in range(10_000):
        assert table.call(limit, b"%d" % i, "acquire", NOW)["remaining"] == 9
    after = table.stats(NOW)
    assert (after.bytes, after.cells) == (before.bytes, before.cells)
    assert after.live <= after.cells
    assert after.live + after.evictions >= 10_000


def test_idle_keys_make_room_without_an_eviction():
    limit = weir.Limit(weir.options(weir.TOKEN_BUCKET, 10))
    table = weir.Table(capacity=1000)
    for i in range(5000):  # a bucket of ten in a second: fifty are live at a time
        table.call(limit, b"%d" % i, "acquire", NOW + i * S // 50)
    assert table.stats(NOW + 100 * S).evictions == 0


def test_a_key_of_any_bytes_up_to_1_kib_and_no_longer():
    limit, table = weir.Limit(weir.options(weir.TOKEN_BUCKET, 1)), weir.Table(capacity=100)
    for key in (b"", b"\x00", b"\x00\x00", b"k" * 1024, b"k" * 1023 + b"\x00"):
        assert table.call(limit, key, "acquire", NOW)["allowed"]
    with pytest.raises(weir.WeirError) as caught:
        table.call(limit, b"k" * 1025, "acquire", NOW)
    assert caught.value.status == weir.ELONG


def test_a_count_belongs_to_a_limit_and_a_key():
    table = weir.Table(capacity=100)
    for name in (b"a", b"b"):
        for algorithm in (weir.TOKEN_BUCKET, weir.RESETTING_BUCKET):
            for unit in (weir.SECOND, weir.MINUTE):
                limit = weir.Limit(weir.options(algorithm, 1, 1, unit, name=name))
                assert table.call(limit, b"k", "acquire", NOW)["allowed"]
                again = weir.Limit(weir.options(algorithm, 1, 1, unit, name=name))
                assert not table.call(again, b"k", "acquire", NOW)["allowed"]


def test_name_and_key_are_not_just_joined():
    table = weir.Table(capacity=100)
    for name, key in ((b"a", b"bc"), (b"ab", b"c"), (b"a|b", b"c"), (b"a", b"b|c")):
        limit = weir.Limit(weir.options(weir.TOKEN_BUCKET, 1, name=name))
        assert table.call(limit, key, "acquire", NOW)["allowed"]


def test_one_bad_request_of_a_batch_leaves_the_others_alone():
    limit, table = weir.Limit(weir.options(weir.TOKEN_BUCKET, 5)), weir.Table(capacity=100)
    answers = table.batch(NOW, [(limit, b"k", 2), (limit, b"k", 6), (limit, b"k" * 1025, 1),
                                (limit, b"k", 3), (limit, b"k", 1)])
    assert [status for status, _ in answers] == [
        weir.OK, weir.ECOST, weir.ELONG, weir.OK, weir.OK]
    assert [answers[i][1]["allowed"] for i in (0, 3, 4)] == [True, True, False]


@pytest.mark.parametrize("capacity", [2**64 - 1, 2**62])
def test_an_impossible_capacity_is_refused(capacity):
    with pytest.raises(weir.WeirError) as caught:
        weir.Table(capacity)
    assert caught.value.status in (weir.ERANGE, weir.ENOMEM)
