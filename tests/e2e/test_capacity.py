"""Capacity: limits do not take each other's share of the table, and errors of a full table or disk."""

import pathlib
import re
import subprocess

from harness import WEIR, Wire, encode, weir

CONFIG = """
limits:
  flooded: { algorithm: concurrency, max: 2000, retry: 3s }
  uploads: { algorithm: concurrency, max: 5, keys: 3000 }
  window:  { algorithm: sliding_window, rate: 10/h }
  log:     { algorithm: sliding_log, rate: 1500/h }
  bucket:  { algorithm: token_bucket, rate: 10/h }
  relief:  { algorithm: random, deny: 0 }
"""



def size_text(size):
    """As people say it, rounded up: 265 MB, 1.5 GB."""
    unit, name = next((unit, name) for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")) if size >= unit)
    tenths = -(-size * 10 // unit)
    return f"{tenths // 10}.{tenths % 10} {name}" if tenths < 100 else f"{-(-size // unit)} {name}"

def acquire(server, limit, keys, cost=1):
    """The replies for each of the keys, in order."""
    with Wire(server.resp) as wire:
        wire.send(b"".join(encode("WEIR.ACQUIRE", limit, key, "COST", cost) for key in keys))
        return [wire.reply() for _ in keys]


def allowed(replies):
    return sum(reply[0] for reply in replies)


def test_fresh_keys_of_one_limit_deny_nobody_of_another(serve):
    server = serve("--capacity", "30000", config=CONFIG)
    users = [f"user{i}" for i in range(200)]
    fresh = [f"fresh{i}" for i in range(1700)]
    assert allowed(acquire(server, "uploads", users)) == 200
    flood = acquire(server, "flooded", fresh)
    assert 175 <= allowed(flood) <= 240  # the size of its share, plus its cells
    refused = [reply for reply in flood if not reply[0]]
    assert {(reply[3], reply[5]) for reply in refused} == {(3000, b"no_room")}
    for limit in "uploads", "window", "log", "bucket":
        assert allowed(acquire(server, limit, users)) == 200
    answer = server.get("/v1/acquire/flooded?key=one-more")
    assert (answer.status, answer.json["reason"]) == (503, "no_room")
    assert answer.headers["Retry-After"] == "3"
    page = server.get("/metrics").text
    assert f'weir_no_room_total{{limit="flooded"}} {len(refused) + 1}\n' in page
    assert 'weir_no_room_total{limit="uploads"} 0\n' in page


def test_a_request_that_waited_in_vain_for_capacity_is_denied_with_no_room(serve):
    server = serve(config="""
limits:
  crowded: { algorithm: concurrency, max: 1, keys: 1, queue: 9, max_wait: 20ms }
""")
    with Wire(server.resp) as wire:
        replies = [wire.command("WEIR.ACQUIRE", "crowded", f"key{i}") for i in range(60)]
        assert {reply[5] for reply in replies if not reply[0]} == {b"no_room"}
        assert wire.command("WEIR.ACQUIRE", "crowded", "late", "WAIT", 30)[5] == b"no_room"
        assert wire.command("WEIR.ACQUIRE", "crowded", "key0")[5] == b"wait_too_long"
    refused = sum(not reply[0] for reply in replies) + 1
    assert refused >= 60 - 48
    assert f'weir_no_room_total{{limit="crowded"}} {refused}\n' in server.get("/metrics").text


def test_a_flood_of_fresh_keys_does_not_reset_a_denied_key(serve):
    server = serve("--capacity", "30000", config=CONFIG)
    assert allowed(acquire(server, "log", ["offender"], 1500)) == 1
    assert allowed(acquire(server, "log", [f"fresh{i}" for i in range(2000)])) == 2000
    page = server.get("/metrics").text
    assert int(re.search(r"^weir_table_evictions_total (\d+)$", page, re.M)[1]) > 1000
    reply, = acquire(server, "log", ["offender"])
    assert (reply[0], reply[2], reply[5]) == (0, 0, b"over_limit")


def test_the_number_of_keys_that_fit_is_listed_and_logged(serve, tmp_path):
    server = serve("--capacity", "30000", config=CONFIG)
    room = {limit["name"]: limit["room"] for limit in server.get("/v1/limits").json}
    # Without `keys` a limit has as many keys as fit into capacity * 12 cells, 40 at least.
    assert {name: row and (row["keys"], row["shared"]) for name, row in room.items()} == {
        "flooded": (30000 * 12 // 2048, False), "uploads": (3000, False), "window": (30000, False),
        "log": (30000 * 12 // 2048, False), "bucket": (30000, True), "relief": None}
    listed = {limit["name"]: limit for limit in server.get("/v1/limits").json}
    assert listed["uploads"]["keys"] == 3000 and "keys" not in listed["window"]
    for name in "flooded", "uploads", "window", "log":
        said = f"limit_room limit={name} keys={room[name]['keys']} bytes={room[name]['bytes']}"
        assert any(said in line for line in server.log)
    file = tmp_path / "lint.yaml"
    file.write_text("capacity: 30000\n" + CONFIG)
    done = weir("lint", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f'{file}: limit "{name}": capacity for {row["keys"]} keys, at most {size_text(row["bytes"])}'
        for name, row in room.items() if row and not row["shared"]] + [f"{file}: ok"]


def test_a_reload_with_more_keys_adds_capacity_and_keeps_permits(serve):
    server = serve("--capacity", "30000", config=CONFIG)
    users = [f"user{i}" for i in range(40)]
    assert allowed(acquire(server, "flooded", users, 2000)) == 40
    server.reload(CONFIG.replace("max: 2000,", "max: 2000, keys: 2500,"))
    server.line_with("limit_room limit=flooded keys=2500")
    assert allowed(acquire(server, "flooded", users)) == 0
    assert allowed(acquire(server, "flooded", [f"fresh{i}" for i in range(1700)])) == 1700


# ---- a full disk ----

def limited(size):
    """Words that limit the size of a program's files: the next byte is refused, as by a full disk."""
    return ["prlimit", f"--fsize={size}"]


def test_a_full_disk_is_an_error_at_the_start(tmp_path):
    file, state = tmp_path / "weir.yaml", tmp_path / "state"
    file.write_text(CONFIG)
    words = [WEIR, "serve", "-c", file, "--store", f"file:{state}", "--http", "127.0.0.1:0",
             "--resp", "127.0.0.1:0"]
    for size in 1 << 20, 30 << 20:  # too small for the shared table, and for the tables of the limits
        done = subprocess.run([*limited(size), *words], capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 1
        assert re.search(rf"{state}: expected permission for [0-9.]+ .B more", done.stderr), done
    petabyte = pathlib.Path("/dev/shm/weir-test-room-e2e")
    file.write_text("limits: { petabyte: { algorithm: concurrency, max: 10000, keys: 4294967296 } }")
    done = weir("serve", "-c", file, "--store", f"file:{petabyte}", "--capacity", "1000",
                "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0")
    petabyte.unlink()
    assert done.returncode == 1
    assert re.search(rf"{petabyte}: expected space for [0-9.]+ .B more on its disk, found [0-9.]+ .B",
                     done.stderr)


def test_a_full_disk_fails_a_reload_which_then_changes_nothing(serve, tmp_path):
    state = tmp_path / "state"
    few = "limits: { one: { algorithm: sliding_window, rate: 10/h } }"
    server = serve("--store", f"file:{state}", "--capacity", "1000", config=few,
                   account=limited(5 << 20))
    assert server.get("/v1/acquire/one?key=k&cost=4").json["remaining"] == 6
    size = state.stat().st_size
    assert state.stat().st_blocks * 512 >= size
    server.reload(few[:-1] + ", two: { algorithm: sliding_window, rate: 10/h, keys: 1000000 } }")
    line = server.line_with("reload_failed")
    assert re.search(rf"{state}: expected permission for [0-9.]+ .B more", line)
    assert state.stat().st_size == size
    assert server.get("/v1/acquire/one?key=k&cost=4").json["remaining"] == 2
    assert server.get("/v1/acquire/two?key=k").status == 404
    assert weir("store", "check", state).returncode == 0


def test_a_removed_limit_finds_its_counts_when_it_is_configured_again(serve, tmp_path):
    state = tmp_path / "state"
    both = "limits: { one: { algorithm: sliding_window, rate: 10/h }%s }"
    more = ", two: { algorithm: sliding_log, rate: 10/h }"
    server = serve("--store", f"file:{state}", "--capacity", "1000", config=both % more)
    assert server.get("/v1/acquire/two?key=k&cost=4").json["remaining"] == 6
    size = state.stat().st_size
    server.stop()
    server = serve("--store", f"file:{state}", config=both % "")
    assert server.get("/v1/acquire/one?key=k").json["allowed"]
    assert state.stat().st_size == size
    server.reload(both % more)
    server.line_with("reloaded")
    assert server.get("/v1/peek/two?key=k").json["remaining"] == 6
    assert state.stat().st_size == size


def test_servers_with_different_widths_of_one_limit_share_its_counts(serve, tmp_path):
    """The second server makes a larger table; the first finds it through the keys that they share."""
    state = tmp_path / "state"
    config = "limits: {{ it: {{ algorithm: sliding_log, rate: {}/h }} }}"
    one = serve("--store", f"file:{state}", "--capacity", "1000", config=config.format(10))
    assert one.get("/v1/acquire/it?key=k&cost=4").json["remaining"] == 6
    two = serve("--store", f"file:{state}", config=config.format(1000))
    assert two.get("/v1/acquire/it?key=k&cost=2").json["remaining"] == 994
    assert one.get("/v1/peek/it?key=k").json["remaining"] == 4
    assert one.get("/v1/acquire/it?key=k&cost=3").json["remaining"] == 1
    assert two.get("/v1/peek/it?key=k").json["remaining"] == 991
    assert two.get("/v1/acquire/it?key=new&cost=2").json["allowed"]
    assert one.get("/v1/peek/it?key=new").json["remaining"] == 8


FLOODED_BY_ADHOC = """
limits:
  window: { algorithm: fixed_window, rate: 1/d, align: first_request }
  bucket: { algorithm: token_bucket, rate: 1/d }
"""


def test_parameters_in_requests_evict_no_key_of_a_limit(serve):
    """The sender chooses how long such a key counts, and the table evicts the key that is idle soonest."""
    server = serve("--capacity", "20000", config=FLOODED_BY_ADHOC)
    users = [f"user{i}" for i in range(200)]
    for limit in ("window", "bucket"):
        assert allowed(acquire(server, limit, users)) == 200
    with Wire(server.resp) as wire:
        for n, parameters in enumerate(([400_000_000, 1, 1, 400_000_000], [0, 1, 365 * 86_400], [9, 1, 86_400])):
            for start in range(0, 80_000, 1000):
                keys = [f"x{n}-{i}" for i in range(start, start + 1000)]
                wire.send(b"".join(encode("CL.THROTTLE", key, *parameters) for key in keys))
                assert [wire.reply()[0] for _ in keys] == 1000 * [0]
    for limit in ("window", "bucket"):
        assert allowed(acquire(server, limit, users)) == 0
    # Keys of such requests count while the table has capacity.
    with Wire(server.resp) as wire:
        assert wire.command("CL.THROTTLE", "last", 0, 1, 3600)[0] == 0
        assert wire.command("CL.THROTTLE", "last", 0, 1, 3600)[0] == 1
