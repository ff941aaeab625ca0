"""
CL.THROTTLE against a model of redis-cell 0.5.0, call by call in virtual time, in memory and at Redis.

The model has redis-cell's arithmetic: whole nanoseconds in 64 bits, and quotients of floating point. Where counts
divide their periods into whole microseconds, nothing is rounded and all answers are the same. Others differ by what
redis-cell rounds: an interval to whole nanoseconds, and to whole microseconds for what remains, each downwards.
"""

import random
from fractions import Fraction

import pytest

import player as players

NS, MS = 10**9, 10**6
COUNTS = [1, 2, 4, 5, 10, 20, 50, 60, 100, 200, 250, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000]
UNEVEN = [3, 7, 9, 30, 70, 110, 300, 700, 3000, 7000, 30_000, 70_000, 300_000, 700_000, 999_999]
PERIODS = [1, 2, 5, 10, 60, 3600, 86_400, 10 * 86_400]
BURSTS = [0, 0, 1, 2, 5, 15, 99, 1000]
LONGEST = 16 * 365 * 86_400 * NS  # Weir refuses buckets that take longer to fill


def truncated(number, unit):
    """A quotient as Rust has it, towards zero."""
    return abs(number) // unit * (1 if number >= 0 else -1)


def rounded(ns):
    """As redis-cell answers a time: in seconds, and one more for a part of at least a millisecond."""
    return truncated(ns, NS) + (ns % NS >= MS if ns > 0 else 0)


