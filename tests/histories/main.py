"""
Plays histories, judges them, and shrinks those that fail.

    python tests/histories/main.py find --world memory --seeds 0:1000
    python tests/histories/main.py long --seconds 600
    python tests/histories/main.py table
    python tests/histories/main.py replay tests/histories/found/*.json
"""

import argparse
import contextlib
import itertools
import pathlib
import secrets
import sys
import time

import algorithms
import company
import drift
import generate as drawing
import history as format_of
import player as players
import shrink as shrinker
import worlds
from bounds import measured
from judge import Case, brief, judge

WORLDS = [*drawing.WORLDS, *worlds.WORLDS]


class Players:
    """Plays a history in virtual time, or with real servers, as its world asks."""

    def __init__(self, build=players.BUILD):
        self.build = build
        self.ends = contextlib.ExitStack()
        self._player = self._stage = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.close()

    @property
    def player(self):
        if self._player is None:
            self._player = self.ends.enter_context(players.Player(self.build))
        return self._player

    @property
    def stage(self):
        if self._stage is None:
            self._stage = self.ends.enter_context(worlds.Stage())
        return self._stage


def draw(world, seed):
    return (worlds if world in worlds.WORLDS else drawing).generate(world, seed)


def complaints_of(players_of, history):
    """The violations that a played history shows. An exit of the program is one, too."""
    if history.get("world") in worlds.WORLDS:
        return worlds.complaints_of(players_of.stage, history)
    player = players_of.player
    try:
        records = player.play(history)
        return [*judge(history, records), *drift.complaints(player, history, records),
                *company.complaints(player, history, records)]
    except players.Failed as failure:
        return [(len(history["ops"]), "failed", str(failure))]


def shortest(player, history, rule):
    """The shortest that breaks the same rule."""
    if history.get("world") in worlds.WORLDS:
        return worlds.shortest(player.stage, history, rule)
    return shrinker.shrink(history, lambda other: any(
        rule == found for _, found, _ in complaints_of(player, other)))


def describe(history, complaints):
    return format_of.dump(history) + "".join(f"operation {i}: {rule}: {text}\n"
                                             for i, rule, text in complaints[:5])


def find(options, player):
    """Returns how many failed."""
    first, last = map(int, options.seeds.split(":"))
    end = time.monotonic() + options.seconds if options.seconds else None
    failed = played = 0
    rules = {}
    for seed in range(first, last):
        if end and time.monotonic() > end or failed >= options.most:
            break
        history = draw(options.world, seed)
        found = complaints_of(player, history)
        played += 1
        if not found or options.rule and options.rule not in {rule for _, rule, _ in found}:
            continue
        failed += 1
        rules.setdefault(found[0][1], []).append(seed)
        if options.quiet:
            for rule in dict.fromkeys(rule for _, rule, _ in found):
                i, _, text = next(one for one in found if one[1] == rule)
                print(f"{options.world} {seed}: operation {i}: {rule}: {text[:150]}", flush=True)
            continue
        short = shortest(player, history, options.rule or found[0][1])
        text = describe(short, complaints_of(player, short))
        print(f"--- {options.world} {seed}\n{text}", flush=True)
        if options.keep:
            path = pathlib.Path(options.keep) / f"{options.world}-{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(format_of.dump(short), encoding="utf-8")
    print(f"{played} histories of {options.world}, {failed} failed", flush=True)
    return failed


def long(options, player):
    """All worlds in turn, with seeds that were never played."""
    first = secrets.randbelow(10**9)
    end = time.monotonic() + options.seconds
    failed = played = 0
    print(f"seeds from {first} on", flush=True)
    while time.monotonic() < end and failed < options.most:
        for world in WORLDS:
            history = draw(world, first + played)
            found = complaints_of(player, history)
            if found:
                failed += 1
                short = shortest(player, history, found[0][1])
                # A failure of real servers may need luck.
                complaints = complaints_of(player, short) or [*found, (0, "rare", "it did not fail again")]
                print(f"--- {world} {first + played}\n{describe(short, complaints)}", flush=True)
        played += 1
    print(f"{played} histories of each of {len(WORLDS)} worlds, {failed} failed", flush=True)
    return failed


