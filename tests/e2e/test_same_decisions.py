"""The simulator, the library and a live server make the same decisions at the same times, for each algorithm."""

import ctypes
import json
import random
import subprocess
import sys
import threading
import time

import pytest
from harness import BUILD, ROOT, Http, one_thread, plain_build_only, weir
from test_simulate import S, START, decimal, ms_up

pytestmark = one_thread

sys.path.insert(0, str(ROOT / "tests" / "model"))

# A live server is asked 20 ms after the beginning of each fifth of a second, or a little later. No decision
# changes within 8 ms of that: no slot, window or third of a second ends, and the refill of
# 200 ms, 400 ms and so on is far from a whole unit. The time of a decision is computed from the rest
# of a window of hours whose middle is about now.
HOURS = min(range(25, 48), key=lambda hours: abs(time.time() / 3600 % hours / hours - 0.5))
CLOCK = f"  clock: {{ algorithm: fixed_window, rate: 1000000/{HOURS}h }}\n"
WINDOW_NS = HOURS * 3600 * S
ALGORITHMS = json.loads(subprocess.run(
    [BUILD / "tests" / "model" / "describe"], check=True, capture_output=True, text=True).stdout)
# Limits of other algorithms are their samples at the first rate, with as short a wait.
LIMITS = {
    "token_bucket": "rate: 11/1400ms, burst: 4",
    "leaky_bucket": "rate: 11/1400ms, capacity: 4",
    "fixed_window": "rate: 5/s",
    "resetting_bucket": "rate: 5/700ms",
    "sliding_window": "rate: 7/s, slots: 5",
    "sliding_log": "rate: 7/700ms",
    "pacer": "rate: 11/1400ms, slack: 2, max_wait: 191ms",
    "leaky_queue": "rate: 11/1400ms, capacity: 1",
    "random": "deny: 0.3",
    "sliding_counter": "rate: 3/s",
    "base": "base: 4, rate: 3/700ms",
    "concurrency": "max: 6, lease: 700ms",
    "breaker": "max_concurrent: 6, permit_timeout: 700ms, minimum: 1000000",
    "throttle": "window: 28s, permit_timeout: 700ms, minimum: 1000000",
    "adaptive": "min: 6, max: 6, permit_timeout: 700ms",
}
LIMITS |= {algorithm["name"]: algorithm["sample"].replace("100/m", "11/1400ms")
           + (", max_wait: 191ms" if algorithm["paced"] else "")
           for algorithm in ALGORITHMS if algorithm["name"] not in LIMITS}
BY_DRAWS = ("random", "throttle")  # random, so denials are not certain, and there are none before `minimum`
# Their requests are reported, which this log does not contain, so the library decides them.
NOT_SIMULATED = {algorithm["name"] for algorithm in ALGORITHMS if algorithm["is_reported"]}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n" + "".join(
        f"  {name}: {{ algorithm: {name}, {parameters} }}\n" for name, parameters in LIMITS.items()))
    return path


def simulated(config, trace, number):
    """{limit: decisions} of the simulator for a trace of (time in ns, key, cost)."""
    (config.parent / "trace").write_text(
        "time,user,cost\n" + "".join(f"{decimal(t)},{k},{c}\n" for t, k, c in trace))
    out = config.parent / f"decisions-{number}"
    done = weir("simulate", "-c", config, "--trace", config.parent / "trace", "--key", "user",
                "--decisions", out, "--json")
    assert done.returncode == 0, done
    by_limit = {name: [] for name in LIMITS if name not in NOT_SIMULATED}
    for line in out.read_text().splitlines():
        decision = json.loads(line)
        by_limit[decision["limit"]].append(decision)
    return by_limit


COSTS = (1, 2, 1)
EXACT = ("allowed", "remaining", "reason")
TIMES = ("retry_after_ms", "reset_after_ms", "wait_ms")


class Library:
    """The limits of a file, in a table."""

    def __init__(self, text):
        import weir as binding  # imported here since Python cannot load a library with a sanitizer

        self.binding, lib = binding, binding.lib
        rules = ctypes.CDLL(str(BUILD / "src" / "libweir_rules.so"))
        self.config, self.engine = ctypes.c_void_p(), ctypes.c_void_p()
        self.table = binding.Table()
        assert rules.weir_config_read_yaml(
            text, ctypes.c_size_t(len(text)), None, ctypes.byref(self.config), None) == 0
        assert lib.weir_engine_open(
            self.config, self.table.handle, ctypes.byref(self.engine), None) == 0
        lib.weir_engine_limit.restype = self.handle_type = ctypes.c_void_p

    def close(self):
        self.binding.lib.weir_engine_close(self.engine)
        self.binding.lib.weir_config_close(self.config)

    def decide(self, limit, key, now, cost):
        handle = self.binding.lib.weir_engine_limit(
            self.engine, limit, ctypes.c_size_t(len(limit)))
        decision = self.binding.RawDecision()
        assert self.binding.lib.weir_acquire(
            self.table.handle, handle, self.binding.Key(key, len(key)), cost, now, ctypes.byref(decision)) == 0
        return decision

    def answer(self, d):
        """The fields of a decision as in a server's answer."""
        fields = {
            "allowed": d.allowed, "remaining": d.remaining, "retry_after_ms": ms_up(d.retry_after_ns),
            "reset_after_ms": ms_up(d.reset_after_ns),
            "reason": self.binding.lib.weir_reason_text(d.reason).decode()}
        return fields | {"wait_ms": ms_up(d.wait_ns)} if d.paced else fields


