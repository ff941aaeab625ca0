"""A table with an entry for each algorithm: the parameters that the generator draws, and the bounds that the judge expects."""

import dataclasses
import math
from fractions import Fraction

MS = 10**6
UNITS = {"ms": MS, "s": 1000 * MS, "m": 60_000 * MS, "h": 3_600_000 * MS, "d": 86_400_000 * MS}


def duration(text):
    """Nanoseconds of `10s`, `100ms` or `d`."""
    digits = text.rstrip("mshd")
    return int(digits or 1) * UNITS[text[len(digits):]]


def count_of(limit):
    return int(limit["rate"].split("/")[0])


def period_of(limit):
    return duration(limit["rate"].split("/")[1])


def _burst(limit):
    return limit.get("burst") or limit.get("capacity") or count_of(limit)


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """
    `draws`: parameters, each with values to choose from. Parameters of which only one may be given are drawn as a tuple.
    `exact`: at one instant, `remaining` falls by the cost of each request, and rises by what is
    given back by permit.
    `clock`: a denied request passes when its `retry_after` has passed.
    `bound`: how the judge bounds what passes (bounds.py).
    """

    draws: dict
    exact: bool = True
    clock: bool = True
    paced: bool = False
    remote: bool = True
    chunk: bool = False
    bound: str = ""


RATES = ["1/s", "2/3s", "5/s", "3/m", "6/m", "600/m", "4/h", "10/h", "100/h", "10/d", "100/d",
         "86400/d", "10/100ms", "7/100ms"]
LOGS = ["1/s", "2/3s", "3/m", "8/m", "15/m", "4/h", "40/h", "10/d"]
SIZES = [1, 2, 3, 5, 8, 10, 40, 100]
KEYS = [None, None, 50, 100, 200]

ALGORITHMS = {
    "token_bucket": Algorithm({"rate": RATES, "burst": SIZES}, chunk=True, bound="bucket"),
    "leaky_bucket": Algorithm({"rate": RATES, "capacity": SIZES}, chunk=True, bound="bucket"),
    "fixed_window": Algorithm({"rate": RATES, "align": ["calendar", "first_request"]}, chunk=True,
                              bound="window"),
    "resetting_bucket": Algorithm({"rate": RATES}, chunk=True, bound="window"),
    "sliding_window": Algorithm({"rate": RATES, "slots": [None, 2, 5, 10], "keys": KEYS},
                                bound="sliding"),
    "sliding_counter": Algorithm({"rate": RATES, "keys": KEYS}, bound="sliding"),
    "sliding_log": Algorithm({"rate": LOGS, "keys": KEYS}, bound="log"),
    "base": Algorithm({"base": SIZES, "rate": LOGS, "keys": KEYS}, bound="day"),
    "concurrency": Algorithm({"max": SIZES, "lease": ["1s", "30s", "10m"], "keys": KEYS}, clock=False,
                             bound="places"),
    "pacer": Algorithm({"rate": RATES, "slack": [0, 1, 3, 10], "max_wait": ["0s", "1s", "30s", "1h"]},
                       exact=False, paced=True, bound="turns"),
    "leaky_queue": Algorithm({"rate": RATES, "capacity": SIZES, "max_wait": [None, "1s", "1h"]},
                             exact=False, paced=True, bound="turns"),
    "warm_up": Algorithm({"rate": RATES, "warm_up": ["1s", "10s", "60s"], "cold": [None, 2],
                          "max_wait": ["0s", "1s", "1h"]}, exact=False, paced=True, bound="turns"),
    "random": Algorithm({"deny": [0, 0.5, 1]}, exact=False, clock=False, remote=False),
    "breaker": Algorithm({"max_concurrent": [None, 2, 5], "sleep": ["1s"], "sleep_max": [None, "1s", "3s", "1m"],
                          ("minimum", "failures"): [(2, None), (None, 1), (None, 2)],
                          "probe_timeout": [None, "100ms", "10s", "5m"], "judge_only": [None, None, "yes"],
                          "keys": KEYS}, exact=False, clock=False, remote=False),
    "throttle": Algorithm({"keys": KEYS}, exact=False, clock=False, remote=False),
    "adaptive": Algorithm({"min": [2], "max": [5, 10], "keys": KEYS}, exact=False, clock=False,
                          remote=False),
}


def of(limit):
    return ALGORITHMS[limit["algorithm"]]


def horizon(limit):
    """After this time without a request a key is as new."""
    if limit["algorithm"] == "concurrency":
        return duration(limit["lease"]) + MS
    if limit["algorithm"] == "base":
        return 2 * UNITS["d"] + 2 * period_of(limit)
    if "rate" not in limit:
        return 300 * UNITS["s"]
    interval = Fraction(period_of(limit), count_of(limit))
    wait = duration(limit["max_wait"]) if limit.get("max_wait") else 0
    turns = max(_burst(limit), limit.get("slack") or 0, 1) + 1
    cold = duration(limit.get("warm_up") or "0s") * 4
    return int(2 * period_of(limit) + turns * interval + wait + cold + _reserve(limit, interval)) + UNITS["s"]


def slowdown(forms):
    """How many times as long units may count that one form of a limit has granted, and another converts."""
    intervals = [Fraction(period_of(limit), count_of(limit)) for limit in forms if "rate" in limit]
    return math.ceil(max(intervals) / min(intervals)) if intervals else 1


def _reserve(limit, interval):
    """For how long the units are gone that a server holds which was killed: docs/distributed.md."""
    if "chunk" not in limit:
        return 0
    brings = quota(limit) * Fraction(limit["chunk"].rstrip("%")) / 100 * interval
    return max(10 * UNITS["s"], min(brings, UNITS["h"])) + brings


def quota(limit):
    """The units that a new key grants at once, for the rules on chunks and bounds."""
    if limit["algorithm"] in ("token_bucket", "leaky_bucket"):
        return _burst(limit)
    return limit["max"] if "max" in limit else count_of(limit)
