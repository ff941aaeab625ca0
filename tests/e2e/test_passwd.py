"""`weir passwd` makes hashes that other programs can verify, and random tokens."""

import hashlib
import os
import pty
import re
import select
import signal
import subprocess
import termios

import pytest
from harness import PATIENCE, WEIR, one_thread, weir

pytestmark = one_thread

USERS = """
limits:
  login: { algorithm: token_bucket, rate: 1000/h }
users:
"""


def passwd(text, *flags):
    return weir("passwd", *flags, input=text)


def crypt(password, setting):
    """Hashes a password by Perl, which uses the same library."""
    return subprocess.run(["perl", "-e", "print crypt($ARGV[0], $ARGV[1])", password, setting],
                          check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("password", ["secret", "with blanks and : colons", "x" * 511, "pässwörd"])
def test_another_program_verifies_a_hash(password):
    run = passwd(password + "\nmore\n")
    assert run.returncode == 0 and not run.stderr
    found = run.stdout.splitlines()[-1]
    assert re.fullmatch(r"\$y\$j9T\$[./A-Za-z0-9]{43}\$[./A-Za-z0-9]{43}", found)
    assert crypt(password, found) == found
    assert passwd(password).stdout.splitlines()[-1] != found  # since the salt is random


@pytest.mark.parametrize("text, words", [
    ("", "found none"), ("\n", "found none"), ("x" * 512, "at most 511 bytes, found more"),
    ("a\0b\n", "without control characters"), ("a\r\n", "such as CR"), ("a\tb\n", "without control characters"),
    ("a\x7f", "without control characters"),
])
def test_an_invalid_password_is_refused(text, words):
    run = passwd(text)
    assert run.returncode == 2 and not run.stdout
    assert run.stderr.startswith("weir passwd: standard input: expected") and words in run.stderr


def test_a_token_is_random_and_is_followed_by_its_hash():
    found = [passwd("", "--token").stdout.splitlines() for _ in range(2)]
    for token, digest in found:
        assert re.fullmatch(r"weir_[-_A-Za-z0-9]{43}", token)  # 256 bits
        assert digest == hashlib.sha256(token.encode()).hexdigest()
    assert found[0] != found[1]


def test_a_configuration_accepts_both_kinds_of_hash(serve):
    token, digest = passwd("", "--token").stdout.splitlines()
    hashed = passwd("secret\n").stdout.strip()
    server = serve(config=USERS + f'  - {{ name: a, token: "{digest}", may: [ask] }}\n'
                                  f'  - {{ name: b, password: "{hashed}", may: [ask] }}\n')
    for headers in ({"Authorization": f"Bearer {token}"}, {"Authorization": "Basic YjpzZWNyZXQ="}):
        assert server.get("/v1/peek/login?key=k", headers).status == 200
    assert server.get("/v1/peek/login?key=k", {"Authorization": "Basic YjpzZWNyZXU="}).status == 401


def test_a_terminal_is_prompted_twice_without_echo(tmp_path):
    for again, status in (("secret", 0), ("other", 2)):
        own, other = pty.openpty()
        process = subprocess.Popen([WEIR, "passwd"], stdin=other, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        output = ""
        for prompt, typed in (("password: ", "secret"), ("once more: ", again)):
            while not output.endswith(prompt):  # input before the prompt is discarded
                output += os.read(process.stderr.fileno(), 1).decode()
            os.write(own, f"{typed}\n".encode())
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
        shown = os.read(own, 4096).decode() if select.select([own], [], [], 0)[0] else ""
        assert not re.search("secret|other", shown + output + err)
        assert (crypt("secret", out.strip()) == out.strip()) if status == 0 else "found two" in err
        os.close(own)
        os.close(other)


def echoes(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_prompt_leaves_the_echo_on(number):
    own, other = pty.openpty()
    # A shell makes its background programs ignore SIGINT, so it is restored.
    process = subprocess.Popen([WEIR, "passwd"], stdin=other, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    output = b""
    while not output.endswith(b"password: "):
        output += os.read(process.stderr.fileno(), 1)
    assert not echoes(other)
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -number and not out
    assert echoes(other)
    os.close(own)
    os.close(other)


@pytest.mark.parametrize("arguments", [["hunter2"], ["--token", "hunter2"]])
def test_a_password_among_the_arguments_is_refused_and_not_shown(arguments):
    run = passwd("", *arguments)
    assert run.returncode == 2 and not run.stdout
    assert "standard input" in run.stderr and "hunter2" not in run.stderr


@pytest.mark.parametrize("method, accepted", [
    ("yescrypt", True), ("gost-yescrypt", True), ("scrypt", True),
    ("bcrypt", False), ("sha512crypt", False), ("sha256crypt", False), ("md5crypt", False),
    ("descrypt", False),
])
def test_hashes_of_mkpasswd_are_accepted_if_their_method_is_memory_hard(tmp_path, method, accepted):
    made = subprocess.run(["mkpasswd", "-s", "-m", method], input="secret\n", check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    file = tmp_path / "weir.yaml"
    file.write_text(f'users: [{{ name: a, password: "{made}", may: [ask] }}]\n')
    run = weir("lint", file)
    assert run.returncode == (0 if accepted else 1)
    assert made not in run.stdout + run.stderr
    assert accepted or "`weir passwd` prints it" in run.stdout + run.stderr
