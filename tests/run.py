"""Builds everything in every form, runs every test, and counts.

Silent where all is well; the whole log of a step that fails. The last line is
`N passed, N failed`. Only the standard library: `make test` starts this before
the virtual environment exists.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
VENV = BUILD / "venv"
NODE = BUILD / "clients" / "node"
GO = BUILD / "clients" / "go"
TRAEFIK = BUILD / "clients" / "traefik"
H2SPEC = BUILD / "clients" / "h2spec"
NETHTTP = BUILD / "clients" / "nethttp"
PACER = BUILD / "clients" / "pacer"
GIN = BUILD / "clients" / "gin"
WORKERS = 2
E2E_WORKERS = 4  # they mostly wait
STEP_SECONDS = 900
RELEASE_SECONDS = 7200
BUILD_SECONDS = 3600  # also of packages: while the tests of another form run, on a busy machine

# Where each form of the build is, and how Meson is asked for it. With a sanitizer, optimizing more
# takes longer to build than the tests gain; -g1 has the lines that a report names, and no more.
# Warnings are the plain form's: with less optimization there are false ones.
FORMS = {
    "plain": (BUILD, ["-Dtests=enabled"]),
    "asan": (
        BUILD / "asan",
        ["-Dtests=enabled", "-Doptimization=1", "-Dwerror=false", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Db_lto=false",
         "-Dc_args=-g1 -fno-sanitize-recover=all -fno-omit-frame-pointer"],
    ),
    "tsan": (
        BUILD / "tsan",
        ["-Dtests=enabled", "-Doptimization=1", "-Dwerror=false", "-Db_sanitize=thread", "-Db_lundef=false", "-Db_lto=false",
         "-Dc_args=-g1"],
    ),
    # Of tests/check.py: optimizing as a whole takes longer than its tests.
    "check": (BUILD / "check", ["-Dtests=enabled", "-Db_lto=false"]),
    "fuzz": (
        BUILD / "fuzz",
        ["-Dtests=disabled", "-Dfuzz=true", "-Doptimization=1", "-Dwerror=false", "-Db_sanitize=address,undefined",
         "-Db_lundef=false", "-Db_lto=false", "-Dc_args=-g1 -fno-sanitize-recover=all"],
    ),
}


class Tally:
    """Counts, and prints one line per step."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def add(self, name, passed, failed, seconds, log=""):
        self.passed += passed
        self.failed += failed
        if failed and log:
            print(log.rstrip(), flush=True)
        print(f"{name:<16} {passed:5} passed {failed:3} failed {seconds:6.1f} s, at {self.cpu_seconds():6.1f} CPU s",
              flush=True)

    @staticmethod
    def cpu_seconds():
        """The CPU time of all ended processes, including builds in the background."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def run(command, env=None, timeout=STEP_SECONDS):
    """Returns (exit code, output)."""
    try:
        done = subprocess.run(
            [str(word) for word in command], cwd=ROOT, env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=timeout, check=False)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return 1, f"{output}\ntimed out after {timeout} s: {command[0]}"


# Links to the directories of temporary files, named by the process ids of the runs.
TEMPORARY = BUILD / "tmp"


def remove_temporary_files(run_id):
    link = TEMPORARY / run_id
    shutil.rmtree(link.resolve(), ignore_errors=True)
    link.unlink()


def make_temporary_directory():
    """Removes those of runs that have ended. Outside of the tree, since paths of sockets and messages with paths are short."""
    TEMPORARY.mkdir(parents=True, exist_ok=True)
    for link in TEMPORARY.iterdir():
        if not pathlib.Path("/proc", link.name).exists():
            remove_temporary_files(link.name)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="w"))
    directory.chmod(0o755)  # some tests run servers as other users
    (TEMPORARY / str(os.getpid())).symlink_to(directory)
    os.environ["TMPDIR"] = str(directory)


def go_program(folder, program):
    """As below, of a folder of tests/clients."""
    return program, [f"clients/{folder}/*"], [
        ["env", f"GOMODCACHE={BUILD / 'gomod'}", "sh", "-c",
         f"cd tests/clients/{folder} && go build -buildvcs=false -modcacherw -o '{program}' ."],
    ]


def gin_program(program):
    """As go_program: an application of gin, in which the middleware of the examples is a package."""
    source = program.with_suffix(".source")
    return program, ["clients/gin/*", "../examples/middleware/*.go"], [
        ["rm", "-rf", source],
        ["cp", "-r", "tests/clients/gin", source],
        ["mkdir", source / "weir"],
        ["cp", "examples/middleware/weir.go", "examples/middleware/weir_gin.go", source / "weir"],
        ["env", f"GOMODCACHE={BUILD / 'gomod'}", "sh", "-c",
         f"cd '{source}' && go vet ./... && go build -buildvcs=false -modcacherw -o '{program}' ."],
    ]


# What comes from registries, each from files under tests/, again when these have
# changed: (what it makes, the files, the commands). Node looks for packages in the
# folders above a program, so the programs are copied beside them.
PACKAGES = {
    "python packages": (VENV, ["requirements.txt"], [
        ["/usr/bin/python3", "-m", "venv", "--clear", VENV],
        [VENV / "bin" / "pip", "install", "--quiet", "-r", "tests/requirements.txt"],
    ]),
    "node packages": (NODE, ["clients/node/*"], [
        ["rm", "-rf", NODE],
        ["cp", "-r", "tests/clients/node", NODE],
        ["npm", "ci", "--prefix", NODE, "--ignore-scripts", "--no-audit", "--no-fund"],
    ]),
    "go packages": go_program("go", GO),
    "traefik's parts": go_program("traefik", TRAEFIK),
    "h2spec": go_program("h2spec", H2SPEC),
    "go's client of http": go_program("nethttp", NETHTTP),
    "go's pacer": go_program("pacer", PACER),
    "gin": gin_program(GIN),
}


def make_packages(name):
    """Returns (exit code, output)."""
    product, patterns, commands = PACKAGES[name]
    inputs = sorted(path for pattern in patterns for path in (ROOT / "tests").glob(pattern))
    stamp = product.with_suffix(".made")
    wanted = "".join(path.read_text() for path in inputs)
    if product.exists() and stamp.exists() and stamp.read_text() == wanted:
        return 0, ""
    product.parent.mkdir(parents=True, exist_ok=True)
    for command in commands:
        code, log = run(command, timeout=BUILD_SECONDS)
        if code:
            return code, log
    stamp.write_text(wanted)
    return 0, ""


def build(form, *prefix):
    """Returns (exit code, output). `prefix`: of the command that takes long."""
    directory, options = FORMS[form]
    env = {"CC": "clang"} if form == "fuzz" else {}
    verb = ["configure"] if (directory / "build.ninja").exists() else ["setup"]
    code, log = run(["meson", *verb, directory, *options], env)
    if code == 0:
        # Updates the build's description if it has changed, before its targets are listed.
        code, log = run(["ninja", "-C", directory, "build.ninja"])
    if code:
        return code, log
    return run([*prefix, "ninja", "-j", WORKERS, "-C", directory, *targets(form)], timeout=BUILD_SECONDS)


def introspect(form, what):
    _, listing = run(["meson", "introspect", f"--{what}", FORMS[form][0]])
    return json.loads(listing)


def unit_tests(form):
    """The programs that Meson knows as tests; for the thread sanitizer those of the suite `threads`."""
    return [test for test in introspect(form, "tests") if form != "tsan" or "weir:threads" in test["suite"]]


# The programs that the tests of a form do not use; of the other forms all are built.
UNUSED = {"asan": "/bench/|/tests/fuzz/", "tsan": "/bench/|/tests/histories/|/tests/fuzz/", "check": "/bench/|/tests/histories/"}


def targets(form):
    """What to build for the tests of a form: none stands for all."""
    if form not in UNUSED:
        return []
    files = {file for target in introspect(form, "targets") if target["build_by_default"]
             for file in target["filename"] if not re.search(UNUSED[form], file)}
    files -= {test["cmd"][0] for test in introspect(form, "tests")}
    files |= {test["cmd"][0] for test in unit_tests(form)}
    return sorted(os.path.relpath(file, FORMS[form][0]) for file in files)


class Builds:
    """Forms are built one after another, and each is tested while the next is built, with less haste."""

    def __init__(self, forms):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.results = {form: self.pool.submit(build, form, *(["nice"] if i else []))
                        for i, form in enumerate(forms)}
        self.reported = set()

    def has(self, form, tally):
        """Whether a form could be built; waits for it. A failure is reported once."""
        started = time.monotonic()
        code, log = self.results[form].result()
        if form not in self.reported:
            tally.add(f"{form} build", 0, int(code != 0), time.monotonic() - started, log)
        self.reported.add(form)
        return code == 0


def sanitizer_env(form):
    """Reports go to files, so that one in a daemon or a dying process is seen as well."""
    common = f"log_path={FORMS[form][0] / 'reports' / 'report'}:exitcode=99"
    if form == "asan":
        return {"ASAN_OPTIONS": f"{common}:detect_stack_use_after_return=1",
                "UBSAN_OPTIONS": f"{common}:print_stacktrace=1"}
    if form == "tsan":
        return {"TSAN_OPTIONS": f"{common}:halt_on_error=0:second_deadlock_stack=1",
                "WEIR_THREADS": "4"}
    return {}


# All that the leak sanitizer writes if the process is killed while it stops the threads to read their registers.
KILLED = re.compile(r"(==\d+==Unable to get registers from thread \d+\.\s*)*")


def take_reports(form):
    """The sanitizer reports since the last call, without those of processes that a test killed meanwhile."""
    found = sorted((FORMS[form][0] / "reports").glob("report.*"))
    texts = {path.name: path.read_text(errors="replace") for path in found}
    faults = [f"{name}:\n{text}" for name, text in texts.items() if not KILLED.fullmatch(text)]
    if len(faults) < len(found):
        print(f"{form}: {len(found) - len(faults)} reports of sanitizers in killed processes", flush=True)
    for path in found:
        path.unlink()
    return faults


def count_tap(code, output):
    """cmocka's TAP; a program that speaks no TAP is one test."""
    passed = len(re.findall(r"^ok \d", output, re.M))
    failed = len(re.findall(r"^not ok \d+(?! # SKIP)", output, re.M))
    if not passed and not failed:
        return (1, 0) if code == 0 else (0, 1)
    return passed, failed or int(code != 0)


