"""What each algorithm means, in exact rational arithmetic, and nothing else.

Written from the words of the definition and not from the library. Times are
integers, nanoseconds; a state that has nothing left to say is None. Where the
definition leaves a choice, it stands at the choice.
"""

import math
from fractions import Fraction

DAY_NS = 86400 * 10**9


class _Model:
    denial = "over_limit"

    def call(self, operation, now, cost=1):
        """The decision, as a dictionary like the binding's."""
        before = self.state
        answer = {"allowed": True, "reason": "ok", "quota": self.quota, "retry_after_ns": 0,
                  "wait_ns": 0}
        if operation in ("acquire", "peek"):
            # Cost 0 asks about a cost of 1. What is not consumed is not
            # subtracted: peek and cost 0 tell what remains now.
            wait = self.wait(now, max(cost, 1))
            if wait:
                self.cut_back(now)
                wait = self.wait(now, max(cost, 1))
                answer.update(allowed=False, reason=self.denial, retry_after_ns=math.ceil(wait))
                if operation == "acquire":
                    self.denied(now)
            else:
                answer["reason"] = self.reason(now, max(cost, 1))
                answer["wait_ns"] = math.ceil(self.pause(now, max(cost, 1)))
                if operation == "acquire" and cost:
                    self.take(now, cost)
        elif operation == "refund":
            self.give(now, cost)
        elif self.ahead(now):
            # As with a refund: what is idle already says nothing, and is left alone.
            self.forget(now)
        answer["remaining"] = self.remaining(now)
        answer["reset_after_ns"] = math.ceil(self.ahead(now))
        if operation == "peek":
            self.state = before
        return answer

    def cut_back(self, now):
        """Only what denies is asked whether it is too far ahead, and not of every algorithm."""

    def denied(self, now):
        """A denial writes nothing."""

    def forget(self, now):
        self.state = None

    def pause(self, now, cost):
        """How long what is allowed has to wait."""
        return 0

    def reason(self, now, cost):
        return "ok"


class Bucket(_Model):
    """token_bucket and leaky_bucket: the tokens that are missing, or the level.

    Kept as the time at which the bucket is as new.
    """

    def __init__(self, count, period_ns, burst):
        self.interval = Fraction(period_ns, count)
        self.quota = burst
        self.depth = burst * self.interval
        self.state = None

    def ahead(self, now):
        return max(self.state - now, 0) if self.state is not None else 0

    def cut_back(self, now):
        """What is a day further ahead than the depth was counted by a clock that was wrong."""
        if math.ceil(self.ahead(now)) > math.ceil(self.depth) + DAY_NS:
            self.state = now + self.depth

    def wait(self, now, cost):
        return max(self.ahead(now) + cost * self.interval - self.depth, 0)

    def take(self, now, cost):
        self.state = now + self.ahead(now) + cost * self.interval

    def give(self, now, cost):
        """A bucket whose whole use is given back is as new."""
        left = self.ahead(now) - cost * self.interval
        if cost and self.ahead(now):
            self.state = now + left if left > 0 else None

    def remaining(self, now):
        return max(math.floor((self.depth - self.ahead(now)) / self.interval), 0)


class Paced(_Model):
    """pacer and leaky_queue: turns an interval apart, each for one.

    The state is the newest turn. A request of a higher cost is as many requests
    at once, and goes with the last of them. Idle time, and being new, is worth
    `slack` turns; no turn is further off than `longest`.
    """

    def __init__(self, count, period_ns, slack, longest, denial):
        self.interval = Fraction(period_ns, count)
        self.slack = slack * self.interval
        self.longest = longest
        self.denial = denial
        self.state = None
        self.quota = self.remaining(0)

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
        return max(self._turn(now, cost) - now - self.longest, 0)

    def pause(self, now, cost):
        return max(self._turn(now, cost) - now, 0)

    def take(self, now, cost):
        self.state = self._turn(now, cost)

    def give(self, now, cost):
        """The newest turns, for those who come next."""
        if cost and self.ahead(now):
            left = self.ahead(now) > cost * self.interval
            self.state = self.state - cost * self.interval if left else None

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


