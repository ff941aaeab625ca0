"""`weir store resize` keeps all counts, also if it is killed or the disk is full."""

import fcntl
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest
from harness import PATIENCE, WEIR, Wire, encode, one_thread, until, weir
from test_algorithms import ZONE
from test_store_owners import IDS, OTHER, SERVICE, command, serve_as, shared  # pylint: disable=unused-import
from test_store import change, dump, sections

SMALL, LARGE = 3000, 12000
LIMITS = f"""
limits:
  bucket: {{ algorithm: token_bucket, rate: 20/52w }}
  level: {{ algorithm: leaky_bucket, rate: 20/52w }}
  window: {{ algorithm: fixed_window, rate: 20/52w, align: first_request }}
  reset: {{ algorithm: resetting_bucket, rate: 20/52w }}
  slots: {{ algorithm: sliding_window, rate: 20/52w }}
  counter: {{ algorithm: sliding_counter, rate: 20/52w }}
  log: {{ algorithm: sliding_log, rate: 20/52w }}
  own: {{ algorithm: sliding_log, rate: 20/52w, keys: 500 }}
  daily: {{ algorithm: base, base: 10, rate: 10/30d, timezone: {ZONE} }}
  places: {{ algorithm: concurrency, max: 20, lease: 1d }}
  up: {{ algorithm: breaker, minimum: 3, sleep: 1d, permit_timeout: 1h, window: 2h }}
  accepts: {{ algorithm: throttle, window: 1h }}
  measured: {{ algorithm: adaptive, initial: 20, permit_timeout: 1h }}
"""
NAMES = [line.split(":")[0].strip() for line in LIMITS.splitlines()[2:]]
KEYS = [f"key{n}" for n in range(100)]


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def serve_file(serve):
    return lambda path, capacity, config=LIMITS: serve(
        "--store", f"file:{path}", "--capacity", str(capacity), config=config)


def ask(server, *commands):
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode(*words) for words in commands))
        return [wire.reply() for _ in commands]


def use(server):
    """Uses a part of each key's quota, a different one for each key."""
    ask(server, *(("WEIR.ACQUIRE", name, key, "COST", 1 + n % 7)
                  for name in NAMES for n, key in enumerate(KEYS)))


def left(server):
    """[(allowed, quota, remaining)] of all keys."""
    return [reply[:3] for reply in ask(server, *(("WEIR.PEEK", name, key) for name in NAMES for key in KEYS))]


def resize(path, capacity, *more):
    return weir("store", "resize", path, "--capacity", str(capacity), *more)


@pytest.fixture
def used(serve_file, state):
    server = serve_file(state, SMALL)
    use(server)
    assert server.stop() == 0
    return state


def test_all_algorithms_continue_with_their_counts(serve_file, used, tmp_path):
    shutil.copy(used, tmp_path / "twin")
    before = used.stat()
    done = resize(used, LARGE)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{used}: ok, capacity {LARGE}\n", "")
    assert weir("store", "check", used).returncode == 0
    assert used.stat().st_size > before.st_size and used.stat().st_mode == before.st_mode
    assert sorted(path.name for path in tmp_path.iterdir() if "state" in path.name) == ["state"]
    grown, twin = serve_file(used, LARGE), serve_file(tmp_path / "twin", SMALL)
    found = left(twin)
    assert left(grown) == found
    assert len({tuple(reply) for reply in found}) > 10
    rooms = {limit["name"]: limit["room"]["keys"] for limit in grown.get("/v1/limits").json}
    assert rooms["bucket"] == LARGE and rooms["slots"] == LARGE and rooms["own"] == 500
    for server in grown, twin:  # with keys that are new to both
        ask(server, *(("WEIR.ACQUIRE", name, key) for name in NAMES for key in KEYS[::2] + ["new"]))
    assert left(grown) == left(twin)
    assert grown.stop() == 0
    assert resize(used, 2 * LARGE).returncode == 0
    assert left(serve_file(used, 2 * LARGE)) == left(twin)


def test_other_parameters_after_a_resize_find_the_use_of_keys(serve_file, used, tmp_path):
    shutil.copy(used, tmp_path / "twin")
    assert resize(used, LARGE).returncode == 0
    config = LIMITS.replace("20/52w", "35/52w")
    grown, twin = serve_file(used, LARGE, config), serve_file(tmp_path / "twin", SMALL, config)
    assert left(grown) == left(twin)


