"""weir lint, weir ask, help, and exit codes."""

import contextlib
import re
import socket
import threading

import pytest
from harness import CONFIG, ROOT, one_thread, weir

pytestmark = one_thread

# A message, the line and column that it names, and the file.
BAD = {
    "unknown key": (1, 1, "limts: {}\n"),
    "unknown algorithm": (2, None, "limits:\n  a: { algorithm: magic, rate: 1/s }\n"),
    "no rate": (2, None, "limits:\n  a: { algorithm: token_bucket }\n"),
    "zero rate": (4, 11, "limits:\n  a:\n    algorithm: token_bucket\n    rate: 0/s\n"),
    "negative rate": (2, None, "limits:\n  a: { algorithm: token_bucket, rate: -1/s }\n"),
    "rate without period": (2, None, "limits:\n  a: { algorithm: token_bucket, rate: 5 }\n"),
    "unknown period": (2, None, "limits:\n  a: { algorithm: token_bucket, rate: 5/fortnight }\n"),
    "burst below 1": (2, None, "limits:\n  a: { algorithm: token_bucket, rate: 5/s, burst: 0 }\n"),
    "unknown zone": (
        2, None, "limits:\n  a: { algorithm: fixed_window, rate: 5/d, timezone: Mars/Olympus }\n"),
    "unknown limit": (4, None, "limits:\n  a: { algorithm: token_bucket, rate: 1/s }\nrules:\n"
                               "  - { name: r, key: [ip], limits: [b] }\n"),
    "rule that does nothing": (2, None, "rules:\n  - { name: r, key: [ip] }\n"),
    "bad prefix": (2, None, "rules:\n  - { name: r, match: { ip: 10.0.0.0/99 }, answer: deny }\n"),
    "IPv6 prefix too long": (2, 14, "capacity: 5\nipv6_prefix: 129\n"),
    "too many slots": (
        2, 55, "limits:\n  a: { algorithm: sliding_window, rate: 100/m, slots: 1001 }\n"),
    "log too long": (2, 38, "limits:\n  a: { algorithm: sliding_log, rate: 10001/m }\n"),
    "duplicate key": (2, 1, "capacity: 5\ncapacity: 6\n"),
    "zero capacity": (1, 11, "capacity: 0\n"),
    "wrong type": (1, 9, "limits: 5\n"),
    "not YAML": (1, None, "limits: { a: [\n"),
    "tab": (2, 1, "limits:\n\ta: 5\n"),
    "alias": (1, None, "limits: &x { a: *x }\n"),
}


@pytest.mark.parametrize("name", BAD)
def test_lint_says_file_line_column_expected_and_found(tmp_path, name):
    line, column, text = BAD[name]
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    done = weir("lint", file)
    assert done.returncode == 1
    found = re.search(rf"^{re.escape(str(file))}:(\d+):(\d+): error: expected .+, found:? .+$",
                      done.stdout + done.stderr, re.M)
    assert found, done
    if name != "not YAML":  # either the end of the file or its beginning is right
        assert int(found[1]) == line
    assert column in (None, int(found[2]))


def test_lint_of_good_files_exits_0(tmp_path):
    file = tmp_path / "weir.yaml"
    file.write_text(CONFIG)
    assert weir("lint", file, ROOT / "examples/weir.yaml").returncode == 0


# Rules that share a limit though their keys differ, and the place of the second.
SHARED = """limits:
  api: { algorithm: token_bucket, rate: 5/s }
  other: { algorithm: token_bucket, rate: 5/s }
rules:
  - { name: first, key: [api_key], limits: [api] }
  - key: [ip]
    name: by-ip
    limits: [other, api]
  - { key: [path, ip], limits: [api], mode: shadow }
  - { limits: [other] }
"""
WARNINGS = [
    '7:11: warning: expected the rules of limit "api" to have one key, found [ip] here and '
    '[api_key] in "first": equal values share a count',
    '10:5: warning: expected the rules of limit "other" to have one key, found [] here and '
    '[ip] in "by-ip": equal values share a count']


