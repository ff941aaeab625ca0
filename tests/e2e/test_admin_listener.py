"""With an admin listener, admin calls are answered there and refused at the other listeners."""

import http.client
import json

import pytest
from harness import CONFIG, PATIENCE, Answer, Wire, weir

SHED = CONFIG.replace("rules:", "  relief: { algorithm: random, deny: 0.5 }\nrules:")

ADMIN = [("GET", "/v1/limits", None), ("GET", "/v1/top", None), ("GET", "/v1/denials", None), ("GET", "/v1/status", None), ("GET", "/dump/policy", None),
         ("POST", "/v1/shed", {"limit": "relief", "deny": 0.5})]
OTHERS = [("GET", "/healthz", None), ("GET", "/metrics", None), ("GET", "/v1/peek/login?key=k", None),
          ("POST", "/v1/acquire", {"limit": "login", "key": "k"}),
          ("POST", "/v1/reset", {"limit": "login", "key": "k"})]


def call(port, method, path, value, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, value and json.dumps(value), headers or {})
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def admin_port(server):
    return int(server.line_with("listening: admin").rsplit(":", 1)[1])


@pytest.fixture
def server(serve):
    return serve(config="listen: { admin: 127.0.0.1:0 }\n" + SHED)


def test_admin_calls_are_answered_at_their_listener_only(server):
    port = admin_port(server)
    for request in ADMIN:
        refused = call(server.http, *request)
        assert refused.status == 403, request
        assert "`listen.admin`" in refused.text or request[1].startswith("/dump"), refused.text
        assert call(port, *request).status == 200, request
    with Wire(server.resp) as client:
        assert client.command("WEIR.SHED", "relief", "0.5").startswith(b"-NOPERM expected an admin call")
        assert client.command("PING") == b"+PONG"


def test_other_calls_are_answered_at_both(server):
    port = admin_port(server)
    for request in OTHERS:
        assert call(server.http, *request).status == call(port, *request).status == 200, request


def test_the_admin_listener_checks_its_callers_as_the_others_do(server):
    port = admin_port(server)
    assert call(port, "GET", "/v1/limits", None, {"X-Forwarded-For": "192.0.2.1"}).status == 403
    assert call(port, "GET", "/v1/limits", None, {"Origin": "http://example.com"}).status == 403


def test_without_an_admin_listener_all_listeners_answer_admin_calls(serve):
    server = serve(config=SHED)
    for request in ADMIN:
        assert call(server.http, *request).status == 200, request


def test_a_reload_neither_opens_nor_closes_the_admin_listener(server):
    port = admin_port(server)
    server.reload(SHED)
    assert "setting=listen.admin" in server.line_with("restart_needed")
    server.line_with("reloaded")
    assert call(server.http, "GET", "/v1/limits", None).status == 403
    assert call(port, "GET", "/v1/limits", None).status == 200


def test_an_error_of_the_admin_listener_names_it(tmp_path, server):
    file = tmp_path / "second.yaml"
    file.write_text(f"listen:\n  admin: 127.0.0.1:{server.http}\n")
    failed = weir("serve", "-c", file, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0")
    assert failed.returncode == 1
    assert f"{file}:2:10" in failed.stderr
    assert f"admin: can't listen on 127.0.0.1:{server.http}" in failed.stderr
