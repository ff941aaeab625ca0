"""Proxies in front of a site, configured as docs/proxies.md shows."""

import collections
import functools
import getpass
import http.client
import http.server
import os
import re
import socket
import subprocess
import threading

import pytest
from harness import PATIENCE, ROOT, Answer, until
from test_docs import blocks

DOCUMENT = "docs/proxies.md"

# What each answers while Weir is away; HAProxy takes three seconds to say 503.
AWAY = {"nginx": 500, "caddy": 502}

# What a configuration file for sites is to be embedded in.
NGINX = """
daemon off;
user {user};
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{site}
}}
"""

CADDY = "{{\n\tadmin off\n}}\n{site}"  # its commands would have a port of their own


class Proxy:
    """A proxy's command and files: what the document shows, with our addresses."""

    def __init__(self, name, directory, weir, port, backend):
        self.name = name
        self.directory = directory
        self.weir = weir
        self.port = port
        self.addresses = {
            "127.0.0.1:8080": f"127.0.0.1:{weir.http}", "127.0.0.1:8000": f"127.0.0.1:{backend}",
            "/var/www/html": f"{directory}/site", "/etc/haproxy": str(directory)}

    def shown(self, language, **more):
        [text] = blocks(DOCUMENT, language)
        for old, new in {**self.addresses, **more}.items():
            text = text.replace(old, new)
        return text

    def passing_on(self, text):
        """With the document's line for a header behind the one that tells the URL."""
        [line] = re.findall(rf"^- {self.name}, .*?: `(.*?)`", (ROOT / DOCUMENT).read_text(),
                            re.M | re.I | re.S)
        return re.sub(r"^( *).*x-forwarded-uri.*\n", rf"\g<0>\1{line}\n", text,
                      flags=re.M | re.I)

    def write(self, name, text):
        (self.directory / name).write_text(text)

    # Each listens on a port that the test holds, which takes SO_REUSEPORT on both sides.

    def nginx(self):
        site = self.passing_on(
            self.shown("nginx", **{"listen 80": f"listen 127.0.0.1:{self.port} reuseport"}))
        self.write("nginx.conf", NGINX.format(user=getpass.getuser(), site=site))
        return ["/usr/sbin/nginx", "-e", "stderr", "-p", ".", "-c", "nginx.conf"]

    def caddy(self):
        site = self.shown("caddy", **{"example.com {": f"http://:{self.port} {{\n\tbind 127.0.0.1"})
        self.write("Caddyfile", CADDY.format(site=site))
        return ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    def haproxy(self):
        self.write("weir.lua", self.passing_on(self.shown("lua")))
        site = self.shown("haproxy", **{"bind :80": f"bind 127.0.0.1:{self.port}"})
        self.write("haproxy.cfg", site)
        return ["/usr/sbin/haproxy", "-db", "-f", "haproxy.cfg"]

    def start(self):
        with open(self.directory / "proxy.log", "w", encoding="utf-8") as log:
            return subprocess.Popen(getattr(self, self.name)(), cwd=self.directory, stdout=log,
                                    stderr=log, env={"PATH": os.environ["PATH"],
                                                     "HOME": str(self.directory)})

    def listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path, source="127.0.0.1", **headers):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                            source_address=(source, 0))
        client.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = Answer(client.getresponse())
        client.close()
        return answer


class Pages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Backend(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # or a crowd's connections wait for a second SYN


@pytest.fixture
def backend(tmp_path):
    """The port of a server of the site's files, for a proxy that serves none."""
    handler = functools.partial(Pages, directory=tmp_path / "site")
    with Backend(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(params=["nginx", "caddy", "haproxy"])
def site(request, serve, tmp_path, backend):
    """A proxy in front of pages, with a fresh server behind."""
    for page in ("shop/index.html", "shop/empty/nothing.txt", "index.html"):
        path = tmp_path / "site" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a page\n")
    weir = serve(config=blocks(DOCUMENT, "yaml")[0])
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        site = Proxy(request.param, tmp_path, weir, holder.getsockname()[1], backend)
        process = site.start()
        try:
            until(site.listens, f"{site.name}, see {tmp_path}/proxy.log")
            yield site
        finally:
            process.terminate()
            process.wait(PATIENCE)


def test_of_n_requests_exactly_the_limit_gets_through_and_the_rest_get_429(site):
    done = subprocess.run(
        ["curl", "-sS", "--parallel", "--parallel-max", "16", "-o", "/dev/null", "-w", "%{http_code}\n",
         f"http://127.0.0.1:{site.port}/shop/index.html?[1-400]"],
        capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert collections.Counter(done.stdout.split()) == {"200": 100, "429": 300}, done.stderr


def test_a_client_is_told_when_to_come_back_and_cannot_pretend_to_be_another(site):
    forged = [{"X_Forwarded_For": f"10.0.0.{i}", "X_Forwarded_Uri": "/free"} if i % 2 else {}
              for i in range(105)]
    answers = [site.get(f"/shop/index.html?n={i}", "127.0.0.2", **headers)
               for i, headers in enumerate(forged)]
    assert [answer.status for answer in answers] == [200] * 100 + [429] * 5
    assert {answer.text for answer in answers[:100]} == {"a page\n"}
    for answer in answers[100:]:
        assert 3500 < int(answer.headers["Retry-After"]) <= 3600
        assert answer.headers["RateLimit-Policy"] == '"site";q=100;w=3600'
        assert answer.headers["RateLimit"].startswith('"site";r=0;t=')
    assert site.get("/shop/index.html", "127.0.0.2", X_Original_URI="/free").status in (400, 429)
    # Another address has a count of its own, another path has none.
    assert site.get("/shop/index.html", "127.0.0.3").status == 200
    assert site.get("/index.html", "127.0.0.2").status == 200
    # What the site itself answers stays as it is.
    assert site.get("/shop/nosuch", "127.0.0.3").status == 404
    assert site.get("/shop/empty/", "127.0.0.3").status != 429
    if site.name in AWAY:
        assert site.weir.stop() == 0
        assert site.get("/shop/index.html", "127.0.0.4").status == AWAY[site.name]


def test_keys_of_an_api_are_told_apart(site):
    """By the shipped file: keys are counted by themselves, callers without one by address."""
    site.weir.reload((ROOT / "examples/weir.yaml").read_text().replace("/m,", "/d,"))
    site.weir.line_with("reloaded")

    def statuses(n, **headers):
        answers = [site.get("/api/x", "127.0.0.5", **headers) for _ in range(n)]
        return [answer.status == 429 for answer in answers]

    assert statuses(202, X_API_Key="127.0.0.5") == [False] * 200 + [True] * 2
    assert statuses(3, x_api_key="another") == [False] * 3
    assert statuses(62) == [False] * 60 + [True] * 2


def test_the_readme_shows_what_is_run():
    assert blocks("README.md", "caddy") == blocks(DOCUMENT, "caddy")
