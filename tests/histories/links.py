"""A connection between a client and a server that delays, loses or cuts what goes through it."""

import contextlib
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from redis_servers import free_port  # noqa: E402

KINDS = ["none", "delay", "drop", "cut"]
DELAY_S = 0.005
LOST_S = 0.05  # after which a connection ends that has lost something


class Link:
    """
    Passes bytes on, both ways. `kind` may change at any time: `delay` holds each piece up; `drop` loses it,
    and ends the connection a little later; `cut` lets requests through and ends the connection instead of
    the answer.
    """

    def __init__(self, port):
        self.behind = port
        self.kind = "none"
        self.port = free_port()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for one in [self.listener, *self.sockets]:
            _end(one)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self.behind))
                except OSError:
                    _end(client)
                    continue
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets += [client, server]
                for source, sink, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, sink, is_answer), daemon=True).start()

    def _pass(self, source, sink, is_answer):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                kind = self.kind
                if kind == "drop":
                    time.sleep(LOST_S)
                    break
                if kind == "cut" and is_answer:
                    break
                if kind == "delay":
                    time.sleep(DELAY_S)
                sink.sendall(data)
        _end(source)
        _end(sink)


def _end(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
