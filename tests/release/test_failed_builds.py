"""Builds that fail or are interrupted: they say why, leave an earlier release as it was, and nothing beside it."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from conftest import KEPT_ROOTS
from harness import PATIENCE, ROOT, until

BUILD = [sys.executable, "-B", ROOT / "packaging/release/build.py"]


def failed(out, roots, **env):
    """What a build that fails prints last."""
    done = subprocess.run([*BUILD, out, roots], capture_output=True, text=True, check=False, env={**os.environ, **env})
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_without_its_tools_it_says_what_to_install(tmp_path):
    assert "found no mmdebstrap and no unshare" in failed(tmp_path / "out", tmp_path / "roots", PATH=str(tmp_path))
    assert "install dpkg git mmdebstrap tar util-linux" in failed(tmp_path / "out", tmp_path / "roots", PATH=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("date", "message"), [("99999999999", "expected a date in the past"), ("soon", "found 'soon'")])
def test_a_date_that_files_cannot_have_is_refused(tmp_path, date, message):
    assert message in failed(tmp_path / "out", tmp_path / "roots", SOURCE_DATE_EPOCH=date)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "letter").write_text("dear")
    assert "found other files" in failed(tmp_path, tmp_path / "roots")
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def processes_below(directory):
    """Those that have a directory as their root."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "root").readlink().is_relative_to(directory):
                found.append(entry.name)
        except OSError:  # it has ended
            pass
    return found


def test_an_interrupted_build_leaves_no_process_no_mount_and_no_file(tmp_path, release):
    """It is interrupted while a compiler runs, by which time the sources are unpacked into a root."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "SHA256SUMS").write_text("an earlier release\n")
    build = subprocess.Popen([*BUILD, out, KEPT_ROOTS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in build.stdout:
        if "packages for Debian" in line:
            break
    root = KEPT_ROOTS / "debian12"
    until(lambda: processes_below(root), "a compiler")
    build.send_signal(signal.SIGTERM)
    _, errors = build.communicate(timeout=PATIENCE)
    assert (build.returncode, errors) == (1, "release: terminated\n")
    assert processes_below(root) == []
    assert str(KEPT_ROOTS) not in pathlib.Path("/proc/self/mounts").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "SHA256SUMS").read_text() == "an earlier release\n"
    assert not (root / "build").exists()
