"""The model of clients and a server that they can overload, through the binding of bench/closed_loop.

Where queueing theory has a formula the model must agree with it.
"""

import ctypes
import pathlib
import subprocess
import sys

import pytest
import weir

BENCH = weir.ROOT / "bench/closed_loop"
sys.path.append(str(BENCH))

import controllers
import simulation
from simulation import MS, SECOND, Change, Retries, Server

PROBE = """
#include <stddef.h>
#include <stdio.h>
#include "simulate/closed_loop/backend.h"
int main(void)
{
%s
	printf("round trip %%llu\\n", (unsigned long long)BACKEND_ROUND_TRIP_NS);
	return 0;
}
"""
DISTRIBUTIONS = ["exponential", "constant", "bimodal", "mixed", "lucky"]


def test_every_struct_has_the_layout_of_the_header(tmp_path):
    expected, lines = {"round trip": simulation.ROUND_TRIP}, []
    for name, struct in simulation.STRUCTS.items():
        expected[name] = ctypes.sizeof(struct)
        lines.append(f'\tprintf("{name} %zu\\n", sizeof(struct {name}));')
        for field, *_ in struct._fields_:
            expected[f"{name}.{field}"] = getattr(struct, field).offset
            lines.append(f'\tprintf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
    source = tmp_path / "probe.c"
    source.write_text(PROBE % "\n".join(lines))
    subprocess.run(["cc", "-I", weir.ROOT / "include", "-I", weir.ROOT / "src", source, "-o", tmp_path / "probe"],
                   check=True, env={"PATH": "/usr/bin:/bin"})
    output = subprocess.run([tmp_path / "probe"], check=True, capture_output=True, text=True).stdout
    assert {name: int(value) for name, value in (line.rsplit(" ", 1) for line in output.splitlines())} == expected


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_mean_of_service_times_is_one(name):
    times = simulation.service_times(name, 100000)
    assert sum(times) / len(times) == pytest.approx(1, abs=0.06 if name == "mixed" else 0.02)


def answers_each_second(server, load, clients, seconds=40):
    run = simulation.run(server, controllers.Unlimited(), seconds * SECOND, load, clients)
    return sum(1 for when, _ in run.answers if when >= 4 * SECOND) / (seconds - 4)


def expected_answers(workers, mean_ns, clients, think_ns):
    """Of a closed loop whose service times are exponential: the machine repair problem."""
    shares = [1.0]
    for n in range(1, clients + 1):
        shares.append(shares[-1] * (clients - n + 1) * mean_ns / (think_ns * min(n, workers)))
    busy = sum(share * min(n, workers) for n, share in enumerate(shares)) / sum(shares)
    return busy * SECOND / mean_ns


@pytest.mark.parametrize("load", [0.5, 0.95, 1.5])
def test_queued_exponential_calls_as_the_machine_repair_problem_has_them(load):
    server = Server(4, "exponential", strain=0)
    think_ns = 20 * server.mean_ns / (load * 4)
    assert answers_each_second(server, load, 20) == pytest.approx(
        expected_answers(4, server.mean_ns, 20, think_ns), rel=0.03)


@pytest.mark.parametrize("service", ["exponential", "constant", "bimodal"])
def test_shared_calls_are_as_many_whatever_the_distribution_of_service_times(service):
    """Processor sharing depends on the mean alone."""
    server = Server(4, service, strain=0, shares=True)
    think_ns = 20 * server.mean_ns / (0.95 * 4)
    assert answers_each_second(server, 0.95, 20) == pytest.approx(
        expected_answers(4, server.mean_ns, 20, think_ns), rel=0.03)


def test_shared_calls_take_longer_by_the_number_of_those_beyond_the_workers():
    """20 calls of 10 ms at once with 4 workers take 5 times as long, and with a strain of 0.1 for each 4 more."""
    calls = [[latency for _, latency in simulation.run(
        Server(4, "constant", strain=strain, shares=True), controllers.Unlimited(), SECOND, 40, 20).answers]
        for strain in (0, 0.1)]
    for found, times in zip(calls, (5, 5 * 1.4)):
        assert sorted(found)[len(found) // 2] == pytest.approx(10 * MS * times, rel=0.15)


@pytest.mark.parametrize("shares", [False, True])
def test_without_a_limit_the_strain_lets_goodput_collapse_and_a_limit_keeps_it(shares):
    server = Server(16, "exponential", shares=shares)
    for limit, least, most in ((controllers.Unlimited(), 0.1, 0.2), (controllers.Fixed(20), 0.95, 1.02),
                               (controllers.Library(), 0.85, 1.02)):
        run = simulation.run(server, limit, 8 * SECOND)
        goodput = sum(1 for when, _ in run.answers if when >= 4 * SECOND) / 4 / 1600
        assert least < goodput < most, limit


def answered(run, from_s, to_s):
    return sum(run.answered[from_s * 100:to_s * 100]) / (to_s - from_s)


def test_changes_of_load_workers_and_service_time_take_effect_at_once():
    changes = [Change(8 * SECOND, load=0.8), Change(4 * SECOND, load=0.4), Change(12 * SECOND, load=2, workers=8),
               Change(16 * SECOND, workers=16, mean_ns=20 * MS), Change(20 * SECOND, mean_ns=10 * MS)]
    run = simulation.run(Server(16, "constant", strain=0), controllers.Fixed(40), 24 * SECOND, 0.2,
                         changes=changes)
    shares = [answered(run, second, second + 1) / 1600 for second in range(24)]
    for part, share in enumerate((0.2, 0.4, 0.8, 0.5, 0.5, 1)):
        for second in range(4 * part, 4 * part + 4):
            assert shares[second] == pytest.approx(share, abs=0.07), (part, second, shares)


def test_clients_that_wait_too_long_retry_and_their_calls_are_reported_as_timeouts():
    class Counting(controllers.Unlimited):
        timeouts = 0

        def report(self, now, latency, in_flight, then, outcome="success"):
            self.timeouts += outcome == "timeout"
            assert 0 < latency <= 200 * MS and (outcome == "success" or latency == 200 * MS)
            assert 1 <= in_flight <= 100 and 1 <= then <= 100  # of each client one at most

    counting = Counting()
    run = simulation.run(Server(4, "exponential"), counting, SECOND, 20, 100, retries=Retries())
    assert counting.timeouts > 100
    assert sum(run.asked) == sum(run.passed) == sum(run.answered) + counting.timeouts + len(run.calls)


def test_high_priority_passes_first():
    run = simulation.run(Server(16, "exponential"), controllers.Library(has_priorities=True), 8 * SECOND, 6.5,
                         high=1 / 13)
    late = slice(400, 800)
    high, all_asked = sum(run.high_asked[late]), sum(run.asked[late])
    assert high / all_asked == pytest.approx(1 / 13, rel=0.1)
    assert sum(run.high_passed[late]) / high > 0.97 and sum(run.passed[late]) / all_asked < 0.3


def test_a_seed_decides_everything():
    first, again, other = (simulation.run(Server(16, "bimodal", shares=True), controllers.Library(), SECOND,
                                          seed=seed).answers for seed in (7, 7, 8))
    assert first == again != other


def test_an_error_of_a_limit_ends_the_run():
    class Wrong(controllers.Unlimited):
        def report(self, now, latency, in_flight, then, outcome="success"):
            raise ArithmeticError("as a test")

    with pytest.raises(ArithmeticError):
        simulation.run(Server(4, "constant"), Wrong(), SECOND)


def test_the_experiments_print_a_table():
    done = subprocess.run([sys.executable, BENCH / "run.py", "--only", "spike", "--limits", "best,knee", "--seeds",
                           "1"], capture_output=True, text=True, check=True)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()
            if line.startswith("| ")][1:]
    assert [row[:2] for row in rows] == [[service, limit] for limit in ("best", "knee")
                                         for service in ("exponential", "constant", "bimodal")]
    for row in rows:
        assert float(row[3].rstrip("%")) > 75 and 0.9 < float(row[4]) < 2, row
