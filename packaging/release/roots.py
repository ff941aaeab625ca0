"""Debian systems in directories: a release is built in them, so that it doesn't depend on the machine's own system."""

import pathlib
import re
import shutil
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
SUITES = {"12": "bookworm", "13": "trixie"}
# debhelper's part, and what archives of the program and the RPM take from the system besides.
TOOLS = ["build-essential", "ca-certificates", "cpio", "rpm", "tzdata"]
APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]


def run(command, **how):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **how)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}\nexit {done.returncode}")
    return done.stdout


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
        """Returns the output. No process of the command outlives it."""
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"]),
                  f"--root={self.directory}", f"--wd={where}", "--mount-proc"]
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        return run([*inside, *command], env={**clean, **(env or {})})

    def install(self, *packages):
        shutil.copy("/etc/resolv.conf", self.directory / "etc/resolv.conf")
        self.run(*APT, "update", network=True)
        self.run(*APT, "install", "-y", "--no-install-recommends", *packages, network=True)


def make(directory, release, packages=()):
    """A root with `packages`, kept for the next time. Of `release`: 12 or 13."""
    root = Root(directory)
    if (directory / "made").exists():
        return root
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    run(["mmdebstrap", "--variant=apt", "--quiet", "--dpkgopt=force-unsafe-io", SUITES[release], directory])
    if packages:
        root.install(*packages)
    (directory / "made").touch()
    return root


def make_for_building(roots, release):
    packages = build_packages()
    if release == "12":  # has llhttp as a part of Node.js only
        packages = ["node-llhttp" if name == "libllhttp-dev" else name for name in packages]
    return make(roots / f"debian{release}", release, [*packages, *TOOLS])


def copy(directory, root):
    """A copy of a root, for a test to install into."""
    shutil.rmtree(directory, ignore_errors=True)
    run(["cp", "-a", "--reflink=auto", root.directory, directory])
    return Root(directory)
