"""Client libraries of several languages with their default settings get the same answers to one script."""

import json
import os
import subprocess

import pytest
import redis
from harness import BUILD, CONFIG, PATIENCE, ROOT, programs_of_others
from test_tls import certificates  # pylint: disable=unused-import
from test_users import ALL, user

pytestmark = programs_of_others

MADE = ROOT / "build" / "clients"
CLIENTS = {
    "hiredis": [BUILD / "tests" / "clients" / "hiredis"],
    "ioredis": ["node", MADE / "node" / "ioredis.js"],
    "iovalkey": ["node", MADE / "node" / "iovalkey.js"],
    "node-redis": ["node", MADE / "node" / "node-redis.js"],
    "node-redis RESP3": ["node", MADE / "node" / "node-redis.js", "3"],
    "go-redis": [MADE / "go", "go-redis"],
    "rueidis": [MADE / "go", "rueidis"],
    "phpredis": ["php", ROOT / "tests" / "clients" / "phpredis.php"],
}


class Client:
    """A program of tests/clients, with a key of its own."""

    def __init__(self, name, port, key, env):
        program, *rest = CLIENTS[name]
        arguments = [*rest[:1], port, key, *rest[1:]]
        self.process = subprocess.Popen(
            [str(word) for word in (program, *arguments)], text=True, env={**os.environ, **env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def read(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_the_same_answers_and_survives_a_restart(serve, name):
    again = answers_over_a_restart(serve, name, CONFIG)
    assert again == [1, 10, 9, 0, 360000, "ok", ""]


@pytest.mark.parametrize("name", ["go-redis", "ioredis"])
def test_a_client_sees_no_difference_when_counts_are_at_redis(serve, start_redis, name):
    """The one difference is that a restart forgets nothing."""
    at_redis = f"store: {start_redis().url}\nstore_timeout: 10s\n"
    again = answers_over_a_restart(serve, name, at_redis + CONFIG)
    assert again[:4] + again[5:] == [1, 10, 4, 0, "ok", ""]


@pytest.mark.parametrize("name", ["go-redis", "ioredis"])
def test_a_client_sees_no_difference_over_tls(serve, certificates, name):
    trusted = str(certificates / "right.pem")
    config = f"tls: {{ cert: {certificates}/server.pem, key: {certificates}/server.key }}\n{CONFIG}"
    again = answers_over_a_restart(serve, name, config, {"ssl": True, "ssl_ca_certs": trusted},
                                   {"WEIR_TLS": "1", "NODE_EXTRA_CA_CERTS": trusted, "SSL_CERT_FILE": trusted})
    assert again == [1, 10, 9, 0, 360000, "ok", ""]


@pytest.mark.parametrize("login", [{"username": "ops", "password": "pass: word"}, {"password": "weir_program"}],
                         ids=["name", "token"])
@pytest.mark.parametrize("name", ["go-redis", "ioredis"])
def test_a_client_that_logs_in_sees_no_difference(serve, name, login):
    config = CONFIG + ("users:\n" + user("ops", password="pass: word", may=ALL)
                       + user("program", token="weir_program", may=ALL))
    again = answers_over_a_restart(serve, name, config, login, {"WEIR_USER": login.get("username", ""),
                                                                "WEIR_SECRET": login["password"]})
    assert again == [1, 10, 9, 0, 360000, "ok", ""]


def answers_over_a_restart(serve, name, config, options=None, env=None):
    """Checks the answers before a restart of the server; returns those after it."""
    server = serve(config=config)
    key = "k"
    with redis.Redis(port=server.resp, **(options or {})) as python:
        assert python.execute_command("WEIR.ACQUIRE", "login", key, "COST", 3)[2] == 7
        with Client(name, server.resp, key, env or {}) as client:
            seen = client.read()
            left = python.execute_command("WEIR.PEEK", "login", key)[2]
            assert server.stop() == 0
            serve("--resp", f"127.0.0.1:{server.resp}", config=config)
            client.go_on()
            again = client.read()["again"]
            assert client.process.wait(PATIENCE) == 0

    assert 5 == left
    assert seen.pop("pipeline") == list(range(999, -1, -1))
    acquire, custom = seen.pop("acquire"), seen.pop("custom")
    # `remaining` continues after the acquires of redis-py; at most a millisecond's refill is added.
    assert [reply[2] for reply in (acquire, custom)] == [6, 5]
    assert [reply[:2] + reply[5:] for reply in (acquire, custom)] == [[1, 10, "ok", ""]] * 2
    # rueidis removes the first word.
    assert seen.pop("error").removeprefix("ERR ") == "expected the name of a limit, found 'nosuch'"
    assert seen == {
        "ping": "PONG",
        "cell": [0, 10, 9, -1, 720],
        "crab": [1, 9, 8, 720, 0],
        "check": [1, 10, 9, 0, 360000, "ok", "", "login", "login-by-ip"],
        "alive": "PONG",
        "transaction": [9, 8, 7],
        "cleared": [1, 0],
        "passed": 100,
    }
    return again
