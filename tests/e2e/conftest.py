import itertools

import pytest
from redis_callers import Library, Served
from harness import BUILD, CONFIG, SANITIZED, Server
from redis_cluster import RedisCluster
from redis_servers import RedisServer
from redis_tls import make_papers


MOST_BLOCKS = 200 * 2**20 // 512  # 200 MB in a file


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: needs a machine that does nothing else")
    config.addinivalue_line("markers", "first: takes longest, so begun first")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Also fails a test that fills the disk."""
    yield
    if directory := item.funcargs.get("tmp_path"):
        large = [path for path in directory.iterdir() if path.is_file() and path.stat().st_blocks > MOST_BLOCKS]
        assert not large, f"{large}: give its server a --capacity"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server for all who only need keys of their own. It must survive them all."""
    server = Server(config=CONFIG, directory=tmp_path_factory.mktemp("server"))
    yield server
    assert server.process.poll() is None, f"died: {server.log}"
    assert server.stop() == 0


@pytest.fixture
def serve(tmp_path):
    """Starts servers of the test's own; each must stop cleanly."""
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
    """Starts Redis servers of the test's own, and ends them whatever becomes of it."""
    started = []

    def start(*options, **more):
        started.append(RedisServer(tmp_path / f"redis-{len(started)}", *options, **more))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(params=["server", "library"])
def asks(request, serve):
    """Starts what asks the Redis at a URL: redis_callers.py."""
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
    """The same of clusters."""
    started = []

    def start(**more):
        started.append(RedisCluster(tmp_path / f"cluster-{len(started)}", **more))
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory):
    """One cluster for all who leave it whole: they may move slots, but kill nobody."""
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def papers(tmp_path_factory):
    """A directory with certificates (redis_tls.py)."""
    directory = tmp_path_factory.mktemp("papers")
    make_papers(directory)
    return directory


# To a sanitizer they are the same. The oldest has tests of its own.
@pytest.fixture(scope="session",
                params=["redis"] if BUILD.name in SANITIZED else ["redis", "valkey"])
def shared_redis(request, tmp_path_factory):
    """One server of both kinds, for all who only need keys of their own and disturb nobody."""
    server = RedisServer(tmp_path_factory.mktemp(request.param), program=request.param)
    yield server
    server.stop()


@pytest.fixture(params=["memory", "redis"])
def at(request):
    """What a configuration begins with whose limits are in memory, and then of one at Redis."""
    if request.param == "memory":
        return ""
    url = request.getfixturevalue("start_redis")().url
    # A busy machine is late, and what takes long is not the test's business.
    return f"store: {url}\nstore_timeout: 10s\n"


_numbers = itertools.count()


@pytest.fixture
def key():
    """A key that nobody else has."""
    return f"key-{next(_numbers)}"
