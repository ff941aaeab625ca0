"""The files of tests/vectors are what its generator writes, and stay small."""

import json
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


def numbers(value):
    """All numbers in it, with their names."""
    for name, field in value.items():
        if isinstance(field, dict):
            yield from numbers(field)
        elif isinstance(field, list):
            yield from (number for each in field for number in numbers(each))
        elif not isinstance(field, (bool, str, type(None))):
            yield name, field


@pytest.mark.parametrize("name", limits.ALGORITHMS)
def test_no_reader_of_json_loses_bits(name):
    for line in (VECTORS / f"{name}.jsonl").read_text().splitlines():
        for field, number in numbers(json.loads(line)):
            assert not field.endswith("_ns")
            assert isinstance(number, float) or 0 <= number <= 2**53, field


def test_there_are_no_other_files_and_they_are_small():
    files = list(VECTORS.glob("*.jsonl"))
    assert {file.stem for file in files} == set(limits.ALGORITHMS)
    assert all(file.stat().st_size < 500_000 for file in files)
