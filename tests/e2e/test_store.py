"""Store files (`store: file:PATH`), and `weir store`."""

import concurrent.futures
import json
import os
import struct
import subprocess
import sys

import pytest
from harness import CONFIG, ROOT, Wire, encode, plain_build_only, until, weir

CAPACITY, SETS = 1000, 160
HEADER = 8192
TABLE = HEADER + SETS * 128  # the table of one-word states; those of wide states follow


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def serve_file(serve, state):
    return lambda *flags: serve("--store", f"file:{state}", *flags)


@pytest.fixture
def used(serve_file, state):
    """A file in which key `k` of `window` has one of three units left."""
    server = serve_file("--capacity", str(CAPACITY))
    server.get("/v1/acquire/window?key=k&cost=2")
    assert server.stop() == 0
    return state


def change(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def dump(path):
    done = weir("store", "dump", path)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_server_continues_with_its_counts_after_a_kill(serve_file):
    server = serve_file()
    assert server.get("/v1/acquire/window?key=spent&cost=3").json["reason"] == "hit_quota"
    assert server.get("/v1/acquire/login?key=half&cost=4").json["remaining"] == 6
    server.process.kill()
    server.process.wait()
    server = serve_file()
    spent = server.get("/v1/acquire/window?key=spent")
    assert (spent.status, spent.json["remaining"]) == (429, 0)
    assert server.get("/v1/peek/login?key=half").json["remaining"] == 6


def recorded_ns(path):
    with open(path, "rb") as file:
        file.seek(96)
        return struct.unpack("<Q", file.read(8))[0]


def test_the_file_is_synced_at_the_configured_interval(serve, state):
    serve("--store", f"file:{state}", "--sync", "20ms")
    for _ in range(3):
        before = recorded_ns(state)
        until(lambda: recorded_ns(state) > before, "a sync")


def test_a_reload_changes_the_interval_of_syncs(serve, state):
    server = serve("--store", f"file:{state}", config=CONFIG + "sync: 20ms\n")
    before = recorded_ns(state)
    until(lambda: recorded_ns(state) > before, "a sync")
    server.reload(CONFIG)
    server.line_with("reloaded")
    before = recorded_ns(state)
    server.reload(CONFIG + "sync: 20ms\n")
    until(lambda: recorded_ns(state) > before, "a sync")


def test_other_parameters_after_a_restart_find_the_use_of_keys(serve, state):
    config = "limits: {{ it: {{ algorithm: token_bucket, rate: {}/h, burst: {} }} }}"
    first = serve("--store", f"file:{state}", config=config.format(60, 10))
    assert first.get("/v1/acquire/it?key=k&cost=4").json["remaining"] == 6
    first.process.kill()
    first.process.wait()
    second = serve("--store", f"file:{state}", config=config.format(1, 10))
    answer = second.get("/v1/peek/it?key=k").json
    # Four units are in use, less the seconds in between; each now refills in an hour.
    assert answer["remaining"] in (6, 7) and answer["reset_after_ms"] > 2 * 3600 * 1000
    third = serve("--store", f"file:{state}", config=config.format(2, 20))  # beside the second server
    assert third.get("/v1/peek/it?key=k").json["remaining"] == answer["remaining"] + 10
    assert second.get("/v1/acquire/it?key=k&cost=6").json["allowed"]
    assert third.get("/v1/peek/it?key=k").json["remaining"] == answer["remaining"] + 4


def test_another_store_needs_a_restart(serve, tmp_path):
    config = CONFIG + f"store: file:{tmp_path}/%s\n"
    server = serve(config=config % "one")
    for path in ("two", "three"):  # compared with the active store, not with the last file
        server.reload(config % path)
        server.line_with("restart_needed setting=store")
        server.line_with("reloaded")
    assert not (tmp_path / "two").exists()


def test_a_restored_backup_has_the_counts_of_its_time(serve_file, used, tmp_path):
    backup = tmp_path / "backup"
    copy = ("cp", "-p", "--sparse=never")
    subprocess.run([*copy, used, backup], check=True)
    assert weir("store", "check", backup).stdout == f"{backup}: ok\n"
    assert backup.stat().st_mode & 0o777 == 0o600
    server = serve_file()
    assert server.get("/v1/acquire/window?key=k").json["remaining"] == 0
    assert server.stop() == 0
    subprocess.run([*copy, backup, used], check=True)
    assert serve_file().get("/v1/peek/window?key=k").json["remaining"] == 1


def test_a_running_server_ignores_later_writes_to_the_header(serve_file, state):
    server = serve_file("--capacity", str(CAPACITY))
    take = lambda: server.post("/v1/acquire", {"limit": "login", "key": "k", "permit": True}).json
    permit = take()["permit"]
    change(state, 0, b"\xff" * HEADER)
    assert take()["remaining"] == 8
    back = server.post("/v1/refund", {"limit": "login", "key": "k", "permit": permit}).json
    assert (back["allowed"], back["remaining"]) == (True, 9)
    server.reload(CONFIG)  # matching rules uses the file's secret, too
    server.line_with("reloaded")
    assert take()["remaining"] == 8


def test_an_unsuitable_file_stops_the_start_and_is_not_changed(used):
    before = used.read_bytes()
    done = weir("serve", "--store", f"file:{used}", "--capacity", "5")
    assert done.returncode == 1
    assert (f"{used}: capacity: expected 5, found {CAPACITY} in the file: use that, "
            "or begin with a new file" in done.stderr)
    assert used.read_bytes()[HEADER:] == before[HEADER:]
    used.write_text("precious " * 1000)
    done = weir("serve", "--store", f"file:{used}")
    assert done.returncode == 1
    assert "magic: expected WEIRTBL" in done.stderr
    assert used.read_text() == "precious " * 1000


def take(server, key):
    """Sends 30 acquires at once; returns how many were granted."""
    with Wire(server.resp) as wire:
        wire.send(encode("WEIR.ACQUIRE", "login", key) * 30)
        return sum(wire.reply()[0] for _ in range(30))


def test_servers_on_one_file_share_a_count(serve_file):
    servers = [serve_file(), serve_file()]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for key in range(100):  # each is new to both servers at the same time
            assert sum(pool.map(lambda i: take(servers[i % 2], f"key-{key}"), range(4))) == 10


@plain_build_only
def test_a_server_and_a_program_share_a_count(serve_file, state):
    server = serve_file()
    sys.path.insert(0, os.fspath(ROOT / "tests" / "model"))
    import weir as library
    table = library.Table(path=os.fsencode(state))
    limit = library.Limit(library.options(library.TOKEN_BUCKET, 10, unit=library.HOUR, name=b"login"))
    for i in range(6):
        assert table.call(limit, b"k", "acquire", library.NOW)["remaining"] == 9 - i
    assert server.get("/v1/acquire/login?key=k&cost=3").json["remaining"] == 1
    assert table.call(limit, b"k", "acquire", library.NOW)["remaining"] == 0
    assert server.get("/v1/acquire/login?key=k").status == 429


def test_a_file_contains_the_counts_and_passes_the_check(used):
    cell, = dump(used)
    assert cell["live"] and cell["word"] == 1  # a window stores its count less one
    done = weir("store", "check", used)
    assert (done.returncode, done.stdout) == (0, f"{used}: ok\n")


def test_check_names_every_defect_and_repair_keeps_the_rest(serve_file, used):
    cell, = dump(used)
    places = [(place, 3) for place in range(SETS) if place not in (cell["set"], SETS - 1)]
    no_tag, far, double = places[:3]
    now = cell["until_ns"]
    offset = lambda place: HEADER + place[0] * 128 + place[1] * 16
    at = lambda ns: (ns << 4) % 2**64
    change(used, offset(no_tag), struct.pack("<QQ", 0, at(now)))
    change(used, offset(far), struct.pack("<QQ", 7 << 32, at(now + 17 * 365 * 86400 * 10**9)))
    change(used, offset(double), struct.pack("<QQQQ", 9 << 32, at(now), 9 << 32, at(now)))
    size = used.stat().st_size
    os.truncate(used, TABLE - 40)
    done = weir("store", "check", used)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert f"size: expected a file of at least {size} bytes, found {TABLE - 40}" in lines[0]
    for line, text in zip(lines[1:], (f"set {no_tag[0]}, cell 3: expected a tag", "cell 3: expected a time",
                                      "cell 4: expected a tag of its own")):
        assert text in line
    done = weir("store", "repair", used)
    assert (done.returncode, done.stdout) == (0, f"{used}: ok, 3 cells emptied\n")
    assert weir("store", "check", used).returncode == 0
    assert {(c["set"], c["tag"]) for c in dump(used)} == {(cell["set"], cell["tag"]), (double[0], 9)}
    assert serve_file().get("/v1/peek/window?key=k").json["remaining"] == 1


FIXED, COPY = 80, 4096  # the size of the header's constant part, and the offset of its copy


@pytest.mark.parametrize("offset, length", [(0, 1), (12, 8), (32, 8), (48, 16), (0, 4096), (COPY, 4096)])
def test_a_header_and_its_copy_are_repaired_from_each_other(serve_file, used, offset, length):
    before = used.read_bytes()
    change(used, offset, bytes(byte ^ 0x55 for byte in before[offset:offset + length]))
    assert weir("store", "check", used).returncode == 1
    assert weir("serve", "--store", f"file:{used}").returncode == 1
    done = weir("store", "repair", used)
    assert (done.returncode, done.stdout) == (0, f"{used}: ok, 0 cells emptied\n")
    after = used.read_bytes()
    assert after[:FIXED] == before[:FIXED] and after[COPY:] == before[COPY:]
    assert weir("store", "check", used).returncode == 0
    assert serve_file().get("/v1/peek/window?key=k").json["remaining"] == 1


WIDE = """
limits:
  wide: { algorithm: sliding_window, rate: 10/h, slots: 10 }
  other: { algorithm: sliding_log, rate: 100/h }
"""


@pytest.fixture
def wide(serve, state):
    """A file in which key `k` of two limits, each in its own section, has used four units."""
    serve_wide = lambda: serve("--store", f"file:{state}", "--capacity", str(CAPACITY), config=WIDE)
    server = serve_wide()
    for name in "wide", "other":
        server.get(f"/v1/acquire/{name}?key=k&cost=4")
    assert server.stop() == 0
    return serve_wide


def sections(data):
    """[(offset, size)] of all sections of a file."""
    found, at = [], 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at + 72)
        found.append((at, size))
        at += size
    return found


