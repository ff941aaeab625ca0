"""The examples that are programs of their own."""

import re
import subprocess

import pytest
from harness import BUILD, PATIENCE, Http

# What a client that has used up its five is told to wait, at least and at most, in seconds.
ROUTES = {"/counter": (59, 60), "/sliding-window": (49, 60), "/token-bucket": (11, 12),
          "/leaky-bucket": (11, 12)}


@pytest.fixture
def port():
    process = subprocess.Popen([BUILD / "examples" / "handlers", "0"], stderr=subprocess.PIPE, text=True)
    yield int(re.fullmatch(r"listening: http 127.0.0.1:(\d+)\n", process.stderr.readline())[1])
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_each_route_passes_five_and_tells_the_sixth_when_to_come_back(port):
    with Http(port) as client:
        for route, (least, most) in ROUTES.items():
            texts = [client.request("GET", route).text for _ in range(5)]
            assert texts == [f"{left} of 5 left\n" for left in (4, 3, 2, 1, 0)]
            denied = client.request("GET", route)
            assert (denied.status, denied.text) == (429, "too many requests\n")
            assert least <= int(denied.headers["Retry-After"]) <= most
        assert client.request("GET", "/").status == 404
        assert client.request("DELETE", "/counter").status == 405
