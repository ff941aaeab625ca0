"""
What must hold in every history, whatever the algorithm. Each check reads records (player.py) and yields
complaints: (number of the operation, rule, text). README.md explains the rules.
"""

from fractions import Fraction

import algorithms
import bounds
import breakers
import history as format_of
from ledger import Ledger, rounding

REASONS = {"ok", "hit_quota", "over_limit", "queue_full", "wait_too_long", "shed", "breaker_open",
           "listed", "store_failure", "no_room", "store_open", "store_local"}
ECOST, ENOTFOUND = -3, -5
DECIDES = ("acquire", "check")
# At Redis, times are whole microseconds.
SLACK = 2000


class Case:
    """A history and its records, with what several checks ask of them."""

    def __init__(self, history, records):
        self.history, self.records = history, records
        self.is_redis = history["store"] == "redis"
        settings = history.get("settings", {})
        self.servers = len(history["servers"])
        self.denied_ns = settings.get("denied_cache_ms", 0) * algorithms.MS
        self.has_faults = any(op["do"] in ("fault", "flush") for op in history["ops"])
        self.has_chunks = any("chunk" in limit for config in history["configs"]
                              for limit in config["limits"].values())
        # The books of these are exact at any instant.
        self.is_plain = not self.has_chunks and not self.has_faults
        # The observer reads states by the limits that count.
        self.is_even = not any(op["do"] == "reload" and "server" in op for op in history["ops"])
        self.is_exact = self.is_plain and self.is_even

    def limits(self, i):
        return self.history["configs"][self.records[i]["config"]]["limits"]

    def limit(self, i, name):
        return self.limits(i)[name]

    def now(self, i):
        """The time after operation `i`."""
        return max(state["now"] for state in self.records[i]["state"].values())

    def pairs(self, i):
        """(limit, key), and their states before and after operation `i`, in one configuration."""
        before, after = self.records[i - 1]["state"], self.records[i]["state"]
        return [(pair, before[pair], after[pair]) for pair in after if pair in before]

    def forgets(self, i, pair):
        """Whether operation `i` ends the memory that keeps a count, or moves the limit to another store."""
        if self.records[i]["op"]["do"] == "reload":
            limits = [self.limits(k).get(pair[0], {}) for k in (i - 1, i)]
            return limits[0].get("store") != limits[1].get("store")
        if self.records[i]["op"]["do"] not in ("restart", "kill"):
            return False
        is_local = pair[0] in self.limits(i) and self.limit(i, pair[0]).get("store") == "memory"
        return self.history["store"] == "memory" or is_local

    def charged(self, i):
        """The charges of an allowed request, by enforced and by shadow rules: {(limit, key): times}."""
        op = self.records[i].get("again") or self.records[i]["op"]
        if op["do"] == "acquire":
            return {(op["limit"], op["key"]): 1}, {}
        enforced, shadow = {}, {}
        config = self.history["configs"][self.records[i]["config"]]
        for rule, name, key in format_of.charges(config, op["attributes"]):
            if name is not None:
                counts = shadow if rule.get("mode") == "shadow" else enforced
                counts[name, key] = counts.get((name, key), 0) + 1
        return enforced, shadow

    def shadow_below(self, i, name):
        """With `order: first`: what only shadow rules below the rule of that name charge."""
        op = self.records[i].get("again") or self.records[i]["op"]
        config = self.history["configs"][self.records[i]["config"]]
        above, below, decided = set(), set(), False
        for rule, limit, key in format_of.charges(config, op["attributes"]):
            decided = decided or rule["name"] == name
            if rule.get("mode") == "shadow":
                (below if decided else above).add((limit, key))
        return below - above


def asked(record):
    """Whether a request was decided, and no error was the answer."""
    answer = record["answer"]
    is_request = record["op"]["do"] in (*DECIDES, "again", "adhoc")
    return is_request and answer is not None and answer["status"] == 0


def cost_of(record):
    return (record.get("again") or record["op"]).get("cost", 1)