@pytest.fixture
def library(config):
    made = Library(config.read_bytes())
    yield made
    made.close()


@plain_build_only
def test_the_library_and_the_simulator_agree_in_all_fields(config, library):
    chance, now, trace = random.Random(11), START * S, []
    for _ in range(3000):
        now += chance.choice([0, 0, 1, chance.randrange(S // 30), chance.randrange(S // 2), S // 5, 3 * S])
        trace.append((now, chance.choice("ab"), chance.choice([1, 1, 2])))
    for name, decisions in simulated(config, trace, 0).items():
        library.binding.lib.weir_seed(1)  # the seed of the simulator
        for (at, key, cost), line in zip(trace, decisions, strict=True):
            d = library.decide(name.encode(), key.encode(), at, cost)
            expected = library.answer(d)
            assert {field: line.get(field) for field in expected} == expected, (name, line)
            assert ("wait_ms" in line) == d.paced
        assert {line["allowed"] for line in decisions} == {True, False}, name


def ask_live(server, limit, key, delay_ns, asked):
    """Sends three requests in one batch each fifth of a second; records the earliest and latest time of each."""
    begin = (time.time_ns() // S + 1) * S + 20_000_000 + delay_ns
    batch = json.dumps([{"limit": "clock", "key": key + limit},
                        *({"limit": limit, "key": key, "cost": cost} for cost in COSTS)])
    with Http(server.http) as client:
        for turn in range(7):
            time.sleep(max(begin + turn * S // 5 - time.time_ns(), 0) / S)
            clock, *answers = client.request("POST", "/v1/batch", batch).json
            # Suspended answers are sent at the last turn, and their times count from then.
            # All times in answers are rounded up.
            held = max([answer["wait_ms"] for answer in answers
                        if answer["allowed"] and "wait_ms" in answer], default=0)
            end = (begin // WINDOW_NS + 1) * WINDOW_NS
            before = end - (clock["reset_after_ms"] + held) * 10**6
            for answer in answers:
                answer["held_ms"] = max(held - 1, 0)
            asked.append((before, before + (2 if held else 1) * 10**6, answers))


def replays(config, library, asked):
    """The decisions if all requests arrived at their earliest time, at their latest time, or alternately."""
    for number, late in enumerate(([0, 0], [1, 1], [0, 1], [1, 0])):
        trace = sorted(((request[late[i % 2]], limit, cost)
                        for limit, requests in asked.items() for i, request in enumerate(requests)
                        for cost in COSTS), key=lambda request: request[0])
        decisions = simulated(config, trace, number)
        for name in NOT_SIMULATED:
            decisions[name] = [
                {"key": limit} | library.answer(library.decide(name.encode(), b"%d" % number, at, cost))
                for at, limit, cost in trace if limit == name]
        yield {limit: [d for d in decisions[limit] if d["key"] == limit] for limit in asked}


@plain_build_only
@pytest.mark.alone  # late decisions prove nothing
def test_a_live_server_decides_as_the_simulator_replays_it(serve, config, library):
    """
    A decision's time is known to the millisecond. If the time within the millisecond matters, since the machine
    was slow, or if all decisions were the same, the requests are sent again.
    """
    text = config.read_text().replace("deny: 0.3", "deny: 1")  # the server's random numbers differ
    server = serve(config=text + CLOCK)
    config.write_text(text)  # the file keeps its name
    unsettled = list(LIMITS)
    for attempt in range(6):
        asked = {limit: [] for limit in unsettled}
        threads = [threading.Thread(target=ask_live, args=(
            server, limit, f"try-{attempt}", i * 1_000_000, asked[limit]))
            for i, limit in enumerate(reversed(unsettled))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        versions = list(replays(config, library, asked))
        for limit, requests in asked.items():
            width = max(after - before for before, after, _ in requests)
            found = [[tuple(d[field] for field in EXACT) for d in v[limit]] for v in versions]
            live = [answer for _, _, answers in requests for answer in answers]
            alike = len({answer["allowed"] for answer in live}) == 1 and limit not in BY_DRAWS
            if alike or any(version != found[0] for version in found):
                continue
            assert [tuple(a[field] for field in EXACT) for a in live] == found[0], limit
            apart = ms_up(width) + 1
            for i, answer in enumerate(live):
                for field in TIMES:
                    past = answer["held_ms"] if field == "reset_after_ms" else 0
                    times = [max(v[limit][i].get(field, 0) - past, 0) for v in versions]
                    assert min(times) - apart <= answer.get(field, 0) <= max(times) + apart, (limit, i, field)
            unsettled.remove(limit)
        if not unsettled:
            return
    pytest.fail(f"{unsettled}: either always decided alike, or each time at an instant that matters")
