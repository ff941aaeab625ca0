"""Models of circuit breakers."""

from models.model import DAY_NS, Model

SECOND_NS = 10**9
FOR_EVER = 2**64 - 1  # as the end of a forced phase
FARTHEST_NS = 16 * 365 * DAY_NS
FORCED = ("forced_open", "forced_closed")
FLIGHT_PARTS = 8  # of a permit's time
PRESETS = {"none": {"parts": 10}, "hystrix": {"parts": 20, "finished": True, "refusals": True},
           "resilience4j": {"parts": 10, "together": True}}
DEFAULTS = {
    "none": {"minimum": 20, "failure_rate": 50, "slow_rate": 100, "sleep_ns": 5 * SECOND_NS,
             "probes": 1, "permit_timeout_ns": 60 * SECOND_NS},
    "hystrix": {"ramp_ns": 0, "max_concurrent": 10},
    "resilience4j": {"calls": 100, "minimum": 100, "slow_ns": 60 * SECOND_NS,
                     "sleep_ns": 60 * SECOND_NS, "probes": 10, "ramp_ns": 0},
}


def breaker(preset="none", retry_ns=SECOND_NS, **given):
    """The model of these parameters, defaults filled in."""
    full = {**DEFAULTS["none"], **DEFAULTS[preset], **given}
    if "window_ns" in given:
        full.pop("calls", None)
    elif "calls" not in full:
        full["window_ns"] = 10 * SECOND_NS
    if "failures" in given:
        del full["minimum"], full["failure_rate"]
    full.setdefault("ramp_ns", full["sleep_ns"])
    full.setdefault("sleep_max_ns", full["sleep_ns"])
    full.setdefault("probe_timeout_ns", full["permit_timeout_ns"] if preset != "none" else
                    min(full["permit_timeout_ns"], max(full["sleep_ns"], 2 * full.get("slow_ns", 0))))
    return Breaker({"preset": preset, "retry_ns": retry_ns, **full})