def test_permits_stay_valid_and_are_released_once(serve_file, state):
    def acquire(server, name):
        return server.post("/v1/acquire", {"limit": name, "key": "k", "permit": True}).json["permit"]

    names = ("bucket", "slots", "log", "places", "measured")
    server = serve_file(state, SMALL)
    permits = {name: [acquire(server, name) for _ in range(3)] for name in names}
    failed = [acquire(server, "up") for _ in range(2)]
    for permit in failed:
        assert server.post("/v1/report", {"permit": permit, "outcome": "failure"}).status == 200
    assert server.stop() == 0
    assert resize(state, LARGE).returncode == 0
    server = serve_file(state, LARGE)
    for name in names:
        assert server.get(f"/v1/peek/{name}?key=k").json["remaining"] == 17
        for given in range(1, 4):
            body = {"limit": name, "key": "k", "permit": permits[name][given - 1]}
            for times in range(2):
                answer = server.post("/v1/refund", body)
                assert answer.json["allowed"] == (times == 0), (name, given)
                assert answer.json["remaining"] == 17 + given
    assert server.get("/v1/acquire/up?key=k").status == 200
    assert server.post("/v1/report", {"permit": acquire(server, "up"), "outcome": "failure"}).status == 200
    assert server.get("/v1/acquire/up?key=k").json["reason"] == "breaker_open"


def test_a_file_in_use_is_neither_resized_nor_repaired(serve_file, used):
    server = serve_file(used, SMALL)
    before = left(server)
    for action in (("resize", "--capacity", str(LARGE)), ("repair",)):
        done = weir("store", *action, used)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (f"{used}: expected a file that nobody uses, found that a server or another "
                               "program has it open: stop all that use it\n")
    assert left(server) == before
    server.process.kill()
    server.process.wait()
    assert resize(used, LARGE).returncode == 0


def has_open(pid, path):
    return str(path) in map(os.path.realpath, pathlib.Path(f"/proc/{pid}/fd").iterdir())


def test_a_start_waits_for_the_larger_file(serve_file, used, tmp_path):
    larger = shutil.copy(used, tmp_path / "larger")
    assert resize(larger, LARGE).returncode == 0
    with open(used, "r+b") as file, open(tmp_path / "log", "w", encoding="utf-8") as log:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        server = subprocess.Popen([WEIR, "serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--store",
                                   f"file:{used}", "--capacity", str(LARGE)], stderr=log)
        try:
            until(lambda: has_open(server.pid, used), "the server's look at the file")
            os.replace(larger, used)
            file.close()
            until(lambda: "started" in (tmp_path / "log").read_text(), "the start")
            server.terminate()
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
            server.wait()


def test_needs_a_resize(used):
    done = weir("serve", "--store", f"file:{used}", "--capacity", str(LARGE))
    assert done.returncode == 1
    assert (f"capacity: expected {LARGE}, found {SMALL} in the file: to enlarge it, stop all "
            f"programs that use it and run `weir store resize {used} --capacity {LARGE}`") in done.stderr


def refused(path, capacity, *message, status=1):
    before = path.read_bytes()
    done = resize(path, capacity)
    assert (done.returncode, done.stdout) == (status, ""), done
    assert all(text in done.stderr for text in message), done.stderr
    assert path.read_bytes() == before
    assert not path.with_name(path.name + ".resizing").exists()


def test_invalid_arguments_are_errors_and_change_nothing(used, tmp_path):
    refused(used, SMALL - 1, f"{used}: capacity: expected at least {SMALL}, found {SMALL - 1}: the file does not contain the names of keys")
    refused(used, 0, "--capacity: expected 1 to 4294967296, found '0'", status=2)
    refused(used, 2**33, "--capacity: expected 1 to 4294967296, found '8589934592'", status=2)
    before = used.read_bytes()
    assert resize(used, SMALL).stdout == f"{used}: ok, capacity {SMALL}\n"
    assert used.read_bytes() == before
    assert "expected --capacity N" in weir("store", "resize", used).stderr
    assert "expected --capacity with resize, found check" in weir(
        "store", "check", used, "--capacity", "9").stderr
    (tmp_path / "other").hardlink_to(used)
    refused(used, LARGE, f"{used}: expected a file of one name, found 2 (hard links)")
    (tmp_path / "other").unlink()
    (tmp_path / "link").symlink_to(used)
    refused(tmp_path / "link", LARGE, "expected a regular file, found a symbolic link")


