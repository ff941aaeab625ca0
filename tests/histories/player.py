"""The program `play` and its Redis, and what they say to a history: a list of records."""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import algorithms
import history as format_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
START = 2_000_000_000 * 10**9  # the first history begins here; expiry follows this clock
OBSERVER = 3  # the server that looks at Redis between operations, and repeats no denial
PATIENCE = 120
NEVER = 10 * 366 * algorithms.UNITS["d"]  # a longer retry_after means that the request never passes


class Failed(Exception):
    """The program ended, or did not understand: with what it printed."""


class Redis:
    """A redis-server whose clock is a file."""

    def __init__(self, directory, library):
        self.clock = directory / "clock"
        self.clock.write_bytes(struct.pack("<Q", START))
        env = {**os.environ, "LD_PRELOAD": str(library), "WEIR_TEST_CLOCK": str(self.clock)}
        for _ in range(50):
            self.port = random.SystemRandom().randrange(11000, 22000)
            self.process = subprocess.Popen(
                ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                 "--dir", str(directory)], env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self._answers():
                return
            self.stop()
        raise Failed("no redis-server could be started")

    def _answers(self):
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as one:
                one.settimeout(PATIENCE)
                one.sendall(b"INFO server\r\n")
                # Another server may have this port.
                return b"process_id:%d\r" % self.process.pid in one.recv(65536)
            time.sleep(0.01)
        return False

    def stop(self):
        self.process.kill()
        self.process.wait()


