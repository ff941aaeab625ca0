"""Accounts for permits: each refund returns its units once, to the count that they came from."""

import algorithms


ESTORE = -14


class Taken:
    """The units that one permit charged, {(limit, key): units}, and whether it was refunded."""

    def __init__(self, i, record, charged, now):
        self.i = i
        self.cost = record["op"].get("cost", 1)
        self.charged = charged
        self.now = now
        self.by_rules = record["op"]["do"] == "check"
        self.spent = False
        self.is_void = False  # a reset, restart or cut came between
        self.counts = 0       # of requests since, for turns: only the newest return
        self.slowed = set()   # limits whose rate was lowered since


def rounding(limit):
    """A unit of a bucket may take no whole number of nanoseconds; then `remaining` may be one less."""
    is_bucket = algorithms.of(limit).bound in ("bucket", "turns")
    return int(is_bucket and algorithms.period_of(limit) // 1000 % algorithms.count_of(limit) != 0)


class Ledger:
    """Follows a history from its beginning, and complains about what permits give back."""

    def __init__(self, case):
        self.case = case
        self.taken = {}
        self.found = []
        self.quotas = {}  # the least since each permit: (limit) -> quota

    def complaints(self):
        for i, record in enumerate(self.case.records):
            op = record["op"]
            if op["do"] in ("acquire", "check") and record["answer"] and record["answer"]["permit"]:
                self._take(i, record)
            elif op["do"] in ("acquire", "check", "again"):
                self._others_took(i, record)
            elif op["do"] == "reset":
                self._void((op["limit"], op["key"]))
            elif op["do"] in ("restart", "flush", "fault"):
                self._void(None)
                if op["do"] == "flush":
                    self._forget_spent()
            elif op["do"] == "kill":
                self._kill(i)
            elif op["do"] == "reload":
                self._reload(i)
            elif op["do"] == "refund" and "of" not in op:
                self._void((op["limit"], op["key"]))
            elif op["do"] in ("refund", "report") and record["answer"]:
                self._end(i, record)
        return self.found

    def _say(self, i, text):
        self.found.append((i, "permit", text))

    def _take(self, i, record):
        enforced, shadow = self.case.charged(i)
        for one in self.taken.values():
            one.counts += any(pair in one.charged for pair in {**enforced, **shadow})
        taken = Taken(i, record, enforced, self.case.now(i - 1))
        taken.shadow = shadow
        taken.at_once = self.case.now(i - 1) == self.case.now(i)
        self.taken[record["op"]["id"]] = taken

    def _others_took(self, i, record):
        if record["answer"] and record["answer"]["status"] == 0:
            enforced, shadow = self.case.charged(i)
            for one in self.taken.values():
                one.counts += any(pair in one.charged for pair in {**enforced, **shadow})

    def _void(self, pair):
        for one in self.taken.values():
            if pair is None or pair in one.charged:
                one.is_void = True

    def _forget_spent(self):
        """Redis has lost the marks of permits that were given back."""
        for one in self.taken.values():
            one.spent = False

    def _kill(self, i):
        """Permits of requests by rules end with their server. Others are valid for what is kept."""
        for one in self.taken.values():
            if one.by_rules or any(self.case.forgets(i, pair) for pair in one.charged):
                one.is_void = True

    def _reload(self, i):
        """A reload that begins a limit anew, or cuts its use, leaves permits without a meaning."""
        configs = self.case.history["configs"]
        old = configs[self.case.records[i - 1]["config"]]["limits"]
        new = configs[self.case.records[i]["config"]]["limits"]
        for name in old:
            one, other = old[name], new.get(name)
            is_kept = other and one["algorithm"] == other["algorithm"] and (
                "rate" not in one or algorithms.period_of(one) == algorithms.period_of(other))
            states = [(before, after) for pair, before, after in self.case.pairs(i) if pair[0] == name]
            is_cut = any(after["quota"] < before["quota"] for before, after in states)
            others = {**one, **(other or {})}
            is_other = any(one.get(n) != (other or {}).get(n) for n in others
                           if n not in ("rate", "keys", "burst", "capacity", "max", "slack", "max_wait"))
            if is_kept and "rate" in one and algorithms.count_of(other) < algorithms.count_of(one):
                for taken in self.taken.values():
                    taken.slowed.add(name)
            if not is_kept or is_cut or is_other:
                for taken in self.taken.values():
                    if any(pair[0] == name for pair in taken.charged):
                        taken.is_void = True

    def _end(self, i, record):
        op, answer = record["op"], record["answer"]
        taken = self.taken.get(op["of"])
        if not taken or answer["status"] == ESTORE:
            return
        is_report = op["do"] == "report"
        held = answer["status"] == 0 and (is_report or answer["allowed"])
        if taken.spent:
            is_again = not is_report or self._is_ended(i, taken, taken.charged)
            self._again(i, held and is_again, taken)
            return
        if self.case.is_exact and not taken.is_void:
            self._first(i, record, taken, is_report, held)
        elif self.case.is_exact:
            self._sane(i, record, taken)
            for pair in taken.charged:
                self._void(pair)  # it may have given back what others took
        if taken.is_void and not held:
            return  # its limit may have begun anew, and may come back
        if not is_report or self._is_ended(i, taken, taken.charged):
            taken.spent = held or self.case.is_even
        elif self._is_ended(i, taken, taken.shadow):
            del self.taken[op["of"]]  # nobody knows whether a shadow rule took anything

    def _is_ended(self, i, taken, pairs):
        """Whether a report ends the permit: if a limit that takes reports was charged, and is known as such there."""
        return any(self._is_reported(taken.i, pair) and self._is_reported(i, pair) for pair in pairs)

    def _is_reported(self, i, pair):
        if pair[0] not in self.case.limits(i):
            return False
        limit = self.case.limit(i, pair[0])
        return limit["algorithm"] in ("concurrency", "breaker", "throttle", "adaptive")

    def _again(self, i, held, taken):
        """A permit gives back once."""
        if held:
            self._say(i, "a permit was given back twice")
        if self.case.is_exact:
            for pair, before, after in self.case.pairs(i):
                if after["remaining"] > before["remaining"]:
                    self._say(i, f"{pair}: a permit that was given back gave {pair} more")

    def _sane(self, i, record, taken):
        for pair, before, after in self.case.pairs(i):
            more = after["remaining"] - before["remaining"]
            most = taken.charged.get(pair, 0) * record.get("cost", taken.cost)
            if pair in taken.charged and self._has_moved(i, taken, pair):
                most = 0
            algorithm = algorithms.of(self.case.limit(i, pair[0]))
            # The turns of a paced limit differ in length, and a report may open a breaker.
            if algorithm.paced or not algorithm.bound or pair in taken.shadow or before["status"]:
                continue
            if not 0 <= more <= most:
                self._say(i, f"{pair}: at most {most} to give back, {more} came")

    def _has_moved(self, i, taken, pair):
        """Whether a limit counts at another store than when the permit was given."""
        return self.case.limit(i, pair[0]).get("store") != self.case.limit(taken.i, pair[0]).get("store")

    def _first(self, i, record, taken, is_report, held):
        cost = taken.cost if is_report else record["cost"]
        now = self.case.records[i]["answer"]["now"]
        instant = now == taken.now
        for pair, before, after in self.case.pairs(i):
            name = pair[0]
            limit = self.case.limit(i, name)
            algorithm = algorithms.of(limit)
            more = after["remaining"] - before["remaining"]
            wanted = taken.charged.get(pair, 0) * cost
            if is_report and algorithm.bound != "places":
                wanted = 0
            if before["status"] or after["status"] or pair in taken.shadow:
                continue
            if self._is_whole(limit, pair, taken, instant, now):
                if abs(more - wanted) > rounding(limit):
                    self._say(i, f"{pair}: {wanted} to give back, {more} came")
                if wanted and not held:
                    self._say(i, f"{pair}: a permit that holds {wanted} is not held")
            elif algorithm.paced and limit["algorithm"] != "warm_up" and instant and wanted and not is_report and \
                    taken.counts == 0 and len(taken.charged) == 1 and held and more <= 0 and \
                    before["remaining"] < before["quota"] and cost == taken.cost:
                self._say(i, f"{pair}: the newest turn came back without effect: {more}")
            elif algorithm.bound and limit["algorithm"] != "warm_up" and not 0 <= more <= wanted + rounding(limit):
                self._say(i, f"{pair}: at most {wanted} to give back, {more} came")

    def _is_whole(self, limit, pair, taken, instant, now):
        """Whether the charge is all there still, so that exactly its cost comes back."""
        algorithm = algorithms.of(limit)
        if pair not in taken.charged:
            return algorithm.bound != ""
        if self.case.is_redis and algorithm.bound == "bucket" and limit.get("store") != "memory" and \
                pair[0] in taken.slowed:
            return False  # the permit's time is of the old rate, at which less is left of it
        if not algorithm.exact or algorithm.paced:
            return False
        if instant:
            return True
        if not taken.at_once:
            return False
        if algorithm.bound == "log":
            return now < taken.now + algorithms.period_of(limit)
        if algorithm.bound == "places":
            return now < taken.now + algorithms.duration(limit["lease"])
        if algorithm.bound == "window":
            reset = self.case.records[taken.i]["state"][pair]["reset"]
            return now < taken.now + reset
        return False
