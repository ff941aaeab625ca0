"""The measured limits of src/algo/measured/estimators.h against their models: every bit of the state, in every step."""

import os
import pathlib
import random
import subprocess

import pytest
from hypothesis import given, settings, strategies as st
from models import adaptive

BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", "build"))
PROBE = BUILD / "tests/model/adaptive_samples"
MS = 10**6
SECOND = 10**9
SAMPLES = 2000
EXTREMES = [0, 1, 2**25 - 1, 2**25, 2**40 - 1, 2**40, 2**63, 2**64 - 1]


class Served:
    """A server whose workers, pace and spread change now and then, and one that is absurd."""

    def __init__(self, rng):
        self.rng = rng
        self.change()

    def change(self):
        rng = self.rng
        self.workers = rng.choice([1, 2, 5, 30, 300, 3000])
        self.mean_ns = rng.choice([1000, MS, 10 * MS, 3000 * MS])
        self.load = rng.choice([0.1, 0.7, 1, 3])
        self.draw = rng.choice([lambda: 1, lambda: rng.expovariate(1), lambda: rng.choice([0.1, 0.1, 5]),
                                lambda: 0])
        self.absurd = rng.random() < 0.1

    def sample(self, limit):
        rng = self.rng
        if rng.random() < 1 / 500:
            self.change()
        if self.absurd:
            return rng.choice(EXTREMES), rng.choice(EXTREMES)
        in_flight = max(1, min(limit, int(self.load * self.workers)))
        return int(self.mean_ns * (self.draw() + max(0, in_flight / self.workers - 1))), in_flight


def knee(model, rng, latency_ns, in_flight, now_ns):
    window = rng.choice([0, 0, 0, 0, 1, 1, 2, 200])
    dropped = int(rng.random() < (0.9 if now_ns // SECOND % 8 == 0 else 0.02))
    model.sample(latency_ns, in_flight, (model.window - window) % 256, dropped)
    return (dropped, 0, window), (model.count, model.sum, model.squares, model.flying, model.knee, model.base_ns,
                            model.limit, model.phase, model.streak, model.since, model.wait, model.window)


def gradient2(model, rng, latency_ns, in_flight, now_ns):
    model.sample(latency_ns, in_flight)
    return (0, 0, 0), (model.limit_parts, model.long, model.count)


def vegas(model, rng, latency_ns, in_flight, now_ns):
    dropped, draw = int(rng.random() < 0.02), rng.randrange(2**16)
    model.sample(latency_ns, in_flight, dropped, draw)
    return (dropped, draw, 0), (model.limit, model.least_ns, model.count, model.jitter)


def aimd(model, rng, latency_ns, in_flight, now_ns):
    dropped = int(rng.random() < 0.02)
    model.sample(latency_ns, in_flight, dropped)
    return (dropped, 0, 0), (model.limit,)


def bbr(model, rng, latency_ns, in_flight, now_ns):
    busy, asks = rng.choice([0, 500, 900, 1000, 1000]), rng.choice([0, 1, 2, in_flight, 2 * in_flight])
    asks = min(asks, 2**32 - 1)
    model.busy(now_ns, busy)
    model.sample(now_ns, max(latency_ns, 1))
    return (busy, asks, 0), (model.limit(now_ns), model.cpu, int(model.allows(now_ns, asks)), model.denied_ns)


METHODS = {"knee": (adaptive.Knee, knee), "gradient2": (adaptive.Gradient2, gradient2),
           "vegas": (adaptive.Vegas, vegas), "aimd": (adaptive.Aimd, aimd), "bbr": (adaptive.Bbr, bbr)}


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=max(settings.default.max_examples // 25, 5))
@given(seed=st.integers(0, 2**32))
def test_c_and_the_model_agree_in_every_bit(name, seed):
    rng = random.Random(seed)
    least = rng.choice([1, 1, 5, 20])
    bounds = rng.choice([least, 20, 100]), least, rng.choice([100, 200, 65535])
    make, step = METHODS[name]
    model, served, now_ns = make(*bounds), Served(rng), 10**18
    asked, expected = [], []
    for _ in range(SAMPLES):
        now_ns += rng.choice([0, 1000, MS, 20 * MS, 20 * MS])
        limit = model.limit(now_ns) if name == "bbr" else model.limit
        latency_ns, in_flight = served.sample(limit)
        given_more, state = step(model, rng, latency_ns, in_flight, now_ns)
        asked.append("%d %d %d %d %d %d\n" % (latency_ns, in_flight, *given_more, now_ns))
        expected.append(" ".join(map(str, state)))
    done = subprocess.run([PROBE, name, *map(str, bounds)], input="".join(asked), capture_output=True,
                          text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(expected)
    for number, (answer, state) in enumerate(zip(answers, expected)):
        assert answer == state, f"sample {number}: {asked[number]}"
