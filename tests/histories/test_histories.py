"""
Random histories, the same each time, and those that were found: what must hold in each (judge.py).

`main.py find` looks for new ones, `main.py replay` plays one again.
"""

import os
import pathlib

import pytest

import history as format_of
import main
from judge import judge

HERE = pathlib.Path(__file__).resolve().parent
FOUND = sorted((HERE / "found").glob("*.json"))
# How many of each world. With a sanitizer, fewer.
SHARE = float(os.environ.get("WEIR_TEST_HISTORIES", "1"))
WORLDS = {"memory": 3000, "file": 800, "breakers": 800, "company": 300, "overload": 40, "redis": 700, "uneven": 600, "mixed": 500, "adhoc": 1000, "chunks": 300, "refunds": 120,
          "faults": 300, "order": 60, "waits": 30, "outages": 40, "kills": 30, "access": 60, "balanced": 30, "recoveries": 20}


# Rules of the judge that do not hold yet in a world.
PENDING = {}


@pytest.fixture(scope="module")
def player():
    with main.Players() as one:
        yield one


def explain(player, history, rule):
    short = main.shortest(player, history, rule)
    return main.describe(short, main.complaints_of(player, short))


@pytest.mark.parametrize("world", WORLDS)
def test_every_history_keeps_the_rules(player, world):
    for seed in range(int(WORLDS[world] * SHARE)):
        history = main.draw(world, seed)
        found = [complaint for complaint in main.complaints_of(player, history)
                 if complaint[1] not in PENDING.get(world, ())]
        assert not found, f"{world} {seed}:\n" + explain(player, history, found[0][1])


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_what_was_found_once_is_mended(player, path):
    history = format_of.load(path)
    found = main.complaints_of(player, history)
    assert not found, main.describe(history, found)


@pytest.mark.skipif(SHARE < 1, reason="a sanitizer sees nothing more in so many alike histories")
def test_the_documented_bounds_are_those_that_histories_meet(player):
    text = (HERE.parent.parent / "docs" / "distributed.md").read_text(encoding="utf-8")
    for line in main.rows(player):
        assert line in text, f"docs/distributed.md should say\n{line}"


def test_a_judge_sees_what_is_wrong(player):
    """Answers that are changed by hand."""
    history = {"store": "memory", "servers": [{}], "keys": ["k"],
               "configs": [{"limits": {"a": {"algorithm": "token_bucket", "rate": "2/h"}}}],
               "ops": [{"do": "acquire", "id": 1, "limit": "a", "key": "k", "permit": True},
                       {"do": "acquire", "limit": "a", "key": "k"}, {"do": "acquire", "limit": "a", "key": "k"},
                       {"do": "pass", "ns": 10**9}, {"do": "refund", "of": 1}]}
    changes = {
        "shape": lambda records: records[2]["answer"].update(remaining=3),
        "peek": lambda records: records[1]["peek"].update(allowed=0),
        "denied": lambda records: records[3]["state"]["a", "k"].update(remaining=1),
        "grant": lambda records: records[1]["state"]["a", "k"].update(remaining=2),
        "bound": lambda records: records[3]["answer"].update(allowed=1, retry=0),
        "time": lambda records: records[4]["state"]["a", "k"].update(retry=10**15),
        "permit": lambda records: records[5]["state"]["a", "k"].update(remaining=2),
    }
    assert not judge(history, player.player.play(history))
    for rule, change in changes.items():
        records = player.player.play(history)
        change(records)
        assert rule in {found for _, found, _ in judge(history, records)}, rule
