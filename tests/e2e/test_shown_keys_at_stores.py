"""The names that lists show for keys, and the digests of keys, where Sentinels or a cluster find the Redis."""

import contextlib

import pytest
from harness import until, weir
from redis_sentinel import Watched, role

pytestmark = pytest.mark.first

# A breaker with a quorum is decided by all servers at one Redis.
CONFIG = """
store: {url}
store_timeout: 30s
denied_cache: 0s
limits:
  tokens: {{ algorithm: fixed_window, rate: 1/30d, align: first_request, on_store_failure: closed }}
  up: {{ algorithm: breaker, quorum: 1, minimum: 1, sleep: 1h, ramp: 0s, permit_timeout: 1h }}
rules:
  - {{ name: counted, match: {{ purpose: c }}, key: [header.x-api-key], limits: [tokens] }}
  - {{ name: judged, match: {{ purpose: j }}, key: [header.x-api-key], limits: [up] }}
denials: {{ file: denials.jsonl }}
"""


class Sentinels:
    """A master and a replica behind Sentinels."""

    def __init__(self, directory, start_redis):
        directory.mkdir()
        self.watched = Watched(directory, start_redis)
        self.url, self.stop = self.watched.url, self.watched.stop

    def secret(self):
        return self.watched.master.client.get("weir:secret")

    def move(self):
        """Lets another server have the data."""
        self.watched.master.pass_on()
        self.watched.fail_over()
        until(lambda: role(self.watched.replica) == "slave", "the old master to be demoted")

    def hung(self):
        stack = contextlib.ExitStack()
        for server in (self.watched.master, self.watched.replica):
            stack.enter_context(server.hung())
        return stack

    def forget(self):
        self.watched.master.client.flushall()


class Cluster:
    """Masters without replicas, of which one has the secret."""

    def __init__(self, start_redis_cluster):
        self.cluster = start_redis_cluster(replicas=0)
        self.url = self.cluster.url

    def stop(self):
        pass  # the fixture ends it

    def secret(self):
        with self.cluster.client() as client:
            return client.get("weir:secret")

    def move(self):
        slot = self.cluster.slot_of("weir:secret")
        owner = self.cluster.owner_of(slot)
        self.cluster.move_slot(slot, next(node for node in self.cluster.masters() if node is not owner))

    def hung(self):
        stack = contextlib.ExitStack()
        for node in self.cluster.nodes:
            stack.enter_context(node.hung())
        return stack

    def forget(self):
        for node in self.cluster.masters():
            node.client.flushall()


@pytest.fixture(params=["sentinel", "cluster"])
def store(request, tmp_path, start_redis):
    found = (Sentinels(tmp_path / "watched", start_redis) if request.param == "sentinel"
             else Cluster(request.getfixturevalue("start_redis_cluster")))
    yield found
    found.stop()


def is_ready(server):
    return server.get("/readyz").status == 200


def start(serve, config):
    server = serve("--threads", "1", config=config)
    until(lambda: is_ready(server), "the store")
    return server


def request(purpose):
    return {"purpose": purpose, "header.x-api-key": "s3cret"}


def ask(server, purpose):
    return server.post("/v1/acquire", {"attributes": request(purpose)})


def digest_of(server, key="s3cret"):
    return server.post("/v1/key", {"key": key}).json["digest"]


def phases(server):
    limits = {limit["name"]: limit for limit in server.get("/v1/limits").json}
    return {one["key"]: one["phase"] for one in limits["up"]["breakers"]}


def reset(server, limit, key):
    done = weir("reset", limit, key, "--server", f"127.0.0.1:{server.resp}")
    return done.returncode, done.stdout + done.stderr


def test_a_digest_resets_no_key_at_the_store_and_its_name_does(store, serve):
    """Redis has the names of keys, and lists have their digests: the server knows no name for a digest."""
    servers = [start(serve, CONFIG.format(url=store.url).replace("denials.jsonl", f"{n}.jsonl")) for n in range(2)]
    until(lambda: len({digest_of(server) for server in servers}) == 1, "the secret")
    digest = digest_of(servers[0])
    assert ask(servers[0], "c").status == 200
    for move in (lambda: None, store.move):
        move()
        until(lambda: all(ask(server, "c").status == 429 for server in servers), "the place of the data")
        assert {digest_of(server) for server in servers} == {digest}
        for server in servers:
            assert digest in {entry["key"] for entry in server.get("/v1/top").json}
            status, text = reset(server, "tokens", digest)
            assert status == 2 and f"found '{digest}'" in text and "the name of a key" in text
            assert ask(server, "c").status == 429
            assert reset(server, "tokens", "s3cret")[0] == 0
            assert ask(server, "c").status == 200
    for server in servers:
        assert "s3cret" not in server.get("/v1/limits").text + server.get("/v1/top").text + "".join(server.log)


def test_a_digest_forces_and_resets_the_breaker_that_servers_decide_together(store, serve):
    servers = [start(serve, CONFIG.format(url=store.url).replace("denials.jsonl", f"{n}.jsonl")) for n in range(2)]
    until(lambda: len({digest_of(server) for server in servers}) == 1, "the secret")
    digest = digest_of(servers[0])
    for change, of in ((lambda: servers[0].post("/v1/reset", {"limit": "up", "key": digest}), servers),
                       (lambda: servers[1].post("/v1/breaker", {"limit": "up", "key": digest, "state": "closed"}), servers[1:])):
        until(lambda: all(ask(server, "j").status == 200 for server in servers), "closed breakers")
        permit = ask(servers[0], "j").json["permit"]
        assert servers[1].post("/v1/report", {"permit": permit, "outcome": "failure"}).status == 200
        for server in servers:
            until(lambda server=server: ask(server, "j").status == 503, "the decision of the servers")
            assert phases(server) == {digest: "open"}
        assert change().status == 200
        for server in of:
            until(lambda server=server: ask(server, "j").status == 200, "it to pass")
            assert set(phases(server)) <= {digest}
    assert phases(servers[1]) == {digest: "forced_closed"}
    for server in servers:
        assert "s3cret" not in server.get("/v1/limits").text + server.get("/v1/status").text + "".join(server.log)


def test_the_secret_of_digests_is_remembered(store, serve, tmp_path):
    config = CONFIG.format(url=store.url)
    path = tmp_path / "denials.jsonl.redis-secret"
    server = start(serve, config)
    until(path.exists, "the file")
    digest, first = digest_of(server), path.read_text()
    assert [ask(server, "c").status for _ in range(3)] == [200, 429, 429]
    before = server.get("/v1/denials?key=s3cret").json
    assert len(before) == 2 and {denial["key"] for denial in before} == {digest}
    assert store.secret() and store.secret() != first.strip()
    store.move()
    until(lambda: ask(server, "c").status == 429, "the new place of the data")
    assert server.stop() == 0
    with store.hung():
        server = serve("--threads", "1", config=config)
        assert digest_of(server) == digest
        assert server.get("/v1/denials?key=s3cret").json[-2:] == before
    until(lambda: is_ready(server), "the store")
    assert digest_of(server) == digest and path.read_text() == first
    assert server.stop() == 0
    store.forget()  # another secret takes the place of the first
    server = start(serve, config)
    until(lambda: path.read_text() != first, "the other secret")
    assert digest_of(server) != digest
    assert server.get("/v1/denials?key=s3cret").json[-2:] == before
