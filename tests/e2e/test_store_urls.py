"""`store` and its options: errors and warnings of lint and of a start, and passwords that never appear."""

import pytest
from harness import Server, Wire, one_thread, until, weir

SECRET = "pa55w0rd"
SLOW = "store_timeout: 30s\n"  # longer than a busy machine delays Redis
LIMITS = "limits:\n  a: { algorithm: token_bucket, rate: 5/s }\n"

# A wrong value of `store`, and the error.
BAD = {
    f"http://me:{SECRET}@h": "expected memory, file:PATH or a URL such as redis://127.0.0.1:6379/0, "
                             "found 'http://…@h'",
    f"{SECRET}@h:6379": "found '…@h:6379'",
    f"redi://h?password={SECRET}": "found 'redi://h?…'",
    f"redis:/{SECRET}@h": "expected redis://, redis+unix://, redis+sentinel:// or redis-cluster://",
    f"redis+tls://me:{SECRET}@h": "expected redis://, redis+unix://, redis+sentinel:// or",
    f"valkey+tls://me:{SECRET}@h": "expected redis://, redis+unix://, redis+sentinel:// or",
    f"valkey:/{SECRET}@h": "expected redis://, redis+unix://, redis+sentinel:// or",
    f"valkeys://me:{SECRET}@h:port": "expected a port from 1 to 65535",
    f"redis+unix://me:{SECRET}@h": "expected the absolute path of a socket",
    f"redis+unix://me:{SECRET}@/run/s?db={SECRET}": "expected the number of a database",
    f"redis+sentinel://me:{SECRET}@h": "expected the name by which Sentinels know the master",
    f"redis+sentinel://me:{SECRET}@h/m?password={SECRET}": "expected sentinel_user=USER and",
    f"redis+sentinel://h/m?sentinel_user={SECRET}": "expected sentinel_password=PASSWORD beside",
    f"redis+sentinel://h:1/m?sentinel_password={SECRET}@x{SECRET}": "expected the name by which",
    f"redis://{SECRET}@h": "expected user:password or :password before the @",
    f"redis://me:{SECRET}@h:port": "expected a port from 1 to 65535",
    f"redis://me:{SECRET}": "expected a port from 1 to 65535",
    f"redis://me:{SECRET}@": "expected the host of a Redis",
    f"redis://me:{SECRET}@h/many": "expected the number of a database",
    f"redis://me:{SECRET}@a,b": "expected one host, found 2",
    f"redis-cluster://me:{SECRET}@a,b/1": "expected no database",
    f"redis://me:{SECRET}@h?ca=x": "expected ca=FILE, cert=FILE and key=FILE",
    f"rediss://me:{SECRET}@h?ca=/no/such.pem": "/no/such.pem",
    f"http://me:{SECRET}": "found 'http://me:…'",
    f"/redis://me:{SECRET}": "found '/redis:…'",
    f"me@{SECRET}@://h": "found '…@://h'",
    f"REDIS://me:{SECRET}@h": "found 'REDIS://…@h'",
    f"file:redis://me:{SECRET}@h/0": "found '…@h/0'",
    f"file:/REDISS:me:{SECRET}@h": "found '…@h'",
    f"file:redis-cluster:/me:{SECRET}": "found 'file:…'",
    f"file:valkey://me:{SECRET}": "found 'file:…'",
    f"file:valkey:/me:{SECRET}": "found 'file:…'",
}
# Neither a store nor an option.
NO_OPTION = {
    f"redis://me:{SECRET}@h": "found 'redis://…@h'",
    f"--stores=redis://me:{SECRET}@h": "found '…@h'",
    "-x": "found '-x'",
    "--store": "expected a value after --store, found none",
}


@one_thread
@pytest.mark.parametrize("url", BAD)
def test_the_error_of_an_invalid_store_names_its_place_without_the_password(tmp_path, url):
    file = tmp_path / "weir.yaml"
    of_limit = LIMITS.replace(" }", f', store: "{url}" }}')
    for text, place in ((f'capacity: 5\nstore: "{url}"\n', "2:8"), (of_limit, "2:51")):
        file.write_text(text)
        for done in (weir("lint", file), weir("serve", "-c", file, "--http", "127.0.0.1:0")):
            said = done.stdout + done.stderr
            assert done.returncode == 1
            assert f"{file}:{place}: error: expected " in said and BAD[url] in said
            assert SECRET not in said