class Random(_Model):
    """random: denied when a draw of 64 bits, its lowest left out, is in the share.

    Only what consumes draws. There is nothing to remember.
    """

    def __init__(self, deny, retry_ns, draw):
        self.deny, self.retry_ns, self.draw = Fraction(deny), retry_ns, draw
        self.quota = 2**32

    def call(self, operation, now, cost=1):
        answer = {"allowed": True, "reason": "ok", "quota": self.quota, "retry_after_ns": 0,
                  "wait_ns": 0, "remaining": self.quota if self.deny < 1 else 0,
                  "reset_after_ns": 0}
        denied = self.deny == 1
        if operation == "acquire" and cost:
            denied = Fraction(self.draw() // 2, 2**63) < self.deny
        if denied and operation in ("acquire", "peek"):
            answer.update(allowed=False, reason="shed", retry_after_ns=self.retry_ns,
                          remaining=0)
        return answer


def splitmix64(state):
    """Draws as the library makes them from a seed."""
    def draw():
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31
    return draw


class Window(_Model):
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
        self.state = None

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

    def take(self, now, cost):
        self.state = (self._end(now), self._count(now) + cost)

    def give(self, now, cost):
        """A window whose whole count is given back was never opened."""
        left = self._count(now) - cost
        if cost and self._open(now):
            self.state = (self._end(now), left) if left > 0 else None

    def remaining(self, now):
        return self.quota - self._count(now)


class Base(_Model):
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
        self.state = None

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

    def take(self, now, cost):
        end, free, window_end, count = self._view(now)
        of_free = min(cost, self.free - free)
        if cost > of_free and not count:
            window_end = now + self.period
        self.state = (end, free + of_free, window_end, count + cost - of_free)

    def give(self, now, cost):
        end, free, window_end, count = self._view(now)
        of_window = min(cost, count)
        if min(cost, free + count):
            left = count - of_window
            self.state = (end, max(free - (cost - of_window), 0), window_end if left else 0, left)

    def remaining(self, now):
        _, free, _, count = self._view(now)
        return self.quota - free - count


class Sliding(_Model):
    """What was taken, each with the place it was taken at: a slot, or a time.

    No place is older than one already taken at: a clock that lags behind takes
    at the newest, or two clocks would share out two quotas. But a newest place
    that lies more than a day ahead was written before
    the clock was set back: all that was in use then counts at the present place.
    It is moved there by the first request that asks, even if it is denied, or
    the key would be locked until the clock is there again.

    A refund takes from what is in use now, the newest first.
    """

    def __init__(self, quota):
        self.quota = quota
        self.state = None  # [place, cost] in order

    def _clock_was_set_back(self, now):
        return self.state is not None and self.start(self.state[-1][0]) - now > DAY_NS

    def denied(self, now):
        if self._clock_was_set_back(now):
            self.state = self._view(now)[1]

    def _view(self, now):
        """The place to take at, and what is in use there."""
        place = self.place(now)
        if not self.state:
            return place, []
        if self._clock_was_set_back(now):
            return place, [[place, min(sum(cost for _, cost in self.state), self.quota)]]
        place = max(place, self.state[-1][0])
        return place, [[at, cost] for at, cost in self.state if self.end(at) > self.start(place)]

    def _use(self, now):
        return sum(cost for _, cost in self._view(now)[1])

    def ahead(self, now):
        in_use = [entry for entry in self._view(now)[1] if entry[1]]
        return self.end(in_use[-1][0]) - now if in_use else 0

    def wait(self, now, cost):
        in_use = [entry for entry in self._view(now)[1] if entry[1]]
        over = sum(taken for _, taken in in_use) + cost - self.quota
        freed = now
        for at, taken in in_use:
            if over > 0:
                over -= taken
                freed = self.end(at)
        return freed - now

    def take(self, now, cost):
        place, in_use = self._view(now)
        self.state = in_use + [[place, cost]]

    def give(self, now, cost):
        in_use, emptied = self._view(now)[1], []
        if not cost or not any(taken for _, taken in in_use):
            return
        while in_use and (cost or not in_use[-1][1]):
            given = min(cost, in_use[-1][1])
            in_use[-1][1] -= given
            cost -= given
            if not in_use[-1][1]:
                emptied.append(in_use.pop())
        self.state = self.kept(in_use, emptied) or None

    def kept(self, in_use, emptied):
        """What stays when the newest places have given all back."""
        return in_use

    def remaining(self, now):
        return max(self.quota - self._use(now), 0)


class SlidingWindow(Sliding):
    """sliding_window: places are slots, cut at multiples of period / slots from the epoch."""

    def __init__(self, count, period_ns, slots=10):
        super().__init__(count)
        self.slots = slots
        self.length = Fraction(period_ns, slots)

    def kept(self, in_use, emptied):
        """The newest slot stays the newest, with nothing in it: no slot goes back."""
        return in_use + emptied[:1]

    def forget(self, now):
        """Nor by a reset."""
        self.state = [[self._view(now)[1][-1][0], 0]]

    def place(self, now):
        return math.floor(now / self.length)

    def start(self, slot):
        return math.ceil(slot * self.length)

    def end(self, slot):
        """When it is no more one of the last `slots`."""
        return self.start(slot + self.slots)


class SlidingCounter(SlidingWindow):
    """sliding_counter: two windows from the epoch, the earlier by its overlap with the last period.

    Kept as a sliding window of two slots, of which the earlier fades away.
    """

    def __init__(self, count, period_ns):
        super().__init__(count, 2 * period_ns, 2)
        self.period = period_ns

    def _windows(self, now):
        """The window that now is in, what was taken in it, and in the one before."""
        place, in_use = self._view(now)
        taken = {at: sum(cost for slot, cost in in_use if slot == at) for at, _ in in_use}
        return place, taken.get(place, 0), taken.get(place - 1, 0)

    def _weighed(self, now):
        place, count, before = self._windows(now)
        elapsed = max(now - self.start(place), 0)
        return count + before * (1 - Fraction(elapsed, self.period))

    def wait(self, now, cost):
        if self._weighed(now) + cost <= self.quota:
            return 0
        place, count, before = self._windows(now)
        room = self.quota - cost - count
        if room < 0:  # not before this window is the earlier one
            place, before, room = place + 1, count, self.quota - cost
        fades = Fraction(max(before - room, 0) * self.period, max(before, 1))
        return math.ceil(self.start(place) + fades) - now

    def remaining(self, now):
        return max(math.floor(self.quota - self._weighed(now)), 0)


class SlidingLog(Sliding):
    """sliding_log: places are the very times; in use is what lies in (now - period, now]."""

    def __init__(self, count, period_ns):
        super().__init__(count)
        self.period = period_ns

    def kept(self, in_use, emptied):
        """The newest stays the newest, with nothing taken: no time is used again."""
        return in_use + emptied[:1]

    def forget(self, now):
        self.state = [[self._view(now)[1][-1][0], 0]]

    def place(self, now):
        return now

    def start(self, time):
        return time

    def end(self, time):
        return time + self.period


class Concurrency(_Model):
    """concurrency: places, each held until it is given back or its lease is over.

    Here they have no names, so a refund gives back those whose leases end last.
    """

    def __init__(self, most, lease_ns, retry_ns):
        self.quota, self.lease, self.retry = most, lease_ns, retry_ns
        self.state = []

    def _held(self, now):
        """When the leases end."""
        return sorted(end for end in self.state if end > now)

    def wait(self, now, cost):
        held = self._held(now)
        return min(self.retry, held[0] - now) if len(held) + cost > self.quota else 0

    def take(self, now, cost):
        self.state = self._held(now) + cost * [now + self.lease]

    def give(self, now, cost):
        held = self._held(now)
        self.state = held[:max(len(held) - cost, 0)]

    def forget(self, now):
        self.state = []

    def ahead(self, now):
        return max([0, *(end - now for end in self._held(now))])

    def remaining(self, now):
        return self.quota - len(self._held(now))


def first_request(count, period_ns):
    return Window(count, lambda now: now + period_ns)


def end_of_utc_day(now):
    return (now // DAY_NS + 1) * DAY_NS


def utc_days(count):
    return Window(count, end_of_utc_day, ahead_max=DAY_NS + DAY_NS // 8)
