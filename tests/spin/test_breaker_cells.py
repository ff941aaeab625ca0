"""Spin searches every order of the steps on a breaker's cells: it finds no counterexample, and finds one
as soon as a step is left out."""

import pytest

HELD = ("PERMITS=2",)
AGAIN = (*HELD, "MINIMUM=1", "OPS=2")
LATER = (*HELD, "TIME=2")
PROBES = ("HALF_OPEN", *HELD, "PROBES=2", "IGNORES", "OPS=2")
ALL_DIE = ("HALF_OPEN", "PERMITS=1", "TIME=1", "LAST")


@pytest.mark.parametrize("defines", [
    HELD, (*HELD, "GOOD=1", "TIME=1"), AGAIN, LATER, PROBES,
    ("HALF_OPEN", "PERMITS=1", "TIME=3"), ALL_DIE])
def test_it_opens_once_loses_no_probe_and_is_never_stuck(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_SWAP", *HELD), ("BREAK_STRIPE", *HELD), ("BREAK_ORDER", *HELD), ("BREAK_MINIMUM", *HELD),
    ("BREAK_QUIESCENT", *HELD, "GOOD=2", "TIME=1"), ("BREAK_NAME", *AGAIN), ("BREAK_TWICE", *LATER),
    ("BREAK_FIRST", *PROBES), ("BREAK_PROBES", *PROBES), ("BREAK_LAST", *PROBES),
    ("BREAK_ENDED", *PROBES), ("BREAK_LOST", *ALL_DIE)])
def test_each_part_of_the_protocol_is_needed(broken, errors):
    assert errors(*broken)
