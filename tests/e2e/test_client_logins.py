"""`weir ask` and `weir bench` log in with a secret of the environment or of a file, over each transport."""

import json
import os
import re
import subprocess
import tempfile

import pytest
from harness import PATIENCE, ROOT, WEIR, Server, weir
from test_tls import certificates  # pylint: disable=unused-import
from test_users import CONFIG, config_of, hashed, user as entry, users  # pylint: disable=unused-import

PASSWORD, TOKEN = {"WEIR_PASSWORD": "all"}, {"WEIR_TOKEN": "weir_asker"}
REMEDY = "; log in by --login FILE, by --user NAME and WEIR_PASSWORD, or by WEIR_TOKEN\n"
WRONG = f"WRONGPASS expected the token, or the name and the password, of a user, found others{REMEDY}"
LIMITED = "limits: { login: { algorithm: fixed_window, rate: 1/d } }\n"
RIGHT = [("everything", PASSWORD), (None, TOKEN), ("asker", TOKEN), ("", TOKEN), ("default", TOKEN)]
BENCH = ("bench", "--connections", 3, "--requests", 30, "--json")


@pytest.fixture(autouse=True)
def no_login(monkeypatch):
    for name in "WEIR_PASSWORD", "WEIR_TOKEN":
        monkeypatch.delenv(name, raising=False)


def named(user):
    return [] if user is None else ["--user", user]


def ask(server, *flags, env=None):
    return weir("ask", "login", "k", "--peek", "--server", server, *flags, env=env)


def bench(server, *flags, env=None):
    return weir(*BENCH, "--server", server, "--limit", "login", *flags, env=env)


@pytest.fixture(scope="module", params=["port", "tls", "unix"])
def way(request, tmp_path_factory):
    """(flags to reach a server with users over RESP, flags to reach it over HTTP)"""
    with tempfile.TemporaryDirectory(prefix="weir-logins-") as place:
        if request.param == "unix":
            listeners = {"http": f"unix:{place}/http", "resp": f"unix:{place}/resp"}
            server = Server("--http", listeners["http"], "--resp", listeners["resp"], ports=False,
                            config=CONFIG, directory=place)
            yield {name: ["--server", address] for name, address in listeners.items()}
        else:
            tls, flags = "", []
            if request.param == "tls":
                top = request.getfixturevalue("certificates")
                tls, flags = f"tls: {{ cert: {top}/server.pem, key: {top}/server.key }}\n", [
                    "--tls", "--cacert", top / "right.pem"]
            server = Server(config=tls + CONFIG, directory=tmp_path_factory.mktemp("way"))
            yield {name: ["--server", f"127.0.0.1:{server.ports[name]}", *flags] for name in ("http", "resp")}
        assert server.stop() == 0


@pytest.mark.parametrize("user, env", RIGHT)
def test_ask_logs_in(way, user, env):
    done = weir("ask", "login", "k", "--peek", *way["resp"], *named(user), env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("login k: allowed (ok), 1000 of 1000 left")


@pytest.mark.parametrize("user, env", RIGHT)
@pytest.mark.parametrize("protocol", ["resp", "http"])
def test_bench_logs_in(way, protocol, user, env):
    done = weir(*BENCH, *way[protocol], "--protocol", protocol, "--limit", "login", *named(user), env=env)
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr, result["allowed"]) == (0, "", 30)


def test_bench_without_a_login_says_that_it_needs_one(serve):
    done = bench(f"127.0.0.1:{serve(config=CONFIG).resp}")
    missing = "error reply: NOAUTH expected the login of a user (a token, or a name and a password), found none"
    assert (done.returncode, done.stderr) == (2, f"weir bench: {missing}{REMEDY}")


@pytest.mark.parametrize("user, env", [
    ("everything", {"WEIR_PASSWORD": "guess"}), ("nobody", PASSWORD), (None, {"WEIR_TOKEN": "weir_guess"}),
    ("admin", TOKEN), (None, {"WEIR_TOKEN": "all"})])
