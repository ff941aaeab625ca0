"""The files of tests/vectors are what its generator writes, and stay small."""

import sys

import pytest
import weir

VECTORS = weir.ROOT / "tests/vectors"
sys.path.insert(0, str(VECTORS))

import limits  # noqa: E402
import make  # noqa: E402


@pytest.mark.parametrize("name", limits.ALGORITHMS)
def test_a_file_is_what_the_generator_writes(name):
    assert (VECTORS / f"{name}.jsonl").read_text() == make.text_of(name), "run tests/vectors/make.py"


def test_there_are_no_other_files_and_they_are_small():
    files = list(VECTORS.glob("*.jsonl"))
    assert {file.stem for file in files} == set(limits.ALGORITHMS)
    assert sum(file.stat().st_size for file in files) < 1_500_000
