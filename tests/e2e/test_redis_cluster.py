"""Servers of Weir on a real Redis Cluster, whose slots are moved under load and whose masters are killed."""

import binascii
import collections
import itertools
import threading

import pytest
import redis
from harness import Wire, encode, metric, until

pytestmark = pytest.mark.first

# With the policy `closed` a failed call is visible and grants nothing.
CONFIG = """
store: {url}
store_timeout: {timeout}
denied_cache: 0s
limits:
  one: {{ algorithm: token_bucket, rate: 10/d, burst: 10, on_store_failure: closed }}
  wide: {{ algorithm: sliding_log, rate: 12/d, on_store_failure: closed }}
  drip: {{ algorithm: leaky_bucket, rate: 12/d, capacity: 12, on_store_failure: closed }}
  day: {{ algorithm: fixed_window, rate: 1000/d, align: first_request, on_store_failure: closed }}
  many: {{ algorithm: fixed_window, rate: 300/d, align: first_request, on_store_failure: closed }}
  plenty: {{ algorithm: fixed_window, rate: 1000000000/d, align: first_request, on_store_failure: closed }}
  few: {{ algorithm: fixed_window, rate: 3/d, align: first_request, on_store_failure: closed }}
rules:
  - match: {{ path: /together }}
    key: [ip]
    limits: [one, drip, day]
  - match: {{ path: /apart }}
    key: [ip]
    limits: [one]
  - match: {{ path: /apart }}
    key: [user]
    limits: [few]
"""
# Longer than a busy machine delays Redis, so that only a test can cause a timeout.
PATIENT = "30s"


def config(url, timeout=PATIENT):
    return CONFIG.format(url=url, timeout=timeout)


def slot_of(key):
    return binascii.crc_hqx(key.encode(), 0) % 16384


def keys_at(slot, key, n):
    """`n` keys in a slot, made from the test's own key."""
    names = (f"{key}-{number}" for number in itertools.count())
    return list(itertools.islice((name for name in names if slot_of(name) == slot), n))


def key_of(cluster, master, key):
    """A key that a master serves."""
    return keys_at(cluster.slots_of(master)[0], key, 1)[0]


PAUSE_S = 0.001  # so that the clients leave CPU time to the servers


class Load:
    """Clients that acquire repeatedly, each at one server, for each key in turn."""

    def __init__(self, servers, keys, limit="one"):
        self.allowed, self.reasons = collections.Counter(), collections.Counter()
        self._commands = b"".join(encode("WEIR.ACQUIRE", limit, key) for key in keys)
        self._keys = keys
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors = []
        self.rounds = 0
        self._threads = [threading.Thread(target=self._run, args=(server,)) for server in servers]

    def _run(self, server):
        try:
            with Wire(server.resp) as wire:
                while not self._stop.wait(PAUSE_S):
                    wire.send(self._commands)
                    replies = [wire.reply() for _ in self._keys]
                    with self._lock:
                        self.rounds += 1
                        for key, reply in zip(self._keys, replies):
                            self.allowed[key] += reply[0]
                            self.reasons[reply[5].decode()] += 1
        except BaseException as error:  # pylint: disable=broad-except
            self._errors.append(error)
            raise

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    def go_on(self, rounds=3):
        """Waits for `rounds` more rounds of each client."""
        target = self.rounds + rounds * len(self._threads)
        until(lambda: self.rounds >= target or self._errors, "clients to go on")


def take_all(server, key, limit="one", most=100):
    """Acquires until a request is denied: (number granted, reason of the last)."""
    with Wire(server.resp) as wire:
        for n in range(most):
            reply = wire.command("WEIR.ACQUIRE", limit, key)
            if not reply[0]:
                return n, reply[5].decode()
    raise AssertionError(f"{most} were granted")


def serves(server, key):
    """Whether Redis decides a key."""
    with Wire(server.resp) as wire:
        return wire.command("WEIR.PEEK", "one", key)[5] != b"store_failure"


@pytest.mark.parametrize("limit,quota", [("one", 10), ("wide", 12)])
def test_servers_grant_the_limit_of_each_key_at_each_node(serve, redis_cluster, key, limit, quota):
    servers = [serve(config=config(redis_cluster.url)) for _ in range(2)]
    keys = [f"{key}-{number}" for number in range(200)]
    with Load(servers, keys, limit) as load:
        load.go_on(quota)
    assert load.allowed == dict.fromkeys(keys, quota)
    assert set(load.reasons) == {"ok", "over_limit"}
    names = [[name for name in node.client.scan_iter(match=f"weir:*{key}-*", count=10000)]
             for node in redis_cluster.masters()]
    assert all(names) and sum(map(len, names)) == len(keys)


