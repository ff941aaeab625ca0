"""An algorithm is described in one place: nothing else in src/ names it."""

import re

from harness import ROOT, little_of_ours

pytestmark = little_of_ours

ALGO = ROOT / "src/algo"
# These names are plain English words, so only their constants are searched for.
PLAIN = {"base", "random", "throttle"}
# This file translates Koala's names of algorithms.
TRANSLATES = ROOT / "src/readers/koala/koala_method.c"


def algorithms():
    listed = re.search(r"^algorithms = \[(.*?)^\]", (ALGO / "meson.build").read_text(), re.S | re.M)
    return re.findall(r"'(\w+)'", listed[1])


def without_comments(text):
    return re.sub(r"/\*.*?\*/", lambda match: "\n" * match[0].count("\n"), text, flags=re.S)


def without_texts(text):
    """Without examples of commands and headings, which people read."""
    return re.sub(r'"weir [^"]*"|<h2[^>]*>.*?</h2>', "", text)


def test_no_file_outside_its_folder_names_an_algorithm():
    names = algorithms()
    words = [f"WEIR_ALGORITHM_{name.upper()}" for name in names] + [n for n in names if n not in PLAIN]
    # Examples of commands, headings, paths of calls, and members of structs, may have the name of an algorithm. Comments may, too: "a breaker".
    pattern = re.compile(rf"(?<!/v1/)(?<!\.)(?<!->)\b({'|'.join(words)}|algorithm[ _]({'|'.join(PLAIN)}))\b", re.I)
    files = [path for path in sorted((ROOT / "src").rglob("*"))
             if path.suffix in {".c", ".h", ".html"} and ALGO not in path.parents and path != TRANSLATES]
    found = [f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for path in files
             for number, line in enumerate(without_texts(without_comments(path.read_text())).splitlines(), 1)
             if pattern.search(line)]
    assert len(names) > 10 and len(files) > 100
    assert not found, "\n".join(found)
