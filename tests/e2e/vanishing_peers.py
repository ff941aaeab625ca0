"""Checks that a server closes connections whose peers vanish without closing them.

Runs in a network namespace of its own, whose loopback it takes down. The server's listening sockets
get a keepalive of a second, which accepted sockets inherit as they do the usual one of 300 s.
"""

import ctypes
import fcntl
import os
import socket
import struct

from harness import Server, Wire, until

SIOCSIFFLAGS, IFF_UP, PIDFD_GETFD = 0x8914, 1, 438
PEERS = 20


def loopback(up):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP if up else 0))


def descriptors(server):
    return os.listdir(f"/proc/{server.process.pid}/fd")


def shorten_keepalive(server):
    """Sets the keepalive of the listening sockets among the server's descriptors."""
    pid = os.pidfd_open(server.process.pid)
    found = 0
    for number in descriptors(server):
        copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, pid, int(number), 0)
        assert copy >= 0
        try:
            one = socket.socket(fileno=copy)
        except OSError:  # not a socket
            os.close(copy)
            continue
        with one:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 300
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
                    one.setsockopt(socket.IPPROTO_TCP, option, 1)
                found += 1
    assert found == 2
    os.close(pid)


def main():
    loopback(True)
    server = Server("--threads", "1")
    shorten_keepalive(server)
    peers = [Wire(server.resp) for _ in range(PEERS)]
    for peer in peers:
        assert peer.command("PING") == b"+PONG"
    left = len(descriptors(server)) - PEERS
    loopback(False)
    until(lambda: len(descriptors(server)) == left, "the connections to be closed")
    loopback(True)
    assert server.get("/healthz").text == "ok\n"
    assert server.stop() == 0


main()