def test_one_node_in_the_url_is_enough_to_find_the_cluster(serve, redis_cluster, key):
    server = serve(config=config(f"redis-cluster://127.0.0.1:{redis_cluster.nodes[-1].port}"))
    for master in redis_cluster.masters():
        assert take_all(server, key_of(redis_cluster, master, key)) == (10, "over_limit")


def test_limits_of_one_key_are_one_call(serve, redis_cluster, key):
    server = serve(config=config(redis_cluster.url))
    with Wire(server.resp) as wire:
        def check():
            return wire.command("WEIR.CHECK", "path", "/together", "ip", key)

        assert [check()[0] for _ in range(3)] == [1, 1, 1]  # this loads the scripts
        before = sum(node.calls().get("evalsha", 0) for node in redis_cluster.masters())
        assert [check()[0] for _ in range(9)] == [1] * 7 + [0] * 2
        after = sum(node.calls().get("evalsha", 0) for node in redis_cluster.masters())
        assert after - before == 9
        # A denial by the first limit consumed nothing of the others.
        assert wire.command("WEIR.PEEK", "drip", key)[2] == 12 - 10
        assert wire.command("WEIR.PEEK", "day", key)[2] == 1000 - 10


def test_a_denial_refunds_limits_with_keys_on_another_node(serve, redis_cluster, key):
    server = serve(config=config(redis_cluster.url))
    one, other = redis_cluster.masters()[:2]
    ip, user = key_of(redis_cluster, one, key), key_of(redis_cluster, other, key)
    with Wire(server.resp) as wire:
        replies = [wire.command("WEIR.CHECK", "path", "/apart", "ip", ip, "user", user)
                   for _ in range(8)]
        assert [reply[0] for reply in replies] == [1] * 3 + [0] * 5
        assert wire.command("WEIR.PEEK", "one", ip)[2] == 10 - 3
        assert wire.command("WEIR.PEEK", "few", user)[2] == 0


def test_a_permit_of_keys_on_two_nodes_is_refunded_once(serve, redis_cluster, key):
    """Any server refunds each charge at the node of its key."""
    servers = [serve(config=config(redis_cluster.url)) for _ in range(2)]
    one, other = redis_cluster.masters()[:2]
    ip, user = key_of(redis_cluster, one, key), key_of(redis_cluster, other, key)
    attributes = {"path": "/apart", "ip": ip, "user": user}

    def acquire():
        return servers[0].post("/v1/acquire", {"attributes": attributes, "permit": True}).json

    def left():
        with Wire(servers[1].resp) as wire:
            return wire.command("WEIR.PEEK", "one", ip)[2], wire.command("WEIR.PEEK", "few", user)[2]

    def refund(server, permit):
        return server.post("/v1/refund", {"permit": permit})

    def is_read_by_both():
        permit = acquire()["permit"]
        return [refund(server, permit).status for server in servers] == [200, 200]

    until(is_read_by_both, "the secret from Redis")
    before = left()
    permit = acquire()["permit"]
    assert left() == (before[0] - 1, before[1] - 1)
    assert [refund(server, permit).json["allowed"] for server in [*reversed(servers), servers[1]]] == [
        True, False, False]
    assert left() == before
    for node, name in ((one, f"weir:{{{ip}}}:one:spent:*"), (other, f"weir:{{{user}}}:few:spent:*")):
        assert list(node.client.scan_iter(match=name, count=10000))


