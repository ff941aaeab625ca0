"""The owner and permissions of store files, with programs of several accounts. Needs root."""

import grp
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

import pytest
from harness import BUILD, PATIENCE, ROOT, WEIR, Server

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="runs programs as other users")

# Accounts that every system has: one for the service, in a group of its own, and another one.
SERVICE, OTHER = "daemon", "nobody"
IDS = {name: pwd.getpwnam(name).pw_uid for name in (SERVICE, OTHER, "root")}
GROUP = grp.getgrnam(SERVICE).gr_gid


def sanitize():
    """The compiler flags for a program that links with the libraries of this build."""
    name = {"asan": "address,undefined", "tsan": "thread"}.get(BUILD.name)
    return [f"-fsanitize={name}"] if name else []


def run_as(user, group=None):
    """The words before a command that run it as a user without capabilities."""
    gid = pwd.getpwnam(user).pw_gid if group is None else group
    return ["setpriv", f"--reuid={IDS[user]}", f"--regid={gid}", "--clear-groups", "--inh-caps=-all"]


@pytest.fixture
def shared():
    """A directory that all accounts may write to, with the program and the library."""
    with tempfile.TemporaryDirectory(prefix="weir-owners-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o1777)
        shutil.copy(WEIR, directory / "weir")
        shutil.copy(BUILD / "src" / "libweir.so.1", directory / "libweir.so.1")
        yield directory


def command(shared, *words, user="root"):
    return subprocess.run([*run_as(user), shared / "weir", *words], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


@pytest.fixture
def serve_as(shared):
    started = []

    def start(user, *flags, group=None, **more):
        started.append(Server(*flags, directory=shared, program=shared / "weir",
                              account=run_as(user, group), **more))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            assert server.stop() == 0


@pytest.mark.parametrize("user", ["root", SERVICE])
def test_a_file_of_another_account_is_not_used(serve_as, shared, user):
    state = shared / "state"
    server = serve_as(OTHER, "--store", f"file:{state}", "--capacity", "1000")
    state.chmod(0o666)
    before = state.read_bytes()
    done = command(shared, "serve", "--store", f"file:{state}", user=user)
    assert done.returncode == 1
    assert (f"{state}: owner: expected user {IDS[user]} or root, found user {IDS[OTHER]}"
            in done.stderr)
    assert state.read_bytes() == before
    assert server.get("/healthz").status == 200


def test_files_of_root_and_of_the_configured_account_are_used(serve_as, shared):
    state = shared / "state"
    serve_as("root", "--store", f"file:{state}", "--capacity", "1000").stop()
    state.chmod(0o660)
    os.chown(state, 0, GROUP)
    config = f"store: file:{state}\nstore_group: {SERVICE}\n"
    assert serve_as(OTHER, group=GROUP, config=config).get("/healthz").status == 200
    os.chown(state, IDS[SERVICE], GROUP)
    config += f"store_owner: {SERVICE}\n"
    assert serve_as(OTHER, group=GROUP, config=config).get("/healthz").status == 200


def test_a_service_and_a_program_of_another_user_share_a_file_as_documented(serve_as, shared):
    page = (ROOT / "docs/operations.md").read_text()
    section = re.search(r"^### A file for several users$(.*?)^## ", page, re.M | re.S)[1]
    home = shared / "weir-state"
    home.mkdir()
    os.chown(home, IDS[SERVICE], GROUP)
    mode = int(re.search(r"StateDirectoryMode=(\d+)", section)[1], 8)
    home.chmod(mode)
    ours = lambda text: (text.replace('"weir"', f'"{SERVICE}"').replace(": weir", f": {SERVICE}")
                         .replace("/var/lib/weir", str(home)))
    config = ours(re.search(r"```yaml\n(.*?)```", section, re.S)[1])
    config += "limits: { login: { algorithm: token_bucket, rate: 10/h } }\n"
    code = ours(re.search(r"```c\n(.*?)```", section, re.S)[1])
    service = serve_as(SERVICE, config=config)
    assert (home / "state").stat().st_mode & 0o7777 == 0o660
    (shared / "program.c").write_text("""
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <weir/weir.h>
int main(void)
{
%s
	struct weir_limit_options login = {.name = "login", .rate = {10, 1, WEIR_UNIT_HOUR}};
	struct weir_decision d = {0};
	struct weir_error error = {0};
	weir_limit *limit;
	weir_table *table;
	if (weir_table_open(&options, &table, &error) != 0)
		return puts(error.message), 1;
	weir_limit_open(&login, &limit, NULL);
	weir_acquire(table, limit, (struct weir_key){"k", 1}, 4, WEIR_NOW, &d);
	printf("%%d\\n", (int)d.remaining);
	weir_limit_close(limit);
	weir_table_close(table);
	return 0;
}
""" % code)
    subprocess.run(["gcc", "-Wall", f"-I{ROOT}/include", shared / "program.c", "-o", shared / "program",
                    shared / "libweir.so.1", f"-Wl,-rpath,{shared}", *sanitize()], check=True)
    program = lambda group: subprocess.run([*run_as(OTHER, group), shared / "program"], check=False,
                                           capture_output=True, text=True, timeout=PATIENCE).stdout
    assert service.get("/v1/acquire/login?key=k").json["remaining"] == 9
    assert program(GROUP) == "5\n"
    assert service.get("/v1/acquire/login?key=k").json["remaining"] == 4
    assert "Permission denied" in program(pwd.getpwnam(OTHER).pw_gid)
    second = serve_as(OTHER, group=GROUP, config=config + f"store_owner: {SERVICE}\n")
    assert second.get("/v1/acquire/login?key=k").json["remaining"] == 3


def test_root_can_check_each_file_and_must_confirm_its_owner_to_repair(serve_as, shared):
    state = shared / "state"
    assert serve_as(OTHER, "--store", f"file:{state}", "--capacity", "1000").stop() == 0
    assert command(shared, "store", "check", state).stdout == f"{state}: ok\n"
    assert command(shared, "store", "dump", state).returncode == 0
    done = command(shared, "store", "repair", state)
    assert done.returncode == 1
    assert done.stderr == f"{state}: owner: expected user 0 or root, found user {IDS[OTHER]}\n"
    done = command(shared, "store", "repair", "--owner", SERVICE, state)
    assert f"expected user 0, {IDS[SERVICE]} or root, found user {IDS[OTHER]}" in done.stderr
    done = command(shared, "store", "repair", "--owner", OTHER, state)
    assert (done.returncode, done.stdout) == (0, f"{state}: ok, 0 cells emptied\n")
    assert command(shared, "store", "repair", state, user=OTHER).returncode == 0
    state.chmod(0o660)
    done = command(shared, "store", "repair", "--owner", OTHER, state)
    group = pwd.getpwnam(OTHER).pw_gid
    assert f"mode: expected no right to write for group {group}, found 0660" in done.stderr
    done = command(shared, "store", "repair", "--owner", OTHER, "--group", str(group), state)
    assert done.returncode == 0
    done = command(shared, "store", "repair", "--owner", "no-such-user", state)
    assert done.returncode == 2
    assert "--owner: expected a user of this system, found 'no-such-user'" in done.stderr


def test_a_repair_follows_no_symbolic_link(shared):
    state, precious = shared / "state", shared / "precious"
    precious.write_text("precious")
    os.symlink(precious, state)
    os.lchown(state, IDS[OTHER], IDS[OTHER])
    done = command(shared, "store", "repair", state)
    assert done.returncode == 1
    assert done.stderr == f"{state}: expected a regular file, found a symbolic link\n"
    assert precious.read_text() == "precious"
