"""docs/tasks.zh-CN.md runs as it stands there, each section by itself, with nginx, Redis, gunicorn and Go."""

import re

import pytest
from harness import ROOT, programs_of_others
from recipe_runner import recipe, slowed

pytestmark = programs_of_others

PAGE = ROOT / "docs/tasks.zh-CN.md"
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))


def patient(text):
    """Without a time within which Redis must answer a busy machine."""
    return slowed(text).replace("\nnodes: 2\n", "\nnodes: 2\nstore_timeout: 30s\n")


@pytest.mark.parametrize("section", SECTIONS, ids=["nginx", "koala", "go-zero", "breaker", "why"])
def test_a_section_does_what_it_shows(section, tmp_path):
    with recipe(PAGE, tmp_path, change=patient) as run:
        run.text = SECTIONS[section]
        run.files |= {name: (ROOT / "examples" / name).read_text() for name in ("koala.conf", "dicts/staff.dat")}
        shown = run.play()
    assert len(shown) >= 2


def test_the_table_of_reasons_has_each_of_the_protocols():
    def reasons(text):
        rows = re.search(r"^\| `reason` \|[^\n]*\n\|-[^\n]*\n(.*?)\n\n", text, re.M | re.S)[1]
        return {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}

    known = reasons((ROOT / "docs/protocols.md").read_text())
    assert "over_limit" in known and reasons(PAGE.read_text()) == known
