#!/usr/bin/env python3
"""Prints what a program that was compiled today relies on: weir.abi beside this file.

    python3 tests/abi/record.py build > tests/abi/weir.abi

Read the difference before committing it: docs/design/abi.md says what it means.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARIES = {"weir": ["weir/weir.h", "weir/limiter.h", "weir/engine.h", "weir/pool.h"],
             "weir_rules": ["weir/rules.h"], "weir_redis": ["weir/redis.h"]}
HEADERS = [header for headers in LIBRARIES.values() for header in headers]
PRIVATE = "WEIR_PRIVATE_"


def output(*command, text=None):
    return subprocess.run([str(word) for word in command], input=text, check=True,
                          capture_output=True, text=True).stdout


def includes(headers):
    return "".join(f"#include <{header}>\n" for header in headers)


def preprocess(headers, *flags):
    return output("cc", "-E", "-P", *flags, "-I", ROOT / "include", "-x", "c", "-",
                  text=includes(headers))


def functions(headers):
    """{name: prototype} of what `headers` and those that they include declare."""
    text = " ".join(preprocess(headers).split())
    found = re.findall(r'__attribute__\(\(visibility\("default"\)\)\) ([^;{]*?(\w+)\([^;{]*\));', text)
    return {name: prototype for prototype, name in found}


def declared(library):
    """{name: prototype} of `library`'s own headers."""
    others = functions(LIBRARIES["weir"]) if library != "weir" else {}
    return {name: prototype for name, prototype in functions(LIBRARIES[library]).items()
            if name not in others}


def exported(build, library):
    """{name: version node} in the dynamic symbols of `library`."""
    lines = output("readelf", "--dyn-syms", "-W", build / "src" / f"lib{library}.so").splitlines()
    rows = [line.split() for line in lines if re.match(r" *\d+:", line)]
    return {name: node for row in rows if len(row) > 7 and row[4] != "LOCAL" and row[6] != "UND"
            for name, _, node in [row[7].partition("@@")] if node}


def dynamic(build, library, tag):
    lines = output("readelf", "-dW", build / "src" / f"lib{library}.so")
    return re.findall(rf"\({tag}\).*\[(.*)\]", lines)


def structs(text):
    """{struct: {field: type}}"""
    found = {}
    for name, body in re.findall(r"\bstruct (weir_\w+) \{(.*?)\}", text, re.S):
        found[name] = {}
        for field in filter(None, map(str.strip, body.split(";"))):
            kind, field, count = re.fullmatch(r"([^,()]*?)(\w+)((?:\[\w+\])*)", field).groups()
            found[name][field] = " ".join(kind.split()) + count
    return found


def enums(text):
    """{enum: [constant]}"""
    return {name: re.findall(r"\b(WEIR_\w+)", body)
            for name, body in re.findall(r"\benum (weir_\w+) \{(.*?)\}", text, re.S)}


def macros(headers):
    """Limits and other values; not the release's own number."""
    found = re.findall(r"^#define (WEIR_\w+) (.+)$", preprocess(headers, "-dM"), re.M)
    return sorted((name, value) for name, value in found
                  if not name.startswith(("WEIR_API", "WEIR_VERSION_")))


def layout():
    """Sizes, offsets and values, by the compiler's word."""
    text = preprocess(HEADERS)
    rows = []
    for struct, fields in sorted(structs(text).items()):
        rows.append((f"struct {struct}: %zu bytes", f"sizeof(struct {struct})"))
        for field, kind in fields.items():
            member = f"((struct {struct} *)0)->{field}"
            rows.append((f"  %3zu %3zu {field}: {kind}",
                         f"offsetof(struct {struct}, {field}), sizeof {member}"))
    for enum, names in sorted(enums(text).items()):
        rows.append((f"enum {enum}: %zu bytes", f"sizeof(enum {enum})"))
        rows += [(f"  %3d {name}", name) for name in names]
    prints = "\n".join(f'\tprintf("{form}\\n", {values});' for form, values in rows)
    with tempfile.TemporaryDirectory() as directory:
        probe = pathlib.Path(directory, "probe")
        output("cc", "-I", ROOT / "include", "-x", "c", "-", "-o", probe, text=(
            f"#include <stdio.h>\n{includes(HEADERS)}\nint main(void)\n{{\n{prints}\n}}\n"))
        lines = output(probe)
    return lines + "".join(f"macro {name}: {value}\n" for name, value in macros(HEADERS))


def record(build):
    text = ""
    for library in LIBRARIES:
        text += f"library {dynamic(build, library, 'SONAME')[0]}\n"
        prototypes = declared(library)
        for name, node in sorted(exported(build, library).items()):
            if not node.startswith(PRIVATE):
                text += f"  {node} {prototypes.get(name, name)}\n"
    return text + layout()


if __name__ == "__main__":
    sys.stdout.write(record(pathlib.Path(sys.argv[1])))
