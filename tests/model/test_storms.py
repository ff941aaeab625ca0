"""Storms of retries in front of an adaptive limit: when their cause is gone, the server recovers.

The program storm plays each seed in virtual time, with the library as the limit. The suite plays a
share of the seeds with 64 workers, which take long; WEIR_TEST_STORMS=200 plays all of them.
"""

import json
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", "build"))
STORM = BUILD / "tests/model/storm"
SEEDS = {4: 200, 16: 200, 64: 20}
LEAST = 0.9         # of the capacity, or of what is asked if that is less, 30 s after the cause has ended
# Of what the same limit does without a cause. With 4 workers ten seconds are few windows.
LEAST_OF_CALM = {4: 0.75, 16: 0.9, 64: 0.9}
COLLAPSED = 0.1


def play(limit, workers, seeds):
    done = subprocess.run([STORM, limit, str(workers), "0", str(seeds)], capture_output=True, text=True,
                          check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_usual(storm):
    """What one limit in flight fits well: nearly as much as the capacity, or mixed latencies, cost it more."""
    return storm["service"] != "bimodal" and storm["load"] != 0.95


@pytest.mark.parametrize("workers", SEEDS)
def test_no_storm_outlasts_its_cause(workers):
    for storm in play("adaptive", workers, int(os.environ.get("WEIR_TEST_STORMS", SEEDS[workers]))):
        assert storm["last"] >= LEAST_OF_CALM[workers] * storm["calm"], storm
        if workers > 4 and is_usual(storm):
            assert storm["last"] >= LEAST, storm


@pytest.mark.skipif(BUILD.name == "asan", reason="nothing of Weir runs here")
def test_without_a_limit_the_same_storms_do():
    storms = [storm for storm in play("none", 16, SEEDS[16]) if storm["calm"] > LEAST]
    assert len(storms) > 20
    for storm in storms:
        assert storm["last"] < COLLAPSED, storm