def unit(form):
    """Returns (passed, failed, log)."""
    def one(test):
        env = {**test["env"], **sanitizer_env(form), "CMOCKA_MESSAGE_OUTPUT": "TAP"}
        code, output = run(test["cmd"], env, test["timeout"] * 4)
        return test["name"], *count_tap(code, output), output

    # Those that may take longest first, so that none of them is left alone in the end.
    tests = sorted(unit_tests(form), key=lambda test: -test["timeout"])
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(one, tests))
    log = "\n".join(f"--- {name}\n{output}" for name, _, failed, output in results if failed)
    return sum(r[1] for r in results), sum(r[2] for r in results), log


def pytest(form, paths, *flags, name=None, timeout=STEP_SECONDS):
    """Returns (passed, failed, log). `name`: of its report."""
    directory = FORMS[form][0]
    report = directory / f"{name or pathlib.Path(paths[0]).stem}.xml"
    report.unlink(missing_ok=True)
    env = {**sanitizer_env(form), "WEIR_BUILD": str(directory),
           "PYTHONDONTWRITEBYTECODE": "1",
           "HYPOTHESIS_STORAGE_DIRECTORY": str(BUILD / "hypothesis")}
    if form == "asan" and paths[0].startswith("tests/model"):
        # What is decided the plain form looks at for longer; this one at what the memory holds.
        env["WEIR_TEST_EXAMPLES"] = os.environ.get("WEIR_TEST_EXAMPLES", "60")
        env["WEIR_TEST_STORMS"] = os.environ.get("WEIR_TEST_STORMS", "1")
        # The library is loaded into an interpreter that knows nothing of sanitizers.
        _, runtime = run(["gcc", "-print-file-name=libasan.so"])
        env["LD_PRELOAD"] = runtime.strip()
        env["ASAN_OPTIONS"] += ":detect_leaks=0"
    if form == "asan" and paths[0].startswith("tests/histories"):
        env["WEIR_TEST_HISTORIES"] = os.environ.get("WEIR_TEST_HISTORIES", "0.1")
    code, log = run(
        [VENV / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "tmp_path_retention_count=1000",
         "--hypothesis-seed=1", "--junitxml", report, *flags, *paths], env, timeout)
    if not report.exists():
        return 0, 1, log
    suite = xml.parse(report).getroot().find("testsuite")
    total, skipped, *bad = (int(suite.get(name)) for name in ("tests", "skipped", "failures", "errors"))
    failed = sum(bad) or int(code != 0)
    return total - skipped - sum(bad), failed, log


