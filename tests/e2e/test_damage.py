"""`weir store` finds random damage in store files, and repairs as much as can be known.

WEIR_TEST_SEED=N replays a run, WEIR_TEST_DAMAGES=N damages more files.
"""

import os
import random
import struct
import time

import pytest
from harness import BUILD, SANITIZED, one_thread, weir

HEADER, FIXED, COPY, PAGE = 8192, 80, 4096, 4096
CONFIG = """
capacity: 1000
limits:
  window: { algorithm: sliding_window, rate: 10/h }
  log: { algorithm: sliding_log, rate: 100/h }
  places: { algorithm: concurrency, max: 50, keys: 30 }
"""


def sections(data):
    """[(offset, end of its cells, size, cells of a record)] of the sections of an intact file."""
    found, at = [], 0
    while at < len(data):
        row, sets, size = (struct.unpack_from(f, data, at + o)[0] for f, o in
                           (("<I", 28), ("<Q", 40), ("<Q", 72)))
        found.append((at, at + HEADER + sets * 128, size, row))
        at += size
    return found


YEAR_NS = 365 * 86400 * 10**9
# A program with a sanitizer starts slowly.
DAMAGES = int(os.environ.get("WEIR_TEST_DAMAGES", 50 if BUILD.name in SANITIZED else 150))
CLOCK, SEEN, CHECKSUM, END = slice(80, 96), slice(96, 104), slice(104, 112), slice(112, 120)
# The parts of a header that are used; the rest is zero. Only the first header has a clock and an end.
KNOWN = [slice(0, FIXED), CHECKSUM, slice(120, 128), slice(128, 136), slice(256, 264),
         slice(COPY, COPY + FIXED + 8)]


def fill(empty, seed, share, now):
    """A file in which the given share of each table's cells is filled with values that limits can write."""
    chance = random.Random(seed)
    data = bytearray(empty)
    for start, end, *_ in sections(empty):
        for tag in range(1, int((end - start - HEADER) / 16 * share) + 1):
            place = chance.randrange(start + HEADER, end, 16)
            until = now + chance.randrange(-YEAR_NS, 15 * YEAR_NS)
            data[place:place + 16] = struct.pack("<QQ", tag << 32 | chance.getrandbits(32),
                                                 (until << 4) % 2**64 | chance.randrange(15))
    return data


