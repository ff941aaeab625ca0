"""What a release consists of: the files, that a second build makes the same, and the list of parts."""

import hashlib
import json
import re
import subprocess

from conftest import run
from harness import ROOT

import parts

VERSION = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]


def names(release):
    return sorted(path.name for path in release.iterdir())


def test_a_second_build_in_another_directory_is_equal_byte_for_byte(release, second_release):
    assert names(release) == names(second_release)
    assert [name for name in names(release)
            if (release / name).read_bytes() != (second_release / name).read_bytes()] == []


def test_the_release_has_each_kind_of_file(release):
    kinds = [
        rf"SHA256SUMS", rf"weir-{VERSION}\.tar\.gz", rf"weir-{VERSION}-linux-\w+\.tar\.gz", rf"weir-{VERSION}\.spdx\.json",
        rf"weir-{VERSION}-container-\w+\.tar", rf"weir-{VERSION}-1\.\w+\.rpm", rf"weir-{VERSION}-1\.src\.rpm",
        *(rf"{package}_{VERSION}\+deb{debian}_\w+\.deb" for debian in (12, 13)
          for package in ("weir", "libweir1", "libweir-rules1", "libweir-redis1", "libweir-dev")),
    ]
    found = names(release)
    assert [kind for kind in kinds if not any(re.fullmatch(kind, name) for name in found)] == []
    assert len(found) == len(kinds)


def test_the_checksums_are_those_of_all_files(release):
    listed = [line.split("  ")[1] for line in (release / "SHA256SUMS").read_text().splitlines()]
    assert sorted([*listed, "SHA256SUMS"]) == names(release)
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=release)


def test_the_archive_of_the_sources_has_the_files_of_the_tree(release):
    listed = run("tar", "-tzf", release / f"weir-{VERSION}.tar.gz").splitlines()
    known = run("git", "-C", ROOT, "ls-files").splitlines()
    assert {name.removeprefix(f"weir-{VERSION}/") for name in listed} == set(known)


def test_no_file_of_the_static_program_knows_where_it_was_built(linux):
    for path in (path for path in linux.rglob("*") if path.is_file()):
        assert b"/build/weir" not in path.read_bytes(), path


def test_the_list_of_parts_names_all_libraries_with_version_and_licence(release, linux):
    document = json.loads((release / f"weir-{VERSION}.spdx.json").read_text())
    assert (linux / "share/doc/weir" / f"weir-{VERSION}.spdx.json").read_bytes() == \
        (release / f"weir-{VERSION}.spdx.json").read_bytes()
    found = {package["name"]: package for package in document["packages"]}
    digest = hashlib.sha256((linux / "bin/weir").read_bytes()).hexdigest()
    assert found["weir"]["checksums"][0]["checksumValue"] == digest
    assert found["weir"]["versionInfo"] == VERSION
    linked = {relation["relatedSpdxElement"] for relation in document["relationships"]
              if relation["relationshipType"] == "STATIC_LINK"}
    # Each library that the packaged program needs is linked into the static one.
    assert linked == {parts.identifier(name) for name in parts.LICENCES}
    for name in parts.LICENCES:
        assert re.match(r"\d", found[name]["versionInfo"].split(":")[-1]), name
        assert found[name]["licenseConcluded"] == parts.LICENCES[name]
        assert len((linux / "share/doc/weir/licences" / name).read_text()) > 500, name
    versions = run("strings", linux / "bin/weir")
    assert f"OpenSSL {found['openssl']['versionInfo'].split('-')[0]} " in versions
    assert f"GLIBC {found['glibc']['versionInfo']}" in versions


def test_a_tool_for_lists_of_parts_finds_no_fault(release, tmp_path):
    """spdx-tools, in an environment of its own: nothing else needs its many packages."""
    run("/usr/bin/python3", "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "--quiet", "-r", ROOT / "tests/release/requirements.txt")
    done = subprocess.run([tmp_path / "venv/bin/pyspdxtools", "-i", release / f"weir-{VERSION}.spdx.json"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
