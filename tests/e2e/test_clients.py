"""Real clients with their default settings."""

import json
import subprocess

import pytest
import redis
from harness import PATIENCE, programs_of_others

pytestmark = programs_of_others


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=PATIENCE * 3, check=False)


@pytest.mark.parametrize("protocol", [[], ["-2"], ["-3"]], ids=["default", "RESP2", "RESP3"])
def test_redis_cli(server, key, protocol):
    cli = ["redis-cli", *protocol, "-p", server.resp]
    assert run(*cli, "PING").stdout.strip() == "PONG"
    done = run(*cli, "CL.THROTTLE", key, 9, 5, 3600)
    assert done.stdout.split() == ["0", "10", "9", "-1", "720"]
    assert run(*cli, "WEIR.ACQUIRE", "login", key).stdout.split() == [
        "1", "10", "9", "0", "360000", "ok"]
    assert "ERR" in run(*cli, "WEIR.ACQUIRE", "nosuch", key).stdout


def test_redis_cli_reading_commands_from_a_pipe(server, key):
    done = subprocess.run(
        ["redis-cli", "-p", str(server.resp)], input=f"WEIR.ACQUIRE login {key}\nPING\n",
        capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.split()[0] == "1"
    assert done.stdout.split()[-1] == "PONG"


@pytest.mark.parametrize("pipeline", [1, 16])
def test_redis_benchmark(server, pipeline):
    done = run("redis-benchmark", "-p", server.resp, "-n", 20_000, "-r", 1000, "-P", pipeline, "-q",
               "CL.THROTTLE", f"bench{pipeline}:__rand_int__", 9, 5, 3600)
    assert done.returncode == 0
    assert "requests per second" in done.stdout
    assert "ERR" not in done.stdout + done.stderr


def test_redis_benchmark_with_its_own_pings(server):
    done = run("redis-benchmark", "-p", server.resp, "-n", 5000, "-t", "ping", "-q")
    assert done.returncode == 0
    assert done.stdout.count("requests per second") == 2


@pytest.fixture(params=[{}, {"protocol": 2}, {"protocol": 3}], ids=["default", "RESP2", "RESP3"])
def client(server, request):
    client = redis.Redis(port=server.resp, **request.param)
    yield client
    client.close()


def test_redis_py(client, key):
    assert client.ping()
    assert client.echo("hello") == b"hello"
    assert client.execute_command("CL.THROTTLE", key, 9, 5, 3600) == [0, 10, 9, -1, 720]
    assert client.execute_command("WEIR.ACQUIRE", "login", key) == [
        1, 10, 9, 0, 360000, b"ok", b""]
    with pytest.raises(redis.ResponseError):
        client.execute_command("WEIR.ACQUIRE", "nosuch", key)
    assert client.ping()
    assert "redis_version" in client.info()


def test_redis_py_pipelines(client, key):
    pipeline = client.pipeline(transaction=False)
    for _ in range(12):
        pipeline.execute_command("WEIR.ACQUIRE", "login", key)
    assert [reply[0] for reply in pipeline.execute()] == [1] * 10 + [0] * 2


def test_redis_py_with_a_name_a_database_and_a_health_check(server):
    client = redis.Redis(port=server.resp, db=0, client_name="tester", health_check_interval=1)
    assert client.ping()
    client.close()


def test_curl(server, key):
    url = f"http://127.0.0.1:{server.http}"
    done = run("curl", "-sS", "-w", "\n%{http_code}", f"{url}/v1/acquire/one?key={key}")
    body, code = done.stdout.rsplit("\n", 1)
    assert (json.loads(body)["remaining"], code) == (0, "200")
    done = run("curl", "-sS", "-i", "--json", json.dumps({"limit": "one", "key": key}),
               f"{url}/v1/acquire")
    assert done.stdout.startswith("HTTP/1.1 429 ")
    assert "\nRetry-After: " in done.stdout


def test_curl_with_a_body_so_large_that_it_expects_100_continue(server, tmp_path):
    body = tmp_path / "body"
    body.write_text(json.dumps({"limit": "login", "key": "k" * 1024, "cost": 1}).ljust(60_000))
    done = run("curl", "-sS", "-w", "%{http_code}", "-o", "/dev/null", "-H", "Expect: 100-continue",
               "--data-binary", f"@{body}", f"http://127.0.0.1:{server.http}/v1/acquire")
    assert (done.stdout, done.stderr) == ("200", "")
