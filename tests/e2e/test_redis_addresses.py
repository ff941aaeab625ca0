"""A host name with several addresses, some of them dead, still leads servers and programs to Redis."""

import contextlib
import socket
import threading

import pytest
from redis_callers import until_reached
from harness import PATIENCE, Wire, encode, until
from host_names import Names
from network_namespaces import Network
from redis_servers import free_port
from redis_tls import tls_options

PASSWORD = "secret"
# The resolver sorts ::1 before this address and keeps its order with 127.0.0.2; 127.0.0.1 would be first.
ALIVE = "127.0.0.3"


@pytest.fixture
def names(tmp_path):
    return Names(tmp_path)


@pytest.fixture
def reach(start_caller, names):
    """A function that starts a caller of the Redis at a URL."""
    return lambda url: start_caller(url, names.words)


@contextlib.contextmanager
def refusing(address, port):
    yield


@contextlib.contextmanager
def swallowing(address, port):
    """A listener with a full queue: the kernel drops connection requests to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((address, port), family=family, backlog=0))
        for _ in range(8):
            client = stack.enter_context(socket.socket(family))
            client.setblocking(False)
            client.connect_ex((address, port))
        yield listener


@contextlib.contextmanager
def hanging(address, port):
    """Accepts connections, reads, and never answers."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kept = []
    with socket.create_server((address, port), family=family) as listener:
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for client in kept:
                client.close()


@pytest.mark.parametrize("dead", ["::1", "127.0.0.2"])
@pytest.mark.parametrize("kind", [refusing, swallowing, hanging])
def test_a_dead_address_does_not_block_the_others(start_redis, names, reach, dead, kind, key):
    redis = start_redis("--requirepass", PASSWORD, "--bind", "127.0.0.1", ALIVE)
    names.set(store=[dead, ALIVE])
    with kind(dead, redis.port):
        asker = reach(f"redis://:{PASSWORD}@store:{redis.port}")
        until_reached(asker)
        assert [asker.ask(key) for _ in range(3)] == [9, 8, 7]
        # From now on the address that worked is tried first.
        redis.cut_clients()
        until_reached(asker)
        assert asker.ask(key) == 6


@pytest.mark.parametrize("kind", [swallowing, hanging])
def test_a_dead_address_does_not_block_the_others_with_tls(start_redis, certificates, names, reach, kind, key):
    port = free_port()
    start_redis(*tls_options(certificates, port), "--requirepass", PASSWORD, "--bind", "127.0.0.1", ALIVE)
    names.set(store=["127.0.0.2", ALIVE])
    with kind("127.0.0.2", port):
        asker = reach(f"rediss://:{PASSWORD}@store:{port}?ca={certificates / 'right.pem'}")
        until_reached(asker)
        assert asker.ask(key) == 9


def test_a_dns_server_that_hangs_delays_neither_other_names_nor_the_exit(start_redis, serve, names, key):
    redis = start_redis()
    names.set(store=["127.0.0.1"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.9", 53))
        names.ask_dns("127.0.0.9")
        limits = "".join(f"  l{n}: {{ algorithm: token_bucket, rate: 1/h, store: 'redis://gone{n}' }}\n"
                         for n in range(9))
        server = serve("--threads", "1", account=names.words, config=(
            f"nodes: 2\nstore_timeout: 20s\nlimits:\n  one: {{ algorithm: token_bucket, rate: 9/h, "
            f"store: 'redis://store:{redis.port}', on_store_failure: closed }}\n{limits}"))
        with Wire(server.resp) as wire:
            for n in range(9):
                wire.send(encode("WEIR.ACQUIRE", f"l{n}", key))
            silent.settimeout(PATIENCE)
            silent.recv(512)
        with Wire(server.resp) as wire:
            until(lambda: wire.command("WEIR.ACQUIRE", "one", key)[0], "the name that is known")
        # A DNS query times out long after PATIENCE.
        assert server.stop() == 0


@pytest.fixture
def network():
    network = Network()
    yield network
    network.close()


def test_an_unreachable_host_does_not_block_the_other_address(network, start_redis, names, reach, key):
    far, dead, near = (network.machine() for _ in range(3))
    with far.here():
        redis = start_redis("--bind", "0.0.0.0", "--protected-mode", "no")
    network.cut(dead)
    names.set(store=[dead.address, far.address])
    with near.here():
        asker = reach(f"redis://store:{redis.port}")
        until_reached(asker)
        assert asker.ask(key) == 9


def test_a_name_is_followed_when_its_address_changes(network, start_redis, names, reach, key):
    first, second, near = (network.machine() for _ in range(3))
    with first.here():
        redis = start_redis("--bind", "0.0.0.0", "--protected-mode", "no")
    with second.here():
        start_redis("--bind", "0.0.0.0", "--protected-mode", "no", port=redis.port)
    names.set(store=[first.address])
    with near.here():
        asker = reach(f"redis://store:{redis.port}")
        until_reached(asker)
        assert [asker.ask(key) for _ in range(2)] == [9, 8]
        names.set(store=[second.address])
        redis.stop()
        until_reached(asker)
        assert asker.ask(key) == 9


def test_a_replica_does_not_block_the_master_of_the_same_name(network, start_redis, names, reach, key):
    first, second, near = (network.machine() for _ in range(3))
    options = ("--bind", "0.0.0.0", "--protected-mode", "no")
    with second.here():
        master = start_redis(*options, "--repl-diskless-sync-delay", 0)
    with first.here():
        replica = start_redis(*options, port=master.port)
        replica.client.replicaof(second.address, master.port)
        until(lambda: replica.client.info("replication")["master_link_status"] == "up", "the replica")
    names.set(store=[first.address, second.address])
    with near.here():
        asker = reach(f"redis://store:{master.port}")
        until_reached(asker)
        assert asker.ask(key) == 9
