"""Runs containers by crun, an OCI runtime, from an image's files and the settings that an engine would give it."""

import json
import os
import subprocess

from conftest import run
from harness import PATIENCE, until

# Without control groups: crun refuses machines that have both versions of them, so it must see none.
CRUN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh",
        "crun", "--cgroup-manager", "disabled"]


def unpack(archive, top):
    """The image's settings and its files in a directory, of an archive as `docker save` writes it."""
    layers = top / "image"
    run("mkdir", "-p", layers, top / "rootfs")
    run("tar", "-C", layers, "-xf", archive)
    [manifest] = json.loads((layers / "manifest.json").read_text())
    for layer in manifest["Layers"]:
        run("tar", "-C", top / "rootfs", "--numeric-owner", "-xpf", layers / layer)
    return json.loads((layers / manifest["Config"]).read_text()), top / "rootfs"


class Network:
    """A network of its own, with a loopback alone: every container of it has the addresses of the same pod. One address
    is not 127.0.0.1, as in every pod: names are looked up only where there is such an address."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && ip address add 10.77.0.1/32 dev lo && echo up && exec sleep infinity"],
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "up\n"
        self.path = f"/proc/{self.holder.pid}/ns/net"

    def enter(self, *command):
        return ["nsenter", f"--net={self.path}", *map(str, command)]

    def run(self, *command):
        return run(*self.enter(*command))

    def get(self, path, port=8080, host="127.0.0.1"):
        """(status, body)"""
        text = self.run("curl", "-s", "-w", "\n%{http_code}", f"http://{host}:{port}{path}")
        body, _, status = text.rpartition("\n")
        return int(status), body

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Container:
    """A running container with a read-only root. `mounts`: {place in it: file or directory}, which it may not write;
    `volumes`: the same, which it may."""

    count = 0

    def __init__(self, top, rootfs, network, args, env, user, mounts=(), volumes=()):
        Container.count += 1
        self.name = f"weir-test-{os.getpid()}-{Container.count}"
        self.bundle = top / self.name
        self.bundle.mkdir()
        mounts = [{"destination": place, "source": str(source), "type": "bind", "options": ["bind", access, "nosuid", "nodev"]}
                  for access, places in (("ro", mounts), ("rw", volumes)) for place, source in dict(places).items()]
        (self.bundle / "config.json").write_text(json.dumps({
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": user, "gid": user}, "args": args, "cwd": "/",
                        "env": [f"{name}={value}" for name, value in env.items()],
                        "noNewPrivileges": True, "capabilities": {}},
            "root": {"path": str(rootfs), "readonly": True},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}, *mounts],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"},
                                     {"type": "network", "path": network.path}]},
        }))
        self.log_path = self.bundle / "log"
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen([*CRUN, "run", "--bundle", str(self.bundle), self.name],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def log(self):
        return self.log_path.read_text()

    def until_listening(self):
        def listens():
            assert self.process.poll() is None, self.log
            return self.log.count("listening: ") >= 2
        until(listens, "two listeners")
        return self

    def execute(self, *command):
        """(exit code, output) of a command in it"""
        done = subprocess.run([*CRUN, "exec", self.name, *command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def pid(self):
        return json.loads(run(*CRUN, "state", self.name))["pid"]

    def stop(self):
        """Its exit code after SIGTERM."""
        subprocess.run([*CRUN, "kill", self.name, "TERM"], check=False, capture_output=True)
        try:
            return self.process.wait(PATIENCE)
        finally:
            subprocess.run([*CRUN, "delete", "--force", self.name], check=False, capture_output=True)
