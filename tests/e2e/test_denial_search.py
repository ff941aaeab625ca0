"""`weir why --file`: finds denials in files that the server's memory has no more."""

import json
import time

import pytest
from harness import until, weir

CONFIG = """
limits:
  tokens: { algorithm: fixed_window, rate: 1/h, align: first_request }
rules:
  - { name: by-user, match: { path: /login }, key: [user], limits: [tokens] }
denials: { per_second: 1000000, keep: 5, file: denials.jsonl%s }
"""
LINE = {"id": "0123456789abcdef", "time": "2026-01-31T10:00:00Z", "rule": "r", "limit": "l", "key": "k",
        "reason": "over_limit", "retry_after_ms": 5, "shadow": False, "attributes": {"path": "/"}}


def at(server):
    return ["--server", f"127.0.0.1:{server.http}"]


def deny(server, user, times=1):
    request = {"attributes": {"path": "/login", "user": user}}
    assert server.post("/v1/batch", [request] * (times + 1)).status == 200


def lines_of(*lines, **members):
    return "".join(json.dumps({**LINE, **line, **members}, separators=(",", ":")) + "\n" for line in lines)


def numbered(numbers):
    return [{"id": f"{i:016x}", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_780_000_000 + i))} for i in numbers]


def listed(*arguments):
    done = weir("why", *arguments, "--json")
    return [denial["id"] for denial in json.loads(done.stdout or "[]")]


def test_a_denial_that_newer_ones_have_pushed_out_of_memory_is_found_in_the_files(serve, tmp_path):
    path = tmp_path / "denials.jsonl"
    server = serve(config=CONFIG % ", rotate: 16KiB, files: 50")
    deny(server, "ann", 2)
    deny(server, "bob", 200)
    until(lambda: len(listed("--file", str(path))) == 202, "the lines")
    assert weir("why", "ann", *at(server)).returncode == 1
    done = weir("why", "ann", "--file", str(path), *at(server))
    assert (done.returncode, done.stderr) == (0, "")
    assert [row.split()[1:4] for row in done.stdout.splitlines()[1:]] == [["by-user", "tokens", "over_limit"]] * 2
    digest = server.post("/v1/key", {"key": "ann"}).json["digest"]
    by_name = json.loads(weir("why", "ann", "--file", str(path), "--json", *at(server)).stdout)
    assert [(denial["key"], denial["attributes"]) for denial in by_name] == [(digest, {"path": "/login", "user": digest})] * 2
    newest = server.get("/v1/denials?n=5").json
    assert json.loads(weir("why", "--file", str(path), "--json").stdout)[:5] == newest
    assert len(listed("--file", str(path))) == 202
    assert server.stop() == 0
    # A digest needs no server, and neither do other filters.
    for text in (digest, digest.upper()):
        assert json.loads(weir("why", text, "--file", str(path), "--json").stdout) == by_name
    assert listed("--id", by_name[1]["id"].upper(), "--file", str(path)) == [by_name[1]["id"]]
    for flags, count in ((["--rule", "by-user"], 202), (["--limit", "spare"], 0), (["--since", "1h"], 202), (["--until", "1h"], 0)):
        assert len(listed(*flags, "--file", str(path))) == count
    nobody = weir("why", "ann", "--file", str(path), *at(server))
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert "only the server that wrote the files knows the digest of KEY in them" in nobody.stderr


@pytest.mark.parametrize("limit", ["THROTTLE", "CL.THROTTLE"])
def test_both_names_of_requests_that_bring_their_limit_find_their_denials(tmp_path, limit):
    path = tmp_path / "denials.jsonl"
    path.write_text(lines_of({"limit": "CL.THROTTLE", "rule": ""}, {"id": "f" * 16}))
    assert listed("--limit", limit, "--file", str(path)) == [LINE["id"]]


