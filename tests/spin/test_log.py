"""sliding_log's header and record in every order of the steps on them: spin finds no
counterexample, and finds one as soon as something is left out."""

import pytest


def large(*defines):
    return pytest.param(defines, marks=pytest.mark.large)


# What the row is like as they come: one that was just given back, two or three of them.
ONE_GONE = ("ACQUIRES=0", "MARKED=1", "MOVERS=1")
TWO_GONE = ("ACQUIRES=0", "MARKED=2", "MOVERS=1", "ENTRIES=5", "SPAN=1")
THREE_GONE = ("ACQUIRES=0", "REFUNDS=0", "MARKED=3", "MOVERS=2", "ENTRIES=6", "COST2=1")
BEHIND_A_GREATER = (*ONE_GONE, "NAME=2", "ENTRIES=4", "COST1=2", "COST2=1")
OVERTAKEN = ("ACQUIRES=2", "REFUNDS=0", "TAKES=1", "TAKEN=2", "COST2=1")
# Of one that others follow a part is given back, as others are, whole.
PARTED = ("PARTED=2", "ENTRIES=3")
# Three that are taken one after the other, and go at once.
RUN = ("REFUNDS=0", "TAKES=1", "TAKEN=4", "ENTRIES=4", "COST2=1")
ROUND = ("REFUNDS=0", "TAKES=1", "TAKEN=3", "ENTRIES=6", "COST2=1", "AFTER")


@pytest.mark.parametrize("defines", [
    large("REFUNDS=2"), ("TIME=5",), large("REFUNDS=1", "TAKES=1", "COST2=1", "COST3=2"),
    ("RESETS=1", "TIME=5"), large("ACQUIRES=2", "TIME=4"), ("ACQUIRES=2", "COST=2", "COST1=2"),
    ("REFUNDS=0", "TAKES=2", "COST2=2", "COST3=1"), OVERTAKEN,
    large(*ONE_GONE, "REFUNDS=2", "NAME=2"), (*ONE_GONE, "REFUNDS=0", "TAKES=1", "TAKEN=2"),
    BEHIND_A_GREATER, (*TWO_GONE, "NAME=3"), THREE_GONE, ROUND, RUN,
    (*RUN, "ACQUIRES=0", "REFUNDS=1", "NAME=2"),
    (*PARTED, "NAME=1"), (*PARTED, "NAME=3"), (*PARTED, "ACQUIRES=2", "REFUNDS=0"),
    (*PARTED, "REFUNDS=0", "TAKES=1", "TAKEN=2", "COST3=2"), (*PARTED, "REFUNDS=0", "RESETS=1"),
    ("ACQUIRES=0", "PARTED=2", "ENTRIES=4", "NAME=3"),
    ("ACQUIRES=0", "PARTED=1", "COST1=3", "COST2=1", "NAME=2")])
def test_what_is_in_use_counts_and_what_was_given_back_does_not(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_ENTRY",), ("BREAK_LOOK", "ACQUIRES=2"), ("BREAK_SPENT", "TIME=5"),
    ("BREAK_RING", *ROUND), ("BREAK_MOVING", "ACQUIRES=0", "REFUNDS=2"),
    ("BREAK_TWICE", "ACQUIRES=0", "REFUNDS=2"),
    ("BREAK_TWICE", *ONE_GONE, "REFUNDS=0", "TAKES=1", "TAKEN=2"),
    ("BREAK_FOLLOW", *ONE_GONE, "NAME=2"),
    ("BREAK_LEFT", *TWO_GONE, "NAME=3"), ("BREAK_AGAIN", *THREE_GONE),
    ("BREAK_OVER", *THREE_GONE), ("BREAK_GONE", *OVERTAKEN),
    ("BREAK_RUN", *RUN), ("BREAK_REST", *PARTED, "ACQUIRES=0", "REFUNDS=0")])
def test_each_part_of_the_protocol_is_needed(broken, errors):
    assert errors(*broken)