@one_thread
@pytest.mark.parametrize("url", BAD)
def test_the_error_of_an_invalid_store_of_a_flag_or_variable_omits_the_password(url):
    for done in (weir("serve", "--store", url), weir("serve", env={"WEIR_STORE": url})):
        assert done.returncode == 1
        assert "store: expected " in done.stderr and BAD[url] in done.stderr
        assert SECRET not in done.stdout + done.stderr


@one_thread
@pytest.mark.parametrize("text", NO_OPTION)
def test_the_error_of_a_url_that_is_no_option_omits_the_password(text):
    done = weir("serve", text)
    assert done.returncode == 2
    assert done.stderr.startswith("weir serve: expected ") and NO_OPTION[text] in done.stderr
    assert SECRET not in done.stderr


@one_thread
@pytest.mark.parametrize("words", [["bench"], ["simulate"], [], ["ask", "a", "k", "--server"],
                                   ["bench", "--server"], ["serve", "--http"]], ids=" ".join)
def test_the_error_of_a_url_in_place_of_another_value_omits_the_password(words):
    for url in f"redis://me:{SECRET}@h", f"redis://me:{SECRET}", f"me:{SECRET}@h:1":
        done = weir(*words, url)
        assert done.returncode != 0 and "expected " in done.stderr
        assert SECRET not in done.stdout + done.stderr


@one_thread
@pytest.mark.parametrize("action", ["check", "dump", "repair"])
def test_the_error_of_a_url_in_place_of_a_file_omits_the_password(action):
    for path in (f"redis://me:{SECRET}@h", f"redis:/me:{SECRET}", f"file:rediss://me:{SECRET}@h"):
        done = weir("store", action, path)
        assert done.returncode != 0 and "expected the path of a file, found a URL" in done.stderr
        assert SECRET not in done.stdout + done.stderr


def test_lists_of_processes_show_no_password(start_redis):
    redis = start_redis("--requirepass", SECRET)
    server = Server("--store", f"redis://h@/{SECRET}:{SECRET}@h",
                    "--store", redis.url.replace("redis://", f"redis://default:{SECRET}@"))
    with open(f"/proc/{server.process.pid}/cmdline") as file:
        arguments = file.read()
    assert f"redis://{'*' * len(f'default:{SECRET}')}@127.0.0.1:{redis.port}" in arguments
    assert SECRET not in arguments
    with Wire(server.resp) as wire:
        until(lambda: wire.command("CL.THROTTLE", "k", 2, 1, 3600) and redis.client.keys("weir:*THROTTLE"),
              "a key at Redis")
    assert server.stop() == 0


# Stores that are probably a mistake, and the place of the warning.
UNLIKELY = {
    "store: redis://h\n" + LIMITS: ["1:8: expected `nodes` beside a store at Redis, found none"],
    "store: redis://h\n": ["1:8: expected `nodes` beside a store at Redis, found none"],
    LIMITS.replace(" }", ", store: redis://h }"): ["2:51: expected `nodes` beside a store"],
    "store: redis://h\n" + LIMITS.replace(" }", ", on_store_failure: closed }") +
    "rules: [{ limits: [a], on_store_failure: local }]\n": ["1:8: expected `nodes` beside a store"],
    LIMITS.replace(" }", ", chunk: 50% }"): ["2:3: expected a store at Redis beside chunk, found none"],
    "nodes: 2\nstore: redis://h\n" + LIMITS.replace(" }", ", chunk: 39% }"):
        ["4:3: expected a chunk of 2 units at least, found 39% of 5"],
    "nodes: 3\nstore: redis://h\n" + LIMITS.replace(" }", ", chunk: 40% }"):
        ["4:3: expected the chunks of 3 servers to fit into the quota, found 120% of it"],
    "store: redis://h\n" + LIMITS.replace(" }", ", chunk: 51%, on_store_failure: open }"):
        ["3:3: expected the chunks of 2 servers to fit into the quota, found 102% of it"],
    "store: file:state\n" + LIMITS.replace(" }", ", store: memory }"):
        ["3:51: expected no `store: memory` beside a store in a file, found it"],
}
# Stores without a warning.
LIKELY = [
    "store: redis://h\nlimits: { a: { algorithm: random, deny: 0.5 } }\n",
    "nodes: 1\nstore: redis://h\n" + LIMITS.replace(" }", ", chunk: 100% }"),
    "store: redis://h\n" + LIMITS.replace(" }", ", on_store_failure: closed }") +
    "rules: [{ limits: [a], on_store_failure: open }]\n",
    "store: redis://h\n" + LIMITS.replace(" }", ", store: memory }"),
    "store: file:state\n" + LIMITS.replace(" }", ", store: redis://h, on_store_failure: open }"),
    "nodes: 2\nstore: redis+sentinel://:x@a,b:1/m/2?sentinel_password=y\n" + LIMITS,
    "nodes: 2\nstore: valkey+unix:///run/valkey.sock?db=1\n" + LIMITS,
    "nodes: 2\nstore: rediss-cluster://:x@a,b:1\n" + LIMITS.replace(" }", ", chunk: 40% }"),
]


