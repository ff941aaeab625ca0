"""The packages for Debian, installed by apt into systems that have nothing else, and removed again."""

import re

import pytest
import roots
from conftest import KEPT_ROOTS, run
from harness import Server

PACKAGES = ["weir", "libweir1", "libweir-redis1", "libweir-rules1", "libweir-dev"]


def packages_of(release, debian):
    return {path.name.partition("_")[0]: path for path in release.glob(f"*+deb{debian}_*.deb")}


@pytest.fixture(scope="module", params=["12", "13"])
def installed(request, release, tmp_path_factory):
    """A system with the packages of one version of Debian; (its root, its packages)."""
    kept = roots.make(KEPT_ROOTS / f"plain{request.param}", request.param)
    root = roots.copy(tmp_path_factory.mktemp(f"debian{request.param}") / "root", kept)
    packages = packages_of(release, request.param)
    assert sorted(packages) == sorted(PACKAGES)
    (root.directory / "packages").mkdir()
    for path in packages.values():
        run("cp", path, root.directory / "packages")
    root.install(*(f"/packages/{packages[name].name}" for name in PACKAGES[:4]))
    return root, packages


def test_the_installed_program_serves_the_installed_file(installed):
    root, packages = installed
    [version] = re.findall(r"_(.*)_", packages["weir"].name)
    assert root.run("dpkg-query", "-W", "-f", "${Status} ${Version}", "weir") == f"install ok installed {version}"
    assert root.run("weir", "--version").split()[-1] == version.partition("+")[0]
    server = Server("-c", "/etc/weir/weir.yaml", account=["chroot", str(root.directory)], program="/usr/bin/weir")
    assert server.get("/v1/acquire/login?key=a").json["remaining"] == 9
    assert server.get("/v1/acquire/sms?key=a").json["remaining"] == 4  # a time zone of the system
    assert server.stop() == 0


def test_the_packages_depend_on_no_more_than_they_need(installed):
    root, packages = installed
    depends = {name: run("dpkg-deb", "--field", path, "Depends") for name, path in packages.items()}
    assert [word.split()[0] for word in depends["libweir1"].split(", ")] == ["libc6"]
    assert "systemd" not in depends["weir"] and "tzdata" in depends["weir"]
    assert "/etc/weir/weir.yaml" in root.run("dpkg-query", "-W", "-f", "${Conffiles}", "weir")


def test_dpkg_finds_each_file_as_it_was_packaged(installed):
    assert installed[0].run("dpkg", "--verify", *PACKAGES[:4]) == ""
    assert "lib/systemd/system/weir.service" in installed[0].run("dpkg", "-L", "weir")


def test_a_program_is_compiled_against_the_packages(installed):
    root, packages = installed
    root.install("gcc", "libc6-dev", "pkg-config", f"/packages/{packages['libweir-dev'].name}")
    root.run("sh", "-c", "gcc -o /tmp/first /usr/share/doc/weir/examples/first.c $(pkg-config --cflags --libs weir)")
    assert root.run("/tmp/first", "me").startswith("me: allowed, 9 of 10 left")


def test_a_purge_leaves_nothing(installed):
    """This test is the last one of the file, because it removes the packages."""
    root, _ = installed
    root.run(*roots.APT, "purge", "-y", "weir", "libweir1", "libweir-redis1", "libweir-rules1")
    left = [path for path in (root.directory / "etc/weir", root.directory / "usr/bin/weir", root.directory / "usr/share/doc/weir")
            if path.exists()]
    assert left == []
    assert list(root.directory.glob("usr/lib/*/libweir*.so*")) == []


@pytest.mark.parametrize("debian", ["12", "13"])
def test_lintian_finds_no_error_and_warns_of_nothing(release, debian):
    run("lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", *packages_of(release, debian).values())


def test_the_unit_is_valid_and_confined(release, tmp_path):
    run("dpkg-deb", "--extract", packages_of(release, "12")["weir"], tmp_path)
    unit = tmp_path / "lib/systemd/system/weir.service"
    unit.write_text(unit.read_text().replace("/usr/bin/weir", f"{tmp_path}/usr/bin/weir"))
    run("systemd-analyze", "verify", "--man=no", unit)
    # The score is out of 100; an unconfined service has 96.
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)
