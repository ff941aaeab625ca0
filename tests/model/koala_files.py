"""Random rule files of Koala's language, and random requests to them."""

import ipaddress

import koala

WORDS = ["ask", "add-comment", "a*b", "vote", "5", "17", "017", "-3", "99999999999999999999", "x y", "ä|ö"]
ADDRESSES = ["10.0.24.7", "10.5.0.3", "10.5.77.3", "192.168.0.1", "192.168.0.255", "192.168.1.0",
             "010.005.077.003", "168119555", "3232235521", "4294967296", "+168119555", "256.0.0.1"]
PARAMETERS = {"act": WORDS, "uid": WORDS, "ip": ADDRESSES, "host": [*ADDRESSES, "ask"]}
LITERALS = ["ask", "add-comment", "a*b", "vote", "5", "1-5,7", "ask,vote", "1-20,ask", "+"]
NETS = ["10.0.24.*", "10.*.0.*", "192.168.0.1-192.168.0.255", "10.0.0.0/8", "10.5.77.3,10.0.24.7",
        "010.000.024.*", "192.168.000.001-192.168.000.255", "168119000-3232235521"]
DICTS = {"words": ["ask", "17", "x y"], "hosts": ["10.5.0.3", "192.168.0.0/16"]}
RESULT = ('{{ "Ret_type":{0}, "Ret_code":0, "Err_no":{1}, "Err_msg":"", "Str_reason":"{2}", '
          '"Need_vcode":0, "Vcode_len":{0}, "Vcode_type":0, "Other":"", "Version":0 }}')


class Words(set):
    """A dictionary of Koala's: words as they are, and addresses and networks, but no numbers of these."""

    def __contains__(self, value):
        return any(koala.covers(word, value) for word in self) if is_address(value) else set.__contains__(self, value)


def is_address(text):
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def random_condition(draw):
    name = draw.choice(list(PARAMETERS))
    kind = draw.choice(["=", "=", "=", "!=", "<", ">", "@", "!@", "{~}"])
    if kind in ("@", "!@"):
        return f"{name} {kind} {'hosts' if PARAMETERS[name] is ADDRESSES else 'words'}"
    if kind in ("<", ">"):
        return f"{name}{kind}{draw.choice([-5, 0, 5, 16, 168119554, 10**9])}"
    values = draw.choice(NETS if name in ("ip", "host") else LITERALS)
    if kind == "!=":
        return f"{name}!={'ask' if values == '+' else values}"
    return f"{name}={values}{'{~}' if kind == '{~}' else ''}"


def random_rule(draw, no, times):
    method = draw.choices(["direct", "count", "base", "leak"], [1, 3, 2, 3])[0]
    conditions = "; ".join(random_condition(draw) for _ in range(draw.randint(1, 3)))
    numbers = {
        "direct": "time=1; count=0;",
        "count": f"time={draw.choice(times + [86400])}; count={draw.randint(1, 4)};",
        "base": f"base={draw.randint(1, 4)}; time={draw.choice(times)}; count={draw.randint(1, 3)};",
        "leak": f"time={draw.choice(times)}; count={draw.randint(1, 6)}; erase1={draw.randint(1, 2)}; "
                f"erase2={draw.randint(2, 4)}",
    }[method]
    result = draw.choice([1, 2, 3] if method == "direct" else [1, 2, 2, 3, 3])
    return f"rule : [{method}] [{conditions}] [{numbers}] [result={result}; return={no}]"


def random_file(draw, times):
    """Its windows last one of `times` seconds, or a day."""
    rules = [random_rule(draw, no, times) for no in range(101, 101 + draw.randint(3, 10))]
    return "\n".join([
        "# A comment", "[dicts]", *(f"{name} : {name}.dat" for name in DICTS),
        "[rules]", *rules, "[result]",
        *(f"{i} : " + RESULT.format(i, 0 if i < 2 else 10 * (i - 1), "Allow" if i < 2 else "Deny")
          for i in range(4))]) + "\n"


def random_parameters(draw, blanks=False):
    """With `blanks` some values have blanks round them, as callers of Koala's routes may send."""
    def value(values):
        text = draw.choice([*values, ""])
        if blanks and draw.random() < 0.2:
            text = draw.choice(" \t\r\v") + text + draw.choice(["", " ", "\t\v\r "])
        return text

    return {name: value(values) for name, values in PARAMETERS.items() if draw.random() < 0.75}


def as_model(text, zone="Asia/Shanghai"):
    return koala.Koala(text, {name: Words(words) for name, words in DICTS.items()}, zone)


def write_dicts(directory):
    for name, words in DICTS.items():
        (directory / f"{name}.dat").write_text("\n".join(words) + "\n\n")
