"""The windows of the calendar, built on zoneinfo and dates: a model of their own."""

import functools
import zoneinfo
from datetime import date, datetime, timedelta, timezone

S = 10**9
DAY = 86400 * S
LENGTH = {"ns": 1, "ms": 10**6, "s": S, "m": 60 * S, "h": 3600 * S, "d": DAY, "w": 7 * DAY}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def seconds(when):
    """Unix time, exactly."""
    return (when - EPOCH) // timedelta(seconds=1)


def clock(zone, t):
    """The local time of the zone at Unix time `t`, as a naive datetime."""
    return (EPOCH + timedelta(seconds=t)).astimezone(zone).replace(tzinfo=None)


@functools.lru_cache(maxsize=1 << 18)
def midnight(zone, day):
    """The first second at which the zone's clocks show midnight of `day` or later."""
    wanted = datetime(day.year, day.month, day.day)
    t = seconds(wanted.replace(tzinfo=zone))  # fold=0: the first of two
    if clock(zone, t) == wanted:
        return t
    # Skipped: the clocks jump over it within a day before.
    before, after = t - 86400, t
    assert clock(zone, before) < wanted <= clock(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if clock(zone, middle) < wanted:
            before = middle
        else:
            after = middle
    return after


def days(day, n):
    return day + timedelta(days=n)


def day_of(zone, t):
    """The day that has begun and not ended, whatever date the clocks show again."""
    shown = clock(zone, t).date()
    return max(day for day in (days(shown, n) for n in range(-2, 4)) if midnight(zone, day) <= t)


def month_start(index):
    return date(index // 12, index % 12 + 1, 1)


def window(zone, period, unit, week_start, now):
    """(start, end) in Unix nanoseconds. `week_start`: 0 is Monday."""
    zone = zoneinfo.ZoneInfo(zone)
    t = now // S
    if unit in ("month", "year") or (unit == "w" and period == 1):
        today = day_of(zone, t)
        if unit == "w":
            first = days(today, -((today.weekday() - week_start) % 7))
            following = days(first, 7)
        else:
            group = period * (12 if unit == "year" else 1)
            index = today.year * 12 + today.month - 1
            index -= index % group
            first, following = month_start(index), month_start(index + group)
        return midnight(zone, first) * S, midnight(zone, following) * S
    length = period * LENGTH[unit]
    if length % DAY == 0:
        number = (day_of(zone, t) - EPOCH.date()).days
        first = days(EPOCH.date(), number - number % (length // DAY))
        return midnight(zone, first) * S, midnight(zone, days(first, length // DAY)) * S
    if DAY % length:
        offset = clock(zone, t) - clock(timezone.utc, t)
        offset = offset // timedelta(seconds=1) * S
        start = (now + offset) // length * length - offset
        return start, start + length
    today = day_of(zone, t)
    start, end = midnight(zone, today) * S, midnight(zone, days(today, 1)) * S
    # Every cut of a 24-hour day that comes before this one ends.
    cut = min((now - start) // length, DAY // length - 1)
    after = start + (cut + 1) * length
    return start + cut * length, end if cut == DAY // length - 1 else min(after, end)
