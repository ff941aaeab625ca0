"""Writes the vectors: each algorithm's limits (limits.py) through scenarios, by the models.

    tests/vectors/make.py [DIRECTORY]

README.md says what is in the files. The same bytes come out every time.
"""

import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "model")]

import models  # noqa: E402
from limits import ALGORITHMS, NOW  # noqa: E402

FORMAT = 1
SEED = 11  # of draws
ROUNDS = 48  # of reports
IDLE_NS = 400 * models.DAY_NS
DECISION = ["allowed", "reason", "quota", "remaining", "retry_after_ns", "reset_after_ns", "wait_ns"]


def as_text(value):
    """Times as texts: they are beyond 2^53, where many readers of JSON lose bits."""
    if isinstance(value, dict):
        return {name: str(field) if name.endswith("_ns") or name in ("draw", "seed")
                else as_text(field) for name, field in value.items()}
    return [as_text(each) for each in value] if isinstance(value, list) else value


class Trace:
    """Calls on one key, one after the other; the state before each is the one after the last."""

    def __init__(self, model, start, window_end):
        self.model, self.now, self.window_end, self.draw = model, start, window_end, None
        self.state, self.permits, self.lines = None, 0, []

    def after(self, ns):
        self.now += math.floor(ns)
        return self

    def call(self, operation, cost=None, permit=None, **others):
        step = {"operation": operation, "now_ns": self.now}
        if self.window_end:
            step["window_end_ns"] = self.window_end(self.now)
        if cost is not None:
            step["cost"] = cost
        if self.draw:
            self.model.draw = lambda: step.setdefault("draw", self.draw())
        step.update({"max_wait_ns" if name == "max_wait" else name: value
                     for name, value in others.items()})
        decision = self.model.call(operation, self.now, cost, permit, **others)
        if permit and "until_ns" in permit:  # it took something, or gives it back
            step["permit"] = dict(permit)
        # The model goes on from what is written, so what is written is all of the state.
        self.state = self.model.save(self.now)
        self.model.load(self.state)
        self.lines.append({**step, "state": self.state,
                           "decision": {name: decision[name] for name in DECISION}})
        return decision

    def peek(self, cost=1):
        return self.call("peek", cost)

    def acquire(self, cost=1):
        return self.call("acquire", cost)

    def permit(self, cost=1):
        """An acquire whose request will be named."""
        self.permits += 1
        permit = {"id": self.permits}
        self.call("acquire", cost, permit)
        return permit

    def refund(self, cost=1, permit=None):
        return self.call("refund", cost, permit)

    def reset(self):
        return self.call("reset")

    @property
    def quota(self):
        return self.model.quota

    def fill(self):
        """All that is left, at once. Returns the decision of one more."""
        left = self.peek()["remaining"]
        if left:
            self.acquire(left)
        return self.acquire()


def edges(trace, _):
    """To the nanosecond: when one more passes, and when the key is as new."""
    trace.acquire(0)
    trace.acquire()
    trace.acquire(0)
    denied = trace.fill()
    trace.acquire(0)
    trace.after(denied["retry_after_ns"] - 1).acquire()
    trace.after(1).acquire()
    left = trace.peek(trace.quota)["reset_after_ns"]
    trace.after(left - 1).peek(trace.quota)
    trace.after(1).peek(trace.quota)
    trace.acquire(trace.quota)
    trace.acquire()
    trace.after(IDLE_NS).acquire(trace.quota)


