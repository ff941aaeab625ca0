"""Long pages begin with a map of their sections, and give advice before figures."""

import re

import pytest
from harness import ROOT, plain_build_only, weir
from test_docs import blocks

pytestmark = plain_build_only

PAGES = ["rules", "protocols", "operations", "distributed", "proxies"]


def anchor(title):
    """As web sites of repositories make it of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_a_map_at_the_top_leads_to_each_section(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    shown = re.match(r"# .*\n\n((?:\|.*\n)+)\n", text)[1]
    targets = re.findall(r"\[(.*?)\]\(#(.*?)\)", shown)
    assert all(anchor(title) == target for title, target in targets)
    titles = re.findall(r"^###? (.*)$", text, re.M)
    assert {title for title, _ in targets} <= set(titles)
    assert set(re.findall(r"^## (.*)$", text, re.M)) <= {title for title, _ in targets}


def test_the_page_about_overload_begins_with_advice_and_a_valid_configuration(tmp_path):
    text = (ROOT / "docs/overload.md").read_text()
    assert text.index("## What to do") < text.index("```yaml") < text.index("|---|")
    path = tmp_path / "weir.yaml"
    path.write_text(blocks("docs/overload.md", "yaml")[0])
    done = weir("lint", "--strict", path)
    assert done.returncode == 0, done.stderr


def test_a_page_that_names_koala_says_first_that_it_is_a_service():
    for path in [*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"\]\(.*?\)", "]", path.read_text())
        named = re.search(r"\bKoala\b(.{0,100})", text.replace("# Moving over from Koala", ""), re.S)
        assert named is None or re.search("service|服务", named[1]), path.name
