"""The limits of docs/migrating.md are valid; those for nginx's `limit_req` and uber-go/ratelimit decide as these do."""

import getpass
import json
import os
import re
import selectors
import socket
import subprocess

import pytest
from harness import PATIENCE, ROOT, Server, is_listening, programs_of_others, until, weir
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
    return re.findall(r"^\| .*`(limit_req zone=login.*?)` \| `(.*?)` \| .*\|$", text, re.M)


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


PAGE = (ROOT / "docs/migrating.md").read_text()

SYSTEMS = ["nginx", "redis-cell", "throttlecrab", "Koala", "go-zero", "kratos", "uber-go/ratelimit", "x/time/rate", "Guava",
           "Hystrix", "resilience4j", "Sentinel"]


def shown_limits(text):
    """The limits in the cells of tables."""
    return re.findall(r"`(\{ algorithm: .*?\})`", text)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_table_for_each_system_has_limits_that_are_valid(system, tmp_path):
    title, section = re.search(rf"^## (From {system}\b.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S).groups()
    head = next(line for line in section.splitlines() if line.startswith("|"))
    assert head == f"| {system} | Weir | difference |"
    anchor = "#" + re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")
    assert f"]({anchor})" in PAGE.split("\n## ")[0] and f"](docs/migrating.md{anchor})" in (ROOT / "README.md").read_text()
    assert all(len(re.split(r"(?<!\\)\|", row)) == 5 for row in section.splitlines() if row.startswith("|"))
    limits = shown_limits(section)
    assert limits
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n" + "".join(f"  limit-{n}: {limit}\n" for n, limit in enumerate(limits)))
    done = weir("lint", path)
    assert done.returncode == 0, done.stderr


def waits_here(limit, arrivals, directory):
    (directory / "log.csv").write_text("time,ip\n" + "".join(f"1767225600.{at:03},a\n" for at in arrivals))
    done = weir("simulate", "--try", f"pace: {limit}", "--trace", directory / "log.csv", "--decisions", "-")
    decisions = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert all(decision["allowed"] for decision in decisions), done.stderr
    return [decision.get("wait_ms", 0) for decision in decisions]


def waits_there(slack, arrivals):
    """In the real library, in virtual time."""
    done = subprocess.run([ROOT / "build/clients/pacer", "100", str(slack), *map(str, arrivals)], capture_output=True, text=True,
                          check=True, timeout=PATIENCE)
    return [int(wait) for wait in done.stdout.split()]


def test_a_pacer_gives_the_turns_of_uber_go_ratelimit_but_for_a_new_key(tmp_path):
    with_slack, without, slack_5, _ = shown_limits(PAGE.split("## From uber-go/ratelimit")[1].split("\n## ")[0])
    arrivals = [0] * 14 + [900] * 14
    spaced = [10 * n for n in range(14)]
    rested = [0] * 11 + [10, 20, 30]
    assert waits_there(-1, arrivals) == spaced + rested
    assert waits_here(with_slack, arrivals, tmp_path) == rested + rested
    assert waits_there(0, arrivals) == waits_here(without, arrivals, tmp_path) == spaced + spaced
    assert waits_there(5, arrivals)[14:] == waits_here(slack_5, arrivals, tmp_path)[14:] == [0] * 6 + spaced[1:9]
