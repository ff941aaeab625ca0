"""Models of counts that end with a window or a day."""

import math

from models.model import DAY_NS, Model


class Window(Model):
    """fixed_window and resetting_bucket: a count and the window's end.

    A window is open until its end also when time steps back: no older time
    gets a count of its own, or two clocks around a window's edge would share
    out two quotas. But an aligned window that is not even the next one
    (`ahead_max` after the end of the current one) was counted by a clock that
    was wrong: it keeps its count and ends with the current one. So does any
    other that ends a day later than it could, once it denies.
    """

    def __init__(self, count, end_of, ahead_max=math.inf):
        self.quota = count
        self.end_of = end_of
        self.ahead_max = ahead_max

    def said(self, now):
        return {"until_ns": self.state[0], "count": self.state[1]}

    def heard(self, saved):
        return saved["until_ns"], saved["count"]

    def _open(self, now):
        return self.state is not None and now < self.state[0]

    def _count(self, now):
        return self.state[1] if self._open(now) else 0

    def _end(self, now):
        end = self.end_of(now)
        if self._open(now) and self.state[0] <= end + self.ahead_max:
            return self.state[0]
        return end

    def cut_back(self, now):
        ahead_max = DAY_NS if self.ahead_max == math.inf else self.ahead_max
        if self._open(now) and self.state[0] > self.end_of(now) + ahead_max:
            self.state = (self.end_of(now), self.state[1])

    def ahead(self, now):
        return self._end(now) - now if self._open(now) else 0

    def wait(self, now, cost):
        return self._end(now) - now if self._count(now) + cost > self.quota else 0

    def reason(self, now, cost):
        return "hit_quota" if self._count(now) + cost == self.quota else "ok"

    def take(self, now, cost, permit):
        self.state = (self._end(now), self._count(now) + cost)

    def give(self, now, cost, permit):
        """A window whose whole count is given back was never opened. No other is given to."""
        left = self._count(now) - cost
        named = not permit or permit["until_ns"] == self._end(now)
        if not cost or not self._open(now) or not named:
            return False
        self.state = (self._end(now), left) if left > 0 else None
        return True

    def remaining(self, now):
        return self.quota - self._count(now)


class Base(Model):
    """base: today's count up to `base`, then also one in a window that opens when it meets none.

    Kept as two numbers: the units of today that no window counts, base - 1 of them at most,
    since the one that reaches `base` is the first of a window; and those in the
    window. A window is one day's, and one whose units are all given back was never opened.

    A day that ends later than tomorrow, and a window a day later than it could, were
    counted by a clock that was wrong: they keep their counts and end as they should.
    """

    def __init__(self, base, count, period_ns, end_of):
        self.free, self.count, self.period = base - 1, count, period_ns
        self.quota = self.free + count
        self.end_of = end_of

    def said(self, now):
        end, free, window_end, count = self.state
        window = {"until_ns": window_end, "count": count} if count and now < window_end else None
        return {"until_ns": end, "free": free, "window": window}

    def heard(self, saved):
        window = saved["window"] or {"until_ns": 0, "count": 0}
        return saved["until_ns"], saved["free"], window["until_ns"], window["count"]

    def taken_until(self, now):
        end, _, window_end, count = self.state
        return min(window_end, end) if count else end

    def _view(self, now):
        """Today's end and free units in use, the window's end and count."""
        end, free, window_end, count = self.state or (0, 0, 0, 0)
        if now >= end:
            return self.end_of(now), 0, 0, 0
        if end > self.end_of(now) + DAY_NS + DAY_NS // 8:
            end = self.end_of(now)
        if now >= window_end:
            return end, free, 0, 0
        if window_end > now + self.period + DAY_NS:
            window_end = now + self.period
        return end, free, window_end, count

    def denied(self, now):
        """Only what was cut back is written; what is over may come back with the time."""
        cut = self._view(now)
        if any(before > after for before, after in zip(self.state[::2], cut[::2]) if after):
            self.state = cut

    def ahead(self, now):
        end, free, window_end, count = self._view(now)
        if free:
            return end - now
        return min(end, window_end) - now if count else 0

    def wait(self, now, cost):
        end, free, window_end, count = self._view(now)
        if free + count + cost <= self.quota:
            return 0
        return (min(end, window_end) if count and cost <= self.count else end) - now

    def take(self, now, cost, permit):
        end, free, window_end, count = self._view(now)
        of_free = min(cost, self.free - free)
        if cost > of_free and not count:
            window_end = now + self.period
        self.state = (end, free + of_free, window_end, count + cost - of_free)

    def give(self, now, cost, permit):
        """The window's units first. By name, if what it names is of this day, and not over."""
        end, free, window_end, count = self._view(now)
        of_window = min(cost, count)
        earliest = self.end_of(now) if self.end_of(now) < end else now
        named = not permit or earliest < permit["until_ns"] <= end
        if not min(cost, free + count) or not named:
            return False
        left = count - of_window
        self.state = (end, max(free - (cost - of_window), 0), window_end if left else 0, left)
        return True

    def remaining(self, now):
        _, free, _, count = self._view(now)
        return self.quota - free - count


def first_request(count, period_ns):
    return Window(count, lambda now: now + period_ns)


def end_of_utc_day(now):
    return (now // DAY_NS + 1) * DAY_NS


def utc_days(count):
    return Window(count, end_of_utc_day, ahead_max=DAY_NS + DAY_NS // 8)
