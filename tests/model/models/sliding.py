"""Models of counts of the last period: in slots, in two windows, and for each request."""

import math
from fractions import Fraction

from models.model import DAY_NS, Model, uses_of


class Sliding(Model):
    """What was taken, each with when it was taken: the number of a slot, or a time.

    Nothing is taken before the newest: a clock that lags behind takes there, or two
    clocks would share out two quotas. But a newest that lies more than a day ahead was
    written before the clock was set back: all that was in use then counts as taken now.
    The first request that asks moves it, even if it is denied, or the key would be
    locked until the clock is there again.

    A refund takes from what is in use now, the newest first; by name, only from what
    ends then. The newest stays, with nothing taken, when all of it is given back or
    reset: nothing is taken before it afterwards.
    """

    def __init__(self, quota):
        self.quota = quota
        self.state = None  # [when, units, permit] in order

    def said(self, now):
        return uses_of((self.end(when), units, permit) for when, units, permit in self.state
                       if units and self.end(when) > now)

    def heard(self, saved):
        return [[self.ended(use["until_ns"]), use["units"], use.get("permit")]
                for use in saved["uses"]]

    def permit(self, permit):
        """What is kept of a permit with the use: a slot is many requests'."""
        return None

    def named(self, entry, permit):
        return self.end(entry[0]) == permit["until_ns"]

    def _clock_was_set_back(self, now):
        return bool(self.state) and self.start(self.state[-1][0]) - now > DAY_NS

    def denied(self, now):
        if self._clock_was_set_back(now):
            self.state = self._view(now)[1]

    def _view(self, now):
        """The time at which to take, and the units in use then."""
        when = self.when(now)
        if not self.state:
            return when, []
        if self._clock_was_set_back(now):
            return when, [[when, min(sum(units for _, units, _ in self.state), self.quota), None]]
        when = max(when, self.state[-1][0])
        return when, [[*entry] for entry in self.state if self.end(entry[0]) > self.start(when)]

    def _in_use(self, now):
        return [(when, units) for when, units, _ in self._view(now)[1] if units]

    def ahead(self, now):
        in_use = self._in_use(now)
        return self.end(in_use[-1][0]) - now if in_use else 0

    def wait(self, now, cost):
        in_use = self._in_use(now)
        over = sum(units for _, units in in_use) + cost - self.quota
        freed = now
        for when, units in in_use:
            if over > 0:
                over -= units
                freed = self.end(when)
        return freed - now

    def take(self, now, cost, permit):
        when, in_use = self._view(now)
        self.state = in_use + [[when, cost, self.permit(permit)]]

    def give(self, now, cost, permit):
        in_use, left = self._view(now)[1], cost
        for entry in reversed(in_use):
            if not permit or self.named(entry, permit):
                given = min(left, entry[1])
                entry[1] -= given
                left -= given
        if left < cost:
            self.state = [entry for entry in in_use if entry[1] or entry is in_use[-1]]
        return left < cost

    def forget(self, now):
        self.state = [[self._view(now)[1][-1][0], 0, None]]

    def remaining(self, now):
        return max(self.quota - sum(units for _, units in self._in_use(now)), 0)


class SlidingWindow(Sliding):
    """sliding_window: slots, cut at multiples of period / slots from the epoch."""

    def __init__(self, count, period_ns, slots=10):
        super().__init__(count)
        self.slots = slots
        self.length = Fraction(period_ns, slots)

    def when(self, now):
        return math.floor(now / self.length)

    def start(self, slot):
        return math.ceil(slot * self.length)

    def end(self, slot):
        """When it is no more one of the last `slots`."""
        return self.start(slot + self.slots)

    def ended(self, end):
        return self.when(end) - self.slots


class SlidingCounter(SlidingWindow):
    """sliding_counter: two windows from the epoch, the earlier by its overlap with the last period.

    Kept as a sliding window of two slots, of which the earlier fades away.
    """

    def __init__(self, count, period_ns):
        super().__init__(count, 2 * period_ns, 2)
        self.period = period_ns

    def _windows(self, now):
        """The window that now is in, what was taken in it, and in the one before."""
        slot, in_use = self._view(now)
        taken = {at: sum(units for other, units, _ in in_use if other == at)
                 for at in (slot, slot - 1)}
        return slot, taken[slot], taken[slot - 1]

    def _weighed(self, now):
        slot, count, before = self._windows(now)
        elapsed = max(now - self.start(slot), 0)
        return count + before * (1 - Fraction(elapsed, self.period))

    def wait(self, now, cost):
        if self._weighed(now) + cost <= self.quota:
            return 0
        slot, count, before = self._windows(now)
        room = self.quota - cost - count
        if room < 0:  # not before this window is the earlier one
            slot, before, room = slot + 1, count, self.quota - cost
        fades = Fraction(max(before - room, 0) * self.period, max(before, 1))
        return math.ceil(self.start(slot) + fades) - now

    def remaining(self, now):
        return max(math.floor(self.quota - self._weighed(now)), 0)


class SlidingLog(Sliding):
    """sliding_log: the very times; in use is what lies in (now - period, now]."""

    def __init__(self, count, period_ns):
        super().__init__(count)
        self.period = period_ns

    def permit(self, permit):
        return permit and permit["id"]

    def named(self, entry, permit):
        return entry[2] == permit["id"]

    def when(self, now):
        return now

    def start(self, time):
        return time

    def end(self, time):
        return time + self.period

    def ended(self, end):
        return end - self.period
