"""The manual page of the configuration file, held against the program that reads such files."""

import os
import re
import subprocess
import textwrap

import pytest
from harness import PATIENCE, ROOT, plain_build_only, weir

pytestmark = plain_build_only

PAGE = ROOT / "packaging/man/weir.yaml.5"

# Where a key stands that belongs to a section of the page.
PLACES = {
    "TOP LEVEL": "KEY: {}",
    "LISTEN": "listen: { KEY: {} }",
    "UNIX SOCKETS": "listen: { http: { KEY: {} } }",
    "IDLE": "idle: { KEY: {} }",
    "TLS": "tls: { KEY: {} }",
    "USERS": "users: [{ KEY: {} }]",
    "DENIALS": "denials: { KEY: {} }",
    "KOALA": "koala: { KEY: {} }",
    "RULES": "order: first\nlimits: { a: { algorithm: random, deny: 0 } }\n"
             "rules: [{ limits: [a], answer: allow, KEY: {} }]",
    "MATCHING": "rules: [{ answer: deny, match: { a: { KEY: {} } } }]",
}
KEY = re.compile(r"^ {7}(\w+) \((.*?)(?:; default: (.*))?\)$", re.M)
# These are printed whenever a file says them, also if it says their default.
ALWAYS_PRINTED = {"store", "capacity", "nodes", "ipv6_prefix", "path_variants", "headers"}
PARTS = ("STORES", "LIMITS", "FILES", "EXAMPLES", "SEE ALSO")


@pytest.fixture(scope="module")
def page():
    text = subprocess.run(["man", "-l", PAGE], env={**os.environ, "MANWIDTH": "200", "MAN_KEEP_FORMATTING": ""},
                          capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    parts = re.split(r"^([A-Z ]+)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def lint(tmp_path, text, *flags):
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    return weir("lint", *flags, file)


def keys_of(part):
    return {name: default for name, _, default in KEY.findall(part)}


def test_the_page_has_the_usual_parts(page):
    assert {*PLACES, *PARTS} <= page.keys()


@pytest.mark.parametrize("title", PLACES)
def test_the_keys_of_a_section_are_those_that_the_reader_expects(page, title, tmp_path):
    """The reader names the keys that it knows, of long tables only the first."""
    message = lint(tmp_path, PLACES[title].replace("KEY", "nonsense")).stderr
    expected = re.search(r"expected a key of [^(]*\((.*)\), found \"nonsense\"", message)[1].split(", ")
    documented = keys_of(page[title]).keys()
    assert set(expected) - {"…"} <= documented
    assert "…" in expected or len(expected) == len(documented)
    for key in documented:
        assert "expected a key of" not in lint(tmp_path, PLACES[title].replace("KEY", key)).stderr, key


def test_each_algorithm_is_on_the_page_with_the_keys_that_its_limits_take(page, tmp_path):
    parts = re.split(r"^ {3}(\w+)\n", page["LIMITS"], flags=re.M)
    algorithms = dict(zip(parts[1::2], map(keys_of, parts[2::2])))
    of_all = keys_of(parts[0])
    assert set(of_all) == {"algorithm", "on_store_failure", "store", "chunk"} and len(algorithms) >= 16
    for algorithm, keys in algorithms.items():
        text = f"limits: {{ a: {{ algorithm: {algorithm}, KEY: {{}} }} }}"
        message = lint(tmp_path, text.replace("KEY", "nonsense")).stderr
        expected = re.search(rf"expected a key of {algorithm} \((.*)\), found", message)[1].split(", ")
        assert set(expected) - {"…"} <= keys.keys() | of_all.keys(), algorithm
        for key in keys:
            assert "expected a key of" not in lint(tmp_path, text.replace("KEY", key)).stderr, (algorithm, key)


@pytest.mark.parametrize("title, form", [
    ("TOP LEVEL", "{}"), ("IDLE", "idle: {{ {} }}"), ("DENIALS", "denials: {{ {} }}"), ("KOALA", "koala: {{ {} }}")])
def test_a_default_on_the_page_is_the_programs(page, title, form, tmp_path):
    """A file that says no more than a default prints as an empty one does."""
    empty = lint(tmp_path, "", "--to", "yaml").stdout
    defaults = {key: value for key, value in keys_of(page[title]).items()
                if value and " " not in value and key not in ALWAYS_PRINTED}
    assert defaults
    for key, value in defaults.items():
        done = lint(tmp_path, form.format(f'{key}: "{value}"'), "--to", "yaml")
        assert (done.returncode, done.stdout) == (0, empty), f"{key}: {value}: {done.stderr}"


def test_the_example_is_a_file_without_a_fault(page, tmp_path):
    done = lint(tmp_path, textwrap.dedent(page["EXAMPLES"]), "--strict")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["weir.1", "weir-serve.1", "weir-lint.1", "weir-simulate.1"])
def test_pages_of_commands_that_read_the_file_refer_to_its_page(name):
    assert ".BR weir.yaml (5)" in (ROOT / "packaging/man" / name).read_text().partition(".SH SEE ALSO")[2]