def test_files_are_searched_from_the_newest_to_the_oldest_and_others_are_not(tmp_path):
    path = tmp_path / "d"
    path.write_text(lines_of(*numbered([7, 8])))
    (tmp_path / "d.1").write_text("important\n")
    (tmp_path / "d.2").mkdir()
    (tmp_path / "d.4").write_text(lines_of(*numbered([5, 6])))
    (tmp_path / "d.9").write_text(lines_of(*numbered([1])) + "no json\n" + "x" * 9000 + "\n" + lines_of(*numbered([4])) + "{\"id\":\"torn")
    assert listed("--file", str(path)) == [f"{i:016x}" for i in (8, 7, 6, 5, 4, 1)]
    span = numbered([4, 6])
    assert listed("--file", str(path), "--since", span[0]["time"], "--until", span[1]["time"]) == [f"{i:016x}" for i in (6, 5, 4)]
    assert listed("--file", str(path), "--since", "2026-01-01", "--until", "2026-05-30") == [f"{i:016x}" for i in (8, 7, 6, 5, 4, 1)]
    assert listed("--file", str(path), "--until", "2026-05-27") == []
    done = weir("why", "--file", str(path))
    assert done.returncode == 0
    assert done.stderr == f"weir why: {path} has 6 denials, the oldest of {numbered([1])[0]['time']}, and 2 lines that are none\n"
    none = weir("why", "--rule", "other", "--until", "1h", "--file", str(path))
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == done.stderr.replace("why:", "why: no denial by the rule 'other' is kept until 1h;")


def test_only_the_newest_of_many_are_listed_and_that_is_said(tmp_path):
    path = tmp_path / "d"
    path.write_text(lines_of(*numbered(range(2500))))
    done = weir("why", "--file", str(path), "--json")
    assert [denial["id"] for denial in json.loads(done.stdout)] == [f"{i:016x}" for i in range(2499, 1499, -1)]
    assert done.stderr == (f"weir why: only the newest 1000 of 2500 are listed: see --since and --until; {path} has 2500 denials, "
                           f"the oldest of {numbered([0])[0]['time']}\n")
    assert len(weir("why", "--file", str(path)).stdout.splitlines()) == 1001
    rest = numbered([1499])[0]["time"]
    assert listed("--file", str(path), "--until", rest)[0] == f"{1499:016x}"


@pytest.mark.parametrize("flags, message", [
    (["--file", "/nowhere/d"], "/nowhere/d: No such file or directory"), (["--file", "/"], "/: expected a file of denials"),
    (["--file", "/etc/passwd"], "/etc/passwd: expected a file of denials"),
    *((["--file", "d", flag, "soon"], f"{flag}: expected a span such as 1h, a date such as 2026-01-31, or a time such as 2026-01-31T10:00:00Z, found 'soon'")
      for flag in ("--since", "--until"))])
def test_a_file_or_time_that_can_not_be_read_is_an_error(flags, message):
    done = weir("why", *flags)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"weir why: {message}\n")


def test_why_says_that_a_list_of_the_server_was_cut_and_how_far_back_it_goes(serve):
    server = serve(config=CONFIG.replace("keep: 5", "keep: 1100") % "")
    deny(server, "ann", 900)
    oldest = server.get("/v1/denials?n=1000").json[-1]["time"]
    done = weir("why", "--since", "1h", *at(server))  # none was dropped
    assert (done.returncode, done.stderr) == (0, "") and len(done.stdout.splitlines()) == 901
    deny(server, "bob", 200)
    done = weir("why", "bob", "--since", "1h", *at(server))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 201)
    assert done.stderr == f"weir why: older denials may be in its files only, see --file; the server keeps 1100 denials, the oldest of {oldest}\n"
    assert weir("why", "bob", "--since", oldest, *at(server)).stderr == ""
    for flags in ([], ["--json"], ["--since", "1h"]):
        done = weir("why", *flags, *at(server))
        assert done.returncode == 0
        assert done.stderr == (f"weir why: only the newest 1000 are listed: see --since, --until and --rule; "
                               f"the server keeps 1100 denials, the oldest of {oldest}\n")