def test_a_damaged_file_must_be_repaired_first(used):
    for offset, message in (12, "version: expected "), (32, "checksum: expected "), (8192 + 4, "found no tag"):
        whole = used.read_bytes()
        change(used, offset, b"\x07\0\0\0" if offset < 8192 else b"\0\0\0\0" + b"\1" * 8)
        refused(used, LARGE, message, f"{used}: not resized: expected a file without defects")
        if offset == 12:
            change(used, 0, whole[:4096])
        else:
            assert weir("store", "repair", used).returncode == 0
    assert resize(used, LARGE).returncode == 0


def test_a_full_disk_leaves_the_file_unchanged(used):
    before = used.read_bytes()
    size = used.stat().st_size + 4096
    done = subprocess.run([WEIR, "store", "resize", used, "--capacity", str(LARGE)], capture_output=True,
                          text=True, timeout=PATIENCE, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    assert done.returncode == 1
    assert "expected permission for " in done.stderr
    assert used.read_bytes() == before and not used.with_name("state.resizing").exists()


def test_tables_without_live_keys_are_removed(serve_file, state):
    config = "limits: { soon: { algorithm: sliding_window, rate: 9/s }, far: { algorithm: sliding_log, rate: 9/52w } }\n"
    server = serve_file(state, SMALL, config)
    ask(server, ("WEIR.ACQUIRE", "soon", "k"), ("WEIR.ACQUIRE", "far", "k"))
    until(lambda: server.get("/v1/peek/soon?key=k").json["remaining"] == 9, "the window's end")
    assert server.stop() == 0
    assert len(sections(state.read_bytes())) == 3
    assert resize(state, LARGE).returncode == 0
    assert len(sections(state.read_bytes())) == 4  # the former table of `far` has a live key
    server = serve_file(state, LARGE, config)
    assert server.get("/v1/peek/far?key=k").json["remaining"] == 8
    assert server.stop() == 0
    assert resize(state, LARGE + 1).returncode == 0


@one_thread
def test_a_kill_at_any_time_leaves_either_the_old_file_or_the_new_one(serve_file, used, tmp_path):
    seed = int(os.environ.get("WEIR_TEST_SEED", time.time_ns() % 2**32))
    print(f"WEIR_TEST_SEED={seed}")
    rng = random.Random(seed)
    old = used.read_bytes()
    server = serve_file(used, SMALL)
    before = left(server)
    assert server.stop() == 0
    began = time.monotonic()
    assert resize(shutil.copy(used, tmp_path / "whole"), LARGE).returncode == 0
    takes = time.monotonic() - began
    new, outcomes, copy = (tmp_path / "whole").stat().st_size, set(), tmp_path / "copy"
    for _ in range(20):
        shutil.copy(used, copy)
        with subprocess.Popen([WEIR, "store", "resize", copy, "--capacity", str(LARGE)],
                              stdout=subprocess.DEVNULL) as done:
            time.sleep(rng.random() * takes)
            done.send_signal(signal.SIGKILL)
        outcomes.add(copy.stat().st_size)
        assert copy.stat().st_size in (len(old), new)
        assert weir("store", "check", copy).returncode == 0
    print(f"{len(outcomes)} outcomes")
    assert resize(copy, LARGE).returncode == 0  # even with leftovers of the killed one beside it
    assert not copy.with_name("copy.resizing").exists()
    assert left(serve_file(copy, LARGE)) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="runs programs as other users")
def test_a_resize_keeps_owner_group_and_mode(serve_as, shared):
    path, group = shared / "state", 12345
    assert serve_as(OTHER, "--store", f"file:{path}", "--capacity", str(SMALL)).stop() == 0
    done = command(shared, "store", "resize", path, "--capacity", str(LARGE))
    assert done.stderr == f"{path}: owner: expected user 0 or root, found user {IDS[OTHER]}\n"
    os.chown(path, IDS[OTHER], group)
    path.chmod(0o660)
    words = ("store", "resize", path, "--capacity", str(LARGE), "--owner", OTHER, "--group", str(group))
    assert command(shared, *words).returncode == 0
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o7777) == (IDS[OTHER], group, 0o660)
    path.chmod(0o600)
    os.chown(path, IDS[OTHER], -1)
    done = command(shared, "store", "resize", path, "--capacity", str(2 * LARGE), user=SERVICE)
    assert done.returncode == 1 and "Permission denied" in done.stderr
    os.chown(path, IDS["root"], -1)
    path.chmod(0o640)
    assert command(shared, "store", "resize", path, "--capacity", str(3 * LARGE)).returncode == 0
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o7777) == (0, group, 0o640)
    assert dump(path) == []
