"""docs/guide.md has a section for every algorithm, valid limits, and pictures that the simulator still draws."""

import base64
import os
import re
import subprocess
import sys

from browser import Browser
from harness import BUILD, PATIENCE, ROOT, plain_build_only, weir
from test_docs import blocks

pytestmark = plain_build_only

GUIDE = "docs/guide.md"
PICTURES = ROOT / "docs" / "pictures"
SHOWN = re.findall(r"\]\(pictures/(\S+)\)", (ROOT / GUIDE).read_text())


def test_every_algorithm_has_a_section_and_a_line_of_the_first_table():
    header = (ROOT / "include/weir/weir.h").read_text()
    names = re.search(r"^enum weir_algorithm \{(.*?)^\};", header, re.M | re.S)[1]
    text = (ROOT / GUIDE).read_text()
    for name in re.findall(r"^\tWEIR_ALGORITHM_(\w+)", names, re.M):
        assert f"\n### {name.lower()}\n" in text
        assert name == "LEAKY_BUCKET" or f"](#{name.lower()})" in text.split("\n## ")[0]


def test_its_limits_are_valid(tmp_path):
    for n, block in enumerate(blocks(GUIDE, "yaml")):
        path = tmp_path / f"{n}.yaml"
        path.write_text(block)
        done = weir("lint", path)
        assert done.returncode == 0, done.stderr


def test_its_pictures_are_those_that_the_simulator_draws_today(tmp_path):
    subprocess.run([sys.executable, PICTURES / "make.py", tmp_path], check=True, timeout=PATIENCE,
                   env={**os.environ, "WEIR_BUILD": str(BUILD)})
    made = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert {name: (PICTURES / name).read_text() for name in SHOWN} == made, "see make.py"
    assert all(len(picture) < 8192 for picture in made.values())


def test_every_picture_is_shown_by_a_document():
    shown = {name for path in (ROOT / "docs").glob("*.md")
             for name in re.findall(r"\]\(pictures/(\S+)\)", path.read_text())}
    assert shown == {path.name for path in PICTURES.glob("*") if path.suffix != ".py"}


# Counts the grey, green and red pixels of each picture.
COLOURS = """[...document.images].map((image) => {
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const p = context.getImageData(0, 0, canvas.width, canvas.height).data;
    let grey = 0, green = 0, red = 0;
    for (let i = 0; i < p.length; i += 4) {
        const [r, g, b, alpha] = p.slice(i, i + 4);
        green += g > r + 40;
        red += r > g + 80;
        grey += alpha > 90 && Math.abs(r - g) < 20 && Math.abs(r - b) < 30;
    }
    return [grey, green, red];
})"""


def test_a_browser_draws_traffic_allowed_requests_and_the_limit(tmp_path):
    names = sorted(SHOWN)
    page = tmp_path / "page.html"
    page.write_text("".join(
        f'<img src="data:image/svg+xml;base64,{base64.b64encode((PICTURES / name).read_bytes()).decode()}">'
        for name in names))
    browser = Browser(tmp_path)
    try:
        browser.open(page)
        drawn = dict(zip(names, browser.evaluate(COLOURS), strict=True))
        assert browser.complaints() == []
    finally:
        browser.close()
    for name, (grey, green, red) in drawn.items():
        assert green > 3000, (name, drawn)
        assert grey > 4000 or name == "fixed_window.svg", (name, drawn)  # `fixed_window` allowed all of it
        assert red > 500 or name == "random.svg", (name, drawn)  # `random` has no limit to draw