def each_file(form, folders):
    """The files of pytest, some at a time. Returns (passed, failed, log)."""
    files = [path for folder in folders for path in sorted((ROOT / folder).glob("test_*.py"), reverse=True)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(lambda path: pytest(form, [str(path.relative_to(ROOT))]), files))
    return sum(r[0] for r in results), sum(r[1] for r in results), "\n".join(r[2] for r in results if r[1])


def each_test(form, *paths):
    """The tests of some files or a folder, some at a time: a few of them take most of the time."""
    return pytest(form, list(paths), "-n", str(WORKERS), "--maxschedchunk", "1")


def e2e(form):
    """All but those that need the machine for themselves, some files at a time."""
    return pytest(form, ["tests/e2e"], "-m", "not alone", "-n", str(E2E_WORKERS), "--dist", "loadfile",
                  "--no-loadscope-reorder")


def alone(form):
    return pytest(form, ["tests/e2e"], "-m", "alone", name="alone")


SEEDED_SECONDS = 3


def fuzz(form, seconds=None):
    """Every target, two at a time: new inputs for `seconds`, or else those of one seed for as many as
    SEEDED_SECONDS admit, so that a commit fails for what it changed and not by chance. Returns
    (passed, failed, log)."""
    directory = FORMS[form][0]
    longest = seconds or SEEDED_SECONDS
    targets = sorted(p for p in (directory / "tests" / "fuzz").glob("fuzz_*") if p.is_file())

    def one(program):
        name = program.name.removeprefix("fuzz_")
        # New inputs go to the first directory; the corpus in the tree is only read.
        found = directory / ("corpus" if seconds else "seeded") / name
        if not seconds:
            shutil.rmtree(found, ignore_errors=True)
        found.mkdir(parents=True, exist_ok=True)
        return program.name, *run(
            [program, f"-max_total_time={longest}", f"-seed={0 if seconds else 1}",
             "-max_len=4096", "-rss_limit_mb=1024",
             "-timeout=10", "-verbosity=0", f"-artifact_prefix={directory}/{name}-",
             found, ROOT / "tests" / "fuzz" / "corpus" / name], timeout=longest + 120)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(one, targets))
    log = "\n".join(f"--- {name}\n{output}" for name, code, output in results if code)
    failed = sum(code != 0 for _, code, _ in results)
    return len(results) - failed, failed, log


