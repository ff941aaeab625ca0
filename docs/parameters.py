#!/usr/bin/env python3
"""Writes the table of algorithms and parameters in docs/rules.md, from their descriptions in C.

    docs/parameters.py [FILE]

It stands between two lines of comment. Needs a build: build/, or WEIR_BUILD.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
BEGIN = "<!-- parameters: docs/parameters.py writes this table -->\n"
END = "<!-- end of parameters -->\n"
WORDS_MAX = 3  # of a parameter in the table; more are told elsewhere


def algorithms():
    return json.loads(subprocess.run([BUILD / "tests" / "model" / "describe"], check=True,
                                     capture_output=True, text=True).stdout)


def number(value):
    exponent = (value + 1).bit_length() - 1
    if exponent < 32:
        return str(value)
    return {0: f"2^{exponent}", -1: f"2^{exponent} - 1"}.get(value - 2**exponent, str(value))


def default(parameter):
    value = parameter["default"]
    if parameter["required"]:
        return " (required)"
    if value is None:
        return ""
    if value == "rate":
        return " (the rate's count)"
    if str(value).startswith("as "):
        return f" ({value})"
    return f" (`{value}`)"


def values(parameter):
    if parameter["type"] == "percent":
        return f", {parameter['min']}% to {parameter['max']}%"
    if parameter["type"] in ("number", "decimal"):
        return f", {parameter['min']} to {number(parameter['max'])}"
    if 0 < len(parameter["words"]) <= WORDS_MAX:
        return ": " + " or ".join(f"`{word}`" for word in parameter["words"])
    return ""


def cell(parameter):
    if parameter["type"] == "calendar rate":
        return "`rate`, also per `month` and `year`"
    if parameter["type"] == "rate":
        most = "" if parameter["max"] == 2**32 else f", its count {parameter['max']} at most"
        return "`rate`" + most
    belongs = f", with {parameter['with']}" if parameter["with"] else ""
    rival = f", not with `{parameter['rival']}`" if parameter["rival"] else ""
    return f"`{parameter['name']}`{default(parameter)}{values(parameter)}{belongs}{rival}"


def table():
    rows = ["| algorithm | parameters (default) |", "|---|---|"]
    for algorithm in algorithms():
        rows.append(f"| `{algorithm['name']}` | {'; '.join(map(cell, algorithm['parameters']))} |")
    return "\n".join(rows) + "\n"


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "rules.md"
    before, rest = path.read_text().split(BEGIN)
    path.write_text(before + BEGIN + table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