def is_at_once(case, i):
    """Whether no time passed in an operation."""
    return case.now(i) == case.now(i - 1)


def same(one, other):
    return all(one.get(name) == other.get(name) for name in ("allowed", "remaining", "retry", "reset"))


# The checks

def shape(case):
    for i, record in enumerate(case.records):
        for answer in [record["answer"], record.get("peek"), *record["state"].values()]:
            if answer is None or "quota" not in answer or answer["status"] != 0:
                continue
            if not 0 <= answer["remaining"] <= max(answer["quota"], 0):
                yield i, "shape", f"remaining {answer['remaining']} of {answer['quota']}"
            if answer["reason"] not in REASONS:
                yield i, "shape", f"reason {answer['reason']}"
        if asked(record):
            answer = record["answer"]
            if answer["allowed"] != (answer["retry"] == 0):
                yield i, "shape", f"allowed {answer['allowed']}, retry_after {answer['retry']} ns"
            if answer["limit"] != "-" and record["op"]["do"] != "adhoc" and \
                    answer["limit"] not in case.history["configs"][record["config"]]["limits"]:
                yield i, "shape", f"there is no limit {answer['limit']}"


def has_draws(case, i):
    enforced, shadow = case.charged(i)
    return any(not algorithms.of(case.limit(i, name)).clock and
               case.limit(i, name)["algorithm"] not in ("concurrency",)
               for name, _ in {**enforced, **shadow})


def peek_agrees(case):
    """A peek, and then an acquire with nothing between, say the same."""
    for i, record in enumerate(case.records):
        peek = record.get("peek")
        if not peek or not record["answer"] or record["op"]["do"] == "adhoc" or has_draws(case, i):
            continue
        op, answer = record.get("again") or record["op"], record["answer"]
        if "wait_ms" in op or peek["now"] != answer["now"] or case.has_faults:
            continue
        if max({**case.charged(i)[0], None: 1}.values()) > 1:
            continue  # a peek asks each rule by itself
        names = ("status", "allowed", "limit", "rule")
        if not answer.get("allowed"):
            # An acquire may first give back what its server has of a chunk.
            names += ("reason",) if case.has_chunks else ("remaining", "retry", "reason")
            if any(pair in case.charged(i)[0] for pair in case.charged(i)[1]):
                names = tuple(name for name in names if name != "retry")  # shadow rules charge these counts
        room = {"retry": SLACK, "remaining": max(map(rounding, case.limits(i).values()))} if case.is_redis else {}
        differ = [f"{n}: {peek.get(n)} and then {answer.get(n)}" for n in names if
                  peek.get(n) != answer.get(n) and not (n in room and abs(peek[n] - answer[n]) <= room[n])]
        if answer.get("allowed") and answer.get("status") == 0:  # tightest may be another one after it
            differ = [text for text in differ if not text.startswith(("limit", "rule"))]
        if differ:
            yield i, "peek", "peek and acquire differ: " + "; ".join(differ)


def first_denies(case):
    """The limit that a denial names is the first, in the order of rules, that denies."""
    for i, record in enumerate(case.records):
        op = record.get("again") or record["op"]
        if not asked(record) or op["do"] != "check" or record["answer"]["allowed"] or \
                "wait_ms" in op or not case.is_exact or has_draws(case, i) or not is_at_once(case, i):
            continue
        if record["answer"]["reason"] == "listed":
            continue
        config = case.history["configs"][record["config"]]
        named = record["answer"]["limit"]
        for rule, name, key in format_of.charges(config, op["attributes"]):
            if rule.get("mode") == "shadow" or name is None:
                continue
            state = case.records[i - 1]["state"].get((name, key))
            if not state or name == named:
                break
            if op.get("cost", 1) <= 1 and not state["allowed"]:
                yield i, "first", f"{named} is named, but {name} denies before it"
                break


