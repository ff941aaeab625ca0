"""A denial that is not kept costs at most 3% more instructions than one of a server that keeps none.

Callgrind counts the instructions of a server with one thread that denies. Those of more and of fewer requests are
compared, so the start of the server is left out. Between two runs the result differs by about 0.1%.
"""

import json
import re

import pytest
from harness import Server, Wire, plain_build_only

pytestmark = plain_build_only

CONFIG = """
capacity: 1000
limits: { one: { algorithm: fixed_window, rate: 1/w } }
rules:
  - { name: by-user, match: { path: /login }, key: [user], limits: [one] }
  - { name: banned, match: { path: /banned }, answer: deny }
"""
REQUESTS = {"limit": {"limit": "one", "key": "ann"}, "rule": {"attributes": {"path": "/login", "user": "ann"}},
            "answer": {"attributes": {"path": "/banned"}}}
AT_ONCE = 16
FEW, MANY = 25, 250  # times AT_ONCE


def instructions_in_all(directory, denials, body, rounds):
    server = Server("--threads", "1", config=f"{CONFIG}denials: {{ {denials} }}\n", directory=directory,
                    account=("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"))
    request = f"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with Wire(server.http) as wire:
        for _ in range(rounds):
            wire.send(request * AT_ONCE)
            for _ in range(AT_ONCE):
                while not (line := wire.file.readline()).startswith(b"Content-Length: "):
                    assert line, "the server has closed the connection"
                while wire.file.readline() != b"\r\n":
                    pass
                assert b'"allowed":' in wire.file.read(int(line.split()[1]))
    assert server.stop() == 0
    return int(re.search(r": (\d+)", server.line_with("Collected"))[1])


def instructions_of_a_denial(directory, denials, body):
    few, many = (instructions_in_all(directory, denials, body, rounds) for rounds in (FEW, MANY))
    return (many - few) / ((MANY - FEW) * AT_ONCE)


@pytest.mark.parametrize("by", REQUESTS)
def test_a_denial_that_is_not_kept_costs_at_most_3_percent_more_instructions(tmp_path, by):
    body = json.dumps(REQUESTS[by])
    without, left_out = (instructions_of_a_denial(tmp_path, denials, body) for denials in ("keep: 0", "per_second: 0"))
    assert 5000 < without < 50_000
    assert left_out < 1.03 * without, (without, left_out)
