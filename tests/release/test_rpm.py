"""The RPM with the static program, unpacked and started; and the one from the sources, built on Debian's libraries."""

import re
import shutil

import pytest
import roots
from booted import Booted
from conftest import KEPT_ROOTS, run
from harness import ROOT, Server, until

VERSION = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]


def unpack(package, top):
    top.mkdir()
    run("sh", "-c", 'rpm2cpio "$0" | cpio -idm --quiet', package, cwd=top)
    return top


@pytest.fixture
def package(release):
    [found] = [path for path in release.glob("weir-*.rpm") if ".src." not in path.name]
    return found


def test_it_needs_nothing_but_time_zones(package):
    wanted = [line for line in run("rpm", "-qp", "--requires", package).splitlines()
              if not line.startswith(("rpmlib(", "config(", "/bin/sh"))]
    assert wanted == ["tzdata"]
    assert run("rpm", "-qp", "--configfiles", package) == "/etc/weir/weir.yaml\n"
    assert run("rpm", "-qp", "--queryformat", "%{NAME} %{VERSION} %{BUILDHOST}", package) == f"weir {VERSION} weir"


def test_its_files_are_whole_and_serve(package, tmp_path):
    top = unpack(package, tmp_path / "unpacked")
    for name in ("usr/lib/systemd/system/weir.service", "usr/share/man/man1/weir.1.gz", "usr/share/doc/weir/README.md",
                 "usr/share/doc/weir/licences/glibc"):
        assert (top / name).is_file(), name
    shutil.copytree("/usr/share/zoneinfo/Asia", top / "usr/share/zoneinfo/Asia")  # of the package tzdata
    server = Server("-c", "/etc/weir/weir.yaml", account=["chroot", str(top)], program="/usr/bin/weir")
    assert server.get("/v1/acquire/login?key=a").json["remaining"] == 9
    assert server.stop() == 0


def test_the_database_of_rpm_takes_it_and_verifies_its_files(package, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    run("rpm", "--root", root, "--initdb")
    run("rpm", "--root", root, "-i", "--nodeps", "--noscripts", package)
    assert run("rpm", "--root", root, "-V", "--nodeps", "weir") == ""
    run("rpm", "--root", root, "-e", "--nodeps", "--noscripts", "weir")
    assert not (root / "usr/bin/weir").exists()


def test_its_service_is_restarted_by_an_upgrade_and_ends_with_the_package(package, tmp_path):
    """In Debian, as there is no Fedora here, by systemd."""
    kept = roots.make(KEPT_ROOTS / "booted12", "12", ["dbus", "systemd"])
    root = roots.copy(tmp_path / "root", kept)
    root.install("rpm", "tzdata")
    shutil.copy(package, root.directory)
    with Booted(root) as booted:
        booted.must("rpm", "--install", "--nodeps", f"/{package.name}")
        booted.must("systemctl", "enable", "--now", "weir")
        assert "state          ready" in booted.must("weir", "status")
        first = booted.must("systemctl", "show", "--property=MainPID", "weir")
        booted.must("rpm", "--upgrade", "--force", "--nodeps", f"/{package.name}")
        until(lambda: booted.must("systemctl", "show", "--property=MainPID", "weir") != first, "another process")
        until(lambda: booted.run("systemctl", "is-active", "weir")[1] == "active\n", "the service")
        booted.must("rpm", "--erase", "--nodeps", "weir")
        assert booted.run("systemctl", "is-active", "weir")[1] == "inactive\n"
        assert not (root.directory / "etc/systemd/system/multi-user.target.wants/weir.service").is_symlink()


def test_the_package_of_the_sources_has_the_archive_and_says_what_a_build_needs(release, tmp_path):
    [package] = release.glob("weir-*.src.rpm")
    top = unpack(package, tmp_path / "unpacked")
    assert sorted(path.name for path in top.iterdir()) == [f"weir-{VERSION}.tar.gz", "weir.spec"]
    assert (top / f"weir-{VERSION}.tar.gz").read_bytes() == (release / f"weir-{VERSION}.tar.gz").read_bytes()
    wanted = run("rpm", "-qp", "--requires", package).split("\n")
    assert {"gcc", "pkgconfig(libuv)", "pkgconfig(openssl)"} <= set(wanted)


def test_the_package_of_the_sources_builds_program_libraries_and_headers(release, tmp_path):
    """By Debian's libraries, as there is no Fedora here, and not optimized, to save time."""
    kept = roots.make_for_building(KEPT_ROOTS, "13")
    root = roots.copy(tmp_path / "root", kept)
    top = root.building(empty=True)
    [package] = release.glob("weir-*.src.rpm")
    shutil.copy(package, top)
    root.run("rpmbuild", "--rebuild", "--nodeps", "--define", "_topdir /build", "--define", "optflags -O0 -fno-lto",
             "--define", "_docdir /usr/share/doc", package.name, where="/build")
    built = {path.name.rpartition(f"-{VERSION}")[0]: path for path in top.glob("RPMS/*/*.rpm") if "debug" not in path.name}
    assert sorted(built) == ["weir", "weir-devel", "weir-libs"]
    for name, path in built.items():
        root.run("sh", "-c", f"cd / && rpm2cpio /{path.relative_to(root.directory)} | cpio -idmu --quiet")
        assert path.stat().st_size > 10_000, name
    assert root.run("weir", "--version").split()[-1] == VERSION
    root.run("ldconfig")
    root.run("sh", "-c", "gcc -o /tmp/first /usr/share/doc/weir/examples/first.c -lweir -L$(rpm --eval %_libdir)")
    assert root.run("env", "LD_LIBRARY_PATH=/usr/lib64:/usr/lib", "/tmp/first", "me").startswith("me: allowed")
