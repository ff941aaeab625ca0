"""What each algorithm means, in exact rational arithmetic, and nothing else.

Written from the words of the definition and not from the library. Times are
integers, nanoseconds; a state that has nothing left to say is None. Where the
definition leaves a choice, it stands at the choice.

A model gives its state out, and takes one in, as a plain dictionary: `save` and
`load`. tests/vectors/README.md says what its fields mean.
"""

import math
from fractions import Fraction

DAY_NS = 86400 * 10**9


class _Model:
    denial = "over_limit"
    state = None

    def call(self, operation, now, cost=1, permit=None):
        """The decision, as a dictionary like the binding's.

        `permit` is {"id": …} of an acquire, which adds "until_ns", and the same of the
        refund that gives back what that acquire took.
        """
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
                    self.take(now, cost, permit)
                    if permit:
                        permit["until_ns"] = self.taken_until(now)
        elif operation == "refund":
            answer["allowed"] = self.give(now, cost, permit) is not False
        elif self.ahead(now):
            # As with a refund: what is idle already says nothing, and is left alone.
            self.forget(now)
        answer["remaining"] = self.remaining(now)
        answer["reset_after_ns"] = math.ceil(self.ahead(now))
        if operation == "peek":
            self.state = before
        return answer

    def save(self, now):
        """The state, apart from what has nothing left to say at `now`; None: nothing has."""
        return self.said(now) if self.ahead(now) else None

    def load(self, saved):
        self.state = self.heard(saved) if saved else None

    def taken_until(self, now):
        """What was taken just now counts until then, or with others until then."""
        return now + math.ceil(self.ahead(now))

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


def uses_of(entries):
    """(until, units, permit) as a state: one use for what ends together under one permit."""
    uses = {}
    for until, units, permit in entries:
        uses[until, permit or 0] = uses.get((until, permit or 0), 0) + units
    return {"uses": [{"until_ns": until, "units": uses[until, permit],
                      **({"permit": permit} if permit else {})} for until, permit in sorted(uses)]}


class _Tokens(_Model):
    """What comes back one after the other, an interval apart."""

    def said(self, now):
        until = now + self.ahead(now)
        return {"until_ns": math.ceil(until),
                "under": int((math.ceil(until) - until) * self.interval.denominator)}

    def until(self, saved):
        return saved["until_ns"] - Fraction(saved["under"], self.interval.denominator)


class Bucket(_Tokens):
    """token_bucket and leaky_bucket: the tokens that are missing, or the level.

    Kept as the time at which the bucket is as new.
    """

    def __init__(self, count, period_ns, burst):
        self.interval = Fraction(period_ns, count)
        self.quota = burst
        self.depth = burst * self.interval

    heard = _Tokens.until

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
        left = self.ahead(now) - back
        if back and self.ahead(now):
            self.state = now + left if left > 0 else None

    def remaining(self, now):
        return max(math.floor((self.depth - self.ahead(now)) / self.interval), 0)


class Paced(_Tokens):
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
        return max(self._turn(now, cost) - now - self.longest, 0)

    def pause(self, now, cost):
        return max(self._turn(now, cost) - now, 0)

    def take(self, now, cost, permit):
        self.state = self._turn(now, cost)

    def give(self, now, cost, permit):
        """The newest turns, for the requests that come next. A turn with others behind it stays."""
        newest = not permit or permit["until_ns"] == now + math.ceil(self.ahead(now))
        if cost and self.ahead(now) and newest:
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

    def __init__(self, deny, retry_ns, draw=None):
        self.deny, self.retry_ns, self.draw = Fraction(deny), retry_ns, draw
        self.quota = 2**32

    def save(self, now):
        return None

    def call(self, operation, now, cost=1, permit=None):
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
        if cost and self._open(now) and named:
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

    def said(self, now):
        end, free, window_end, count = self.state
        window = {"until_ns": window_end, "count": count} if count and now < window_end else None
        return {"until_ns": end, "free": free, "window": window}

    def heard(self, saved):
        window = saved["window"] or {"until_ns": 0, "count": 0}
        return saved["until_ns"], saved["free"], window["until_ns"], window["count"]

    def taken_until(self, now):
        end, _, window_end, count = self.state
        return window_end if count else end

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
        """The window's units first. By name, of the day or of the window that it names."""
        end, free, window_end, count = self._view(now)
        of_window = min(cost, count)
        named = not permit or permit["until_ns"] in ([end, window_end] if count else [end])
        if min(cost, free + count) and named:
            left = count - of_window
            self.state = (end, max(free - (cost - of_window), 0), window_end if left else 0, left)

    def remaining(self, now):
        _, free, _, count = self._view(now)
        return self.quota - free - count


class Sliding(_Model):
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
        """When to take, and what is in use then."""
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

    def give(self, now, cost, permit):
        """By name it is known whether that request's use is still there."""
        here = [entry[2] for entry in self._view(now)[1] if entry[1]]
        super().give(now, cost, permit)
        return not permit or permit["id"] in here

    def when(self, now):
        return now

    def start(self, time):
        return time

    def end(self, time):
        return time + self.period

    def ended(self, end):
        return end - self.period


class Concurrency(_Model):
    """concurrency: places, each held until it is given back or its lease is over.

    A refund by name gives back the places of that permit. Any other gives back places
    that were taken without one, those first whose leases end last.

    A lease that ends a day later than it could was begun by a clock that was wrong. It
    begins anew when the next request asks for a place.
    """

    def __init__(self, most, lease_ns, retry_ns):
        self.quota, self.lease, self.retry = most, lease_ns, retry_ns
        self.state = []

    def call(self, operation, now, cost=1, permit=None):
        if operation == "acquire" and cost:
            self.state = [(now + self.lease if end > now + self.lease + DAY_NS else end, of)
                          for end, of in self.state]
        return super().call(operation, now, cost, permit)

    def said(self, now):
        return uses_of((end, 1, permit) for end, permit in self._held(now))

    def load(self, saved):
        self.state = [(use["until_ns"], use.get("permit", 0))
                      for use in (saved or {"uses": []})["uses"] for _ in range(use["units"])]

    def _held(self, now):
        """When the leases end, and whose they are."""
        return sorted((end, permit) for end, permit in self.state if end > now)

    def wait(self, now, cost):
        held = self._held(now)
        return min(self.retry, held[0][0] - now) if len(held) + cost > self.quota else 0

    def take(self, now, cost, permit):
        self.state = self._held(now) + cost * [(now + self.lease, permit["id"] if permit else 0)]

    def give(self, now, cost, permit):
        held = self._held(now)
        own = [place for place in held if place[1] == (permit["id"] if permit else 0)]
        for place in own[max(len(own) - cost, 0):]:
            held.remove(place)
        self.state = held
        return not permit or bool(own and cost)

    def forget(self, now):
        self.state = []

    def ahead(self, now):
        return max([0, *(end - now for end, _ in self._held(now))])

    def remaining(self, now):
        return self.quota - len(self._held(now))


def first_request(count, period_ns):
    return Window(count, lambda now: now + period_ns)


def end_of_utc_day(now):
    return (now // DAY_NS + 1) * DAY_NS


def utc_days(count):
    return Window(count, end_of_utc_day, ahead_max=DAY_NS + DAY_NS // 8)