def denial_takes_nothing(case):
    for i, record in enumerate(case.records):
        if not asked(record) or record["answer"]["allowed"] or not is_at_once(case, i) or \
                not case.is_exact or record["op"]["do"] == "adhoc":
            continue
        _, shadow = case.charged(i)
        is_first = case.history["configs"][record["config"]].get("order") == "first"
        if is_first and "rule" in record["answer"] and shadow:
            below = case.shadow_below(i, record["answer"]["rule"])
            shadow = {pair: n for pair, n in shadow.items() if pair not in below}
        for pair, before, after in case.pairs(i):
            if pair not in shadow and not learns(case.limit(i, pair[0])) and not same(before, after):
                yield i, "denied", f"a denied request changed {pair}: {brief(before)} became {brief(after)}"


def learns(limit):
    """Whether a denied request may count, too."""
    return not algorithms.of(limit).remote


def greatest_cost(state):
    """The most units that a request may ask for: the quota, which is 0 of a limit that has none."""
    return state["quota"] or 1 << 32


def could_never_grant(case, i, pair, times, op):
    """Whether a limit could never grant so many charges of a request within its wait."""
    limit, state = case.limit(i, pair[0]), case.records[i - 1]["state"].get(pair)
    if not state or state["status"]:
        return False
    wait = op["wait_ms"] * algorithms.MS if "wait_ms" in op else None
    if limit["algorithm"] == "warm_up" and times > 1:  # the last one waits for those before it
        least = max(op.get("cost", 1), 1) * (times - 1) * Fraction(algorithms.period_of(limit), algorithms.count_of(limit))
        if least > min(algorithms.duration(limit.get("max_wait") or "30s"), least if wait is None else wait):
            return True
        times = 1
    units = max(op.get("cost", 1), 1) * times
    if units > greatest_cost(state):
        return op.get("cost", 1) > 0 or times > 1
    return wait is not None and bounds.least_wait(limit, units) > wait


def error_is_due(case):
    """A cost is an error if a limit could never grant it, and only then."""
    for i, record in enumerate(case.records):
        op, answer = record.get("again") or record["op"], record["answer"]
        if not answer or op["do"] not in DECIDES or not case.is_exact or not is_at_once(case, i):
            continue
        is_error = answer["status"] == ECOST
        if not is_error and (answer["status"] or answer["reason"] == "listed" or
                             case.history["configs"][record["config"]].get("order") == "first"):
            continue
        enforced, _ = case.charged(i)
        never = [pair for pair, times in enforced.items() if could_never_grant(case, i, pair, times, op)]
        if is_error != bool(never):
            yield i, "cost", f"cost_too_large: {is_error}; limits that could never grant it: {never}"


def error_is_first(case):
    """With `order: first` a rule that denies decides before a limit that could never grant the cost."""
    for i, record in enumerate(case.records):
        op = record.get("again") or record["op"]
        if op["do"] != "check" or not record["answer"] or record["answer"]["status"] != ECOST or \
                not case.is_exact or not is_at_once(case, i) or case.history["configs"][record["config"]].get("order") != "first":
            continue
        config = case.history["configs"][record["config"]]
        charged = {}
        for rule, name, key in format_of.charges(config, op["attributes"]):
            state = case.records[i - 1]["state"].get((name, key))
            if rule.get("mode") == "shadow":
                continue
            charged[name, key] = charged.get((name, key), 0) + 1
            if not state or not algorithms.of(config["limits"][name]).bound or \
                    could_never_grant(case, i, (name, key), charged[name, key], op):
                break
            if not state["allowed"]:
                yield i, "first", f"{name} denies before the limit that could never grant the cost"
                break


def denial_is_true(case):
    """Who is denied would be denied by one who has no memory of denials, but for what was given back."""
    changed = -10**30
    for i, record in enumerate(case.records):
        if record["op"]["do"] in ("refund", "reset", "report", "reload", "restart", "kill"):
            changed = case.now(i)
        op, answer = record.get("again") or record["op"], record["answer"]
        if not asked(record) or answer["allowed"] or not case.is_exact or op["do"] != "acquire" or \
                op.get("cost", 1) not in (0, 1) or not is_at_once(case, i) or \
                not algorithms.of(case.limit(i, op["limit"])).clock or "wait_ms" in op:
            continue
        state = record["state"].get((op["limit"], op["key"]))
        if state and state["allowed"] and case.now(i) > changed + case.denied_ns:
            yield i, "true", f"denied, but {brief(state)}"


