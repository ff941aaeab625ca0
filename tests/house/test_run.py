"""What tests/run.py makes of the sanitizers' reports."""

import importlib.util
import pathlib

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
