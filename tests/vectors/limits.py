"""The limits that vectors are made of: for each algorithm its model, and limits at the edges.

A limit is written in the words of rule files, every parameter given. Times in nanoseconds
end in `_ns`. The first two limits of an algorithm go through all scenarios of make.py, the
others through the first ones.
"""

from fractions import Fraction

import models
import zones

LONGEST = {**zones.LENGTH, "month": 31 * zones.DAY, "year": 366 * zones.DAY}
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

NOW = 1_700_000_000_123_456_789
BERLIN_FORWARD = 1_711_846_800 * zones.S  # 2024-03-31 01:00 UTC: 02:00 becomes 03:00
BERLIN_BACK = 1_729_990_800 * zones.S  # 2024-10-27 01:00 UTC: 03:00 becomes 02:00
END_OF_APRIL = 1_714_521_600 * zones.S  # 2024-05-01 00:00 UTC
END_OF_FEBRUARY = 1_709_251_200 * zones.S  # 2024-03-01 00:00 UTC, after a leap day
END_OF_2024 = 1_735_689_600 * zones.S


def rate(count, period, unit):
    return {"count": count, "period": period, "unit": unit}


def limit(start=NOW, **parameters):
    return start, parameters


def count_of(parameters):
    return parameters["rate"]["count"]


def period_of(parameters):
    """In nanoseconds; of months and years the longest."""
    return parameters["rate"]["period"] * LONGEST[parameters["rate"]["unit"]]


def calendar_end(parameters):
    """When a window ends, from any time in it."""
    period = parameters["rate"]

    def end(now):
        return zones.window(parameters["timezone"], period["period"], period["unit"],
                            WEEKDAYS.index(parameters["week_start"]), now)[1]
    return end


def day_end(parameters):
    return lambda now: zones.window(parameters["timezone"], 1, "d", 0, now)[1]


def rates(**others):
    """Tokens that come in whole nanoseconds and in parts, quickly and slowly."""
    (name, sizes), = others.items()
    return [{"rate": rate(*r), name: size} for r, size in zip([
        (5, 1, "s"), (3, 1, "s"), (1, 1, "m"), (7, 100, "ms"), (2**32 - 5, 366, "d"),
        (2**32, 1, "ms"), (1, 365, "d")], sizes)]


def bucket(size):
    return (lambda p: models.Bucket(count_of(p), period_of(p), p[size]),
            [limit(**p) for p in rates(**{size: [10, 2, 1, 3, 2**32, 2**32, 2]})])


