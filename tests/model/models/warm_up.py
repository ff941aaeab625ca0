"""The model of a pacer that delays requests for longer after a rest."""

import math
from fractions import Fraction

from models.model import DAY_NS, Model


class WarmUp(Model):
    """warm_up: turns that take longer while permits are stored, as they are after a rest.

    Their intervals lie on a line, from T at the threshold up to cold * T when the key is
    cold. A request takes what lies under its part of that line, and T for each of its
    permits that was not stored. The next may start then, if that is within `longest`.

    The state is what is stored, in `parts` of a permit, rounded up; and `even`, where
    the last turn would have ended if all had taken T. Requests that take more than is stored
    make the stored permits negative, so a refund knows how many its turn took of them; None
    is not known, and nothing stored. A turn that follows another without a rest moves `even`
    by T for each permit, so nothing is rounded. After a rest it is rounded up: with what the
    stored permits take at T, less part of 1 / q ns, T being p / q, to a whole nanosecond; to
    a multiple of 1 / q ns where they are not known.
    """

    paced = True

    def __init__(self, count, period_ns, warm_up, cold, max_wait):
        self.interval = Fraction(period_ns, count)
        self.warm_up, self.cold = warm_up, Fraction(cold)
        self._store()
        # One word tells what is stored, or if nothing is, how many 1 / q ns are missing.
        words = 2**32 - max(math.ceil(self.most - 1), 0)
        if self.interval.denominator > words:
            self.interval = Fraction(math.ceil(self.interval * words), words)
            self._store()
        self.q = self.interval.denominator
        self.parts = 2**20
        if self.most > 1:
            self.parts = min(2**20, math.floor((2**32 - self.q) / (self.most - 1)))
        between = max(math.ceil((self.most - 1) * self.parts), 0)
        self.between = Fraction(between, self.parts)
        self.full = min(math.ceil(self.most * self.parts), 2**32 - self.q)
        self.deep = 2**32 - self.q - self.full
        self.grain = Fraction(1, self.q * self.parts)
        turns = (2**53 - 1) * self.interval  # no more than that may wait, at absurd rates
        self.longest, self.patience = min(max_wait, turns), math.inf
        self.denial = "wait_too_long" if max_wait <= turns else "queue_full"
        self.quota = math.floor(self.longest / self.interval) + 1

    def _store(self):
        self.threshold = self.warm_up / (2 * self.interval)
        self.most = self.threshold + 2 * self.warm_up / (self.interval + self.cold * self.interval)

    def takes(self, stored, cost):
        """How long a turn takes: a trapezoid, and a rectangle."""
        above = max(stored - self.threshold, 0)
        left = max(stored - cost - self.threshold, 0)
        slope = (self.cold - 1) * self.interval / (self.most - self.threshold)
        trapezoid = (above - left) * (2 * self.interval + slope * (above + left)) / 2
        return trapezoid + (cost - (above - left)) * self.interval

    def excess(self, stored):
        """How much longer stored permits take than at T."""
        return self.takes(stored, stored) - stored * self.interval

    def end(self):
        even, stored = self.state
        return even - self.excess(max(stored or 0, 0))

    def stored(self, now):
        """Permits stored by a time after the end, to a grain by the part of 2 (1 + cold)."""
        if self.state is None:
            return self.most
        stored = max(self.state[1] or 0, 0) + (now - self.end()) * self.most / self.warm_up
        step = self.grain / self.interval / (2 * (self.cold.numerator + self.cold.denominator))
        return min(math.ceil(stored / step) * step, self.most)

    def _at_rate(self, stored):
        return Fraction(math.floor(stored * self.interval * self.q), self.q)

    def _keep(self, even, stored):
        if stored is not None and -stored * self.parts < self.deep:
            even = math.ceil(even + self._at_rate(stored)) - self._at_rate(stored)
            self.state = (even, stored)
        else:
            self.state = (Fraction(math.ceil(even * self.q), self.q), None)

    def _cooling(self, stored):
        """From `even` until the key is cold."""
        stored = max(stored or 0, 0)
        grains = (self.excess(stored), stored * self.warm_up / self.most)
        return self.warm_up - sum(math.floor(each / self.grain) for each in grains) * self.grain

    def ahead(self, now):
        return max(self.state[0] + self._cooling(self.state[1]) - now, 0) if self.state else 0

    def said(self, now):
        even, stored = self.state
        if stored is None:
            word = int((math.ceil(even) - even) * self.q)
        elif stored > 0:
            word = int(stored * self.parts) + self.q - 1
        else:
            word = self.q + self.full - int(stored * self.parts)
        return {"until_ns": now + math.ceil(self.ahead(now)), "word": word}

    def heard(self, saved):
        word, stored, taken = saved["word"], None, 0
        if word >= self.q:
            parts = word - self.q + 1
            stored = Fraction(parts if parts <= self.full else self.full - parts + 1, self.parts)
            taken = self._at_rate(stored)
        under = Fraction(word, self.q) if stored is None else 0
        return saved["until_ns"] - math.ceil(self._cooling(stored) - taken) - taken - under, stored

    def cut_back(self, now):
        """The last turn is the last that could be let in, and takes T."""
        most = 2 * math.ceil(self.longest) + math.ceil(self.interval) + 2 * self.warm_up
        window = math.ceil(self.quota * self.interval)
        if math.ceil(self.ahead(now)) > max(most, window) + DAY_NS:
            stored = max(self.state[1] or 0, 0)
            self._keep(now + self.longest + self.interval + self.excess(stored), stored or None)

    def pause(self, now, cost):
        return max(self.end() - now, 0) if self.state else 0

    def wait(self, now, cost):
        late = self.pause(now, cost) - self.longest
        impatient = math.ceil(self.pause(now, cost)) - self.patience
        return max(late, impatient, 0)

    def denial_of(self, now, cost):
        return self.denial if self.pause(now, cost) > self.longest else "wait_too_long"

    def take(self, now, cost, permit):
        if self.pause(now, cost):
            even, stored = self.state
            after = None if stored is None else stored - cost
            self._keep(even + cost * self.interval, after)
            return
        stored = self.stored(now)
        after = Fraction(math.ceil((stored - cost) * self.parts), self.parts)
        self._keep(now + self.takes(stored, cost) + self.excess(max(after, 0)), after)

    def give(self, now, cost, permit):
        """The newest permits, for the requests that come next. A turn with others behind it stays.

        What they took of stored ones is stored again; if that is not known, as many as it can
        have been, which may have taken T. Between two turns, one permit at least is not stored.
        """
        newest = not permit or permit["until_ns"] == now + math.ceil(self.ahead(now))
        if not cost or not self.ahead(now) or not newest:
            return False
        even, stored = self.state
        even -= cost * self.interval
        if stored is not None:
            again = stored + cost
            cold = again >= self.most or again * self.parts > self.full
        else:
            again = min(cost, self.between)
            cold = cost > self.between and even <= now
            even += self.excess(again)
        if cold:
            self.state = None
            return True
        self._keep(even, again if stored is not None or again else None)
        if not self.ahead(now):
            self.state = None
        return True

    def remaining(self, now):
        """Counted at T: when cold, fewer pass."""
        room = self.longest - self.pause(now, 1)
        return math.floor(room / self.interval) + 1 if room >= 0 else 0