class Cell:
    """One key of redis-cell. With `expires` it ends as a key of Redis does: after whole milliseconds."""

    def __init__(self, expires):
        self.expires = expires
        self.tat = None
        self.end_ms = 0

    def throttle(self, now, max_burst, count, period_s, quantity):
        interval = int(float(period_s * NS) / float(count))
        tolerance, increment = interval * (max_burst + 1), interval * quantity
        if self.tat is not None and (now // MS > self.end_ms if self.expires else now >= self.tat):
            self.tat = None
        tat = now if self.tat is None else self.tat
        new, retry = max(tat, now) + increment, -NS
        limited = new - tolerance > now
        if limited:
            ttl = tat - now
            if increment <= tolerance:
                retry = new - tolerance - now
        else:
            self.tat, ttl = new, new - now
            self.end_ms = now // MS + ttl // MS
        left, remaining = tolerance - ttl, 0
        if left > -interval:
            remaining = int(float(truncated(left, 1000)) / float(interval // 1000))
        return [int(limited), max_burst + 1, remaining, rounded(retry), rounded(ttl)]


def draw_calls(seed, count, unit, counts=COUNTS):
    """(now, key, max_burst, count, period, quantity) each; times are multiples of `unit`."""
    draw, now = random.Random(seed), players.START
    drawn = [(draw.choice(BURSTS), draw.choice(counts), draw.choice(PERIODS)) for _ in range(60)]
    drawn = [(burst, n, period) for burst, n, period in drawn
             if (period * 10**6 % n == 0) == (counts is COUNTS) and period * NS // n * (burst + 1) < LONGEST]
    for _ in range(count):
        burst, n, period = draw.choice(drawn)
        interval = period * NS // n
        if draw.random() < 0.6:
            now += draw.choice([1, interval, interval // 2, interval * draw.randrange(1, burst + 2),
                                draw.randrange(1, interval + 2), draw.randrange(1, 2 * MS)]) // unit * unit
        quantity = draw.choice([1, 1, 1, 0, 2, burst, burst + 1, burst + 2, draw.randrange(burst + 3)])
        yield now, draw.choice("abcdef"), burst, n, period, quantity


def ask(player, store, calls):
    """The reply of Weir to each call. A quantity above the burst is peeked at, as the server does."""
    config = "limits: { a: { algorithm: token_bucket, rate: 1/s } }\n"
    opened = player.ask([f"begin {players.START}", f"server 0 {store} 0 0 {20 * MS} 1",
                         f"config 0 {len(config)}\n{config}"[:-1]])
    assert [words[0] for words in opened] == ["0"] * 3
    now, answers = players.START, []
    for some in (calls[i:i + 500] for i in range(0, len(calls), 500)):
        lines = []
        for at, key, burst, count, period, quantity in some:
            lines.append(f"pass {at - now}")
            cost = 0 if quantity > burst + 1 else quantity
            lines.append(f"adhoc 0 {key} {burst + 1} {count} {period} {cost}")
            now = at
        answers += map(players.decision, player.ask(lines)[1::2])
    return answers


def seconds(ns):
    return -(-(ns // MS) // 1000)


def reply(answer, call):
    """CL.THROTTLE's five numbers of a decision."""
    limited = not answer["allowed"] or call[-1] > call[2] + 1
    retry = max(seconds(answer["retry"]), 1) if limited and call[-1] <= call[2] + 1 else -1
    return [int(limited), answer["quota"], answer["remaining"], retry, seconds(answer["reset"])]


def expected(cell, call):
    """The model's answer but for the two differences that docs/protocols.md tells of."""
    five = cell.throttle(call[0], *call[2:])
    if five[0] and five[3] == 0:  # a denial has a time to wait
        five[3] = 1
    return five


@pytest.mark.parametrize("store, count, unit", [("memory", 60_000, 1), ("redis", 6_000, 1000)])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_call_is_answered_as_by_redis_cell(store, count, unit, seed):
    """A key keeps its debt, whatever parameters the calls between have had."""
    calls, cells = list(draw_calls(seed, count, unit)), {}
    with players.Player(with_redis=store == "redis") as player:
        answers = ask(player, store, calls)
    for call, answer in zip(calls, answers):
        assert answer["status"] == 0, call
        found = reply(answer, call)
        wanted = expected(cells.setdefault(call[1], Cell(expires=False)), call)
        if call[-1] == 0:  # whether 1 would pass, not whether 0 does
            found[0] = found[3] = wanted[0] = wanted[3] = None
        assert found == wanted, call


class Beside:
    """A key of redis-cell, and by how many nanoseconds Weir's may be ahead of it. `grain`: of a time in Weir's store."""

    def __init__(self, grain):
        self.cell, self.grain = Cell(expires=False), grain
        self.ahead = Fraction(0)

    def compare(self, call, found):
        """Whether the decisions are the same. All else is, but for what redis-cell rounds."""
        now, _, burst, count, period, quantity = call
        exact, interval = Fraction(period * NS, count), period * NS // count
        before = self.cell.tat
        if before is None or before + self.ahead <= now:
            self.ahead = Fraction(0)
        wanted = expected(self.cell, call)
        bound = self.ahead + (burst + 1) * (exact - interval) + self.grain
        start = max(now if before is None else before, now)
        over = start + interval * (quantity - burst - 1) - now  # redis-cell grants up to 0
        is_same = quantity == 0 or found[0] == wanted[0]
        if not is_same:
            assert abs(over) <= bound, (call, found, wanted)
            self.cell.tat = before if found[0] else start + interval * quantity
        if quantity > 0 and not found[0]:
            self.ahead += quantity * (exact - interval) + self.grain
        used = max((self.cell.tat or 0) - now, 0)
        self._compare_rest(call, found, wanted, used, bound + self.grain, interval)
        return is_same

    @staticmethod
    def _compare_rest(call, found, wanted, used, bound, interval):
        burst, quantity = call[2], call[5]
        assert seconds(used) <= found[4] <= seconds(int(used + bound) + 1), (call, found, wanted)
        if found[0] and wanted[0] and 0 < quantity <= burst + 1:
            retry = used + interval * (quantity - burst - 1)
            assert seconds(max(0, int(retry - bound))) <= found[3] <= max(1, seconds(int(retry + bound) + 1)), (call, found)
        room = (burst + 1) * interval - used
        assert int(room - bound) // (interval + 1) <= found[2] <= max(0, int(room + bound) // interval), (call, found)
        if found[0] == wanted[0]:  # it divides by an interval of whole microseconds
            more = (burst + 1) * (interval % 1000) // (interval - interval % 1000)
            assert -1 <= wanted[2] - found[2] <= 1 + more, (call, found, wanted)


@pytest.mark.parametrize("store, count, unit, grain", [("memory", 60_000, 1, 1), ("redis", 6_000, 1000, 1000)])
@pytest.mark.parametrize("seed", [1, 2])
def test_intervals_that_are_no_whole_microseconds_differ_by_the_rounding(store, count, unit, grain, seed):
    """Redis-cell's keys come back up to a nanosecond sooner for each unit, so a decision differs within that alone."""
    calls, keys, differ = list(draw_calls(seed, count, unit, UNEVEN)), {}, 0
    with players.Player(with_redis=store == "redis") as player:
        answers = ask(player, store, calls)
    for call, answer in zip(calls, answers):
        assert answer["status"] == 0, call
        differ += not keys.setdefault(call[1], Beside(grain)).compare(call, reply(answer, call))
    assert differ < count / 100


def test_a_key_of_redis_cell_ends_up_to_a_millisecond_early_or_late():
    """So it differs from its own arithmetic, mostly at 100 a second and faster, where this is much."""
    cells, ends, early, late = {}, {}, 0, 0
    for call in draw_calls(3, 60_000, 1):
        now, key = call[:2]
        cell, ending = cells.setdefault(key, Cell(False)), ends.setdefault(key, Cell(True))
        ending.tat, ending.end_ms = cell.tat, cell.end_ms
        left = 0 if cell.tat is None else cell.tat - now
        if expected(ending, call) != expected(cell, call):
            assert -MS < left < MS, call
            early += left > 0
            late += left < 0
    assert early > 0 and late > 0
