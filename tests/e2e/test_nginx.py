"""nginx asks by auth_request, as the README shows, in front of a site, and wrk drives it."""

import getpass
import os
import re
import socket
import subprocess

import pytest
from harness import PATIENCE, ROOT, until

CONFIG = """
limits:
  site: { algorithm: fixed_window, rate: 100/h, align: first_request }
rules:
  - { name: site-by-ip, match: { path: "/shop/*" }, key: [ip], limits: [site] }
trusted_proxies: [127.0.0.0/8]
"""

NGINX = """
daemon off;
user {user};
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {directory}/site;
        {locations}
    }}
}}
"""

COUNT = """
function setup(thread) counter = thread end
function init() passed, limited, other = 0, 0, 0 end
function response(status)
    if status == 200 then passed = passed + 1
    elseif status == 429 then limited = limited + 1
    else other = other + 1 end
end
function done()
    print("passed " .. counter:get("passed"))
    print("limited " .. counter:get("limited"))
    print("other " .. counter:get("other"))
end
"""


@pytest.fixture
def site(serve, tmp_path):
    """The port of an nginx in front of a page, with a fresh server behind."""
    server = serve(config=CONFIG)
    page = tmp_path / "site" / "shop" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("a page\n")
    # nginx takes over a socket that is bound already: no port is guessed.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        locations = re.search(r"^```nginx\n(.*?)^```", readme, re.M | re.S)[1]
        file = tmp_path / "nginx.conf"
        file.write_text(NGINX.format(
            directory=tmp_path, port=port, user=getpass.getuser(),
            locations=locations.replace(":8080", f":{server.http}")))
        with open(tmp_path / "nginx.log", "w", encoding="utf-8") as log:
            nginx = subprocess.Popen(
                ["/usr/sbin/nginx", "-e", "stderr", "-p", tmp_path, "-c", file], stderr=log,
                pass_fds=[listener.fileno()],
                env={**os.environ, "NGINX": f"{listener.fileno()};"})
    try:
        until((tmp_path / "nginx.pid").exists, "nginx")
        yield port
    finally:
        nginx.terminate()
        nginx.wait(PATIENCE)


def test_of_n_requests_exactly_the_limit_gets_through_and_the_rest_get_429(site, tmp_path):
    script = tmp_path / "count.lua"
    script.write_text(COUNT)
    done = subprocess.run(
        ["wrk", "-t1", "-c16", "-d2s", "-s", script, f"http://127.0.0.1:{site}/shop/index.html"],
        capture_output=True, text=True, timeout=PATIENCE, check=False)
    counts = dict(re.findall(r"^(passed|limited|other) (\d+)$", done.stdout, re.M))
    assert counts["passed"] == "100", done.stdout
    assert int(counts["limited"]) > 100
    assert counts["other"] == "0"
    assert "Socket errors" not in done.stdout


def test_the_client_sees_the_page_until_the_limit_and_429_after(site):
    codes = []
    for _ in range(101):
        done = subprocess.run(
            ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
             f"http://127.0.0.1:{site}/shop/index.html"],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        codes.append(done.stdout)
    assert codes == ["200"] * 100 + ["429"]