def test_a_wrong_login_is_refused(serve, user, env):
    server = serve(config=CONFIG)
    address = f"127.0.0.1:{server.resp}"
    for done, name in (ask(address, *named(user), env=env), "ask"), (bench(address, *named(user), env=env), "bench"):
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"weir {name}: {WRONG}")
    done = bench(f"127.0.0.1:{server.http}", "--protocol", "http", *named(user), env=env)
    assert (done.returncode, json.loads(done.stdout)["errors"]) == (2, 30)
    assert done.stderr == f"weir bench: error reply: HTTP/1.1 401 Unauthorized{REMEDY}"


@pytest.mark.parametrize("user, env, message", [
    (None, {**PASSWORD, **TOKEN}, "expected WEIR_PASSWORD or WEIR_TOKEN in the environment, found both"),
    ("everything", {**PASSWORD, **TOKEN}, "expected WEIR_PASSWORD or WEIR_TOKEN in the environment, found both"),
    ("everything", {}, "expected WEIR_PASSWORD or WEIR_TOKEN in the environment beside --user, found neither"),
    ("everything", {"WEIR_PASSWORD": ""},
     "expected WEIR_PASSWORD or WEIR_TOKEN in the environment beside --user, found neither"),
    (None, PASSWORD, "expected --user beside WEIR_PASSWORD, found none"),
    ("everything:all", {},
     "--user: expected a name without a colon; the secret comes from WEIR_PASSWORD or WEIR_TOKEN")])
@pytest.mark.parametrize("command", [ask, bench])
def test_an_incomplete_login_is_an_error_before_connecting(command, user, env, message):
    done = command("127.0.0.1:1", *named(user), env=env)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"weir {command.__name__}: {message}\n")


@pytest.mark.parametrize("words, port", [
    (["status"], "http"), (["why", "k"], "http"), (["key", "k"], "http"), (["reload"], "http"), (["top", "--once"], "http"),
    (["reset", "login", "k"], "resp"), (["reset", "login", "k"], "url"), (["ask", "login", "k"], "url"),
    (["ask", "login", "k"], "resp")])
def test_an_error_about_the_login_names_the_flags_that_log_in(users, words, port):
    """Without a login, with a wrong one, and with that of a user who lacks the right."""
    address = f"http://127.0.0.1:{users.http}" if port == "url" else f"127.0.0.1:{users.ports[port]}"
    for env in {}, {"WEIR_TOKEN": "weir_guess"}, {"WEIR_TOKEN": "weir_changer" if words[0] == "ask" else "weir_asker"}:
        done = weir(*words, "--server", address, env=env)
        assert done.stderr.endswith(REMEDY) and done.stderr.count("\n") == 1, (env, done.stderr)


def test_an_error_about_the_address_names_no_login(serve):
    server = serve(config="protected: yes\n" + LIMITED)
    for words, port in (["reload"], "http"), (["ask", "nosuch", "k"], "resp"):
        server.config.write_text("users: [{ name: a, unix: no-such-user, may: [ask] }]\n")
        done = weir(*words, "--server", f"127.0.0.1:{server.ports[port]}")
        assert done.returncode != 0 and "log in" not in done.stderr


def test_a_login_file_takes_precedence_over_the_environment(users, tmp_path):
    file = tmp_path / "login"
    file.write_text("everything:all\n")
    both = {"WEIR_PASSWORD": "guess", "WEIR_TOKEN": "guess"}
    for port, flags in (users.resp, []), (users.http, ["--protocol", "http"]):
        assert bench(f"127.0.0.1:{port}", "--login", file, *flags, env=both).returncode == 0
    assert ask(f"127.0.0.1:{users.resp}", "--login", file, env=both).returncode == 0
    for command in ask, bench:
        done = command(f"127.0.0.1:{users.resp}", "--login", file, "--user", "everything")
        assert (done.returncode, done.stderr) == (
            2, f"weir {command.__name__}: expected --user or --login, found both\n")


