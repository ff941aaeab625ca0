"""build.py OUT [ROOTS]: builds all that a release consists of into the directory OUT.

It needs root, and the network only to make the Debian systems in ROOTS, which it keeps for the next time.
docs/design/releases.md has the reasons.
"""

import email.utils
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

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
    if given:
        return int(given)
    date = re.search(r"^ -- .*>  (.*)$", (TOP / "packaging/debian/changelog").read_text(), re.M)[1]
    return int(email.utils.parsedate_to_datetime(date).timestamp())


VERSION, EPOCH, MACHINE = version(), epoch(), platform.machine()
NAME = f"weir-{VERSION}"
DATED = {"SOURCE_DATE_EPOCH": str(EPOCH)}


def source_files():
    """The files of the tree that belong to it: what git knows, or all of an unpacked archive."""
    listing = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        return [name for name in listing.stdout.split("\0") if name and (TOP / name).is_file()]
    return [str(path.relative_to(TOP)) for path in TOP.rglob("*") if path.is_file() and path.parts[len(TOP.parts)] != "build"]


class Release:
    def __init__(self, out, kept_roots):
        self.out, self.kept_roots, self.work = out, kept_roots, out / "work"
        self.source = out / f"{NAME}.tar.gz"
        self.linux = out / f"{NAME}-linux-{MACHINE}.tar.gz"
        self.parts = out / f"{NAME}.spdx.json"

    def say(self, what):
        print(f"release: {what}", flush=True)

    def build(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.say(f"{self.source.name}")
        archives.write(self.source, TOP, NAME, EPOCH, source_files())
        systems = {release: roots.make_for_building(self.kept_roots, release) for release in roots.SUITES}
        for release, root in systems.items():
            self.say(f"packages for Debian {release}")
            self.debian(release, root)
        self.say("the static program")
        self.static(systems["13"])
        self.say("the RPM")
        self.rpm(systems["13"])
        self.say("the container's image")
        self.container(systems["13"])
        shutil.rmtree(self.work)
        self.checksums()

    def unpack(self, root):
        """The sources in /build of a root, always at the same path, which is in no file of the release then."""
        top = root.directory / "build"
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
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
        archives.write(self.linux, self.work / "linux", f"{NAME}-linux-{MACHINE}", EPOCH)

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
        top = root.directory / "build"
        shutil.rmtree(top, ignore_errors=True)
        (top / "SOURCES").mkdir(parents=True)
        for source in (self.source, self.linux):
            shutil.copy(source, top / "SOURCES")
        shutil.copy(TOP / "packaging/rpm/weir.spec", top)
        root.run("rpmbuild", "-ba", "--nodeps", "--with", "static", "--define", "_topdir /build", "--define", "_buildhost weir",
                 "--define", "use_source_date_epoch_as_buildtime 1", "--define", "clamp_mtime_to_source_date_epoch 1",
                 "--define", "_docdir /usr/share/doc", "--define", "_sysconfdir /etc", "weir.spec", where="/build", env=DATED)
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
        context, storage = self.work / "container", self.work / "storage"
        self.lay_out_container(root, context / "image")
        (context / "state").mkdir()
        shutil.copy(TOP / "packaging/container/Containerfile", context)
        image = self.out / f"{NAME}-container-{MACHINE}.tar"
        buildah = ["buildah", "--root", storage, "--runroot", self.work / "run", "--storage-driver", "vfs"]
        run([*buildah, "build", "--quiet", "--isolation", "chroot", "--format", "docker", "--timestamp", str(EPOCH), "--tag", f"weir:{VERSION}",
             "--label", f"org.opencontainers.image.version={VERSION}", context])
        run([*buildah, "push", "--quiet", f"weir:{VERSION}", f"docker-archive:{image}:weir:{VERSION}"])
        archives.rewrite(image, EPOCH)

    def checksums(self):
        files = sorted(path for path in self.out.iterdir() if path.is_file())
        (self.out / "SHA256SUMS").write_text("".join(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
        for path in [self.out, *self.out.iterdir()]:
            os.chown(path, int(os.environ.get("SUDO_UID", 0)), int(os.environ.get("SUDO_GID", 0)))


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__.splitlines()[0])
    if os.geteuid() != 0:
        sys.exit("release: expected root, who may enter the Debian systems that the release is built in")
    out = pathlib.Path(sys.argv[1]).resolve()
    Release(out, pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else TOP / "build/roots").resolve()).build()
    print((out / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    main()
