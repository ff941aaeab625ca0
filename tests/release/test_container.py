"""The container image, run by an OCI runtime with a read-only root, as its own user and without capabilities."""

import json
import re

import pytest
from conftest import run
from harness import PATIENCE, ROOT
from oci import Container, Network, unpack

VERSION = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]


@pytest.fixture(scope="module")
def image(release, tmp_path_factory):
    [archive] = release.glob("weir-*-container-*.tar")
    top = tmp_path_factory.mktemp("image")
    top.chmod(0o755)
    return unpack(archive, top)


@pytest.fixture
def network():
    network = Network()
    yield network
    network.close()


def start(image, top, network, env=(), mounts=(), volumes=()):
    settings, rootfs = image
    config = settings["config"]
    env = {**dict(word.split("=", 1) for word in config["Env"]), **dict(env)}
    return Container(top, rootfs, network, config["Entrypoint"] + config["Cmd"], env,
                     int(config["User"].split(":")[0]), mounts, volumes)


def test_its_settings_say_who_runs_it_what_it_publishes_and_how_it_is_checked(image):
    config = image[0]["config"]
    assert config["User"] == "65532:65532"
    assert set(config["ExposedPorts"]) == {"8080/tcp", "6380/tcp"}
    assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/weir", "status"]
    assert config["Labels"]["org.opencontainers.image.version"] == VERSION


def test_it_contains_one_program_and_nobody_may_change_a_file(image):
    _, rootfs = image
    programs = [str(path.relative_to(rootfs)) for path in rootfs.rglob("*")
                if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o111]
    assert programs == ["usr/bin/weir"]
    others = {str(path.relative_to(rootfs)) for path in rootfs.rglob("*")
              if not path.is_symlink() and (path.stat().st_uid != 0 or path.stat().st_mode & 0o022)}
    assert others == {"var/lib/weir"}


def test_it_serves_answers_its_health_check_and_stops(image, tmp_path, network):
    container = start(image, tmp_path, network).until_listening()
    status, body = network.get("/v1/acquire/login?key=a")
    assert (status, json.loads(body)["remaining"]) == (200, 9)
    check = image[0]["config"]["Healthcheck"]["Test"][1:]
    code, text = container.execute(*check)
    assert code == 0 and VERSION in text
    assert run("nsenter", f"--net={network.path}", "redis-cli", "-p", "6380", "WEIR.ACQUIRE", "login", "a").split()[0] == "1"
    with open(f"/proc/{container.pid()}/status", encoding="ascii") as file:
        facts = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    assert facts["Uid"].split() == ["65532"] * 4
    assert int(facts["CapEff"], 16) == 0 and facts["NoNewPrivs"] == "1"
    assert container.stop() == 0


def test_its_health_check_fails_without_a_server(image, tmp_path, network):
    container = start(image, tmp_path, network, env={"WEIR_HTTP": "127.0.0.1:8081"}).until_listening()
    code, _ = container.execute(*image[0]["config"]["Healthcheck"]["Test"][1:])
    assert code not in (0, 1)
    assert container.stop() == 0


def test_a_mounted_configuration_a_zone_and_a_store_in_a_file(image, tmp_path, network):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n  sms: { algorithm: fixed_window, rate: 5/d, timezone: Asia/Shanghai }\n")
    config.chmod(0o644)
    state = tmp_path / "state"
    state.mkdir()
    run("chown", "65532:65532", state)
    tmp_path.chmod(0o755)
    for remaining in (4, 3):
        container = start(image, tmp_path, network, {"WEIR_STORE": "file:/var/lib/weir/state", "WEIR_CAPACITY": "1000"},
                          {"/etc/weir/weir.yaml": config}, {"/var/lib/weir": state}).until_listening()
        assert json.loads(network.get("/v1/acquire/sms?key=a")[1])["remaining"] == remaining
        assert container.stop() == 0


def test_without_a_volume_a_store_in_a_file_is_refused_with_its_reason(image, tmp_path, network):
    container = start(image, tmp_path, network, {"WEIR_STORE": "file:/var/lib/weir/state", "WEIR_CAPACITY": "1000"})
    assert container.process.wait(PATIENCE) == 1
    assert "Read-only file system" in container.log
