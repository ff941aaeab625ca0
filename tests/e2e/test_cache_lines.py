"""No request of any command at any limit touches more than 10,000 cache lines of a store.

The server is built so that its table, records and stores count the lines that they touch (tests/unit/store/touched.h).
Each key has as many permits or entries as it can have, 10,000 where the algorithm allows it, and all of
them were granted at different times.
"""

import mmap
import struct

from harness import BUILD, Http, Server, Wire, encode, plain_build_only

pytestmark = plain_build_only

BOUND = 10000
MOST = 10000

# The greatest numbers that each algorithm takes.
LIMITS = {
    "adaptive": "{ algorithm: adaptive, min: 1, max: 10000, initial: 10000, permit_timeout: 1h }",
    "base": "{ algorithm: base, base: 10000, rate: 10000/h }",
    "breaker": "{ algorithm: breaker, max_concurrent: 10000, permit_timeout: 1h }",
    "breaker_of_calls": "{ algorithm: breaker, calls: 1000, permit_timeout: 1h }",
    "concurrency": "{ algorithm: concurrency, max: 10000, lease: 1h }",
    "fixed_window": "{ algorithm: fixed_window, rate: 10000/h }",
    "leaky_bucket": "{ algorithm: leaky_bucket, rate: 10000/h, capacity: 10000 }",
    "pacer": "{ algorithm: pacer, rate: 10000/h, slack: 10000 }",
    "sliding_counter": "{ algorithm: sliding_counter, rate: 10000/h }",
    "sliding_log": "{ algorithm: sliding_log, rate: 10000/h }",
    "sliding_window": "{ algorithm: sliding_window, rate: 10000/h, slots: 1000 }",
    "throttle": "{ algorithm: throttle }",
    "token_bucket": "{ algorithm: token_bucket, rate: 10000/h, burst: 10000 }",
}
CONFIG = "limits:\n" + "".join(f"  {name}: {limit}\n" for name, limit in LIMITS.items()) + "rules:\n" + "".join(
    f"  - {{ name: {name}, match: {{ kind: {name} }}, key: [who], limits: [{name}] }}\n" for name in LIMITS)


# A key of these has a record for each request, or many records.
WIDE = ("adaptive", "base", "breaker", "breaker_of_calls", "concurrency", "sliding_counter", "sliding_log",
        "sliding_window", "throttle")
KEYS = ("asked", "given_back", "reset")

# {} stands for the limit; COST, PART, FIRST, MIDDLE and LAST for numbers and permits of the key.
ON_A_FULL_KEY = """
WEIR.PEEK {} asked
WEIR.PEEK {} asked COST 10000
WEIR.ACQUIRE {} asked
WEIR.ACQUIRE {} asked COST 5000
WEIR.ACQUIRE {} asked COST 10000 PERMIT
WEIR.ACQUIRE {} asked WAIT 0
WEIR.ACQUIRE {} asked PRIORITY 9
WEIR.CHECK kind {} who asked
WEIR.CHECKPEEK kind {} who asked
CL.THROTTLE asked 9999 10000 3600 10000
THROTTLE asked 10000 10000 3600 10000
GET /v1/acquire/{}?key=asked&cost=10000
GET /v1/peek/{}?key=asked&cost=10000
GET /rule/browse?kind={}&who=asked
GET /rule/update?kind={}&who=asked
GET /rule/update?kind={}&who=asked
POST /v1/acquire {"limit": "{}", "key": "asked", "cost": 5000, "permit": true}
POST /v1/acquire {"attributes": {"kind": "{}", "who": "asked"}, "cost": 5000}
POST /v1/peek {"limit": "{}", "key": "asked"}
POST /v1/batch [{"limit": "{}", "key": "asked", "cost": 10000}]
WEIR.REFUND {} asked PERMIT FIRST
WEIR.REPORT LAST failure
POST /v1/report {"permit": "MIDDLE", "outcome": "success", "latency_ms": 5}
POST /v1/refund {"permit": "MIDDLE"}
WEIR.REFUND {} given_back COST 1
WEIR.REFUND {} given_back COST 3700
POST /v1/refund {"limit": "{}", "key": "given_back", "cost": 2000}
POST /v1/batch [{"limit": "{}", "key": "given_back", "cost": 1000}]
WEIR.ACQUIRE {} given_back COST 2000
WEIR.REFUND {} given_back COST 10000
WEIR.RESET {} reset
WEIR.ACQUIRE {} reset COST 10000 PERMIT
WEIR.REFUND {} reset COST 3700 PERMIT TAKEN
WEIR.REFUND {} reset COST 10000
POST /v1/reset {"limit": "{}", "key": "asked"}
""".strip().splitlines()


class Counting:
    """The server, its clients, and the lines that each of their requests touches."""

    def __init__(self, directory):
        self.file = directory / "touched"
        self.file.write_bytes(bytes(8))
        with self.file.open("r+b") as file:
            self.lines = mmap.mmap(file.fileno(), 8)
        self.server = Server("--threads", "1", "--capacity", "500000", config=CONFIG, directory=directory,
                             program=BUILD / "tests/unit/store/weir_counting",
                             env={"WEIR_TEST_TOUCHED": str(self.file)})
        self.wire = Wire(self.server.resp)
        self.http = Http(self.server.http)
        self.permits = {limit: {} for limit in LIMITS}

    def counted(self):
        return struct.unpack("=Q", self.lines)[0]

    def fill(self):
        """Grants each permit of a key in another iteration of the server's loop, so at another time."""
        asked = [(limit, key) for limit in WIDE for key in KEYS]
        request = b"".join(encode("WEIR.ACQUIRE", limit, key, "PERMIT") for limit, key in asked)
        for n in range(MOST):
            self.wire.send(request)
            for limit, key in asked:
                allowed, *_, permit = self.wire.reply()
                if allowed and key == "asked":
                    permits = self.permits[limit]
                    permits["LAST"] = permit
                    permits.setdefault("FIRST", permit)
                    if n <= 4100:
                        permits["MIDDLE"] = permit

    def ask(self, line, limit):
        """The number of cache lines that the request touches."""
        words = line.replace("{}", limit).split(" ", 2)
        if words[0] in ("GET", "POST"):
            for name, permit in self.permits[limit].items():
                words[-1] = words[-1].replace(name, permit.decode())
            before = self.counted()
            self.http.request(*words)
        else:
            words = [self.permits[limit].get(word, word) for word in " ".join(words).split()]
            before = self.counted()
            answer = self.wire.command(*words)
            if words[-1] == "PERMIT" and isinstance(answer, list):
                self.permits[limit]["TAKEN"] = answer[-1]
        return self.counted() - before


def test_no_command_touches_more_than_the_bound(tmp_path):
    counting = Counting(tmp_path)
    with counting.http, counting.wire:
        counting.fill()
        lines = {(line, limit): counting.ask(line, limit) for limit in LIMITS for line in ON_A_FULL_KEY}
    counting.server.stop()
    assert not {what: n for what, n in lines.items() if n > BOUND}
    # Shows that lines are counted: a pass over all entries of the widest record touches this many.
    assert lines["WEIR.PEEK {} asked", "concurrency"] >= MOST / 4
    assert lines["WEIR.REFUND {} given_back COST 3700", "concurrency"] >= MOST / 2
