"""The static program in directories without any library, as a user without rights."""

import json
import pathlib
import shutil

import pytest
from conftest import run
from harness import ROOT, Server, until
from redis_servers import RedisServer

USER = "65532:65532"
CONFIG = """
limits:
  login: { algorithm: token_bucket, rate: 5/d, burst: 10 }
  sms: { algorithm: fixed_window, rate: 5/d, timezone: Asia/Shanghai }
"""


class Empty:
    """A directory that holds the program and what a test puts beside it."""

    def __init__(self, top, linux):
        self.top = top
        for name in ("bin", "etc", "tmp"):
            (top / name).mkdir(parents=True)
        shutil.copy(linux / "bin/weir", top / "bin/weir")
        (top / "tmp").chmod(0o777)
        top.chmod(0o755)

    @property
    def enter(self):
        return ["env", "-u", "SSL_CERT_FILE", "-u", "SSL_CERT_DIR", "chroot", f"--userspec={USER}", str(self.top)]

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return f"/{name}"

    def weir(self, *words, stdin=None):
        return run(*self.enter, "/bin/weir", *words, stdin=stdin)

    def serve(self, config, *flags):
        return Server("-c", self.write("etc/weir.yaml", config), *flags, account=self.enter, program="/bin/weir")


@pytest.fixture
def empty(tmp_path, linux):
    return Empty(tmp_path / "root", linux)


def copy_zones(empty):
    shutil.copytree("/usr/share/zoneinfo/Asia", empty.top / "usr/share/zoneinfo/Asia")


def test_it_needs_no_library_and_no_interpreter(linux):
    assert "NEEDED" not in run("readelf", "-dW", linux / "bin/weir")
    segments = run("readelf", "-lW", linux / "bin/weir")
    assert "INTERP" not in segments and "GNU_RELRO" in segments
    assert "DYN (Position-Independent" in run("readelf", "-hW", linux / "bin/weir")


def test_it_serves_and_decides(empty):
    copy_zones(empty)
    server = empty.serve(CONFIG)
    assert server.get("/v1/acquire/login?key=a").json["remaining"] == 9
    assert server.get("/v1/acquire/sms?key=a").json["remaining"] == 4
    assert ", 8 of 10 left" in empty.weir("ask", "login", "a", "--server", f"127.0.0.1:{server.resp}")
    assert server.stop() == 0


def test_a_zone_that_the_system_lacks_is_an_error_with_its_place(empty):
    empty.write("etc/weir.yaml", CONFIG)
    with pytest.raises(AssertionError, match="weir.yaml:4:.*zone"):
        empty.weir("lint", "/etc/weir.yaml")


def test_it_simulates(empty):
    copy_zones(empty)
    empty.write("etc/weir.yaml", CONFIG)
    empty.write("trace.csv", (ROOT / "examples/trace.csv").read_text())
    header = (ROOT / "examples/trace.csv").read_text().splitlines()[0].split(",")
    answer = json.loads(empty.weir("simulate", "-c", "/etc/weir.yaml", "--limit", "login", "--trace", "/trace.csv",
                                   "--key", header[1], "--json"))
    assert answer


def test_it_hashes_a_password_and_logs_in_by_it(empty):
    copy_zones(empty)
    text = empty.weir("passwd", stdin="a secret\n").splitlines()[-1]
    assert text.startswith("$y$")
    server = empty.serve(CONFIG + f'users: [{{ name: ops, password: "{text}", may: [ask] }}]\n')
    ask = ["env", "WEIR_PASSWORD=a secret", *empty.enter, "/bin/weir", "ask", "login", "a", "--user", "ops",
           "--server", f"127.0.0.1:{server.resp}"]
    assert ", 9 of 10 left" in run(*ask)
    assert server.get("/v1/acquire/login?key=a").status == 401
    assert server.stop() == 0


# Where Debian, Fedora and Alpine keep authorities. OpenSSL itself looks in /usr/lib/ssl.
@pytest.mark.parametrize("place", ["etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/cert.pem"])
def test_it_speaks_tls_and_knows_the_authorities_of_the_system(empty, place):
    copy_zones(empty)
    top = empty.top / "etc"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", top / "key.pem", "-out", top / "cert.pem")
    for name in ("key.pem", "cert.pem"):
        (top / name).chmod(0o644)
    server = empty.serve(CONFIG + "tls: { cert: cert.pem, key: key.pem }\n")
    ask = ["ask", "login", "a", "--tls", "--server", f"127.0.0.1:{server.resp}"]
    with pytest.raises(AssertionError, match="certificate"):
        empty.weir(*ask)
    empty.write(place, (top / "cert.pem").read_text())
    assert ", 9 of 10 left" in empty.weir(*ask)
    assert server.stop() == 0


@pytest.fixture
def redis(tmp_path):
    server = RedisServer(tmp_path / "redis")
    yield server
    server.stop()


def test_it_finds_redis_by_its_name_and_loads_no_module_of_the_system(empty, redis):
    """/etc/nsswitch.conf names modules, as on most systems; each would load the system's C library."""
    copy_zones(empty)
    empty.write("etc/hosts", "127.0.0.1 counter.example\n")
    empty.write("etc/nsswitch.conf", "hosts: mymachines resolve [!UNAVAIL=return] files myhostname\n")
    for directory in pathlib.Path("/usr/lib").glob("*/libnss_*.so.2"):
        (empty.top / directory.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        (empty.top / directory.relative_to("/")).write_bytes(b"not a module of this C library")
    server = empty.serve(CONFIG + "nodes: 1\n", "--store", f"redis://counter.example:{redis.port}/0")
    # On a busy machine a call to Redis may take longer than `store_timeout`, and the server decides alone.
    until(lambda: "degraded" not in server.get("/v1/acquire/login?key=a").json, "an answer from Redis")
    maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
    assert ".so" not in maps
    assert server.stop() == 0
