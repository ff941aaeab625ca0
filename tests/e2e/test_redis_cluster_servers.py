"""The test helper for clusters can move slots and replace masters."""

import pytest
import redis
from harness import little_of_ours

pytestmark = little_of_ours


def test_a_slot_moves_with_its_keys_and_answers_ask_meanwhile(redis_cluster):
    slot = redis_cluster.slot_of("{moved}:1")
    source = redis_cluster.owner_of(slot)
    target = next(node for node in redis_cluster.masters() if node is not source)
    source.client.set("{moved}:1", "value")
    redis_cluster.begin_move(slot, target)
    with pytest.raises(redis.exceptions.AskError):
        source.client.execute_command("GET", "{moved}:2")
    redis_cluster.end_move(slot, source, target)
    assert redis_cluster.owner_of(slot) is target
    assert target.client.get("{moved}:1") == "value"
    with pytest.raises(redis.exceptions.MovedError):
        source.client.execute_command("GET", "{moved}:1")


@pytest.mark.parametrize("program", ["redis", "valkey"])
def test_a_replica_takes_over_from_a_master_that_dies(start_redis_cluster, program):
    cluster = start_redis_cluster(program=program)
    slot = cluster.slot_of("key")
    master = cluster.owner_of(slot)
    replica = cluster.replica_of(master)
    master.client.set("key", "value")
    assert master.client.wait(1, 10000) == 1
    master.stop()
    cluster.wait_for_new_master(replica)
    assert cluster.owner_of(slot) is replica
    assert replica.client.get("key") == "value"
