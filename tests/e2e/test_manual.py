"""Help, manual pages and shell completions, which are all generated from one table."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from harness import BUILD, PATIENCE, ROOT, plain_build_only, weir

pytestmark = plain_build_only

LINKS = {path.stem: re.fullmatch(r"\.so man3/(\w+)\.3\n", path.read_text())
         for path in (BUILD / "man3").iterdir()}
LIBRARY_PAGES = sorted(BUILD / f"man3/{name}.3" for name, link in LINKS.items() if not link)
PAGES = sorted((ROOT / "packaging/man").iterdir()) + LIBRARY_PAGES
COMPLETIONS = ROOT / "packaging/completions"


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, **more)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def commands():
    return {command["name"]: command for command in json.loads(weir("help", "--json").stdout)}


@pytest.mark.parametrize("program", ["manual.py", "configuration_page.py"])
def test_generated_files_are_up_to_date(program):
    run(sys.executable, "-B", ROOT / "docs" / program, "--check", env={**os.environ, "WEIR_BUILD": str(BUILD)})


def test_each_flag_is_in_its_help_its_page_and_the_table(commands):
    assert {"serve", "lint", "ask", "why", "key", "reset", "simulate", "bench", "store"} <= commands.keys()
    table = (ROOT / "docs/commands.md").read_text()
    for name, command in commands.items():
        page = run("man", "-l", ROOT / f"packaging/man/weir-{name}.1", env={**os.environ, "MANWIDTH": "200"}).stdout
        shown = weir(name, "--help").stdout
        part = re.search(rf"^## weir {name}\n(.*?)(?=^## |\Z)", table, re.M | re.S)[1]
        for flag in command["flags"]:
            for text in (page, shown, part):
                assert f"--{flag['name']}" in text
            assert flag["help"] in shown and flag["help"] in part
        assert f"Exit status: {command['exits']}." in shown
        assert command["examples"]
        for example in command["examples"]:
            assert all(example in text for text in (page, shown, part)) and example.startswith(f"weir {name}")
            flags = {flag["name"] for flag in command["flags"]}
            assert set(re.findall(r"(?<= )--([a-z][a-z-]*)", example)) <= flags


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_manual_pages_have_no_faults(page):
    done = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
    assert done.stderr == ""


@pytest.fixture(scope="module")
def prototypes():
    spec = importlib.util.spec_from_file_location("record", ROOT / "tests/abi/record.py")
    record = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record)
    return record.functions(record.HEADERS)


def shown(page):
    text = run("man", "-l", page, env={**os.environ, "MANWIDTH": "200", "MAN_KEEP_FORMATTING": ""}).stdout
    parts = re.split(r"^(\S.*)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def test_each_function_of_the_library_is_described_on_its_page(prototypes):
    """The page describes its parameters, result, errors, and use by threads."""
    assert len(prototypes) > 50
    pages = {page.stem: shown(page) for page in LIBRARY_PAGES}
    for name, prototype in prototypes.items():
        page = pages[LINKS[name][1]]
        [synopsis] = re.findall(rf"^ +\S.*\b{name}\(.*(?:\n {{9,}}.*)*", page["SYNOPSIS"], re.M)
        assert synopsis.split() == f"{prototype};".split(), name
        [described] = re.findall(rf"^ +{name}\(\)\n((?:\n| {{7,}}.*\n)+)", page["FUNCTIONS"], re.M)
        assert f"{name}(" in described, f"{name} has no example"
        errors = re.findall(rf"^ +{name}\(\)\n +(.+)", page.get("ERRORS", ""), re.M)
        if prototype.startswith("int "):
            assert errors or "Returns 0" in described, f"{name} has no errors"
        else:
            assert not errors and ("void " in prototype.partition(name)[0] or "Returns" in described), name
        assert "WEIR_" in page["RETURN VALUE"] or "enum weir_status" in page["RETURN VALUE"]
        assert "Several threads may use one handle" in page["THREADS"]


def test_each_link_of_the_library_leads_to_a_page_that_names_it():
    pages = {page.stem: page.read_text() for page in LIBRARY_PAGES}
    for name, link in LINKS.items():
        if link:
            assert re.search(rf"^.*\b{name}\b.* \\- ", pages[link[1]], re.M), name


def test_every_documented_variable_of_the_environment_is_read(commands, tmp_path):
    """An invalid value causes an error that names the setting."""
    flags = [flag for command in commands.values() for flag in command["flags"] if flag["variable"]]
    assert len(flags) >= 9
    for flag in [flag for flag in flags if flag["variable"] != "WEIR_SERVER"]:
        done = subprocess.run([BUILD / "weir", "serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
                              if flag["name"] not in ("http", "resp") else [BUILD / "weir", "serve"],
                              env={**os.environ, flag["variable"]: "\t"}, capture_output=True, text=True,
                              timeout=PATIENCE, check=False, cwd=tmp_path)
        assert done.returncode == 1, flag
        assert "expected" in done.stderr or "not supported" in done.stderr, (flag, done.stderr)


def test_every_command_that_asks_a_server_reads_its_address_from_the_environment(commands):
    words = {"ask": ["l", "k"], "bench": [], "key": ["k"], "reload": [], "reset": ["l", "k"], "status": [], "top": [], "why": ["k"]}
    assert words.keys() == {name for name, command in commands.items()
                            if any(flag["variable"] == "WEIR_SERVER" for flag in command["flags"])}
    for name, arguments in words.items():
        done = weir(name, *arguments, env={"WEIR_SERVER": "\t"})
        assert done.returncode == 2 and "WEIR_SERVER: expected" in done.stderr


@pytest.mark.parametrize("typed, expected", [
    ("weir si", {"simulate"}), ("weir lint --st", {"--strict"}), ("weir help s", {"serve", "simulate", "store"}),
    ("weir store re", {"repair", "resize"}), ("weir simulate --tr", {"--trace"})])
def test_shells_complete(typed, expected, tmp_path):
    words = typed.split()
    script = f"""
        source {COMPLETIONS}/weir.bash
        COMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1}
        _weir weir {words[-1]} {words[-2]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    in_bash = set(run("bash", "--norc", "-c", script, cwd=tmp_path).stdout.split())
    listed = run("fish", "--no-config", "-c", f"source {COMPLETIONS}/weir.fish; complete -C '{typed}'",
                 cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}).stdout
    in_fish = {line.split("\t")[0] for line in listed.splitlines()}
    known = {word for word in expected if word != "resize"}
    assert known <= in_bash and known <= in_fish


