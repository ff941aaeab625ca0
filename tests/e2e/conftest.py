import itertools

import pytest
from harness import CONFIG, Server


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


_numbers = itertools.count()


@pytest.fixture
def key():
    """A key that nobody else has."""
    return f"key-{next(_numbers)}"
