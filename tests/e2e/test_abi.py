"""Compares what the libraries export and need with their headers and with tests/abi/weir.abi."""

import difflib
import importlib.util
import re
import subprocess

import pytest
from harness import BUILD, ROOT, plain_build_only

pytestmark = plain_build_only

spec = importlib.util.spec_from_file_location("record", ROOT / "tests/abi/record.py")
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)

NEEDED = {"weir": {"libc.so.6"}, "weir_rules": {"libc.so.6", "libweir.so.1", "libyaml-0.so.2"},
          "weir_redis": {"libc.so.6", "libweir.so.1", "libhiredis.so.0.14", "libssl.so.3",
                         "libcrypto.so.3"}}
libraries = pytest.mark.parametrize("library", record.LIBRARIES)


def test_the_interface_equals_the_record_in_weir_abi():
    recorded = (ROOT / "tests/abi/weir.abi").read_text()
    diff = "".join(difflib.unified_diff(
        recorded.splitlines(True), record.record(BUILD).splitlines(True), "recorded", "built", n=0))
    assert not diff, f"read docs/design/abi.md, then run tests/abi/record.py:\n{diff}"


def test_the_headers_are_easy_to_bind_from_other_languages():
    """They have few functions, few parameters, no unions, and constants named by their enum."""
    text = record.preprocess(record.HEADERS)
    assert len(record.functions(["weir/weir.h"])) <= 35
    for name, prototype in record.functions(record.HEADERS).items():
        assert prototype.count(",") < 6, name
    assert not re.search(r"\bunion\b", text)
    enums = record.enums(text)
    statuses = enums.pop("weir_status")
    assert all(re.fullmatch(r"WEIR_(OK|E[A-Z]+)", name) for name in statuses)
    assert len(enums) > 9
    for enum, names in enums.items():
        assert [name for name in names if not name.startswith(f"{enum.upper()}_")] == []


def version():
    return re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]


def test_every_file_that_names_the_version_names_the_same():
    header = (ROOT / "include/weir/weir.h").read_text()
    parts = dict(re.findall(r"#define WEIR_VERSION_(\w+) +(\d+)", header))
    named = {
        "include/weir/weir.h": f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCH']}",
        "CHANGELOG.md": re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1],
        "debian/changelog": re.match(r"weir \(([\d.]+)\)", (ROOT / "packaging/debian/changelog").read_text())[1],
        "debian/libweir1.symbols": re.search(
            r"WEIR_PRIVATE_([\d.]+)", (ROOT / "packaging/debian/libweir1.symbols").read_text())[1],
        "rpm/weir.spec": re.search(r"^Version: +([\d.]+)", (ROOT / "packaging/rpm/weir.spec").read_text(), re.M)[1],
        "kubernetes/weir.yaml": re.search(
            r"image: weir:([\d.]+)", (ROOT / "packaging/kubernetes/weir.yaml").read_text())[1],
    }
    assert {file: found for file, found in named.items() if found != version()} == {}


@libraries
def test_only_the_functions_of_the_headers_are_exported(library):
    found = record.exported(BUILD, library)
    public = {name for name, node in found.items() if node == "WEIR_1.0"}
    assert public == set(record.declared(library))
    private = {name: node for name, node in found.items() if name not in public}
    assert set(private.values()) <= {f"WEIR_PRIVATE_{version()}"}
    assert all(name.startswith("weir_private_") for name in private)


@pytest.mark.parametrize(("library", "private"), [("weir_rules", "weir_private_config_new"),
                                                  ("weir_redis", "weir_private_table_call")])
def test_libraries_of_different_releases_refuse_to_load_together(library, private):
    needs = record.output("readelf", "-VW", BUILD / "src" / f"lib{library}.so")
    node = record.exported(BUILD, "weir")[private]
    assert f"Name: {node} " in needs


@libraries
def test_the_static_library_defines_no_other_global_names(library):
    archive = BUILD / "src" / f"lib{library}.a"
    rows = record.output("nm", "--extern-only", "--defined-only", "--format=posix", archive)
    names = {line.split()[0] for line in rows.splitlines() if len(line.split()) > 1}
    private = {name for name in names if name.startswith("weir_private_")}
    assert names - private == set(record.declared(library))


@libraries
def test_the_library_needs_only_the_libraries_that_it_documents(library):
    assert set(record.dynamic(BUILD, library, "NEEDED")) == NEEDED[library]


@libraries
def test_the_library_has_no_writable_state(library):
    rows = record.output("size", "-A", BUILD / "src" / f"lib{library}.a").splitlines()
    sizes = {row.split()[0]: int(row.split()[1]) for row in rows if re.match(r"\.\S+ +\d", row)}
    # Per process: the number of threads so far, and the page that a fork wipes (base/prng.h).
    # Per thread: its random generator, and the key of its ids.
    assert sizes[".data"] == 0 and sizes[".bss"] <= 16 and sizes.get(".tbss", 0) <= 72


@pytest.mark.parametrize("header", record.HEADERS)
@pytest.mark.parametrize("compiler", [["gcc", "-std=c11"], ["g++", "-std=c++17"],
                                      ["clang", "-std=c11"], ["clang++", "-std=c++17"]])
def test_each_header_compiles_alone_and_strictly(compiler, header):
    language = "c++" if "++" in compiler[0] else "c"
    done = subprocess.run(
        [*compiler, "-pedantic-errors", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fsyntax-only",
         f"-I{ROOT}/include", "-x", language, "-"],
        input=f"#include <{header}>\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
