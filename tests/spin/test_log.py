"""sliding_log's head and row in every order of the steps on them: spin finds no
counterexample, and finds one as soon as something is left out."""

import pytest


@pytest.mark.parametrize("defines", [
    ("REFUNDS=2",), ("TIME=5",), ("REFUNDS=1", "TAKES=1", "COST2=1", "COST3=2"),
    ("RESETS=1", "TIME=5"), ("ACQUIRES=2", "TIME=5"), ("ACQUIRES=2", "COST=2", "COST1=2"),
    ("ACQUIRES=0", "REFUNDS=3", "COST1=2", "COST2=1"),
    ("REFUNDS=0", "TAKES=2", "COST2=2", "COST3=1")])
def test_what_is_in_use_counts_and_what_was_given_back_does_not(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_PLACE",), ("BREAK_TWICE", "ACQUIRES=0", "REFUNDS=2"),
    ("BREAK_MOVING", "ACQUIRES=0", "REFUNDS=2"), ("BREAK_LOOK", "ACQUIRES=2"),
    ("BREAK_SPENT", "TIME=5"), ("BREAK_GONE", "REFUNDS=2")])
def test_each_part_of_the_protocol_is_needed(broken, errors):
    assert errors(*broken)
