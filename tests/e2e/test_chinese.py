"""The pages in Chinese keep step with those in English: the same blocks, pictures, sections and valid limits."""

import re

from harness import ROOT, little_of_ours, weir
from recipe_runner import sections

pytestmark = little_of_ours

README, CHINESE_README = ROOT / "README.md", ROOT / "README.zh-CN.md"
GUIDE, CHINESE_GUIDE = ROOT / "docs/guide.md", ROOT / "docs/guide.zh-CN.md"
CHINESE_TASKS = ROOT / "docs/tasks.zh-CN.md"


def pictures(path):
    return re.findall(r"^!\[.*?\]\((.*?)\)", path.read_text(), re.M)


def headings(path):
    return re.findall(r"^### (.*)$", path.read_text(), re.M)


def test_both_readmes_have_the_same_blocks_and_pictures_in_the_same_order():
    assert len(sections(README.read_text())) >= 6
    assert sections(CHINESE_README.read_text()) == sections(README.read_text())
    assert pictures(CHINESE_README) == pictures(README) != []
    assert len(re.findall("^## ", CHINESE_README.read_text(), re.M)) == len(re.findall("^## ", README.read_text(), re.M))


def test_the_guide_has_each_algorithm_and_only_blocks_and_pictures_of_the_one_in_english():
    """Sections may stand in another order, as they are grouped by what the reader knows."""
    shown, known = sections(CHINESE_GUIDE.read_text()), sections(GUIDE.read_text())
    assert [block for block in shown if block not in known] == []
    assert len(shown) == len(headings(CHINESE_GUIDE)) + 3  # two dialogues, and several limits at once
    assert sorted(headings(CHINESE_GUIDE)) == sorted(headings(GUIDE))
    assert set(pictures(CHINESE_GUIDE)) <= set(pictures(GUIDE))


def test_the_guide_links_each_algorithm_from_its_first_table():
    first = CHINESE_GUIDE.read_text().split("\n## ")[1]
    assert {name for name in headings(CHINESE_GUIDE) if f"](#{name})" not in first} == {"leaky_bucket"}


def test_limits_in_the_table_of_the_guide_are_valid(tmp_path):
    limits = re.findall(r"^\|.*?`(\{ algorithm: .*?\})`", CHINESE_GUIDE.read_text(), re.M)
    assert len(limits) > 10
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n" + "".join(f"  limit-{n}: {limit}\n" for n, limit in enumerate(limits)))
    done = weir("lint", path)
    assert done.returncode == 0, done.stderr


def test_the_pages_link_each_other_and_their_targets_exist():
    for one, other in ((README, CHINESE_README), (GUIDE, CHINESE_GUIDE)):
        assert f"]({other.name})" in one.read_text() and f"]({one.name})" in other.read_text()
    for path in (CHINESE_README, CHINESE_GUIDE, CHINESE_TASKS):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
        for target, name in re.findall(r"\]\(([^)#:]+)#([^)]+)\)", path.read_text()):
            titles = re.findall(r"^##+ (.*)$", (path.parent / target).read_text(), re.M)
            assert name in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, f"{target}#{name}"
