"""The base class of all models, with their calls and answers."""

import math

DAY_NS = 86400 * 10**9


class Model:
    denial = "over_limit"
    paced = False  # what is allowed may have to wait
    state = None

    def call(self, operation, now, cost=1, permit=None, max_wait=math.inf):
        """The decision, as a dictionary like the binding's.

        `permit` is {"id": …} of an acquire, which adds "until_ns", and the same of the
        refund that gives back what that acquire took. A request that may have to wait
        does so for at most `max_wait`.
        """
        before, self.patience = self.state, max_wait
        answer = {"allowed": True, "reason": "ok", "quota": self.quota, "retry_after_ns": 0,
                  "wait_ns": 0}
        if operation in ("acquire", "peek"):
            # Cost 0 asks about a cost of 1. What is not consumed is not
            # subtracted: peek and cost 0 tell what remains now.
            wait = self.wait(now, max(cost, 1))
            if wait:
                self.cut_back(now)
                wait = self.wait(now, max(cost, 1))
                answer.update(allowed=False, reason=self.denial_of(now, max(cost, 1)),
                              retry_after_ns=math.ceil(wait))
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
            # One that names what it gives back says whether it found it.
            answer["allowed"] = bool(self.give(now, cost, permit) or not permit or not cost)
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

    def denial_of(self, now, cost):
        return self.denial

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
