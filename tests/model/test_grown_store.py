"""A file store that has grown decides as its copy that has not, call by call."""

import ctypes
import json
import os
import random
import shutil
import subprocess
import time

import pytest
import weir
from permits import OUTCOMES, Permit, key_permit, key_refund, key_report, lib

S, HOUR = 10**9, 3600 * 10**9
KEYS = [f"key {n}".encode() for n in range(12)]
STEPS = 1500
SIZES = [300, 1500, 40000]


# Of each: the options, and the most time between two calls.
LIMITS = {
    "token_bucket": (weir.options(weir.TOKEN_BUCKET, 10, 1, weir.HOUR, 6), HOUR),
    "leaky_bucket": (weir.options(weir.LEAKY_BUCKET, 10, 1, weir.HOUR, 6), HOUR),
    "fixed_window": (weir.options(weir.FIXED_WINDOW, 10, 1, weir.HOUR, align=weir.FIRST_REQUEST), HOUR),
    "resetting_bucket": (weir.options(weir.RESETTING_BUCKET, 10, 1, weir.HOUR), HOUR),
    "pacer": (weir.options(weir.PACER, 10, 1, weir.HOUR, max_wait_ns=HOUR), HOUR),
    "leaky_queue": (weir.options(weir.LEAKY_QUEUE, 10, 1, weir.HOUR, 5), HOUR),
    "warm_up": (weir.options(weir.WARM_UP, 10, 1, weir.HOUR, max_wait_ns=HOUR), HOUR),
    "sliding_window": (weir.options(weir.SLIDING_WINDOW, 30, 1, weir.HOUR), HOUR // 5),
    "sliding_window of many": (weir.options(weir.SLIDING_WINDOW, 2**20, 1, weir.HOUR, slots=40), HOUR // 5),
    "sliding_counter": (weir.options(weir.SLIDING_COUNTER, 30, 1, weir.HOUR), HOUR // 5),
    "sliding_log": (weir.options(weir.SLIDING_LOG, 30, 1, weir.HOUR), HOUR // 5),
    "sliding_log of many": (weir.options(weir.SLIDING_LOG, 300, 1, weir.HOUR), HOUR // 50),
    "base": (weir.options(weir.BASE, 3, 1, weir.HOUR, base=5), HOUR),
    "concurrency": (weir.options(weir.CONCURRENCY, max=8, lease_ns=60 * S), 20 * S),
    "breaker": (weir.options(weir.BREAKER, **weir.own("breaker", minimum=5, sleep_ns=30 * S)), 5 * S),
    "breaker of calls": (weir.options(
        weir.BREAKER, **weir.own("breaker", minimum=5, calls=20, sleep_ns=30 * S)), 5 * S),
    "throttle": (weir.options(weir.THROTTLE), 5 * S),
    "adaptive": (weir.options(weir.ADAPTIVE, **weir.own("adaptive", permit_timeout_ns=20 * S)), 5 * S),
}


class Twin:
    """A table in a file, with the permits that are out."""

    def __init__(self, path, options):
        self.path, self.options, self.permits = path, options, []
        self.open()

    def open(self, capacity=0):
        self.table = weir.Table(capacity, str(self.path).encode())
        self.limit = weir.Limit(self.options)

    def close(self):
        del self.table, self.limit

    def call(self, operation, key, now, cost=1):
        return self.table.call(self.limit, key, operation, now, cost)

    def acquire(self, key, now, cost):
        raw, permit = weir.RawDecision(), Permit()
        assert key_permit(self.table.handle, self.limit.handle, key, cost, now,
                                       ctypes.byref(raw), ctypes.byref(permit)) == weir.OK
        if raw.allowed:
            self.permits.append((key, permit))
        return weir._plain(raw), permit.until_ns

    def give_back(self, which, now, how):
        key, permit = self.permits[which]
        words = self.table.handle, self.limit.handle, key, ctypes.byref(permit)
        if how != "refund":
            return key_report(*words, OUTCOMES.index(how), 0, now)
        raw = weir.RawDecision()
        status = key_refund(*words, now, ctypes.byref(raw))
        return status, weir._plain(raw) if status == weir.OK else None


def steps(rng, now, most_ns):
    """What to do with both, as functions of one of them; every permit is given back once or twice."""
    key = KEYS[min(rng.randrange(len(KEYS)), rng.randrange(len(KEYS)))]
    kind, cost = rng.random(), rng.choice([1, 1, 1, 2, 3])
    if kind < 0.5:
        return lambda twin: twin.acquire(key, now, cost)
    if kind < 0.85:
        which, how = rng.random(), rng.choice(["refund", "success", "failure", "failure"])
        return lambda twin: twin.permits and twin.give_back(int(which * len(twin.permits)), now, how)
    if kind < 0.95:
        return lambda twin: twin.call("peek", key, now)
    if kind < 0.98:
        return lambda twin: twin.call("refund", key, now, cost)
    return lambda twin: twin.call("reset", key, now)


def enlarge(path, capacity):
    done = subprocess.run([weir.BUILD / "weir", "store", "resize", path, "--capacity", str(capacity)],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize("name", LIMITS)
def test_a_store_that_has_grown_decides_as_one_that_has_not(name, tmp_path):
    seed = int(os.environ.get("WEIR_TEST_SEED", 1))
    rng, (options, most_ns) = random.Random(f"{seed} {name}"), LIMITS[name]
    print(f"WEIR_TEST_SEED={seed}")
    weir.Table(SIZES[0], str(tmp_path / "grown").encode())
    shutil.copy(tmp_path / "grown", tmp_path / "same")
    twins = [Twin(tmp_path / name, options) for name in ("grown", "same")]
    now = time.time_ns()
    for n in range(STEPS):
        now += rng.randrange(most_ns) if rng.random() < 0.2 else rng.randrange(S)
        step, found = steps(rng, now, most_ns), []
        for twin in twins:
            weir.lib.weir_seed(n)
            found.append(step(twin))
        assert found[0] == found[1], f"WEIR_TEST_SEED={seed}, step {n}"
        if n in (STEPS // 3, STEPS * 2 // 3):
            for twin in twins:
                twin.close()
            enlarge(tmp_path / "grown", SIZES[1 if n == STEPS // 3 else 2])
            for twin in twins:
                twin.open()
    assert twins[0].table.stats(now).capacity == SIZES[2]


def cells(path):
    """The sections in which there are cells, by their offsets."""
    done = subprocess.run([weir.BUILD / "weir", "store", "dump", path], capture_output=True, text=True,
                          check=True)
    return {json.loads(line)["section"] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", LIMITS)
def test_a_key_that_is_spent_leaves_the_former_table(name, tmp_path):
    weir.Table(SIZES[0], str(tmp_path / "state").encode())
    twin, now, found = Twin(tmp_path / "state", LIMITS[name][0]), time.time_ns(), []
    for later in (0, 0, 10 * 24 * HOUR):
        assert twin.call("acquire", b"key", now + later)["allowed"]
        twin.close()
        found.append(cells(twin.path))
        if len(found) == 1:
            enlarge(twin.path, SIZES[2])
        twin.open()
    (former,), (new,) = found[1:]
    assert former != new and new == (0 if found[0] == {0} else max(former, new))