def test_without_a_login_no_credentials_are_sent(users):
    assert "NOAUTH" in ask(f"127.0.0.1:{users.resp}").stderr
    assert "NOAUTH" in bench(f"127.0.0.1:{users.resp}").stderr
    assert "401" in bench(f"127.0.0.1:{users.http}", "--protocol", "http").stderr


@pytest.mark.parametrize("path, answered", [
    ("/auth", True), ("/auth/login", True), ("/auth?deny=403", True), ("/authors", False), ("/v1/limits", True)])
def test_at_auth_the_proxy_logs_in_by_weir_authorization(users, path, answered):
    """Other paths ignore Weir-Authorization, and /auth ignores Authorization."""
    done = weir(*BENCH, "--server", f"127.0.0.1:{users.http}", "--path", path, "--user", "everything", env=PASSWORD)
    assert (json.loads(done.stdout)["errors"] == 0) is answered, done.stderr
    assert answered or "404" in done.stderr


@pytest.mark.parametrize("secret", ["{key}", "a\r\nX: y", "pä>>>???", ":", " ", "x" * 511])
def test_a_secret_may_contain_any_bytes(serve, secret):
    server = serve(config=config_of(entry("odd", token=secret, may=["ask"])))
    env = {"WEIR_TOKEN": secret}
    assert ask(f"127.0.0.1:{server.resp}", env=env).returncode == 0
    for protocol in "resp", "http":
        assert bench(f"127.0.0.1:{server.ports[protocol]}", "--protocol", protocol, env=env).returncode == 0
    env["WEIR_TOKEN"] += "x"
    assert ask(f"127.0.0.1:{server.resp}", env=env).stderr == f"weir ask: {WRONG}"
    assert "401" in bench(f"127.0.0.1:{server.http}", "--protocol", "http", env=env).stderr


@pytest.mark.parametrize("protocol", ["resp", "http"])
@pytest.mark.parametrize("secret", ["weir_asker", "weir_guess"])
def test_no_secret_is_printed(serve, protocol, secret):
    server = serve(config=CONFIG)
    for words in ["bench", "--protocol", protocol, "--limit", "nosuch", "--requests", 10], ["ask", "nosuch", "k"]:
        done = weir(*words, "--server", f"127.0.0.1:{server.ports[protocol]}", "--user", "asker",
                    env={"WEIR_TOKEN": secret})
        assert done.returncode == 2 and done.stderr and secret not in done.stdout + done.stderr


def test_the_example_of_the_security_page_works(serve, tmp_path):
    part = re.search(r"^## Users\n(.*?)^## ", (ROOT / "docs/security.md").read_text(), re.M | re.S)[1]
    config = re.search(r"^```yaml\n(.*?)^```", part, re.M | re.S)[1]
    shown = re.search(r"^```console\n(.*?)^```", part, re.M | re.S)[1]
    # Per day in place of per second, so that nothing refills between the commands.
    config = config.replace("rate: 5/s", "rate: 5/d")
    config = re.sub(r'(password: )".*"', lambda found: f'{found[1]}"{hashed("correct horse", "j75")}"', config)
    server = serve(config=config)
    (tmp_path / "shop.token").write_text("test\n")
    (tmp_path / "ops.password").write_text("correct horse\n")
    script = "".join(line[2:] + f" --server 127.0.0.1:{server.resp}\n"
                     for line in shown.splitlines() if line.startswith("$ "))
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
                          env={**os.environ, "PATH": f"{WEIR.parent}:{os.environ['PATH']}"}, check=True)
    expected = [line for line in shown.splitlines() if not line.startswith("$ ")]
    printed = re.sub(r"(\d+) h (\d+) min", lambda found: f"{(int(found[1]) * 60 + int(found[2])) * 60_000 // 86_400} ms",
                     done.stdout)
    assert printed.splitlines() == expected
