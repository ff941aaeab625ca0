"""Two builds of the release, the second from the first one's archive of the sources, in another directory."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "packaging/release"))

from harness import ROOT  # noqa: E402

BUILD = ROOT / "build"
KEPT_ROOTS = pathlib.Path(os.environ.get("WEIR_ROOTS", BUILD / "roots"))


def run(*command, cwd=None, env=None, stdin=None):
    """Returns the output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=cwd,
                          input=stdin, env={**os.environ, **(env or {})})
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(tree, out):
    run(sys.executable, "-B", tree / "packaging/release/build.py", out, KEPT_ROOTS)
    return out


@pytest.fixture(scope="session")
def release():
    """The directory of a release that was built from this tree; WEIR_RELEASE names one that exists."""
    given = os.environ.get("WEIR_RELEASE")
    return pathlib.Path(given) if given else build(ROOT, BUILD / "release")


@pytest.fixture(scope="session")
def second_release(release, tmp_path_factory):
    [source] = [path for path in release.glob("weir-*.tar.gz") if "linux" not in path.name]
    elsewhere = tmp_path_factory.mktemp("a second place")
    run("tar", "-C", elsewhere, "-xzf", source)
    [tree] = elsewhere.iterdir()
    yield build(tree, elsewhere / "out")
    shutil.rmtree(elsewhere)


@pytest.fixture(scope="session")
def linux(release, tmp_path_factory):
    """The unpacked archive of the static program."""
    [archive] = release.glob("weir-*-linux-*.tar.gz")
    top = tmp_path_factory.mktemp("linux")
    run("tar", "-C", top, "-xzf", archive)
    [unpacked] = top.iterdir()
    return unpacked
