"""Runs each command of docs/distributed.md in order, with free ports in place of those of the page."""

import os
import re
import signal
import subprocess

import pytest
from harness import BUILD, PATIENCE, ROOT, Http, Server, plain_build_only, until
from redis_servers import free_port
from test_docs import blocks, steps

pytestmark = plain_build_only

PAGE = "docs/distributed.md"
SLOW = "store_timeout: 30s\n"  # longer than a busy machine delays Redis
PORTS = ["6379", "8080", "6380", "8081", "6381"]


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """Starts the page's programs. Yields a function that replaces the ports in a command."""
    directory = tmp_path_factory.mktemp("distributed")
    ports = {port: str(free_port()) for port in PORTS}

    def here(text):
        text = re.sub("|".join(PORTS), lambda match: ports[match[0]], text)
        text = text.replace("redis-cli", f"redis-cli -p {ports['6379']}")
        text = text.replace("build/weir", f"{BUILD.resolve()}/weir")
        return text.replace("examples/distributed.yaml", str(directory / "distributed.yaml"))

    example = (ROOT / "examples/distributed.yaml").read_text()
    (directory / "distributed.yaml").write_text(here(example) + SLOW)
    start = here(blocks(PAGE, "sh")[0])
    shell = subprocess.Popen(["sh", "-c", start + "wait"], cwd=directory, start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for port in ("8080", "8081"):
        until(lambda: ready(int(ports[port])), f"a server at {port}")  # noqa: B023
    yield here
    os.killpg(shell.pid, signal.SIGTERM)
    shell.wait(PATIENCE)


def ready(port):
    """Whether the server has reached Redis, which may start later: without it `sms` denies."""
    try:
        with Http(port) as client:
            return client.request("GET", "/v1/peek/sms?key=nobody").json["allowed"]
    except OSError:
        return False


def test_commands_print_the_output_that_the_page_shows(setting):
    shown = [step for block in blocks(PAGE, "console") for step in steps(block)]
    assert shown
    for command, expected in shown:
        done = subprocess.run(["sh", "-c", setting(command)], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, cwd=ROOT)
        assert done.stdout, (command, done.stderr)
        if expected is not None:
            assert done.stdout.strip() == expected.strip(), command


# A limit of each algorithm that counts. All have the policy `closed`, so a call that Redis forbids is denied.
ALGORITHMS = """
  token_bucket: rate: 50/s, burst: 100
  leaky_bucket: rate: 50/m
  leaky_queue: rate: 5000/s, capacity: 10
  pacer: rate: 5000/s
  warm_up: rate: 5000/s
  fixed_window: rate: 50/d, timezone: Asia/Shanghai
  resetting_bucket: rate: 50/h
  sliding_window: rate: 50/m
  sliding_counter: rate: 50/m
  sliding_log: rate: 50/m
  base: base: 30, rate: 10/5s
  concurrency: max: 40
"""


@pytest.fixture
def limits_at(tmp_path):
    """A function that starts a server with the limits of ALGORITHMS at the Redis of a URL."""
    limits = re.sub(r"(\w+): (.*)", r"\1: { algorithm: \1, \2, on_store_failure: closed }", ALGORITHMS)
    started = []

    def start(url):
        started.append(Server(config=f"store: {url}\n{SLOW}limits:{limits}", directory=tmp_path))
        return started[-1]

    yield start
    assert [server.stop() for server in started] == [0]


def test_the_documented_user_of_redis_has_all_permissions_that_weir_needs(limits_at, start_redis):
    redis = start_redis()
    [command] = [block for block in blocks(PAGE, "sh") if "ACL SETUSER" in block]
    subprocess.run(["sh", "-c", command.replace("redis-cli", f"redis-cli -p {redis.port}")],
                   check=True, stdout=subprocess.DEVNULL)
    server = limits_at(f"redis://weir:password@127.0.0.1:{redis.port}")
    for limit in re.findall(r"(\w+): .*", ALGORITHMS):
        asked = {"limit": limit, "key": "k", "wait_ms": 1000}
        taken = [server.post("/v1/acquire", asked).json for _ in range(3)]
        permit = server.post("/v1/acquire", {**asked, "permit": True}).json
        assert all(answer["allowed"] for answer in [*taken, permit]), (limit, taken, permit)
        for path in ("peek", "refund", "reset"):
            assert server.post(f"/v1/{path}", asked).status == 200
        assert server.post("/v1/refund", {**asked, "permit": permit["permit"]}).status == 200
    assert redis.calls()["evalsha"] > 0
    assert redis.client.acl_log() == []


def test_a_key_takes_as_many_bytes_as_documented(limits_at, start_redis):
    redis = start_redis()
    server = limits_at(redis.url)
    text = re.search(r"^## Sizing\n(.*?)^## ", (ROOT / PAGE).read_text(), re.M | re.S)[1]
    least, most = map(int, re.search(r"takes (\d+) to (\d+) bytes", text).groups())
    million = int(re.search(r"a million keys of a bucket are (\d+) MB", text)[1])
    sizes = {}
    for limit in re.findall(r"(\w+_(?:bucket|window|counter)): .*", ALGORITHMS):
        server.get(f"/v1/acquire/{limit}?key=203.0.113.9")
        sizes[limit] = redis.bytes_of(f"weir:{{203.0.113.9}}:{limit}")
    assert len(sizes) == 6
    assert all(least <= size <= most for size in sizes.values()), sizes
    assert sizes["token_bucket"] <= million


VALUES = """
  token: { algorithm: token_bucket, rate: 5/s, burst: 10 }
  warm: { algorithm: warm_up, rate: 5/s }
  day: { algorithm: fixed_window, rate: 5/d, timezone: Asia/Shanghai }
  minutes: { algorithm: fixed_window, rate: 5/10m, align: first_request }
  slots: { algorithm: sliding_window, rate: 5/m }
  log: { algorithm: sliding_log, rate: 5/m }
  base: { algorithm: base, base: 2, rate: 1/5s }
  places: { algorithm: concurrency, max: 4 }
"""


def value_of(redis, key):
    """The value as the page shows it, each element of a list on its own."""
    if redis.client.type(key) == "list":
        return "`, `".join(redis.client.lrange(key, 0, -1))
    return redis.client.get(key)


def shape(value):
    """A value with its numbers replaced, and only the first of many uses."""
    value = re.sub(r":\d{1,3}\b", ":N", re.sub(r"\d{4,}", "T", value))
    return re.sub(r"( T[:NT]+)( T[:NT]+)*", r"\1", value)


def test_values_at_redis_are_as_documented(serve, start_redis):
    redis = start_redis()
    server = serve(config=f"store: {redis.url}\n{SLOW}limits:{VALUES}")
    shown = re.findall(r"^\| `(\w+ .*?)` \|", (ROOT / PAGE).read_text(), re.M)
    values = []
    for limit in re.findall(r"^  (\w+):", VALUES, re.M):
        for _ in range(2):
            server.get(f"/v1/acquire/{limit}?key=k")
        values.append(value_of(redis, f"weir:{{k}}:{limit}"))
    assert [shape(value) for value in values] == [shape(value) for value in shown]
