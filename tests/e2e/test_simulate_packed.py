"""`weir simulate` reads compressed logs as it reads plain text, and bounds their memory."""

import gzip
import json
import os
import random
import subprocess

import pytest
from harness import BUILD, PATIENCE, SANITIZED, WEIR, one_thread

pytestmark = one_thread

TRY = "a: { algorithm: token_bucket, rate: 5/s, burst: 10 }"


def text_of(lines, seed=1):
    draw = random.Random(seed)
    time, log = 1767225600.0, []
    for _ in range(lines):
        time += draw.expovariate(20)
        log.append(json.dumps({"time": round(time, 6), "ip": f"192.0.2.{draw.randrange(4)}"}))
    return "\n".join(log).encode() + b"\n"


def zstd(text, *flags):
    return subprocess.run(["zstd", "-qc", *flags], input=text, stdout=subprocess.PIPE, check=True).stdout


def simulate(trace, *flags, **options):
    return subprocess.run([WEIR, "simulate", "--trace", trace, *(flags or ("--try", TRY, "--json"))],
                          capture_output=True, timeout=PATIENCE, check=False, **options)


def result(done):
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    del report["source"]
    return report


def refused(done):
    assert done.returncode == 1 and done.stdout == b""
    return done.stderr.decode()


def test_a_compressed_log_is_decided_as_the_plain_log(tmp_path):
    text = text_of(20_000)
    half = text.index(b"\n", len(text) // 2) - 10  # within a line
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    log = tmp_path / "log"
    log.write_bytes(text)
    plain = result(simulate(log))
    assert plain["requests"] == 20_000 and plain["limits"]["a"]["denied"] > 0
    for packed in (gzip.compress(text), gzip.compress(text[:half]) + gzip.compress(b"") + gzip.compress(text[half:]),
                   zstd(text), zstd(text, "-19", "--long=27"),
                   zstd(text[:half]) + skippable + zstd(b"") + zstd(text[half:])):
        log.write_bytes(packed)
        assert result(simulate(log)) == plain
        assert result(simulate("-", input=packed)) == plain
        with open(log, "rb") as whole:
            assert result(simulate("-", stdin=whole)) == plain


def test_a_limit_is_suggested_by_a_compressed_log(tmp_path):
    text = text_of(2_000)
    log = tmp_path / "log"
    flags = ("--suggest", "sliding_window/10s", "--deny", "1%", "--by", "requests")
    log.write_bytes(text)
    plain = simulate(log, *flags)
    assert plain.returncode == 0
    for packed in gzip.compress(text), zstd(text):
        log.write_bytes(packed)
        assert simulate(log, *flags).stdout == plain.stdout
        piped = simulate("-", *flags, input=packed)
        assert piped.stdout.splitlines()[1:] == plain.stdout.splitlines()[1:]


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_each_truncation_is_an_error(tmp_path, pack):
    packed = pack(text_of(3))
    log = tmp_path / "log"
    for size in range(4, len(packed), 5 if BUILD.name in SANITIZED else 1):  # programs with a sanitizer start slowly
        log.write_bytes(packed[:size])
        assert f"{log}: after line" in (said := refused(simulate(log))), size
        assert "expected the whole of a compressed file, found its end too early" in said


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (zstd, "zstd")])
def test_damage_and_trailing_bytes_are_errors(tmp_path, pack, name):
    text = text_of(5_000)
    packed = bytearray(pack(text))
    log = tmp_path / "log"
    log.write_bytes(bytes(packed) + b"more\n")
    assert f"after line 5000: expected {name}, found other bytes" in refused(simulate(log))
    for at in range(len(packed) // 4, len(packed) // 4 + 4000, 40):
        packed[at] ^= 0xff
    log.write_bytes(packed)
    assert f"expected {name}, found other bytes or damaged ones" in refused(simulate(log))


@pytest.mark.parametrize("text", [b"", b"\x1f", b"\x1f\x8b", b"\x28\xb5\x2f", b"\x28\xb5\x2f\xfd"])
def test_a_file_of_a_few_bytes_is_no_log(tmp_path, text):
    log = tmp_path / "log"
    log.write_bytes(text)
    assert "expected" in refused(simulate(log))


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_decompression_bomb_needs_bounded_memory(tmp_path, pack):
    log = tmp_path / "log"
    log.write_bytes(pack(text_of(1)) + pack(bytes(1 << 26)) * 10 + pack(b"\n" + text_of(1)))
    with open(tmp_path / "shown", "w+b") as shown, open(tmp_path / "said", "w+b") as said:
        running = subprocess.Popen([WEIR, "simulate", "--trace", log, "--try", TRY, "--json",
                                    "--capacity", "1000"], stdout=shown, stderr=said)
        _, running.returncode, usage = os.wait4(running.pid, 0)
        shown.seek(0), said.seek(0)
        assert json.load(shown)["requests"] == 2
        assert b":2:1: error: expected a line of at most 65536 bytes" in said.read()
    assert usage.ru_maxrss < 400 << 10  # the text has 640 MiB


def test_the_window_of_zstd_is_bounded(tmp_path):
    log = tmp_path / "log"
    packed = zstd(bytes(1 << 29) + b"\n", "--ultra", "-1", "--long=29")
    log.write_bytes(packed)
    assert "expected zstd with a window of at most 128 MiB, found a larger one" in refused(simulate(log))
