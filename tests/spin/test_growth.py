"""A key while its limit gets a larger table, in every order of the steps: spin finds no counterexample, and
finds one as soon as something is left out."""

import pytest


@pytest.mark.parametrize("defines", [(), pytest.param(("MOVE",), marks=pytest.mark.large)])
def test_no_use_is_missed_and_none_given_back_twice(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_LOOK",), ("BREAK_ORDER",), ("BREAK_CLOSE", "MOVE"), ("BREAK_FREEZE", "MOVE"),
    ("BREAK_BEHALF", "MOVE")])
def test_each_part_of_the_protocol_is_needed(broken, errors):
    assert errors(*broken)
