"""Simulates machines on a network that a test can cut, by network namespaces of the kernel. Needs root."""

import contextlib
import ctypes
import os
import pathlib
import subprocess

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _call(function, *arguments):
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function.__name__}: {os.strerror(error)}; a namespace needs root")


def _network():
    """A descriptor of this thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


class Machine:
    """A network namespace, which exists as long as this object or a program in it."""

    def __init__(self):
        home = _network()
        try:
            _call(_libc.unshare, CLONE_NEWNET)
            self.network = _network()
            _ip("link", "set", "lo", "up")
        finally:
            _call(_libc.setns, home, CLONE_NEWNET)
            os.close(home)

    @contextlib.contextmanager
    def here(self):
        """In this context, sockets that this thread makes and programs that it starts are on this machine."""
        home = _network()
        try:
            _call(_libc.setns, self.network, CLONE_NEWNET)
            yield
        finally:
            _call(_libc.setns, home, CLONE_NEWNET)
            os.close(home)

    def close(self):
        os.close(self.network)


class Network:
    """Machines connected by a router. Each has an `address`."""

    def __init__(self):
        self.router = Machine()
        self.machines = []
        with self.router.here():
            self._switch("all/forwarding", 1)

    @staticmethod
    def _switch(name, value):
        pathlib.Path(f"/proc/sys/net/ipv4/conf/{name}").write_text(str(value))

    def machine(self):
        machine = Machine()
        number = len(self.machines)
        machine.port, gateway, machine.address = (
            f"port{number}", f"10.213.{number}.1", f"10.213.{number}.2")
        self.machines.append(machine)
        with self.router.here():
            _ip("link", "add", machine.port, "type", "veth", "peer", "name", "eth0",
                "netns", f"/proc/{os.getpid()}/fd/{machine.network}")
            _ip("address", "add", f"{gateway}/24", "dev", machine.port)
            _ip("link", "set", machine.port, "up")
        with machine.here():
            _ip("address", "add", f"{machine.address}/24", "dev", "eth0")
            _ip("link", "set", "eth0", "up")
            _ip("route", "add", "default", "via", gateway)
        return machine

    def lose_from(self, machine):
        """Drops all packets that a machine sends, without an error."""
        with self.router.here():
            self._switch(f"{machine.port}/forwarding", 0)

    def lose_to(self, machine):
        """Drops all packets to a machine, without an error."""
        with self.router.here():
            _ip("route", "add", "blackhole", machine.address)

    def cut(self, machine):
        self.lose_from(machine)
        self.lose_to(machine)

    def heal(self, machine):
        with self.router.here():
            self._switch(f"{machine.port}/forwarding", 1)
            subprocess.run(["ip", "route", "del", "blackhole", machine.address], check=False,
                           capture_output=True)

    def close(self):
        for machine in (self.router, *self.machines):
            machine.close()
