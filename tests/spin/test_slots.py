"""sliding_window's header and record in every order of the steps on them: spin finds no
counterexample, and finds one as soon as something is left out."""

import pytest


@pytest.mark.parametrize("defines", [
    ("TIME=3", "S=3", "LIMIT=3"), ("TIME=1", "REFUNDS=1"), ("TIME=2", "RESETS=1"),
    ("TIME=2", "LEFT=1", "CLIENTS=3"), ("TIME=3", "LEFT=2", "S=3", "LIMIT=3")])
def test_no_grant_beyond_the_limit_is_made_none_is_lost_and_nobody_waits(defines, errors):
    assert not errors(*defines)


@pytest.mark.parametrize("broken", [
    ("BREAK_SEAL", "TIME=1", "LIMIT=3", "CLIENTS=4", "REFUNDS=1"),
    ("BREAK_LOOK", "TIME=2"), ("BREAK_SKIP", "TIME=2"), ("BREAK_BACK", "TIME=2"),
    ("BREAK_ORDER", "TIME=1", "REFUNDS=1"), ("BREAK_GUARD", "TIME=2", "LIMIT=3", "REFUNDS=1"),
    ("BREAK_RESET", "TIME=2", "LEFT=1", "CLIENTS=3")])
def test_each_part_of_the_protocol_is_needed(broken, errors):
    assert errors(*broken)