def histories(form, seconds):
    """New histories of all worlds, for so long. Returns (passed, failed, log)."""
    code, log = run([VENV / "bin" / "python", "tests/histories/main.py", "long", "--seconds", seconds],
                    {**sanitizer_env(form), "WEIR_BUILD": str(FORMS[form][0])}, timeout=seconds + 600)
    return int(code == 0), int(code != 0), log


def release(_):
    """Builds a release twice and tests all parts of it. Returns (passed, failed, log)."""
    return pytest("plain", ["tests/release"], name="release", timeout=RELEASE_SECONDS)


# Name, form, function, arguments. When the last of them run, nothing is built any more.
# It takes long, and few changes break it: a run without --only leaves it out.
RELEASE = ("release", "plain", release)
STEPS = [
    ("plain unit", "plain", unit),
    ("plain model", "plain", each_file, ["tests/house", "tests/spin", "tests/model"]),
    ("plain histories", "plain", each_test, "tests/histories"),
    ("plain e2e", "plain", e2e),
    ("asan unit", "asan", unit),
    ("asan model", "asan", each_file, ["tests/model"]),
    ("asan histories", "asan", each_test, "tests/histories"),
    ("asan e2e", "asan", e2e),
    ("tsan unit", "tsan", unit),
    ("tsan e2e", "tsan", e2e),
    ("fuzz", "fuzz", fuzz),
    ("fuzz histories", "plain", histories),
    ("plain alone", "plain", alone),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="run the steps whose name contains this, such as 'asan unit'")
    parser.add_argument("--fuzz-seconds", type=int,
                        help="fuzz each target with new inputs for so long")
    options = parser.parse_args()

    steps = [step for step in STEPS if not options.only or options.only in step[0]]
    steps += [RELEASE] if options.only == "release" else []
    make_temporary_directory()
    tally = Tally()
    builds = Builds(dict.fromkeys(form for _, form, *_ in steps))
    for name in PACKAGES:
        code, log = make_packages(name)
        if code:
            tally.add(name, 0, 1, 0, log)
    for name, form, step, *arguments in steps:
        if step is histories and not options.fuzz_seconds:
            continue
        if not builds.has(form, tally):
            continue
        if step in (fuzz, histories):
            arguments = [options.fuzz_seconds]
        take_reports(form)
        (FORMS[form][0] / "reports").mkdir(exist_ok=True)
        started = time.monotonic()
        passed, failed, log = step(form, *arguments)
        reports = take_reports(form)
        tally.add(name, passed, failed + len(reports), time.monotonic() - started,
                  "\n".join([log, *reports]))
    if not tally.failed:
        remove_temporary_files(str(os.getpid()))
    print(f"{tally.passed} passed, {tally.failed} failed", flush=True)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
