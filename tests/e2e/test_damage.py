"""Files damaged at random: what can be told is told, and what can be saved is saved.

WEIR_TEST_SEED=N replays a run, WEIR_TEST_DAMAGES=N looks at more files.
"""

import os
import random
import struct
import time

import pytest
from harness import BUILD, weir

HEADER, FIXED, COPY, PAGE = 8192, 64, 4096, 4096
CAPACITY = 1000


def sections():
    """[(offset, end)] of the header and cells of each width, and the size of all with their rows."""
    found, at = [], 0
    pages = lambda size: -(-size // PAGE) * PAGE
    for width in (0, 12, 128, 1024, 10240):
        keys = max(40, CAPACITY * 12 // width) if width else CAPACITY
        cells = -(-(keys + keys // 40 * 11 + keys % 40) // 8) * 8
        found.append((at, at + HEADER + cells * 16))
        at += pages(HEADER + cells * 16) + pages(cells * width * 16)
    return found, at


SECTIONS, SIZE = sections()
YEAR_NS = 365 * 86400 * 10**9
DAMAGES = int(os.environ.get("WEIR_TEST_DAMAGES", 150))
CHECKSUM, CLOCK, SEEN = slice(88, 96), slice(64, 80), slice(80, 88)
# What means something in a header: the rest is zero. Only the first has a clock.
KNOWN = [slice(0, FIXED), CHECKSUM, slice(128, 136), slice(256, 264), slice(COPY, COPY + FIXED + 8)]


def fill(empty, seed, n, now):
    """A file with `n` cells of each width that limits could have written."""
    chance = random.Random(seed)
    data = bytearray(empty)
    for start, end in SECTIONS:
        for tag in range(1, n + 1):
            place = chance.randrange(start + HEADER, end, 16)
            until = now + chance.randrange(-YEAR_NS, 15 * YEAR_NS)
            data[place:place + 16] = struct.pack("<QQ", tag << 32 | chance.getrandbits(32),
                                                 (until << 4) % 2**64 | chance.randrange(15))
    return data


def cells(data):
    """[(offset, low, high)] of the whole cells of a file, but those in rows."""
    return [(at, *struct.unpack_from("<QQ", data, at)) for start, end in SECTIONS
            for at in range(start + HEADER, min(len(data), end) // 16 * 16, 16)]


def ahead(high, now):
    """Nanoseconds from now, of a time kept modulo 2^60."""
    distance = (high >> 4) - now & 2**60 - 1
    return distance - 2**60 if distance >> 59 else distance


def impossible(data, now):
    """Offsets of the cells that no limit can have written."""
    found, tags = set(), {}
    for at, low, high in cells(data):
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


def somewhere(chance, data):
    """A place in a file: mostly where something stands that is looked at, seldom in a row."""
    start, end = chance.choice([*SECTIONS, SECTIONS[0], (0, SIZE)])
    return chance.randrange(start, end) % len(data)


def flip_bits(chance, data, _):
    for _ in range(chance.choice([1, 3, 100])):
        data[somewhere(chance, data)] ^= 1 << chance.randrange(8)


def flip_header(chance, data, _):
    start, _ = chance.choice([*SECTIONS, SECTIONS[0]])
    at = start + chance.choice([chance.randrange(FIXED + 32), COPY + chance.randrange(FIXED + 8),
                                chance.randrange(HEADER)])
    data[at % len(data)] ^= 1 << chance.randrange(8)


def zero(chance, data, _):
    start, _ = chance.choice([*SECTIONS, SECTIONS[0]])
    start = chance.choice([start, start + COPY, start + HEADER,
                           somewhere(chance, data) // PAGE * PAGE])
    end = chance.choice([start + PAGE, start + 512, start + HEADER, len(data)])
    data[start:end] = bytes(len(data[start:end]))


def tear(chance, data, other):
    """Sectors of an earlier state among those of a later one."""
    for start in range(0, len(data), 512):
        if chance.random() < 0.5:
            data[start:start + 512] = other[start:min(start + 512, len(data))]


def resize(chance, data, _):
    start, end = chance.choice([*SECTIONS, SECTIONS[0]])
    size = chance.choice([0, 1, FIXED, COPY, HEADER - 1, HEADER, HEADER + 1, HEADER + 16,
                          start + FIXED, start + COPY, start + HEADER + 1, end - 1, end, SIZE - 1,
                          SIZE - 16, SIZE + 1, SIZE + PAGE, chance.randrange(SIZE)])
    del data[size:]
    data.extend(chance.randbytes(size - len(data)))


def scribble(chance, data, _):
    start = somewhere(chance, data)
    noise = chance.randbytes(chance.choice([16, 512, PAGE, HEADER]))[:len(data) - start]
    data[start:start + len(noise)] = noise


def clock_is_true(data):
    """Whether a file's clock, as its next opener would have it, is no day ahead of ours."""
    wall, monotonic = time.time_ns(), time.monotonic_ns()
    boot, offset = struct.unpack("<QQ", data[CLOCK])
    seen, = struct.unpack("<Q", data[SEEN])
    latest = seen
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        if boot == int(file.read().replace("-", "")[:16], 16):
            latest = max(seen, (monotonic + offset) % 2**64)
    return latest <= wall + 86400 * 10**9


def halves(data, intact):
    """Whether the fixed part is as it was, and whether its copy is."""
    wanted = intact[:FIXED], intact[CHECKSUM]
    return ((data[:FIXED], data[CHECKSUM]) == wanted,
            (data[COPY:COPY + FIXED], data[COPY + FIXED:COPY + FIXED + 8]) == wanted)


def headers_are_well(data, intact):
    for start, _ in SECTIONS:
        header, wanted = data[start:start + HEADER], intact[start:start + HEADER]
        rest = bytearray(header)
        for part in KNOWN + ([CLOCK, SEEN] if start == 0 else []):
            rest[part] = bytes(len(rest[part]))
        if halves(header, wanted) != (True, True) or any(rest):
            return False
    return True


def is_well(data, intact, now):
    return (len(data) == SIZE and headers_are_well(data, intact) and clock_is_true(data)
            and not impossible(data, now))


def without_headers(data):
    data = bytearray(data)
    for start, _ in SECTIONS:
        data[start:start + HEADER] = bytes(HEADER)
    return data


def repaired(data, now):
    """What repair makes of a file, but for its headers."""
    left = bytearray(data[:min(len(data) // 16 * 16, SIZE)])
    left.extend(bytes(SIZE - len(left)))
    for at in impossible(data, now):
        left[at:at + 16] = bytes(16)
    return without_headers(left)


@pytest.fixture
def empty(serve, tmp_path):
    serve("--store", f"file:{tmp_path}/empty", "--capacity", str(CAPACITY)).stop()
    return (tmp_path / "empty").read_bytes()


@pytest.mark.skipif(BUILD.name == "tsan", reason="no threads meet here")
def test_random_damage_is_told_and_repaired(serve, tmp_path, empty):
    seed = int(os.environ.get("WEIR_TEST_SEED", time.time_ns() % 2**32))
    print(f"WEIR_TEST_SEED={seed}")
    chance = random.Random(seed)
    path = tmp_path / "state"
    counts = {"well": 0, "repaired": 0, "lost": 0}
    for _ in range(DAMAGES):
        now, picture = time.time_ns(), chance.random()
        earlier, intact = (fill(empty, picture, n, now) for n in (300, 600))
        data = bytearray(intact)
        for damage in chance.sample([flip_bits, flip_header, zero, tear, resize, scribble],
                                    chance.choice([1, 1, 2])):
            if data:
                damage(chance, data, earlier)
        path.write_bytes(data)
        well = len(data) >= HEADER and is_well(data, intact, now)
        assert weir("store", "check", path).returncode == (0 if well else 1)
        done = weir("store", "repair", path)
        after = path.read_bytes()
        if len(data) < HEADER or not any(halves(data, intact)):
            counts["lost"] += 1
            assert done.returncode == 1 and done.stderr
            assert after == data
            continue
        counts["well" if well else "repaired"] += 1
        assert done.returncode == 0, done.stderr
        assert is_well(after, intact, now)
        assert without_headers(after) == repaired(data, now)
        assert weir("store", "check", path).returncode == 0
        last = after
    print(counts)
    assert all(counts.values())
    path.write_bytes(last)
    assert serve("--store", f"file:{path}").get("/v1/acquire/window?key=k").json["allowed"]
