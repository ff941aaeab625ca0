#!/usr/bin/env python3
"""Draws the pictures of docs/guide.md: one for each limit of `weir simulate --pattern edge-burst`.

    docs/pictures/make.py [FOLDER]

All have the same axes. Above, what was asked in each second, and what passed; below, both over the
last minute, and the limit. The same build writes the same bytes.
"""

import html
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEIR = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve() / "weir"

WIDTH, LEFT, RIGHT = 680, 76, 14
PANELS = [(44, 70), (138, 100)]  # top and height: in a second, and in the last minute
HEIGHT = 272
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #57606a }
.title { font-weight: 600; fill: #24292f }
.grid { stroke: #8c959f; stroke-opacity: .3; fill: none }
.asked { fill: #8c959f; fill-opacity: .4 }
.passed { fill: #3a9e63 }
.limit { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 5 3; fill: none }
text.limit { stroke: none; fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1 }
.title { fill: #e6edf3 }
.passed { fill: #3fb950 }
.limit { stroke: #ff7b72 }
text.limit { fill: #ff7b72 }
}"""


def padded(values, n):
    return values + [0] * (n - len(values))


def sliding(values, over):
    """The sum of each value and those before it, `over` in all."""
    return [sum(values[max(i + 1 - over, 0):i + 1]) for i in range(len(values))]


def series(limit, seconds):
    """For each panel, what was asked and what passed, by the second."""
    line = limit["timeline"]
    assert line["width"] == 1, "a pattern of a few minutes, at a hundred a minute"
    asked, passed = padded(line["asked"], seconds), padded(line["passed"], seconds)
    return [[asked, passed], [sliding(asked, 60), sliding(passed, 60)]]


def area(values, top, height, most, kind):
    """A path of steps over the whole width."""
    step = (WIDTH - LEFT - RIGHT) / len(values)
    path, last = f"M{LEFT} {top + height}", 0
    for i, value in enumerate([*values, 0]):
        if value != last:
            path += f"H{LEFT + i * step:.4g}V{top + height * (1 - value / most):.4g}"
            last = value
    return f'<path class="{kind}" d="{path}Z"/>'


def text(x, y, words, kind="", anchor="start"):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.4g}" y="{y:.4g}"{kind} text-anchor="{anchor}">{html.escape(words)}</text>'


def grid(top, height, minutes):
    lines = [f'<path class="grid" d="M{LEFT} {top + height}H{WIDTH - RIGHT}"/>']
    for minute in range(minutes + 1):
        x = LEFT + minute * (WIDTH - LEFT - RIGHT) / minutes
        lines.append(f'<path class="grid" d="M{x:.4g} {top}V{top + height}"/>')
    return lines


def draw(name, limit, seconds, most):
    parameters = ", ".join(f"{key} {value}" for key, value in limit["parameters"].items()
                           if key not in ("algorithm", "on_store_failure"))
    figures = f"{limit['allowed']} of {limit['allowed'] + limit['denied']} passed"
    if limit.get("wait_ms"):
        figures += f", {limit['wait_ms']['waited']} waited"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img"'
           f' width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
           f"<title>{name} in an edge burst: {figures}</title>", f"<style>{STYLE}</style>",
           f'<text x="{LEFT}" y="22"><tspan class="title">{html.escape(name)}</tspan>'
           f'<tspan dx="10">{html.escape(parameters)}</tspan></text>',
           text(WIDTH - RIGHT, 22, figures, anchor="end")]
    names = [["in a", "second"], ["in the last", "minute"]]
    for (top, height), label, data, most_here in zip(PANELS, names, series(limit, seconds), most):
        out += grid(top, height, seconds // 60)
        out += [area(values, top, height, most_here, kind)
                for values, kind in zip(data, ("asked", "passed"))]
        out += [text(LEFT - 8, top + 11, str(most_here), anchor="end")]
        out += [text(6, top + height - 2 - 16 * i, line) for i, line in enumerate(reversed(label))]
    declared = limit["worst"]["declared"]
    if declared:
        y = PANELS[1][0] + PANELS[1][1] * (1 - declared / most[1])
        out += [f'<path class="limit" d="M{LEFT} {y:.4g}H{WIDTH - RIGHT}"/>',
                text(LEFT - 8, y + 4, str(declared), "limit", "end")]
    for minute in range(seconds // 60 + 1):
        x = LEFT + minute * (WIDTH - LEFT - RIGHT) / (seconds // 60)
        out.append(text(x, HEIGHT - 14, f"{minute} min" if minute else "0",
                        anchor="end" if minute == seconds // 60 else "middle"))
    return "\n".join([*out, "</svg>"]) + "\n"


def main(folder):
    done = subprocess.run([WEIR, "simulate", "--pattern", "edge-burst", "--json"],
                          stdout=subprocess.PIPE, check=True)
    limits = json.loads(done.stdout)["limits"]
    seconds = max(len(limit["timeline"]["asked"]) for limit in limits.values())
    seconds = -(-seconds // 60) * 60
    # All are drawn to one scale, that of the greatest.
    most = [max(max(values) for limit in limits.values() for values in series(limit, seconds)[panel])
            for panel in range(len(PANELS))]
    for name, limit in limits.items():
        (folder / f"{name}.svg").write_text(draw(name, limit, seconds, most))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
