"""Commands over RESP and their replies. Periods are an hour or more, so that counts are exact."""

import pytest
from harness import Wire, encode


@pytest.fixture
def wire(server):
    with Wire(server.resp) as wire:
        yield wire


def test_cl_throttle_replies_as_redis_cell(wire, key):
    # burst 2 + 1, one per 600 s
    assert wire.command("CL.THROTTLE", key, 2, 6, 3600) == [0, 3, 2, -1, 600]
    assert wire.command("CL.THROTTLE", key, 2, 6, 3600, 2) == [0, 3, 0, -1, 1800]
    limited, limit, remaining, retry, reset = wire.command("CL.THROTTLE", key, 2, 6, 3600)
    assert (limited, limit, remaining) == (1, 3, 0)
    assert 590 <= retry <= 600
    assert 1790 <= reset <= 1800


def test_cl_throttle_of_what_can_never_pass_is_denied_with_minus_1(wire, key):
    assert wire.command("CL.THROTTLE", key, 2, 6, 3600, 4) == [1, 3, 3, -1, 0]


def test_cl_throttle_never_says_0_seconds_while_denied(wire, key):
    reply = [0]
    while reply[0] == 0:  # one per microsecond, so a denial ends long before a second
        reply = wire.command("CL.THROTTLE", key, 0, 1000, 1)
    assert reply[3] == 1


def test_throttle_replies_as_throttlecrab(wire, key):
    assert wire.command("THROTTLE", key, 3, 6, 3600) == [1, 3, 2, 600, 0]
    assert wire.command("THROTTLE", key, 3, 6, 3600, 2) == [1, 3, 0, 1800, 0]
    allowed, limit, remaining, reset, retry = wire.command("THROTTLE", key, 3, 6, 3600)
    assert (allowed, limit, remaining) == (0, 3, 0)
    assert 590 <= retry <= 600
    assert 1790 <= reset <= 1800


def test_acquire_peek_refund_and_reset_reply_with_the_same_seven_fields(wire, key):
    assert wire.command("WEIR.ACQUIRE", "login", key, "COST", 4) == [
        1, 10, 6, 0, 1440000, b"ok", b""]
    assert wire.command("weir.peek", "login", key, "cost", 6)[:4] == [1, 10, 6, 0]
    denied = wire.command("WEIR.ACQUIRE", "login", key, "COST", 10)
    assert denied[:3] == [0, 10, 6]
    assert 1430000 < denied[3] <= 1440000
    assert denied[5:] == [b"over_limit", b""]
    assert wire.command("WEIR.REFUND", "login", key, "COST", 3)[:4] == [1, 10, 9, 0]
    assert wire.command("WEIR.RESET", "login", key) == [1, 10, 10, 0, 0, b"ok", b""]


@pytest.mark.parametrize("limit", ["window", "reset"])
def test_the_last_request_of_a_window_hits_the_quota(wire, key, limit):
    replies = [wire.command("WEIR.ACQUIRE", limit, key) for _ in range(4)]
    assert [reply[5] for reply in replies] == [b"ok", b"ok", b"hit_quota", b"over_limit"]
    assert [reply[0] for reply in replies] == [1, 1, 1, 0]


def test_cost_0_consumes_nothing_and_answers_for_1(wire, key):
    assert wire.command("WEIR.ACQUIRE", "one", key, "COST", 0)[:3] == [1, 1, 1]
    assert wire.command("WEIR.ACQUIRE", "one", key)[:3] == [1, 1, 0]
    assert wire.command("WEIR.ACQUIRE", "one", key, "COST", 0)[:3] == [0, 1, 0]


def test_check_goes_through_the_rules_and_names_limit_and_rule(wire, key):
    reply = wire.command("WEIR.CHECK", "path", "/login", "ip", key)
    assert reply[:4] == [1, 10, 9, 0]
    assert reply[5:] == [b"ok", b"", b"login", b"login-by-ip"]
    assert wire.command("WEIR.PEEK", "login", key)[2] == 9


def test_checkpeek_replies_as_check_and_consumes_nothing(wire, key):
    attributes = ("path", "/login", "ip", key)
    for _ in range(2):
        seven = wire.command("WEIR.PEEK", "login", key)
        assert seven[:4] == [1, 10, 10, 0]
        assert wire.command("WEIR.CHECKPEEK", *attributes) == seven + [b"login", b"login-by-ip"]
    for _ in range(10):
        wire.command("WEIR.CHECK", *attributes)
    denied = wire.command("WEIR.CHECKPEEK", *attributes)
    assert denied[:3] == [0, 10, 0]
    assert denied[5:] == [b"over_limit", b"", b"login", b"login-by-ip"]


