"""scripts/quorum.lua at a real Redis, against a model of its own, over random histories."""

import pathlib
import random
import struct
import subprocess

import pytest
import redis

SCRIPT = (pathlib.Path(__file__).parents[2] / "src/redis/scripts/quorum.lua").read_text()
START = 1_700_000_000_000_000
SLEEP, HOLD, LEASE, SLEEP_MAX = 1000, 5000, 400, 4000  # microseconds
SERVERS = ["sa", "sb", "sc", "0d"]  # the last one is of a version without leases


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    directory = tmp_path_factory.mktemp("votes")
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", directory / "s", "--save", "",
                                "--dir", directory], stdout=subprocess.DEVNULL)
    client = redis.Redis(unix_socket_path=str(directory / "s"),
                         retry=redis.retry.Retry(redis.backoff.ConstantBackoff(0.02), 500),
                         retry_on_error=[redis.ConnectionError])
    client.ping()
    yield client
    process.kill()
    process.wait()


KEYS = ["{f}:keys", "{f}:turns", "{f}:ends", "{f}:servers"]


class Model:
    """One key: who said what, kept as lists, and judged by the words of docs/breaker.md."""

    def __init__(self, quorum, probes):
        self.quorum, self.probes = quorum, probes
        self.phase, self.turn, self.began = "closed", 0, 0
        self.votes, self.given, self.good, self.bad = {}, {}, 0, 0
        self.leases, self.doublings = {}, 0

    def calls(self, server, now, stops=False):
        if self.quorum > 1 and stops:
            self.leases.pop(server, None)
        elif self.leases.get(server, 0) < now + LEASE / 2:
            self.leases[server] = now + LEASE

    def runs(self, server, now):
        return not server.startswith("s") or self.quorum == 1 or self.leases.get(server, 0) > now

    def go(self, phase, now):
        self.doublings = self.doublings + 1 if phase == "open" and self.phase == "half" else 0
        self.phase, self.turn, self.began = phase, max(self.turn + 1, now), now
        self.votes, self.given, self.good, self.bad = {}, {}, 0, 0

    def settle(self, now):
        if self.bad:
            self.go("open", now)
        elif self.good >= self.probes:
            self.go("closed", now)

    def lose(self, now):
        for server in [s for s, (n, until) in self.given.items() if until <= now]:
            self.bad += self.given.pop(server)[0]

    def trips(self, server, known, now):
        if self.phase == "closed" and self.turn in (0, known):
            self.votes = {voter: at for voter, at in self.votes.items() if self.runs(voter, now)}
            self.votes[server] = now
            if sum(at + SLEEP > now for at in self.votes.values()) >= self.quorum:
                self.go("open", now)

    def asks(self, server, known, wanted, now):
        if self.phase == "closed" or (self.phase == "open" and now < self.began + SLEEP):
            return 0
        if self.phase == "open" and self.doublings and known != self.turn:
            return 0  # it may not have slept as long as it should
        self.phase = "half"
        self.lose(now)
        turn = self.turn
        self.settle(now)
        if self.turn != turn:
            return 0
        out = sum(n for n, _ in self.given.values())
        more = max(0, min(wanted, self.probes - out - self.good - self.bad))
        own = self.given.get(server, (0, 0))[0] + more
        if own:
            self.given[server] = own, now + HOLD
        return more

    def reports(self, server, known, good, bad, freed, now):
        if self.phase != "half" or known != self.turn:
            return
        self.lose(now)
        own, until = self.given.pop(server, (0, 0))
        bad = min(bad, own)
        good = min(good, own - bad)
        left = max(0, own - bad - good - freed)
        self.good, self.bad = self.good + good, self.bad + bad
        if left:
            self.given[server] = left, until
        self.settle(now)


