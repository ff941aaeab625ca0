import itertools
import os
import zlib

import pytest
from redis_callers import Library, Served
from harness import BUILD, CONFIG, SANITIZED, Server
from redis_cluster import RedisCluster
from redis_servers import RedisServer
from redis_tls import make_certificates


MOST_BLOCKS = 200 * 2**20 // 512  # 200 MB per file


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: needs a machine that does nothing else")
    config.addinivalue_line("markers", "first: takes longest, so begun first")


# With how many values a form with a sanitizer runs a test that is repeated for each of a list: mostly
# the same code runs for all of them, and the plain form sees what each of them changes.
MOST_VALUES = int(os.environ.get("WEIR_TEST_VALUES", "1"))


def is_left_out(item):
    return any(mark.args[:1] == (True,) for mark in item.iter_markers("skipif"))


def spread(items, count):
    """At most `count` of the items, at equal distances. The name of the test says where they begin, so that
    tests with the same list run with different values of it."""
    if len(items) <= count:
        return items
    begin = zlib.crc32(items[0].name.partition("[")[0].encode())
    return [items[(begin + i * len(items) // count) % len(items)] for i in range(count)]


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
    if BUILD.name not in SANITIZED:
        return
    of_function = {}
    for item in items:
        if not is_left_out(item):
            of_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    run = {item for alike in of_function.values() for item in spread(alike, MOST_VALUES)}
    config.hook.pytest_deselected(items=[item for item in items if item not in run])
    items[:] = [item for item in items if item in run]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Fails a test that leaves a file of more than MOST_BLOCKS."""
    yield
    if directory := item.funcargs.get("tmp_path"):
        large = [path for path in directory.iterdir() if path.is_file() and path.stat().st_blocks > MOST_BLOCKS]
        assert not large, f"{large}: give its server a --capacity"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server for all tests that only need keys of their own. All of them must leave it running."""
    server = Server(config=CONFIG, directory=tmp_path_factory.mktemp("server"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


@pytest.fixture
def serve(tmp_path):
    """A function that starts servers for one test; each must stop cleanly."""
    started = []

    def start(*flags, config=CONFIG, **more):
        started.append(Server(*flags, config=config, directory=tmp_path, **more))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            assert server.stop() == 0


@pytest.fixture
def start_redis(tmp_path):
    """A function that starts Redis servers for one test; they end with it."""
    started = []

    def start(*options, **more):
        started.append(RedisServer(tmp_path / f"redis-{len(started)}", *options, **more))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(params=["server", "library"])
def start_caller(request, serve):
    """A function that starts a caller of the Redis at a URL (redis_callers.py)."""
    started = []

    def start(url, words=(), **more):
        started.append(Served(serve, url, words, **more) if request.param == "server"
                       else Library(url, words, **more))
        return started[-1]

    yield start
    for asker in started:
        asker.stop()


@pytest.fixture
def start_redis_cluster(tmp_path):
    """A function that starts Redis clusters for one test; they end with it."""
    started = []

    def start(**more):
        started.append(RedisCluster(tmp_path / f"cluster-{len(started)}", **more))
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory):
    """One cluster for all tests that may move slots, but kill no node."""
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A directory with certificates (redis_tls.py)."""
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


# A sanitizer sees no difference between them. The oldest Redis has tests of its own.
@pytest.fixture(scope="session",
                params=["redis"] if BUILD.name in SANITIZED else ["redis", "valkey"])
def shared_redis(request, tmp_path_factory):
    """A Redis and a Valkey for all tests that only need keys of their own."""
    server = RedisServer(tmp_path_factory.mktemp(request.param), program=request.param)
    yield server
    server.stop()


@pytest.fixture(params=["memory", "redis"])
def at(request):
    """The beginning of a configuration whose limits count in memory, then of one whose limits count at Redis."""
    if request.param == "memory":
        return ""
    url = request.getfixturevalue("start_redis")().url
    # The timeout is long, as machines may be busy.
    return f"store: {url}\nstore_timeout: 10s\n"


_numbers = itertools.count()


@pytest.fixture
def key():
    """A key that no other test uses."""
    return f"key-{next(_numbers)}"
