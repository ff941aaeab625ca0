"""Prints the figures of the source's shape: `python3 tests/house/figures.py`."""

import collections
import re
import statistics

import test_house as house

LARGE_FOLDER = 25


def long_functions():
    """The lines of each function's body."""
    for path in house.FILES:
        text = house.code(path.read_text())
        for match in house.DEFINITION.finditer(text):
            end = text.find("\n}", match.end())
            if path.suffix == ".c" and end > 0:
                yield text.count("\n", match.end(), end)


def circles():
    """The groups of files that call each other."""
    edges = house.calls({house.where(path): path.read_text() for path in house.FILES if path.suffix == ".c"},
                        [path.read_text() for path in house.FILES if path.suffix == ".h"])
    reach = {name: house.reached(edges, name) for name in edges}
    return {frozenset(other for other in reach[name] if name in reach[other]) for name in edges if name in reach[name]}


def figures():
    headers = sorted((house.ROOT / "include").rglob("*.h"))
    lines = sum(len(path.read_text().splitlines()) for path in [*house.FILES, *headers])
    folders = collections.Counter(path.parent for path in house.FILES)
    stems = collections.Counter(path.stem for path in house.FILES if path.suffix == ".c")
    lengths = list(long_functions())
    yield "lines of C in src and include", lines
    yield "functions", len(lengths)
    yield "lines of a function, median and most", f"{statistics.median(lengths):.0f}, {max(lengths)}"
    yield f"folders with more than {LARGE_FOLDER} files", " ".join(
        f"{path.relative_to(house.SRC)} ({count})" for path, count in sorted(folders.items()) if count > LARGE_FOLDER) or 0
    twice = sorted(stem for stem, count in stems.items() if count > 1)
    yield "file stems that stand twice", f"{len(twice)}: {' '.join(twice)}"
    yield "circles of calls between files", len(circles())
    yield f"functions with more than {house.PARAMETERS_MAX} parameters", sum(
        count > house.PARAMETERS_MAX for path in [*house.FILES, *headers]
        for _, count, _ in house.functions(path.read_text()))
    for path in headers:
        names = re.findall(r"\b(weir_\w+)\((?!\*)", house.code(path.read_text()))
        yield f"functions of {path.name}", len(set(names))


if __name__ == "__main__":
    for name, value in figures():
        print(f"{name}: {value}")