def brief(state):
    return {name: state.get(name) for name in ("allowed", "remaining", "retry", "reset")}


def grant_takes_cost(case):
    for i, record in enumerate(case.records):
        if not asked(record) or not record["answer"]["allowed"] or not is_at_once(case, i) or \
                not case.is_exact or record["op"]["do"] == "adhoc":
            continue
        enforced, shadow = case.charged(i)
        listed = record["answer"]["reason"] == "listed"
        for pair, before, after in case.pairs(i):
            if pair in shadow or listed or before["status"] or after["status"]:
                continue
            took = before["remaining"] - after["remaining"]
            wanted = enforced.get(pair, 0) * cost_of(record)
            if algorithms.of(case.limit(i, pair[0])).exact or wanted == 0:
                if abs(took - wanted) > rounding(case.limit(i, pair[0])):
                    yield i, "grant", f"{pair}: {wanted} granted, {took} taken"
            elif took < 0:
                yield i, "grant", f"{pair}: a grant gave back {-took}"


def reset_is_new(case):
    for i, record in enumerate(case.records):
        op, answer = record["op"], record["answer"]
        if op["do"] != "reset" or not answer or answer["status"] or not case.is_plain:
            continue
        state = record["state"].get((op["limit"], op["key"]))
        if state and algorithms.of(case.limit(i, op["limit"])).bound and \
                (state["remaining"] != state["quota"] or state["reset"]):
            yield i, "reset", f"after a reset: {brief(state)}"


def is_stored(case, i, pair):
    """Whether operation `i` surely left a state of the present parameters at Redis."""
    record = case.records[i]
    op = record.get("again") or record["op"]
    if not asked(record) or op["do"] not in DECIDES or op.get("cost", 1) == 0 or pair not in case.charged(i)[0]:
        return False
    # A denial of several limits stores none of them, and a repeated one does not reach Redis.
    if not record["answer"]["allowed"]:
        return op["do"] == "acquire" and not case.denied_ns
    return record["answer"]["reason"] != "listed"


def speed(case, i, pair):
    """
    How fast retry_after counts down. At Redis a state of former parameters leaks at their rate until an
    acquire stores it as the present ones have it. What is then a day ahead is never stored, and shown as a day.
    """
    limit = case.limit(i, pair[0])
    if not case.is_redis or limit.get("store") == "memory" or "rate" not in limit:
        return 1
    while i > 0 and case.records[i]["op"]["do"] not in ("reload", "restart"):
        if is_stored(case, i, pair):
            return 1
        i -= 1
    others = [config["limits"][pair[0]] for config in case.history["configs"] if pair[0] in config["limits"]]
    units = [algorithms.period_of(other) / algorithms.count_of(other) for other in others if "rate" in other]
    unit = algorithms.period_of(limit) / algorithms.count_of(limit)
    if i == 0:
        return 1
    if max(map(algorithms.horizon, others)) / min(units) * unit > algorithms.UNITS["d"]:
        return 0
    return min(1, unit / max(units))


def time_gives(case):
    """While only time passes, a key gets no worse, and retry_after counts down."""
    for i, record in enumerate(case.records):
        if record["op"]["do"] != "pass" or not case.is_exact:
            continue
        for pair, before, after in case.pairs(i):
            limit = case.limit(i, pair[0])
            if before["status"] or after["status"] or not algorithms.of(limit).clock:
                continue
            passed = after["now"] - before["now"]
            left = max(0, before["retry"] - passed * speed(case, i, pair))
            if after["retry"] > left + SLACK:
                yield i, "time", (f"{pair}: retry_after {before['retry']} ns, and {after['retry']} ns "
                                  f"when {passed} ns have passed")
            if limit["algorithm"] != "warm_up" and after["remaining"] < before["remaining"]:
                yield i, "time", f"{pair}: {before['remaining']} remain, and later {after['remaining']}"


