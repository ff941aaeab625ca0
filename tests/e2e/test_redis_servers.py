"""The test helper for Redis servers keeps data, loses data, hangs and counts calls as its users expect."""

import pytest
import redis
from harness import little_of_ours
from redis_servers import PROGRAMS

pytestmark = little_of_ours


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_durable_server_keeps_what_it_acknowledged_over_a_kill(start_redis, program):
    server = start_redis(program=program, durable=True)
    port = server.port
    server.client.set("key", "value")
    server.restart()
    assert server.client.get("key") == "value"
    assert server.port == port


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_that_loads_for_long_is_waited_for(start_redis, program):
    # While it loads, it handles clients at every 1,024th command.
    server = start_redis("--key-load-delay", 50, program=program, durable=True)
    with server.client.pipeline(transaction=False) as pipeline:
        for n in range(10000):
            pipeline.set("key", n)
        pipeline.execute()
    server.restart()
    assert server.client.get("key") == "9999"


def test_a_server_without_durable_restarts_empty(start_redis):
    server = start_redis()
    server.client.set("key", "value")
    server.restart()
    assert server.client.get("key") is None


def test_a_server_hangs_and_resumes(start_redis):
    server = start_redis()
    with server.hung(), redis.Redis(port=server.port, socket_timeout=0.05, retry=None) as client:
        with pytest.raises(redis.TimeoutError):
            client.ping()
    assert server.client.ping()


def test_all_clients_are_disconnected_except_the_tests_own(start_redis):
    server = start_redis()
    with redis.Redis(port=server.port, retry=None) as client:
        other = client.connection_pool.get_connection()
        server.cut_clients()
        with pytest.raises(redis.ConnectionError):
            other.read_response()
        assert server.client.ping()


def test_a_server_counts_its_commands(shared_redis, key):
    before = shared_redis.calls().get("set", 0)
    spent = shared_redis.cpu_seconds()
    shared_redis.client.set(key, "v" * 100)
    assert shared_redis.calls()["set"] == before + 1
    assert shared_redis.cpu_seconds() > spent
    assert 100 < shared_redis.bytes_of(key) < 300


def test_options_and_a_password_are_applied(start_redis):
    server = start_redis("--requirepass", "secret", "--maxmemory", "100mb")
    assert server.client.config_get("maxmemory") == {"maxmemory": "104857600"}
