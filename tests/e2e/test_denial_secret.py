"""The secret beside the files of denials, by which a key's denials are found after a restart."""

import json
import os
import re
import stat
import subprocess

import pytest
from harness import PATIENCE, WEIR, small_disk, until, weir

CONFIG = """
limits:
  tokens: { algorithm: fixed_window, rate: 1/h, align: first_request }
  jobs: { algorithm: concurrency, max: 1, lease: 1h }
rules:
  - { name: by-both, match: { act: ask }, key: [act, user], limits: [tokens] }
  - { name: by-network, match: { path: [/login] }, key: [ip], limits: [tokens] }
  - { name: by-header, match: { path: [/token] }, key: [header.x-api-key], limits: [tokens] }
denials: { file: denials.jsonl%s }
"""


def run(server, *arguments):
    done = weir(*arguments, "--server", f"127.0.0.1:{server.http}")
    return done.returncode, done.stdout


def deny(server, *keys):
    server.post("/v1/batch", [{"limit": "tokens", "key": key} for key in keys for _ in range(2)])


def kept(server, query="?n=1000"):
    return server.get(f"/v1/denials{query}").json


def secret_of(tmp_path):
    return tmp_path / "denials.jsonl.secret"


def stop_and_start(server, serve, **config):
    assert server.stop() == 0
    return serve(**config)


@pytest.mark.parametrize("options", ["", ", key: full", ", attributes: none"])
def test_a_server_in_memory_finds_the_denials_from_before_its_restart(serve, tmp_path, options):
    config = CONFIG % options
    server = serve(config=config)
    deny(server, "ann", "bob")
    for request in ({"act": "ask", "user": "eve"}, {"path": "/login", "ip": "2001:db8::1:2:3:4"}):
        for _ in range(2):
            server.post("/v1/acquire", {"attributes": request})
    for _ in range(2):
        server.get("/auth", {"X-Forwarded-Uri": "/token", "X-Api-Key": "s3cret"})
    before = kept(server)
    status, digest = run(server, "key", "ann")
    assert status == 0 and re.fullmatch("[0-9a-f]{16}\n", digest)
    server = stop_and_start(server, serve, config=config)
    assert kept(server) == before and len(before) == 5
    assert run(server, "key", "ann") == (0, digest)
    for key in ("ann", digest.strip()):
        status, text = run(server, "why", key, "--json")
        if key == "ann" or "full" not in options:
            assert status == 0 and json.loads(text) == before[-1:]
    for key, rule in (("eve", "by-both"), ("2001:db8::1:2:3:4", "by-network"), ("s3cret", "by-header")):
        status, text = run(server, "why", key, "--json")
        assert (status, [denial["rule"] for denial in json.loads(text)]) == (0, [rule])
    assert run(server, "why", "nobody")[0] == 1
    # The names of secrets are in no file, and neither is what the other values stand for.
    text = (tmp_path / "denials.jsonl").read_text()
    assert "s3cret" not in text and "values" in text and ("eve" in text) == ("full" in options)
    assert all("values" not in denial for denial in before)


