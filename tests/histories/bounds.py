"""
How much may pass, by algorithm, and that chunks lose nothing.

For each (limit, key) the units that an exact count would have in use are followed from operation to
operation. A refund takes from this count all that it names, so the count is never more than what is
truly in use: where it exceeds the quota, too much has passed.
"""

import collections
import dataclasses
import itertools
from fractions import Fraction

import algorithms

ESTORE = -14
ROUNDING = Fraction(1, 100)  # of a unit: at Redis, times are whole microseconds


@dataclasses.dataclass
class Event:
    """The effect of an operation on one key of one limit."""

    i: int          # the operation
    at: int         # when
    kind: str       # grant, back, shadow, cut (to so many units), reset, lost-reset (nobody knows)
    units: int = 0
    grant: "Event" = None  # of what came back by permit
    since: int = None      # one who waited was granted between then and `at`

    def __post_init__(self):
        self.since = self.at if self.since is None else self.since


def events_of(case):
    """{(limit, key): [Event, …]}"""
    found, by_id, by_cost = {}, {}, {}

    def add(pair, *words, **more):
        event = Event(*words, **more)
        if case.is_redis and case.limits(event.i).get(pair[0], {}).get("store") != "memory":
            event.at, event.since = event.at - event.at % 1000, event.since - event.since % 1000
        found.setdefault(pair, []).append(event)
        return event

    for i, record in enumerate(case.records):
        op, answer = record["op"], record["answer"]
        asked = record.get("again") or op
        for pair in found:
            if op["do"] == "flush" or case.forgets(i, pair):
                add(pair, i, case.now(i), "reset")
            elif cuts(case, i, pair[0]):
                add(pair, i, case.now(i), "cut", algorithms.quota(case.limit(i, pair[0])))
        if not answer or answer["status"] not in (0, ESTORE):
            continue
        is_lost = answer["status"] == ESTORE  # nobody knows whether it was done
        if is_lost and op["do"] not in ("refund", "report", "reset"):
            continue
        if asked["do"] in ("acquire", "check") and answer["allowed"]:
            if answer["reason"] in ("listed", "store_open") or asked.get("cost", 1) == 0:
                continue  # nothing is taken, and no window begins
            since = record["peek"]["now"] if "wait_ms" in asked else None
            for pair, times in case.charged(i)[0].items():
                event = add(pair, i, answer["now"], "grant", asked.get("cost", 1) * times, since=since)
                by_id.setdefault(op.get("id"), []).append((pair, event))
                by_cost[op.get("id")] = asked.get("cost", 1)
            for pair in case.charged(i)[1]:
                if algorithms.of(case.limit(i, pair[0])).bound == "window":
                    add(pair, i, answer["now"], "shadow")
        elif op["do"] == "refund" and (is_lost or answer["allowed"]) and "of" not in op:
            add((op["limit"], op["key"]), i, answer["now"], "back", op.get("cost", 1))
        elif op["do"] in ("refund", "report") and "of" in op and (is_lost or answer.get("allowed", True)):
            for pair, event in by_id.get(op["of"], []):
                times = event.units // max(1, by_cost[op["of"]])
                units = record["cost"] * times if op["do"] == "refund" else event.units
                add(pair, i, answer["now"], "back", units, grant=event)
        elif op["do"] == "reset":
            add((op["limit"], op["key"]), i, answer["now"], "lost-reset" if is_lost else "reset")
    return found


def cuts(case, i, name):
    """Whether a reload in memory cuts a bucket's use to its burst. The rest is gone as soon as the key is used."""
    if case.records[i]["op"]["do"] != "reload" or name not in case.limits(i):
        return False
    limit = case.limit(i, name)
    is_in_memory = not case.is_redis or limit.get("store") == "memory"
    return is_in_memory and algorithms.of(limit).bound == "bucket"


def limits_of(case, name):
    return [config["limits"][name] for config in case.history["configs"] if name in config["limits"]]


# Counts. `least`: what is in use for sure; `most`: refunds by permit give back nothing from a bucket.

