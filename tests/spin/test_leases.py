"""Spin searches every order of the steps that acquire and release permits: no more are in flight than
entries, no request is denied while an entry is free, and each part of the protocol is needed. COUNTED is
the same where one cell counts all permits."""

import pytest

THREE = ("CLIENTS=3", "ROUNDS=1")


@pytest.mark.parametrize("defines", [
    (), ("MAX=1", "MOVES=3"), ("BEFORE",), ("BEFORE", "MAX=3"),
    ("COUNTED",), ("COUNTED", "MAX=1", "MOVES=3"), ("COUNTED", *THREE)])
def test_no_more_than_max_are_in_flight(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_CLOSING",), ("BREAK_FIT",), ("BREAK_BACK",), ("BREAK_COUNT", "BEFORE", "MAX=3"),
    ("BREAK_READ_AGAIN", "BEFORE"), ("BREAK_FENCE_4",), ("BREAK_FENCE_C",), ("BREAK_READ",),
    ("COUNTED", "BREAK_CLOSING"), ("COUNTED", "BREAK_FIT"), ("COUNTED", "BREAK_COUNT", *THREE),
    ("COUNTED", "BREAK_LIFE"), ("COUNTED", "BREAK_FENCE_4"), ("COUNTED", "BREAK_FENCE_C")])
def test_each_part_of_it_is_needed(broken, errors):
    assert errors(*broken)