@pytest.mark.parametrize("offset, length", [(28, 4), (48, 16), (64, 16), (0, 4096), (COPY, 4096)])
def test_a_header_of_wide_states_is_repaired_too(wide, state, offset, length):
    before = state.read_bytes()
    for start, _ in sections(before)[1:]:
        assert before[start:start + 7] == b"WEIRTBL"
        change(state, start + offset,
               bytes(byte ^ 0x55 for byte in before[start + offset:start + offset + length]))
        done = weir("store", "check", state)
        assert done.returncode == 1 and f"section at byte {start}: " in done.stderr
        assert weir("serve", "--store", f"file:{state}").returncode == 1
        done = weir("store", "repair", state)
        assert (done.returncode, done.stdout) == (0, f"{state}: ok, 0 cells emptied\n")
        assert state.read_bytes()[start + COPY:] == before[start + COPY:]
        assert weir("store", "check", state).returncode == 0
    server = wide()
    assert server.get("/v1/peek/wide?key=k").json["remaining"] == 6
    assert server.get("/v1/peek/other?key=k").json["remaining"] == 96


def test_the_loss_of_a_header_and_its_copy_loses_no_other_section(wide, state):
    first, second = sections(state.read_bytes())[1:]
    change(state, first[0], bytes(HEADER))
    assert weir("store", "check", state).returncode == 1
    done = weir("store", "repair", state)
    assert done.returncode == 0
    assert f"{state}: section at byte {first[0]}: the header is lost, and with it the counts of a limit\n" in done.stderr
    assert weir("store", "check", state).returncode == 0
    server = wide()
    assert server.get("/v1/peek/wide?key=k").json["remaining"] == 10
    assert server.get("/v1/peek/other?key=k").json["remaining"] == 96
    assert server.stop() == 0
    last = sections(state.read_bytes())[-1]  # the limit without its section gets a new one
    assert last == (second[0] + second[1], first[1])
    change(state, last[0], bytes(HEADER))
    assert weir("store", "check", state).returncode == 1
    assert weir("store", "repair", state).returncode == 0
    assert state.stat().st_size == last[0]


