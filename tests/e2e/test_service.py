"""The server as a service: its notifications by sd_notify(3), and the commands of the systemd unit."""

import os
import re
import shlex
import signal
import socket
import subprocess
import time

import pytest
from harness import CONFIG, PATIENCE, ROOT, WEIR, Http

UNIT = (ROOT / "packaging/debian/weir.service").read_text()
BAD = CONFIG + "rules: []\n"


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """(the socket of a service manager, its name for NOTIFY_SOCKET)"""
    name = (str(tmp_path / "notify") if request.param == "path"
            else f"@weir-test-{os.getpid()}-{time.monotonic_ns()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        notifications.bind(name.replace("@", "\0"))
        notifications.settimeout(PATIENCE)
        yield notifications, name


def test_the_manager_is_notified_of_ready_reloading_and_stopping(serve, manager):
    notifications, name = manager
    server = serve(env={"NOTIFY_SOCKET": name})
    assert notifications.recv(1000) == b"READY=1"
    with Http(server.http) as client:  # the server listens before it notifies
        assert client.request("GET", "/readyz").status == 200
    for config, event in ((CONFIG, "reloaded"), (BAD, "reload_failed")):
        before = time.monotonic_ns() // 1000
        server.reload(config)
        begun = re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=(\d+)", notifications.recv(1000))
        assert before <= int(begun[1]) <= time.monotonic_ns() // 1000
        assert notifications.recv(1000) == b"READY=1"
        server.line_with(event)
    server.process.send_signal(signal.SIGTERM)
    assert notifications.recv(1000) == b"STOPPING=1"


@pytest.mark.parametrize("name", ["", "@", "relative", "/nowhere/notify", "/" + "x" * 200])
def test_an_invalid_notify_socket_does_not_stop_the_server(serve, name):
    server = serve(env={"NOTIFY_SOCKET": name})
    assert server.get("/readyz").status == 200


def commands(key, server):
    """The commands of the unit, with the process and file of a server."""
    assert "Type=notify" in UNIT
    for line in re.findall(rf"^{key}=(.*)$", UNIT, re.M):
        yield shlex.split(line.replace("/usr/bin/weir", str(WEIR))
                          .replace("/etc/weir/weir.yaml", str(server.config))
                          .replace("$MAINPID", str(server.process.pid)))


def run_all(key, server):
    """Runs commands in order until one fails, as systemd does: (exit code, output)."""
    for command in commands(key, server):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            return done.returncode, done.stderr
    return 0, ""


def test_a_reload_of_the_unit_with_an_invalid_file_fails_and_changes_nothing(serve):
    server = serve()
    assert run_all("ExecStartPre", server) == (0, "")
    assert run_all("ExecReload", server) == (0, "")
    server.line_with("reloaded")
    server.config.write_text(BAD)
    for key in ("ExecReload", "ExecStartPre"):
        code, said = run_all(key, server)
        assert code == 1
        assert re.search(rf"^{server.config}:\d+:\d+: error: ", said, re.M)
    assert server.get("/v1/peek/window?key=k").json["quota"] == 3
    server.config.write_text(CONFIG.replace("rate: 3/h", "rate: 4/h"))
    assert run_all("ExecReload", server) == (0, "")
    server.line_with("reloaded")
    assert server.get("/v1/peek/window?key=k").json["quota"] == 4


def test_the_unit_hides_nothing_that_programs_on_one_store_file_need():
    # Programs read /proc/sys/kernel/random/boot_id to see whether a file's clock is of this boot.
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.M))
    assert settings.get("ProcSubset", "all") == "all"
    assert not {"InaccessiblePaths", "TemporaryFileSystem", "RootDirectory"} & set(settings)
