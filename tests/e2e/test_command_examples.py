"""The examples of every command's help run, with ports, files and addresses of the test in place of theirs."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import pytest
from harness import PATIENCE, ROOT, WEIR, Server, one_thread, weir
from test_users import ALL, user

pytestmark = one_thread

COMMANDS = {command["name"]: command for command in json.loads(weir("help", "--json").stdout)}
EXAMPLES = [(name, example) for name, command in COMMANDS.items() for example in command["examples"]]
TOKEN = {"WEIR_TOKEN": "weir_ops"}
LOGIN = {"Authorization": "Bearer weir_ops"}
CONFIG = """
order: first
limits:
  login: { algorithm: token_bucket, rate: 100/d, burst: 100 }
  relief: { algorithm: random, deny: 1 }
rules:
  - { name: login-by-ip, match: { path: /login }, key: [ip], limits: [login] }
  - { name: sheddable, match: { path: /search }, key: [ip], limits: [relief] }
denials: { file: denials.jsonl }
users:
""" + user("ops", token="weir_ops", may=ALL)
RESP_COMMANDS = "ask", "reset", "bench"  # of an address that is no URL
FILES = {"/var/lib/weir/state": "state", "/run/weir/http.sock": "http.sock"}
OUTPUTS = {  # what the examples of a command print, among other lines
    "lint": r"^weir\.yaml: ok$", "ask": r"\A(login 203\.0\.113\.9|path=/login ip=203\.0\.113\.9): allowed ",
    "why": r'\ATIME +RULE .*\n.* (login|relief) .*(over_limit|shed) |\A\[\{"id":.*"limit":"(login|relief)"', "key": r"\A[0-9a-f]{16}\n\Z",
    "reset": r"\Alogin (203\.0\.113\.9|2001:db8:1:2::/64): no use is kept now, 100 of 100 left\n\Z", "reload": r"\Areloaded\n\Z",
    "status": r'^state +ready$|"ready":true', "top": r'\Aweir \d\S+, ready: |\A\{"status":\{',
    "simulate": r"\A(.*, )?access\.log: 60 requests, [^\0]*^(login|api|suggested) +60 +0 ", "bench": r"^requests +[1-9]\d* answered ",
    "store": r"state: ok(, capacity 2000000)?$", "passwd": r"\A\S+\n[0-9a-f]{64}\n\Z"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the files that examples name."""
    top = tmp_path_factory.mktemp("examples")
    (top / "weir.yaml").write_text(CONFIG)
    shutil.copy(ROOT / "examples/koala.conf", top)
    shutil.copytree(ROOT / "examples/dicts", top / "dicts")
    (top / "access.log").write_text("".join(
        f'203.0.113.{n % 9} - - [10/Oct/2025:13:55:{n:02} +0000] "POST /login HTTP/1.1" 200 1 "-" "x"\n' for n in range(60)))
    return top


@pytest.fixture(scope="module")
def server(place):
    """A server that has denied the key that examples name, at both limits."""
    server = Server(config=CONFIG, directory=place)
    login = {**LOGIN, "Content-Type": "application/json"}
    for limit, cost, status in ("login", 1, 200), ("login", 100, 429), ("relief", 1, 503):
        body = json.dumps({"limit": limit, "key": "203.0.113.9", "cost": cost})
        assert server.get("/v1/acquire", login, "POST", body).status == status
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def at_socket(place):
    """A server at the Unix socket that an example names."""
    server = Server("--http", f"unix:{place}/http.sock", "--resp", "127.0.0.1:0", ports=False, config=CONFIG, directory=place)
    yield server
    assert server.stop() == 0


@pytest.fixture
def state(place):
    """The store file that examples name."""
    server = Server("--store", f"file:{place}/state", "--capacity", "1000", config=CONFIG, directory=place)
    assert server.stop() == 0
    yield place / "state"
    (place / "state").unlink()


def words_of(example, place, server):
    """The words of an example, with what exists here in place of what it names."""
    for theirs, ours in FILES.items():
        example = example.replace(theirs, f"{place}/{ours}")
    example = example.replace("https://limits.example.com", f"http://127.0.0.1:{server.http}").replace("--duration 5s", "--duration 50ms")
    program, *words = shlex.split(example)
    assert program == "weir"
    if "--id" in words:
        words[words.index("--id") + 1] = server.get("/v1/denials?n=1", LOGIN).json[0]["id"]
    if words[0] == "bench":
        words += ["--warmup", "0s"] if "--duration" in words else ["--warmup", "0s", "--requests", "50"]
    return words


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("name, example", [(name, example) for name, example in EXAMPLES if name != "serve"], ids=lambda value: value)
def test_an_example_runs_and_succeeds(request, place, server, name, example):
    if "/var/lib/weir/state" in example:
        request.getfixturevalue("state")
    if "unix:" in example:
        request.getfixturevalue("at_socket")
    words = words_of(example, place, server)
    is_resp = name in RESP_COMMANDS and "http" not in words
    env = {**os.environ, **TOKEN, "WEIR_SERVER": f"127.0.0.1:{server.resp if is_resp else server.http}"}
    if words == ["top"]:  # it shows frames until it is stopped
        with subprocess.Popen([WEIR, *words], stdout=subprocess.PIPE, text=True, env=env) as process:
            printed = process.stdout.readline()
            stop(process)
        assert re.search(OUTPUTS[name], printed)
        return
    done = subprocess.run([WEIR, *words], cwd=place, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert re.search(OUTPUTS[name], done.stdout, re.M), done.stdout
    for file in re.findall(r"--html (\S+)", example):
        assert "</html>" in (place / file).read_text()


@pytest.mark.parametrize("example", COMMANDS["serve"]["examples"])
def test_an_example_of_serve_runs(place, start_redis, example):
    example = example.replace("redis://127.0.0.1:6379/0", start_redis().url)
    example = re.sub(r"(?<=--http )\S+|(?<=--resp )\S+", "127.0.0.1:0", example)
    env = {**os.environ, "WEIR_HTTP": "127.0.0.1:0", "WEIR_RESP": "127.0.0.1:0"}
    words = shlex.split(example)
    assert words[:2] == ["weir", "serve"]
    with subprocess.Popen([WEIR, *words[1:]], cwd=place, env=env, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("listening: resp"):
                break
        stop(process)
    assert process.returncode == 0
