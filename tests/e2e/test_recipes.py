"""The pages of docs/recipes/ run as they stand there, with nginx, Redis, gunicorn and PHP-FPM."""

import os
import re
import textwrap

import pytest
from harness import ROOT, programs_of_others
from recipe_runner import RECIPES, alike, recipe, sections, slowed
from test_docs import blocks

pytestmark = [programs_of_others, pytest.mark.first]

PAGES = sorted(path.name for path in RECIPES.glob("*.md") if path.name != "README.md")

# Pages about a pace, which keep their rates.
PACED = {"webhooks.md"}


@pytest.mark.parametrize("page", PAGES)
def test_a_recipe_does_what_its_page_shows(page, tmp_path):
    with recipe(page, tmp_path, change=(lambda text: text) if page in PACED else slowed) as run:
        shown = run.play()
    assert len(shown) >= 2


def test_over_a_unix_socket(tmp_path):
    """The two lines of the index take the place of the port, and nothing else changes."""
    index = (RECIPES / "README.md").read_text()
    listen, server = re.search(r"`(listen: .*?)` nginx needs\s+`(server unix:.*?;)`", index).groups()
    owner = ", group: www-data" if os.getuid() else ""
    with recipe("site.md", tmp_path) as run:
        run.text = run.text.replace("limits:\n", listen.replace(owner, "") + "\nlimits:\n", 1).replace("server 127.0.0.1:8080;", server)
        run.text = run.text.replace("/run/weir", str(tmp_path))
        assert len(run.play()) == 3
        assert run.weirs[0].addresses["http"] == f"unix:{tmp_path}/http.sock"


@pytest.mark.parametrize("page", PAGES)
def test_a_recipe_has_a_line_of_the_index_and_the_same_parts_as_the_others(page):
    text = (RECIPES / page).read_text()
    assert f"]({page})" in (RECIPES / "README.md").read_text()
    assert text.endswith("\n") and "\n## What to watch\n" in text and "\n## What to change\n" in text
    assert text.index("```console") < text.index("\n## What to watch\n") < text.index("\n## What to change\n")
    metrics = set(re.findall(r"`(weir_[a-z_]+_total|weir_[a-z]+)\b", text))
    assert metrics <= set(re.findall(r"`(weir_\w+)`", (ROOT / "docs/operations.md").read_text()))


def test_the_files_of_nginx_are_those_of_the_page_about_proxies():
    asks, reports = blocks("docs/proxies.md", "nginx")
    shown = textwrap.dedent(asks[asks.index("    auth_request /_weir"):].rpartition("}")[0])
    advice = re.search(r"nginx, in `location = /_weir`: `(proxy_set_header X-Api-Key.*?)`", (ROOT / "docs/proxies.md").read_text())[1]
    ours = (RECIPES / "nginx/weir.conf").read_text()
    assert ours.partition("\n")[2].replace(f"    {advice}\n", "") == shown
    outcomes, server = reports.split("server {\n")
    assert (RECIPES / "nginx/weir-outcomes.conf").read_text().partition("\n")[2] == outcomes
    reported = textwrap.dedent(server.rpartition("}")[0]).replace("location / {\n    post_action /_weir_report;\n}\n\n", "")
    assert (RECIPES / "nginx/weir-report.conf").read_text().partition("\n")[2] == reported


def test_an_output_is_compared_with_that_of_the_page():
    assert alike("10 passed\nin 2.5 s\n", "10 passed\nin 1.8 s\n")
    assert not alike("10 passed\nin 1.7 s\n", "10 passed\nin 1.8 s\n")
    assert not alike("9 passed\nin 2.5 s\n", "10 passed\nin 1.8 s\n")
    assert slowed("{ rate: 5/s, burst: 2 }") == "{ rate: 5/w, burst: 2 }"


def test_each_block_is_a_file_with_a_name_or_commands():
    for page in PAGES:
        for language, text in sections((RECIPES / page).read_text()):
            assert language in ("sh", "console") or re.match(r"\S+ (?:// )?[\w./-]+\n", text), (page, text)
