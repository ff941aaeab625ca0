"""A server reloads its rule files and dictionaries when they change, completely or not at all."""

import os
import signal
import re
import shutil
import threading

import pytest
from harness import BUILD, Server, Wire, until

RULES = """
[dicts]
blocked : blocked.dat
[rules]
rule : [direct] [uid @ blocked] [] [result=2; return=101]
rule : [count] [act=ask; uid=+] [time=3600; count={count}] [result=2; return=111]
[result]
0 : {{ "Ret_type":0, "Ret_code":0 }}
1 : {{ "Ret_type":1, "Ret_code":0 }}
2 : {{ "Ret_type":2, "Ret_code":0 }}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "koala.conf").write_text(RULES.format(count=3))
    (tmp_path / "blocked.dat").write_text("eve\n")
    return tmp_path


@pytest.fixture
def server(files):
    server = Server("-c", files / "koala.conf")
    yield server
    assert server.stop() == 0


def check(server, *attributes):
    with Wire(server.resp) as wire:
        allowed, quota, *_, rule = wire.command("WEIR.CHECK", *attributes)
    return allowed, quota, rule.decode()


def quota(server):
    return check(server, "act", "ask", "uid", "ann")[1]


def is_blocked(server, uid):
    return check(server, "uid", uid) == (0, 0, "101")


def reloads(server):
    text = server.get("/metrics").text
    return tuple(int(re.search(rf'weir_reloads_total{{result="{result}"}} (\d+)', text)[1])
                 for result in ("success", "failure"))


def test_a_file_that_is_written_in_place_is_reloaded(server, files):
    assert quota(server) == 3
    (files / "koala.conf").write_text(RULES.format(count=4))
    assert f"reloaded file={files}/koala.conf limits=1 rules=2" in server.line_with(" reloaded ")
    assert quota(server) == 4
    assert reloads(server) == (1, 0)


def test_a_file_that_is_replaced_by_a_rename_is_reloaded(server, files):
    for count in (4, 5, 6):
        (files / "fresh").write_text(RULES.format(count=count))
        (files / "fresh").rename(files / "koala.conf")
        server.line_with(" reloaded ")
        assert quota(server) == count
    assert reloads(server) == (3, 0)


def test_an_incomplete_file_changes_nothing_and_its_error_names_the_place(server, files):
    whole = RULES.format(count=4)
    (files / "koala.conf").write_text(whole[:whole.index("[result]")])
    line = server.line_with("reload_failed")
    assert f"{files}/koala.conf: expected the section [result], found none" in line
    assert quota(server) == 3
    (files / "koala.conf").write_text(whole.replace("count=4", "count=x").replace("uid @", "uid ?"))
    assert re.search(r"reload_failed \S*/koala\.conf:5:18: error: expected a condition", server.line_with(":5:18:"))
    assert re.search(r"reload_failed \S*/koala\.conf:6:51: error: expected a whole", server.line_with(":6:51:"))
    until(lambda: reloads(server) == (0, 2), "the count of failed reloads")
    assert quota(server) == 3
    (files / "koala.conf").write_text(whole)
    server.line_with(" reloaded ")
    assert quota(server) == 4


def test_a_file_is_reloaded_when_its_writer_closes_it(server, files):
    with open(files / "koala.conf", "w", encoding="ascii") as file:
        text = RULES.format(count=4)
        for line in text.splitlines(keepends=True):
            file.write(line)
            file.flush()
            check(server, "uid", "ann")  # other requests are answered
    server.line_with(" reloaded ")
    assert (quota(server), reloads(server)) == (4, (1, 0))


def test_a_dictionary_is_reloaded_completely_or_not_at_all(server, files):
    assert is_blocked(server, "eve") and not is_blocked(server, "bob")
    (files / "fresh").write_text("bob\n")
    (files / "fresh").rename(files / "blocked.dat")
    server.line_with(" reloaded ")
    assert is_blocked(server, "bob") and not is_blocked(server, "eve")
    (files / "blocked.dat").unlink()
    assert 'blocked.dat": expected a readable file' in server.line_with("reload_failed")
    assert is_blocked(server, "bob")
    (files / "blocked.dat").write_text("eve\n10.0.0.0/99\n")
    assert "line 2: expected a range of addresses" in server.line_with("reload_failed")
    assert is_blocked(server, "bob")
    (files / "blocked.dat").write_text("ann\n")
    server.line_with(" reloaded ")
    assert is_blocked(server, "ann") and not is_blocked(server, "bob")


def test_a_pipe_is_refused_whoever_writes_to_it(server, files):
    (files / "blocked.dat").unlink()
    os.mkfifo(files / "blocked.dat")
    assert 'blocked.dat": expected a readable file, found: not a regular' in server.line_with("reload_failed")
    writer = os.open(files / "blocked.dat", os.O_RDWR)  # a writer that neither writes nor closes
    server.process.send_signal(signal.SIGHUP)
    assert 'blocked.dat": expected a readable file, found: not a regular' in server.line_with("reload_failed")
    os.close(writer)
    assert is_blocked(server, "eve")
    (files / "fresh").write_text("bob\n")
    (files / "fresh").rename(files / "blocked.dat")
    server.line_with(" reloaded ")
    assert is_blocked(server, "bob")


def test_a_missing_dictionary_is_read_when_it_appears(server, files):
    (files / "koala.conf").write_text(RULES.format(count=4).replace(
        "blocked.dat", "later/blocked.dat"))
    server.line_with("reload_failed")
    (files / "later").mkdir()
    (files / "later/fresh").write_text("bob\n")
    (files / "later/fresh").rename(files / "later/blocked.dat")
    server.line_with(" reloaded ")
    assert is_blocked(server, "bob") and not is_blocked(server, "eve")


def test_a_mounted_configuration_that_is_swapped_is_reloaded(tmp_path):
    def put(name, count, word):
        (tmp_path / name).mkdir()
        (tmp_path / name / "koala.conf").write_text(RULES.format(count=count))
        (tmp_path / name / "blocked.dat").write_text(word + "\n")
        (tmp_path / "..data_tmp").symlink_to(name)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    put("..1", 3, "eve")
    for name in ("koala.conf", "blocked.dat"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    server = Server("-c", tmp_path / "koala.conf")
    for count, word in ((4, "bob"), (5, "joe")):
        put(f"..{count}", count, word)
        # Removing the old directory may cause another reload.
        until(lambda count=count: quota(server) == count, f"the count {count}")
        assert is_blocked(server, word)
        shutil.rmtree(tmp_path / f"..{count - 1 if count > 4 else 1}")
    assert server.stop() == 0


def test_sighup_and_a_change_at_the_same_time_cause_one_reload(files):
    server = Server("-c", files / "koala.conf", config="capacity: 1000\n", directory=files)
    server.reload("capacity: 1000\nkoala: { timezone: UTC }\n")
    server.line_with(" reloaded ")
    (files / "blocked.dat").write_text("bob\n")
    server.line_with(" reloaded ")
    assert reloads(server) == (2, 0)
    assert server.stop() == 0


# The thread sanitizer needs half a minute for so many, and finds no more in them.
MILLION = 1_000_000 if BUILD.name != "tsan" else 100_000


def test_a_dictionary_of_a_million_is_replaced_under_load_without_a_wrong_decision(server, files):
    """Words of both the old dictionary and the new one are denied all the time."""
    stop = threading.Event()
    wrong = []
    asked = [0, 0]

    def ask(worker):
        with Wire(server.resp) as wire:
            while not stop.is_set():
                for uid, expected in (("eve", 0), ("ann", 1), ("word-77", None)):
                    allowed, *_ = wire.command("WEIR.CHECK", "uid", uid)
                    asked[worker] += 1
                    if expected is not None and allowed != expected:
                        wrong.append((uid, allowed))

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    words = "".join(f"word-{i}\n" for i in range(MILLION))
    for more in (words + "eve\n", "eve\n" + words.upper(), "eve\n"):
        (files / "fresh").write_text(more)
        os.replace(files / "fresh", files / "blocked.dat")
        before = list(asked)
        server.line_with(" reloaded ")
        until(lambda before=before: all(a < b for a, b in zip(before, asked)), "decisions")
        assert is_blocked(server, "word-77") == ("word-77\n" in more)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert reloads(server) == (3, 0)
