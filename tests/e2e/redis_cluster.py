"""Starts real Redis clusters, whose slots tests can move and whose masters they can kill."""

import subprocess

import redis
from harness import PATIENCE, until
from redis_servers import RedisServer

SLOTS = 16384
# Milliseconds without an answer until a master counts as dead; long, as machines may be busy.
NODE_TIMEOUT = 4000


class RedisCluster:
    """Masters and their replicas on free ports. If a master dies, other slots stay available."""

    def __init__(self, directory, masters=3, replicas=1, program="redis"):
        self.directory = directory
        self.program = program
        self.nodes = []
        try:
            for _ in range(masters * (1 + replicas)):
                self._start()
            self._join(replicas)
        except BaseException:
            self.stop()
            raise

    def _start(self):
        self.nodes.append(RedisServer(
            self.directory / f"node-{len(self.nodes)}", "--cluster-enabled", "yes",
            "--cluster-node-timeout", NODE_TIMEOUT, "--cluster-require-full-coverage", "no",
            "--cluster-replica-validity-factor", 0, "--repl-diskless-sync-delay", 0,
            program=self.program))

    def _join(self, replicas):
        self._cli("create", *(self.address(node) for node in self.nodes),
                  "--cluster-replicas", replicas, "--cluster-yes")
        self._wait_until_settled()

    def _wait_until_settled(self):
        until(lambda: all(self._is_settled(node) for node in self.nodes), "the cluster to be whole")

    @staticmethod
    def _cli(*words):
        done = subprocess.run(["redis-cli", "--cluster", *map(str, words)], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def address(node):
        return f"127.0.0.1:{node.port}"

    def _is_settled(self, node):
        info = node.client.execute_command("CLUSTER INFO")
        role = node.client.info("replication")
        return (info["cluster_state"] == "ok" and len(self.map_of(node)) == len(self.nodes) and
                self._is_replicated(role))

    @staticmethod
    def _is_replicated(role):
        """A replica may have its first data while its master still waits for the acknowledgement."""
        if role["role"] != "master":
            return role["master_link_status"] == "up"
        return all(role[f"slave{n}"]["state"] == "online" for n in range(role["connected_slaves"]))

    @staticmethod
    def map_of(node):
        """All nodes as one node knows them: {"127.0.0.1:7000": {"flags": "myself,master", …}, …}."""
        return node.client.execute_command("CLUSTER NODES")

    @property
    def url(self):
        return "redis-cluster://" + ",".join(self.address(node) for node in self.nodes)

    def living(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def masters(self):
        return [node for node in self.living() if node.client.info("replication")["role"] == "master"]

    def replica_of(self, master):
        return next(node for node in self.living()
                    if node.client.info("replication").get("master_port") == master.port)

    def slot_of(self, name):
        return self.living()[0].client.execute_command("CLUSTER KEYSLOT", name)

    def slots_of(self, master):
        """The slots of a master as it knows them itself."""
        mine = next(one for one in self.map_of(master).values() if "myself" in one["flags"])
        return [slot for part in mine["slots"] for slot in range(int(part[0]), int(part[-1]) + 1)]

    def owner_of(self, slot):
        return next(node for node in self.masters() if slot in self.slots_of(node))

    def id_of(self, node):
        return node.client.execute_command("CLUSTER MYID")

    def begin_move(self, slot, target):
        """Begins to move a slot: the source answers ASK with the target for keys that it does not have."""
        source = self.owner_of(slot)
        target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot, source, target, most=10):
        """Moves at most `most` keys of the slot; returns how many."""
        names = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, most)
        if names:
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 1000 * PATIENCE,
                                          "KEYS", *names)
        return len(names)

    def end_move(self, slot, source, target):
        while self.move_keys(slot, source, target):
            pass
        for node in (target, source):
            node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", self.id_of(target))

    def move_slot(self, slot, target):
        self.end_move(slot, self.begin_move(slot, target), target)

    def reshard(self, source, target, slots):
        """Moves slots by redis-cli, as an operator does."""
        self._cli("reshard", self.address(source), "--cluster-from", self.id_of(source),
                  "--cluster-to", self.id_of(target), "--cluster-slots", slots, "--cluster-yes")

    def add(self):
        """Adds a master without slots."""
        known = self.address(self.nodes[0])
        self._start()
        self._cli("add-node", self.address(self.nodes[-1]), known)
        self._wait_until_settled()
        return self.nodes[-1]

    def remove(self, node):
        """Removes a master without slots."""
        self.nodes.remove(node)
        self._cli("del-node", self.address(self.nodes[0]), self.id_of(node))
        node.stop()

    def wait_for_new_master(self, replica):
        """After the death of a master, waits until all living nodes know that `replica` was promoted."""
        address = self.address(replica)

        def promoted():
            return all("master" in self.map_of(node)[address]["flags"] and self.map_of(node)[address]["slots"]
                       for node in self.living())

        until(promoted, "the replica to be promoted")

    def client(self):
        """A client of redis-py, which finds the nodes of keys by itself."""
        return redis.RedisCluster("127.0.0.1", self.living()[0].port, decode_responses=True)

    def stop(self):
        for node in self.nodes:
            node.stop()
