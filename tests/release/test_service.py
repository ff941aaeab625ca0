"""The package as a service: systemd runs it, as on a machine that has nothing but Debian's smallest system."""

import pytest
import roots
from booted import Booted
from conftest import KEPT_ROOTS, run
from harness import until

CONFIG = """
store: file:/var/lib/weir/state
capacity: 1000
limits:
  login: { algorithm: token_bucket, rate: 10/d, burst: 10 }
"""


@pytest.fixture(scope="module", params=["12", "13"])
def system(request, release, tmp_path_factory):
    kept = roots.make(KEPT_ROOTS / f"booted{request.param}", request.param, ["dbus", "systemd"])
    root = roots.copy(tmp_path_factory.mktemp(f"booted{request.param}") / "root", kept)
    [package] = release.glob(f"weir_*+deb{request.param}_*.deb")
    run("cp", package, root.directory)
    root.install(f"/{package.name}")
    booted = Booted(root)
    booted.root = root
    yield booted
    booted.stop()


def configure(system, text):
    (system.root.directory / "etc/weir/weir.yaml").write_text(text)


def remaining(system):
    """What a request leaves of ten."""
    return int(system.must("weir", "ask", "login", "a").split(" of 10 left")[0].split()[-1])


def test_it_starts_with_the_system_as_the_documents_say(system):
    assert system.must("systemctl", "is-active", "weir") == "active\n"
    assert "state          ready" in system.must("weir", "status")


def test_its_user_has_no_rights(system):
    pid = system.must("systemctl", "show", "--property=MainPID", "--value", "weir").strip()
    facts = dict(line.split(":\t", 1) for line in system.must("cat", f"/proc/{pid}/status").splitlines() if ":\t" in line)
    assert int(facts["Uid"].split()[0]) > 60_000
    assert (int(facts["CapEff"], 16), facts["NoNewPrivs"], facts["Seccomp"]) == (0, "1", "2")


def test_its_state_survives_a_restart(system):
    configure(system, CONFIG)
    for expected in (9, 8):
        system.must("systemctl", "restart", "weir")
        assert remaining(system) == expected


def test_a_reload_takes_a_good_file_and_refuses_a_bad_one(system):
    configure(system, CONFIG)
    system.must("systemctl", "restart", "weir")
    left = remaining(system)
    configure(system, CONFIG + "  broken: 1\n")
    assert system.run("systemctl", "reload", "weir")[0] != 0
    assert "weir.yaml:6:" in system.must("journalctl", "--unit=weir", "--output=cat")
    assert remaining(system) == left - 1
    configure(system, CONFIG.replace("burst: 10", "burst: 20"))
    system.must("systemctl", "reload", "weir")
    until(lambda: "of 20 left" in system.must("weir", "ask", "login", "a", "--peek"), "the new burst")


def test_a_purge_stops_it_and_removes_its_state(system):
    """This test is the last one of the file, because it removes the package."""
    assert (system.root.directory / "var/lib/private/weir").exists()
    system.must("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "purge", "--yes", "weir")
    assert system.run("systemctl", "is-active", "weir")[1] == "inactive\n"
    left = [path for path in ("var/lib/weir", "var/lib/private/weir", "etc/weir", "etc/systemd/system/multi-user.target.wants/weir.service")
            if (system.root.directory / path).is_symlink() or (system.root.directory / path).exists()]
    assert left == []
