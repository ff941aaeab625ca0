"""The library for arm64, by Clang: it compiles without a warning, and its barriers are there.

Code for the base architecture, where a compare-and-swap is a pair of exclusive instructions and
later loads may pass it. Spin shows what goes wrong then (tests/spin, BREAK_FENCE).
"""

import concurrent.futures
import re
import subprocess

import pytest
from harness import BUILD, PATIENCE, ROOT, plain_build_only

pytestmark = [plain_build_only, pytest.mark.first]

HEADERS = "/usr/aarch64-linux-gnu/include"
CLANG = ["clang", "--target=aarch64-linux-gnu", "-isystem", HEADERS, "-march=armv8-a",
         "-mno-outline-atomics", "-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}/src",
         f"-I{ROOT}/include", f"-I{BUILD}/src/algo", "-Wall", "-Wextra",
         "-Wno-missing-field-initializers", "-Werror"]
# Only libweir: the readers of rule files need libyaml, and the server needs more.
SOURCES = [path for folder in ("base", "algo", "records", "table", "store", "wait", "engine", "api",
                                    "pool")
           for path in sorted((ROOT / "src" / folder).rglob("*.c"))] + [ROOT / "src/rules/model.c"]


def assembly(source, text=None, optimization="-O2"):
    done = subprocess.run([*CLANG, optimization, "-S", "-x", "c", "-o", "-", source], input=text, text=True,
                          capture_output=True, timeout=PATIENCE, check=False)
    return done.stdout, done.stderr


def test_the_library_compiles_for_arm64_without_a_warning():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # Clang warns of the same whether it optimizes or not.
        errors = [error for _, error in pool.map(lambda source: assembly(source, optimization="-O0"), SOURCES) if error]
    assert not errors, "\n".join(errors)


def fences(text):
    """For each full barrier "store" or "load": the last memory access before it."""
    last, found = "", []
    for line in text.splitlines():
        word = line.split()[0] if line.startswith("\t") and line.split() else ""
        if re.match(r"dmb\s+ish$", line.strip()):
            found.append(last)
        elif word.startswith(("stlx", "stx")):
            last = "store"
        elif word.startswith("ld") and "[sp" not in line:
            last = "load"
    return found


@pytest.mark.parametrize("source, barriers", [
    ("table/insert.c", 1),  # the claim, before step 2 reads
    ("wait/waitlist.c", 1), # the count of waiters, before the waiter tries again
    ("records/leases.c", 3), # an entry, before (4) reads; a header that is closing, before (c) reads, in two copies
])
def test_a_full_barrier_follows_each_store_that_must_precede_a_load(source, barriers):
    text, errors = assembly(ROOT / "src" / source)
    assert not errors
    assert fences(text).count("store") == barriers


def test_a_release_reads_the_number_of_waiters_behind_a_barrier():
    text, errors = assembly("-", '#include "wait/waitlist.h"\n'
                            "void probe(struct waitlist *const *p);\n"
                            "void probe(struct waitlist *const *p) { waitlist_wake(p, 1); }\n")
    assert not errors
    assert re.search(r"^probe:.*\n(?:(?!\tldar).*\n)*\tdmb\tish\n(?:.*\n)*?\tldar", text, re.M)
    text, errors = assembly(ROOT / "src/wait/waitlist.c")
    assert not errors
    assert re.search(r"^waitlist_wake_all:.*\n(?:(?!\tldar).*\n)*\tdmb\tish\n", text, re.M)
