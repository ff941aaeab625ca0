"""Builds what has changed, and runs what it most likely broke: in a minute and a half, once all is built.

All unit tests, the vectors, the models of the folders that were touched, and ten tests end to end. A folder
was touched if one of its files differs from the last commit, or, if no file does, if that commit changed it.
"""

import os
import subprocess
import sys
import time

import run

# The models of each folder of src/. CONTRIBUTING.md has the same table.
MODELS = {
    "base": "traps traces calendar",
    "algo": "traps traces estimators breaker_model calendar grown_store adaptive_model storms throttle_model warm_up",
    "records": "traps traces breaker_model grown_store adaptive_model",
    "table": "traps traces grown_store",
    "store": "traps traces breaker_model grown_store adaptive_model",
    "wait": "traps adaptive_model",
    "engine": "traps traces adaptive_model rules koala_engine",
    "api": "binding traps",
    "redis": "throttle_model votes",
    "rules": "rules koala_engine",
    "readers": "rules koala_engine",
}
EXAMPLES, STORMS = "100", "20"

# One for each protocol and store, and for what lives longer than a request.
END_TO_END = [
    "test_breaker_protocols.py::test_a_successful_probe_closes_the_breaker",
    "test_distributed.py::test_two_servers_share_exactly_one_limit",
    "test_http.py::test_attributes_go_through_the_rules",
    "test_http2.py::test_fifty_streams_are_answered",
    "test_koala.py::test_update_counts_and_saturates",
    "test_changed_parameters.py::test_a_permit_refunds_its_units_after_the_rate_was_lowered",
    "test_resp.py::test_pipelined_commands_are_answered_in_order",
    "test_store.py::test_a_server_continues_with_its_counts_after_a_kill",
    "test_throttlecrab.py::test_a_key_has_the_same_count_over_http_and_resp",
    "test_users.py::test_each_request_over_http_has_its_own_user",
]


def git(*words):
    done = subprocess.run(["git", *words], cwd=run.ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def touched():
    """The files that differ from the last commit, or else those that it changed."""
    changed = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return changed or git("show", "--name-only", "--format=", "HEAD")


def models(files):
    """The files of models for these, each once; a model that was touched is among them."""
    folders = {name.split("/")[1] for name in files if name.startswith("src/") and name.count("/") > 1}
    names = {name for folder in folders for name in MODELS.get(folder, "").split()} | {"vectors"}
    wanted = [f"tests/model/test_{name}.py" for name in sorted(names)]
    return wanted + [name for name in files if name.startswith("tests/model/test_") and name not in wanted]


def build():
    code, log = run.make_packages("python packages")
    if code == 0:
        code, log = run.build("check")
    return 0, int(code != 0), log


STEPS = {
    "build": build,
    "unit": lambda: run.unit("check"),
    "house": lambda: run.pytest("check", ["tests/house"]),
    "model": lambda: run.each_test("check", *models(touched())),
    "e2e": lambda: run.pytest("check", [f"tests/e2e/{test}" for test in END_TO_END], "-n", str(run.E2E_WORKERS),
                              name="e2e"),
}


def main():
    os.environ.setdefault("WEIR_TEST_EXAMPLES", EXAMPLES)
    os.environ.setdefault("WEIR_TEST_STORMS", STORMS)
    run.make_temporary_directory()
    tally = run.Tally()
    for name, step in STEPS.items():
        started = time.monotonic()
        passed, failed, log = step()
        tally.add(name, passed, failed, time.monotonic() - started, log)
        if name == "build" and failed:
            break
    if not tally.failed:
        run.remove_temporary_files(str(os.getpid()))
    print(f"{tally.passed} passed, {tally.failed} failed", flush=True)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
