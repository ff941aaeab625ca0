"""Random rule files and requests in virtual time: the library against a model of what a file says."""

import ctypes
import ipaddress
import random
import re

import pytest
import weir

HOUR_NS = 3600 * 10**9
NOW_NS = 1_700_000_000 * 10**9
FILES = 150
REQUESTS = 80

VALUES = {
    "act": ["ask", "answer", "a-b", "", "1-5"],
    "uid": ["7", "-7", "42", "100", "9999999999999999999999", "x7", "7.5", ""],
    "ip": ["10.1.0.3", "10.2.0.3", "10.2.1.3", "192.0.2.9", "::ffff:10.1.0.3", "2001:db8::1", "name"],
}
DICTIONARIES = {"few.txt": ["7", "ask", "10.1.0.0/16"], "more.txt": ["42", "x7", "2001:db8::/32", "10.*.1.3"]}
FORMS = {
    "act": ["ask", "answer", r"\1-5", "1-5", "a-b", "*", "!*"],
    "uid": ["7", "42", ">5", "<50", "-9--6", "1-50", "100-200", "*", "!*"],
    "ip": ["10.0.0.0/8", "10.*.0.3", "10.1.0.1-10.2.0.3", "192.0.2.9", "2001:db8::/32", "*"],
}


def address(text):
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def is_among(form, value):
    """Whether an address is one of those that a form stands for; None: the form is none of theirs."""
    ip = address(value)
    if "/" in form:
        network = ipaddress.ip_network(form)
        return ip is not None and ip.version == network.version and ip in network
    if form.count(".") == 3 and "*" in form:
        pattern = re.compile(form.replace(".", r"\.").replace("*", r"\d+"))
        return ip is not None and pattern.fullmatch(str(ip)) is not None
    first, _, last = form.partition("-")
    if address(first) and address(last):
        return ip is not None and ip.version == address(first).version and address(first) <= ip <= address(last)
    return None


def holds(form, value, is_ip):
    """What one form says of a value that is there, "" as well."""
    if form in ("*", "!*"):
        return (value != "") == (form == "*")
    if form.startswith("\\"):
        return value == form[1:]
    among = is_among(form, value)
    if among is not None:
        return among
    if is_ip:
        return address(value) is not None and address(value) == address(form)
    bounds = re.fullmatch(r"(-?\d+)-(-?\d+)", form)
    number = int(value) if re.fullmatch(r"-?\d+", value) else None
    if bounds:
        return number is not None and int(bounds[1]) <= number <= int(bounds[2])
    if form[0] in "<>":
        bound = int(form[1:])
        return number is not None and (number > bound if form[0] == ">" else number < bound)
    return value == form


def is_listed(name, value):
    return any(address(value) is not None and bool(is_among(line, value))
               or value == line for line in DICTIONARIES[name])


class Condition:
    """Of one attribute: (forms or names of dictionaries, negated, whether they are dictionaries)."""

    def __init__(self, chance, attribute):
        self.attribute = attribute
        self.negated = chance.random() < 0.3
        self.listed = chance.random() < 0.25
        source = list(DICTIONARIES) if self.listed else FORMS[attribute]
        if self.negated and not self.listed:
            source = [form for form in source if form != "!*"]
        self.of = chance.sample(source, chance.randint(1, 2))

    def yaml(self):
        of = "[" + ", ".join(f"'{item}'" for item in self.of) + "]"
        if self.listed:
            return f"{{ {'not_in' if self.negated else 'in'}: {of} }}"
        return f"{{ not: {of} }}" if self.negated else of

    def applies(self, request):
        value = request.get(self.attribute)
        if value is None:
            return not self.negated and not self.listed and "!*" in self.of
        if value == "" and self.negated:
            return False
        any_holds = any(is_listed(item, value) if self.listed
                        else holds(item, value, self.attribute == "ip") for item in self.of)
        return any_holds != self.negated


class Rule:
    def __init__(self, chance, number, first):
        self.name = f"r{number}"
        attributes = chance.choices(list(VALUES), k=chance.randint(0, 3))
        self.conditions = [Condition(chance, attribute) for attribute in attributes]
        self.shadow = chance.random() < 0.15
        self.limits = chance.sample(range(3), chance.randint(1, 2)) if chance.random() < 0.75 else []
        self.answer = None if self.limits else chance.choice(["allow", "deny"])
        if self.limits and first and chance.random() < 0.3:
            self.answer = "allow"
        self.key = chance.choice([[], ["uid"], ["act", "uid"]]) if self.limits else []

    def yaml(self):
        by_attribute = {}
        for condition in self.conditions:
            by_attribute.setdefault(condition.attribute, []).append(condition.yaml())
        parts = [f"name: {self.name}"]
        if by_attribute:
            parts.append("match: { " + ", ".join(
                f"{attribute}: {{ all: [{', '.join(forms)}] }}" if len(forms) > 1 else f"{attribute}: {forms[0]}"
                for attribute, forms in by_attribute.items()) + " }")
        if self.limits:
            parts.append("limits: [" + ", ".join(f"l{limit}" for limit in self.limits) + "]")
        if self.key:
            parts.append(f"key: [{', '.join(self.key)}]")
        if self.answer:
            parts.append(f"answer: {self.answer}")
        if self.shadow:
            parts.append("mode: shadow")
        return "  - { " + ", ".join(parts) + " }\n"

    def charges(self, request):
        """(limit, key): no attribute makes the same key as an empty one."""
        values = [request.get(name) or "" for name in self.key]
        key = tuple(values) if len(values) > 1 else "".join(values)
        return [(limit, key) for limit in self.limits]

    def applies(self, request):
        return all(condition.applies(request) for condition in self.conditions)