class Bucket:
    def __init__(self, limits):
        self.rate = max(Fraction(algorithms.count_of(limit), algorithms.period_of(limit)) for limit in limits)
        self.least = self.most = Fraction(0)
        self.whole = Fraction(0)  # without cuts since the key was used
        self.at = self.whole_at = 0

    def _left(self, use, since, at):
        return max(Fraction(0), use - max(0, at - since) * self.rate)

    def follow(self, event):
        """Returns what is in use when a request is granted: at the latest, if it waited."""
        used, at = self._used(event), self.at
        self.whole = self._left(self.whole, self.whole_at, at) if event.kind == "cut" else self.least
        self.whole_at = at
        if event.kind == "cut":
            self.least = min(self.whole, Fraction(event.units))
        return used

    def _used(self, event):
        before, since = self.least, self.at
        self.least, self.most = self._left(self.least, since, event.at), self._left(self.most, since, event.at)
        self.at = max(since, event.at)
        if event.kind == "grant":
            used = self.least + event.units
            granted_first = self._left(before, since, event.since) + event.units
            self.least = min(used, self._left(granted_first, event.since, event.at))
            self.most += event.units
            return used
        if event.kind == "back":
            self.least = max(Fraction(0), self.least - event.units)
        elif event.kind == "reset":
            self.least = self.most = Fraction(0)
        elif event.kind == "lost-reset":
            self.least = Fraction(0)
        return self.least


class Window:
    def __init__(self, limits):
        limit = limits[0]
        self.period = algorithms.period_of(limit)
        self.is_calendar = limit["algorithm"] == "fixed_window" and \
            limit.get("align", "calendar") == "calendar"
        self.has_chunks = any("chunk" in each for each in limits)
        self.begin = None
        self.least = self.most = 0
        self.is_known = True  # when the window begins

    def follow(self, event):
        begins = self.begin is None or event.at >= self.begin + self.period
        if begins and (event.since < event.at or event.kind == "shadow"):
            self.is_known = self.is_calendar  # one who waited, or a shadow rule, may have begun it
        if self.begin is not None and event.at >= self.begin + self.period:
            self.begin, self.least, self.most = None, 0, 0
        if event.kind == "reset":
            if self.has_chunks and not self.is_calendar:
                self.is_known = False  # the chunk of another server may keep the window that was open
            self.begin, self.least, self.most = None, 0, 0
        elif event.kind == "lost-reset":
            self.least = 0
        elif event.kind == "grant":
            if self.begin is None:
                self.begin = event.at // self.period * self.period if self.is_calendar else event.at
            used = self.least + event.units if self.is_known else 0
            self.least = used if event.since >= self.begin else self.least
            self.most += event.units
            return used
        elif event.kind == "back" and self.begin is not None:
            if event.grant is None or event.grant.at >= self.begin:
                self.least = max(0, self.least - event.units)
            if event.grant is not None and event.grant.at >= self.begin:
                self.most = max(0, self.most - event.units)
        return self.least


class Places:
    """Permits that are in flight, with the times of their ends. A refund without a permit may release any of them."""

    def __init__(self, limits):
        self.lease = min(algorithms.duration(limit["lease"]) for limit in limits)
        self.held = []

    def follow(self, event):
        self.held = [(end, units, grant) for end, units, grant in self.held if end > event.at]
        if event.kind == "grant":
            self.held.append((event.since + self.lease, event.units, event))
        elif event.kind == "back" and event.grant:
            self.held = [one for one in self.held if one[2] is not event.grant]
        elif event.kind != "nothing":
            self.held = []
        return sum(units for _, units, _ in self.held)


COUNTS = {"bucket": Bucket, "window": Window, "turns": Bucket, "places": Places}


def quota_of(kind, limit):
    """The units of a count that may be in use. Turns: how many may begin at once."""
    if kind == "turns":
        return 1 + (limit.get("slack", 10) if limit["algorithm"] == "pacer" else 0)
    return algorithms.quota(limit)


def least_wait(limit, cost):
    """How long a request of that cost waits on a key that is as new, in nanoseconds."""
    if limit["algorithm"] not in ("pacer", "leaky_queue"):
        return 0
    behind = max(0, cost - quota_of("turns", limit))
    return Fraction(behind * algorithms.period_of(limit), algorithms.count_of(limit))


def is_alike(limits):
    return len({(limit["algorithm"], limit.get("align"), limit.get("rate", "/").split("/")[1])
                for limit in limits}) == 1


def worst(kind, limits, events, times=1):
    """
    Yields (operation, units, quota) of each grant: how much is in use then. `times`: the limits of
    this rate and quota that decide beside one another.
    """
    quota = max(quota_of(kind, limit) for limit in limits)
    count = COUNTS[kind](limits)
    if kind in ("bucket", "turns"):
        count.rate *= times
    for event in events:
        used = count.follow(event)
        if event.kind == "grant":
            yield event.i, float(used), quota


def counts_of(case, limits):
    """How many counts decide beside one another: docs/distributed.md. None: nothing bounds them."""
    kinds = [record["op"].get("kind") for record in case.records if record["op"]["do"] == "fault"]
    policies = {limit.get("on_store_failure", "local") for limit in limits}
    if not any(kind not in (None, "none") for kind in kinds) or policies == {"closed"}:
        return 1
    if policies != {"local"} or case.history.get("settings", {}).get("nodes") != case.servers:
        return None
    return 1 if is_never_reached(case) else 2


