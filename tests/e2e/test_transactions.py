"""MULTI and EXEC, commands on keys of CL.THROTTLE and THROTTLE, and numbers and names of connections."""

import re

import pytest
import redis
from harness import Wire, encode, until

HELD = """
limits:
  paced: { algorithm: pacer, rate: 3/m, slack: 0, max_wait: 10m }
  places: { algorithm: concurrency, max: 1, queue: 5, max_wait: 30s }
  login: { algorithm: token_bucket, rate: 10/h, burst: 10 }
rules:
  - { name: paced-by-ip, match: { path: /slow }, key: [ip], limits: [paced] }
"""


@pytest.fixture
def wire(server):
    with Wire(server.resp) as wire:
        yield wire


def transaction(wire, *commands):
    """Runs commands in a transaction; returns the replies of EXEC."""
    wire.send(b"".join(encode(*words) for words in [("MULTI",), *commands, ("EXEC",)]))
    assert wire.reply() == b"+OK"
    assert [wire.reply() for _ in commands] == [b"+QUEUED"] * len(commands)
    return wire.reply()


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_default_pipeline_of_redis_py_is_a_transaction(server, key, protocol):
    client = redis.Redis(port=server.resp, protocol=protocol)
    pipeline = client.pipeline()
    for _ in range(12):
        pipeline.execute_command("WEIR.ACQUIRE", "login", key)
    pipeline.execute_command("CL.THROTTLE", key, 9, 5, 3600)
    replies = pipeline.execute()
    assert [reply[0] for reply in replies] == [1] * 10 + [0] * 2 + [0]
    assert client.execute_command("WEIR.PEEK", "login", key)[2] == 0
    with client.pipeline() as watched:
        watched.watch(key)
        watched.multi()
        watched.execute_command("WEIR.RESET", "login", key)
        assert watched.execute()[0][2] == 10
    client.close()


def test_a_failing_command_stops_no_other_and_an_unknown_command_stops_all(wire, key):
    replies = transaction(
        wire, ("WEIR.ACQUIRE", "login", key), ("WEIR.ACQUIRE", "nosuch", key),
        ("WEIR.ACQUIRE", "login", key, "COST", 2))
    assert [replies[0][2], replies[2][2]] == [9, 7]
    assert replies[1] == b"-ERR expected the name of a limit, found 'nosuch'"
    wire.send(encode("MULTI") + encode("WEIR.ACQUIRE", "login", key) + encode("NOSUCH") +
              encode("EXEC"))
    assert wire.reply() == b"+OK"
    assert wire.reply() == b"+QUEUED"
    assert wire.reply() == b"-ERR unknown command 'NOSUCH'"
    assert wire.reply().startswith(b"-EXECABORT ")
    assert wire.command("WEIR.PEEK", "login", key)[2] == 7


def test_no_command_in_a_transaction_waits(serve):
    server = serve(config=HELD)
    with Wire(server.resp) as wire:
        paced = transaction(wire, *[("WEIR.ACQUIRE", "paced", "k")] * 2,
                            ("WEIR.ACQUIRE", "paced", "k", "WAIT", 3_600_000),
                            ("WEIR.CHECK", "path", "/slow", "ip", "k"))
        assert [reply[5] for reply in paced] == [b"ok"] + [b"wait_too_long"] * 3
        places = transaction(wire, *[("WEIR.ACQUIRE", "places", "k")] * 2)
        assert [reply[0] for reply in places] == [1, 0]
        assert wire.command("WEIR.REPORT", places[0][6], "success") == b"+OK"


def test_a_thousand_commands_fit_and_one_more_does_not(wire, key):
    words = ("CL.THROTTLE", f"{key}:" + "x" * 60, 999, 1, 3600)
    assert [reply[2] for reply in transaction(wire, *[words] * 1000)] == list(range(999, -1, -1))
    wire.send(encode("MULTI") + encode("PING") * 1001 + encode("EXEC"))
    replies = [wire.reply() for _ in range(1003)]
    assert replies[1001].startswith(b"-ERR expected a transaction of at most 1000 commands")
    assert replies[1002].startswith(b"-EXECABORT ")


def transaction_bytes(server):
    """The memory of queued commands in bytes."""
    return int(re.search(r"^weir_transactions_bytes (\d+)$", server.get("/metrics").text, re.M)[1])


