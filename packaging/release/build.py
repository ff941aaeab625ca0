"""build.py OUT [ROOTS]: builds all that a release consists of into the directory OUT.

It needs root, and the network only to make the Debian systems in ROOTS, which it keeps for the next time.
OUT appears as a whole, or stays as it was. docs/design/releases.md has the reasons.
"""

import contextlib

import email.utils
import fcntl
import hashlib
import os
import pathlib
import platform
import re
import shutil
import signal
import sys
import time

import archives
import parts
import roots
from roots import TOP, run

CONTAINER_USER = 65532


def version():
    return re.search(r"version: '([\d.]+)'", (TOP / "meson.build").read_text())[1]


def epoch():
    """The time that all files of the release have: that of the last entry in debian/changelog."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        if not given.isdigit():
            sys.exit(f"release: expected seconds since 1970 in SOURCE_DATE_EPOCH, found {given!r}")
        return int(given)
    date = re.search(r"^ -- .*>  (.*)$", (TOP / "packaging/debian/changelog").read_text(), re.M)[1]
    return int(email.utils.parsedate_to_datetime(date).timestamp())


VERSION, EPOCH, MACHINE = version(), epoch(), platform.machine()
NAME = f"weir-{VERSION}"
DATED = {"SOURCE_DATE_EPOCH": str(EPOCH)}


def source_files():
    """The files of the tree that belong to it: what git knows, or all of an unpacked archive."""
    if (TOP / ".git").exists():
        # The owner of the tree is not root, who builds.
        listing = run(["git", "-c", f"safe.directory={TOP}", "-C", TOP, "ls-files", "-z"])
        return [name for name in listing.split("\0") if name and (TOP / name).is_file()]
    return [str(path.relative_to(TOP)) for path in TOP.rglob("*") if path.is_file() and path.parts[len(TOP.parts)] != "build"]


class Release:
    def __init__(self, out, systems):
        """`out`: an empty directory. `systems`: {version of Debian: its root}"""
        self.out, self.systems, self.work = out, systems, out / "work"
        self.newest = systems["13"]
        self.source = out / f"{NAME}.tar.gz"
        self.linux = out / f"{NAME}-linux-{MACHINE}.tar.gz"
        self.parts = out / f"{NAME}.spdx.json"

    def build(self):
        self.work.mkdir()
        say(self.source.name)
        self.archive(self.source, TOP, NAME, source_files())
        for release, root in self.systems.items():
            say(f"packages for Debian {release}")
            self.debian(release, root)
        say("the static program")
        self.static(self.newest)
        say("the RPM")
        self.rpm(self.newest)
        say("the container's image")
        self.container(self.newest)
        shutil.rmtree(self.work)
        self.checksums()

    def archive(self, out, top, prefix, files=None):
        """A compressed archive. Compressors differ between systems, so it takes that of a root."""
        tar = self.newest.building() / out.stem
        archives.write(tar, top, prefix, EPOCH, files)
        self.newest.run("gzip", "-9", "--no-name", tar.name, where="/build")
        shutil.move(f"{tar}.gz", out)

    def unpack(self, root):
        """The sources in /build of a root, always at the same path, which is in no file of the release then."""
        top = root.building(empty=True)
        run(["tar", "-C", top, "-xzf", self.source])
        return top / NAME

    def debian(self, release, root):
        tree = self.unpack(root)
        shutil.copytree(tree / "packaging/debian", tree / "debian")
        changelog = (tree / "debian/changelog").read_text()
        (tree / "debian/changelog").write_text(changelog.replace(f"({VERSION})", f"({VERSION}+deb{release})", 1))
        root.run("dpkg-buildpackage", "--build=binary", "--no-sign", where=f"/build/{NAME}",
                 env={**DATED, "DEB_BUILD_OPTIONS": f"parallel={os.cpu_count()} noautodbgsym"})
        for package in sorted((root.directory / "build").glob("*.deb")):
            shutil.copy(package, self.out)

    def static(self, root):
        """The program, and an archive of it with the documents of the package."""
        tree = self.unpack(root)
        where = f"/build/{NAME}"
        root.run("meson", "setup", "static", "-Dstatic=true", "-Dwerror=false",
                 f"-Dc_args=-ffile-prefix-map={where}=.", "-Dc_link_args=-Wl,--trace", where=where, env=DATED)
        log = root.run("ninja", "-v", "-C", "static", "weir", where=where, env=DATED)
        root.run("strip", "static/weir", where=where)
        program = tree / "static/weir"
        linked = parts.linked_packages(root, log.splitlines())
        data = {name: parts.Part(root, name) for name in parts.DATA_LICENCES}
        digest = hashlib.sha256(program.read_bytes()).hexdigest()
        parts.write(self.parts, parts.document(
            VERSION, EPOCH, roots.SUITES["13"], linked, data, digest))
        self.lay_out(root, program, linked)
        self.archive(self.linux, self.work / "linux", f"{NAME}-linux-{MACHINE}")

    def lay_out(self, root, program, linked):
        """The files of the archive: those of the package `weir`, with the static program."""
        [package] = self.out.glob("weir_*+deb13_*.deb")
        unpacked, linux = self.work / "package", self.work / "linux"
        run(["dpkg-deb", "--extract", package, unpacked])
        shutil.copytree(unpacked / "usr", linux, symlinks=True)
        shutil.copy(program, linux / "bin/weir")
        documents = linux / "share/doc/weir"
        [unit] = unpacked.rglob("weir.service")
        shutil.copy(unit, documents)
        shutil.copy(TOP / "LICENSE", documents)
        shutil.copy(self.parts, documents)
        (documents / "licences").mkdir()
        for name, part in sorted(linked.items()):
            shutil.copy((root.directory / "usr/share/doc" / part.binary / "copyright").resolve(), documents / "licences" / name)

    def rpm(self, root):
        """The package of the static program, and that of the sources, from which other distributions build."""
        top = root.building(empty=True)
        (top / "SOURCES").mkdir()
        for source in (self.source, self.linux):
            shutil.copy(source, top / "SOURCES")
        shutil.copy(TOP / "packaging/rpm/weir.spec", top)
        reproducible = [word for name in ("_topdir /build", "_buildhost weir", "use_source_date_epoch_as_buildtime 1",
                                          "clamp_mtime_to_source_date_epoch 1", "_docdir /usr/share/doc", "_sysconfdir /etc")
                        for word in ("--define", name)]
        for kind in (["-bb", "--with", "static"], ["-bs"]):
            root.run("rpmbuild", *kind, "--nodeps", *reproducible, "weir.spec", where="/build", env=DATED)
        for package in sorted([*top.glob("RPMS/*/*.rpm"), *top.glob("SRPMS/*.rpm")]):
            shutil.copy(package, self.out)

    def lay_out_container(self, root, image):
        """The files of the image, of which its user may write none."""
        linux = self.work / "linux"
        for source, name in ((linux / "bin/weir", "usr/bin/weir"),
                             (TOP / "packaging/container/weir.yaml", "etc/weir/weir.yaml"),
                             (root.directory / "etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt"),
                             (self.parts, "usr/share/doc/weir/weir.spdx.json")):
            (image / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.resolve(), image / name)
        shutil.copytree(linux / "share/doc/weir/licences", image / "usr/share/doc/weir/licences")
        shutil.copytree(root.directory / "usr/share/zoneinfo", image / "usr/share/zoneinfo", symlinks=True)
        (image / "etc/passwd").write_text(f"weir:x:{CONTAINER_USER}:{CONTAINER_USER}:weir:/:/usr/bin/weir\n")
        (image / "etc/group").write_text(f"weir:x:{CONTAINER_USER}:\n")
        (image / "var/lib").mkdir(parents=True)
        for path in image.rglob("*"):
            if not path.is_symlink():
                path.chmod(archives.mode_of(path))

    def container(self, root):
        """The image as an archive that docker and podman load."""
        top = root.building(empty=True)
        context, image = top / "context", f"{NAME}-container-{MACHINE}.tar"
        self.lay_out_container(root, context / "image")
        (context / "state").mkdir()
        shutil.copy(TOP / "packaging/container/Containerfile", context)
        buildah = ["buildah", "--root", "/build/storage", "--runroot", "/build/run", "--storage-driver", "vfs"]
        root.run(*buildah, "build", "--quiet", "--isolation", "chroot", "--format", "docker", "--timestamp", str(EPOCH),
                 "--tag", f"weir:{VERSION}", "--label", f"org.opencontainers.image.version={VERSION}", "/build/context")
        root.run(*buildah, "push", "--quiet", f"weir:{VERSION}", f"docker-archive:/build/{image}:weir:{VERSION}")
        archives.rewrite_image(top / image, EPOCH)
        shutil.move(top / image, self.out)

    def checksums(self):
        files = sorted(path for path in self.out.iterdir() if path.is_file())
        (self.out / "SHA256SUMS").write_text("".join(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
        for path in [self.out, *self.out.iterdir()]:
            path.chmod(archives.mode_of(path))
            os.chown(path, int(os.environ.get("SUDO_UID", 0)), int(os.environ.get("SUDO_GID", 0)))


def say(what):
    print(f"release: {what}", flush=True)


@contextlib.contextmanager
def locked(directory):
    """Of two builds with the same roots, one waits."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another build uses {directory}: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(out, kept_roots):
    """Builds beside `out`, which a failed build leaves as it was."""
    unfinished = out.with_name(f"{out.name}.unfinished")
    systems = {}
    try:
        for release in roots.SUITES:
            say(f"the system of Debian {release}")
            systems[release] = roots.make_for_building(kept_roots, release)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        Release(unfinished, systems).build()
        shutil.rmtree(out, ignore_errors=True)
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        for root in systems.values():
            root.clean()


def complaint(out):
    """What hinders a build, or None."""
    if os.geteuid() != 0:
        return "expected root, who may enter the Debian systems that the release is built in"
    missing = [name for name in roots.PROGRAMS if not shutil.which(name)]
    if missing:
        packages = sorted(set(roots.PROGRAMS.values()))
        return f"found no {' and no '.join(missing)}: install {' '.join(packages)} (their names in Debian)"
    if out.exists() and any(out.iterdir()) and not (out / "SHA256SUMS").exists():
        return f"{out}: expected an empty directory or an earlier release, found other files"
    if EPOCH > time.time():
        return f"expected a date in the past in packaging/debian/changelog or SOURCE_DATE_EPOCH, found {time.ctime(EPOCH)}"
    return None


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__.splitlines()[0])
    out = pathlib.Path(sys.argv[1]).resolve()
    kept_roots = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else TOP / "build/roots").resolve()
    problem = complaint(out)
    if problem:
        sys.exit(f"release: {problem}")
    os.umask(0o022)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("release: terminated"))
    try:
        with locked(kept_roots):
            build(out, kept_roots)
    except KeyboardInterrupt:
        sys.exit("release: interrupted")
    print((out / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    main()
