"""The insertion protocol in every order of its steps: spin finds no counterexample, and
finds one as soon as something is left out."""

import pytest


@pytest.mark.parametrize("defines", [
    pytest.param(("THREADS=3",), marks=pytest.mark.large), pytest.param(("THREADS=3", "LIMIT=2"), marks=pytest.mark.large),
    ("THREADS=2", "RESET", "MOVES=2")])
def test_one_state_per_key_and_exactly_the_limit(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_UNIQUE",), ("BREAK_LOOK",), ("BREAK_WITHDRAW",), ("BREAK_FENCE", "THREADS=2", "MOVES=2")])
def test_each_part_of_the_protocol_is_needed(broken, errors):
    assert errors(*broken)
