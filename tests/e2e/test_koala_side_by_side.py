"""Koala and Weir side by side as docs/koala.md shows it: one decides, and nginx mirrors its requests to the other."""

import getpass
import socket
import subprocess
import urllib.parse

from harness import PATIENCE, ROOT, Http, Server, programs_of_others, until
from test_docs import blocks
from test_proxies import NGINX

pytestmark = programs_of_others


def counters(server):
    return server.get("/dump/counter").text


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_the_second_server_counts_the_requests_that_the_first_decides(tmp_path):
    """A second Weir plays Koala, since it has the same paths and answers."""
    [site] = blocks("docs/koala.md", "nginx")
    koala, weir = (Server("-c", ROOT / "examples/koala.conf") for _ in range(2))
    with socket.socket() as held:  # both sockets set SO_REUSEPORT
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        site = site.replace("http://koala", f"http://127.0.0.1:{koala.http}").replace(":8080", f":{weir.http}")
        (tmp_path / "nginx.conf").write_text(NGINX.format(
            user=getpass.getuser(),
            site=f"server {{ listen 127.0.0.1:{port} reuseport; {site} }}"))
        with open(tmp_path / "log", "w", encoding="utf-8") as log:
            nginx = subprocess.Popen(["/usr/sbin/nginx", "-e", "stderr", "-p", ".", "-c", "nginx.conf"],
                                     cwd=tmp_path, stdout=log, stderr=log)
    try:
        until(lambda: listens(port), "nginx")
        with Http(port) as client:
            for n in range(30):
                path = f"/rule/browse?act=index_page&ip=10.0.0.{n % 2}&_writeThrough=yes"
                assert client.request("GET", path).status == 200
            form = urllib.parse.urlencode({"act": "ask", "uid": "300000000", "x": "\u00e9&="})
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            for _ in range(12):
                for path in ("/rule/browse", "/rule/update"):
                    assert client.request("POST", path, form, headers).status == 200
            items = urllib.parse.urlencode({"argsJson": '[{"Id":"0","Arg":"act%3Dask%26uid%3D300000000"}]'})
            assert client.request("GET", f"/multi/browse?{items}").json[0]["Result"]["Ret_code"] == 112
        assert "rule_no:1201  allow:20  deny:10\n" in counters(koala)
        assert "rule_no:112  allow:10  deny:3\n" in counters(koala)
        until(lambda: counters(weir) == counters(koala), "the last copies")
    finally:
        nginx.terminate()
        assert nginx.wait(PATIENCE) == 0
        for server in (koala, weir):
            assert server.stop() == 0
