"""The model of client-side throttling."""

import math
from fractions import Fraction

from models.model import Model

PASS_NS = 10**9
PRESETS = {"none": {"parts": 40}, "kratos": {"parts": 10},
           "go-zero": {"parts": 40, "spared": 5, "k_least": Fraction(11, 10), "recovers": True}}


class Throttle(Model):
    """throttle: of n requests, of which a were accepted, (n - k a) / (n + 1) are shed.

    Denied requests count, and those in flight. A report counts in the part of the window in which
    it comes, an ignored one takes its request out of the part that has it. With failing parts, k
    goes down to k_least, and with working ones the whole share.

    While requests are shed, one of those that would be denied passes if none has passed by a draw
    for a second.

    A clock that is behind by less than the window works at the beginning of the newest part.
    """

    draw = None

    def __init__(self, parameters):
        p = {**parameters, **PRESETS[parameters["preset"]]}
        self.retry, self.timeout = p["retry_ns"], p["permit_timeout_ns"]
        self.parts, self.part_ns = p["parts"], p["window_ns"] // p["parts"]
        self.window_ns, self.minimum = p["window_ns"], p.get("minimum", 0)
        self.k = Fraction(math.floor(Fraction(p["k"]) * 10**6 + Fraction(1, 2)), 10**6)
        self.k_least = min(self.k, p.get("k_least", self.k))
        self.spared, self.recovers = p.get("spared", 0), p.get("recovers", False)
        self.counts, self.passed = {}, None  # part: [requests, accepts, failed]

    def load(self, saved):
        saved = saved or {"parts": []}
        self.counts = {part["until_ns"] // self.part_ns - self.parts:
                       [part["requests"], part["accepts"], part["failed"]]
                       for part in saved["parts"]}
        self.passed = saved.get("passed_ns")

    def save(self, now):
        at = self.at(now)
        parts = [{"until_ns": (part + self.parts) * self.part_ns, "requests": n, "accepts": a,
                  "failed": failed} for part, (n, a, failed) in sorted(self.seen(at).items())
                 if n or a or failed]
        passed = {} if self.passed_at(at) is None else {"passed_ns": self.passed}
        return {"parts": parts, **passed} if parts or passed else None

    # The window

    def at(self, now):
        part = now // self.part_ns
        newest = max([p for p in self.counts if part < p < part + self.parts], default=part)
        return max(now, newest * self.part_ns)

    def seen(self, at):
        newest = at // self.part_ns
        return {part: counts for part, counts in self.counts.items()
                if newest - self.parts < part <= newest}

    def passed_at(self, at):
        """When the last passed, if that says something. Was the clock set back, it does not."""
        if self.passed is None or not at - PASS_NS < self.passed <= at + self.window_ns:
            return None
        return self.passed

    def share(self, at):
        requests = accepts = failing = working = 0
        for _, (n, a, failed) in sorted(self.seen(at).items()):
            requests, accepts = requests + n, accepts + a
            failing = 0 if a else failing + failed
            working = 0 if failed else working + (a > 0)
        if requests < self.minimum:
            return Fraction(0)
        step = Fraction(math.floor((self.k - self.k_least) * 10**6 * failing / self.parts), 10**6)
        over = max(requests - self.spared, 0) - (self.k - step) * accepts
        share = max(Fraction(0), over / (requests + 1))
        return share * (1 - Fraction(working, self.parts)) if self.recovers else share

    def add(self, at, requests=0, accepts=0, failed=False):
        number = at // self.part_ns
        # Each part has a place, which it takes over from the one a window before it.
        self.counts = {other: counts for other, counts in self.counts.items()
                       if other == number or (other - number) % self.parts}
        part = self.counts.setdefault(number, [0, 0, False])
        part[0], part[1], part[2] = part[0] + requests, part[1] + accepts, part[2] or failed

    def take(self, part, n=1):
        """Takes requests out of a part, and says how many."""
        counts = self.counts.get(part, [0])
        taken = min(counts[0], n)
        counts[0] -= taken
        return taken

    # Calls

    def passes(self, at):
        # The share is rounded down to 2^-63, which two draws in 2^64 may tell.
        share = math.floor(self.share(at) * 2**63)
        if share == 0:
            return True
        passed = self.passed_at(at)
        if self.draw() >> 1 < share and passed is not None:
            return False
        self.passed = max(passed or 0, at)
        return True

    def call(self, operation, now, cost=1, permit=None, outcome=None, latency_ns=0):
        at = self.at(now)
        answer = {"allowed": True, "reason": "ok", "quota": 0, "remaining": 0,
                  "retry_after_ns": 0, "wait_ns": 0}
        if operation == "acquire" and cost:
            if not self.passes(at):
                answer.update(allowed=False, reason="shed", retry_after_ns=self.retry)
            elif permit is not None:
                permit["until_ns"] = at + self.timeout
            self.add(at, requests=1)
        elif operation == "reset":
            self.counts, self.passed = {}, None
        elif operation in ("refund", "report") and not permit:
            for part in sorted(self.seen(at), reverse=True):
                cost -= self.take(part, cost)
        elif operation in ("refund", "report"):
            answer["allowed"] = cost > 0 and permit["until_ns"] > now
            if answer["allowed"]:
                self.report(at, outcome or "ignored", permit["until_ns"] - self.timeout)
        answer["reset_after_ns"] = self.ahead(now)
        return answer

    def report(self, at, outcome, start):
        if outcome == "ignored":
            self.take(start // self.part_ns)
        else:
            self.add(at, accepts=outcome == "success", failed=outcome != "success")

    def ahead(self, now):
        at = self.at(now)
        ends = [(part + self.parts) * self.part_ns
                for part, counts in self.seen(at).items() if any(counts)]
        if self.passed_at(at) is not None:
            ends.append(self.passed + PASS_NS)
        return max(ends, default=now) - now