def fixed_window(parameters):
    if parameters["align"] == "first_request":
        return models.first_request(count_of(parameters), period_of(parameters))
    period = period_of(parameters)
    return models.Window(count_of(parameters), calendar_end(parameters), period + period // 8)


def windows(count, period, unit, start, timezone="Europe/Berlin", week_start="monday"):
    return limit(start, rate=rate(count, period, unit), align="calendar", timezone=timezone,
                 week_start=week_start)


def in_seconds(count, seconds, start=NOW, **others):
    return limit(start, rate=rate(count, seconds, "s"), **others)


def breaker(**others):
    window = {} if "calls" in others else {"window_ns": 10 * zones.S}
    judged = {} if "failures" in others else {"minimum": 20, "failure_rate": 50}
    return limit(**{"preset": "none", **window, **judged, "slow_rate": 100, "sleep_ns": 5 * zones.S, "probes": 1,
                    "sleep_max_ns": others.get("sleep_ns", 5 * zones.S), "probe_timeout_ns": 60 * zones.S,
                    "ramp_ns": 5 * zones.S,
                    "permit_timeout_ns": 60 * zones.S, "judge_only": "no", "retry_ns": zones.S, **others})


def throttle(**others):
    return limit(**{"preset": "none", "window_ns": 120 * zones.S, "k": 2,
                    "permit_timeout_ns": 60 * zones.S, "retry_ns": zones.S, **others})


def adaptive(method, least, most, **others):
    return limit(**{"method": method, "initial": least, "min": least, "max": most,
                    "permit_timeout_ns": 60 * zones.S, "retry_ns": zones.S, **others})


# Name: (model of parameters, limits, and where limits follow the calendar: parameters to the
# function from any time to the end of its window)
ALGORITHMS = {
    "token_bucket": bucket("burst"),
    "leaky_bucket": bucket("capacity"),
    "pacer": (
        lambda p: models.pacer(count_of(p), period_of(p), p["slack"], p["max_wait_ns"]),
        [in_seconds(5, 1, slack=2, max_wait_ns=zones.S),
         in_seconds(3, 1, slack=0, max_wait_ns=zones.S // 2),
         in_seconds(1, 60, slack=0, max_wait_ns=0),
         limit(rate=rate(7, 100, "ms"), slack=10, max_wait_ns=30 * zones.S),
         limit(rate=rate(2**32, 1, "ms"), slack=2**32 - 1, max_wait_ns=1),
         limit(rate=rate(1, 365, "d"), slack=1, max_wait_ns=zones.DAY)]),
    "leaky_queue": (
        lambda p: models.leaky_queue(count_of(p), period_of(p), p["capacity"],
                                     p.get("max_wait_ns")),
        [in_seconds(5, 1, capacity=4),
         in_seconds(3, 1, capacity=2, max_wait_ns=zones.S // 2),
         in_seconds(1, 60, capacity=1, max_wait_ns=0),
         limit(rate=rate(7, 100, "ms"), capacity=3),
         limit(rate=rate(2**32, 1, "ms"), capacity=2**32),
         limit(rate=rate(1, 365, "d"), capacity=1)]),
    "warm_up": (
        lambda p: models.WarmUp(count_of(p), period_of(p), p["warm_up_ns"],
                                Fraction(str(p["cold"])), p["max_wait_ns"]),
        [in_seconds(5, 1, warm_up_ns=4 * zones.S, cold=3, max_wait_ns=2 * zones.S),
         in_seconds(3, 1, warm_up_ns=zones.S, cold=1.5, max_wait_ns=30 * zones.S),
         in_seconds(1, 60, warm_up_ns=10 * zones.S, cold=3, max_wait_ns=0),
         limit(rate=rate(7, 100, "ms"), warm_up_ns=3600 * zones.S, cold=1, max_wait_ns=zones.S),
         limit(rate=rate(99_991, 1, "s"), warm_up_ns=10 * zones.S, cold=2.718, max_wait_ns=zones.S),
         limit(rate=rate(2**32 - 5, 10, "s"), warm_up_ns=zones.S, cold=10000,
               max_wait_ns=366 * zones.DAY),
         limit(rate=rate(1, 365, "d"), warm_up_ns=366 * zones.DAY, cold=100,
               max_wait_ns=366 * zones.DAY)]),
    "fixed_window": (
        fixed_window,
        [windows(5, 1, "d", BERLIN_FORWARD - 2 * 3600 * zones.S - 1),
         windows(5, 1, "d", BERLIN_BACK - 3 * 3600 * zones.S - 1),
         windows(2, 6, "h", BERLIN_FORWARD - 1),
         windows(2, 6, "h", BERLIN_BACK - 1),
         windows(1, 1, "h", BERLIN_BACK - 1),
         windows(2**32, 1, "month", END_OF_APRIL - 2 * 3600 * zones.S - 1),
         windows(3, 1, "month", END_OF_FEBRUARY - 1, timezone="UTC"),
         windows(3, 1, "year", END_OF_2024 - 3600 * zones.S - 1),
         windows(3, 1, "w", NOW, week_start="sunday"),
         windows(3, 7, "s", NOW, timezone="Asia/Kathmandu"),
         in_seconds(5, 10, align="first_request"),
         limit(rate=rate(1, 366, "d"), align="first_request")],
        lambda p: calendar_end(p) if p["align"] == "calendar" else None),
    "resetting_bucket": (
        lambda p: models.first_request(count_of(p), period_of(p)),
        [in_seconds(5, 10), in_seconds(1, 1), limit(rate=rate(3, 1, "ns")),
         limit(rate=rate(2**32, 366, "d"))]),
    "sliding_window": (
        lambda p: models.SlidingWindow(count_of(p), period_of(p), p["slots"]),
        [in_seconds(10, 10, slots=5),
         in_seconds(5, 1, start=1_700_000_000 * zones.S - 1, slots=7),
         in_seconds(1, 1, slots=1), limit(rate=rate(3, 10, "ns"), slots=3),
         in_seconds(65536, 60, slots=2),
         limit(rate=rate(2**32, 366, "d"), slots=10)]),
    "sliding_counter": (
        lambda p: models.SlidingCounter(count_of(p), period_of(p)),
        [in_seconds(10, 10, start=1_700_000_010 * zones.S - 1), in_seconds(1, 1),
         limit(rate=rate(3, 7, "ns")), in_seconds(65536, 60),
         limit(rate=rate(2**32, 366, "d"))]),
    "sliding_log": (
        lambda p: models.SlidingLog(count_of(p), period_of(p)),
        [in_seconds(5, 10), in_seconds(1, 1), limit(rate=rate(3, 7, "ns")),
         in_seconds(10000, 60), limit(rate=rate(2, 366, "d"))]),
    "base": (
        lambda p: models.Base(p["base"], count_of(p), period_of(p), day_end(p)),
        [in_seconds(2, 600, base=4, timezone="Europe/Berlin",
                    start=BERLIN_FORWARD - 2 * 3600 * zones.S - 1),
         in_seconds(2, 600, base=3, timezone="Europe/Berlin",
                    start=BERLIN_BACK + 23 * 3600 * zones.S - 300 * zones.S),
         in_seconds(1, 1, base=1, timezone="UTC"),
         limit(rate=rate(3, 2, "d"), base=2, timezone="Asia/Kathmandu"),
         limit(rate=rate(1, 1, "ms"), base=2**32, timezone="UTC")],
        day_end),
    "random": (
        lambda p: models.Random(p["deny"], p["retry_ns"]),
        [limit(deny=0.25, retry_ns=zones.S), limit(deny=0, retry_ns=1),
         limit(deny=1, retry_ns=366 * zones.DAY), limit(deny=0.001, retry_ns=zones.S)]),
    "concurrency": (
        lambda p: models.Concurrency(p["max"], p["lease_ns"], p["retry_ns"]),
        [limit(max=5, lease_ns=30 * zones.S, retry_ns=40 * zones.S),
         limit(max=1, lease_ns=1, retry_ns=1),
         limit(max=10000, lease_ns=zones.S, retry_ns=366 * zones.DAY),
         limit(max=2, lease_ns=366 * zones.DAY, retry_ns=1)]),
    "breaker": (
        models.Breaker,
        [breaker(),
         breaker(calls=20, minimum=7, failure_rate=40, probes=3, max_concurrent=4),
         breaker(preset="hystrix", ramp_ns=0, max_concurrent=10),
         breaker(preset="resilience4j", calls=100, minimum=100, probes=10, slow_ns=60 * zones.S,
                 sleep_ns=60 * zones.S, ramp_ns=0),
         breaker(slow_ns=zones.S, slow_rate=30, minimum=1, failure_rate=100, ramp_ns=zones.S,
                 permit_timeout_ns=3 * zones.S),
         breaker(window_ns=10**6 + 7, minimum=3, sleep_ns=10**6, permit_timeout_ns=10**6,
                 ramp_ns=366 * zones.DAY, probes=100, retry_ns=1),
         breaker(failures=3, slow_ns=zones.S, slow_rate=30, ramp_ns=0, probe_timeout_ns=5 * zones.S,
                 sleep_max_ns=60 * zones.S),
         breaker(minimum=3, max_concurrent=2, probes=2, ramp_ns=0, judge_only="yes"),
         breaker(preset="resilience4j", calls=20, failures=30, probes=3, slow_ns=60 * zones.S, ramp_ns=0)]),
    "throttle": (
        models.Throttle,
        [throttle(),
         throttle(preset="kratos", window_ns=3 * zones.S, k=1 / 0.6, minimum=5),
         throttle(preset="go-zero", window_ns=10 * zones.S, k=1.5),
         throttle(window_ns=10**6 + 7, k=1, permit_timeout_ns=10**6, retry_ns=1),
         throttle(window_ns=366 * zones.DAY, k=1000, minimum=10**6,
                  permit_timeout_ns=366 * zones.DAY)]),
    "adaptive": (
        models.Adaptive,
        [adaptive("knee", 2, 30, initial=5), adaptive("gradient2", 1, 40, initial=8),
         adaptive("vegas", 1, 10000, initial=3, permit_timeout_ns=10**6), adaptive("aimd", 2, 9, initial=4),
         adaptive("bbr", 1, 12, initial=3, permit_timeout_ns=366 * zones.DAY, retry_ns=1)]),
}