def test_slots_that_move_under_load_keep_their_counts(serve, redis_cluster, key):
    servers = [serve(config=config(redis_cluster.url)) for _ in range(2)]
    masters = redis_cluster.masters()
    slot = redis_cluster.slots_of(masters[0])[0]
    many = keys_at(slot, key, 60)
    early, late = many[:30], many[30:]  # `late` keys are new while the slot moves
    apart = [f"{key}-apart-{number}" for number in range(100)]
    with Load(servers, early + apart) as load:
        load.go_on(1)
        source = redis_cluster.begin_move(slot, masters[1])
        with Load(servers, late) as second:
            second.go_on(1)
            redis_cluster.move_keys(slot, source, masters[1], 15)
            load.go_on()
            second.go_on()
            redis_cluster.end_move(slot, source, masters[1])
            load.go_on()
            second.go_on(10)
        redis_cluster.move_slot(slot, masters[2])
        load.go_on(10)
    assert load.allowed == dict.fromkeys(early + apart, 10)
    assert second.allowed == dict.fromkeys(late, 10)
    assert set(load.reasons) | set(second.reasons) == {"ok", "over_limit"}
    assert redis_cluster.owner_of(slot) is masters[2]


def test_resharding_by_redis_cli_changes_no_decision(serve, redis_cluster, key):
    servers = [serve(config=config(redis_cluster.url)) for _ in range(2)]
    source, target = redis_cluster.masters()[:2]
    keys = [f"{key}-{number}" for number in range(1000)]
    moving = set(redis_cluster.slots_of(source)[:50])
    assert any(slot_of(name) in moving for name in keys)
    with Load(servers, keys) as load:
        load.go_on(1)
        redis_cluster.reshard(source, target, 50)
        load.go_on(10)
    assert load.allowed == dict.fromkeys(keys, 10)
    assert set(load.reasons) == {"ok", "over_limit"}


def test_limits_of_one_key_stay_together_while_its_slot_moves(serve, redis_cluster, key):
    server = serve(config=config(redis_cluster.url, "60s"))
    source, target = redis_cluster.masters()[:2]
    slot = redis_cluster.slots_of(source)[0]
    old, new = keys_at(slot, key, 2)

    def check(ip):
        return encode("WEIR.CHECK", "path", "/together", "ip", ip)

    def refusals(node):
        return node.client.info("errorstats").get("errorstat_TRYAGAIN", {"count": 0})["count"]

    with Wire(server.resp) as wire:
        wire.send(check(old))
        assert wire.reply()[0] == 1
        redis_cluster.begin_move(slot, target)
        # All keys of this slot are still at the source.
        wire.send(check(old))
        assert wire.reply()[0] == 1
        # One key is at the target and two at the source, and another does not exist yet.
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, f"weir:{{{old}}}:one", 0,
                                      60000)
        before = refusals(source), refusals(target)
        wire.send(check(old) + check(new))
        until(lambda: refusals(source) > before[0] and refusals(target) > before[1],
              "both nodes to refuse")
        redis_cluster.end_move(slot, source, target)
        assert [wire.reply()[0] for _ in range(2)] == [1, 1]
        for limit, quota in (("one", 10), ("drip", 12), ("day", 1000)):
            assert wire.command("WEIR.PEEK", limit, old)[2] == quota - 3
            assert wire.command("WEIR.PEEK", limit, new)[2] == quota - 1


def test_a_node_that_hangs_delays_its_own_keys_only(serve, start_redis_cluster):
    cluster = start_redis_cluster(replicas=0)
    hanging, *others = cluster.masters()
    server = serve(config=config(cluster.url, "3s"))
    key = key_of(cluster, hanging, "k")
    kept = [key_of(cluster, other, "k") for other in others]
    with Load([server], [key, *kept], "plenty") as load:
        load.go_on(1)
        with hanging.hung():
            until(lambda: load.reasons["store_failure"] > 20, "the node to be away")
        until(lambda: serves(server, key), "the node to be back")
    assert load.reasons["store_failure"] == load.rounds - load.allowed[key]
    assert [load.allowed[name] for name in kept] == [load.rounds] * 2


def test_nodes_can_join_and_leave(serve, start_redis_cluster):
    cluster = start_redis_cluster(replicas=0)
    home = cluster.masters()[0]
    guest = cluster.add()
    cluster.reshard(home, guest, 20)
    keys = [*keys_at(cluster.slots_of(guest)[0], "guest", 5), *(f"any-{n}" for n in range(100))]
    # The URL contains only the node that leaves.
    server = serve(config=config(f"redis-cluster://127.0.0.1:{guest.port}"))
    with Load([server], keys) as load:
        load.go_on(1)
        cluster.reshard(guest, home, 20)
        load.go_on(3)
        cluster.remove(guest)
        load.go_on(10)
    assert load.allowed == dict.fromkeys(keys, 10)
    assert set(load.reasons) == {"ok", "over_limit"}
    assert metric(server, "weir_store_up{store=.*}") == 1
    assert not [line for line in server.log if "store_away" in line]


