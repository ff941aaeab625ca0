"""Uses programs and libraries that `make install` installed, outside of the source tree."""

import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
from harness import BUILD, PATIENCE, ROOT, Server, plain_build_only

pytestmark = [plain_build_only, pytest.mark.first]

# A limiter by the library alone, which prints the version. It compiles as C and as C++.
LIMITER = """
#include <stdio.h>
#include <weir/limiter.h>
int main(void)
{
	struct weir_limit_options options = {};
	struct weir_decision d;
	weir_limiter *limiter;

	options.rate.count = 1;
	if (weir_limiter_open(&options, &limiter, NULL) != WEIR_OK)
		return 1;
	for (int i = 0; i < 2; i++) {
		weir_limiter_acquire(limiter, 1, 1700000000000000000, &d);
		printf("%s ", weir_reason_text(d.reason));
	}
	weir_limiter_close(limiter);
	printf("%s %d.%d.%d\\n", weir_version(), WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
	       WEIR_VERSION_PATCH);
	return 0;
}
"""

# A program that defines functions with names that are internal to the libraries.
ENGINE = """
#include <stdio.h>
#include <weir/engine.h>
#include <weir/rules.h>
int arena_copy = 7;
int error_set(void) { return arena_copy; }
int main(int argc, char **argv)
{
	struct weir_attribute attributes[] = {{"path", "/login", 6}, {"ip", "10.0.0.1", 8}};
	struct weir_error error;
	struct weir_decision d;
	weir_config *config;
	weir_table *table;
	weir_engine *engine;

	if (argc < 2 || weir_config_read_file(argv[1], &config, &error) ||
	    weir_table_open(NULL, &table, &error) ||
	    weir_engine_open(config, table, &engine, &error)) {
		fprintf(stderr, "%u:%u: %s\\n", error.line, error.column, error.message);
		return 1;
	}
	for (int i = 0; i < 11; i++)
		weir_engine_acquire(engine, attributes, 2, 1, WEIR_NOW, &d);
	printf("%s %s %s\\n", weir_reason_text(d.reason), d.limit, d.rule);
	weir_engine_close(engine);
	weir_table_close(table);
	weir_config_close(config);
	return error_set() != 7;
}
"""


REDIS = """
#include <stdio.h>
#include <weir/redis.h>
int buffer_free(void) { return 7; } // a name that the library has inside
int main(int argc, char **argv)
{
	struct weir_error error;
	struct weir_decision d;
	weir_limit *limit;
	weir_table *table;
	if (argc < 2 ||
	    weir_redis_open(&(struct weir_redis_options){.url = argv[1], .timeout_ns = 30000000000}, &table, &error) ||
	    weir_limit_open(&(struct weir_limit_options){.rate = {2, 1, WEIR_UNIT_HOUR}}, &limit, &error))
		return 1;
	struct weir_redis_stats before, after;
	weir_acquire(table, limit, (struct weir_key){"other", 5}, 1, WEIR_NOW, &d); // loads the script
	weir_redis_stats(table, &before);
	weir_acquire(table, limit, (struct weir_key){"k", 1}, 1, WEIR_NOW, &d);
	weir_redis_stats(table, &after);
	printf("%s %d by %d call\\n", weir_reason_text(d.reason), (int)d.remaining,
	       (int)(after.calls - before.calls));
	weir_limit_close(limit);
	weir_table_close(table);
	return buffer_free() != 7;
}
"""


# The documents and the files that they link to, at the same relative paths as in the source tree.
DOCUMENTS = {
    "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "README.zh-CN.md", "SECURITY.md", "bench/README.md",
    "bench/closed_loop/README.md",
    "examples/dicts/staff.dat", "examples/distributed.yaml", "examples/first.c",
    "examples/handlers/README.md", "examples/handlers/handlers.c", "examples/koala.conf", "examples/reload.c",
    "examples/middleware/README.md", "examples/middleware/weir.go", "examples/middleware/weir_gin.go", "examples/middleware/weir.mjs",
    "examples/middleware/weir.php", "examples/middleware/weir.py",
    "examples/trace.csv", "examples/upstreams.jsonl", "examples/upstreams.yaml", "examples/weir.yaml",
    "packaging/grafana/weir.json", "packaging/kubernetes/redis.yaml", "packaging/kubernetes/weir.yaml",
    "packaging/prometheus/weir.yml", "tests/README.md", "tests/clients/README.md",
    "tests/histories/README.md", "tests/vectors/README.md",
    *(str(path.relative_to(ROOT)) for suffix in ("md", "svg", "png", "conf", "yaml") for path in (ROOT / "docs").rglob(f"*.{suffix}")),
}
LIBRARY_PAGES = sorted((BUILD / "man3").iterdir())
SHARED = {
    "share/bash-completion/completions/weir", "share/fish/vendor_completions.d/weir.fish",
    "share/zsh/site-functions/_weir",
    *(f"share/man/man{path.suffix[1:]}/{path.name}" for path in (ROOT / "packaging/man").iterdir()),
    *(f"share/doc/weir/{path}" for path in DOCUMENTS),
}
FILES = {
    "bin/weir", "include/weir/engine.h", "include/weir/limiter.h", "include/weir/pool.h",
    "include/weir/redis.h", "include/weir/rules.h", "include/weir/weir.h",
    "lib/libweir.a", "lib/libweir.so", "lib/libweir.so.1", "lib/libweir.so.1.0.0",
    "lib/libweir_redis.a", "lib/libweir_redis.so", "lib/libweir_redis.so.1",
    "lib/libweir_redis.so.1.0.0",
    "lib/libweir_rules.a", "lib/libweir_rules.so", "lib/libweir_rules.so.1",
    "lib/libweir_rules.so.1.0.0", "lib/pkgconfig/weir.pc", "lib/pkgconfig/weir_redis.pc",
    "lib/pkgconfig/weir_rules.pc",
    *(f"share/man/man3/{path.name}" for path in LIBRARY_PAGES),
    *SHARED,
}