def test_a_flag_that_takes_a_file_is_completed_by_file_names(tmp_path):
    (tmp_path / "access.log").touch()
    script = f"""
        source {COMPLETIONS}/weir.bash
        COMP_WORDS=(weir simulate --trace acc) COMP_CWORD=3
        _weir weir acc --trace
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert run("bash", "--norc", "-c", script, cwd=tmp_path).stdout.split() == ["access.log"]


def test_zsh_reads_its_completion():
    run("zsh", "-n", COMPLETIONS / "_weir")


@pytest.mark.parametrize("words, told", [
    (["lnt"], "did you mean lint?"), (["help", "sotre"], "did you mean store?"),
    (["lint", "--stirct=1"], "did you mean --strict?"), (["ask", "--sevrer", "x"], "did you mean --server?"),
    (["serve", "--nonsense"], "see weir serve --help"), (["bench", "--json=1"], "expected no value with --json"),
    (["lint", "--to"], "expected a value after --to, found none"), (["store", "repair"], "expected check"),
    (["store", "check", "--owner", "root", "f"], "expected --owner with repair or resize, found check")])
def test_a_mistyped_word_is_an_error_with_the_probable_word(words, told):
    done = weir(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and done.stderr.count("\n") == 1


def test_each_way_to_ask_for_the_help_of_a_command_prints_the_same(commands):
    for name in commands:
        shown = weir("help", name)
        assert (shown.returncode, shown.stderr) == (0, "")
        for flags in (["--help"], ["-h"], ["x", "--help"]):
            assert weir(name, *flags).stdout == shown.stdout
    assert weir("help").stdout == weir("--help").stdout == weir("-h").stdout
    assert weir("-V").stdout == weir("--version").stdout


def test_the_help_and_the_first_page_show_examples_of_commands(commands):
    """test_command_examples.py runs those."""
    examples = re.search(r"\nExamples:\n((?:  weir .*\n)+)", weir("help").stdout)[1].split("\n")[:-1]
    firsts = {command["examples"][0] for command in commands.values()}
    assert len(examples) > 3 and {example.strip() for example in examples} <= firsts
    page = run("man", "-l", ROOT / "packaging/man/weir.1", env={**os.environ, "MANWIDTH": "200"}).stdout
    assert [line.strip() for line in page.partition("EXAMPLES\n")[2].splitlines()][:len(examples)] == [
        example.strip() for example in examples]


def test_every_flag_in_documents_exists(commands):
    known = {flag["name"] for command in commands.values() for flag in command["flags"]} | {"help", "version", "json"}
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for command, rest in re.findall(r"\bweir (serve|lint|ask|why|key|reset|reload|status|top|simulate|bench|store)\b([^`\n|;&]*)",
                                        document.read_text()):
            for flag in re.findall(r"(?<= )--([a-z][a-z-]*)", rest):
                assert flag in known, f"{pathlib.Path(document).name}: weir {command} --{flag}"