def test_a_header_that_is_lost_with_its_copy_is_not_guessed(used):
    version, = struct.unpack_from("<I", used.read_bytes(), 12)
    for offset in (0, COPY):
        change(used, offset + 12, struct.pack("<II", 8, 8))
    before = used.read_bytes()
    for action in ("check", "repair"):
        done = weir("store", action, used)
        assert done.returncode == 1
        assert f"{used}: version: expected {version}, found 8, made by another release" in done.stderr
    assert "neither the header nor its copy" in done.stderr
    assert weir("store", "dump", used).returncode == 1
    assert used.read_bytes() == before


def test_an_impossible_clock_is_reset(serve_file, used):
    far = struct.unpack("<Q", used.read_bytes()[96:104])[0] + 40 * 365 * 86400 * 10**9
    change(used, 96, struct.pack("<Q", far))
    done = weir("store", "check", used)
    assert done.returncode == 1
    assert "clock: expected at most a day ahead of the system's, found 145" in done.stderr
    assert weir("store", "repair", used).returncode == 0
    assert weir("store", "check", used).returncode == 0
    assert serve_file().get("/v1/peek/window?key=k").json["remaining"] == 1


@pytest.mark.parametrize("words, status", [
    (["check"], 2), (["mend", "x"], 2), (["check", "/nowhere/state"], 1), (["dump", "/dev/null"], 1)])
def test_invalid_uses_of_weir_store_are_errors(words, status):
    done = weir("store", *words)
    assert done.returncode == status
    assert done.stderr