def run(*command, env=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=900, env={**os.environ, **(env or {})}, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def files(top):
    return {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()}


class Tree:
    """An installed tree. Its `root` is the directory that the installed files take for /."""

    def __init__(self, root, prefix, libraries):
        self.root, self.prefix, self.libraries = root, prefix, libraries

    def pkg_config(self, *arguments):
        return shlex.split(run("pkg-config", *arguments, env={
            "PKG_CONFIG_SYSROOT_DIR": str(self.root).rstrip("/"),
            "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}))

    def compile(self, source, package, program, compiler="gcc", static=False):
        how = ["--static"] if static else []
        run(compiler, "-Wall", "-Wextra", "-Werror", *(["-static"] if static else []), source,
            "-o", program, *self.pkg_config("--cflags", "--libs", *how, package))
        env = {} if static else {"LD_LIBRARY_PATH": str(self.libraries)}
        return lambda *arguments: run(program, *arguments, env=env)

    def serve(self, config, directory):
        """(remaining of a decision by the installed server, its exit code)"""
        server = Server(config=config.read_text(), directory=directory,
                        program=self.prefix / "bin/weir")
        answer = server.get("/v1/acquire/login?key=me")
        return answer.json["remaining"], server.stop()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("install") / "a prefix"
    try:
        run("make", "-C", ROOT, "install", f"BUILD={BUILD}", f"PREFIX={prefix}")
    finally:
        run("meson", "configure", BUILD, "--prefix", "/usr/local")
    return Tree(pathlib.Path("/"), prefix, prefix / "lib")


def test_the_installed_program_decides_by_the_installed_example(tree, tmp_path):
    assert files(tree.prefix) == FILES
    assert tree.serve(tree.prefix / "share/doc/weir/examples/weir.yaml", tmp_path) == (9, 0)


def test_an_image_with_destdir_contains_the_final_prefix(tmp_path):
    try:
        run("make", "-C", ROOT, "install", f"BUILD={BUILD}", "PREFIX=/opt/weir",
            f"DESTDIR={tmp_path}")
    finally:
        run("meson", "configure", BUILD, "--prefix", "/usr/local")
    assert files(tmp_path / "opt/weir") == FILES
    assert "prefix=/opt/weir\n" in (tmp_path / "opt/weir/lib/pkgconfig/weir.pc").read_text()


def links(document):
    """The files that a document links to."""
    found = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    return [document.parent / link for link in found if "://" not in link]


def test_every_link_of_the_installed_documents_leads_to_a_file(tree):
    top = tree.prefix / "share/doc/weir"
    asked = [link for document in top.rglob("*.md") for link in links(document)]
    assert len(asked) > 200
    assert [link for link in asked if not link.resolve().is_relative_to(top.resolve()) or not link.exists()] == []


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("compiler", "suffix"), [("gcc", "c"), ("g++", "cc")])
def test_a_program_outside_of_the_tree_decides_and_all_agree_on_the_version(
        tree, tmp_path, compiler, suffix, static):
    source = tmp_path / f"limiter.{suffix}"
    source.write_text(LIMITER)
    program = tree.compile(source, "weir", tmp_path / "limiter", compiler, static)
    [version] = tree.pkg_config("--modversion", "weir")
    assert tree.pkg_config("--modversion", "weir_rules") == [version]
    assert program() == f"ok over_limit {version} {version}\n"
    assert f"  version: '{version}',\n" in (ROOT / "meson.build").read_text()
    assert f"weir ({version}) " in (ROOT / "packaging/debian/changelog").read_text()


@pytest.mark.parametrize("package, source", [("weir", "LIMITER"), ("weir_rules", "ENGINE"), ("weir_redis", "LIMITER")])
def test_a_build_that_is_not_installed_is_found_by_pkg_config(tmp_path, package, source):
    (tmp_path / "program.c").write_text(globals()[source])
    flags = run("pkg-config", "--cflags", "--libs", package, env={"PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled")})
    run("gcc", "-Wall", "-Werror", tmp_path / "program.c", "-o", tmp_path / "program", *shlex.split(flags))
    listed = run("ldd", tmp_path / "program", env={"LD_LIBRARY_PATH": str(BUILD / "src")})
    assert f"libweir.so.1 => {BUILD}/src/libweir.so.1 " in listed


@pytest.mark.parametrize("static", [False, True])
def test_a_program_outside_of_the_tree_decides_by_a_rule_file(tree, tmp_path, static):
    source = tmp_path / "engine.c"
    source.write_text(ENGINE)
    program = tree.compile(source, "weir_rules", tmp_path / "engine", static=static)
    assert program(ROOT / "examples/weir.yaml") == "over_limit login login-by-ip\n"


@pytest.mark.parametrize("static", [False, True])
def test_a_program_outside_of_the_tree_decides_at_redis(tree, tmp_path, start_redis, static):
    source = tmp_path / "redis.c"
    source.write_text(REDIS)
    program = tree.compile(source, "weir_redis", tmp_path / "redis", static=static)
    assert program(start_redis().url) == "ok 1 by 1 call\n"


def patterns(package):
    """The installed files that debian/PACKAGE.install lists, as patterns of this file's names."""
    lines = (ROOT / f"packaging/debian/{package}.install").read_text().splitlines()
    return [line.split()[0].removeprefix("usr/").replace("lib/*/", "lib/") for line in lines if line.startswith("usr/")]


def is_taken(name, pattern):
    return fnmatch.fnmatch(name, pattern) or name.startswith(f"{pattern}/")


def test_each_installed_file_is_in_one_package_and_each_package_takes_files():
    """`make test-release` builds the packages and installs them."""
    packages = [path.stem for path in (ROOT / "packaging/debian").glob("*.install")]
    assert len(packages) == 5
    for package in packages:
        for pattern in patterns(package):
            assert any(is_taken(name, pattern) for name in FILES), f"{package}: {pattern}"
    for name in FILES:
        takers = {package for package in packages if any(is_taken(name, pattern) for pattern in patterns(package))}
        assert len(takers) == 1, f"{name}: {takers}"


def test_the_unit_is_valid_and_confined(tree, tmp_path):
    unit = tmp_path / "weir.service"
    program = shutil.copy(tree.prefix / "bin/weir", tmp_path)  # of a path without blanks
    unit.write_text((ROOT / "packaging/debian/weir.service").read_text().replace("/usr/bin/weir", str(program)))
    run("systemd-analyze", "verify", "--man=no", unit)
    # The score is out of 100; an unconfined service has 96.
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


def test_the_command_of_the_guide_makes_a_unit_of_the_program_that_make_install_installs():
    [command] = [line.split(" > ")[0] for line in (ROOT / "docs/install.md").read_text().splitlines()
                 if line.startswith("sed ") and "weir.service" in line]
    unit = subprocess.run(command, shell=True, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    started = [line.split("=", 1)[1].split()[0] for line in unit.splitlines() if line.startswith("Exec")]
    assert set(started) == {"/usr/local/bin/weir", "/bin/sh"} and "/usr/bin/weir" not in unit


def source_of(build):
    return json.loads((build / "meson-info" / "meson-info.json").read_text())["directories"]["source"]


def options_of(build):
    listing = subprocess.run(["meson", "introspect", "--buildoptions", build], check=True, capture_output=True).stdout
    return {option["name"]: option["value"] for option in json.loads(listing)}


def test_make_alone_builds():
    commands = subprocess.run(["make", "-n"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert commands == subprocess.run(["make", "-n", "build"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "ninja" in commands


@pytest.mark.parametrize("move", [["mv"], ["cp", "-a"]], ids=["moved", "copied"])
def test_a_build_tree_that_was_moved_or_copied_is_set_up_anew_with_its_options(tmp_path, move):
    first, second = tmp_path / "first", tmp_path / "sécond tree"
    unused = shutil.ignore_patterns("build*", ".git", "__pycache__", ".*cache*")
    shutil.copytree(ROOT, first, symlinks=True, ignore=unused)
    subprocess.run(["meson", "setup", "-Doptimization=1", "build"], cwd=first, check=True, capture_output=True)
    (first / "build" / "kept").touch()
    subprocess.run(["make", "set-up"], cwd=first, check=True)
    assert (first / "build" / "kept").exists()
    subprocess.run([*move, first, second], check=True)
    subprocess.run(["make", "set-up"], cwd=second, check=True, capture_output=True)
    assert source_of(second / "build") == str(second)
    assert options_of(second / "build")["optimization"] == "1"
    assert not (second / "build" / "kept").exists()
