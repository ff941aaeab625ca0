"""The insertion protocol in every order of its steps: spin finds no counterexample, and
finds one as soon as something is left out."""

import pathlib
import subprocess

import pytest

MODEL = pathlib.Path(__file__).with_name("insert.pml")
PATIENCE = 300  # seconds, on a busy machine


def errors(tmp_path, *defines):
    flags = [f"-D{define}" for define in defines]
    subprocess.run(["spin", *flags, "-a", MODEL], cwd=tmp_path, check=True, timeout=PATIENCE,
                   capture_output=True)
    subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4000", "-o", "pan",
                    "pan.c"], cwd=tmp_path, check=True, timeout=PATIENCE)
    done = subprocess.run(["./pan", "-m100000"], cwd=tmp_path, check=True, timeout=PATIENCE,
                          capture_output=True, text=True)
    # All of it was searched, or it was ended by a counterexample.
    assert "errors: 0" not in done.stdout or "Search not completed" not in done.stdout
    return "errors: 0" not in done.stdout


@pytest.mark.parametrize("defines", [
    ("THREADS=3",), ("THREADS=3", "LIMIT=2"), ("THREADS=2", "RESET", "MOVES=2")])
def test_one_state_per_key_and_exactly_the_limit(defines, tmp_path):
    assert not errors(tmp_path, *defines)


@pytest.mark.parametrize("broken", ["BREAK_UNIQUE", "BREAK_LOOK", "BREAK_WITHDRAW"])
def test_each_part_of_the_protocol_is_needed(broken, tmp_path):
    assert errors(tmp_path, broken)