def documented(case, limits, quota, times):
    """The most units that may be in use at once, as docs/distributed.md bounds them. The share of a server is 1 at least."""
    if not case.has_faults or {limit.get("on_store_failure", "local") for limit in limits} != {"local"}:
        return quota
    return (times - 1) * quota + max(quota, case.servers)


def is_never_reached(case):
    """Whether no server ever reaches Redis before the end."""
    down = set()
    for record in case.records[1:]:
        op = record["op"]
        if op["do"] == "fault" and op["kind"] == "down":
            down.add(op.get("server", 0))
        elif len(down) == case.servers and op["do"] == "fault":
            rest = case.records[case.records.index(record):]
            return not any(later["op"]["do"] in ("acquire", "check", "again") for later in rest)
        elif len(down) < case.servers:
            return False
    return True


def is_by_rules(case, event):
    """Whether another limit may make it wait for longer."""
    record = case.records[event.i]
    return (record.get("again") or record["op"])["do"] == "check" and len(case.limits(event.i)) > 1


def raises(case, name):
    """The reloads that raise a limit's rate."""
    rates = [Fraction(algorithms.count_of(limit), algorithms.period_of(limit))
             if (limit := case.limits(i).get(name)) else 0 for i in range(len(case.records))]
    return [i for i in range(1, len(rates)) if rates[i] > rates[i - 1]]


def turns(case, events, name):
    """
    Grants when their turn comes, of requests of one unit; refunds make the rest uncertain. One list for
    each time between two resets, or raised rates, since turns that were granted before may come after later ones.
    """
    if any(event.kind in ("back", "lost-reset") or event.units > 1 or is_by_rules(case, event) for event in events):
        return []
    lives, raised = [[]], raises(case, name)
    for event in events:
        if event.kind == "reset" or (raised and event.i > raised[0]):
            lives.append([])
            raised = [i for i in raised if i >= event.i]
        if event.kind == "reset":
            continue
        # One who waits in the call has its turn when it returns.
        is_held = event.since < event.at
        at = event.at + (0 if is_held else case.records[event.i]["answer"]["wait"])
        lives[-1].append(dataclasses.replace(event, at=at, since=at))
    return [sorted(life, key=lambda event: event.at) for life in lives]


def turns_in_all(case, events, name):
    """... as if there were no resets, but for the turns that somebody waits for at a reset."""
    lives = turns(case, events, name)
    ends = [event.at for event in events if event.kind == "reset"] + [float("inf")]
    return [event for life, end in zip(lives, ends) for event in life if event.at <= end]


def spans(events):
    """(operation, nanoseconds, units) from each grant to each later one, net of refunds between them."""
    for first, begin in enumerate(events):
        units = 0
        for event in events[first:]:
            if event.kind == "reset":
                break
            if event.kind == "grant":
                units += event.units
                yield event.i, event.at - begin.since, units
            elif event.grant is None or event.grant.at >= begin.at:
                units = max(0, units - event.units)