def cells(data, tables):
    """[(offset, low, high)] of the whole cells of these tables, except for those in records."""
    return [(at, *struct.unpack_from("<QQ", data, at)) for start, end in tables
            for at in range(start + HEADER, min(len(data), end) // 16 * 16, 16)]


def ahead(high, now):
    """Nanoseconds from now to a time that is stored modulo 2^60."""
    distance = (high >> 4) - now & 2**60 - 1
    return distance - 2**60 if distance >> 59 else distance


def impossible(data, now, tables):
    """Offsets of cells with values that no limit can write."""
    found, tags = set(), {}
    for at, low, high in cells(data, tables):
        tag, claim, far = low >> 32, high & 15 == 15, ahead(high, now)
        if low == high == 0:
            continue
        seen = tags.setdefault(at // 128, set())  # all sections begin on pages
        if tag == 0 or far > (2 * 86400 * 10**9 if claim else 16 * YEAR_NS) \
                or not claim and tag in seen:
            found.add(at)
        if not claim and tag != 0:
            seen.add(tag)
    return found


def somewhere(chance, data, parts):
    """A random offset in a file, mostly in a section's header or cells."""
    start, end, *_ = chance.choice([*parts, parts[0], (0, parts[-1][0] + parts[-1][2])])
    return chance.randrange(start, end) % len(data)


def flip_bits(chance, data, _, parts):
    for _ in range(chance.choice([1, 3, 100])):
        data[somewhere(chance, data, parts)] ^= 1 << chance.randrange(8)


def flip_header(chance, data, _, parts):
    start, *_ = chance.choice([*parts, parts[0]])
    at = start + chance.choice([chance.randrange(FIXED + 48), COPY + chance.randrange(FIXED + 8),
                                chance.randrange(HEADER)])
    data[at % len(data)] ^= 1 << chance.randrange(8)


def zero(chance, data, _, parts):
    start, *_ = chance.choice([*parts, parts[0]])
    start = chance.choice([start, start + COPY, start + HEADER,
                           somewhere(chance, data, parts) // PAGE * PAGE])
    end = chance.choice([start + PAGE, start + 512, start + HEADER, len(data)])
    data[start:end] = bytes(len(data[start:end]))


def tear(chance, data, other, _):
    """Replaces half of the sectors by those of an earlier state."""
    for start in range(0, len(data), 512):
        if chance.random() < 0.5:
            data[start:start + 512] = other[start:min(start + 512, len(data))]


def resize(chance, data, _, parts):
    start, end, *_ = chance.choice([*parts, parts[0]])
    whole = parts[-1][0] + parts[-1][2]
    size = chance.choice([0, 1, FIXED, COPY, HEADER - 1, HEADER, HEADER + 1, HEADER + 16, start,
                          start + FIXED, start + COPY, start + HEADER + 1, end - 1, end, whole - 1,
                          whole - 16, whole + 1, whole + PAGE, chance.randrange(whole)])
    del data[size:]
    data.extend(chance.randbytes(size - len(data)))


def scribble(chance, data, _, parts):
    start = somewhere(chance, data, parts)
    noise = chance.randbytes(chance.choice([16, 512, PAGE, HEADER]))[:len(data) - start]
    data[start:start + len(noise)] = noise


def clock_is_true(data):
    """Whether a file's clock, as its next opener computes it, is at most a day ahead of ours."""
    wall, monotonic = time.time_ns(), time.monotonic_ns()
    boot, offset = struct.unpack("<QQ", data[CLOCK])
    seen, = struct.unpack("<Q", data[SEEN])
    latest = seen
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        if boot == int(file.read().replace("-", "")[:16], 16):
            latest = max(seen, (monotonic + offset) % 2**64)
    return latest <= wall + 86400 * 10**9


def halves(data, intact):
    """(whether a header's fixed part is unchanged, whether its copy is)"""
    wanted = intact[:FIXED], intact[CHECKSUM]
    return ((data[:FIXED], data[CHECKSUM]) == wanted,
            (data[COPY:COPY + FIXED], data[COPY + FIXED:COPY + FIXED + 8]) == wanted)


def header_at(data, start):
    """The bytes of a header, padded with zeros after the end of the file."""
    return bytes(data[start:start + HEADER]).ljust(HEADER, b"\0")


def header_is_sound(data, intact, start):
    header, wanted = header_at(data, start), header_at(intact, start)
    rest = bytearray(header)
    for part in KNOWN + ([CLOCK, SEEN, END] if start == 0 else []):
        rest[part] = bytes(len(rest[part]))
    return halves(header, wanted) == (True, True) and not any(rest)


def header_can_be_saved(data, intact, start):
    return any(halves(header_at(data, start), header_at(intact, start)))


def usable_sections(data, intact):
    """([(offset, end of cells)] of the tables that can be repaired, all offsets of headers, the end of
    the last section, whether all headers and sizes are correct)"""
    parts = {part[0]: part for part in sections(intact)}
    committed, = struct.unpack("<Q", header_at(data, 0)[END])
    tables, starts, at, well = [], [], 0, True
    while at == 0 or at < committed or at in parts:
        must_be = at == 0 or at < committed
        size = parts[at][2] if at in parts else 0
        sound = at in parts and header_is_sound(data, intact, at)
        if not must_be and (not sound or at + size > len(data)):
            break
        well &= sound and at + size <= len(data)
        if at in parts and header_can_be_saved(data, intact, at):
            tables.append(parts[at][:2])
        else:
            later = [start for start in parts if start > at and start < len(data)
                     and header_can_be_saved(data, intact, start)]
            if not later:
                break
            size = later[0] - at
        starts.append(at)
        at += size
    return tables, starts, at, well


def is_well(data, intact, now):
    tables, _, _, well = usable_sections(data, intact)
    return well and clock_is_true(data) and not impossible(data, now, tables)


def without_headers(data, starts):
    data = bytearray(data)
    for start in starts:
        data[start:start + HEADER] = bytes(HEADER)
    return data


def repaired(data, intact, now):
    """The file that a repair must leave, with its headers as zeros."""
    tables, starts, end, _ = usable_sections(data, intact)
    left = bytearray(data[:min(len(data) // 16 * 16, end)])
    left.extend(bytes(end - len(left)))
    for at in impossible(data, now, tables):
        left[at:at + 16] = bytes(16)
    return without_headers(left, starts)


def check_repaired(after, data, intact, now):
    """Checks that `after` is a correct repair of `data`."""
    starts = usable_sections(data, intact)[1]
    assert without_headers(after, starts) == repaired(data, intact, now)
    for start in starts:  # a header that was lost twice stays unknown; others are as before
        if header_can_be_saved(data, intact, start):
            assert header_is_sound(after, intact, start)
        else:
            assert after[start + 28:start + 32] == bytes(4)
            assert after[start + 64:start + 72] == bytes(8)
    assert struct.unpack("<Q", after[END]) == (len(after),)
    assert clock_is_true(after)


@pytest.fixture
def empty(serve, tmp_path):
    serve("--store", f"file:{tmp_path}/empty", config=CONFIG).stop()
    return (tmp_path / "empty").read_bytes()


@one_thread
def test_random_damage_is_found_and_repaired(serve, tmp_path, empty):
    seed = int(os.environ.get("WEIR_TEST_SEED", 1))
    print(f"WEIR_TEST_SEED={seed}")
    chance = random.Random(seed)
    path = tmp_path / "state"
    parts = sections(empty)
    assert [part[3] for part in parts] == [0, 12, 128, 64]
    counts = {"well": 0, "repaired": 0, "lost": 0, "in part": 0}
    for _ in range(DAMAGES):
        now, picture = time.time_ns(), chance.random()
        earlier, intact = (fill(empty, picture, share, now) for share in (0.2, 0.4))
        data = bytearray(intact)
        for damage in chance.sample([flip_bits, flip_header, zero, tear, resize, scribble],
                                    chance.choice([1, 1, 2])):
            if data:
                damage(chance, data, earlier, parts)
        path.write_bytes(data)
        well = len(data) >= HEADER and is_well(data, intact, now)
        assert weir("store", "check", path).returncode == (0 if well else 1)
        done = weir("store", "repair", path)
        after = path.read_bytes()
        if len(data) < HEADER or not header_can_be_saved(data, intact, 0):
            counts["lost"] += 1
            assert done.returncode == 1 and done.stderr
            assert after == data
            continue
        whole = usable_sections(data, intact)[0] == [part[:2] for part in parts]
        counts["well" if well else "repaired" if whole else "in part"] += 1
        assert done.returncode == 0, done.stderr
        check_repaired(after, data, intact, now)
        assert weir("store", "check", path).returncode == 0
        last = after
    print(counts)
    assert all(counts.values())
    path.write_bytes(last)
    server = serve("--store", f"file:{path}", config=CONFIG)
    for limit in "window", "log", "places":
        assert server.get(f"/v1/acquire/{limit}?key=k").json["allowed"]