def passes_then(case):
    """When its retry_after has passed, and nothing came meanwhile, the same request passes."""
    for i, record in enumerate(case.records):
        if "again" not in record or not asked(record) or record["answer"]["allowed"]:
            continue
        if not case.is_plain or not comes_next(case, i) or has_draws(case, i):
            continue
        enforced, _ = case.charged(i)
        if any(not algorithms.of(case.limit(i, name)).clock for name, _ in enforced):
            continue
        if "listed" in (record["answer"]["reason"], reason_before(case, i)) or any(
                times > 1 and case.limit(i, name)["algorithm"] == "warm_up" for (name, _), times in enforced.items()):
            continue  # never passes; and time makes a key of warm_up colder
        if is_prolonged(case, i) or (case.is_redis and len(case.history["configs"]) > 1 and cost_of(record) == 0):
            continue  # a question leaves a state of former parameters at its former speed
        yield i, "again", (f"denied again when its retry_after has passed, by {record['answer']['limit']}: "
                           f"{brief(record['answer'])}")


def repeated_by(case, i):
    """The request that operation `i` repeats."""
    return max(k for k in range(i) if case.records[k]["op"].get("id") == case.records[i]["op"]["of"])


def comes_next(case, i):
    """Whether only time passed since the request that is repeated."""
    return all(record["op"]["do"] in ("pass", "peek") for record in case.records[repeated_by(case, i) + 1:i])


def is_prolonged(case, i):
    """
    Whether a server may have repeated a denial, although another server has granted something within
    `denied_cache`: after a reset, or by a higher limit.
    """
    of = repeated_by(case, i)
    server = case.records[of]["op"].get("server", 0)
    return any(
        asked(record) and record["answer"]["allowed"] and record["op"].get("server", 0) != server and
        case.now(k) + case.denied_ns > case.now(of) for k, record in enumerate(case.records[:of]))


def reason_before(case, i):
    """Why the request was denied that is repeated."""
    return case.records[repeated_by(case, i)]["answer"]["reason"]


def in_use(state):
    return state["quota"] - state["remaining"]


def reload_keeps(case):
    """
    A reload that keeps algorithm and period keeps what keys have used, cut to the new quota; so does the
    end of a server, unless it counts in memory. The part that was cut off counts again when a larger
    quota comes back.
    """
    hidden = {}
    for i, record in enumerate(case.records):
        if record["op"]["do"] not in ("reload", "restart", "kill") or not case.is_exact:
            continue
        old = case.history["configs"][case.records[i - 1]["config"]]["limits"]
        new = case.history["configs"][record["config"]]["limits"]
        for pair, before, after in case.pairs(i):
            one, other = old.get(pair[0]), new.get(pair[0])
            if not one or not other or before["status"] or after["status"] or learns(one):
                continue
            if case.forgets(i, pair):
                is_new = after["remaining"] == after["quota"] and not after["reset"]
                if record["op"]["do"] != "reload" and algorithms.of(other).bound and not is_new:
                    yield i, "reload", f"{pair}: a server that ended left {brief(after)}"
            elif behaviour(one) == behaviour(other):
                if not same(before, after):
                    yield i, "reload", f"{pair}: a reload made {brief(after)} of {brief(before)}"
            elif is_scaled(one, other):
                use = min(in_use(before), after["quota"])
                room = 1 if algorithms.of(one).bound == "bucket" else 0
                more = in_use(after) - use
                if in_use(before) == before["quota"]:  # more may have been used, and was hidden
                    more = min(more, 0)
                if more > 0:
                    more = max(more - hidden.get(pair, 0), 0)
                hidden[pair] = hidden.get(pair, 0) + in_use(before) - use
                if abs(more) > room:
                    yield i, "reload", f"{pair}: {in_use(before)} were used, now {in_use(after)}"
                elif algorithms.of(one).bound in ("log", "sliding", "window") and \
                        after["reset"] > before["reset"] + SLACK:
                    yield i, "reload", f"{pair}: was new after {before['reset']} ns, now {after['reset']} ns"


