"""A connection between a client and a server that delays, loses or cuts what goes through it."""

import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tampering_proxy import TamperingProxy, end  # noqa: E402

KINDS = ["none", "delay", "drop", "cut"]
DELAY_S = 0.005
LOST_S = 0.05  # after which a connection ends that has lost something


class FaultyConnection(TamperingProxy):
    """
    Passes bytes on, both ways. `kind` may change at any time: `delay` holds each piece up; `drop` loses it,
    and ends the connection a little later; `cut` lets requests through and ends the connection instead of
    the answer.
    """

    def __init__(self, port):
        self.kind = "none"
        super().__init__(port)

    def close(self):
        self.__exit__()

    def _pass(self, source, sink, is_reply):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                kind = self.kind
                if kind == "drop":
                    time.sleep(LOST_S)
                    break
                if kind == "cut" and is_reply:
                    break
                if kind == "delay":
                    time.sleep(DELAY_S)
                sink.sendall(data)
        end(source)
        end(sink)
