"""Redis on another machine, and the network between."""

import contextlib

import pytest
import redis
from harness import until
from namespaces import Network


@pytest.fixture
def network():
    network = Network()
    yield network
    network.close()


@pytest.fixture
def far_redis(network, start_redis):
    """On a machine of its own; the test reaches it there."""
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
    """The network that other tests rely on."""
    near = network.machine()
    with near.here(), redis.Redis(far_redis.machine.address, far_redis.port, retry=None,
                                  socket_timeout=0.1) as client:
        assert hears(client)
        network.cut(near)
        assert not hears(client)
        network.heal(near)
        until(lambda: hears(client), "the network to heal")
        network.lose_to(near)
        with pytest.raises(redis.TimeoutError):
            client.incr("heard")
    with far_redis.machine.here():
        assert far_redis.client.get("heard") == "1"