def test_slots_of_a_dead_master_are_denied_until_its_replica_takes_over(
        serve, start_redis_cluster):
    cluster = start_redis_cluster()
    dying, *others = cluster.masters()
    replica = cluster.replica_of(dying)
    # The URL contains only the node that dies.
    dead = f"redis-cluster://127.0.0.1:{dying.port}"
    server = serve(config=config(dead))
    lost = keys_at(cluster.slots_of(dying)[0], "k", 4)
    kept = keys_at(cluster.slots_of(others[0])[0], "k", 15) + keys_at(cluster.slots_of(others[1])[0], "k", 15)
    with Wire(server.resp) as wire:
        for name in (*lost, *kept):
            assert wire.command("WEIR.ACQUIRE", "one", name)[0] == 1
    dying.pass_on(lost[0])
    dying.stop()
    assert take_all(server, lost[0]) == (0, "store_failure")
    # A server that starts now tries the dead node first, then the next.
    late = serve(config=config(f"{dead},127.0.0.1:{others[0].port}"))
    until(lambda: serves(late, kept[0]), "the other node to be asked")
    for name in kept[::2]:
        assert take_all(server, name) == (9, "over_limit")
    cluster.wait_for_new_master(replica)
    until(lambda: serves(server, lost[0]), "the replica to be asked")
    for name in lost:
        assert take_all(server, name) == (9, "over_limit")
    for name in kept[1::2]:
        assert take_all(server, name) == (9, "over_limit")


def replicated_use(replica, keys):
    """{key: units of `many` that a dead master replicated before it died}"""
    with redis.Redis(port=replica.port, decode_responses=True, single_connection_client=True) as client:
        until(lambda: client.info("replication")["master_link_status"] == "down", "all to be read")
        client.readonly()
        return {key: int((client.get(f"weir:{{{key}}}:many") or "0")[-10:]) for key in keys}


def test_a_master_that_dies_under_load_loses_only_grants_that_were_not_replicated(
        serve, start_redis_cluster):
    cluster = start_redis_cluster()
    dying = cluster.masters()[0]
    replica = cluster.replica_of(dying)
    servers = [serve(config=config(cluster.url)) for _ in range(2)]
    lost = keys_at(cluster.slots_of(dying)[0], "k", 10)
    keys = lost + [f"any-{number}" for number in range(50)]
    slots = set(cluster.slots_of(dying))
    dying.pass_on(lost[0])  # after this the replica follows the master
    with Load(servers, keys, "many") as load:
        load.go_on(10)
        dying.stop()
        replicated = replicated_use(replica, [key for key in keys if slot_of(key) in slots])
        load.go_on(2)  # until the last answers of the dead master are counted
        granted = load.allowed.copy()
        cluster.wait_for_new_master(replica)
        until(lambda: all(serves(server, lost[0]) for server in servers), "the replica to be asked")
        load.go_on(400)
    for key, allowed in load.allowed.items():
        # A server may have missed the last answer of the dead master.
        assert 300 - len(servers) <= allowed <= 300 + max(0, granted[key] - replicated.get(key, 300))
    assert load.reasons["store_failure"] > 0
    assert [take_all(server, key, "many") for server in servers for key in keys] == [
        (0, "over_limit")] * len(keys) * 2


def test_a_lagging_replica_forgets_only_grants_that_were_not_replicated(serve, start_redis_cluster):
    cluster = start_redis_cluster()
    master = cluster.masters()[0]
    replica = cluster.replica_of(master)
    server = serve(config=config(cluster.url))
    key = key_of(cluster, master, "k")
    with Wire(server.resp) as wire:
        assert [wire.command("WEIR.ACQUIRE", "one", key)[0] for _ in range(6)] == [1] * 6
        master.pass_on(key)
        replica.hang()
        # Otherwise the kernel would buffer data for the stopped replica.
        master.client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        assert [wire.command("WEIR.ACQUIRE", "one", key)[0] for _ in range(5)] == [1] * 4 + [0]
    master.stop()
    replica.go_on()
    cluster.wait_for_new_master(replica)
    until(lambda: serves(server, key), "the replica to be asked")
    assert take_all(server, key) == (4, "over_limit")
