"""Models of adaptive limits, which measure how many requests in flight the backend can serve."""

import copy

from models.adaptive import Aimd, Bbr, Gradient2, Knee, Vegas
from models.model import DAY_NS

PARTS = 6  # of permits in flight; five of them are a permit's time
START_NS = 256  # a permit says to this when it was given
KEEP_NS = 3600 * 10**9  # so long it is known without requests what was measured
BOUNDS = {"knee": (1, 1000), "gradient2": (20, 200), "vegas": (1, 1000), "aimd": (20, 200),
          "bbr": (1, 10000)}
METHODS = {"knee": Knee, "gradient2": Gradient2, "vegas": Vegas, "aimd": Aimd, "bbr": Bbr}


class Adaptive:
    """adaptive: in flight < a limit that an estimator (models/adaptive.py) makes of reports.

    Permits are counted together, in parts of a fifth of their time, and are over with their part.
    All that are lost of a part at once are one report of a timeout.

    A state is there for as long as permits may be in flight, of the newest part; once all are
    reported, for an hour more. bbr's processors are never busy here.
    """

    paced = False

    def __init__(self, parameters):
        p = self.p = parameters
        self.method, self.retry = p["method"], p["retry_ns"]
        self.timeout = p["permit_timeout_ns"]
        self.part_ns = self.timeout // (PARTS - 1) + 1 + START_NS
        least, most = BOUNDS[self.method]
        given = [p[name] for name in ("max", "initial") if p.get(name)]
        self.least = p.get("min") or min([least, *given])
        self.most = p.get("max") or max(most, self.least, p.get("initial") or 0)
        self.initial = p.get("initial") or max(self.least, min(20, self.most))
        self.begin()

    def begin(self):
        self.given, self.until, self.held = {}, 0, False
        self.newest = 0  # the part of the last permit that came or went; clocks that lag count in it
        self.estimator = METHODS[self.method](self.initial, self.least, self.most)

    def start(self, until):
        return until // START_NS * START_NS - self.timeout

    def part(self, now):
        return self.start(now + self.timeout) // self.part_ns

    def end_of(self, part):
        return (part + PARTS) * self.part_ns

    def window(self):
        return (self.estimator.window + 1) % 256 if self.method == "knee" else 0

    def in_flight(self):
        return sum(self.given.values())

    @property
    def quota(self):
        return self.most if self.method == "bbr" else self.estimator.limit

    def sample(self, now, outcome, latency, in_flight, window):
        drops = self.method in ("vegas", "aimd")
        if outcome == "ignored" or (outcome == "failure" and not drops):
            return
        if self.method == "knee":
            self.estimator.sample(latency, in_flight, (window - 1) % 256, outcome == "timeout")
        elif self.method == "bbr":
            self.estimator.sample(now, latency)
        else:
            self.estimator.sample(latency, in_flight, outcome != "success")

    def settle(self, now):
        """What time has done when a call finds it."""
        far = max(KEEP_NS, PARTS * self.part_ns) + DAY_NS
        if self.until <= now or self.until > now + far:
            self.begin()
        self.seen = max(self.newest if self.in_flight() else 0, self.part(now))
        lost = [part for part in self.given if part + PARTS <= self.seen]
        count = sum(self.given.pop(part) for part in lost)
        if count:
            self.write()
            self.sample(now, "timeout", self.timeout, self.in_flight() + 1, self.window())

    def write(self):
        """What only asks changes nothing, so that a clock which lags behind it finds all there."""
        self.wrote, self.newest = True, self.seen

    def take(self, now, permit):
        self.write()
        self.given[self.newest] = self.given.get(self.newest, 0) + 1
        if not self.held or self.until < self.end_of(self.newest):
            self.held, self.until = True, self.end_of(self.newest)
        start = now
        if self.part(now) != self.newest:  # the clock lags
            start = self.newest * self.part_ns + START_NS
        if permit is not None:
            permit["until_ns"] = ((start + self.timeout) // START_NS * START_NS + self.window())

    def land(self, now, permit, outcome, latency):
        until = permit["until_ns"]
        part = self.start(until) // self.part_ns
        if until <= now or not self.given.get(part):
            return False
        before = self.in_flight()
        self.write()
        self.given[part] -= 1
        self.sample(now, outcome, latency or max(now - self.start(until), 0), before,
                    until % START_NS)
        return True

    def give_back(self, now, cost, permit, outcome, latency):
        if permit:
            found = cost > 0 and self.land(now, permit, outcome, latency)
        else:
            found = True
            for _ in range(min(cost, self.in_flight())):
                newest = max(part for part, count in self.given.items() if count)
                self.write()
                self.given[newest] -= 1
        if self.held and not self.in_flight():
            self.wrote = True
            self.held, self.until = False, now + KEEP_NS
        return found

    def call(self, operation, now, cost=1, permit=None, outcome=None, latency_ns=0):
        before, self.wrote = copy.deepcopy(vars(self)), False
        self.settle(now)
        answer = {"allowed": True, "reason": "ok", "retry_after_ns": 0, "wait_ns": 0}
        if operation in ("acquire", "peek"):
            if self.in_flight() >= self.quota:
                answer.update(allowed=False, reason="over_limit", retry_after_ns=self.retry)
            elif operation == "acquire" and cost:
                self.take(now, permit)
        elif operation == "reset":
            self.wrote |= self.until > now
            self.begin()
        else:
            answer["allowed"] = self.give_back(now, cost, permit, outcome or "ignored", latency_ns)
        answer["quota"] = self.quota
        answer["remaining"] = max(self.quota - self.in_flight(), 0)
        answer["reset_after_ns"] = max(self.until - now, 0)
        if not self.wrote:
            vars(self).update(before)
        return answer

    def load(self, saved):
        """What is saved is not all of it."""

    def save(self, now):
        if self.until <= now:
            return None
        return {"limit": self.quota, "in_flight": self.in_flight()}