class Breaker(Model):
    """breaker: closed, open, half-open, and a ramp back.

    What time does is done when the next call finds it: permits whose time is over have failed at
    that time, an open breaker goes half-open with the first request after its sleep.

    Permits without a bound are counted together, in parts of an eighth of their time: all of a
    part are over with the last of them, and their results count if its would.

    A result counts if its permit was given since the phase began. So a window is of one phase.

    Forced phases have their end where others have their beginning, and count nothing.

    What the model saves tells the state, but is not all of it: load takes nothing.
    """

    draw = None

    def __init__(self, parameters):
        p = self.p = {**parameters, **PRESETS[parameters["preset"]]}
        self.most = p.get("max_concurrent", 0)
        self.retry = p["retry_ns"]
        self.timeout = p["permit_timeout_ns"]
        self.probe_timeout = min(p["probe_timeout_ns"], self.timeout)
        calls = p.get("calls", 10**9)
        self.judge_only = p.get("judge_only") in (1, "yes")
        self.enough = min(p.get("failures", 0), calls)
        self.minimum = self.enough or min(p["minimum"], calls)
        self.slow = p.get("slow_ns", 0)
        self.part = None if "calls" in p else p["window_ns"] // p["parts"]
        self.flights = {}  # until: [permits, until] by part; with a bound a list under None
        self.phase = None
        self.begin("closed", 0)

    def sleep(self):
        """Doubled with each failed probe, and then drawn from its beginning, as vectors/README.md says."""
        first, greatest = self.p["sleep_ns"], max(self.p["sleep_ns"], self.p["sleep_max_ns"])
        if not self.doublings:
            return first
        about = min(first * 2**self.doublings, greatest)
        least, most = max(first, about - about // 10), min(greatest, about + about // 10)
        return least + (most - least) * (self.since * 0x9e3779b97f4a7c15 % 2**64 >> 57) // 127

    def begin(self, phase, since):
        failed_again = phase == "open" and self.phase == "half_open"
        self.doublings = self.doublings + failed_again if phase in ("open", "half_open") else 0
        self.phase, self.since = phase, since
        self.flying = self.good = self.bad = self.slow_probes = 0
        self.results = []  # (when its call ended, failed, slow)

    def load(self, saved):
        pass

    # Permits in flight

    def key(self, start):
        return start if self.most else start // (self.timeout // FLIGHT_PARTS + 1)

    def give_permit(self, now):
        start = now if self.phase in FORCED else max(now, self.since)
        until = start + self.timeout
        if self.judge_only:
            until += until % 2  # those of requests that were not denied end at even times
        flight = self.flights.setdefault(self.key(until - self.timeout), [0, 0])
        flight[0], flight[1] = flight[0] + 1, max(flight[1], until)
        return until

    def in_flight(self):
        return sum(count for count, _ in self.flights.values())

    def own(self, now):
        """Probes in time."""
        return sum(count for count, until in self.flights.values()
                   if until >= self.since + self.timeout and self.probe_end(until) > now)

    def probe_end(self, until):
        return until - self.timeout + self.probe_timeout

    # What time does

    def counts(self, start):
        return start >= self.since and self.phase in ("closed", "ramp", "half_open")

    def settle(self, now):
        p = self.p
        if self.phase in FORCED and self.since <= now:
            self.phase = "closed"
        if self.phase == "open" and self.since + self.sleep() + DAY_NS <= now:
            self.begin("closed", self.since + self.sleep() + DAY_NS)
        if self.phase == "half_open" and self.since + self.timeout + DAY_NS <= now:
            self.begin("closed", self.since + self.timeout + DAY_NS)
        if self.phase == "ramp" and self.since + p["ramp_ns"] <= now:
            self.phase = "closed"
        over = [(until, key) for key, (_, until) in self.flights.items() if until <= now]
        lost = []
        for until, key in sorted(over):
            count, _ = self.flights.pop(key)
            if not self.counts(until - self.timeout):
                continue
            if self.phase == "half_open":
                lost.append(self.probe_end(until))
            else:
                self.count(now, until, "timeout", self.timeout, count)
        if self.phase == "half_open" and self.flying > self.own(now):
            lost += [self.probe_end(until) for _, until in self.flights.values()
                     if until >= self.since + self.timeout and self.probe_end(until) <= now]
            at = (max if p.get("together") else min)(lost, default=now)
            self.tell(at, "timeout", self.timeout, self.flying - self.own(now))
            self.settle(now)
        elif p.get("finished"):
            self.judge(now)

    # The window

    def kept(self, now):
        """The results that may count still, or will."""
        if self.part is None:
            return self.results[-self.p["calls"]:]
        parts = self.p["parts"] + bool(self.p.get("finished"))
        return [r for r in self.results if (r[0] // self.part + parts) * self.part > now]

    def tally(self, now):
        seen = self.kept(now)
        if self.p.get("finished") and self.part:
            seen = [r for r in seen if r[0] // self.part < now // self.part]
        return [len(seen), sum(r[1] for r in seen), sum(r[2] for r in seen)]

    def sick(self, calls, failures, slow, enough):
        """`enough` failures, if a number of them is given, or their share."""
        if enough:
            failed = failures >= enough
        else:
            failed = 100 * failures >= self.p["failure_rate"] * calls
        return failed or bool(self.slow) and 100 * slow >= self.p["slow_rate"] * calls

    def judge(self, now):
        tally = self.tally(now)
        if (self.phase in ("closed", "ramp") and tally[0] >= max(self.minimum, 1)
                and self.sick(*tally, self.enough)):
            self.begin("open", max(now, self.since))

    def count(self, now, ended, outcome, latency, n=1):
        if outcome == "ignored":
            return
        slow = bool(self.slow) and latency > self.slow
        self.results += n * [(ended, outcome != "success", slow)]
        self.results = self.kept(now)
        self.judge(now)

    # Probes

    def used(self):
        return self.flying + self.good + self.bad

    def tell(self, now, outcome, latency, n=1):
        together = self.p.get("together")
        slow = bool(self.slow) and latency > self.slow
        failed = outcome != "success" or (slow and not together)
        n = min(n, self.flying)
        self.flying -= n
        if outcome == "ignored" or not n:
            return
        self.bad, self.good = self.bad + n * failed, self.good + n * (not failed)
        self.slow_probes += n * slow
        at = max(now, self.since)
        if failed and not together:
            self.begin("open", at)
        elif self.good + self.bad >= self.p["probes"]:
            if together and self.sick(self.good + self.bad, self.bad, self.slow_probes,
                                      min(self.enough, self.p["probes"])):
                self.begin("open", at)
            else:
                self.begin("ramp" if self.p["ramp_ns"] else "closed", at)

    # Calls

    def ask(self, now, takes):
        """(reason, retry after); a probe is counted only if it passes."""
        if self.phase == "ramp" and takes:
            past = max(now - self.since, 0)
            ramp = self.p["ramp_ns"]
            if self.draw() >= 2**64 * (ramp + 9 * past) // (10 * ramp):
                return "breaker_open", self.retry
        if self.phase == "forced_open":
            return "breaker_open", self.retry if self.since == FOR_EVER else self.since - now
        if self.phase == "open" and now < self.since + self.sleep():
            return "breaker_open", self.since + self.sleep() - now
        if self.phase == "half_open" and self.used() >= self.p["probes"]:
            return "breaker_open", self.retry
        if self.most and self.in_flight() >= self.most:
            return "over_limit", min([self.retry, *(u - now for _, u in self.flights.values())])
        return "ok", 0

    def room(self, phase, used):
        if not self.most or phase in ("open", "forced_open"):
            return 0
        most = self.most - self.in_flight()
        return min(most, self.p["probes"] - used) if phase == "half_open" else most

    def call(self, operation, now, cost=1, permit=None, outcome=None, latency_ns=0):
        self.settle(now)
        answer = {"allowed": True, "reason": "ok", "quota": self.most, "retry_after_ns": 0,
                  "wait_ns": 0}
        refused = False
        if operation in ("acquire", "peek"):
            takes = operation == "acquire" and cost > 0
            reason, retry = self.ask(now, takes)
            if reason != "ok":
                answer.update(allowed=False, reason=reason, retry_after_ns=retry, remaining=0)
                if self.judge_only:
                    answer.update(allowed=True, reason="ok", retry_after_ns=0)
                    if takes and permit is not None:
                        permit["until_ns"] = now + self.timeout | 1
                refused = takes and reason == "over_limit" and self.p.get("refusals")
            else:
                probes = self.phase in ("open", "half_open")
                if takes and probes:
                    if not self.used():
                        self.begin("half_open", max(now, self.since))
                    self.flying += 1
                phase = "half_open" if probes else self.phase
                if takes:
                    until = self.give_permit(now)
                    if permit is not None:
                        permit["until_ns"] = until
                answer["remaining"] = self.room(phase, 0 if self.phase == "open" else self.used())
        elif operation == "reset":
            if self.ahead(now):
                self.flights = {}
                if self.phase not in FORCED and (self.phase != "closed" or self.kept(now)):
                    self.begin("closed", max(now, self.since + 1))
        else:
            answer["allowed"] = self.report(now, cost, permit, outcome or "ignored", latency_ns)
            self.settle(now)
        if "remaining" not in answer:
            answer["remaining"] = self.room(self.phase, self.used())
        answer["reset_after_ns"] = self.ahead(now)
        if refused and self.phase in ("closed", "ramp"):
            self.count(now, now, "failure", 0)
        return answer

    def report(self, now, cost, permit, outcome, latency):
        if not permit:
            for _ in range(cost):
                if not self.flights:
                    break
                until = max(until for _, until in self.flights.values())
                self.end(now, until, "ignored", 0)
                self.settle(now)
            return True
        return cost > 0 and self.end(now, permit["until_ns"], outcome, latency)

    def end(self, now, until, outcome, latency):
        start = until - self.timeout
        if self.judge_only and until % 2:
            return until > now
        flight = self.flights.get(self.key(start))
        if until <= now or not flight or flight[1] < until:
            return False
        flight[0] -= 1
        if not flight[0]:
            del self.flights[self.key(start)]
        latency = latency or max(now - start, 0)
        if self.counts(start):
            if self.phase == "half_open":
                if self.probe_end(until) > now:
                    self.tell(now, outcome, latency)
            else:
                self.count(now, now, outcome, latency)
        return True

    def force(self, how, until, now):
        """`how`: open, closed, or auto, which ends it; `until` 0: for ever."""
        self.settle(now)
        if how != "auto":
            self.begin(f"forced_{how}", until or FOR_EVER)
        elif self.phase in FORCED:
            self.begin("closed", now)
        self.settle(now)

    def ahead(self, now):
        ends = [until - now for _, until in self.flights.values()]
        kept = self.kept(now)
        if kept:
            parts = self.p["parts"] + bool(self.p.get("finished"))
            ends.append(DAY_NS if self.part is None else
                        (max(r[0] for r in kept) // self.part + parts) * self.part - now)
        phase_end = {"closed": now, **dict.fromkeys(FORCED, min(self.since, now + FARTHEST_NS)),
                     "ramp": self.since + self.p["ramp_ns"],
                     "open": self.since + self.sleep() + DAY_NS,
                     "half_open": self.since + self.timeout + DAY_NS}[self.phase]
        return max(0, phase_end - now, *ends)

    def save(self, now):
        calls, failures, slow = self.tally(now)
        if self.phase == "closed" and not calls and not self.in_flight():
            return None
        return {"phase": self.phase,
                **({"since_ns": self.since} if self.phase != "closed" else {}),
                **({"probes": {"flying": self.flying, "good": self.good, "bad": self.bad,
                               "slow": self.slow_probes}} if self.phase == "half_open" else {}),
                "in_flight": self.in_flight(), "calls": calls, "failures": failures, "slow": slow}
