"""A TCP proxy between a client and its server that can change, delay or drop the server's replies."""

import contextlib
import socket
import threading
import time

from redis_servers import free_port


class TamperingProxy:
    """Forwards bytes. While `tamper` is set, `tamper(client, bytes)` sends replies to the client in any form."""

    def __init__(self, port):
        self.server_port = port
        self.port = free_port()
        self.tamper = None
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in [self.listener, *self.sockets]:
            end(one)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self.server_port))
                except OSError:
                    end(client)
                    continue
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets += [client, server]
                for source, sink, is_reply in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, sink, is_reply),
                                     daemon=True).start()

    def _pass(self, source, sink, is_reply):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                tamper = self.tamper if is_reply else None
                (tamper or socket.socket.sendall)(sink, data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def end(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def late(client, data):
    time.sleep(0.2)
    client.sendall(data)


def half(client, data):
    """Sends the first half of the reply only."""
    client.sendall(data[:len(data) // 2])


def half_and_gone(client, data):
    half(client, data)
    client.shutdown(socket.SHUT_RDWR)


def silent(_, __):
    pass


def instead(text):
    """Returns a tampering that sends `text` in place of each reply."""
    return lambda client, _: client.sendall(text)
