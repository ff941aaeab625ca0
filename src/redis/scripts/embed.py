"""embed.py DIRECTORY OUT: the scripts, put together of their parts, as C."""

import hashlib
import pathlib
import re
import sys

# Kinds that have a script of their own, since most calls need no other, with what it is made of; all
# others share one.
ALONE = {"bucket": ["bucket"], "log": ["uses", "log"], "places": ["uses", "places"],
         "slots": ["slots"], "window": ["window"]}
COMMON = ["common"]


def text(directory, name):
    """Without comments, blank lines and indentation, which Redis would keep."""
    lines = (directory / f"{name}.lua").read_text().splitlines()
    lines = [re.sub(r"\s*--.*$", "", line).strip() for line in lines]
    return "".join(line + "\n" for line in lines if line)


def script(directory, own, parts):
    return (text(directory, "begin") + "".join(text(directory, name) for name in parts)
            + f"local own = kinds.{own}\n" + text(directory, "end"))


def literal(source):
    lines = source.replace("\\", "\\\\").replace('"', '\\"').splitlines()
    return "\n".join(f'\t"{line}\\n"' for line in lines)


def main(directory, out):
    directory = pathlib.Path(directory)
    every = dict.fromkeys(part for parts in ALONE.values() for part in parts)
    scripts = ALONE | {"any": [*COMMON, *every]}
    rows = []
    for name, parts in scripts.items():
        source = script(directory, name, parts)
        sha = hashlib.sha1(source.encode()).hexdigest()
        rows.append(f'\t[SCRIPT_{name.upper()}] = {{\n{literal(source)},\n\t"{sha}"}},')
    names = ", ".join(f"SCRIPT_{name.upper()}" for name in scripts)
    pathlib.Path(out).write_text(
        f"/* Made by embed.py. */\nenum script {{ {names} }};\n\n"
        "static const struct step_call scripts[] = {\n" + "\n".join(rows) + "\n};\n")


main(*sys.argv[1:])
