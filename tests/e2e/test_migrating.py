"""The limits that docs/migrating.md gives for nginx's `limit_req` allow the same requests as nginx."""

import getpass
import os
import re
import selectors
import socket
import subprocess

import pytest
from harness import PATIENCE, ROOT, Server, is_listening, programs_of_others, until
from test_proxies import NGINX

pytestmark = programs_of_others

REQUESTS = 20

# Replacements of rates, so that nothing refills while a test runs.
SLOW = [("5r/s", "1r/m"), ("5/s", "1/m"), ("800ms", "4m")]

SITE = """
    limit_req_zone $host zone=login:1m rate=1r/m;
    server {{
        listen unix:{directory}/nginx.sock;
        root {directory};
        limit_req_status 429;
        {limit};
    }}
"""


def rows():
    """(limit_req of nginx, limit of Weir) of the document's table."""
    text = (ROOT / "docs/migrating.md").read_text()
    for old, new in SLOW:
        text = text.replace(old, new)
    return re.findall(r"^\| .*`(limit_req zone=login.*?)` \| `(.*?)` \|$", text, re.M)


def crowd(connect, request, answers):
    """Sends REQUESTS requests at once; after `answers` answers closes the rest: (passed, denied, waiting)."""
    selector = selectors.DefaultSelector()
    clients = [connect() for _ in range(REQUESTS)]
    for client in clients:
        client.sendall(request)
        selector.register(client, selectors.EVENT_READ)
    statuses = []
    while ready := selector.select(PATIENCE if len(statuses) < answers else 0.2):
        for key, _ in ready:
            statuses.append(key.fileobj.recv(12).split()[1])
            selector.unregister(key.fileobj)
    for client in clients:
        client.close()
    assert set(statuses) <= {b"200", b"429"}
    return statuses.count(b"200"), statuses.count(b"429"), REQUESTS - len(statuses)


def unix(path):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(str(path))
    return client


def through_nginx(limit, directory, answers):
    (directory / "index.html").write_text("welcome")
    os.chmod(directory, 0o755)
    (directory / "nginx.conf").write_text(
        NGINX.format(user=getpass.getuser(), site=SITE.format(directory=directory, limit=limit)))
    path = directory / "nginx.sock"
    with open(directory / "nginx.log", "w", encoding="utf-8") as log:
        nginx = subprocess.Popen(["/usr/sbin/nginx", "-e", "stderr", "-p", directory, "-c", "nginx.conf"],
                                 stdout=log, stderr=log)
    try:
        until(lambda: is_listening(path), "nginx to listen")
        return crowd(lambda: unix(path), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", answers)
    finally:
        nginx.terminate()
        nginx.wait(PATIENCE)


def through_weir(limit, directory, answers):
    # With one thread, since a second one with an older time may deny a request that the first would allow.
    server = Server("--threads", "1", config=f"limits:\n  login: {limit}\n", directory=directory)
    try:
        return crowd(lambda: socket.create_connection(("127.0.0.1", server.http), PATIENCE),
                     b"GET /v1/acquire/login?key=a HTTP/1.1\r\nHost: localhost\r\n\r\n", answers)
    finally:
        assert server.stop() == 0


def test_the_document_covers_every_form_of_limit_req():
    assert len(rows()) == 4


@pytest.mark.parametrize("row", range(4))
def test_a_zone_of_nginx_and_its_limit_allow_the_same_requests(row, tmp_path):
    zone, limit = rows()[row]
    for name in ("nginx", "weir"):
        (tmp_path / name).mkdir()
    expected = [(1, 19, 0), (11, 9, 0), (1, 9, 10), (9, 7, 4)][row]
    answers = sum(expected[:2])
    assert through_nginx(zone, tmp_path / "nginx", answers) == expected
    assert through_weir(limit, tmp_path / "weir", answers) == expected
