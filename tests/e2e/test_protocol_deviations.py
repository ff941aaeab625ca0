"""Where CL.THROTTLE and THROTTLE differ from redis-cell and throttlecrab, they reply as docs/protocols.md says.

The tests check the last column of its table; the replies of the others were observed by sending them the same.
"""

import pytest
from harness import Wire

YEAR = 365 * 86400
ERROR = "error"

# Rows of the table: commands on one key, without their key, and the replies of Weir.
ROWS = [
    ("quantity 0 on a used-up key", [
        ("CL.THROTTLE", (2, 1, 3600, 3), [0, 3, 0, -1, 10800]),
        ("CL.THROTTLE", (2, 1, 3600, 0), [1, 3, 0, 3600, 10800]),
        ("THROTTLE", (3, 1, 3600, 0), [0, 3, 0, 10800, 3600])]),
    ("quantity 0 on a fresh key", [
        ("CL.THROTTLE", (2, 1, 3600, 0), [0, 3, 3, -1, 0]),
        ("THROTTLE", (3, 1, 3600, 0), [1, 3, 3, 0, 0])]),
    ("negative quantity", [
        ("CL.THROTTLE", (2, 1, 3600, -1), ERROR), ("THROTTLE", (3, 1, 3600, -1), ERROR)]),
    ("quantity above the burst", [
        ("CL.THROTTLE", (2, 1, 3600, 4), [1, 3, 3, -1, 0]),
        ("THROTTLE", (3, 1, 3600, 4), [0, 3, 3, 0, 1]),
        ("CL.THROTTLE", (2, 1, 3600), [0, 3, 2, -1, 3600])]),
    ("burst of 1 in CL.THROTTLE", [
        ("CL.THROTTLE", (0, 1, 3600), [0, 1, 0, -1, 3600]),
        ("CL.THROTTLE", (0, 1, 3600), [1, 1, 0, 3600, 3600])]),
    ("burst of 1 in THROTTLE", [
        ("THROTTLE", (1, 1, 3600), [1, 1, 0, 3600, 0]),
        ("THROTTLE", (1, 1, 3600), [0, 1, 0, 3600, 3600])]),
    ("max_burst out of range", [
        ("CL.THROTTLE", (-1, 1, 60), ERROR), ("THROTTLE", (0, 1, 60), ERROR)]),
    ("count or period of 0 or less", [
        (name, words, ERROR) for name in ("CL.THROTTLE", "THROTTLE")
        for words in ((1, 0, 60), (1, 1, 0), (1, -1, 60), (1, 1, -1))]),
    ("more than a million per second", [
        ("CL.THROTTLE", (5, 2_000_000, 1, 0), [0, 6, 6, -1, 0]),
        ("CL.THROTTLE", (5, 2_000_000_000, 1, 0), [0, 6, 6, -1, 0]),
        ("THROTTLE", (6, 2_000_000_000, 1, 0), [1, 6, 6, 0, 0])]),
    ("largest numbers", [
        ("CL.THROTTLE", (2**32 - 1, 2**32, 1, 0), [0, 2**32, 2**32, -1, 0]),
        ("CL.THROTTLE", (2**32, 2**32, 1), ERROR), ("CL.THROTTLE", (1, 2**32 + 1, 1), ERROR),
        ("CL.THROTTLE", (15, 1, YEAR, 0), [0, 16, 16, -1, 0]),
        ("CL.THROTTLE", (16, 1, YEAR), ERROR), ("CL.THROTTLE", (1, 1, 367 * 86400), ERROR),
        ("THROTTLE", (2**63 - 1, 1, 1), ERROR)]),
    ("a number with a plus", [("CL.THROTTLE", ("+1", 1, 60), ERROR)]),
    ("reset after", [
        ("THROTTLE", (5, 1, 3600), [1, 5, 4, 3600, 0]),
        ("THROTTLE", (5, 1, 3600), [1, 5, 3, 7200, 0])]),
    ("a key asked for by both commands", [
        ("CL.THROTTLE", (4, 1, 3600), [0, 5, 4, -1, 3600]),
        ("THROTTLE", (5, 1, 3600), [1, 5, 3, 7200, 0])]),
]


@pytest.fixture
def wire(server):
    with Wire(server.resp) as wire:
        yield wire


def is_like(found, expected):
    """Whether a reply is the expected one; times may be a second shorter, as time passes between commands."""
    return len(found) == len(expected) and found[:3] == expected[:3] and all(
        wanted - 1 <= value <= wanted for value, wanted in zip(found[3:], expected[3:]))


@pytest.mark.parametrize("commands", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_deviation_is_as_documented(wire, key, commands):
    for name, words, expected in commands:
        reply = wire.command(name, key, *words)
        if expected is ERROR:
            assert reply.startswith(b"-ERR ") and b"expected " in reply, reply
        else:
            assert is_like(reply, expected), (reply, expected)


@pytest.mark.parametrize("name, retry", [("CL.THROTTLE", 3), ("THROTTLE", 4)])
def test_seconds_are_rounded_up_and_a_denial_never_says_0(wire, key, name, retry):
    reply = wire.command(name, key, 3, 2, 3, 3)  # one per 1.5 s
    assert reply[3 if name == "THROTTLE" else 4] == 5
    reply = []
    while not reply or reply[0] == (name == "THROTTLE"):
        reply = wire.command(name, f"{key}:fast", 1, 1000, 1)
    assert reply[retry] == 1


def test_a_key_is_any_bytes_up_to_1024(wire, key):
    for name in ("CL.THROTTLE", "THROTTLE"):
        long = (b"\xff\x00" + key.encode() + name.encode()).ljust(1024, b"x")
        assert len(wire.command(name, long, 9, 5, 3600)) == 5
        assert wire.command(name, long + b"x", 9, 5, 3600).startswith(b"-ERR expected a key of ")