@one_thread
def test_lint_refuses_what_a_server_would(tmp_path):
    file = tmp_path / "weir.yaml"
    big = "limits:\n  a: {{ algorithm: token_bucket, rate: 5/m, burst: 40000000{} }}\n"
    many = "limits:\n" + "".join(
        f"  l{i}: {{ algorithm: token_bucket, rate: 5/s, store: redis://h/{i} }}\n" for i in range(65))
    for text, place, message in (
            ("nodes: 3\n" + big.format(", store: redis://h"), "3:3", "expected a limit that 3 servers can divide"),
            ("nodes: 3\n" + many, "67:53", "expected at most 64 stores")):
        file.write_text(text)
        for done in (weir("lint", file), weir("serve", "-c", file)):
            assert done.returncode == 1
            assert f"{file}:{place}: error: {message}" in done.stdout + done.stderr
    file.write_text("nodes: 3\n" + big.format(""))
    assert weir("lint", "--strict", file).returncode == 0


@one_thread
@pytest.mark.parametrize("text", [*UNLIKELY, *LIKELY])
def test_lint_warns_of_stores_that_are_probably_mistakes(tmp_path, text):
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    done = weir("lint", file)
    expected = UNLIKELY.get(text, [])
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == len(expected), done.stderr
    for line, warning in zip(done.stderr.splitlines(), expected):
        place, message = warning.split(": ", 1)
        assert line.startswith(f"{file}:{place}: warning: {message}")
    assert weir("lint", "--strict", file).returncode == (1 if expected else 0)


def test_the_server_warns_at_the_start_and_after_a_reload(tmp_path):
    unlikely = LIMITS.replace(" }", ", chunk: 50% }")
    server = Server(config=unlikely, directory=tmp_path)
    [line] = [line for line in server.log if " warning config_warning " in line]
    assert "line=2 column=3 expected a store at Redis beside chunk" in line
    server.reload(LIMITS)
    server.line_with("reloaded")
    server.reload(LIMITS.replace(" }", ", chunk: 60% }"))
    assert "line=2" in server.line_with("config_warning")
    assert server.stop() == 0
    assert len([line for line in server.log if "config_warning" in line]) == 2


def test_lists_of_processes_show_no_password_of_sentinels():
    server = Server("--store", f"redis+sentinel://127.0.0.1:1/m?sentinel_user=me&sentinel_password={SECRET}")
    with open(f"/proc/{server.process.pid}/cmdline") as file:
        arguments = file.read()
    assert "redis+sentinel://127.0.0.1:1/m?***" in arguments and SECRET not in arguments
    assert server.stop() == 0
    assert SECRET not in "".join(server.log)


def test_a_password_of_sentinels_appears_nowhere(tmp_path):
    url = f"redis+sentinel://me:{SECRET}@127.0.0.1:1/m/2?sentinel_user=me&sentinel_password={SECRET}"
    server = Server(config=f"nodes: 2\nstore: {url}\n" + LIMITS, directory=tmp_path)
    pages = [server.get(path).text for path in
             ("/v1/acquire/a?key=k", "/v1/limits", "/v1/status", "/metrics", "/readyz")]
    assert "redis+sentinel://127.0.0.1:1/m/2\"" in pages[1]
    assert server.stop() == 0
    assert SECRET not in "".join(pages) + "".join(server.log)


