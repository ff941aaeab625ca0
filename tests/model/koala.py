"""Koala's language and endpoints, from their description alone: files, decisions and JSON bodies.

It shares no code with Weir. Times are whole nanoseconds and are given with each call.
"""

import dataclasses
import datetime
import ipaddress
import json
import re
import zoneinfo

SECOND = 10**9
DAY_S = 86400
OK = {"err_no": 0, "err_msg": "OK"}


@dataclasses.dataclass
class Condition:
    name: str
    operator: str  # = != < > @ !@
    values: list
    combined: bool = False

    def holds(self, value, dicts):
        if self.operator in ("@", "!@"):
            return (value in dicts[self.values[0]]) == (self.operator == "@")
        if self.operator in ("<", ">"):
            number, bound = number_of(value), int(self.values[0])
            if number is None:
                return False
            return number > bound if self.operator == ">" else number < bound
        found = any(covers(pattern, value) for pattern in self.values)
        return found == (self.operator == "=")


def number_of(text):
    """In ranges a value is a number: an address is the one that ip2long makes of it."""
    if re.fullmatch(r"\d+(\.\d+){3}", text):
        parts = [int(part) for part in text.split(".")]
        return int.from_bytes(bytes(parts), "big") if max(parts) < 256 else None
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else None


def address(text):
    number = number_of(text)
    if number is not None:
        whole = re.fullmatch(r"\d+|[\d.]+", text)
        return ipaddress.IPv4Address(number) if whole and number < 2**32 else None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def without_zeros(text):
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)


def covers(pattern, value):
    """Whether a value of a condition stands for the one of a request."""
    if pattern == "+":
        return True
    if found := re.fullmatch(r"(\d+)-(\d+)", pattern):
        number = number_of(value)
        return number is not None and int(found[1]) <= number <= int(found[2])
    low, dash, high = pattern.partition("-")
    here = address(value)
    if dash and address(low) and address(high):
        return (here is not None and here.version == address(low).version
                and address(low) <= here <= address(high))
    if re.fullmatch(r"[\d*]+(\.[\d*]+){3}", pattern) and "*" in pattern:
        return here is not None and here.version == 4 and all(
            part in ("*", own)
            for part, own in zip(without_zeros(pattern).split("."), str(here).split(".")))
    if "/" in pattern and address(pattern.split("/")[0]):
        network = ipaddress.ip_network(pattern, strict=False)
        return here is not None and here.version == network.version and here in network
    return value == pattern


@dataclasses.dataclass
class Rule:
    method: str
    conditions: list
    numbers: dict
    result: int
    no: int

    def applies(self, parameters, dicts):
        return all(parameters.get(c.name) and c.holds(parameters[c.name], dicts)
                   for c in self.conditions)

    def key(self, parameters):
        names = {c.name for c in self.conditions} - {c.name for c in self.conditions if c.combined}
        return (self.no, tuple(parameters[name] for name in sorted(names)))


