"""Models of buckets, and of pacers, which delay requests to their turns."""

import math
from fractions import Fraction

from models.model import DAY_NS, Model


class Tokens(Model):
    """What comes back one after the other, an interval apart."""

    def said(self, now):
        until = now + self.ahead(now)
        return {"until_ns": math.ceil(until),
                "under": int((math.ceil(until) - until) * self.interval.denominator)}

    def until(self, saved):
        return saved["until_ns"] - Fraction(saved["under"], self.interval.denominator)


class Bucket(Tokens):
    """token_bucket and leaky_bucket: the tokens that are missing, or the level.

    Kept as the time at which the bucket is as new.
    """

    def __init__(self, count, period_ns, burst):
        self.interval = Fraction(period_ns, count)
        self.quota = burst
        self.depth = burst * self.interval

    heard = Tokens.until

    def ahead(self, now):
        return max(self.state - now, 0) if self.state is not None else 0

    def cut_back(self, now):
        """What is a day further ahead than the depth was counted by a clock that was wrong."""
        if math.ceil(self.ahead(now)) > math.ceil(self.depth) + DAY_NS:
            self.state = now + self.depth

    def wait(self, now, cost):
        return max(self.ahead(now) + cost * self.interval - self.depth, 0)

    def take(self, now, cost, permit):
        self.state = now + self.ahead(now) + cost * self.interval

    def give(self, now, cost, permit):
        """A bucket whose whole use is given back is as new.

        Of a request that others have followed, what has not leaked since: water leaks in
        the order in which it came. Its name is a time rounded up.
        """
        back = cost * self.interval
        if permit and self.state and permit["until_ns"] != math.ceil(self.state):
            rounded = self.interval.denominator > 1
            back = min(back, max(permit["until_ns"] - rounded - now, 0))
        ahead = self.ahead(now)
        if not back or not ahead:
            return False
        self.state = now + ahead - back if ahead > back else None
        return True

    def remaining(self, now):
        return max(math.floor((self.depth - self.ahead(now)) / self.interval), 0)


class Paced(Tokens):
    """pacer and leaky_queue: turns an interval apart, each for one.

    The state is the newest turn. A request of a higher cost is as many requests
    at once, and goes with the last of them. Idle time, and being new, is worth
    `slack` turns; no turn is further off than `longest`.
    """

    paced = True

    def __init__(self, count, period_ns, slack, longest, denial):
        self.interval = Fraction(period_ns, count)
        self.slack = slack * self.interval
        self.longest, self.patience = longest, math.inf
        self.denial = denial
        self.quota = self.remaining(0)

    def heard(self, saved):
        return self.until(saved) - self.interval - self.slack

    def _turn(self, now, cost):
        first = now - self.slack
        if self.state is not None:
            first = max(first, self.state + self.interval)
        return first + (cost - 1) * self.interval

    def ahead(self, now):
        """Until idle time has saved up all it can."""
        if self.state is None:
            return 0
        return max(self.state + self.interval + self.slack - now, 0)

    def cut_back(self, now):
        most = math.ceil(self.longest + self.interval + self.slack)
        if math.ceil(self.ahead(now)) > most + DAY_NS:
            self.state = now + self.longest

    def wait(self, now, cost):
        return max(self._turn(now, cost) - now - min(self.longest, self.patience), 0)

    def denial_of(self, now, cost):
        within = self._turn(now, cost) - now <= self.longest
        return "wait_too_long" if within else self.denial

    def pause(self, now, cost):
        return max(self._turn(now, cost) - now, 0)

    def take(self, now, cost, permit):
        self.state = self._turn(now, cost)

    def give(self, now, cost, permit):
        """The newest turns, for the requests that come next. A turn with others behind it stays."""
        newest = not permit or permit["until_ns"] == now + math.ceil(self.ahead(now))
        if not cost or not self.ahead(now) or not newest:
            return False
        left = self.ahead(now) > cost * self.interval
        self.state = self.state - cost * self.interval if left else None
        return True

    def remaining(self, now):
        room = now + self.longest - self._turn(now, 1)
        return max(math.floor(room / self.interval) + 1, 0)


def pacer(count, period_ns, slack, max_wait):
    room = 2**53 * Fraction(period_ns, count)  # no more than that may wait, at absurd rates
    if room <= max_wait:
        return Paced(count, period_ns, slack, room, "queue_full")
    return Paced(count, period_ns, slack, max_wait, "wait_too_long")


def leaky_queue(count, period_ns, capacity, max_wait):
    room = capacity * Fraction(period_ns, count)
    if max_wait is None or room <= max_wait:
        return Paced(count, period_ns, 0, room, "queue_full")
    return Paced(count, period_ns, 0, max_wait, "wait_too_long")
