"""embed.py DIRECTORY OUT: the scripts, put together of their parts, as C."""

import hashlib
import pathlib
import re
import sys

# Kinds that have scripts of their own, since most calls need no other: for one run alone, and for
# several; with what they use. All others share one.
ALONE = {
    "bucket": ["parts"],
    "bucket_chunk": ["times", "parts", "chunks", "bucket_back"],
    "bucket_refund": ["times", "parts", "refund", "bucket_back"],
    "day": ["times"],
    "log": ["times", "uses"],
    "places": ["times", "uses"],
    "slots": [],
    "slots_refund": ["times", "refund"],
    "window": [],
    "window_chunk": ["times", "chunks"],
    "window_refund": ["times", "refund"],
}
ALONE = {name: ["note", *uses, name] for name, uses in ALONE.items()}
COMMON = ["common"]
# Kinds that are not in the script for all others: each call of that makes the functions of all.
SELDOM = ["bucket_chunk", "window_chunk"]
# What scripts share without a function, since to make one costs each call as much as a command. In a script
# of one kind alone all values are there.
MACROS = {
    "VALUE(i)": "values[i] == nil and read(i) or values[i]",
    "EXPIRY(us)": "format('%d', now_ms + floor((us - now) / 1000) + 2)",
    "NOTE_PART(i)": "if granted ~= wanted then note(i, granted) end",
    "EVERY(list)": "list = {} for k = first, last do list[k - first + 1] = k end",
    "CARRY(us, ns)": "if ns >= 1000 then us, ns = us + 1, ns - 1000 end",
}
VALUE_ALONE = {"VALUE(i)": "values[i]"}
# Where a kind alone has what it uses, if most calls come past it: making a function costs.
HELPERS = "-- helpers"


def text(directory, name):
    """Without comments, blank lines and indentation, which Redis would keep."""
    lines = [line.strip() for line in (directory / f"{name}.lua").read_text().splitlines()]
    lines = [line if line == HELPERS else re.sub(r"\s*--.*$", "", line) for line in lines]
    return "".join(line + "\n" for line in lines if line)


def expand(source, macros):
    """Without macros; their arguments have no commas or brackets of their own."""
    for macro, body in macros.items():
        name, parameters = re.fullmatch(r"(\w+)\((.*)\)", macro).groups()

        def insert(use):
            given = dict(zip(parameters.split(", "), use[1].split(", "), strict=True))
            return re.sub(r"\w+", lambda word: given.get(word[0], word[0]), body)

        source = re.sub(rf"\b{name}\(([^()]*)\)", insert, source)
    return source


def alone(directory, parts):
    """The last part's function, with its two results in place of a call of it."""
    *helpers, kind = (text(directory, name) for name in parts)
    before, body = re.fullmatch(r"(.*)function kinds\.\w+\(a, first, last, dry\)\n(.*)end\n", kind,
                                re.S).groups()
    body = re.sub(r"^return a .*$", "return values", body, flags=re.M)
    helpers = "".join([*helpers, before])
    start = text(directory, "begin"), text(directory, "alone")
    macros = MACROS | VALUE_ALONE
    if HELPERS not in body:
        return expand(start[0] + helpers + start[1] + body, macros)
    first, rest = body.split(HELPERS + "\n")
    most, end = rest.rsplit("return values\n", 1)
    return expand("".join([*start, first, helpers, most, text(directory, "packed"), "return values\n", end]), macros)


def of_runs(directory, parts):
    """Helpers that several kinds have, once."""
    names = ["begin", "runs", *dict.fromkeys(parts), "end"]
    return expand("".join(text(directory, name) for name in names).replace(HELPERS + "\n", ""), MACROS)


def literal(source):
    lines = source.replace("\\", "\\\\").replace('"', '\\"').splitlines()
    return "\n".join(f'\t"{line}\\n"' for line in lines)


def call(source):
    return f'{{\n{literal(source)},\n\t"{hashlib.sha1(source.encode()).hexdigest()}"}}'


def array(name, sources):
    rows = [f"\t[SCRIPT_{key.upper()}] = {call(source)}," for key, source in sources.items()]
    return f"static const struct script_text {name}[] = {{\n" + "\n".join(rows) + "\n};\n"


def main(directory, out):
    directory = pathlib.Path(directory)
    every = dict.fromkeys(part for parts in ALONE.values() for part in parts)
    most = dict.fromkeys(part for name, parts in ALONE.items() if name not in SELDOM for part in parts)
    names = ", ".join(f"SCRIPT_{name.upper()}" for name in [*ALONE, "any", "every"])
    any_kind = {name: of_runs(directory, ["note", *COMMON, *parts])
                for name, parts in [("any", most), ("every", every)]}
    runs = {name: of_runs(directory, parts) for name, parts in ALONE.items()}
    pathlib.Path(out).write_text(
        f"/* Made by embed.py. */\nenum script {{ {names} }};\n\n"
        + array("scripts_alone", {name: alone(directory, parts) for name, parts in ALONE.items()})
        + array("scripts_of_runs", runs | any_kind)
        + "".join(f"static const struct script_text script_{name} = {call(text(directory, name))};\n"
                  for name in ["quorum", "recovery_check", "reports"]))


main(*sys.argv[1:])
