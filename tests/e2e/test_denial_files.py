"""Denials in files, which outlast a restart."""

import json
import os
import stat

import pytest
from harness import metric, small_disk, until

CONFIG = """
limits:
  tokens: { algorithm: fixed_window, rate: 1/h, align: first_request }
denials: { key: full, per_second: 1000000, file: denials.jsonl%s }
"""


def deny(server, key, times=1):
    """Denies a key of its own so often."""
    left = times + 1
    while left > 0:
        batch = min(left, 200)
        assert server.post("/v1/batch", [{"limit": "tokens", "key": key}] * batch).status == 200
        left -= batch


def kept(server, query="?n=1000"):
    return server.get(f"/v1/denials{query}").json


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def line_count(path):
    """The server makes the file a moment after it has started."""
    return path.read_text().count("\n") if path.exists() else 0


def files_of(path):
    return sorted(file for file in path.parent.glob(f"{path.name}*") if file.suffix != ".secret")


def test_denials_are_written_and_read_again_after_a_restart(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    server = serve(config=CONFIG % "")
    deny(server, "ann\"\u202e\0</script>é", 3)
    before = kept(server)
    until(lambda: line_count(path) == 3, "the lines")
    assert written(path) == before[::-1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.stop() == 0
    again = serve(config=CONFIG % "")
    assert kept(again) == before
    assert again.get("/v1/status").json["denials"] == {"kept": 3, "left_out": 0, "oldest": again.get("/v1/denials").json[-1]["time"], "keep": 10000}
    deny(again, "bob")
    after = kept(again)
    assert after[1:] == before and after[0]["key"] == "bob"
    assert len({denial["id"] for denial in after}) == 4
    assert again.stop() == 0
    assert written(path) == after[::-1]  # a stop waits for the lines


def test_a_digest_is_that_of_the_key_after_a_restart_if_the_store_is_in_a_file(serve, tmp_path):
    config = CONFIG.replace("key: full, ", "") % "" + f"store: file:{tmp_path / 'state'}\n"
    server = serve(config=config)
    deny(server, "ann", 3)
    before = kept(server, "?key=ann")
    assert len(before) == 3 and before[0]["key"] != "ann"
    assert server.stop() == 0
    assert kept(serve(config=config), "?key=ann") == before


def test_a_server_that_is_killed_loses_no_written_line(serve, tmp_path):
    server = serve(config=CONFIG % "")
    deny(server, "ann", 5)
    until(lambda: line_count(tmp_path / "denials.jsonl") == 5, "the lines")
    before = kept(server)
    server.process.kill()
    server.process.wait()
    assert kept(serve(config=CONFIG % "")) == before


def test_the_files_rotate_and_are_bounded(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    server = serve(config=CONFIG % ", rotate: 16KiB, files: 3")
    deny(server, "k" * 100, 2000)
    assert server.stop() == 0
    assert [file.name for file in files_of(path)] == ["denials.jsonl", "denials.jsonl.1", "denials.jsonl.2"]
    for file in files_of(path):
        assert 0 < file.stat().st_size <= 16384 and stat.S_IMODE(file.stat().st_mode) == 0o600
    newest_first = [denial["id"] for name in ("", ".1", ".2")
                    for denial in reversed(written(path.with_name(path.name + name)))]
    again = serve(config=CONFIG % ", rotate: 16KiB, files: 3")
    assert [denial["id"] for denial in kept(again)] == newest_first
    server = serve(config=CONFIG.replace("denials.jsonl", "other.jsonl") % ", rotate: 8kB, files: 1")
    deny(server, "k" * 100, 300)
    assert server.stop() == 0
    assert [file.name for file in files_of(tmp_path / "other.jsonl")] == ["other.jsonl"]
    assert 0 < (tmp_path / "other.jsonl").stat().st_size <= 8000


def test_only_the_last_are_read_of_more_than_are_kept(serve):
    server = serve(config=CONFIG % "")
    deny(server, "ann", 50)
    assert server.stop() == 0
    again = serve(config=CONFIG % ", keep: 7")
    assert len(kept(again)) == 7


LINE = {"id": "0123456789abcdef", "time": "2026-01-31T10:00:00Z", "rule": "r", "limit": "l", "key": "k",
        "reason": "over_limit", "retry_after_ms": 5, "shadow": False, "attributes": {"path": "/"}}


def changed(**members):
    return json.dumps({**LINE, **members})


BAD_LINES = [
    "", "no json", "[]", "{}", "{" * 3000, "x" * 5000, changed(id="0123"), changed(id="0123456789abcdeg"), changed(time="soon"),
    changed(reason="because"), changed(retry_after_ms=-1), changed(retry_after_ms=1.5), changed(shadow=0),
    changed(limit="l\0"), changed(rule=None), changed(attributes=[]), changed(attributes={"a": 1}),
    changed() + " more", changed()[:-1] + ', "key": "twice"}', '{"id":"\udcff"}']


def await_line(server, text):
    """Waits for a line, which may have come before the server was ready."""
    if not any(text in line for line in server.log):
        server.line_with(text)


def log_lines(server, event):
    """The lines of an event until the server has started."""
    return [json.loads(line) for line in server.log if f'"event":"{event}"' in line]


def test_lines_that_are_no_denials_are_skipped_with_their_place(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    for bad in BAD_LINES:
        path.write_bytes("\n".join([changed(key="first"), bad, changed(key="last", future={"x": [1]}), ""])
                         .encode(errors="surrogateescape"))
        server = serve("--log-format", "json", config=CONFIG % "")
        assert [denial["key"] for denial in kept(server)] == ["last", "first"], bad
        [skipped] = log_lines(server, "denial_skipped")
        assert (skipped["file"], skipped["line"]) == (str(path), 2)
        assert skipped["message"].startswith("expected ") and skipped["column"] >= 1
        assert server.stop() == 0


def test_hostile_texts_are_escaped_and_many_wrong_lines_are_summed_up(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    path.write_text("".join(changed(key=f"</script>{i}", rule="\u202e\"", attributes={"<b>": "\x01é"}).replace("</script>1", "\\ud83d")
                            + "\n" for i in range(30)))
    server = serve("--log-format", "json", config=CONFIG % "")
    denials = kept(server)
    assert denials[0]["key"] == "</script>29" and denials[0]["rule"] == "\u202e\""
    assert denials[0]["attributes"] == {"<b>": "\x01é"}
    assert len(log_lines(server, "denial_skipped")) == 10
    [read] = log_lines(server, "denials_read")
    assert (read["denials"], read["skipped"]) == (len(denials), 30 - len(denials)) and read["skipped"] == 11


@pytest.mark.parametrize("end", [b"{\"id\":\"01", b"{", changed().encode()])
def test_a_torn_last_line_is_cut_off(serve, tmp_path, end):
    path = tmp_path / "denials.jsonl"
    path.write_bytes(changed(key="whole").encode() + b"\n" + end)
    server = serve("--log-format", "json", config=CONFIG % "")
    assert [denial["key"] for denial in kept(server)] == ["whole"]
    assert not log_lines(server, "denial_skipped")
    deny(server, "next")
    assert server.stop() == 0
    assert [denial["key"] for denial in written(path)] == ["whole", "next"]


OTHER_JSON = '{"ida":1}\n{"of": "another program"'


def symbolic_link(path):
    (path.parent / "elsewhere").write_text("")
    path.symlink_to(path.parent / "elsewhere")


def hard_link(path):
    (path.parent / "elsewhere").write_text("")
    os.link(path.parent / "elsewhere", path)


@pytest.mark.parametrize("make", [symbolic_link, hard_link, os.mkdir, os.mkfifo,
                                  lambda path: path.write_text("important\n"), lambda path: path.write_text(OTHER_JSON)],
                         ids=["symbolic link", "hard link", "directory", "fifo", "another file", "another file of JSON"])
def test_other_files_are_not_written(serve, tmp_path, make):
    path = tmp_path / "denials.jsonl"
    make(path)
    server = serve(config=CONFIG % "")
    await_line(server, "denials_lost file=")
    deny(server, "ann", 3)
    until(lambda: metric(server, "weir_denials_lost_total") == 3, "the losses to be counted")
    assert len(kept(server)) == 3  # in memory
    if (tmp_path / "elsewhere").exists():
        assert (tmp_path / "elsewhere").read_text() == ""
    assert path.is_symlink() or not path.is_file() or path.read_text() in ("important\n", OTHER_JSON, "")
    assert server.stop() == 0


def test_a_full_disk_loses_denials_with_one_warning_and_no_request(serve, tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        server = serve("--log-format", "json", config=CONFIG.replace("denials.jsonl", "disk/denials.jsonl") % "")
        deny(server, "k" * 200, 1000)
        until(lambda: metric(server, "weir_denials_lost_total") + line_count(disk / "denials.jsonl") == 1000, "each to be written or lost")
        lines = (disk / "denials.jsonl").read_text().splitlines()
        assert 50 < len(lines) < 900 and all(json.loads(line)["key"] == "k" * 200 for line in lines)
        assert len(kept(server)) == 1000
        lost = metric(server, "weir_denials_lost_total")
        os.truncate(disk / "denials.jsonl", 0)  # there is room again
        deny(server, "later", 1)
        server.line_with("denials_written")
        assert metric(server, "weir_denials_lost_total") == lost
        assert sum('"denials_lost"' in line for line in server.log) == 1
        assert server.stop() == 0


def test_a_second_server_does_not_write_the_same_file(serve, tmp_path):
    first = serve(config=CONFIG % "")
    deny(first, "first")
    until(lambda: line_count(tmp_path / "denials.jsonl") == 1, "the line")
    second = serve(config=CONFIG % "")
    await_line(second, "expected a file that no other process writes, found it locked")
    deny(second, "second")
    assert second.stop() == 0
    assert [denial["key"] for denial in written(tmp_path / "denials.jsonl")] == ["first"]


def test_secrets_are_in_no_file(serve, tmp_path):
    server = serve(config=CONFIG % "" + "rules: [ { name: t, key: [header.x-api-key], limits: [tokens] } ]\n")
    for _ in range(3):
        server.get("/auth", {"X-Api-Key": "s3cret"})
    assert server.stop() == 0
    text = (tmp_path / "denials.jsonl").read_text()
    assert text.count("\n") == 2 and "s3cret" not in text


@pytest.mark.parametrize("extra", [-1, 0, 1, 100])
def test_of_a_long_file_the_last_lines_are_read_and_wrong_ones_named_by_their_offset(serve, tmp_path, extra):
    """With `keep: 1` the last 5137 bytes are read, of which `extra` bytes more are one line less."""
    path = tmp_path / "denials.jsonl"
    bad = b"no json\n"
    lines = [changed(key=f"{i:04}").encode() + b"\n" for i in range(200)]
    tail = b"".join(lines[-20:]) + bad
    last = changed(key="last").encode()
    last += b" " * (5137 - len(tail) - len(last) - 1 + extra) + b"\n"
    path.write_bytes(b"".join(lines) + bad + last)
    server = serve("--log-format", "json", config=CONFIG % ", keep: 1")
    [read] = log_lines(server, "denials_read")
    assert (read["denials"], read["kept"], read["skipped"]) == (20 - (extra > 0) + 1, 1, 1)
    [skipped] = log_lines(server, "denial_skipped")
    assert "line" not in skipped and skipped["byte"] == len(b"".join(lines))
    assert [denial["key"] for denial in kept(server)] == ["last"]


def test_fewer_files_remove_the_oldest_and_no_others(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    server = serve(config=CONFIG % ", rotate: 16KiB, files: 6")
    deny(server, "k" * 100, 2000)
    assert server.stop() == 0
    assert len(files_of(path)) == 6
    for name, content in ((".7", "important\n"), (".old", (tmp_path / "denials.jsonl.5").read_text())):
        (tmp_path / f"denials.jsonl{name}").write_text(content)
    os.remove(tmp_path / "denials.jsonl.4")
    os.symlink(tmp_path / "denials.jsonl.1", tmp_path / "denials.jsonl.4")
    server = serve(config=CONFIG % ", rotate: 16KiB, files: 2")
    left = ["denials.jsonl" + name for name in ("", ".1", ".4", ".7", ".old")]
    until(lambda: [file.name for file in files_of(path)] == left, "the surplus files to be removed")
    await_line(server, "denials_removed")
    assert server.stop() == 0
    assert (tmp_path / "denials.jsonl.7").read_text() == "important\n"


def test_another_file_needs_a_restart(serve):
    server = serve(config=CONFIG % "")
    server.reload(CONFIG % ", files: 9")
    assert "denials.file" in server.line_with("restart_needed")


def test_rotation_leaves_names_out_that_others_have_taken(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    taken = {1: "important\n", 4: OTHER_JSON}
    for number, text in taken.items():
        (tmp_path / f"denials.jsonl.{number}").write_text(text)
    (tmp_path / "denials.jsonl.2").mkdir()
    server = serve("--log-format", "json", config=CONFIG % ", rotate: 16KiB, files: 6")
    for number in (1, 2, 4):
        await_line(server, f"denials.jsonl.{number}")
    deny(server, "k" * 100, 2000)
    assert server.stop() == 0
    assert not any("denials_lost" in line for line in server.log)
    for number, text in taken.items():
        assert (tmp_path / f"denials.jsonl.{number}").read_text() == text
    newest_first = [denial["id"] for number in ("", ".3", ".5") for denial in reversed(written(tmp_path / f"denials.jsonl{number}"))]
    again = serve(config=CONFIG % ", rotate: 16KiB, files: 6")
    assert [denial["id"] for denial in kept(again)] == newest_first and len(newest_first) > 50


def test_a_file_that_others_take_while_the_server_runs_is_not_replaced(serve, tmp_path):
    server = serve(config=CONFIG % ", rotate: 8kB, files: 2")
    deny(server, "k" * 100, 10)
    (tmp_path / "denials.jsonl.1").write_text("important\n")
    deny(server, "k" * 100, 200)
    assert server.stop() == 0
    assert (tmp_path / "denials.jsonl.1").read_text() == "important\n"
    assert 0 < (tmp_path / "denials.jsonl").stat().st_size <= 8000


@pytest.mark.parametrize("move", [os.remove, lambda path: os.rename(path, path.with_name("moved")),
                                  lambda path: os.replace(path.with_name("other"), path)], ids=["removed", "renamed", "replaced"])
def test_a_file_that_is_moved_away_is_opened_anew(serve, tmp_path, move):
    path = tmp_path / "denials.jsonl"
    server = serve(config=CONFIG % "")
    deny(server, "before", 3)
    until(lambda: line_count(path) == 3, "the lines")
    (tmp_path / "other").write_text("")
    move(path)
    deny(server, "after", 2)
    await_line(server, "denials_file_moved")
    until(lambda: line_count(path) == 2, "the lines in a new file")
    assert [denial["key"] for denial in written(path)] == ["after"] * 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert metric(server, "weir_denials_lost_total") == 0
    assert server.stop() == 0


def test_a_file_in_the_place_of_one_that_was_moved_away_is_not_written(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    server = serve(config=CONFIG % "")
    deny(server, "before", 3)
    until(lambda: line_count(path) == 3, "the lines")
    (tmp_path / "other").write_text("important\n")
    os.replace(tmp_path / "other", path)
    deny(server, "after", 2)
    until(lambda: metric(server, "weir_denials_lost_total") == 2, "the losses to be counted")
    assert server.stop() == 0
    assert path.read_text() == "important\n"
