"""POST /v1/reload and `weir reload`: the answer says whether the new configuration is in force."""

import concurrent.futures
import re
import subprocess

import pytest
from harness import PATIENCE, Http, Wire, metric, until, weir

OLD = "limits: { old: { algorithm: fixed_window, rate: 5/h, align: first_request } }\n"
NEW = "limits: { new: { algorithm: fixed_window, rate: 5/h, align: first_request } }\n"
WRONG = "limits:\n  new: { algorithm: fixed_window, rate: 5/fortnight }\n  x: { algorithm: magic }\n"


def write(server, config):
    fresh = server.config.with_suffix(".new")
    fresh.write_text(config)
    fresh.replace(server.config)


def reload(server, *flags, **more):
    return weir("reload", "--server", f"127.0.0.1:{server.http}", *flags, **more)


def test_a_reload_is_in_force_when_it_is_answered(serve):
    server = serve(config=OLD)
    for config, limit in ((NEW, "new"), (OLD, "old")) * 3:
        write(server, config)
        answer = server.get("/v1/reload", method="POST")
        assert (answer.status, answer.json) == (200, {"ok": True})
        with Wire(server.resp) as wire:
            assert wire.command("WEIR.ACQUIRE", limit, "k")[0] == 1


def test_a_mistake_is_in_the_answer_and_changes_nothing(serve):
    server = serve(config=OLD)
    write(server, WRONG)
    done = reload(server)
    assert (done.returncode, done.stdout) == (1, "")
    place = re.escape(f"{server.config}:2:")
    assert re.fullmatch(rf"weir reload: {place}\d+: error: expected .+, found .+ \(1 of 2 errors\)\n", done.stderr)
    assert server.get("/v1/acquire/old?key=k").status == 200
    assert metric(server, r'weir_reloads_total\{result="failure"\}') >= 1
    write(server, NEW)
    done = reload(server)
    assert (done.returncode, done.stdout, done.stderr) == (0, "reloaded\n", "")
    assert server.get("/v1/acquire/new?key=k").status == 200


def test_the_answer_names_settings_that_need_a_restart(serve):
    server = serve(config=OLD)
    write(server, "capacity: 2000\ndenials: { keep: 5, file: /var/lib/x }\ndenied_cache: 2s\n" + NEW)
    answer = server.get("/v1/reload", method="POST")
    assert (answer.status, answer.json) == (200, {"ok": True, "restart_needed": ["capacity", "denials.keep", "denials.file"]})
    done = reload(server)
    assert (done.returncode, done.stdout, done.stderr) == (0, "reloaded\na restart is needed for capacity, denials.keep, denials.file\n", "")
    assert server.get("/v1/acquire/new?key=k").status == 200
    write(server, WRONG)
    assert server.get("/v1/reload", method="POST").status == 400
    write(server, OLD)
    assert server.get("/v1/reload", method="POST").json == {"ok": True}


def test_without_a_file_there_is_nothing_to_reload(serve):
    done = reload(serve(config=None))
    assert (done.returncode, done.stderr) == (1, "weir reload: nothing to reload: started without a file\n")


@pytest.mark.parametrize("at_redis", [False, True])
def test_answers_stay_in_the_order_of_requests(serve, start_redis, at_redis):
    store = f"store: {start_redis().url}\nstore_timeout: 30s\nnodes: 1\n" if at_redis else ""
    server = serve(config=store + OLD)
    ask = b"GET /v1/acquire/old?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reload_request = b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    with Wire(server.http) as wire:
        wire.send(ask + reload_request + ask + reload_request + ask)
        found = []
        while len(found) < 5:
            line = wire.file.readline()
            assert line, found
            length = re.match(rb"content-length: (\d+)", line.lower())
            if length:
                while wire.file.readline() != b"\r\n":
                    pass
                found.append(wire.file.read(int(length[1])))
    assert [b'"ok":true' in body for body in found] == [False, True, False, True, False]
    assert [re.search(rb'"remaining":(\d)', body)[1] for body in found[::2]] == [b"4", b"3", b"2"]


def test_many_ask_at_once_and_some_leave(serve):
    server = serve(config=OLD)
    request = b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    for _ in range(20):  # these leave
        with Wire(server.http) as wire:
            wire.send(request)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: server.get("/v1/reload", method="POST").status, range(64)))
    assert answers == [200] * 64
    until(lambda: metric(server, "weir_answers_pending") == 0, "no answer to be pending")
    with Wire(server.http) as wire:
        wire.send(request)
        assert server.stop() == 0


def test_over_http2(serve):
    server = serve(config=OLD)
    done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-X", "POST", f"http://127.0.0.1:{server.http}/v1/reload"],
                          capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == '{"ok":true}'


def test_a_reload_may_remove_the_user_who_asks_for_it(serve, tmp_path):
    token = weir("passwd", "--token").stdout.split()
    users = f'users: [ {{ name: ops, token: "{token[1]}", may: [admin] }} ]\n'
    server = serve(config=OLD + users)
    env = {"WEIR_TOKEN": token[0]}
    assert reload(server).returncode == 1  # no login
    assert reload(server, env=env).returncode == 0
    write(server, OLD + users.replace("[admin]", "[ask]"))
    assert reload(server, env=env).returncode == 0
    refused = reload(server, env=env)
    assert refused.returncode == 1 and "expected" in refused.stderr


def test_a_page_of_another_origin_reloads_nothing(serve):
    server = serve(config=OLD)
    with Http(server.http) as client:
        assert client.request("POST", "/v1/reload", headers={"Origin": "http://elsewhere.example"}).status == 403
        assert client.request("GET", "/v1/reload").status == 405
    assert metric(server, r'weir_reloads_total\{result="success"\}') == 0


def test_a_server_that_is_not_there_is_an_error():
    assert weir("reload", "--server", "127.0.0.1:1").returncode == 2
    assert weir("reload", "more").returncode == 2