def test_lint_warns_of_rules_with_different_keys_that_share_a_limit(tmp_path):
    file = tmp_path / "weir.yaml"
    file.write_text(SHARED)
    done = weir("lint", file)
    assert (done.returncode, done.stdout) == (0, f"{file}: ok\n")
    assert done.stderr.splitlines() == [f"{file}:{warning}" for warning in WARNINGS]
    strict = weir("lint", "--strict", file)
    assert (strict.returncode, strict.stdout, strict.stderr) == (1, "", done.stderr)
    # The case of a header's name does not matter; the order of a key's parts does.
    limits, rules = SHARED.split("rules:\n")
    for key, code in (("[header.a, ip]", 0), ("[ip, header.A]", 1)):
        file.write_text(limits + "rules:\n  - { key: [header.A, ip], limits: [api, other] }\n"
                        f"  - {{ key: {key}, limits: [api] }}\n")
        assert weir("lint", "--strict", file).returncode == code


@pytest.mark.parametrize("path, warned", [
    ("/login", False), ("/api/*", False), ("/.well-known/*", False), ("/.*", False), ("/a/..*", False),
    ("/100%", False), ('"\\\\//a"', False), ("/*", False), ("/a.b/", False), ("/a;b", False),
    ("login", True), ("//login", True), ("/%6cogin", True), ("/a/../b", True), ("/a?b", True),
    ("/a/.", True), ("api/*", True), ("/a//*", True), ("/a?b*", True), ("[/a, //b]", True),
    ('""', True)])
def test_lint_warns_of_paths_that_no_request_can_have(tmp_path, path, warned):
    file = tmp_path / "weir.yaml"
    file.write_text(f"rules: [{{ answer: deny, match: {{ path: {path} }} }}]\n")
    done = weir("lint", file)
    assert done.returncode == 0
    assert ("no request at /auth has it" in done.stderr) == warned, done.stderr


@pytest.mark.parametrize("name", ["weir.yaml", "distributed.yaml"])
def test_the_shipped_files_have_no_warnings(name):
    done = weir("lint", "--strict", ROOT / "examples" / name)
    assert (done.returncode, done.stderr) == (0, "")


