#!/usr/bin/env python3
"""Draws what real.py measured.

    bench/closed_loop/real.py --json FILE && bench/closed_loop/charts.py FILE [FOLDER]

A row for each limiter. On the left the answers, as a part of what the server can do; on the right
what the picture is about: latencies, or how many requests are in the server.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/pictures"))

from make import STYLE, WIDTH, text

LEFT, RIGHT, BETWEEN = 160, 14, 44
PANEL = (WIDTH - LEFT - RIGHT - BETWEEN) / 2
TOP, HEIGHT, STEP = 62, 52, 70
BIN_SECONDS = 0.05

PICTURES = {
    "closed-halves": ("halves", "exponential", "At 3 × capacity, half of the workers go, and return",
                      "p90", "90% took at most, × mean", 10),
    "closed-spike": ("spike", "exponential", "From 0.6 to 1.4 × capacity", "p90",
                     "90% took at most, × mean", 10),
    "closed-returns": ("returns", "exponential", "The server is killed, and started 2.5 s later", "inside",
                       "requests in the server", 300),
}


def steps(values, left, top, most, closed):
    """A path of steps; `closed`: down to the base line."""
    width = PANEL / len(values)
    path, last = (f"M{left:.4g} {top + HEIGHT}" if closed else ""), None
    for i, value in enumerate(values):
        y = top + HEIGHT * (1 - min(value / most, 1))
        if y != last:
            path += f"{'H' if path else 'M'}{left + i * width:.4g}{'V' if path else ' '}{y:.4g}"
            last = y
    return path + f"H{left + PANEL:.4g}" + (f"V{top + HEIGHT}Z" if closed else "")


def panel(values, left, top, most, seconds, changed, kind):
    out = [f'<path class="grid" d="M{left:.4g} {top + HEIGHT}H{left + PANEL:.4g}"/>']
    for at in changed:
        x = left + at / seconds * PANEL
        out.append(f'<path class="limit" d="M{x:.4g} {top}V{top + HEIGHT}"/>')
    name = "passed" if kind == "area" else "line"
    return [*out, f'<path class="{name}" d="{steps(values, left, top, most, kind == "area")}"/>']


def draw(rows, title, what, of_what, most):
    height = TOP + STEP * len(rows) + 24
    right = LEFT + PANEL + BETWEEN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img"'
           f' width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
           f"<title>{title}</title>",
           f"<style>{STYLE}\n.line {{ stroke: #8250df; stroke-width: 1.5; fill: none }}</style>",
           text(6, 22, title, "title"), text(LEFT, 48, "answers, part of the capacity"),
           text(right, 48, of_what)]
    for i, (name, row) in enumerate(rows.items()):
        top = TOP + i * STEP
        seconds = len(row["goodput"]) * BIN_SECONDS
        out.append(text(6, top + HEIGHT / 2 + 4, name, "title"))
        out += panel(row["goodput"], LEFT, top, 1.25, seconds, row["changed"], "area")
        out += panel(row[what], right, top, most, seconds, row["changed"], "line")
        out += [text(LEFT - 6, top + HEIGHT * 0.2 + 4, "1", anchor="end"),
                text(right - 6, top + 10, str(most), anchor="end")]
    for left in (LEFT, right):
        for second in range(0, int(seconds) + 1, 3):
            out.append(text(left + second / seconds * PANEL, height - 10, f"{second} s" if second else "0",
                            anchor="middle"))
    return "\n".join([*out, "</svg>"]) + "\n"


def main(results, folder):
    results = json.loads(pathlib.Path(results).read_text())
    for name, (experiment, service, title, what, of_what, most) in PICTURES.items():
        rows = results.get(experiment, {}).get(service)
        if rows:
            pathlib.Path(folder, f"{name}.svg").write_text(draw(rows, title, what, of_what, most))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/pictures")
