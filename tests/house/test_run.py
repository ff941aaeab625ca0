"""tests/run.py reads the sanitizers' reports rightly, and tests/check.py chooses existing tests."""

import importlib.util
import pathlib
import re
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "run.py"


@pytest.fixture
def run(tmp_path):
    """The script, with reports in a directory of the test's own."""
    spec = importlib.util.spec_from_file_location("run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.FORMS = {"asan": (tmp_path, [])}
    (tmp_path / "reports").mkdir()
    return module


UNREADABLE = "==31==Unable to get registers from thread 32.\n"


@pytest.mark.parametrize("text, is_fault", [
    ("", False), (UNREADABLE, False), (UNREADABLE * 2, False),
    (UNREADABLE + "==31==ERROR: LeakSanitizer: detected memory leaks\n", True),
    ("==31==LeakSanitizer has encountered a fatal error.\n", True),
    ("a.c:3:5: runtime error: signed integer overflow\n", True)])
def test_a_report_of_a_killed_process_names_no_fault(run, tmp_path, text, is_fault):
    report = tmp_path / "reports" / "report.31"
    report.write_text(text)
    assert [found.removeprefix("report.31:\n") for found in run.take_reports("asan")] == [text] * is_fault
    assert not report.exists()


ROOT = SCRIPT.parents[1]


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    for name in ("run", "check"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("check")


def test_the_quick_check_names_tests_that_there_are(check):
    for test in check.END_TO_END:
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / "tests" / "e2e" / file).read_text()
    for folder, models in check.MODELS.items():
        assert (ROOT / "src" / folder).is_dir()
        assert all((ROOT / "tests" / "model" / f"test_{name}.py").exists() for name in models.split())


def test_the_table_of_models_is_that_of_the_document(check):
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert dict(rows) == check.MODELS


def test_models_of_what_was_touched_are_chosen(check):
    assert check.models(["docs/faq.md"]) == ["tests/model/test_vectors.py"]
    assert check.models(["src/api/ask.c", "tests/model/test_rules.py"]) == [
        f"tests/model/test_{name}.py" for name in ("binding", "traps", "vectors", "rules")]
