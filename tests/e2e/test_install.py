"""`make install`: a program finds the library by pkg-config alone."""

import subprocess

from harness import BUILD, PATIENCE, ROOT
from test_docs import sanitize


def run(*words, **env):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True,
                          timeout=PATIENCE * 3, env={"PATH": "/usr/bin:/bin", **env}).stdout


def test_an_installed_library_builds_and_runs_the_first_program(tmp_path):
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path)
    pc = next(tmp_path.rglob("weir.pc"))
    flags = run("pkg-config", "--cflags", "--libs", "weir", PKG_CONFIG_PATH=str(pc.parent),
                PKG_CONFIG_SYSROOT_DIR=str(tmp_path)).split()
    program = tmp_path / "first"
    run("gcc", ROOT / "examples/first.c", "-o", program, *flags, *sanitize())
    lines = run(program, LD_LIBRARY_PATH=str(pc.parent.parent)).splitlines()
    assert [line.split()[1] for line in lines] == ["allowed,"] * 10 + ["denied,"] * 2