class Player:
    """Plays histories, one after another. `program` and its Redis run until `close`."""

    def __init__(self, build=BUILD, with_redis=True):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-histories-")
        self.directory = pathlib.Path(self.folder.name)
        self.program = build / "tests" / "histories" / "play"
        self.library = BUILD / "tests" / "libclock.so"
        self.redis = Redis(self.directory, self.library) if with_redis else None
        self.files = 0
        self._start()

    def _start(self):
        words = [str(self.redis.port), str(self.redis.clock)] if self.redis else []
        self.errors = open(self.directory / "errors", "w+b")
        self.process = subprocess.Popen([self.program, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def close(self):
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        if self.redis:
            self.redis.stop()
        self.errors.close()
        self.folder.cleanup()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, lines):
        """Answers of commands, each a list of words."""
        data = "".join(line + "\n" for line in lines) + "\n"
        try:
            self.process.stdin.write(data.encode())
            self.process.stdin.flush()
            answers = [self.process.stdout.readline().decode().split() for _ in lines]
        except BrokenPipeError:
            answers = [[]]
        if not all(answers):
            self._fail()
        return answers

    def _fail(self):
        self.process.kill()
        code = self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self._start()
        raise Failed(f"play ended with {signal.Signals(-code).name if code < 0 else code}\n{text}")

    def new_file(self):
        self.files += 1
        return self.directory / f"table-{self.files}"

    def play(self, history):
        """The records of a history: see Performance."""
        return Performance(self, history).run()


FIELDS = ("allowed", "quota", "remaining", "retry", "reset", "wait")


def decision(words):
    """The answer of the program `play` to a call that decides."""
    answer = {"status": int(words[0]), "now": int(words[1])}
    if len(words) > 2:
        answer.update(zip(FIELDS, map(int, words[2:8])))
        answer.update(reason=words[8], limit=words[9], rule=words[10], permit=words[11] == "1")
    return answer


def escape(key):
    return key.replace(" ", "_") or "%"


class Performance:
    """
    One history, played. A record is a dict: `op`, its `answer` (or None), `peek`, what the same
    server said to the same request just before, and `state` after it: of each (limit, key) what
    the observer sees. `config` is the configuration's number.
    """

    def __init__(self, player, history):
        self.player = player
        self.history = history
        self.is_redis = history["store"] == "redis"
        self.config = 0    # of the observer: the last that a server took
        self.configs = {}  # of each server that has another one
        self.answers = {}  # by the id of an operation
        self.records = []
        self.path = player.new_file() if history["store"] == "file" else None

    # Servers

    def _open(self, server):
        settings = self.history.get("settings", {})
        seen = server == OBSERVER
        store = str(self.path) if self.path else self.history["store"]
        ahead = 0 if seen else self.history["servers"][server].get("ahead_ms", 0)
        denied = 0 if seen else settings.get("denied_cache_ms", 0)
        return (f"server {server} {store} {ahead * algorithms.MS} {denied * algorithms.MS} "
                f"{settings.get('timeout_ms', 20) * algorithms.MS} {settings.get('nodes', 1)}")

    def _configure(self, server):
        config = self.history["configs"][self.configs.get(server, self.config)]
        text = format_of.yaml(config, without=("chunk",) if server == OBSERVER else ())
        return f"config {server} {len(text.encode())}\n{text}"[:-1]

    def _backend(self):
        it = self.history["backend"]
        return (f"backend {self.history['seed']} {it['workers']} {it['service']} {it['mean_ms'] * algorithms.MS} "
                f"{it['strain'] * 1000:.0f} {it['attempts']} {it['patience_ms'] * algorithms.MS} "
                f"{it['backoff_ms'] * algorithms.MS} {it['notifies']:d} {it['silent'] * 1000:.0f}")

    def _servers(self):
        return [*range(len(self.history["servers"])), *([OBSERVER] if self.is_redis else [])]

    def _must(self, lines):
        for line, words in zip(lines, self.player.ask(lines)):
            if int(words[0]) != 0:
                raise Failed(f"{line}: status {words[0]}")

    # Records

    def _looked_at(self):
        config = self.history["configs"][self.config]
        return [(limit, key) for limit in config["limits"] for key in self.history["keys"]]

    def _look(self):
        looked_at = self._looked_at()
        limits = self.history["configs"][self.config]["limits"]
        answers = self.player.ask([f"peek {self._observer(limits[limit])} {limit} {escape(key)} 1"
                                   for limit, key in looked_at])
        return {pair: decision(words) for pair, words in zip(looked_at, answers)}

    def _observer(self, limit):
        return OBSERVER if self.is_redis and limit.get("store") != "memory" else 0

    def run(self):
        self._must([f"begin {self.history.get('start', START)}"])
        for server in self._servers():
            self._must([self._open(server), self._configure(server)])
        if "backend" in self.history:
            self._must([self._backend()])
        self.records.append({"op": {"do": "begin"}, "answer": None, "config": 0, "state": self._look()})
        for op in self.history["ops"]:
            record = {"op": op, "answer": None}
            getattr(self, "_" + op["do"])(op, record)
            server = OBSERVER if op["do"] in ("pass", "settle", "flush") else \
                (record.get("again") or op).get("server", 0)
            record["config"] = self.configs.get(server, self.config)
            record["state"] = self._look()
            self.records.append(record)
            if "id" in op and record["answer"]:
                self.answers[op["id"]] = (op, record["answer"])
        return self.records

    # Operations. What an operation names may be gone from a history that is being shrunk.

    def _knows(self, op):
        config = self.history["configs"][self.config]
        return op.get("server", 0) < len(self.history["servers"]) and (
            "limit" not in op or op["limit"] in config["limits"])

    @staticmethod
    def _words(op):
        wait = op["wait_ms"] * algorithms.MS if "wait_ms" in op else "-"
        slot = op["id"] if op.get("permit") and "id" in op else "-"
        return f"{op.get('cost', 1)} {wait} {op.get('priority', 0)} {slot}"

    @staticmethod
    def _attributes(op):
        return " ".join(f"{name}={value}" for name, value in op["attributes"].items())

    def _acquire(self, op, record):
        if self._knows(op):
            where = f"{op.get('server', 0)} {op['limit']} {escape(op['key'])}"
            peek, answer = self.player.ask([f"peek {where} {op.get('cost', 1)}",
                                            f"acquire {where} {self._words(op)}"])
            record.update(peek=decision(peek), answer=decision(answer))

    def _check(self, op, record):
        if self._knows(op):
            server, attributes = op.get("server", 0), self._attributes(op)
            peek, answer = self.player.ask([f"checkpeek {server} {op.get('cost', 1)} {attributes}",
                                            f"check {server} {self._words(op)} {attributes}"])
            record.update(peek=decision(peek), answer=decision(answer))

    def _adhoc(self, op, record):
        if self._knows(op):
            words = f"{op['burst']} {op['count']} {op['period_s']} {op.get('cost', 1)}"
            record["answer"] = decision(self.player.ask(
                [f"adhoc {op.get('server', 0)} {escape(op['key'])} {words}"])[0])

    def _peek(self, op, record):
        if self._knows(op):
            where = f"{op.get('server', 0)} {op['limit']} {escape(op['key'])}"
            record["answer"] = decision(self.player.ask([f"peek {where} {op.get('cost', 1)}"])[0])

    def _load(self, op, record):
        """Without `priorities` all requests have the same."""
        if self._knows(op):
            high, low = op.get("priorities", (0, 0))
            words = self.player.ask([
                f"load {op.get('server', 0)} {op['limit']} {escape(op['key'])} {op['ms'] * algorithms.MS} "
                f"{(op['high'] + op['low']) * 1000:.0f} {op['low'] / (op['high'] + op['low']) * 1000:.0f} {high} {low}"])[0]
            record["answer"] = {"status": int(words[0]), "now": int(words[1]), "most": int(words[2]),
                                "asked": float(words[3]), "done": float(words[4])}

    def _refund(self, op, record):
        """Without `of`: of no permit."""
        server = op.get("server", 0)
        if "of" not in op:
            if self._knows(op):
                where = f"{server} {op['limit']} {escape(op['key'])}"
                record["answer"] = decision(self.player.ask([f"refund {where} {op.get('cost', 1)}"])[0])
            return
        taken, answer = self.answers.get(op["of"], (None, None))
        if not taken or not answer.get("permit") or not self._knows({**taken, "server": server}):
            return
        if taken["do"] == "check":  # such a permit is valid for its table alone
            server = taken.get("server", 0)
        cost = min(op.get("cost", taken.get("cost", 1)), taken.get("cost", 1))
        record["cost"] = cost
        if taken["do"] == "check":
            words = f"return-all {server} {op['of']} {cost}"
        else:
            words = f"return {server} {taken['limit']} {escape(taken['key'])} {op['of']} {cost}"
        record["answer"] = decision(self.player.ask([words])[0])

    def _report(self, op, record):
        server = op.get("server", 0)
        taken, answer = self.answers.get(op["of"], (None, None))
        if not taken or not answer.get("permit") or not self._knows({**taken, "server": server}):
            return
        outcome = op.get("outcome", 0)
        if taken["do"] == "check":
            server = taken.get("server", 0)
        if taken["do"] == "check":
            words = f"report-all {server} {op['of']} {outcome}"
        else:
            words = f"report {server} {taken['limit']} {escape(taken['key'])} {op['of']} {outcome}"
        record["answer"] = decision(self.player.ask([words])[0])

    def _reset(self, op, record):
        if self._knows(op):
            record["answer"] = decision(self.player.ask(
                [f"reset {op.get('server', 0)} {op['limit']} {escape(op['key'])}"])[0])

    def _pass(self, op, record):
        self._must([f"pass {op['ns']}"])

    def _settle(self, op, record):
        """Long enough without requests for servers to give back what they took in advance."""
        limits = self.history["configs"][self.config]["limits"]
        peeks = [f"peek {server} {limit} {escape(key)} 1" for server in range(len(self.history["servers"]))
                 for limit in limits for key in self.history["keys"]]
        self._must([f"pass {1150 * algorithms.MS}", *peeks, f"pass {50 * algorithms.MS}", *peeks])

    def _again(self, op, record):
        """The request of `of` again, when its retry_after has passed."""
        asked, answer = self.answers.get(op["of"], (None, None))
        if asked and answer["status"] == 0 and not answer["allowed"] and answer["retry"] < NEVER:
            # Redis counts whole microseconds.
            self._must([f"pass {-(-answer['retry'] // 1000) * 1000 if self.is_redis else answer['retry']}"])
            again = {name: value for name, value in asked.items() if name != "id"}
            getattr(self, "_" + asked["do"])({**again, "permit": False}, record)
            record["again"] = asked

    def _reload(self, op, record):
        """All servers, or only one."""
        if op["config"] >= len(self.history["configs"]) or not self._knows(op):
            return
        servers = self._servers()
        if "server" in op:
            self.configs = {server: self.configs.get(server, self.config) for server in servers}
            self.configs[op["server"]] = self.configs[OBSERVER] = op["config"]
            servers = [op["server"], OBSERVER]
        else:
            self.configs = {}
        self.config = op["config"]
        self._must([self._configure(server) for server in servers])

    def _restart(self, op, record):
        """The servers end and start again; counts in memory are lost."""
        self.config = min(op.get("config", self.config), len(self.history["configs"]) - 1)
        for server in self._servers():
            if server != OBSERVER:
                self._must([self._open(server), self._configure(server)])
        if self.is_redis:
            self._must([self._configure(OBSERVER)])

    def _kill(self, op, record):
        """A server ends as by SIGKILL, so it tells nobody, and starts again."""
        server = op.get("server", 0)
        if not self._knows(op):
            return
        if self.path:
            left, self.path = self.path, self.player.new_file()
            shutil.copyfile(left, self.path)
        self._must([f"fault {server} down", self._open(server), f"fault {server} none", self._configure(server)])

    def _fault(self, op, record):
        self._must([f"fault {op.get('server', 0)} {op['kind']}"])

    def _flush(self, op, record):
        self._must(["redis FLUSHALL"])
