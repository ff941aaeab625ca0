"""Debian systems in directories: a release is built in them, so that it doesn't depend on the machine's own system."""

import os
import pathlib
import re
import shutil
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
SUITES = {"12": "bookworm", "13": "trixie"}
# debhelper's part, and what archives of the program, the RPM and the image take from the system besides.
TOOLS = ["build-essential", "ca-certificates", "cpio", "rpm", "tzdata"]
IMAGE_TOOLS = ["buildah", "netavark"]
# The programs of the machine itself, and Debian's packages of them.
PROGRAMS = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "dpkg-deb": "dpkg", "tar": "tar", "git": "git"}
# No process of a command outlives it, and none of its mounts is seen outside.
APART = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
# The root is a mount of its own, as buildah expects.
ENTER = 'mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; exec chroot "$0" env --chdir="$@"'
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]


def run(command, **how):
    """Returns the output of a command. If this is interrupted, the command ends, with all its processes."""
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **how) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.kill()
            process.stdout.read()  # until the last process has closed it
            raise
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{output}\nexit {process.returncode}")
    return output


def build_packages():
    """The packages that packaging/debian/control wants for a build, the first where it leaves a choice."""
    control = (TOP / "packaging/debian/control").read_text()
    [wanted] = re.findall(r"^Build-Depends:(.*?)^\S", control, re.M | re.S)
    names = [re.split(r"[ |(]", row.strip())[0] for row in wanted.split(",")]
    return ["debhelper" if name == "debhelper-compat" else name for name in names]


class Root:
    """One system below `directory`. Commands run in it as root, without a network unless they ask for one."""

    def __init__(self, directory):
        self.directory = directory

    def run(self, *command, where="/", network=False, env=None):
        """Returns the output."""
        inside = [*APART, *([] if network else ["--net"]), "sh", "-ec", ENTER, self.directory, where]
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        if network:
            clean.update((name, os.environ[name]) for name in PROXIES if name in os.environ)
        return run([*inside, *command], env={**clean, **(env or {})})

    def building(self, empty=False):
        """The directory /build of the root."""
        top = self.directory / "build"
        if empty:
            self.clean()
        top.mkdir(exist_ok=True)
        return top

    def clean(self):
        shutil.rmtree(self.directory / "build", ignore_errors=True)

    def install(self, *packages):
        shutil.copy("/etc/resolv.conf", self.directory / "etc/resolv.conf")
        self.run(*APT, "update", network=True)
        self.run(*APT, "install", "-y", "--no-install-recommends", *packages, network=True)


def make(directory, release, packages=()):
    """A root with `packages`, kept for the next time. Of `release`: 12 or 13."""
    wanted, made = " ".join(packages), directory / "made"
    if made.exists() and made.read_text() == wanted:
        return Root(directory)
    unfinished = Root(directory.with_name(f"{directory.name}.unfinished"))
    shutil.rmtree(directory, ignore_errors=True)
    shutil.rmtree(unfinished.directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        run([*APART, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=apt", "--quiet", "--dpkgopt=force-unsafe-io",
             SUITES[release], unfinished.directory])
        if packages:
            unfinished.install(*packages)
        (unfinished.directory / "made").write_text(wanted)
        unfinished.directory.rename(directory)
    finally:
        shutil.rmtree(unfinished.directory, ignore_errors=True)
    return Root(directory)


def make_for_building(roots, release):
    packages = [*build_packages(), *TOOLS]
    if release == "12":  # has llhttp as a part of Node.js only
        packages = ["node-llhttp" if name == "libllhttp-dev" else name for name in packages]
    else:
        packages += IMAGE_TOOLS
    return make(roots / f"debian{release}", release, packages)


def copy(directory, root):
    """A copy of a root, for a test to install into."""
    shutil.rmtree(directory, ignore_errors=True)
    run(["cp", "-a", "--reflink=auto", root.directory, directory])
    return Root(directory)