class Count:
    """The units that one key of one rule has used."""

    def __init__(self, rule, zone):
        self.rule, self.zone = rule, zone
        self.day = self.today = None
        self.until, self.used = 0, 0
        self.moments = []

    def _day(self, now):
        return datetime.datetime.fromtimestamp(now // SECOND, self.zone).date()

    def _look(self, now):
        """Forgets what is over."""
        numbers = self.rule.numbers
        if self.day != self._day(now):
            self.day, self.today = self._day(now), 0
            if self.rule.method == "base" or numbers.get("time") == DAY_S:
                self.used = 0
        by_day = self.rule.method == "count" and numbers["time"] == DAY_S
        if not by_day and now >= self.until:
            self.used = 0
        if self.rule.method == "leak":
            self.moments = [at for at in self.moments if now - at < numbers["time"] * SECOND]

    def exceeded(self, now):
        self._look(now)
        numbers = self.rule.numbers
        if self.rule.method == "leak":
            return len(self.moments) >= numbers["count"]
        full = self.used >= numbers["count"]
        return full and (self.rule.method == "count" or self.today >= numbers["base"])

    def add(self, now):
        full = self.exceeded(now)
        if self.rule.method == "leak":
            self.moments = self.moments[full:] + [now]
            return
        if full:
            return
        self.today += 1
        if self.rule.method == "base" and self.today < self.rule.numbers["base"]:
            return
        if self.used == 0:
            self.until = now + self.rule.numbers["time"] * SECOND
        self.used += 1

    def take_back(self, kind, now):
        self._look(now)
        n = self.rule.numbers.get(kind, 0)
        if self.rule.method == "leak" and n > 0:
            self.moments = self.moments[:-n]

    def value(self, now):
        self._look(now)
        if self.rule.method == "leak":
            return len(self.moments)
        return self.today if self.rule.method == "base" else self.used


def trimmed(parameters):
    """Blanks round a value have no meaning."""
    return {name: value.strip(" \t\r\v") for name, value in parameters.items()}


class Koala:
    def __init__(self, text, dicts, timezone="Asia/Shanghai"):
        self.dicts = dicts  # name: set of words
        self.zone = zoneinfo.ZoneInfo(timezone)
        self.rules, self.results = [], {}
        self.counts = {}
        self._read(text)

    def _read(self, text):
        section = None
        for line in text.splitlines():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line in ("[dicts]", "[rules]", "[result]"):
                section = line
            elif section == "[rules]":
                self.rules.append(read_rule(line.split(":", 1)[1]))
            elif section == "[result]":
                number, result = line.split(":", 1)
                self.results[int(number)] = json.loads(result)

    def _count(self, rule, parameters):
        key = rule.key(parameters)
        if key not in self.counts:
            self.counts[key] = Count(rule, self.zone)
        return self.counts[key]

    def _matched(self, parameters):
        return [rule for rule in self.rules if rule.applies(parameters, self.dicts)]

    def _exceeded(self, rule, parameters, now):
        return rule.method == "direct" or self._count(rule, parameters).exceeded(now)

    def _result(self, rule):
        return {name: rule.no if name == "Ret_code" else value
                for name, value in self.results[rule.result].items()}

    def _otherwise(self, matched):
        return self.results[1 if matched else 0]

    def decide(self, parameters, now, write=False):
        """The rule that decides, or None, and the result."""
        parameters = trimmed(parameters)
        matched = self._matched(parameters)
        for rule in matched:
            if self._exceeded(rule, parameters, now):
                return rule, self._result(rule)
        if write:
            self.update(parameters, now)
        return None, self._otherwise(matched)

    def browse(self, parameters, now, write=False):
        return self.decide(parameters, now, write)[1]

    def update(self, parameters, now):
        parameters = trimmed(parameters)
        for rule in self._matched(parameters):
            if rule.method != "direct":
                self._count(rule, parameters).add(now)
        return OK

    def complete(self, parameters, now, write=False):
        parameters = trimmed(parameters)
        matched = self._matched(parameters)
        found = [self._result(rule) for rule in matched
                 if self._exceeded(rule, parameters, now)]
        if write and not found:
            self.update(parameters, now)
        return found or [self._otherwise(matched)]

    def feedback(self, parameters, now, kind="erase1"):
        parameters = trimmed(parameters)
        for rule in self._matched(parameters):
            if rule.method != "direct":
                self._count(rule, parameters).take_back(kind, now)
        return OK

    def value(self, no, parameters, now):
        parameters = trimmed(parameters)
        rule = next(rule for rule in self.rules if rule.no == no)
        used = 0
        if rule.method != "direct" and rule.applies(parameters, self.dicts):
            used = self._count(rule, parameters).value(now)
        return {"err_no": 0, "err_msg": "", "cache_val": used}


def split_fields(text):
    return [field.strip() for field in text.split(";") if field.strip()]


def read_numbers(text):
    return {name.strip(): int(number) for name, number in
            (field.split("=") for field in split_fields(text))}


def read_condition(text):
    name, operator, rest = re.fullmatch(r"([^=!<>@]+?)\s*(!=|!@|=|<|>|@)\s*(.*)", text).groups()
    combined = rest.endswith("{~}")
    values = [value.strip() for value in rest.removesuffix("{~}").split(",")]
    return Condition(name.strip(), operator, values, combined)


def read_rule(text):
    method, conditions, numbers, answer = re.findall(r"\[(.*?)\]", text)
    answer = read_numbers(answer)
    return Rule(method.strip(), [read_condition(field) for field in split_fields(conditions)],
                read_numbers(numbers), answer["result"], answer["return"])