def test_the_secret_is_made_once_and_is_only_for_its_owner(serve, tmp_path):
    server = serve(config=CONFIG % "")
    path = secret_of(tmp_path)
    assert re.fullmatch("[0-9a-f]{32}\n", path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_nlink == 1
    first = path.read_text()
    os.chmod(path, 0o644)
    server = stop_and_start(server, serve, config=CONFIG % "")
    assert path.read_text() == first and stat.S_IMODE(path.stat().st_mode) == 0o600
    deny(server, "ann")
    path.unlink()  # the server goes on with the secret that it has read
    assert len(kept(server, "?key=ann")) == 1
    server = stop_and_start(server, serve, config=CONFIG % "")
    assert path.read_text() != first
    assert kept(server, "?key=ann") == [] and len(kept(server, "?limit=tokens")) == 1
    assert sorted(file.name for file in tmp_path.glob("denials*")) == ["denials.jsonl", "denials.jsonl.secret"]


@pytest.mark.parametrize("config", [CONFIG.replace("file: denials.jsonl%s", ""), CONFIG % ", keep: 0",
                                    CONFIG % "" + "store: file:state\ncapacity: 1000\n"], ids=["no file", "no denials", "a store in a file"])
def test_there_is_no_secret_where_none_is_needed(serve, tmp_path, config):
    serve(config=config.replace("file:state", f"file:{tmp_path / 'state'}"))
    assert not secret_of(tmp_path).exists()


def test_a_permit_from_before_the_restart_is_refused(serve):
    """Its state was in memory, so the server must not take it for one of its own."""
    config = CONFIG % ""
    server = serve(config=config)
    before = server.post("/v1/acquire", {"limit": "jobs", "key": "a"}).json["permit"]
    server = stop_and_start(server, serve, config=config)
    taken = server.post("/v1/acquire", {"limit": "jobs", "key": "a"}).json
    assert taken["allowed"] is True
    foreign = serve().post("/v1/report", {"permit": before, "outcome": "success"})
    for permit in (before, before[::-1]):
        answer = server.post("/v1/report", {"permit": permit, "outcome": "success"})
        assert answer.status == 400 and answer.json == foreign.json
    assert server.post("/v1/acquire", {"limit": "jobs", "key": "a"}).json["allowed"] is False
    assert server.post("/v1/report", {"permit": taken["permit"], "outcome": "success"}).status == 200


def link_to_another(path):
    (path.parent / "elsewhere").write_text("0" * 32 + "\n")
    path.symlink_to(path.parent / "elsewhere")


@pytest.mark.parametrize("make, message", [
    (link_to_another, "expected a file, found a symbolic link"), (os.mkdir, "expected a regular file, found another kind"),
    (os.mkfifo, "expected a regular file, found another kind"), (lambda path: path.write_text(""), "found a shorter one"),
    (lambda path: path.write_text("0" * 31 + "\n"), "found a shorter one"), (lambda path: path.write_text("0" * 33 + "\n"), "found a longer one"),
    (lambda path: path.write_text("0" * 31 + "x\n"), "found other text"), (lambda path: path.write_text("0" * 33), "found other text"),
    (lambda path: path.write_text("0" * 70000), "found a longer one")],
    ids=["symbolic link", "directory", "fifo", "empty", "short", "long", "no digits", "no newline", "huge"])
def test_another_file_in_its_place_is_an_error_at_the_start(tmp_path, make, message):
    path = secret_of(tmp_path)
    make(path)
    (tmp_path / "weir.yaml").write_text("listen: { http: 127.0.0.1:0, resp: 127.0.0.1:0 }\n" + CONFIG % "")
    done = subprocess.run([WEIR, "serve", "-c", tmp_path / "weir.yaml"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "listening" not in done.stderr
    assert str(path) in done.stderr and message in done.stderr and "finds no earlier denial" in done.stderr
    assert "0" * 31 not in done.stderr
    assert not path.is_file() or path.is_symlink() or not (tmp_path / "denials.jsonl").exists()


def test_a_file_of_another_user_is_an_error(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path = secret_of(tmp_path)
    path.write_text("0" * 32 + "\n")
    os.chown(path, 12345, 12345)
    (tmp_path / "weir.yaml").write_text("listen: { http: 127.0.0.1:0, resp: 127.0.0.1:0 }\n" + CONFIG % "")
    done = subprocess.run([WEIR, "serve", "-c", tmp_path / "weir.yaml"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "expected a file of this user, found one of another" in done.stderr


def test_a_full_disk_makes_no_secret_and_stops_no_server(serve, tmp_path):
    with small_disk(tmp_path / "disk", "16k") as disk:
        config = (CONFIG % "").replace("denials.jsonl", "disk/denials.jsonl")
        (disk / "full").write_bytes(b"x" * 16384)
        server = serve(config=config)
        assert any("digests_not_kept" in line and "No space left" in line for line in server.log)
        deny(server, "ann")
        assert len(kept(server, "?key=ann")) == 1
        assert os.listdir(disk) == ["full"] or not (disk / "denials.jsonl.secret").exists()
        (disk / "full").unlink()
        server = stop_and_start(server, serve, config=config)
        assert (disk / "denials.jsonl.secret").stat().st_size == 33
        assert server.stop() == 0


def test_a_directory_that_is_missing_is_a_warning(serve):
    server = serve(config=(CONFIG % "").replace("denials.jsonl", "missing/denials.jsonl"))
    assert any("digests_not_kept" in line and "No such file" in line for line in server.log)
    deny(server, "ann")
    assert len(kept(server, "?key=ann")) == 1


def test_denials_from_before_a_redis_are_found_and_so_are_those_from_after_it(serve, start_redis):
    config = CONFIG % ""
    server = serve(config=config)
    deny(server, "ann")
    [before] = kept(server, "?key=ann")
    shared = config.replace("limits:\n", "limits:\n  shared: { algorithm: fixed_window, rate: 1/h, store: \"%s\" }\n"
                            % start_redis().url)

    def digest():
        return server.post("/v1/key", {"key": "ann"}).json["digest"]

    own = digest()
    server.reload(shared)
    until(lambda: digest() != own, "the secret of the Redis")
    deny(server, "ann")
    after = kept(server, "?key=ann")
    assert len(after) == 3 and after[-1] == before
    assert {after[0]["key"], before["key"]} == {digest(), own}
    server = stop_and_start(server, serve, config=shared)
    until(lambda: digest() != own, "the secret of the Redis")
    assert kept(server, "?key=ann") == after
    assert kept(server, f"?key={own}") == [before]


def remembered_of(tmp_path):
    return tmp_path / "denials.jsonl.redis-secret"


def digest_of(server, key="ann"):
    return server.post("/v1/key", {"key": key}).json["digest"]


def deny_tokens(server):
    for _ in range(3):
        server.post("/v1/acquire", {"limit": "tokens", "key": "ann"})


@pytest.mark.parametrize("store", ["store: {url}\n", "store: file:{path}\ncapacity: 1000\n"])
def test_digests_are_the_same_while_the_redis_is_unavailable_at_the_start(serve, start_redis, tmp_path, store):
    redis = start_redis()
    config = (CONFIG % "").replace("limits:\n", "limits:\n  shared: { algorithm: fixed_window, rate: 1/h, store: \"%s\" }\n"
                                   % redis.url) + store.format(url=redis.url, path=tmp_path / "state")
    server = serve(config=config)
    until(lambda: remembered_of(tmp_path).exists(), "the file")
    digest = digest_of(server)
    deny_tokens(server)
    before = kept(server, "?key=ann")
    assert len(before) >= 2 and {denial["key"] for denial in before} == {digest}
    path = remembered_of(tmp_path)
    first = path.read_text()
    assert re.fullmatch("[0-9a-f]{32}\n", first) and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert redis.client.get("weir:secret") not in (first.strip(), first.strip().encode())  # by which one could make permits
    assert server.stop() == 0
    with redis.hung():
        server = serve(config=config)
        assert digest_of(server) == digest
        assert kept(server, "?key=ann") == before
        assert run(server, "why", "ann")[0] == 0
    until(lambda: server.get("/readyz").status == 200, "the store")
    assert digest_of(server) == digest and path.read_text() == first
    assert kept(server, "?key=ann") == before
    # Another secret, as after a loss of the Redis's data, takes the place of the first.
    assert server.stop() == 0
    redis.client.flushall()
    server = serve(config=config)
    until(lambda: path.read_text() != first, "the other secret")
    assert digest_of(server) != digest and kept(server, "?key=ann") == before
    assert sorted(file.name for file in tmp_path.glob("denials.jsonl.*")) == [
        path.name, *([secret_of(tmp_path).name] if "url" in store else [])]


def test_denials_are_found_after_the_redis_is_left(serve, start_redis, tmp_path):
    config = CONFIG % ""
    server = serve(config=config + f"store: {start_redis().url}\nstore_timeout: 30s\n")
    until(lambda: remembered_of(tmp_path).exists(), "the file")
    deny_tokens(server)
    before = kept(server, "?key=ann")
    digest = digest_of(server)
    server = stop_and_start(server, serve, config=config)
    assert digest_of(server) != digest
    assert kept(server, "?key=ann") == before and len(before) >= 2


def make_empty(path):
    path.write_text("")


@pytest.mark.parametrize("make, message", [(link_to_another, "found a symbolic link"), (make_empty, "found a shorter one"),
                                           (os.mkfifo, "found another kind")], ids=["symbolic link", "empty", "fifo"])
def test_a_remembered_secret_that_is_damaged_is_replaced(serve, start_redis, tmp_path, make, message):
    path = remembered_of(tmp_path)
    make(path)
    config = CONFIG % "" + f"store: {start_redis().url}\nstore_timeout: 30s\n"
    server = serve(config=config)
    assert any("digests_not_kept" in line and message in line and path.name in line for line in server.log)
    until(lambda: path.is_file() and not path.is_symlink() and len(path.read_text()) == 33, "the file")
    if make is link_to_another:
        assert (tmp_path / "elsewhere").read_text() == "0" * 32 + "\n"
    deny_tokens(server)
    before = kept(server, "?key=ann")
    server = stop_and_start(server, serve, config=config)
    assert kept(server, "?key=ann") == before and len(before) >= 2
    assert not any("digests_not_kept" in line for line in server.log)


def test_servers_have_secrets_of_their_own(serve, tmp_path):
    first = serve(config=CONFIG % "")
    second = serve(config=(CONFIG % "").replace("denials.jsonl", "second.jsonl"))
    assert (tmp_path / "second.jsonl.secret").read_text() != secret_of(tmp_path).read_text()
    assert first.post("/v1/key", {"key": "ann"}).json != second.post("/v1/key", {"key": "ann"}).json


def test_another_path_takes_effect_at_a_restart_with_a_secret_of_its_own(serve, tmp_path):
    config = CONFIG % ""
    without = config.replace("{ file: denials.jsonl }", "{}")
    assert without != config
    server = serve(config=without)
    deny(server, "ann")
    server.reload(config)
    assert "denials.file" in server.line_with("restart_needed")
    assert not secret_of(tmp_path).exists()
    assert len(kept(server, "?key=ann")) == 1
    server = stop_and_start(server, serve, config=config)
    deny(server, "ann")
    before = kept(server, "?key=ann")
    server = stop_and_start(server, serve, config=config.replace("denials.jsonl", "moved.jsonl"))
    assert kept(server) == []
    assert server.stop() == 0
    for name in ("", ".secret"):
        os.rename(tmp_path / f"denials.jsonl{name}", tmp_path / f"moved.jsonl{name}")
    server = serve(config=config.replace("denials.jsonl", "moved.jsonl"))
    assert kept(server, "?key=ann") == before and len(before) == 1