def call(client, script, now, server, since, model, says, stops=False):
    numbers = struct.pack("<11d", since, 0, model.quorum, SLEEP, model.probes, HOLD, 0, 50, 0,
                          0 if stops else LEASE, SLEEP_MAX)
    words = [letter.encode() + struct.pack("<5d", *numbers) + b"key" for letter, *numbers in says]
    heard, _ = script(keys=KEYS, args=[f"@{now}000", server, numbers, *words], client=client)
    news = []
    while heard:
        kind, number, age, count, size = struct.unpack_from("<BdddH", heard)
        news.append((chr(kind), int(number), int(age), int(count), heard[27:27 + size]))
        heard = heard[27 + size:]
    return news


@pytest.mark.parametrize("seed", range(40))
def test_random_histories_are_those_of_the_model(client, seed):
    draw = random.Random(seed)
    client.flushall()
    script = client.register_script(SCRIPT)
    model = Model(draw.randint(1, 3), draw.randint(1, 3))
    servers, known = list(SERVERS), dict.fromkeys(SERVERS, 0)
    now, turns = START, 0
    for _ in range(400):
        now += draw.choice([1, 10, 10, 10, 300, 1100, 6000])
        server = draw.choice(servers)
        restarts = draw.random() < 0.1
        if restarts:  # after a goodbye, or without
            if draw.random() < 0.5:
                model.calls(server, now, stops=True)
                call(client, script, now, server, known[server], model, [], stops=True)
            at = servers.index(server)
            servers[at] = server = f"{server}x"
            known[server] = 0
        model.calls(server, now)
        before, given = model.turn, None
        say = draw.choice("vvaarrz-")
        counts = [0, 0, 0, 0]
        if say == "v":
            model.trips(server, known[server], now)
        elif say == "a":
            counts[0] = draw.randint(1, 3)
            given = model.asks(server, known[server], counts[0], now)
        elif say == "r":
            counts = [draw.randint(0, 1), draw.choice([0, 0, 0, 1]), 0, draw.randint(0, 1)]
            model.reports(server, known[server], counts[0], counts[1], counts[3], now)
        elif say == "z" and model.phase != "closed":
            model.go("closed", now)
        elif say == "z":
            model.votes = {}
        news = call(client, script, now, server, known[server], model,
                    [] if say == "-" else [(say, known[server], *counts)])
        assert sum(count for kind, _, _, count, _ in news if kind == "p") == (given or 0)
        assert sum(n for n, _ in model.given.values()) <= model.probes
        end = news[-1]
        assert end[0] == "." and end[1] == model.turn and end[3] == 0
        if model.turn != known[server]:
            kind = "c" if model.phase == "closed" else "o"
            assert (kind, model.turn, now - model.began, model.doublings, b"key") in news
        known[server] = model.turn
        turns += model.turn != before
        for name in client.keys():
            assert 0 < client.pttl(name) <= 2 * 86_400_000
    assert turns > 0 or model.quorum == 3


def test_a_hostile_number_of_keys_is_bounded_and_leaves_those_that_are_open(client):
    client.flushall()
    script = client.register_script(SCRIPT)
    model = Model(1, 1)
    call(client, script, START, "a", 0, model, [("v", 0, 0, 0, 0, 0)])
    model.quorum = 2
    numbers = struct.pack("<11d", 0, 0, 2, SLEEP, 1, HOLD, 0, 50, 0, LEASE, SLEEP_MAX)
    for n in range(0, 10200, 50):
        words = [b"v" + struct.pack("<5d", 0, 0, 0, 0, 0) + b"%d" % i for i in range(n, n + 50)]
        script(keys=KEYS, args=[f"@{START}000", "a", numbers, *words])
    assert client.hlen("{f}:keys") == client.zcard("{f}:ends") == 10000
    assert client.hget("{f}:keys", "key").startswith(b"open ")


def test_a_redis_that_has_lost_its_data_tells_what_it_has(client):
    client.flushall()
    script = client.register_script(SCRIPT)
    model = Model(1, 1)
    news = call(client, script, START, "a", START + 7, model, [])
    assert news == [(".", 0, 0, 0, b"")]
    news = call(client, script, START, "a", START + 7, model, [("v", 9, 0, 0, 0, 0)])
    assert ("o", START, 0, 0, b"key") in news
