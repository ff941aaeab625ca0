"""Redis on another machine, with a network that is cut or loses packets."""

import contextlib

import pytest
import redis
from harness import Wire, encode, until
from network_namespaces import Network


@pytest.fixture
def network():
    network = Network()
    yield network
    network.close()


@pytest.fixture
def far_redis(network, start_redis):
    """A Redis on a machine of its own, which the test can reach."""
    machine = network.machine()
    with machine.here():
        server = start_redis("--bind", "0.0.0.0", "--protected-mode", "no")
    server.machine = machine
    return server


def hears(client):
    with contextlib.suppress(redis.TimeoutError):
        return client.ping()
    return False


def test_a_network_is_cut_and_heals(network, far_redis):
    """Shows that the helper can cut the network."""
    near = network.machine()
    with near.here(), redis.Redis(far_redis.machine.address, far_redis.port, retry=None,
                                  socket_timeout=0.1) as client:
        until(lambda: hears(client), "the network")
        network.cut(near)
        assert not hears(client)
        network.heal(near)
        until(lambda: hears(client), "the network to heal")
        network.lose_to(near)
        with pytest.raises(redis.TimeoutError):
            client.incr("heard")
    with far_redis.machine.here():
        until(lambda: far_redis.client.get("heard") == "1", "the command to be carried out")


CONFIG = """
store: redis://{address}:{port}
store_timeout: 5s
denied_cache: 0s
nodes: 2
limits:
  shut: {{ algorithm: token_bucket, rate: 30/d, burst: 30, on_store_failure: closed }}
  wide: {{ algorithm: token_bucket, rate: 30/d, burst: 30, on_store_failure: open }}
  part: {{ algorithm: token_bucket, rate: 30/d, burst: 30, on_store_failure: local }}
  mine: {{ algorithm: token_bucket, rate: 30/d, burst: 30, store: memory }}
"""


class Site:
    """A machine with a server of Weir and its client."""

    def __init__(self, network, serve, far_redis):
        self.machine = network.machine()
        with self.machine.here():
            # With one thread there is one connection, which the test uses before it cuts the network.
            self.server = serve("--threads", "1", config=CONFIG.format(
                address=far_redis.machine.address, port=far_redis.port))

    def ask(self, limit, key, n=1, command="WEIR.ACQUIRE"):
        """(number granted of n requests, reason of the last)"""
        with self.machine.here(), Wire(self.server.resp) as wire:
            wire.send(encode(command, limit, key) * n)
            replies = [wire.reply() for _ in range(n)]
        return sum(reply[0] for reply in replies), replies[-1][5].decode()

    def reaches(self, key):
        return self.ask("shut", key, command="WEIR.PEEK")[1] != "store_failure"


@pytest.fixture
def sites(network, serve, far_redis):
    return [Site(network, serve, far_redis) for _ in range(2)]


def test_a_server_that_is_cut_off_decides_by_policy_and_recovers(network, sites, key):
    one, other = sites
    for limit in ("shut", "wide", "part", "mine"):
        assert [site.ask(limit, key, 5) for site in sites] == [(5, "ok")] * 2
    network.cut(one.machine)
    assert one.ask("shut", key) == (0, "store_failure")
    assert one.ask("shut", key, 100) == (0, "store_failure")
    assert one.ask("wide", key, 100)[0] == 100
    assert one.ask("part", key, 100)[0] == 15
    assert one.ask("mine", key, 100) == (25, "over_limit")
    assert [other.ask(limit, key, 5) for limit in ("shut", "wide", "part")] == [(5, "ok")] * 3
    network.heal(one.machine)
    until(lambda: one.reaches(key), "the server to come back")
    granted = [site.ask(limit, key, 30)[0] for limit in ("shut", "wide", "part") for site in sites]
    # The request during the cut may have consumed a unit later without a grant.
    assert 14 <= sum(granted[:2]) <= 15 and granted[2:] == [15, 0, 15, 0]
    assert one.ask("shut", key) == (0, "over_limit")


def test_lost_answers_of_redis_grant_nothing(network, far_redis, sites, key):
    one, other = sites
    assert [site.ask("shut", key, 5) for site in sites] == [(5, "ok")] * 2
    network.lose_from(far_redis.machine)
    # Redis executes the calls, but its answers are lost.
    assert one.ask("shut", key, 3) == (0, "store_failure")
    assert one.ask("shut", key, 100) == (0, "store_failure")
    network.heal(far_redis.machine)
    until(lambda: one.reaches(key) and other.reaches(key), "both servers to come back")
    assert sum(site.ask("shut", key, 30)[0] for site in sites) == 20 - 3