def test_check_is_allowed_if_no_rule_applies(wire):
    reply = wire.command("WEIR.CHECK", "path", "/elsewhere")
    assert reply[0] == 1
    assert reply[5:] == [b"ok", b"", b"", b""]


def test_keys_are_any_bytes(wire):
    for key in (b"\x00", b"\x00\x00", b"\r\n", b"\xff\xfe", b"a\r\nb"):
        assert wire.command("WEIR.ACQUIRE", "one", key)[0] == 1
        assert wire.command("WEIR.ACQUIRE", "one", key)[0] == 0


def test_pipelined_commands_are_answered_in_order(wire, key):
    wire.send(b"".join(encode("WEIR.ACQUIRE", "login", key) for _ in range(12)) + encode("PING"))
    replies = [wire.reply() for _ in range(13)]
    assert [reply[0] for reply in replies[:12]] == [1] * 10 + [0] * 2
    assert replies[12] == b"+PONG"


def test_inline_commands_are_answered(wire, key):
    wire.send(b"PING\r\nWEIR.ACQUIRE login %s COST 2\n" % key.encode())
    assert wire.reply() == b"+PONG"
    assert wire.reply()[2] == 8


def test_hello_changes_the_greeting_to_a_map_and_back(wire):
    wire.send(encode("HELLO", 3) + encode("HELLO", 2) + encode("QUIT"))
    answer = wire.rest()
    assert answer.startswith(b"%7\r\n")
    assert b"*14\r\n" in answer


ERRORS = [
    ("NOSUCH",),
    ("WEIR.ACQUIRE",),
    ("WEIR.ACQUIRE", "login"),
    ("WEIR.ACQUIRE", "nosuch", "k"),
    ("WEIR.ACQUIRE", "login", "k", "COST"),
    ("WEIR.ACQUIRE", "login", "k", "COST", "x"),
    ("WEIR.ACQUIRE", "login", "k", "COST", "-1"),
    ("WEIR.ACQUIRE", "login", "k", "COST", "1.5"),
    ("WEIR.ACQUIRE", "login", "k", "COST", "99999999999999999999999"),
    ("WEIR.ACQUIRE", "login", "k", "COST", "11"),
    ("WEIR.ACQUIRE", "login", "k", "PRICE", "1"),
    ("WEIR.ACQUIRE", "login", b"k" * 1025),
    ("WEIR.CHECK", "path"),
    ("WEIR.CHECK", *[word for i in range(65) for word in (f"a{i}", "v")]),
    ("CL.THROTTLE", "k"),
    ("CL.THROTTLE", "k", "x", 1, 1),
    ("CL.THROTTLE", "k", -1, 1, 1),
    ("CL.THROTTLE", "k", 1, 0, 1),
    ("CL.THROTTLE", "k", 1, 1, 0),
    ("CL.THROTTLE", "k", 1, 1, -1),
    ("CL.THROTTLE", "k", 1, 1, 1, -1),
    ("CL.THROTTLE", "k", 2**63 - 1, 1, 1),
    ("CL.THROTTLE", "k", 1, 2**63 - 1, 1),
    ("CL.THROTTLE", "k", 1, 1, 2**63 - 1),
    ("CL.THROTTLE", "k", 2**64, 2**64, 2**64),
    ("CL.THROTTLE", b"k" * 1025, 1, 1, 1),
    ("THROTTLE", "k", 0, 1, 1),
    ("WEIR.ACQUIRE", "login", b"k" * 70_000),
]


@pytest.mark.parametrize("words", ERRORS, ids=lambda words: " ".join(map(str, words))[:40])
def test_a_bad_command_is_an_error_and_the_connection_stays_open(wire, key, words):
    wire.send(encode(*words) + encode("PING"))
    error = wire.reply()
    assert isinstance(error, bytes) and error.startswith(b"-ERR "), error
    assert wire.reply() == b"+PONG"
    assert wire.command("WEIR.ACQUIRE", "one", key)[0] == 1


FRAMING = [
    b"*-2\r\n", b"*x\r\n", b"*99999999999999999999\r\n", b"*1048577\r\n", b"*1\r\n:1x\r\n",
    b"*1\r\n$-1\r\n", b"*1\r\n$x\r\n", b"*1\r\n$99999999999999999999\r\n",
    b"*1\r\n$536870913\r\n", b"*1\r\n$4\r\nPINGxx", b"*1\r\n$4\r\nPING\n\n", b"*1\n$4\r\nPING\r\n",
]


@pytest.mark.parametrize("data", FRAMING, ids=repr)
def test_broken_framing_closes_the_connection_and_affects_no_other(server, wire, data):
    with Wire(server.resp) as bad:
        bad.send(data + b"\r\n" * 10)
        answer = bad.rest()
    assert answer.startswith(b"-ERR "), answer
    assert wire.command("PING") == b"+PONG"