def test_lint_of_one_bad_file_among_good_ones_exits_1(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(CONFIG)
    bad.write_text("nonsense: 1\n")
    for files in ((good, bad), (bad, good)):
        assert weir("lint", *files).returncode == 1


def test_lint_of_a_file_that_is_not_there_exits_1(tmp_path):
    done = weir("lint", tmp_path / "nosuch.yaml")
    assert done.returncode == 1
    assert "nosuch.yaml" in done.stdout + done.stderr


def ask(server, *arguments):
    return weir("ask", *arguments, "--server", f"127.0.0.1:{server.resp}")


def test_ask_exits_0_when_allowed_and_1_when_denied(server, key):
    assert ask(server, "one", key).returncode == 0
    assert ask(server, "one", key).returncode == 1


def test_ask_accepts_a_cost_and_can_peek(server, key):
    assert ask(server, "login", key, "--cost", 9).returncode == 0
    assert ask(server, "login", key, "--cost", 2, "--peek").returncode == 1
    for _ in range(5):
        assert ask(server, "login", key, "--peek").returncode == 0
    assert ask(server, "login", key).returncode == 0
    assert ask(server, "login", key).returncode == 1


def test_ask_exits_2_on_an_error(server, key):
    assert ask(server, "nosuch", key).returncode == 2
    assert ask(server, "login", key, "--cost", 11).returncode == 2
    assert ask(server, "login", key, "--cost", "x").returncode == 2
    assert ask(server, "login").returncode == 2
    assert weir("ask", "login", "k", "--server", "127.0.0.1:1").returncode == 2
    of_http = weir("ask", "login", "k", "--server", f"127.0.0.1:{server.http}")
    assert of_http.returncode == 2 and "expected Weir's RESP address" in of_http.stderr


def test_ask_goes_through_the_rules(serve):
    server = serve(config="""
limits:
  login: { algorithm: token_bucket, rate: 1/h, burst: 2 }
  back: { algorithm: breaker, preset: hystrix }
rules:
  - { name: by-ip, match: { path: /login }, key: [ip], limits: [login] }
  - { name: banned, match: { user: "a=b" }, answer: deny }
""")
    attributes = ["--attr", "path=/login", "--attr", "ip=1.2.3.4"]
    server.post("/v1/breaker", {"limit": "back", "key": "k", "state": "open"})
    assert ask(server, "back", "k").stdout.endswith(", retry in 1000 ms, reset in 5840 d 0 h\n")
    assert "2 of 2 left" in ask(server, *attributes, "--peek").stdout
    first, second, third = (ask(server, *attributes) for _ in range(3))
    assert first.stdout == ("path=/login ip=1.2.3.4: allowed (ok) by the rule by-ip and its limit login, "
                            "1 of 2 left, reset in 1 h 0 min\n")
    assert [done.returncode for done in (first, second, third)] == [0, 0, 1]
    assert "denied (over_limit) by the rule by-ip" in third.stdout
    # A value may contain "=", and an attribute may be empty.
    banned = ask(server, "--attr", "user=a=b", "--attr", "host=")
    assert (banned.returncode, banned.stdout.split(",")[0]) == (1, "user=a=b host=: denied (listed) by the rule banned")
    assert "by no rule" in ask(server, "--attr", "path=/").stdout


@pytest.mark.parametrize("words", [
    ["--attr", "path"], ["--attr", "=x"], ["--attr", "a=b", "login", "k"], ["--attr", "a=b", "--cost", "2"],
    []])
def test_ask_refuses_requests_that_make_no_sense(words):
    done = weir("ask", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected" in done.stderr


HOSTILE = b"\x1b]0;owned\x07\x1b[2J\x9b1m\xff\r"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b1m\xff\x0d"


@pytest.mark.parametrize("reply, code", [
    (b"*7\r\n:1\r\n:10\r\n:9\r\n:0\r\n:0\r\n$%d\r\n%s\r\n$0\r\n\r\n" % (len(HOSTILE), HOSTILE), 0),
    (b"-ERR %s\r\n" % HOSTILE, 2),
    (b"-ERR %s" % (HOSTILE * 10_000), 2),
], ids=["reason", "error", "endless"])
def test_ask_escapes_control_characters_of_a_servers_answer(reply, code):
    def answer(listener):
        client, _ = listener.accept()
        with client:
            client.recv(4096)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer, args=[listener])
        server.start()
        done = weir("ask", "login", "k\x1b[2J", "--server", f"127.0.0.1:{listener.getsockname()[1]}")
        server.join()
    said = done.stdout + done.stderr
    assert done.returncode == code
    assert SHOWN in said or reply.endswith(HOSTILE * 2)
    assert all(" " <= character <= "~" or character == "\n" for character in said), said


@pytest.mark.parametrize("command", ["serve", "lint", "ask", "store", "simulate", "bench"])
def test_every_command_has_help(command):
    for flag in ("--help", "-h"):
        done = weir(command, flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: weir {command} ")


def test_grpc_is_refused_and_not_in_the_help():
    done = weir("serve", "--grpc", "127.0.0.1:0")
    assert done.returncode == 1 and "grpc: not supported yet" in done.stderr
    mistyped = weir("serve", "--grcp", "127.0.0.1:0")
    assert mistyped.returncode == 2 and "did you mean" not in mistyped.stderr
    assert "grpc" not in weir("serve", "--help").stdout + weir("help", "--json").stdout


def test_help_and_version():
    for flag in ("--help", "--version"):
        done = weir(flag)
        assert done.returncode == 0
        assert "weir" in done.stdout.lower()


def test_an_unknown_command_is_an_error():
    done = weir("nosuch")
    assert done.returncode not in (0, 1)
    assert "nosuch" in done.stderr