def refunds(trace, _):
    """Of current use, never below none; and resets."""
    few = min(3, trace.quota)
    trace.refund()
    trace.reset()
    trace.acquire()
    trace.refund(0)
    trace.refund()
    trace.acquire(few)
    left = trace.after(1).acquire()["reset_after_ns"]
    trace.refund()
    trace.refund(trace.quota)
    trace.refund()
    trace.acquire(few)
    trace.after(left // 2).refund(2)
    trace.peek()
    trace.reset()
    trace.reset()
    trace.refund()
    trace.acquire(trace.quota)
    trace.reset()
    trace.acquire(trace.quota)


def names(trace, _):
    """Refunds of what a request took: by order and out of it, twice, late, after a reset."""
    first, second = trace.permit(), trace.after(1).permit()
    last = trace.after(1).permit(min(2, trace.quota))
    for cost, permit in [(min(2, trace.quota), last), (1, first), (1, second)]:
        if "until_ns" in permit:
            trace.refund(cost, permit)
    left = trace.permit()
    end = trace.peek()["reset_after_ns"]
    trace.after(end // 2).refund(1, left)
    late = trace.permit()
    end = trace.peek()["reset_after_ns"]
    trace.after(end).refund(1, late)
    trace.acquire()
    trace.refund(1, late)
    trace.reset()
    before = trace.permit()
    trace.reset()
    trace.acquire()
    trace.refund(1, before)


def names_twice(trace, _):
    """A second refund by the same name, which a table that keeps permits refuses."""
    first = trace.after(1).permit()
    trace.acquire()
    trace.refund(1, first)
    trace.refund(1, first)


def behind(trace, _):
    """A clock that lags by less than anything that ends meanwhile."""
    trace.acquire()
    trace.after(-1).acquire()
    trace.after(2).acquire()
    trace.after(-2).peek()
    trace.after(1).acquire()
    trace.after(-1).fill()
    trace.after(2).acquire()


def set_back(trace, _):
    """A clock set back by more than clocks differ: what is too far ahead is cut back, once."""
    end = trace.acquire(trace.quota)["reset_after_ns"]
    trace.after(-2 * end - 2 * models.DAY_NS).acquire()
    trace.acquire()
    denied = trace.peek()
    trace.after(denied["retry_after_ns"] - 1).acquire()
    trace.after(1).acquire()
    trace.peek()


def patience(trace, _):
    """Requests that wait for less than the limit lets them."""
    if not trace.model.paced:
        return
    trace.acquire()
    denied = trace.fill()
    for wait in [0, 1, denied["reset_after_ns"]]:
        trace.call("acquire", 1, max_wait=wait)
    wait = trace.after(denied["retry_after_ns"]).peek()["wait_ns"]
    for max_wait in [0, wait - 1, wait, wait + 1]:
        trace.call("peek", 1, max_wait=max(max_wait, 0))
    trace.call("acquire", 1, max_wait=max(wait - 1, 0))
    trace.call("acquire", 1, max_wait=wait)


def anything(trace, draw):
    """Any calls, at any time that matters."""
    last = trace.peek()
    for _ in range(24):
        waits = [0, 1, last["retry_after_ns"] - 1, last["retry_after_ns"],
                 last["reset_after_ns"] // 3, draw() % (last["reset_after_ns"] + 1),
                 last["reset_after_ns"] - 1, last["reset_after_ns"]]
        costs = [0, 1, 1, 1, 2, trace.quota // 3, trace.quota, last["remaining"]]
        trace.after(max(0, waits[draw() % len(waits)]))
        cost = min(costs[draw() % len(costs)], trace.quota)
        operation = (6 * ["acquire"] + ["peek", "peek", "refund", "reset"])[draw() % 10]
        last = trace.call(operation, None if operation == "reset" else cost)


SCENARIOS = [edges, anything, patience, refunds, names, names_twice, behind, set_back]
THOROUGH = 2  # limits go through all of them, ...
FOR_EACH = 3  # ... the others through the first ones


def chance(trace, draw):
    """Peeks draw no random number and change no state."""
    trace.draw = models.splitmix64(SEED)
    for _ in range(12):
        trace.acquire(1 + draw() % 3)
    trace.peek()
    trace.acquire(0)
    trace.refund()
    trace.reset()


def thresholds(trace, _):
    """The draws on both sides of the share that is denied. The lowest bit counts for nothing."""
    edge = 2 * int(trace.model.deny * 2**63)
    for draw in sorted({0, 1, edge - 1, edge, edge + 1, 2**64 - 1}):
        if 0 <= draw < 2**64:
            trace.draw = lambda: draw
            trace.acquire()


def reports(trace, draw):
    """Requests and what becomes of them: well, then badly, until it opens, and back."""
    trace.draw = models.splitmix64(SEED)
    healthy, flying = True, []
    for _ in range(ROUNDS):
        permit = {"id": trace.permits + 1}
        answer = trace.call("acquire", 1, permit)
        if answer["allowed"]:
            trace.permits += 1
            flying.append(permit)
        else:
            trace.after(answer["retry_after_ns"] - 1).peek()
            trace.after(1)
        trace.after([0, 1, 10**6, 10**8][draw() % 4])
        if flying and draw() % 3:
            permit = flying.pop(draw() % len(flying))
            if draw() % 16 == 0:
                trace.refund(1, permit)
            elif draw() % 16:  # else nobody reports it
                bad = ["failure", "failure", "timeout", "success"][draw() % 4]
                trace.call("report", 1, permit, outcome="success" if healthy else bad,
                           latency_ns=1 + draw() % (2 * 10**9))
        healthy ^= draw() % 24 == 0
    trace.after(trace.peek()["reset_after_ns"]).peek()


def lost(trace, draw):
    """Permits that nobody reports, and reports that come too late."""
    trace.draw = models.splitmix64(SEED)
    timeout, permits = trace.model.timeout, []
    for _ in range(16):
        permits.append(trace.permit())
        trace.after(draw() % (timeout // 4))
        if draw() % 3 == 0:
            late = permits.pop(draw() % len(permits))
            if "until_ns" in late:
                trace.call("report", 1, late, outcome="success", latency_ns=0)
    trace.after(timeout).peek()
    trace.after(trace.model.p["sleep_ns"]).acquire()
    trace.after(timeout - 1).peek()
    trace.after(1).peek()
    trace.refund(3)
    trace.reset()
    trace.acquire()


def sheds(trace, draw):
    """A thing that fails for a while: most requests are shed, one passes each second."""
    trace.draw = models.splitmix64(SEED)
    for number in range(ROUNDS):
        permit = {"id": trace.permits + 1}
        if trace.call("acquire", min(draw() % 8, 1), permit)["allowed"] and "until_ns" in permit:
            trace.permits += 1
            trace.after(draw() % 10**6)
            trace.call("report", 1, permit, outcome="ignored" if draw() % 8 == 0 else
                       "failure" if number < ROUNDS // 2 else "success",
                       latency_ns=0)
        trace.after([0, 1, 10**6, 10**7, 10**8, 3 * 10**8][draw() % 6])
        if draw() % 16 == 0:
            trace.after(-10**6)
    trace.refund(3)
    trace.after(trace.peek()["reset_after_ns"] - 1).peek()
    trace.after(1).acquire()
    trace.reset()


def answers(trace, draw):
    """As many as the limit lets through, and how long they took: more with more in flight."""
    flying = []
    for n in range(4 * ROUNDS):
        permit = {"id": trace.permits + 1}
        if trace.call("acquire", 1, permit)["allowed"]:
            trace.permits += 1
            flying.append(permit)
        trace.after([0, 1, 10**6, 10**7][draw() % 4])
        if flying and draw() % 3:
            done = flying.pop(draw() % len(flying))
            latency = [0, 10**6 * (1 + len(flying)), 10**6 + draw() % 10**7][draw() % 3]
            outcome = ["failure", "timeout", "ignored", *5 * ["success"]][draw() % 8]
            trace.call("report", 1, done, outcome=outcome, latency_ns=latency)
        if n == ROUNDS:
            trace.refund(2)
            trace.peek()
            trace.after(trace.model.timeout // 2).peek()
        if n == 3 * ROUNDS:
            trace.after(trace.model.timeout + draw() % trace.model.timeout).peek()
            flying = []
    trace.reset()
    trace.acquire()
    trace.after(trace.peek()["reset_after_ns"] - 1).peek()
    trace.after(1).peek()


def set_back_in_flight(trace, _):
    """A clock that lags counts with the newest; one that is set back by far begins anew."""
    trace.acquire()
    late = trace.after(-trace.model.part_ns).permit()
    trace.after(trace.model.timeout).call("report", 1, late, outcome="success", latency_ns=1)
    trace.acquire()
    trace.after(-2 * models.DAY_NS - 8 * trace.model.timeout - 8 * 3600 * 10**9).acquire()
    trace.peek()


def traces(make_model, limits, window_end=lambda parameters: None):
    for number, (start, parameters) in enumerate(limits):
        model = make_model(parameters)
        scenarios = SCENARIOS if number < THOROUGH else SCENARIOS[:FOR_EACH]
        scenarios = {models.Random: [chance, thresholds],
                     models.Breaker: [reports, lost],
                     models.Throttle: [sheds],
                     models.Adaptive: [answers, set_back_in_flight]}.get(type(model), scenarios)
        for scenario in scenarios:
            trace = Trace(make_model(parameters), start, window_end(parameters))
            scenario(trace, models.splitmix64(number))
            if not trace.lines:  # nothing of that kind in this algorithm
                continue
            yield {"trace": f"{scenario.__name__} {number + 1}", "parameters": parameters,
                   **({"seed": SEED} if scenario in (chance, reports, lost, sheds) else {})}
            yield from trace.lines


def text_of(name):
    """The file of an algorithm."""
    lines = [{"format": FORMAT, "algorithm": name}, *traces(*ALGORITHMS[name])]
    return "".join(json.dumps(as_text(line), separators=(",", ":")) + "\n" for line in lines)


def main(directory=HERE):
    for name in ALGORITHMS:
        (pathlib.Path(directory) / f"{name}.jsonl").write_text(text_of(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