def test_queued_commands_are_bounded_counted_and_freed(serve):
    server = serve()
    ends = {"EXEC": b"*2", "DISCARD": b"+OK", "RESET": b"+RESET", "QUIT": b"+OK", "ECHO": b"-ERR",
            None: None}
    assert transaction_bytes(server) == 0
    for end, reply in ends.items():
        with Wire(server.resp) as wire:
            wire.send(encode("MULTI") + encode("ECHO", b"x" * 60_000) * 2)
            assert [wire.reply() for _ in range(3)] == [b"+OK", b"+QUEUED", b"+QUEUED"]
            assert 120_000 < transaction_bytes(server) <= 131_072
            if end:
                wire.send(encode(end))
                assert wire.file.readline().startswith(reply)
                assert transaction_bytes(server) == 0
        until(lambda: transaction_bytes(server) == 0, "the queue of a closed connection to be freed")
    with Wire(server.resp) as wire:
        wire.send(encode("MULTI") + encode("ECHO", b"x" * 60_000) * 3 + encode("EXEC"))
        assert [wire.reply()[:9] for _ in range(5)] == [
            b"+OK", b"+QUEUED", b"+QUEUED", b"-ERR expe", b"-EXECABOR"]


def test_del_exists_and_ttl_of_keys_work_as_in_redis(wire, key):
    other = f"{key}:other"
    assert wire.command("DEL", key) == 0
    assert wire.command("TTL", key) == wire.command("PTTL", key) == -2
    assert wire.command("CL.THROTTLE", key, 9, 5, 3600)[2] == 9
    assert wire.command("THROTTLE", key, 10, 5, 3600)[2] == 8
    assert wire.command("CL.THROTTLE", other, 9, 5, 3600, 0)[2] == 10
    assert wire.command("EXISTS", key, key, other) == 2
    assert 1438 <= wire.command("TTL", key) <= 1440
    assert 1_430_000 <= wire.command("PTTL", key) <= 1_440_000
    assert wire.command("DEL", key, other, key) == 1
    assert wire.command("EXISTS", key) == 0
    assert wire.command("CL.THROTTLE", key, 9, 5, 3600)[2] == 9


def test_the_ttl_of_a_key_far_in_the_future_is_exact(wire, key):
    year = 365 * 86400
    assert wire.command("CL.THROTTLE", key, 15, 1, year, 16)[4] == 16 * year
    assert 16 * year - 10 <= wire.command("TTL", key) <= 16 * year
    assert wire.command("DEL", key) == 1


def test_commands_on_keys_do_not_affect_other_limits(wire, key):
    assert wire.command("WEIR.ACQUIRE", "login", key)[2] == 9
    assert wire.command("EXISTS", key) == wire.command("DEL", key) == 0
    assert wire.command("TTL", key) == -2
    assert wire.command("WEIR.PEEK", "login", key)[2] == 9


@pytest.mark.parametrize("name", ["CL.THROTTLE", "THROTTLE"])
def test_a_key_of_a_command_can_be_reset_by_the_name_of_the_command(server, wire, key, name):
    for _ in range(2):
        assert wire.command("CL.THROTTLE", key, 0, 1, 3600)[0] == 0
        assert wire.command("CL.THROTTLE", key, 0, 1, 3600)[0] == 1
        assert wire.command("WEIR.RESET", name, key) == [1, 0, 0, 0, 0, b"ok", b""]
    wire.command("CL.THROTTLE", key, 0, 1, 3600)
    assert server.post("/v1/reset", {"limit": name, "key": key}).json == {
        "allowed": True, "limit": name, "quota": 0, "remaining": 0, "retry_after_ms": 0,
        "reset_after_ms": 0, "reason": "ok"}
    assert wire.command("EXISTS", key) == 0
    for command in ("WEIR.ACQUIRE", "WEIR.PEEK", "WEIR.REFUND"):
        error = wire.command(command, name, key)
        assert error.startswith(b"-ERR ") and error.endswith(b"to peek, send quantity 0"), error


def test_every_connection_has_a_number_of_its_own(serve):
    server = serve("--threads", "2")
    wires = [Wire(server.resp) for _ in range(40)]
    numbers = [wire.command("CLIENT", "ID") for wire in wires]
    assert len(set(numbers)) == len(wires)
    assert 0 not in numbers
    wire, number = wires[-1], numbers[-1]
    assert wire.command("CLIENT", "INFO").startswith(b"id=%d " % number)
    assert wire.command("CLIENT", "LIST").startswith(b"id=%d " % number)
    greeting = wire.command("HELLO", 2)
    assert greeting[greeting.index(b"id") + 1] == number
    for wire in wires:
        wire.__exit__()


def test_all_databases_share_the_same_keys(server, key):
    for number in (0, 7, 100):
        client = redis.Redis(port=server.resp, db=number)
        left = client.execute_command("WEIR.ACQUIRE", "login", key)[2]
        client.close()
    assert left == 7


def test_integers_are_accepted_as_arguments(wire, key):
    wire.send(b"*5\r\n$8\r\nTHROTTLE\r\n$%d\r\n%s\r\n:3\r\n:6\r\n:+3600\r\n" % (
        len(key), key.encode()))
    assert wire.reply() == [1, 3, 2, 600, 0]