# The table of docs/distributed.md: a fault and a policy, what they are, and the bound.
ROWS = [
    ("Redis accepts no connection, or connections end before the answer", ["down", "cut"], ["local"], "2 bursts"),
    ("Redis hangs, or answers after `store_timeout`", ["late", "hang"], ["local"], "2 bursts"),
    ("each of these", ["down", "cut", "late", "hang"], ["closed"], "1 burst"),
    ("each time that Redis loses its data", ["flush"], ["local", "closed"], "1 burst more"),
]
COLUMNS = [[name for name in drawing.BOUNDED if algorithms.ALGORITHMS[name].bound == kind]
           for kind in ("bucket", "window")] + [drawing.PACED]
COUNT = 40  # histories of each fault, policy and algorithm, at most
ALL = 1


def rows(player, count=COUNT):
    """Lines of the table: beside each bound what passed at most, as a part of it."""
    for fault, kinds, policies, bound in ROWS:
        parts = [most(part_of(player, *cell, seed) for seed in range(count)
                      for cell in itertools.product(kinds, policies, column)) for column in COLUMNS]
        texts = [f"{bound} ({'all' if part == ALL else format(part, '.2f')})" for part in parts]
        policy = f"`{policies[0]}`" if len(policies) == 1 else "each"
        yield f"| {fault} | {policy} | " + " | ".join(texts) + " |"


def most(parts):
    """Looks no further when it is all."""
    found = 0
    for part in parts:
        found = max(found, part)
        if found > 0.995:
            return ALL
    return found


def part_of(player, kind, policy, algorithm, seed):
    history = drawing.generate("faults", seed, kind=kind, policy=policy, algorithm=algorithm)
    is_hit = kind != "flush" or any(op["do"] == "flush" for op in history["ops"])
    return is_hit and measured(Case(history, player.player.play(history))) or 0


def table(options, player):
    for line in rows(player, options.count):
        print(line, flush=True)
    return 0


def replay(options, player):
    failed = 0
    for path in options.files:
        history = format_of.load(path)
        if options.trace:
            for record in player.player.play(history):
                print(record["op"], record["answer"], {pair: brief(state) for pair, state in record["state"].items()})
        found = complaints_of(player, history)
        failed += bool(found)
        print(f"{path}: {'passed' if not found else ''}")
        for i, rule, text in found[:5]:
            print(f"  operation {i}: {rule}: {text}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=players.BUILD)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("find")
    one.add_argument("--world", choices=WORLDS, default="memory")
    one.add_argument("--seeds", default="0:1000", help="FIRST:END")
    one.add_argument("--seconds", type=float, help="stop after so long")
    one.add_argument("--most", type=int, default=1, help="stop after so many failures")
    one.add_argument("--rule", help="only failures of this rule of the judge")
    one.add_argument("--quiet", action="store_true", help="do not shrink; print a line for each failure")
    one.add_argument("--keep", help="write the shortest histories into this folder")
    one.set_defaults(run=find)
    one = commands.add_parser("long")
    one.add_argument("--seconds", type=float, required=True)
    one.add_argument("--most", type=int, default=5, help="stop after so many failures")
    one.set_defaults(run=long)
    one = commands.add_parser("table")
    one.add_argument("--count", type=int, default=COUNT, help="histories of each fault, policy and algorithm")
    one.set_defaults(run=table)
    one = commands.add_parser("replay")
    one.add_argument("files", nargs="+")
    one.add_argument("--trace", action="store_true")
    one.set_defaults(run=replay)
    options = parser.parse_args()
    with Players(options.build) as player:
        return 1 if options.run(options, player) else 0


if __name__ == "__main__":
    sys.exit(main())