@pytest.mark.parametrize("password", [SECRET, "another"], ids=["right", "refused"])
def test_a_password_appears_nowhere(tmp_path, start_redis, password):
    """Whether Redis accepts it or not, the password is in no answer, metric or line of the log."""
    redis = start_redis("--requirepass", password)
    url = redis.url.replace("redis://", f"redis://default:{SECRET}@")
    server = Server(config=f"nodes: 2\nstore: {url}\n" + SLOW + LIMITS, directory=tmp_path)
    answer = server.get("/v1/acquire/a?key=k")
    pages = [answer.text, *(server.get(path).text for path in
                            ("/v1/limits", "/v1/top", "/metrics", "/readyz"))]
    with Wire(server.resp) as wire:
        for command in ("INFO", "CONFIG GET *", "CLIENT LIST", "WEIR.PEEK a k", "WEIR.PEEK b k"):
            pages.append(repr(wire.command(*command.split())))
    assert answer.json["remaining"] == (4 if password == SECRET else 1)  # since `nodes` is 2
    assert f"redis://127.0.0.1:{redis.port}" in pages[1]
    assert server.stop() == 0
    assert SECRET not in "".join(pages) + "".join(server.log)


def test_another_store_of_all_limits_needs_a_restart_and_one_of_a_limit_does_not(tmp_path, start_redis):
    first, second = start_redis(), start_redis()
    config = "nodes: 2\nstore: {}\n" + SLOW + LIMITS.replace("{", "{{").replace("}", "}}") + "  b: {{ algorithm: token_bucket, rate: 5/s{} }}\n"
    server = Server(config=config.format(first.url, ""), directory=tmp_path)

    def keys(limit):
        assert server.get(f"/v1/acquire/{limit}?key=k").json["allowed"]
        return [redis.client.exists(f"weir:{{k}}:{limit}") for redis in (first, second)]

    assert [keys("a"), keys("b")] == [[1, 0], [1, 0]]
    for _ in range(2):
        server.reload(config.format(second.url, f", store: {second.url}"))
        assert "setting=store" in server.line_with("restart_needed")
        server.line_with("reloaded")
    first.client.flushdb()
    assert [keys("a"), keys("b")] == [[1, 0], [0, 1]]
    shown = {limit["name"]: limit["store"] for limit in server.get("/v1/limits").json}
    assert shown == {"a": first.url, "b": second.url}
    assert server.stop() == 0


def test_limits_in_requests_count_locally_without_their_redis(start_redis):
    redis = start_redis()
    redis.stop()
    server = Server("--store", redis.url)
    assert any("config_warning" in line and "expected `nodes`" in line for line in server.log)
    with Wire(server.resp) as wire:
        for left in (2, 1, 0):
            assert wire.command("CL.THROTTLE", "k", 2, 1, 3600)[:3] == [0, 3, left]
        assert wire.command("CL.THROTTLE", "k", 2, 1, 3600)[:3] == [1, 3, 0]
        redis.restart()
        until(lambda: wire.command("CL.THROTTLE", "k", 2, 1, 3600)[:3] == [0, 3, 2], "Redis")
    assert server.stop() == 0


def test_a_refund_that_redis_cannot_do_is_an_error_of_the_store(tmp_path, start_redis):
    redis = start_redis()
    server = Server(config=f"nodes: 2\nstore: {redis.url}\n" + LIMITS, directory=tmp_path)
    server.get("/v1/acquire/a?key=k")
    redis.stop()
    for path in ("refund", "reset"):
        answer = server.post(f"/v1/{path}", {"limit": "a", "key": "k"})
        assert (answer.status, answer.json["error"]["code"]) == (503, "store_failure")
        with Wire(server.resp) as wire:
            assert wire.command(f"WEIR.{path}", "a", "k") == b"-ERR the store did not answer"
    assert server.stop() == 0
