"""docs/distributed.md as a newcomer reads it: each command is run, on ports of the test's own."""

import os
import re
import signal
import subprocess

import pytest
from harness import BUILD, PATIENCE, ROOT, Http, until
from redis_servers import free_port
from test_docs import blocks, steps

PAGE = "docs/distributed.md"
PORTS = ["6379", "8080", "6380", "8081", "6381"]


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """What the page starts. Yields how its commands read here."""
    directory = tmp_path_factory.mktemp("distributed")
    ports = {port: str(free_port()) for port in PORTS}

    def here(text):
        text = re.sub("|".join(PORTS), lambda match: ports[match[0]], text)
        text = text.replace("redis-cli", f"redis-cli -p {ports['6379']}")
        text = text.replace("build/weir", f"{BUILD}/weir")
        return text.replace("examples/distributed.yaml", str(directory / "distributed.yaml"))

    example = (ROOT / "examples/distributed.yaml").read_text()
    (directory / "distributed.yaml").write_text(here(example))
    start = here(blocks(PAGE, "sh")[0])
    shell = subprocess.Popen(["sh", "-c", start + "wait"], cwd=directory, start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for port in ("8080", "8081"):
        until(lambda: ready(int(ports[port])), f"a server at {port}")  # noqa: B023
    yield here
    os.killpg(shell.pid, signal.SIGTERM)
    shell.wait(PATIENCE)


def ready(port):
    try:
        with Http(port) as client:
            return client.request("GET", "/readyz").status == 200
    except OSError:
        return False


def test_commands_print_what_is_shown(setting):
    shown = [step for block in blocks(PAGE, "console") for step in steps(block)]
    assert shown
    for command, expected in shown:
        done = subprocess.run(["sh", "-c", setting(command)], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, cwd=ROOT)
        assert done.stdout, (command, done.stderr)
        if expected is not None:
            assert done.stdout.strip() == expected.strip(), command
