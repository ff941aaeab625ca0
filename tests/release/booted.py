"""A Debian system in a directory, with systemd as its first process, in namespaces of its own."""

import os
import pathlib
import subprocess

from harness import until

HIERARCHY = pathlib.Path("/sys/fs/cgroup/unified")  # where version 1 of control groups is there, too
HIERARCHY = HIERARCHY if HIERARCHY.exists() else pathlib.Path("/sys/fs/cgroup")
BOOT = """
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount -t sysfs -o ro sysfs "$0/sys"
mount -t cgroup2 none "$0/sys/fs/cgroup"
mount -t tmpfs tmpfs "$0/run"
mount -t tmpfs tmpfs "$0/tmp"
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$0" /lib/systemd/systemd
"""


class Booted:
    def __init__(self, root):
        self.group = HIERARCHY / f"weir-test-{os.getpid()}"
        self.group.mkdir()
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--cgroup", "--net", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-ec", BOOT, root.directory],
            preexec_fn=lambda: (self.group / "cgroup.procs").write_text("0"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.run("systemctl", "is-system-running")[1].strip() in ("running", "degraded"), "a booted system")

    def init(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return children[0] if children else "0"

    def run(self, *command):
        """(exit code, output)"""
        assert self.process.poll() is None
        done = subprocess.run(
            ["nsenter", f"--target={self.init()}", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd",
             "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def must(self, *command):
        code, output = self.run(*command)
        assert code == 0, output
        return output

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()
        until(lambda: (self.group / "cgroup.events").read_text().startswith("populated 0"), "its processes ended")
        for group in sorted(self.group.rglob("*"), reverse=True):
            if group.is_dir():
                group.rmdir()
        self.group.rmdir()
