"""Permits in every order of their steps: no more than there are places, and no denial while
one is free; and each part of how that is done is needed. FLIGHTS: the same where one cell counts
all permits."""

import pytest

THREE = ("CLIENTS=3", "ROUNDS=1")


@pytest.mark.parametrize("defines", [
    (), ("MAX=1", "MOVES=3"), ("BEFORE",), ("BEFORE", "MAX=3"),
    ("FLIGHTS",), ("FLIGHTS", "MAX=1", "MOVES=3"), ("FLIGHTS", *THREE)])
def test_no_more_than_max_are_in_flight(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_CLOSING",), ("BREAK_FIT",), ("BREAK_BACK",), ("BREAK_COUNT", "BEFORE", "MAX=3"),
    ("BREAK_LOOK", "BEFORE"), ("BREAK_FENCE_4",), ("BREAK_FENCE_C",), ("BREAK_READ",),
    ("FLIGHTS", "BREAK_CLOSING"), ("FLIGHTS", "BREAK_FIT"), ("FLIGHTS", "BREAK_COUNT", *THREE),
    ("FLIGHTS", "BREAK_LIFE"), ("FLIGHTS", "BREAK_FENCE_4"), ("FLIGHTS", "BREAK_FENCE_C")])
def test_each_part_of_it_is_needed(broken, errors):
    assert errors(*broken)