def most_in(kind, limits, span):
    """The most units that may pass in `span` nanoseconds, or None if there is no bound."""
    quota = max(algorithms.quota(limit) for limit in limits)
    period = algorithms.period_of(limits[0])
    if kind == "day":
        return quota * (span // period + 2) + max(limit["base"] for limit in limits) * (span // algorithms.UNITS["d"] + 2)
    return quota * (span // period + (1 if kind == "log" else 2))


def too_much(case):
    """More passed than the limit says."""
    for pair, events in case.events.items():
        limits = limits_of(case, pair[0])
        kinds = {algorithms.of(limit).bound for limit in limits}
        kind = kinds.pop()
        if kinds or not kind or not is_alike(limits):
            continue
        times = counts_of(case, limits)
        if kind in COUNTS and times:
            lives = turns(case, events, pair[0]) if kind == "turns" else [events]
            for i, units, quota in itertools.chain(*(worst(kind, limits, life, times) for life in lives)):
                bound = documented(case, limits, quota, times)
                if units > bound + ROUNDING:
                    yield i, "bound", f"{pair}: {units:g} are in use; {bound} may"
                    break
        elif not case.has_faults:
            for i, span, units in spans(events):
                bound = most_in(kind, limits, span)
                if units > bound:
                    yield i, "bound", f"{pair}: {units} passed in {span} ns; {bound} may"
                    break


# Chunks

def share(limit):
    """The units of a chunk."""
    percent = Fraction(limit["chunk"].rstrip("%"))
    return max(1, int(algorithms.quota(limit) * percent / 100))


def unknown(case, i, limit):
    """
    The units that Redis may count although nobody uses them: of servers that were not called for more
    than a second or were killed, and what they had used before a reset at another server.
    """
    ops = [record["op"] for record in case.records[:i + 1]]
    is_quiet = any(op["do"] == "again" or op.get("ns", 0) > 10**9 for op in ops)
    is_reset = case.servers > 1 and any(op["do"] in ("reset", "refund") for op in ops)
    killed = sum(op["do"] == "kill" for op in ops)
    return share(limit) * (case.servers * (is_quiet or is_reset) + killed)


def reported_late(case, pair, limit, i):
    """
    The units that a bucket may count although it has refilled since they were used. A server reports later
    what it has used of its chunk, and Redis can't know what the others used before and after
    (docs/design/redis-cache.md: by at most the units reported).
    """
    if algorithms.of(limit).bound != "bucket":
        return 0
    used = collections.Counter()
    for event in case.events.get(pair, []):
        if event.i < i and event.kind == "grant":
            used[case.records[event.i]["op"].get("server", 0)] += event.units
    parts = [min(share(limit), units) for units in used.values()]
    return sum(parts) - min(parts, default=0)


def use_before(case, pair, limit, i, now):
    """What may be in use at a time, by the operations before `i`; or None: refunds or shadow rules leave it open."""
    if any(rule.get("mode") == "shadow" and pair[0] in rule.get("limits", ())
           for rule in case.history["configs"][0].get("rules", ())):
        return None
    count = COUNTS[algorithms.of(limit).bound]([limit])
    for event in case.events.get(pair, []):
        if event.i >= i:
            break
        if event.kind == "back" and event.grant is None:
            return None
        count.follow(event)
    count.follow(Event(i, now, "nothing"))
    return count.most


def is_chunked(case):
    return case.has_chunks and not case.has_faults and len(case.history["configs"]) == 1


def lost(case):
    """A denial, although an exact count has room beside what other servers may hold."""
    for i, record in enumerate(case.records):
        op, answer = record.get("again") or record["op"], record["answer"]
        if not is_chunked(case) or op["do"] != "acquire" or not answer or answer["status"] or \
                answer["allowed"] or "wait_ms" in op or "chunk" not in case.limit(i, op["limit"]):
            continue
        limit, pair = case.limit(i, op["limit"]), (op["limit"], op["key"])
        use = use_before(case, pair, limit, i, answer["now"])
        others = share(limit) * (case.servers - 1) + unknown(case, i, limit) + reported_late(case, pair, limit, i)
        cost = max(1, op.get("cost", 1))
        room = 1 if algorithms.of(limit).bound == "bucket" else 0
        if use is not None and use + cost + others + room <= algorithms.quota(limit) and \
                is_fresh(case, i, pair):
            yield i, "lost", (f"{pair}: {cost} denied, although {float(use):.1f} of "
                              f"{algorithms.quota(limit)} are used and others may hold {others}")


def is_fresh(case, i, pair):
    """Whether no other server has given back so lately that a denial may be repeated."""
    return not any(event.kind in ("back", "reset") and event.i < i and
                   case.now(i) <= event.at + case.denied_ns for event in case.events.get(pair, []))


def settled(case):
    """All unused chunks have been returned, so that an exact count remains."""
    for i, record in enumerate(case.records):
        if not is_chunked(case) or record["op"]["do"] != "settle":
            continue
        for pair, state in record["state"].items():
            limit = case.limit(i, pair[0])
            use = use_before(case, pair, limit, i, state["now"]) if "chunk" in limit else None
            if use is not None and algorithms.quota(limit) - use > \
                    state["remaining"] + 2 + unknown(case, i, limit) + reported_late(case, pair, limit, i):
                yield i, "settled", (f"{pair}: {state['remaining']} remain, "
                                     f"{float(algorithms.quota(limit) - use):.1f} should")


def measured(case):
    """
    What passed of the one limit of a history as a part of what the documents add for its faults, or of
    all that may pass, if nothing is added. None: there is no bound. Each loss of data adds one quota.
    """
    flushes = sum(record["op"]["do"] == "flush" for record in case.records)
    for pair, events in events_of(case).items():
        limits = limits_of(case, pair[0])
        kind, times = algorithms.of(limits[0]).bound, counts_of(case, limits)
        if times is None:
            return None
        events = turns_in_all(case, events, pair[0]) if kind == "turns" else [one for one in events if one.kind != "reset"]
        quota = quota_of(kind, limits[0])
        used = max((units for _, units, _ in worst(kind, limits, events, times)), default=0)
        bound = documented(case, limits, quota, times)
        return max(0, used - bound) / (quota * flushes) if flushes else used / bound
    return None


def complaints(case):
    case.events = events_of(case)
    checks = [too_much, lost, settled]
    return [complaint for check in checks for complaint in check(case)]
