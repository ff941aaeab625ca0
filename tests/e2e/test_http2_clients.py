"""HTTP/2 with other implementations: the cases of h2spec, and clients of Python, Go and Node."""

import asyncio
import collections
import json
import os
import ssl
import subprocess

import httpx
import pytest
from harness import CONFIG, PATIENCE, ROOT, one_thread, programs_of_others
from test_tls import LIMITS, certificates, config  # pylint: disable=unused-import

MADE = ROOT / "build" / "clients"

# Cases of h2spec that expect another answer than ours, with the reason.
DISPUTED = {
    # RFC 9113, 3.4: no GOAWAY is due to a peer that does not speak HTTP/2. Ours may speak HTTP/1,
    # and is told 400 as HTTP/1.1 has it.
    "http2/3.5/2": "Sends invalid connection preface",
}


@pytest.fixture
def reach(serve, certificates):
    """Starts a server; returns it, its URL, and an environment that trusts it."""
    def start(how):
        tls = config(certificates).removesuffix(LIMITS) if how == "tls" else ""
        server = serve(config=tls + CONFIG)
        ca = str(certificates / "right.pem")
        return (server, f"http{'s' * bool(tls)}://127.0.0.1:{server.http}",
                {**os.environ, "SSL_CERT_FILE": ca, "NODE_EXTRA_CA_CERTS": ca})
    return start


@one_thread
@pytest.mark.parametrize("how", ["plain", "tls"])
def test_every_case_of_h2spec_is_passed(reach, how):
    server, _, env = reach(how)
    done = subprocess.run([MADE / "h2spec", str(server.http), "/v1/limits", how], env=env, text=True,
                          capture_output=True, timeout=PATIENCE * 5, check=True)
    verdicts = json.loads(done.stdout.splitlines()[-1])
    assert len(verdicts) == 146
    failed = {verdict["Case"]: verdict["Name"] for verdict in verdicts if verdict["Fault"]}
    assert failed == DISPUTED, [verdict for verdict in verdicts if verdict["Fault"]]
    assert server.process.poll() is None


def program(*command):
    def ask(url, env, turns):
        done = subprocess.run([*command, url], env=env, input=json.dumps(turns), text=True, capture_output=True,
                              timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return ask


def ask_by_httpx(url, env, turns):
    async def ask_all():
        trust = ssl.create_default_context(cafile=env["SSL_CERT_FILE"])
        async with httpx.AsyncClient(http1=False, http2=True, verify=trust, timeout=PATIENCE) as client:
            async def ask(question):
                got = await client.request(question["method"], url + question["path"],
                                           headers=question["headers"], content=question["body"])
                return {"version": int(got.http_version.removeprefix("HTTP/")), "status": got.status_code,
                        "body": got.text}
            return [await asyncio.gather(*map(ask, questions)) for questions in turns]
    return asyncio.run(ask_all())


def question(path, value=None, **headers):
    return {"method": "GET" if value is None else "POST", "path": path,
            "headers": {name.replace("_", "-"): said for name, said in headers.items()},
            "body": "" if value is None else json.dumps(value)}


CLIENTS = {
    "httpx": ask_by_httpx,
    "net/http": program(MADE / "nethttp"),
    "node": program("node", MADE / "node" / "http2.js"),
}


@programs_of_others
@pytest.mark.parametrize("name, how", [
    ("httpx", "plain"), ("httpx", "tls"), ("node", "plain"), ("node", "tls"), ("net/http", "tls")])
def test_a_client_gets_its_answers_in_sequence_and_fifty_at_once(reach, name, how):
    server, url, env = reach(how)
    visit = {"x_forwarded_uri": "/login", "x_forwarded_for": "10.0.0.1"}
    turns = [
        [question("/v1/acquire", {"limit": "login", "key": "one"})],
        [question("/v1/peek/login?key=one")],
        [question("/v1/acquire", {"attributes": {"path": "/login", "ip": "10.0.0.1"}, "cost": 10})],
        [question("/auth", **visit)],
        [question("/auth", **{**visit, "x_forwarded_for": "10.0.0.2"})],
        [question("/nothing")],
        [question("/v1/acquire", {"limit": "login", "key": "crowd"}) for _ in range(50)],
        [question(f"/v1/acquire/none-{i}?key=k") for i in range(50)],
    ]
    *ones, crowd, named = CLIENTS[name](url, env, turns)
    everything = [answer for turn in (*ones, crowd, named) for answer in turn]
    assert {answer["version"] for answer in everything} == {2}
    assert [answer["status"] for [answer] in ones] == [200, 200, 200, 429, 200, 404]
    assert [json.loads(answer["body"])["remaining"] for [answer] in ones[:3]] == [9, 9, 0]
    assert collections.Counter(answer["status"] for answer in crowd) == {200: 10, 429: 40}
    assert sorted(json.loads(answer["body"])["remaining"] for answer in crowd) == [0] * 41 + list(range(1, 10))
    # Each answer belongs to its own request.
    assert [json.loads(answer["body"])["error"]["message"].split()[-1] for answer in named] == [
        f"'none-{i}'" for i in range(50)]
    assert server.process.poll() is None