def behaviour(limit):
    return {name: value for name, value in limit.items()
            if value is not None and name not in ("keys", "on_store_failure", "chunk")}


def is_scaled(one, other):
    """Whether two limits differ by their count or burst alone, and `remaining` tells the use exactly."""
    if one["algorithm"] != other["algorithm"] or algorithms.of(one).bound in ("", "turns"):
        return False
    same_of = [name for name in {**one, **other} if name not in ("rate", "burst", "capacity", "max", "keys")]
    if any(one.get(name) != other.get(name) for name in same_of):
        return False
    return "rate" not in one or algorithms.period_of(one) == algorithms.period_of(other)


def adhoc_counts(case):
    """
    Buckets whose parameters come with the request keep one time, whatever the parameters.
    """
    most, least = {}, {}
    for i, record in enumerate(case.records):
        op, answer = record["op"], record["answer"]
        if op["do"] != "adhoc" or not answer or answer["status"]:
            continue
        unit, now = Fraction(op["period_s"] * 10**9, op["count"]), answer["now"]
        depth, cost = op["burst"] * unit, op.get("cost", 1) * unit
        for full in (most, least):
            full[op["key"]] = max(full.get(op["key"], 0), now)
        if answer["allowed"] and least[op["key"]] + cost - now > depth + SLACK:
            yield i, "adhoc", f"allowed, {float(least[op['key']] + cost - now - depth) / 1e9:.3f} s too early"
            return
        if not answer["allowed"] and most[op["key"]] + cost - now < depth - SLACK:
            yield i, "adhoc", f"denied, {float(now + depth - cost - most[op['key']]) / 1e9:.3f} s too late"
            return
        if answer["allowed"]:
            most[op["key"]] += cost
            least[op["key"]] += cost


def ends_as_new(case):
    """In the end of a history that says so, long enough has passed for all to be as new."""
    last = case.records[-1]
    if last["op"].get("end"):
        for pair, state in last["state"].items():
            limit = case.limit(-1, pair[0])
            if algorithms.of(limit).bound and not state["status"] and \
                    (state["remaining"] != state["quota"] or state["reset"]):
                yield len(case.records) - 1, "end", f"{pair}: {brief(state)} in the end"


def in_time(case):
    """No request takes longer than it may wait, and its calls of Redis may last."""
    timeout = case.history.get("settings", {}).get("timeout_ms", 20) * algorithms.MS
    for i, record in enumerate(case.records):
        op, peek, answer = record.get("again") or record["op"], record.get("peek"), record["answer"]
        if peek and answer:
            took = answer["now"] - peek["now"]
            if took > op.get("wait_ms", 0) * algorithms.MS + 3 * timeout:
                yield i, "late", f"{took} ns passed until the answer"


def statuses(case):
    """Errors that no operation of the generator may meet."""
    for i, record in enumerate(case.records):
        answer = record["answer"]
        if answer and answer["status"] not in (0, ECOST, ENOTFOUND) and not case.has_faults:
            yield i, "status", f"{record['op']['do']}: status {answer['status']}"


CHECKS = [shape, statuses, in_time, peek_agrees, first_denies, denial_takes_nothing, denial_is_true, error_is_due, error_is_first,
          grant_takes_cost, reset_is_new,
          time_gives, passes_then, reload_keeps, adhoc_counts, ends_as_new]


def judge(history, records):
    """All complaints, in the order of operations."""
    case = Case(history, records)
    found = [complaint for check in CHECKS for complaint in check(case)]
    found += Ledger(case).complaints()
    found += bounds.complaints(case)
    found += breakers.complaints(case)
    return sorted(found)