class Model:
    """A file of rules whose limits are counts in an hour that never ends."""

    def __init__(self, chance):
        self.first = chance.random() < 0.7
        self.quotas = [chance.randint(1, 6) for _ in range(3)]
        self.rules = [Rule(chance, number, self.first) for number in range(chance.randint(1, 8))]
        self.counts = {}

    def yaml(self):
        limits = "".join(f"  l{i}: {{ algorithm: fixed_window, rate: {quota}/h, align: first_request }}\n"
                         for i, quota in enumerate(self.quotas))
        return (f"order: {'first' if self.first else 'all'}\nlimits:\n{limits}rules:\n"
                + "".join(rule.yaml() for rule in self.rules))

    def left(self, charge):
        return self.quotas[charge[0]] - self.counts.get(charge, 0)

    def charge(self, charges):
        for charge in charges:
            self.counts[charge] = self.counts.get(charge, 0) + 1

    def decide(self, request):
        """(allowed, reason, rule). The reason of an error, where rules charge one count more often than it grants, is None."""
        found = [rule for rule in self.rules if rule.applies(request)]
        listed = next((rule for rule in found if not rule.limits and not rule.shadow), None)
        if listed and not self.first:
            return listed.answer == "allow", "listed", listed.name
        if listed:
            found = found[:found.index(listed)]
        enforced = [(rule, charge) for rule in found if not rule.shadow for charge in rule.charges(request)]
        refusing = self.runs_out(enforced)
        impossible = next((rule for n, (rule, charge) in enumerate(enforced)
                           if [earlier for _, earlier in enforced[:n + 1]].count(charge) > self.quotas[charge[0]]), None)
        if impossible and (refusing is impossible or not self.first):
            return False, None, None
        if not refusing and not listed:
            self.charge([charge for _, charge in enforced])
        if self.first and refusing:
            found = found[:found.index(refusing)]
        for rule in found:
            for charge in rule.charges(request) if rule.shadow else []:
                self.charge([charge] if self.left(charge) >= 1 else [])
        if refusing and not refusing.answer:
            return False, "over_limit", refusing.name
        if refusing or listed:
            return (refusing or listed).answer == "allow", "listed", (refusing or listed).name
        return True, "ok", None

    def runs_out(self, enforced):
        """The first rule that finds no unit left beside those that rules before it charge."""
        taken = {}
        for rule, charge in enforced:
            taken[charge] = taken.get(charge, 0) + 1
            if taken[charge] > self.left(charge):
                return rule
        return None


class Attribute(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("value_len", ctypes.c_size_t)]


class Library:
    def __init__(self, text, directory):
        self.rules = ctypes.CDLL(str(weir.BUILD / "src" / "libweir_rules.so"))
        self.config, self.engine, self.table = ctypes.c_void_p(), ctypes.c_void_p(), weir.Table()
        error, data = weir.Error(), text.encode()
        status = self.rules.weir_config_read_yaml(
            data, ctypes.c_size_t(len(data)), str(directory).encode(), ctypes.byref(self.config),
            ctypes.byref(error))
        assert status == weir.OK, f"{error.line}:{error.column}: {error.message}\n{text}"
        assert weir.lib.weir_engine_open(self.config, self.table.handle, ctypes.byref(self.engine), None) == 0

    def close(self):
        weir.lib.weir_engine_close(self.engine)
        weir.lib.weir_config_close(self.config)

    def decide(self, request):
        items = (Attribute * max(1, len(request)))(*[
            Attribute(name.encode(), value.encode(), len(value)) for name, value in request.items()])
        decision = weir.RawDecision()
        status = weir.lib.weir_engine_acquire(
            self.engine, items, ctypes.c_size_t(len(request)), weir.U64(1), weir.U64(NOW_NS),
            ctypes.byref(decision))
        if status == weir.ECOST:
            return False, None, None
        assert status == weir.OK
        reason = weir.lib.weir_reason_text(decision.reason).decode()
        return decision.allowed, reason, decision.rule and decision.rule.decode()


@pytest.mark.parametrize("seed", range(FILES))
def test_random_files_decide_as_the_model(seed, tmp_path):
    chance = random.Random(seed)
    for name, lines in DICTIONARIES.items():
        (tmp_path / name).write_text("\n".join(lines))
    model = Model(chance)
    library = Library(model.yaml(), tmp_path)
    for _ in range(REQUESTS):
        request = {name: chance.choice(values) for name, values in VALUES.items() if chance.random() < 0.8}
        allowed, reason, rule = model.decide(request)
        found = library.decide(request)
        if reason == "ok":  # which limit is the tightest is not the model's to say
            assert (found[0], found[1] in ("ok", "hit_quota")) == (True, True), (request, found, model.yaml())
        else:
            assert found == (allowed, reason, rule), (request, model.yaml())
    library.close()
