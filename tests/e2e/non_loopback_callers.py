"""Starts servers, calls them from an address that is not loopback, and prints the answers as JSON.

In a network namespace of its own it creates the address; otherwise it uses the machine's.
Usage: non_loopback_callers.py DIRECTORY, with a list of [config, [call, …]] on standard input. A call is a
list of words for RESP, a list of such lists for one connection, of which the last reply counts, or
{"method", "path", "body", "headers"} for HTTP.
"""

import fcntl
import http.client
import json
import os
import socket
import struct
import sys

from harness import PATIENCE, Server, Wire

SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1


def address_of_namespace():
    address = "10.9.8.7"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        fcntl.ioctl(any_socket, SIOCSIFADDR,
                    struct.pack("16sH2x4s8x", b"lo:1", socket.AF_INET, socket.inet_aton(address)))
    return address


def address_of_machine():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect(("192.0.2.1", 9))
        return unsent.getsockname()[0]


def answer_of(server, address, call):
    if isinstance(call, list):
        with Wire(server.resp, address) as wire:
            for words in call if isinstance(call[0], list) else [call]:
                reply = wire.command(*words)
            return reply.decode() if isinstance(reply, bytes) else f"{reply}"
    connection = http.client.HTTPConnection(address, server.http, timeout=PATIENCE)
    connection.request(call["method"], call["path"], call.get("body"), call.get("headers", {}))
    response = connection.getresponse()
    return [response.status, response.read().decode()]


def main():
    alone = "WEIR_NAMESPACE" in os.environ
    address = address_of_namespace() if alone else address_of_machine()
    results = []
    for config, calls in json.load(sys.stdin):
        server = Server("--http", f"{address}:0", "--resp", f"{address}:0", "--threads", "1",
                        config=config, directory=sys.argv[1], ports=False)
        results.append({"log": server.log, "replies": [answer_of(server, address, call) for call in calls]})
        assert server.stop() == 0
    print(json.dumps(results))


main()
